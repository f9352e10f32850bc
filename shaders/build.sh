#!/bin/sh
# Compiles every module of MODULES into src/vk/spirv.inc, src/vk/kernels.h and shaders/spirv.lock, as make shaders does.
set -eu
mkdir -p build
cc -std=c99 -O1 -o build/spirv tools/spirv.c
build/spirv build shaders src/vk/spirv.inc src/vk/kernels.h
