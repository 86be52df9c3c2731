/* Sinusoidal positions against long double, within the bounds that position.h states. */
#ifndef POSITION_CHECK_H
#define POSITION_CHECK_H

#include "chain_test.h"

#include <math.h>

/* Compares rows start .. start+rows-1 with the oracle; returns the largest error in units of its bound. */
static inline double check_positions(int64_t rows, int64_t d_model, int64_t start, double base) {
    real *p = poisoned(rows * d_model);
    long double *wanted = malloc((size_t)d_model * sizeof *wanted);
    assert_non_null(wanted);
    assert_ok(REAL(attn_sinusoidal)(NULL, rows, d_model, start, base, p, d_model));
    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        support_oracle_sinusoidal(start + r, d_model, base, wanted);
        for (int64_t c = 0; c < d_model; c++) {
            long double angle = absolute((long double)(start + r)) /
                                powl((long double)base, (long double)(c / 2 * 2) / (long double)d_model);
            long double bound = sizeof(real) == 4 ? 0x1p-23L : 4 * 0x1p-52L * (1 + angle);
            long double ratio = absolute(p[r * d_model + c] - wanted[c]) / bound;
            if (!(ratio <= (long double)support_valgrind_factor(REAL_DTYPE)))
                fail_msg("position %lld, column %lld of %lld, base %g: %.17g, wanted %.17Lg, error %.3Lg bounds",
                         (long long)(start + r), (long long)c, (long long)d_model, base, (double)p[r * d_model + c],
                         wanted[c], ratio);
            worst = fmax(worst, (double)ratio);
        }
    }
    free(p);
    free(wanted);
    return worst;
}

#endif
