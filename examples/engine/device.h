/* The renderer's device, as dit is told of it; renderer.c, which knows nothing of dit, calls device_extend alone. */
#ifndef DEVICE_H
#define DEVICE_H
#include "engine.h"
#include "dit.h"

/* dit works on the queue that only computes, where there is one. */
dit_vulkan device_for_dit(renderer *r);
#endif
