/* The library with what its rooms offer each other. Its functions come from one object, compiled once for all programs
 * (Makefile). A test that needs what is static in a file of src/ includes this file behind library.h, too, and has the
 * functions of the file twice. The linker takes the test's, but in objects for Windows the library calls its own all
 * the same: a test that makes such a function do something else includes the files that call it, too. */
#ifndef LIBRARY_H
#define LIBRARY_H
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"
#include "job/job.h"
#include "split/mesh.h"
#include "split/split.h"
#include "text/tokenizer.h"
#define DIT_IMPLEMENTED /* programs that are compiled into a test say DIT_IMPLEMENTATION */
#endif
