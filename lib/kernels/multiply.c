/* Kernel multiply: products of tiles whose w fits the cache, for BLAS cores that leave vectors of this CPU unused or
 * pack even a tile.
 *
 * A block of results stays in registers over its terms, each result in sums of ascending terms, so that its bits depend
 * on its own row and column alone. Columns of a block outermost: its part of w stays in the first-level cache for all
 * rows.
 */
#include "kernels/simd.h"

/* Rows and vectors of a block: 24 of 32 registers hold sums, or 12 of 16, and each load of w serves all rows. Where
 * fewer columns are left the block is taller. */
#if defined(ATTN_KERNEL_ISA_AVX512) || defined(ATTN_KERNEL_ISA_NEON)
#define BLOCK_VECS 4
#define MOST_SUMS 24
#else
#define BLOCK_VECS 2
#define MOST_SUMS 12
#endif
#define MOST_ROWS 12
#define ROWS_OF(vecs) (MOST_SUMS / (vecs) < MOST_ROWS ? MOST_SUMS / (vecs) : MOST_ROWS)

/* Terms of a sum, whose part of w stays in the first-level cache: longer ones are added up from such, which is more
 * exact. */
#ifdef ATTN_KERNEL_ISA_AVX512
#define MOST_TERMS 128
#else
#define MOST_TERMS 256
#endif

/* Rows that one address serves, with the row stride and twice it: more would not fit the integer registers. */
#define ADDRESS_ROWS 3

/* Some columns of a product, at which w and y begin: whole vectors, or the last of them a `part` of one. */
typedef struct column_product {
    int64_t rows, k, part;
    const real *x, *w;
    real *y;
    int64_t ldx, ldw, ldy;
    real alpha;
    bool add;
} column_product;

/* The sums of rows x vecs results to `row` and below. All arguments but p, row and sum are constants at every call. */
INLINE void store_block(int rows, int vecs, bool ragged, bool add, const column_product *p, real *row,
                        vec (*sum)[BLOCK_VECS]) {
    const int64_t ldy = p->ldy;
    const vec alpha = vec_all(p->alpha);
    UNROLLED
    for (int r = 0; r < rows; r++, row += ldy) {
        UNROLLED
        for (int v = 0; v < vecs; v++) {
            real *y = row + v * LANES;
            vec result = alpha * sum[r][v];
            if (ragged && v == vecs - 1)
                vec_store_part(y, p->part, add ? vec_load_part(y, p->part, 0) + result : result);
            else
                vec_store(y, add ? vec_load(y) + result : result);
        }
    }
}

/* rows x vecs results from rows of x. All arguments but p, x and y are constants at every call. */
INLINE void multiply_block(int rows, int vecs, bool ragged, const column_product *p, const real *x, real *y) {
    vec sum[MOST_ROWS][BLOCK_VECS];
    const real *address[MOST_ROWS / ADDRESS_ROWS];
    int64_t ldx = p->ldx, ldw = p->ldw, k = p->k, part = p->part;
    UNROLLED
    for (int r = 0; r < rows; r++) {
        if (r % ADDRESS_ROWS == 0)
            address[r / ADDRESS_ROWS] = x + r * ldx;
        UNROLLED
        for (int v = 0; v < vecs; v++)
            sum[r][v] = vec_all(0);
    }
    const real *w = p->w;
    for (int64_t c = 0; c < k; c++, w += ldw) {
        vec loaded[BLOCK_VECS];
        UNROLLED
        for (int v = 0; v < vecs; v++)
            loaded[v] =
                vec_kept(ragged && v == vecs - 1 ? vec_load_part(w + v * LANES, part, 0) : vec_load(w + v * LANES));
        UNROLLED
        for (int r = 0; r < rows; r++) {
            vec factor = vec_kept(vec_all(address[r / ADDRESS_ROWS][c + r % ADDRESS_ROWS * ldx]));
            UNROLLED
            for (int v = 0; v < vecs; v++)
                sum[r][v] = vec_fma(factor, loaded[v], sum[r][v]);
        }
    }
    /* nothing of what follows may take a register before */
    __asm__ volatile("" ::: "memory");
    if (p->add)
        store_block(rows, vecs, ragged, true, p, y, sum);
    else
        store_block(rows, vecs, ragged, false, p, y, sum);
}

/* All rows of so many vectors of columns. A function for each number: gcc 12 runs out of registers where they share
 * one. */
#define DEFINE_COLUMNS(name, vecs, ragged)                                                                             \
    static __attribute__((noinline)) void name(const column_product *p) {                                              \
        const real *x = p->x;                                                                                          \
        real *y = p->y;                                                                                                \
        int64_t left = p->rows;                                                                                        \
        for (; left >= ROWS_OF(vecs); left -= ROWS_OF(vecs)) {                                                         \
            multiply_block(ROWS_OF(vecs), vecs, ragged, p, x, y);                                                      \
            x += ROWS_OF(vecs) * p->ldx;                                                                               \
            y += ROWS_OF(vecs) * p->ldy;                                                                               \
        }                                                                                                              \
        for (; left >= 4; left -= 4, x += 4 * p->ldx, y += 4 * p->ldy)                                                 \
            multiply_block(4, vecs, ragged, p, x, y);                                                                  \
        for (; left > 0; left--, x += p->ldx, y += p->ldy)                                                             \
            multiply_block(1, vecs, ragged, p, x, y);                                                                  \
    }

DEFINE_COLUMNS(whole_1, 1, false)
DEFINE_COLUMNS(whole_2, 2, false)
DEFINE_COLUMNS(ragged_1, 1, true)
DEFINE_COLUMNS(ragged_2, 2, true)
#if BLOCK_VECS == 4
DEFINE_COLUMNS(whole_3, 3, false)
DEFINE_COLUMNS(whole_4, 4, false)
DEFINE_COLUMNS(ragged_3, 3, true)
DEFINE_COLUMNS(ragged_4, 4, true)
#endif

/* By the number of vectors, less one. */
static void (*const whole[BLOCK_VECS])(const column_product *p) = {
    whole_1,
    whole_2,
#if BLOCK_VECS == 4
    whole_3,
    whole_4,
#endif
};
static void (*const ragged[BLOCK_VECS])(const column_product *p) = {
    ragged_1,
    ragged_2,
#if BLOCK_VECS == 4
    ragged_3,
    ragged_4,
#endif
};

/* `depth` terms for all columns. */
INLINE void multiply_terms(int64_t rows, int64_t cols, int64_t depth, real alpha, const real *x, int64_t ldx,
                           const real *w, int64_t ldw, bool add, real *y, int64_t ldy) {
    for (int64_t j = 0; j < cols; j += BLOCK_VECS * LANES) {
        int64_t left = cols - j < BLOCK_VECS * LANES ? cols - j : BLOCK_VECS * LANES;
        const column_product p = {.rows = rows,
                                  .k = depth,
                                  .part = left % LANES,
                                  .x = x,
                                  .w = w + j,
                                  .y = y + j,
                                  .ldx = ldx,
                                  .ldw = ldw,
                                  .ldy = ldy,
                                  .alpha = alpha,
                                  .add = add};
        (p.part == 0 ? whole : ragged)[(left - 1) / LANES](&p);
    }
}

void KERNEL(multiply)(int64_t rows, int64_t cols, int64_t k, real alpha, const real *x, int64_t ldx, const real *w,
                      int64_t ldw, bool add, real *y, int64_t ldy) {
    int64_t c = 0;
    do {
        int64_t depth = k - c < MOST_TERMS ? k - c : MOST_TERMS;
        multiply_terms(rows, cols, depth, alpha, x + c, ldx, w + c * ldw, ldw, add || c > 0, y, ldy);
        c += MOST_TERMS;
    } while (c < k);
}
