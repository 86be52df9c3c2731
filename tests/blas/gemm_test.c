/* attn_gemm against three loops: every transposition, alpha and beta, sizes of 0 and 1, strides of rows that are not
 * there. Compiled with ATTN_REAL_BITS 32 and 64. */
#include <float.h>
#include <math.h>

#include "base/real.h"
#include "blas/blas.h"
#include "blas_test.h"
#include "support.h"

typedef struct product {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    real alpha, beta;
    int64_t a_gap, b_gap, c_gap; /* elements between rows */
} product;

static int64_t extent(int64_t rows, int64_t cols, int64_t stride) {
    return rows == 0 || cols == 0 ? 0 : (rows - 1) * stride + cols;
}

/* [rows, cols] of normals, NaN between the rows. */
static real *matrix(uint64_t stream, int64_t rows, int64_t cols, int64_t stride) {
    real *x = support_alloc_poisoned(REAL_DTYPE, extent(rows, cols, stride));
    for (int64_t r = 0; r < rows && cols > 0; r++)
        support_fill_normal(REAL_DTYPE, x + r * stride, cols, 1, stream, (uint64_t)(r * cols), 1);
    return x;
}

static void check(const product *p) {
    int64_t a_rows = p->transpose_a ? p->k : p->m, a_cols = p->transpose_a ? p->m : p->k;
    int64_t b_rows = p->transpose_b ? p->n : p->k, b_cols = p->transpose_b ? p->k : p->n;
    int64_t lda = a_cols + p->a_gap, ldb = b_cols + p->b_gap, ldc = p->n + p->c_gap;
    real *a = matrix(1, a_rows, a_cols, lda), *b = matrix(2, b_rows, b_cols, ldb);
    real *before = matrix(3, p->m, p->n, ldc);
    int64_t elements = extent(p->m, p->n, ldc);
    /* with beta 0 what stood in C is not read */
    real *c = support_alloc_poisoned(REAL_DTYPE, elements);
    if (p->beta != 0 && elements > 0)
        memcpy(c, before, (size_t)elements * sizeof(real));
    attn_gemm(p->transpose_a, p->transpose_b, p->m, p->n, p->k, p->alpha, a, lda, b, ldb, p->beta, c, ldc);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            long double sum = 0, size = fabsl((long double)p->beta * before[i * ldc + j]);
            for (int64_t l = 0; l < p->k; l++) {
                long double term = (long double)a[p->transpose_a ? l * lda + i : i * lda + l] *
                                   b[p->transpose_b ? j * ldb + l : l * ldb + j];
                sum += term;
                size += fabsl(p->alpha * term);
            }
            long double wanted = p->alpha * sum + (p->beta == 0 ? 0 : (long double)p->beta * before[i * ldc + j]);
            long double tolerance = (p->k + 2) * size * (REAL_DTYPE == ATTN_F32 ? FLT_EPSILON : DBL_EPSILON);
            if (!(fabsl(c[i * ldc + j] - wanted) <= tolerance))
                fail_msg("%lld x %lld x %lld, transposed %d %d: c[%lld][%lld] is %g instead of %Lg", (long long)p->m,
                         (long long)p->n, (long long)p->k, p->transpose_a, p->transpose_b, (long long)i, (long long)j,
                         (double)c[i * ldc + j], wanted);
        }
    for (int64_t i = 0; i + 1 < p->m; i++)
        for (int64_t j = p->n; j < ldc && p->n > 0; j++)
            assert_true(isnan(c[i * ldc + j])); /* between the rows */
    free(a);
    free(b);
    free(c);
    free(before);
}

static void test_products(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 17, 41};
    static const real factors[][2] = {{1, 0}, {(real)-0.7, 0}, {1, 1}, {2, (real)-0.3}, {0, 1}};
    watch_begin(WATCH_ANY_TASKS);
    for (int shape = 0; shape < 125; shape++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int f = 0; f < 5; f++) {
                product p = {
                    .transpose_a = transposes & 1,
                    .transpose_b = transposes & 2,
                    .m = sizes[shape % 5],
                    .n = sizes[shape / 5 % 5],
                    .k = sizes[shape / 25],
                    .alpha = factors[f][0],
                    .beta = factors[f][1],
                    .a_gap = f % 3,
                    .b_gap = shape % 2 * 5,
                    .c_gap = transposes,
                };
                check(&p);
            }
    assert_int_equal(watch_end().bad_arguments, 0);
    assert_true(watch_end().products > 0);
}

/* Strides that nothing steps by may be anything; arrays without elements may be NULL. */
static void test_strides_that_do_not_count(void **state) {
    (void)state;
    const real a[3] = {1, 2, 3}, b[3] = {5, 7, 11};
    real c[9] = {0};
    watch_begin(WATCH_ANY_TASKS);
    attn_gemm(false, true, 1, 1, 3, 1, a, 0, b, 0, 0, c, 0);
    assert_true(c[0] == 5 + 14 + 33);
    attn_gemm(false, false, 1, 3, 1, 1, a + 1, 0, b, 0, 0, c, 0);
    assert_true(c[0] == 10 && c[1] == 14 && c[2] == 22);
    attn_gemm(false, false, 0, 3, 3, 1, NULL, 0, b, 0, 0, NULL, 0);
    attn_gemm(false, false, 3, 0, 3, 1, a, 0, NULL, 0, 0, NULL, 0);
    attn_gemm(false, false, 3, 3, 0, 1, NULL, 0, NULL, 0, 0, c, 3);
    for (int i = 0; i < 9; i++)
        assert_true(c[i] == 0);
    assert_int_equal(watch_end().bad_arguments, 0);
    assert_int_equal(watch_end().products, 2);
}

/* The trap for refused arguments works: a leading dimension below the row size is one. */
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);

static void test_trap_for_refused_arguments(void **state) {
    (void)state;
    enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
    attn_blas_info info = {.struct_size = sizeof info};
    assert_int_equal(attn_blas_get_info(&info), ATTN_OK);
    if (strcmp(info.name, "OpenBLAS") != 0)
        skip(); /* others stop the program */
    float x[4] = {0};
    watch_begin(WATCH_ANY_TASKS);
    cblas_sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, 2, 2, 2, 1, x, 1, x, 2, 0, x, 2);
    assert_int_equal(watch_end().bad_arguments, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_strides_that_do_not_count),
        cmocka_unit_test(test_trap_for_refused_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
