/* Kernels for products of few rows with a large matrix, which is read once: add_product and product_transposed.
 *
 * A result takes its terms in an order of its own, whatever rows and columns are computed beside it, so that its bits
 * do not depend on them. The first rows of x read w in the order of memory, row by row, if its rows are short: the
 * processor fetches ahead of that and of nothing else (2-core Zen 4, 2026-11-30: 10 GB/s four rows at a time, 30 row by
 * row: LADDER.md). The other rows of x find w in the first-level cache. Where several rows compute meanwhile, Intel's
 * processors want to be asked all the same (base/cpu.h). Long rows are read four at a time, for a single row of x
 * eight, and what comes next is asked for.
 *
 * With `apart` w is read from four places at once, a group of its rows at a time: 23 GB/s in place of 13 on a 2-core
 * Zen 3 (2026-12-01), which fetches ahead within a page only, and 13 in place of 9.6 on a 2-core Sapphire Rapids.
 */
#include "base/cpu.h"
#include "base/fetch.h"
#include "kernels/simd.h"

/* Rows of x that share what was loaded of w, and rows of w at once. With 16 registers more would not fit. */
#define ROWS (VEC_BYTES == 64 ? 4 : 2)
#define DEPTH 4
#define DEPTH_ALONE 8 /* for a single row of x, of a wide matrix */

/* Rows of w that are asked for before they are read, by the first rows of x: into the second-level cache, since they
 * would drive each other from the first. */
#define AHEAD 16
#define ASK_FOR(w, elements) __builtin_prefetch(attn_fetch_address(w, (elements) * (int64_t)sizeof(real)), 0, 2)

/* Rows of w that go through all rows of x before the next ones. */
#define STRIP 16

/* `apart`: rows of w that are read together, DEPTH at a time from as many parts (places) of the group, and the fewest
 * worth it. */
#define GROUP 256
#define LEAST_GROUP 64

/* How far apart rows are read together of so many that are left; 0 when they are not worth it. */
INLINE int64_t group_step(int64_t left) {
    return left < LEAST_GROUP ? 0 : (left < GROUP ? left : GROUP) / DEPTH;
}

/* ---- add_product ------------------------------------------------------------------------------------------------- */

/* Rows of x and vectors of y that stay in registers: 24 of 32, or 12 of 16. */
#define PANEL_ROWS 3
#define PANEL_VECS (VEC_BYTES == 64 ? 8 : 4)

/* One row of w. */
INLINE void panel_row(int rows, int vecs, int64_t part, int64_t fetched, const real *const *factor, int64_t d,
                      const real *w, int64_t ld, int64_t j, vec (*sum)[PANEL_VECS]) {
    const real *row = w + d * ld;
    if (fetched > 0)
        attn_fetch(attn_fetch_address(row, STRIP * ld * (int64_t)sizeof(real)), fetched * (int64_t)sizeof(real),
                   ATTN_FETCH_TO_L2);
    UNROLLED
    for (int v = 0; v < vecs; v++) {
        vec loaded = part == 0 ? vec_load(row + j + v * LANES) : vec_load_part(row + j, part, 0);
        if (rows > 1)
            loaded = vec_kept(loaded);
        UNROLLED
        for (int r = 0; r < rows; r++)
            sum[r][v] = vec_fma(vec_all(factor[r][d]), loaded, sum[r][v]);
    }
}

/* y[r][j] += sum of x[r][c] w[c][j] over `depth` rows of w at each of `places` that are `step` rows apart, for `vecs`
 * vectors of columns, the last of them of `part` columns only; rows, vecs, places and whether there is a part are
 * constants at every call. A single row of x is so fast that the processor's guesses do harm (15 GB/s from memory in
 * place of 28), unless each load stands apart. */
INLINE void product_panel(int rows, int vecs, int64_t part, int64_t depth, int places, int64_t step, int64_t fetched,
                          const real *const *x, int64_t c, const real *w, int64_t ld, real *const *y, int64_t j) {
    vec sum[PANEL_ROWS][PANEL_VECS];
    const real *factor[PANEL_ROWS];
    UNROLLED
    for (int r = 0; r < rows; r++) {
        factor[r] = x[r] + c;
        UNROLLED
        for (int v = 0; v < vecs; v++)
            sum[r][v] = part == 0 ? vec_load(y[r] + j + v * LANES) : vec_load_part(y[r] + j, part, 0);
    }
    if (rows == 1 && places == 1 && depth == STRIP) {
        UNROLLED
        for (int64_t d = 0; d < STRIP; d++)
            panel_row(rows, vecs, part, fetched, factor, d, w, ld, j, sum);
    } else
        for (int64_t d = 0; d < depth; d++)
            for (int place = 0; place < places; place++)
                panel_row(rows, vecs, part, fetched, factor, d + place * step, w, ld, j, sum);
    UNROLLED
    for (int r = 0; r < rows; r++) {
        UNROLLED
        for (int v = 0; v < vecs; v++) {
            if (part == 0)
                vec_store(y[r] + j + v * LANES, sum[r][v]);
            else
                vec_store_part(y[r] + j, part, sum[r][v]);
        }
    }
}

/* All columns of some rows of y, which ask for what comes next: `fetched` columns, or none. */
INLINE void panels_of_rows(int rows, int64_t cols, int64_t depth, int places, int64_t step, int64_t fetched,
                           const real *const *x, int64_t c, const real *w, int64_t ld, real *const *y) {
    int64_t j = 0;
    for (; j + PANEL_VECS * LANES <= cols; j += PANEL_VECS * LANES, fetched = 0)
        product_panel(rows, PANEL_VECS, 0, depth, places, step, fetched, x, c, w, ld, y, j);
#if VEC_BYTES == 64
    if (j + 4 * LANES <= cols) {
        product_panel(rows, 4, 0, depth, places, step, 0, x, c, w, ld, y, j);
        j += 4 * LANES;
    }
#endif
    if (j + 2 * LANES <= cols) {
        product_panel(rows, 2, 0, depth, places, step, 0, x, c, w, ld, y, j);
        j += 2 * LANES;
    }
    if (j + LANES <= cols) {
        product_panel(rows, 1, 0, depth, places, step, 0, x, c, w, ld, y, j);
        j += LANES;
    }
    if (j < cols)
        product_panel(rows, 1, cols - j, depth, places, step, 0, x, c, w, ld, y, j);
}

/* All rows, three at a time; the first ones ask for what comes next. */
INLINE void product_strip(int64_t rows, int64_t cols, int64_t depth, int places, int64_t step, int64_t fetched,
                          const real *const *x, int64_t c, const real *w, int64_t ld, real *const *y) {
    int64_t r = 0;
    for (; r + 3 <= rows; r += 3, fetched = 0)
        panels_of_rows(3, cols, depth, places, step, fetched, x + r, c, w, ld, y + r);
    if (rows - r == 2)
        panels_of_rows(2, cols, depth, places, step, fetched, x + r, c, w, ld, y + r);
    else if (rows - r == 1)
        panels_of_rows(1, cols, depth, places, step, fetched, x + r, c, w, ld, y + r);
}

/* Wide matrices, and rows far apart: y[r][j] += sum of x[r][c + d step] w[d][j] over `depth` rows of w; rows and depth
 * are constants at every call. */
INLINE void product_step(int rows, int depth, bool fetch, int64_t cols, const real *const *x, int64_t c, int64_t step,
                         const real *w, int64_t ld, real *const *y) {
    vec factor[ROWS][DEPTH_ALONE];
    real *row[ROWS];
    for (int r = 0; r < rows; r++) {
        row[r] = y[r];
        for (int d = 0; d < depth; d++)
            factor[r][d] = vec_all(x[r][c + d * step]);
    }
    int64_t j = 0;
    for (; j + LANES <= cols; j += LANES) {
        vec loaded[DEPTH_ALONE];
        for (int d = 0; d < depth; d++) {
            loaded[d] = vec_load(w + d * ld + j);
            if (fetch)
                ASK_FOR(w, (d + AHEAD) * ld + j);
        }
        for (int r = 0; r < rows; r++) {
            vec sum = vec_load(row[r] + j);
            for (int d = 0; d < depth; d++)
                sum = vec_fma(factor[r][d], loaded[d], sum);
            vec_store(row[r] + j, sum);
        }
    }
    if (j == cols)
        return;
    for (int r = 0; r < rows; r++) {
        vec sum = vec_load_part(row[r] + j, cols - j, 0);
        for (int d = 0; d < depth; d++)
            sum = vec_fma(factor[r][d], vec_load_part(w + d * ld + j, cols - j, 0), sum);
        vec_store_part(row[r] + j, cols - j, sum);
    }
}

/* One step for all rows of x; `w` stays in the first-level cache meanwhile. */
INLINE void product_steps(int depth, bool fetch, int64_t rows, int64_t cols, const real *const *x, int64_t c,
                          int64_t step, const real *w, int64_t ld, real *const *y) {
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS)
        product_step(ROWS, depth, fetch && r == 0, cols, x + r, c, step, w, ld, y + r);
    for (; r < rows; r++)
        product_step(1, depth, fetch && r == 0, cols, x + r, c, step, w, ld, y + r);
}

/* Columns from which a matrix is wide. */
#define WIDE (4 * PANEL_VECS * LANES)

void KERNEL(add_product)(int64_t rows, int64_t cols, int64_t k, bool apart, const real *const *x, const real *w,
                         int64_t ld, real *const *y) {
    int64_t c = 0;
    for (int64_t step; apart && (step = group_step(k - c)) > 0; c += step * DEPTH) {
        int64_t first = rows < ROWS ? rows : ROWS; /* rows that read w; the others find it in the first-level cache */
        for (int64_t d = 0; d < step; d += STRIP / DEPTH) {
            int64_t depth = step - d < STRIP / DEPTH ? step - d : STRIP / DEPTH;
            for (int64_t i = c + d; i < c + d + depth; i++)
                product_steps(DEPTH, false, first, cols, x, i, step, w + i * ld, step * ld, y);
            product_strip(rows - first, cols, depth, DEPTH, step, 0, x + first, c + d, w + (c + d) * ld, ld, y + first);
        }
    }
    for (; cols > WIDE && rows < ROWS && c + DEPTH_ALONE <= k; c += DEPTH_ALONE)
        for (int64_t r = 0; r < rows; r++)
            product_step(1, DEPTH_ALONE, r == 0, cols, x + r, c, 1, w + c * ld, ld, y + r);
    for (; cols > WIDE && c + DEPTH <= k; c += DEPTH)
        product_steps(DEPTH, true, rows, cols, x, c, 1, w + c * ld, ld, y);
    for (; cols > WIDE && c < k; c++)
        product_steps(1, true, rows, cols, x, c, 1, w + c * ld, ld, y);
    /* where columns take more than one panel w is not read in order */
    int64_t fetched = cols > PANEL_VECS * LANES || (rows > 1 && attn_cpu_is_to_be_asked()) ? cols : 0;
    for (; c < k; c += STRIP)
        product_strip(rows, cols, k - c < STRIP ? k - c : STRIP, 1, 0, fetched, x, c, w + c * ld, ld, y);
}

/* ---- product_transposed ------------------------------------------------------------------------------------------ */

/* Rows of x that read w in order, and the most columns, so that these rows stay in the first-level cache. */
#define FIRST_ROWS 4
#define IN_ORDER 512

#define MOST_RESULTS 16

/* rows x cols results, columns j, j + step and so on, from their sums, which are made across lanes for LANES results at
 * a time. */
INLINE void store_results(int rows, int cols, real scale, vec *sum, real *const *y, int64_t j, int64_t step) {
    int results = rows * cols, padded = (results + LANES - 1) / LANES * LANES;
    UNROLLED
    for (int i = results; i < padded; i++)
        sum[i] = vec_all(0);
    real result[MOST_RESULTS + LANES];
    for (int i = 0; i < padded; i += LANES)
        vec_store(result + i, scale * vec_sum_of_each(sum + i));
    UNROLLED
    for (int r = 0; r < rows; r++) {
        UNROLLED
        for (int d = 0; d < cols; d++)
            y[r][j + d * step] = result[r * cols + d];
    }
}

/* rows x cols results at column j, w row by row; rows and cols are constants at every call. */
INLINE void transposed_in_order(int rows, int cols, bool fetch, int64_t k, real scale, const real *const *x,
                                const real *w, int64_t ld, real *const *y, int64_t j) {
    vec sum[MOST_RESULTS + LANES];
    const real *row[FIRST_ROWS];
    for (int r = 0; r < rows; r++)
        row[r] = x[r];
#pragma GCC unroll 1
    for (int d = 0; d < cols; d++) {
        /* not unrolled: gcc 12 would mix the loads of several rows, no longer in the order of memory */
        vec of_row[FIRST_ROWS];
        for (int r = 0; r < rows; r++)
            of_row[r] = vec_all(0);
        int64_t c = 0;
        const real *wr = w + d * ld;
#pragma GCC unroll 8
        for (; c + LANES <= k; c += LANES) {
            vec loaded = vec_load(wr + c);
            if (fetch)
                ASK_FOR(wr, AHEAD * ld + c);
            if (rows > 1)
                loaded = vec_kept(loaded);
            for (int r = 0; r < rows; r++)
                of_row[r] = vec_fma(vec_load(row[r] + c), loaded, of_row[r]);
        }
        for (int r = 0; r < rows; r++) {
            if (c < k)
                of_row[r] =
                    vec_fma(vec_load_part(row[r] + c, k - c, 0), vec_load_part(w + d * ld + c, k - c, 0), of_row[r]);
            sum[r * cols + d] = of_row[r];
        }
    }
    store_results(rows, cols, scale, sum, y, j, 1);
}

/* The same, several rows of w at a time, for columns j, j + step and so on. */
INLINE void transposed_block(int rows, int cols, bool fetch, int64_t k, real scale, const real *const *x, const real *w,
                             int64_t ld, real *const *y, int64_t j, int64_t step) {
    vec sum[MOST_RESULTS + LANES];
    const real *row[ROWS];
    UNROLLED
    for (int i = 0; i < rows * cols; i++)
        sum[i] = vec_all(0);
    for (int r = 0; r < rows; r++)
        row[r] = x[r];
    int64_t c = 0;
    for (; c + LANES <= k; c += LANES) {
        vec factor[ROWS];
        for (int r = 0; r < rows; r++)
            factor[r] = vec_load(row[r] + c);
        UNROLLED
        for (int d = 0; d < cols; d++) {
            vec loaded = vec_load(w + d * ld + c);
            if (fetch)
                ASK_FOR(w, (d + AHEAD) * ld + c);
            UNROLLED
            for (int r = 0; r < rows; r++)
                sum[r * cols + d] = vec_fma(factor[r], loaded, sum[r * cols + d]);
        }
    }
    UNROLLED
    for (int r = 0; r < rows && c < k; r++) {
        vec factor = vec_load_part(row[r] + c, k - c, 0);
        UNROLLED
        for (int d = 0; d < cols; d++)
            sum[r * cols + d] = vec_fma(factor, vec_load_part(w + d * ld + c, k - c, 0), sum[r * cols + d]);
    }
    store_results(rows, cols, scale, sum, y, j, step);
}

/* The first rows of x over a strip of w; returns how many they are. fetch is a constant at every call. */
INLINE int64_t transposed_first(int64_t rows, bool fetch, int64_t k, real scale, const real *const *x, const real *w,
                                int64_t ld, real *const *y, int64_t j) {
    if (rows == 1) {
        transposed_in_order(1, STRIP, false, k, scale, x, w, ld, y, j);
        return 1;
    }
    if (k > IN_ORDER) {
        for (int d = 0; d < STRIP; d += DEPTH)
            if (rows < ROWS)
                transposed_block(2, DEPTH, true, k, scale, x, w + d * ld, ld, y, j + d, 1);
            else
                transposed_block(ROWS, DEPTH, true, k, scale, x, w + d * ld, ld, y, j + d, 1);
        return rows < ROWS ? 2 : ROWS;
    }
    if (rows < FIRST_ROWS) {
        for (int d = 0; d < STRIP; d += 8)
            transposed_in_order(2, 8, fetch, k, scale, x, w + d * ld, ld, y, j + d);
        return 2;
    }
    for (int d = 0; d < STRIP; d += DEPTH)
        transposed_in_order(FIRST_ROWS, DEPTH, fetch, k, scale, x, w + d * ld, ld, y, j + d);
    return FIRST_ROWS;
}

INLINE void transposed_rows(int64_t rows, int64_t cols, int64_t k, bool apart, real scale, const real *const *x,
                            const real *w, int64_t ld, real *const *y) {
    int64_t j = 0;
    for (int64_t step; apart && (step = group_step(cols - j)) > 0; j += step * DEPTH)
        for (int64_t d = 0; d < step; d++) {
            const real *wd = w + (j + d) * ld;
            int64_t r = 0;
            for (; r + ROWS <= rows; r += ROWS)
                transposed_block(ROWS, DEPTH, false, k, scale, x + r, wd, step * ld, y + r, j + d, step);
            for (; r < rows; r++)
                transposed_block(1, DEPTH, false, k, scale, x + r, wd, step * ld, y + r, j + d, step);
        }
    for (; j + STRIP <= cols && rows > 0; j += STRIP) {
        const real *strip = w + j * ld;
        int64_t r = attn_cpu_is_to_be_asked() ? transposed_first(rows, true, k, scale, x, strip, ld, y, j)
                                              : transposed_first(rows, false, k, scale, x, strip, ld, y, j);
        for (; r + ROWS <= rows; r += ROWS)
            for (int d = 0; d < STRIP; d += DEPTH)
                transposed_block(ROWS, DEPTH, false, k, scale, x + r, strip + d * ld, ld, y + r, j + d, 1);
        for (; r < rows; r++)
            transposed_in_order(1, STRIP, false, k, scale, x + r, strip, ld, y + r, j);
    }
    for (; j < cols; j++)
        for (int64_t r = 0; r < rows; r++)
            transposed_in_order(1, 1, false, k, scale, x + r, w + j * ld, ld, y + r, j);
}

/* Loops of a known length for the head sizes of most models: a fifth faster where the cache holds w. */
void KERNEL(product_transposed)(int64_t rows, int64_t cols, int64_t k, bool apart, real scale, const real *const *x,
                                const real *w, int64_t ld, real *const *y) {
    if (k == 128)
        transposed_rows(rows, cols, 128, apart, scale, x, w, ld, y);
    else if (k == 64)
        transposed_rows(rows, cols, 64, apart, scale, x, w, ld, y);
    else
        transposed_rows(rows, cols, k, apart, scale, x, w, ld, y);
}
