/* The library of the package dit_h, which setup.py compiles. */
#define DIT_IMPLEMENTATION
#include "dit.h"
