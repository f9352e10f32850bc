#!/bin/sh
# make shaders: every module of MODULES, compiled into src/vk/spirv.inc and shaders/spirv.lock.
set -eu
mkdir -p build
cc -std=c99 -O1 -o build/spirv tools/spirv.c
build/spirv build shaders src/vk/spirv.inc
