/* The row of coefficients of one solver step: shaders/solver.glsl includes this file, so that the host and the kernels
   agree on the place of every coefficient. */
#ifndef DITI_SOLVER_ROW_H
#define DITI_SOLVER_ROW_H

/* Each member with its place in the row. sample/sample.h has the formula and its names. */
#define DITI_SOLVER_ROW(MEMBER)                                                                                        \
    MEMBER(0, x0_x)                                                                                                    \
    MEMBER(1, x0_m)                                                                                                    \
    MEMBER(2, clip)                                                                                                    \
    MEMBER(3, x_x)                                                                                                     \
    MEMBER(4, x_m)                                                                                                     \
    MEMBER(5, d0)                                                                                                      \
    MEMBER(6, d1)                                                                                                      \
    MEMBER(7, d2)                                                                                                      \
    MEMBER(8, noise)                                                                                                   \
    MEMBER(9, guidance) /* the scale */                                                                                \
    MEMBER(10, number)  /* number of the step, from 1 on, which health tells when this step goes wrong */              \
    MEMBER(11, noise_v)                                                                                                \
    MEMBER(12, x_y)                                                                                                    \
    MEMBER(13, y_x)                                                                                                    \
    MEMBER(14, y_y)                                                                                                    \
    MEMBER(15, e0)                                                                                                     \
    MEMBER(16, e1)                                                                                                     \
    MEMBER(17, e2)                                                                                                     \
    MEMBER(18, rescale)         /* 0..1: how far guidance keeps the deviation of the conditional prediction */         \
    MEMBER(19, project)         /* 0..1: how much of what points along that prediction guidance leaves out */          \
    MEMBER(20, norm_limit)      /* largest norm that guidance may add */                                               \
    MEMBER(21, guided_channels) /* the first ones of an image, unless guidance is mixed */                             \
    MEMBER(22, kept_x0)                                                                                                \
    MEMBER(23, kept_noise)                                                                                             \
    MEMBER(24, d3)                                                                                                     \
    MEMBER(25, push)                                                                                                   \
    MEMBER(26, shown_x)                                                                                                \
    MEMBER(27, shown_x0)                                                                                               \
    MEMBER(28, length_limit) /* most lengths of the conditional prediction that the guided one may have */

/* Floats of the row; behind them stand two for each image of the batch, which shaders/guidance.comp writes, and where
   frames are held three for each frame: x and noise before the step, and moves (diti_frame_step). */
#define DITI_COEFFICIENTS 29u
#endif
