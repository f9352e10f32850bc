// The row of coefficients and the layout of predictions, which solver.comp and guidance.comp have in common. Include
// after the push constants and the binding `row`.
#include "../src/graph/solver_row.h"
#define PLACE(AT, NAME) const uint ROW_##NAME = AT;
DITI_SOLVER_ROW(PLACE)
#define ROW(NAME) row_load1(FORMAT_F32, row_offset + ROW_##NAME)
#define IMAGE_AT(IMAGE) (row_offset + DITI_COEFFICIENTS + 2u * (IMAGE)) // the two numbers of guidance.comp for an image
#define FRAMES_AT IMAGE_AT(rows / channels) // three numbers for each frame where some are held

layout(constant_id = 1) const bool LEARNED = false; // below each image's prediction stands that of the variance

// Where the first half of the batch has the prediction for a row of the latent; the second half is as long.
uint prediction_row(uint row) { return LEARNED ? row + row / channels * channels : row; }
uint prediction_half() { return LEARNED ? 2u * rows : rows; }
