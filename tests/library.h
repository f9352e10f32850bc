/* The library with what its rooms offer each other. The functions come from one object, compiled once for all programs
 * (Makefile). A program that needs what is static in a file, or dit.h as it is, has DIT_IMPLEMENTATION instead. */
#ifndef LIBRARY_H
#define LIBRARY_H
#include "job/job.h"
#include "split/mesh.h"
#include "split/split.h"
#include "text/tokenizer.h"
#endif
