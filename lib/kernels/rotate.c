/* Kernels rotate_interleaved and rotate_halves: rotary positions of one row.
 *
 * A pair (a, b) becomes (a c - b s, b c + a s): the product with s rounded, the rest in one fused step where the
 * instruction set has it, so that both pairings and all tails give the same bits.
 */
#include <string.h>

#include "kernels/simd.h"

INLINE void rotate(vec cosine, vec sine, vec *a, vec *b) {
    vec first = vec_fma(*a, cosine, -(*b * sine));
    *b = vec_fma(*b, cosine, *a * sine);
    *a = first;
}

void KERNEL(rotate_halves)(int64_t pairs, int64_t half, const real *cosine, const real *sine, real direction,
                           const real *x, real *y) {
    int64_t k = 0;
    for (; k + LANES <= pairs; k += LANES) {
        vec a = vec_load(x + k), b = vec_load(x + half + k);
        rotate(vec_load(cosine + k), direction * vec_load(sine + k), &a, &b);
        vec_store(y + k, a);
        vec_store(y + half + k, b);
    }
    int64_t rest = pairs - k;
    if (rest > 0) {
        vec a = vec_load_part(x + k, rest, 0), b = vec_load_part(x + half + k, rest, 0);
        rotate(vec_load_part(cosine + k, rest, 0), direction * vec_load_part(sine + k, rest, 0), &a, &b);
        vec_store_part(y + k, rest, a);
        vec_store_part(y + half + k, rest, b);
    }
}

/* LANES pairs that stand side by side. */
INLINE void rotate_neighbours(vec cosine, vec sine, const real *x, real *y) {
    union {
        vec v;
        real lane[LANES];
    } a, b;
    for (int i = 0; i < LANES; i++) {
        a.lane[i] = x[2 * i];
        b.lane[i] = x[2 * i + 1];
    }
    rotate(cosine, sine, &a.v, &b.v);
    for (int i = 0; i < LANES; i++) {
        y[2 * i] = a.lane[i];
        y[2 * i + 1] = b.lane[i];
    }
}

void KERNEL(rotate_interleaved)(int64_t pairs, const real *cosine, const real *sine, real direction, const real *x,
                                real *y) {
    int64_t k = 0;
    for (; k + LANES <= pairs; k += LANES)
        rotate_neighbours(vec_load(cosine + k), direction * vec_load(sine + k), x + 2 * k, y + 2 * k);
    int64_t rest = pairs - k;
    if (rest > 0) {
        real row[2 * LANES] = {0};
        memcpy(row, x + 2 * k, 2 * (size_t)rest * sizeof *row);
        rotate_neighbours(vec_load_part(cosine + k, rest, 0), direction * vec_load_part(sine + k, rest, 0), row, row);
        memcpy(y + 2 * k, row, 2 * (size_t)rest * sizeof *row);
    }
}
