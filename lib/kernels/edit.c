/* Kernels that edit a row of scores between the product and softmax: softcap, add_bias, add_alibi, hide. */
#include <tgmath.h>

#include "kernels/simd.h"

void KERNEL(softcap)(int64_t n, real cap, real *s) {
    for (int64_t i = 0; i < n; i++)
        s[i] = cap * tanh(s[i] / cap);
}

/* s + b; -Inf where b is -Inf, whatever s is. */
INLINE vec biased(vec s, vec b) {
    const vec hidden = vec_all((real)-INFINITY);
    return vec_select(b == hidden, hidden, s + b);
}

void KERNEL(add_bias)(int64_t n, const real *b, real *s) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(s + i, biased(vec_load(s + i), vec_load(b + i)));
    if (i < n)
        vec_store_part(s + i, n - i, biased(vec_load_part(s + i, n - i, 0), vec_load_part(b + i, n - i, 0)));
}

void KERNEL(add_alibi)(int64_t n, real slope, double distance, real *s) {
    for (int64_t i = 0; i < n; i++)
        s[i] -= slope * (real)fabs(distance - (double)i);
}

void KERNEL(hide)(int64_t n, const uint8_t *mask, real *s) {
    for (int64_t i = 0; i < n; i++)
        s[i] = mask[i] != 0 ? s[i] : (real)-INFINITY;
}
