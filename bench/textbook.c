/* The projection as the formula is written: y[i][j] = sum_c x[i][c] w[c][j], loops i, j, c. */
#include "textbook.h"

#include "base/real.h"

void REAL(textbook_project)(int64_t rows, int64_t d_in, int64_t d_out, const real *x, int64_t x_stride, const real *w,
                            int64_t w_stride, real *y, int64_t y_stride) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < d_out; j++) {
            real sum = 0;
            for (int64_t c = 0; c < d_in; c++)
                sum += x[i * x_stride + c] * w[c * w_stride + j];
            y[i * y_stride + j] = sum;
        }
}
