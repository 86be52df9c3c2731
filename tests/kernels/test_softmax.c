/* Kernels softmax_row and softmax_tile against long double: every length of tail, hidden and non-finite scores, rows
 * that are empty at first or for good, and nothing read or written beside the rows. */
#include "kernel_test.h"

#define LONGEST 130

/* exp(x - maximum) is off by the rounding of x - maximum, the exponential's ulp and the sum's rounding; results below
 * the smallest normal number may be 0. */
static long double weight_tolerance(long double distance, long double weight) {
    double factor = support_valgrind_factor(REAL_DTYPE);
    return (4 + fabsl(distance) / 2) * REAL_EPS * factor * weight + REAL_MIN;
}

static long double largest(int64_t n, const real *x, long double start) {
    for (int64_t i = 0; i < n; i++) {
        start = x[i] > start ? (long double)x[i] : start;
    }
    return start;
}

/* Softmax of a row with at least one finite score and no NaN or +Inf. */
static void check_row(int64_t n, const real *x, const real *y, real log_sum) {
    long double maximum = largest(n, x, -INFINITY), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += expl(x[i] - maximum);
    }
    for (int64_t i = 0; i < n; i++) {
        long double weight = expl(x[i] - maximum) / sum;
        if (x[i] == -real_infinity) {
            assert_true(y[i] == 0 && !signbit(y[i]));
        } else {
            check_near("weight", i, y[i], weight, weight_tolerance(x[i] - maximum, weight));
        }
    }
    long double wanted = maximum + logl(sum);
    check_near("log of the sum", 0, log_sum, wanted,
               4 * support_valgrind_factor(REAL_DTYPE) * REAL_EPS * fmaxl(1, fabsl(wanted)));
}

static void test_row_lengths(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const int64_t long_rows[] = {1021, 4099, 20011};
    for (int64_t k = 1; k <= LONGEST + 3; k++) {
        int64_t n = k <= LONGEST ? k : long_rows[k - LONGEST - 1];
        double spread = k % 3 == 0 ? 50 : k % 3 == 1 ? 1 : 5, shift = k % 2 ? 0 : 800;
        real *x = normals(n + 1, (uint64_t)k, spread, shift), *y = poisoned(n + 1);
        for (int offset = 0; offset < 2; offset++) {
            real log_sum = kernels->softmax_row(n, x + offset, y + offset);
            check_row(n, x + offset, y + offset, log_sum);
        }
        assert_true(isnan(y[0]) || n == 0 || y[0] >= 0);
        real log_sum = kernels->softmax_row(n, x + 1, y + 1), in_place = kernels->softmax_row(n, x + 1, x + 1);
        assert_true(same_bits(&log_sum, &in_place, 1));
        assert_true(same_bits(x + 1, y + 1, n));
        free(x);
        free(y);
    }
}

static void test_row_hidden(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t n = 0; n <= LONGEST; n++) {
        real *x = poisoned(n), *y = poisoned(n);
        for (int64_t i = 0; i < n; i++) {
            x[i] = -real_infinity;
        }
        real log_sum = kernels->softmax_row(n, x, y);
        assert_true(log_sum == -real_infinity);
        for (int64_t i = 0; i < n; i++) {
            assert_true(y[i] == 0 && !signbit(y[i]));
        }
        if (n > 0) {
            x[n - 1] = -300;
            log_sum = kernels->softmax_row(n, x, y);
            assert_true(log_sum == -300);
            for (int64_t i = 0; i < n; i++) {
                assert_true(y[i] == (i == n - 1 ? 1 : 0));
            }
            for (int64_t i = 0; i < n; i++) { /* the most negative finite numbers are scores like any other */
                x[i] = -REAL_MAX;
            }
            kernels->softmax_row(n, x, y);
            for (int64_t i = 0; i < n; i++) {
                check_near("uniform weight", i, y[i], 1.0L / n, REAL_EPS / 2.0L / n * 1.0001L);
            }
        }
        free(x);
        free(y);
    }
}

static void test_row_not_finite(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t n = 1; n <= LONGEST; n += n < 20 ? 1 : 7) {
        real *x = normals(n, (uint64_t)n, 1, 0), *y = poisoned(n);
        for (int64_t bad = 0; bad < n; bad++) {
            for (int kind = 0; kind < 4; kind++) {
                real *row = copied(x, n);
                for (int64_t i = 0; i < n && kind >= 2; i++) {
                    row[i] = -real_infinity;
                }
                row[bad] = kind % 2 ? real_infinity : real_nan;
                memset(y, 0, (size_t)n * sizeof *y);
                assert_true(isnan(kernels->softmax_row(n, row, y)));
                for (int64_t i = 0; i < n; i++) {
                    assert_true(isnan(y[i]));
                }
                free(row);
            }
        }
        free(x);
        free(y);
    }
}

/* ---- softmax_tile -------------------------------------------------------------------------------------------- */

/* State of an online softmax over `rows` rows. */
typedef struct online {
    int64_t rows;
    real *maximum, *sum, *rescale;
    long double *total; /* what sum should be, from the scores of all tiles */
} online;

static online online_start(int64_t rows) {
    online o = {rows, poisoned(rows), poisoned(rows), poisoned(rows), calloc((size_t)rows + 1, sizeof(long double))};
    assert_non_null(o.total);
    for (int64_t i = 0; i < rows; i++) {
        o.maximum[i] = -real_infinity;
        o.sum[i] = 0;
    }
    return o;
}

static void online_end(online *o) {
    free(o->maximum);
    free(o->sum);
    free(o->rescale);
    free(o->total);
}

/* Runs one tile of finite or -Inf scores and checks everything it leaves. The gap between rows must stay as it is. */
static void check_tile(const REAL(attn_kernels) * kernels, online *o, int64_t cols, const real *scores, int64_t ld) {
    int64_t size = o->rows > 0 ? (o->rows - 1) * ld + cols : 0;
    real *s = copied(scores, size), *old_maximum = copied(o->maximum, o->rows);
    assert_true(kernels->softmax_tile(o->rows, cols, s, ld, false, o->maximum, o->sum, o->rescale) == 0);
    for (int64_t i = 0; i < o->rows; i++) {
        const real *before = scores + i * ld, *after = s + i * ld;
        real old = old_maximum[i], maximum = (real)largest(cols, before, old);
        assert_true(o->maximum[i] == maximum);
        long double tile_sum = 0, factor = old == maximum ? 1 : expl((long double)old - maximum);
        for (int64_t j = 0; j < cols; j++) {
            long double distance = (long double)before[j] - maximum, weight = expl(distance);
            if (before[j] == -real_infinity) {
                assert_true(after[j] == 0 && !signbit(after[j]));
            } else {
                check_near("tile", i * ld + j, after[j], weight, weight_tolerance(distance, weight));
                tile_sum += weight;
            }
        }
        if (old == maximum || old == -real_infinity) {
            assert_true(o->rescale[i] == 1);
        } else {
            check_near("rescale", i, o->rescale[i], factor, weight_tolerance((long double)old - maximum, factor));
        }
        long double carried = o->total[i] * factor;
        o->total[i] = carried + tile_sum;
        check_near("row sum", i, o->sum[i], o->total[i],
                   16 * support_valgrind_factor(REAL_DTYPE) * REAL_EPS * o->total[i] +
                       (carried > 0 ? weight_tolerance((long double)old - maximum, carried) : 0));
        if (i + 1 < o->rows) {
            assert_true(same_bits(before + cols, after + cols, ld - cols));
        }
    }
    free(s);
    free(old_maximum);
}

static real *tile_of_scores(int64_t rows, int64_t cols, int64_t ld, uint64_t stream, double spread, double shift) {
    int64_t size = rows > 0 ? (rows - 1) * ld + cols : 0;
    real *s = normals(size, stream, spread, shift);
    for (int64_t i = 0; i + 1 < rows; i++) {
        for (int64_t j = cols; j < ld; j++) {
            s[i * ld + j] = real_nan;
        }
    }
    return s;
}

static void test_tile_shapes(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t cols = 0; cols <= LONGEST; cols++) {
        int64_t rows = cols % 37, ld = cols + cols % 3 + (cols == 0);
        online o = online_start(rows);
        for (uint64_t tile = 0; tile < 3; tile++) { /* the maximum moves in the second, stays in the third */
            real *s = tile_of_scores(rows, cols, ld, tile * 1000 + (uint64_t)cols, 2, tile == 1 ? 30 : 0);
            check_tile(kernels, &o, cols, s, ld);
            free(s);
        }
        online_end(&o);
    }
    online o = online_start(5);
    for (uint64_t tile = 0; tile < 8; tile++) {
        real *s = tile_of_scores(5, 1021, 1024, tile, tile % 2 ? 40 : 1, -700);
        check_tile(kernels, &o, 1021, s, 1024);
        free(s);
    }
    online_end(&o);
}

/* A row that has seen nothing but -Inf stays empty, then starts with its first finite score. */
static void test_tile_hidden_first(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { ROWS = 19, COLS = 37 };
    online o = online_start(ROWS);
    real *s = tile_of_scores(ROWS, COLS, COLS, 1, 1, 0);
    for (int i = 0; i < ROWS * COLS; i++) {
        s[i] = -real_infinity;
    }
    for (int repeat = 0; repeat < 2; repeat++) {
        check_tile(kernels, &o, COLS, s, COLS);
        for (int i = 0; i < ROWS; i++) {
            assert_true(o.maximum[i] == -real_infinity && o.sum[i] == 0 && o.rescale[i] == 1);
        }
    }
    for (int i = 0; i < ROWS; i++) {
        s[i * COLS + (i * 5) % COLS] = -300;
    }
    check_tile(kernels, &o, COLS, s, COLS);
    for (int i = 0; i < ROWS; i++) {
        assert_true(o.maximum[i] == -300 && o.sum[i] == 1 && o.rescale[i] == 1);
    }
    for (int i = 0; i < ROWS * COLS; i++) { /* a hidden tile after finite scores changes nothing */
        s[i] = -real_infinity;
    }
    check_tile(kernels, &o, COLS, s, COLS);
    for (int i = 0; i < ROWS; i++) {
        assert_true(o.maximum[i] == -300 && o.sum[i] == 1 && o.rescale[i] == 1);
    }
    free(s);
    online_end(&o);
}

/* NaN or +Inf makes the sum of its row NaN for good, whatever follows, and touches no other row. */
static void test_tile_not_finite(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { ROWS = 21 };
    for (int64_t cols = 1; cols <= LONGEST; cols += cols < 20 ? 1 : 13) {
        for (int kind = 0; kind < 4; kind++) {
            online o = online_start(ROWS), clean = online_start(ROWS);
            int64_t bad_row = cols * 5 % ROWS, bad = cols / 2;
            real wanted_maximum = -real_infinity;
            for (uint64_t tile = 0; tile < 3; tile++) {
                real *s = tile_of_scores(ROWS, cols, cols, tile + 10, 3, (double)tile * 5);
                real *same = copied(s, ROWS * cols);
                if (tile == 0) {
                    for (int64_t j = 0; j < cols && kind >= 2; j++) {
                        s[bad_row * cols + j] = -real_infinity;
                    }
                    s[bad_row * cols + bad] = kind % 2 ? real_infinity : real_nan;
                }
                wanted_maximum = (real)largest(cols, s + bad_row * cols, wanted_maximum);
                kernels->softmax_tile(ROWS, cols, s, cols, false, o.maximum, o.sum, o.rescale);
                kernels->softmax_tile(ROWS, cols, same, cols, false, clean.maximum, clean.sum, clean.rescale);
                assert_true(tile > 0 || isnan(s[bad_row * cols + bad]));
                assert_false(isnan(o.maximum[bad_row])); /* the maximum drops NaN, and forgets no other score */
                assert_true(kind % 2 || o.maximum[bad_row] == wanted_maximum);
                for (int64_t i = 0; i < ROWS; i++) {
                    if (i == bad_row) {
                        assert_true(isnan(o.sum[i]));
                    } else {
                        assert_true(same_bits(o.sum + i, clean.sum + i, 1));
                        assert_true(same_bits(s + i * cols, same + i * cols, cols));
                    }
                }
                free(s);
                free(same);
            }
            online_end(&o);
            online_end(&clean);
        }
    }
}

/* The maximum drops a NaN wherever it stands, and forgets no score because of it. */
static void test_tile_maximum(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t top = 0; top < LONGEST; top += step_of_sizes()) {
        for (int64_t bad = 0; bad < LONGEST; bad++) {
            real s[LONGEST], maximum = -real_infinity, sum = 0, rescale;
            for (int64_t j = 0; j < LONGEST; j++) {
                s[j] = -1;
            }
            s[top] = 10;
            s[bad] = real_nan;
            kernels->softmax_tile(1, LONGEST, s, LONGEST, false, &maximum, &sum, &rescale);
            assert_true(maximum == (top == bad ? -1 : 10));
            assert_true(isnan(sum));
        }
    }
}

/* A row's bits depend on that row alone: not on its place in the tile, nor on its neighbours. */
static void test_tile_rows_apart(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { ROWS = 39 }; /* groups of 16 rows, and a rest */
    const int64_t widths[] = {1, 16, 37, 128, 300};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        int64_t cols = widths[w];
        online all = online_start(ROWS), one = online_start(ROWS);
        real *s = tile_of_scores(ROWS, cols, cols, w, 3, 0), *t = copied(s, ROWS * cols);
        kernels->softmax_tile(ROWS, cols, s, cols, false, all.maximum, all.sum, all.rescale);
        for (int64_t i = 0; i < ROWS; i++) {
            kernels->softmax_tile(1, cols, t + i * cols, cols, false, one.maximum + i, one.sum + i, one.rescale + i);
        }
        assert_true(same_bits(s, t, ROWS * cols) && same_bits(all.sum, one.sum, ROWS));
        assert_true(same_bits(all.maximum, one.maximum, ROWS) && same_bits(all.rescale, one.rescale, ROWS));
        free(s);
        free(t);
        online_end(&all);
        online_end(&one);
    }
}

/* ---- softmax_tile with maxima that are kept ------------------------------------------------------------------- */

enum { KEPT_ROWS = 21 };

/* Rows that have seen a tile of normal scores. */
static online settled_rows(const REAL(attn_kernels) * kernels, int64_t cols) {
    online o = online_start(KEPT_ROWS);
    for (int64_t i = 0; i < KEPT_ROWS; i++) {
        o.rescale[i] = 1;
    }
    real *s = tile_of_scores(KEPT_ROWS, cols, cols, (uint64_t)cols, 1, 2);
    assert_true(kernels->softmax_tile(KEPT_ROWS, cols, s, cols, true, o.maximum, o.sum, o.rescale) == 0);
    for (int64_t i = 0; i < KEPT_ROWS; i++) {
        assert_true(o.maximum[i] > -real_infinity && o.rescale[i] == 1);
    }
    free(s);
    return o;
}

/* Scores up to 11 above the maxima of before: these stay, and weights and sums are relative to them. */
static void test_tile_kept(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t cols = 1; cols <= LONGEST; cols += cols < 20 ? 1 : 13) {
        online o = settled_rows(kernels, cols);
        for (uint64_t tile = 0; tile < 3; tile++) {
            real *scores = tile_of_scores(KEPT_ROWS, cols, cols, tile + 70, 1, tile == 1 ? 5 : -3);
            for (int64_t i = 0; i < KEPT_ROWS; i += 3) {
                scores[i * cols + (i + (int64_t)tile) % cols] = -real_infinity;
            }
            real *s = copied(scores, KEPT_ROWS * cols), *maximum = copied(o.maximum, KEPT_ROWS);
            real *sum = copied(o.sum, KEPT_ROWS);
            int64_t lost = kernels->softmax_tile(KEPT_ROWS, cols, s, cols, true, o.maximum, o.sum, o.rescale);
            assert_true(lost == 0 && same_bits(maximum, o.maximum, KEPT_ROWS));
            for (int64_t i = 0; i < KEPT_ROWS; i++) {
                long double total = sum[i];
                for (int64_t j = i * cols; j < (i + 1) * cols; j++) {
                    long double distance = (long double)scores[j] - maximum[i], weight = expl(distance);
                    if (scores[j] == -real_infinity) {
                        assert_true(s[j] == 0 && !signbit(s[j]));
                    } else {
                        check_near("weight", j, s[j], weight, weight_tolerance(distance, weight));
                    }
                    total += weight;
                }
                check_near("row sum", i, o.sum[i], total, 20 * support_valgrind_factor(REAL_DTYPE) * REAL_EPS * total);
                assert_true(o.rescale[i] == 1);
            }
            free(scores);
            free(s);
            free(maximum);
            free(sum);
        }
        online_end(&o);
    }
}

/* One score far above: that row is lost, its state as before, and all others are as without it. Made again without
 * `keep` it is as if nothing had been tried, and the next tile does not try. */
static void test_tile_lost(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const real heights[] = {40, 70, 1000, REAL_MAX, real_infinity, real_nan, -real_nan};
    enum { COLS = 37, SIZE = KEPT_ROWS * COLS, HEIGHTS = sizeof heights / sizeof *heights };
    for (int bad = 0; bad < KEPT_ROWS * HEIGHTS; bad++) {
        int64_t bad_row = bad % KEPT_ROWS, bad_at = bad_row * COLS + bad % COLS;
        real height = heights[bad / KEPT_ROWS];
        online o = settled_rows(kernels, COLS), calm = settled_rows(kernels, COLS),
               before = settled_rows(kernels, COLS);
        real *scores = tile_of_scores(KEPT_ROWS, COLS, COLS, (uint64_t)bad, 1, 0), *t = copied(scores, SIZE);
        assert_true(kernels->softmax_tile(KEPT_ROWS, COLS, t, COLS, true, calm.maximum, calm.sum, calm.rescale) == 0);
        scores[bad_at] = height;
        real *s = copied(scores, SIZE), *row = copied(scores + bad_row * COLS, COLS);
        assert_true(kernels->softmax_tile(KEPT_ROWS, COLS, s, COLS, true, o.maximum, o.sum, o.rescale) == 1);
        for (int64_t i = 0; i < KEPT_ROWS; i++) {
            online *wanted = i == bad_row ? &before : &calm;
            assert_true(same_bits(o.maximum + i, wanted->maximum + i, 1) && same_bits(o.sum + i, wanted->sum + i, 1));
            assert_true(i == bad_row ? o.rescale[i] == -1
                                     : o.rescale[i] == 1 && same_bits(s + i * COLS, t + i * COLS, COLS));
        }
        kernels->softmax_tile(1, COLS, row, COLS, false, o.maximum + bad_row, o.sum + bad_row, o.rescale + bad_row);
        memcpy(t, scores, SIZE * sizeof *t);
        kernels->softmax_tile(KEPT_ROWS, COLS, t, COLS, false, before.maximum, before.sum, before.rescale);
        assert_true(same_bits(o.maximum + bad_row, before.maximum + bad_row, 1));
        assert_true(isnan(o.sum[bad_row]) || same_bits(row, t + bad_row * COLS, COLS));
        assert_true(isfinite(height) == !isnan(o.sum[bad_row]));
        if (isfinite(height)) {
            assert_true(o.maximum[bad_row] == height && o.rescale[bad_row] < 1e-13);
            scores[bad_at] = height / 2 + 50; /* below the new maximum, or 30 to 50 above it */
            memcpy(s, scores, SIZE * sizeof *s);
            assert_true(kernels->softmax_tile(KEPT_ROWS, COLS, s, COLS, true, o.maximum, o.sum, o.rescale) == 0);
            assert_true(o.maximum[bad_row] == (real)fmaxl(height, height / 2 + 50));
        }
        free(scores);
        free(s);
        free(t);
        free(row);
        online_end(&o);
        online_end(&calm);
        online_end(&before);
    }
}

/* Rows without a maximum get one, whatever `keep` says; the rows beside them keep theirs. */
static void test_tile_nothing_to_keep(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { COLS = 19 };
    online o = settled_rows(kernels, COLS), kept = settled_rows(kernels, COLS), moved = settled_rows(kernels, COLS);
    for (int64_t i = 0; i < KEPT_ROWS; i += 7) {
        o.maximum[i] = moved.maximum[i] = -real_infinity;
        o.sum[i] = moved.sum[i] = 0;
    }
    real *s = tile_of_scores(KEPT_ROWS, COLS, COLS, 9, 1, 5), *t = copied(s, KEPT_ROWS * COLS);
    real *u = copied(s, KEPT_ROWS * COLS);
    assert_true(kernels->softmax_tile(KEPT_ROWS, COLS, s, COLS, true, o.maximum, o.sum, o.rescale) == 0);
    assert_true(kernels->softmax_tile(KEPT_ROWS, COLS, t, COLS, true, kept.maximum, kept.sum, kept.rescale) == 0);
    kernels->softmax_tile(KEPT_ROWS, COLS, u, COLS, false, moved.maximum, moved.sum, moved.rescale);
    for (int64_t i = 0; i < KEPT_ROWS; i++) {
        const online *wanted = i % 7 == 0 ? &moved : &kept;
        assert_true(same_bits(o.maximum + i, wanted->maximum + i, 1) && same_bits(o.sum + i, wanted->sum + i, 1));
        assert_true(o.rescale[i] == 1 && same_bits(s + i * COLS, (i % 7 == 0 ? u : t) + i * COLS, COLS));
    }
    free(s);
    free(t);
    free(u);
    online_end(&o);
    online_end(&kept);
    online_end(&moved);
}

/* The weight alone, of what a kept maximum of 0 leaves of the score: 1.3 ulp, and 2.8e-9 |x| in float. */
static void test_weight_error(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    enum { COLS = 1000, REPEATS = 300 };
    const double lowest = REAL_EPS > 1e-10 ? -87 : -708;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        real x[COLS], s[COLS], maximum = 0, sum = 1, rescale = 1;
        for (int j = 0; j < COLS; j++) {
            double u = (repeat + REPEATS * (double)j) / (REPEATS * COLS);
            s[j] = x[j] = (real)(repeat % 2 ? lowest * u : lowest * u * u * u + 3);
        }
        assert_true(kernels->softmax_tile(1, COLS, s, COLS, true, &maximum, &sum, &rescale) == 0);
        for (int j = 0; j < COLS; j++) {
            long double weight = expl(x[j]);
            int exponent;
            frexpl(weight, &exponent);
            long double bound = 1.3L * ldexpl(REAL_EPS, exponent - 1);
            bound += REAL_EPS > 1e-10 ? 2.8e-9L * fabsl((long double)x[j]) * weight : 0;
            check_near("weight", j, s[j], weight, bound * support_valgrind_factor(REAL_DTYPE));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_lengths),
        cmocka_unit_test(test_row_hidden),
        cmocka_unit_test(test_row_not_finite),
        cmocka_unit_test(test_tile_shapes),
        cmocka_unit_test(test_tile_hidden_first),
        cmocka_unit_test(test_tile_not_finite),
        cmocka_unit_test(test_tile_maximum),
        cmocka_unit_test(test_tile_rows_apart),
        cmocka_unit_test(test_tile_kept),
        cmocka_unit_test(test_tile_lost),
        cmocka_unit_test(test_tile_nothing_to_keep),
        cmocka_unit_test(test_weight_error),
    };
    return run_for_every_isa("kernels softmax", tests, sizeof tests / sizeof *tests);
}
