/* Slopes of ALiBi: powers of two that fall from head to head. */
#include <attn/position.h>

#include "base/checks.h"
#include "position/angles.h"

attn_status REAL(attn_alibi_slopes)(int64_t heads, real *slopes) {
    ATTN_TRY(attn_check_size("heads", heads, 0));
    attn_extent output = attn_extent_vector("slopes", slopes, heads, sizeof(real));
    ATTN_TRY(attn_check_array(&output));
    int64_t power = 1;
    while (power <= heads / 2)
        power *= 2;
    for (int64_t h = 0; h < heads; h++) {
        double exponent =
            h < power ? 8 * (double)(h + 1) / (double)power : 8 * (double)(2 * (h - power) + 1) / (2 * (double)power);
        slopes[h] = (real)exp2(-exponent);
    }
    return ATTN_OK;
}
