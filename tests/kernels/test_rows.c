/* Kernels over rows of a matrix: add_product, product_transposed, multiply, scale_rows, scaled, transpose, all_finite,
 * add. Matrices are as large as their rows reach, with NaN between the rows. */
#include "kernel_test.h"

#define LONGEST 130

/* rows x cols of N(0, 1) with row stride ld, NaN between the rows. */
static real *matrix(int64_t rows, int64_t cols, int64_t ld, uint64_t stream) {
    int64_t size = rows > 0 ? (rows - 1) * ld + cols : 0;
    real *x = poisoned(size);
    for (int64_t i = 0; i < rows; i++) {
        support_fill_normal(REAL_DTYPE, x + i * ld, cols, SEED, stream, (uint64_t)(i * cols), 1);
    }
    return x;
}

/* One term as the instruction set does it: rounded once with a fused multiply-add, twice without. */
static real multiply_add(bool fused, real a, real b, real c) {
#if ATTN_REAL_BITS == 32
    return fused ? fmaf(a, b, c) : a * b + c;
#else
    return fused ? fma(a, b, c) : a * b + c;
#endif
}

enum { MOST_ROWS = 8 }; /* of x and y: two groups of three and a rest, or one beside four that read w */

/* Row r of n rows that stand in any order, each `step` after another one. */
static void scatter(int64_t n, int64_t step, real *base, const real **x, real **y) {
    for (int64_t r = 0; r < n; r++) {
        real *row = base + r * 11 % (n > 0 ? n : 1) * step; /* each once: MOST_ROWS is below 11 */
        if (x)
            x[r] = row;
        if (y)
            y[r] = row;
    }
}

/* Sizes of the products: all small widths, then widths and rows that have loops of their own. */
typedef struct product_size {
    int64_t width, rows;
} product_size;

static const product_size own_loops[] = {{64, 5},  {128, 5}, {517, 5}, {1030, 5}, {64, 1}, {128, 2},
                                         {517, 1}, {517, 2}, {517, 3}, {1030, 1}, {515, 3}};
enum { SIZES = LONGEST + 1 + sizeof own_loops / sizeof *own_loops };

static product_size size_of(int64_t n) {
    return n <= LONGEST ? (product_size){n, n % (MOST_ROWS + 1)} : own_loops[n - LONGEST - 1];
}

/* The next of the sizes of a test; those that have loops of their own are never left out. */
static int64_t next_size(int64_t n) {
    int64_t next = n + step_of_sizes();
    return n <= LONGEST && next > LONGEST ? LONGEST + 1 : n > LONGEST ? n + 1 : next;
}

/* The i-th of k terms with `apart`, as kernels.h has it. */
static int64_t term_apart(int64_t i, int64_t k) {
    int64_t begin = i / 256 * 256, quarter = (k - begin < 256 ? k - begin : 256) / 4, in_group = i - begin;
    return quarter < 16 || in_group >= 4 * quarter ? i : begin + in_group % 4 * quarter + in_group / 4;
}

static void test_add_product(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    bool fused = *(const attn_isa *)*state != ATTN_ISA_GENERIC;
    for (int64_t n = 0; n < 2 * SIZES; n = n < SIZES ? next_size(n) : SIZES + next_size(n - SIZES)) {
        const int64_t deep[] = {63, 64, 67, 256, 319, 320, 517};
        bool apart = n >= SIZES;
        product_size size = size_of(n % SIZES);
        int64_t cols = size.width, rows = size.rows, ld = cols + n % 3;
        int64_t k = apart ? deep[n % 7] : n <= LONGEST ? n * 5 % 23 : 31;
        const real *x[MOST_ROWS];
        real *y[MOST_ROWS], *from = normals(rows * k, 1, 1, 0), *w = matrix(k, cols, ld, (uint64_t)cols + 2);
        real *to = normals(rows * cols, 3, 1, 0), *before = copied(to, rows * cols);
        scatter(rows, k, from, x, NULL);
        scatter(rows, cols, to, NULL, y);
        kernels->add_product(rows, cols, k, apart, x, w, ld, y);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < cols; j++) {
                real wanted = before[y[r] - to + j];
                for (int64_t i = 0; i < k; i++) {
                    int64_t c = apart ? term_apart(i, k) : i;
                    wanted = multiply_add(fused, x[r][c], w[c * ld + j], wanted);
                }
                assert_true(same_bits(&y[r][j], &wanted, 1));
            }
        free(from);
        free(w);
        free(to);
        free(before);
    }
}

static void test_product_transposed(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t n = 0; n < SIZES; n = next_size(n)) {
        int64_t k = size_of(n).width, rows = size_of(n).rows, ld = k + n % 3;
        int64_t cols = n % 5 == 2 ? 261 + n % 64 : n <= LONGEST ? n * 5 % 41 : 37;
        real scale = (real)-0.37;
        const real *x[MOST_ROWS];
        real *y[MOST_ROWS], *from = normals(rows * k, 1, 1, 0), *w = matrix(cols, k, ld, (uint64_t)k + 2);
        real *to = poisoned(rows * cols);
        scatter(rows, k, from, x, NULL);
        scatter(rows, cols, to, NULL, y);
        kernels->product_transposed(rows, cols, k, n % 2 == 0, scale, x, w, ld, y);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < cols; j++) {
                long double sum = 0, magnitude = 0;
                for (int64_t c = 0; c < k; c++) {
                    long double term = (long double)x[r][c] * w[j * ld + c];
                    sum += term;
                    magnitude += fabsl(term);
                }
                check_near("transposed product", j, y[r][j], sum * scale,
                           support_valgrind_factor(REAL_DTYPE) * REAL_EPS / 2 * ((double)k / 2 + 4) * 0.37L *
                               magnitude);
                real alone, *place = &alone; /* a result's bits depend on its row and column alone */
                kernels->product_transposed(1, 1, k, false, scale, &x[r], w + j * ld, ld, &place);
                assert_true(same_bits(&alone, &y[r][j], 1));
            }
        free(from);
        free(w);
        free(to);
    }
}

/* Every number of rows and columns that a block may leave over; a result is known to the bit. */
static void test_multiply(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const attn_isa isa = *(const attn_isa *)*state;
    bool fused = isa != ATTN_ISA_GENERIC;
    const int64_t most_terms = isa == ATTN_ISA_AVX512 ? 128 : 256;
    for (int64_t cols = 0; cols <= LONGEST; cols++) {
        int64_t rows = cols * 5 % 14, k = cols % 4 == 3 ? 0 : cols % 8 == 2 ? most_terms - 3 + cols : cols * 7 % 23;
        int64_t ldx = k + cols % 2, ldw = cols + cols % 3, ldy = cols + cols % 5;
        real alpha = cols % 2 == 0 ? 1 : (real)0.37;
        bool add = cols % 3 == 0;
        real *x = matrix(rows, k, ldx, 1), *w = matrix(k, cols, ldw, 2), *y = matrix(rows, cols, ldy, 3);
        int64_t size = rows > 0 ? (rows - 1) * ldy + cols : 0;
        for (int64_t i = 0; i < rows && !add; i++)
            for (int64_t j = 0; j < cols; j++)
                y[i * ldy + j] = real_nan;
        real *wanted = copied(y, size);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                int64_t c = 0;
                do {
                    real sum = 0;
                    for (int64_t end = c + most_terms; c < k && c < end; c++)
                        sum = multiply_add(fused, x[i * ldx + c], w[c * ldw + j], sum);
                    sum *= alpha;
                    wanted[i * ldy + j] = add || c > most_terms ? wanted[i * ldy + j] + sum : sum;
                } while (c < k);
            }
        kernels->multiply(rows, cols, k, alpha, x, ldx, w, ldw, add, y, ldy);
        assert_true(same_bits(y, wanted, size));
        free(x);
        free(w);
        free(y);
        free(wanted);
    }
}

static void test_scale_rows(void **state) {
#if ATTN_REAL_BITS == 32
    const uint32_t signalling_nan = 0x7f800001u;
#else
    const uint64_t signalling_nan = 0x7ff0000000000001u;
#endif
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t cols = 0; cols <= LONGEST; cols++) {
        int64_t rows = cols % 9, ld = cols + cols % 3, size = rows > 0 ? (rows - 1) * ld + cols : 0;
        real *o = matrix(rows, cols, ld, (uint64_t)cols), *factor = normals(rows, 1, 1, 0);
        for (int64_t i = 0; i < rows; i += 3) {
            factor[i] = 1;
            for (int64_t c = 0; c < cols; c += 2) { /* even a product with 1 would change its bits */
                memcpy(&o[i * ld + c], &signalling_nan, sizeof *o);
            }
        }
        real *wanted = copied(o, size);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t c = 0; c < cols && factor[i] != 1; c++) {
                wanted[i * ld + c] *= factor[i];
            }
        }
        kernels->scale_rows(rows, cols, o, ld, factor);
        assert_true(same_bits(o, wanted, size));
        free(o);
        free(factor);
        free(wanted);
    }
}

static void test_scaled(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t n = 0; n <= LONGEST; n++) {
        real factor = n % 3 == 0 ? 1 : (real)-0.37;
        real *x = normals(n, 4, 1, 0), *y = poisoned(n), *wanted = poisoned(n);
        for (int64_t i = 0; i < n; i++) {
            wanted[i] = factor * x[i];
        }
        kernels->scaled(n, factor, x, y);
        assert_true(same_bits(y, wanted, n));
        kernels->scaled(n, factor, x, x);
        assert_true(same_bits(x, wanted, n));
        free(x);
        free(y);
        free(wanted);
    }
}

static void test_divided(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t n = 0; n <= LONGEST; n++) {
        real factor = n % 3 == 0 ? 1 : (real)0.37, divisor = (real)(1 + n * 0.7);
        real *x = normals(n, (uint64_t)n, 1, 0), *y = poisoned(n);
        kernels->divided(n, factor, divisor, x, y);
        for (int64_t i = 0; i < n; i++) {
            long double wanted = (long double)(factor * x[i]) / divisor;
            assert_true(error_in_ulp(y[i], wanted) <= 0.51 * allowed_ulp());
        }
        kernels->divided(n, factor, divisor, x, x);
        assert_true(same_bits(x, y, n));
        for (int64_t i = 0; i < n; i++)
            x[i] = i % 2 == 0 ? -(real)0 : 0;
        kernels->divided(n, factor, divisor, x, x);
        for (int64_t i = 0; i < n; i++)
            assert_true(x[i] == 0 && !signbit(x[i]));
        free(x);
        free(y);
    }
}

static void test_transpose(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t rows = 0; rows <= 37; rows++) {
        for (int64_t cols = 0; cols <= 37; cols++) {
            int64_t ldx = cols + rows % 3, ldy = rows + cols % 4;
            int64_t size = cols > 0 ? (cols - 1) * ldy + rows : 0;
            real *x = matrix(rows, cols, ldx, 5), *y = poisoned(size), *wanted = poisoned(size);
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t j = 0; j < cols; j++) {
                    wanted[j * ldy + i] = x[i * ldx + j];
                }
            }
            kernels->transpose(rows, cols, x, ldx, y, ldy);
            assert_true(same_bits(y, wanted, size));
            free(x);
            free(y);
            free(wanted);
        }
    }
}

static void test_all_finite(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    const real bad[] = {real_nan, real_infinity, -real_infinity};
    for (int64_t cols = 0; cols <= 70; cols++) {
        int64_t rows = cols % 5, ld = cols + cols % 3;
        real *x = matrix(rows, cols, ld, (uint64_t)cols);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t c = 0; c < cols; c += 3) {
                x[i * ld + c] = c % 2 ? REAL_MAX : -REAL_MAX;
            }
        }
        assert_true(kernels->all_finite(rows, cols, x, ld));
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t c = 0; c < cols; c++) {
                real saved = x[i * ld + c];
                x[i * ld + c] = bad[(i + c) % 3];
                assert_false(kernels->all_finite(rows, cols, x, ld));
                x[i * ld + c] = saved;
            }
        }
        free(x);
    }
}

static void test_add(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    for (int64_t n = 0; n <= LONGEST; n++) {
        real *x = normals(n, 1, 1, 0), *y = normals(n, 2, 1, 0), *z = poisoned(n), *wanted = poisoned(n);
        for (int64_t i = 0; i < n; i++) {
            wanted[i] = x[i] + y[i];
        }
        kernels->add(n, x, y, z);
        assert_true(same_bits(z, wanted, n));
        real *x_in_place = copied(x, n);
        kernels->add(n, x_in_place, y, x_in_place);
        assert_true(same_bits(x_in_place, wanted, n));
        kernels->add(n, x, y, y);
        assert_true(same_bits(y, wanted, n));
        free(x);
        free(y);
        free(z);
        free(wanted);
        free(x_in_place);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale_rows),
        cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_divided),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_all_finite),
        cmocka_unit_test(test_add_product),
        cmocka_unit_test(test_product_transposed),
        cmocka_unit_test(test_multiply),
        cmocka_unit_test(test_add),
    };
    return run_for_every_isa("kernels rows", tests, sizeof tests / sizeof *tests);
}
