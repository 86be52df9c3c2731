/* Names and prototypes of the kernels of each instruction set: what defines them (the kernel sources, through KERNEL)
 * and what puts them into tables (table.c) must agree on. */
#ifndef ATTN_LIB_KERNEL_LIST_H
#define ATTN_LIB_KERNEL_LIST_H

#include "kernels/kernels.h"

/* KERNEL_OF(exp, avx2) is attn_exp_avx2_f32 or attn_exp_avx2_f64. */
#define KERNEL_OF(name, isa) KERNEL_OF_EXPANDED(name, isa)
#define KERNEL_OF_EXPANDED(name, isa) KERNEL_WITH_SUFFIX(attn_##name##_##isa)
#define KERNEL_WITH_SUFFIX(name) REAL(name)

#define DECLARE_KERNELS(isa)                                                                                           \
    void KERNEL_OF(exp, isa)(int64_t n, const real *x, real *y);                                                       \
    real KERNEL_OF(softmax_row, isa)(int64_t n, const real *x, real *y);                                               \
    int64_t KERNEL_OF(softmax_tile, isa)(int64_t rows, int64_t cols, real * s, int64_t ld, bool keep, real *row_max,   \
                                         real *row_sum, real *rescale);                                                \
    void KERNEL_OF(scale_rows, isa)(int64_t rows, int64_t cols, real * o, int64_t ld, const real *factor);             \
    void KERNEL_OF(scaled, isa)(int64_t n, real factor, const real *x, real *y);                                       \
    void KERNEL_OF(divided, isa)(int64_t n, real factor, real divisor, const real *x, real *y);                        \
    void KERNEL_OF(transpose, isa)(int64_t rows, int64_t cols, const real *x, int64_t ldx, real *y, int64_t ldy);      \
    bool KERNEL_OF(all_finite, isa)(int64_t rows, int64_t cols, const real *x, int64_t ld);                            \
    void KERNEL_OF(add_product, isa)(int64_t rows, int64_t cols, int64_t k, bool apart, const real *const *x,          \
                                     const real *w, int64_t ld, real *const *y);                                       \
    void KERNEL_OF(product_transposed, isa)(int64_t rows, int64_t cols, int64_t k, bool apart, real scale,             \
                                            const real *const *x, const real *w, int64_t ld, real *const *y);          \
    void KERNEL_OF(multiply, isa)(int64_t rows, int64_t cols, int64_t k, real alpha, const real *x, int64_t ldx,       \
                                  const real *w, int64_t ldw, bool add, real *y, int64_t ldy);                         \
    void KERNEL_OF(add, isa)(int64_t n, const real *x, const real *y, real *z);                                        \
    void KERNEL_OF(softcap, isa)(int64_t n, real cap, real * s);                                                       \
    void KERNEL_OF(add_bias, isa)(int64_t n, const real *b, real *s);                                                  \
    void KERNEL_OF(add_alibi, isa)(int64_t n, real slope, double distance, real *s);                                   \
    void KERNEL_OF(hide, isa)(int64_t n, const uint8_t *mask, real *s);                                                \
    void KERNEL_OF(sincos, isa)(int64_t n, const double *angle, real *sine, real *cosine);                             \
    void KERNEL_OF(rotate_interleaved, isa)(int64_t pairs, const real *cosine, const real *sine, real direction,       \
                                            const real *x, real *y);                                                   \
    void KERNEL_OF(rotate_halves, isa)(int64_t pairs, int64_t half, const real *cosine, const real *sine,              \
                                       real direction, const real *x, real *y)

DECLARE_KERNELS(generic);
DECLARE_KERNELS(neon);
DECLARE_KERNELS(avx2);
DECLARE_KERNELS(avx512);

/* What the matrix unit has beside avx512, in float. */
void attn_split_rows_amx_f32(int64_t rows, int64_t k, int64_t skip, float scale, const float *x, int64_t ldx,
                             void *parts, uint8_t *wild);
void attn_split_values_amx_f32(int64_t k, int64_t cols, int64_t skip, const float *w, int64_t ldw, void *parts);
void attn_split_keys_amx_f32(int64_t cols, int64_t k, int64_t skip, const float *w, int64_t ldw, void *parts,
                             uint8_t *wild);
void attn_multiply_parts_amx_f32(const attn_parts_product *product);
void attn_parts_begin_amx_f32(void);
void attn_parts_end_amx_f32(void);

#endif
