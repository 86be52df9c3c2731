/* Kernels that edit a row of scores between the product and softmax: softcap, add_bias, add_alibi, hide. */
#include <string.h>

#include "kernels/vtanh.h"

INLINE vec capped(vec s, real cap) {
    return cap * vtanh(s / cap);
}

void KERNEL(softcap)(int64_t n, real cap, real *s) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(s + i, capped(vec_load(s + i), cap));
    if (i < n)
        vec_store_part(s + i, n - i, capped(vec_load_part(s + i, n - i, 0), cap));
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

typedef int64_t doubles_bits __attribute__((vector_size(LANES * sizeof(double))));

/* s less slope * |distance - j| for the lanes j = first, first + 1, ...; the distance is rounded to real last. */
INLINE vec with_alibi(vec s, real slope, double distance, int64_t first) {
    static const double lane_numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    doubles j;
    memcpy(&j, lane_numbers, sizeof j);
    j += (double)first;
    doubles away = (doubles)((doubles_bits)(distance - j) & INT64_MAX);
    return s - slope * __builtin_convertvector(away, vec);
}

/* The same for j = 0, 1, ... and whole numbers below 1 / eps: they are exact in real. */
INLINE vec with_near_alibi(vec s, real slope, real distance) {
    static const real lane_numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vec away = (vec)((vec_bits)(distance - vec_load(lane_numbers)) & ~(vec_bits)vec_all((real)-0.0));
    return s - slope * away;
}

void KERNEL(add_alibi)(int64_t n, real slope, double distance, real *s) {
    int64_t i = 0;
    if (fabs(distance) + (double)n < 1 / REAL_EPSILON)
        for (; i + LANES <= n; i += LANES)
            vec_store(s + i, with_near_alibi(vec_load(s + i), slope, (real)distance - (real)i));
    for (; i + LANES <= n; i += LANES)
        vec_store(s + i, with_alibi(vec_load(s + i), slope, distance, i));
    if (i < n)
        vec_store_part(s + i, n - i, with_alibi(vec_load_part(s + i, n - i, 0), slope, distance, i));
}

/* A plain loop: compilers vectorise it, because it reads s[i] whatever the mask says. */
void KERNEL(hide)(int64_t n, const uint8_t *restrict mask, real *restrict s) {
    for (int64_t i = 0; i < n; i++) {
        real shown = s[i];
        s[i] = mask[i] != 0 ? shown : (real)-INFINITY;
    }
}
