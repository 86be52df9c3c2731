/* Singular values of a matrix and what they say. */
#include "base/checks.h"
#include "blas/blas.h"
#include "weights/lapack.h"
#include "weights/matrix.h"
#include <attn/weights.h>

/* Size of the struct in 0.1, the first version. */
#define SPECTRUM_FIRST_SIZE (offsetof(attn_spectrum, stable_rank) + sizeof(double))

/* s is descending. Relative to its largest, so that no square overflows. */
static attn_spectrum describe(int64_t rows, int64_t cols, const real *s) {
    int64_t count = attn_smaller(rows, cols);
    attn_spectrum spectrum = {.count = count};
    if (count == 0)
        return spectrum;
    spectrum.norm = (double)s[0];
    spectrum.condition = INFINITY;
    if (s[0] == 0)
        return spectrum;
    double largest = (double)s[0], sum = 0, squares = attn_relative_squares(s, count), entropy = 0;
    double least = (double)(rows > cols ? rows : cols) * REAL_EPS;
    for (int64_t k = 0; k < count; k++) {
        double share = (double)s[k] / largest;
        sum += share;
        spectrum.rank += share > least;
    }
    for (int64_t k = 0; k < count; k++) {
        double p = (double)s[k] / largest / sum;
        entropy -= p > 0 ? p * log(p) : 0;
    }
    spectrum.frobenius = largest * sqrt(squares);
    spectrum.stable_rank = squares;
    spectrum.effective_rank = fmin(exp(entropy), (double)count); /* rounding may lead beyond */
    if (s[count - 1] > 0)
        spectrum.condition = largest / (double)s[count - 1];
    return spectrum;
}

/* The columns of the column-major copy are the rows of a: its transpose has the same singular values. `s` gets them
 * and `spectrum` what they say, where there is one. */
static attn_status compute(const attn_resources *resources, int64_t rows, int64_t cols, const real *a,
                           int64_t row_stride, real *s, attn_spectrum *spectrum) {
    int64_t count = attn_smaller(rows, cols), space = attn_lapack_gesdd_space(cols, rows, false);
    attn_ledger ledger = {0};
    int copy = attn_ledger_book(&ledger, "a", attn_mul_saturated(rows, cols), sizeof(real), 1);
    int values = attn_ledger_book(&ledger, "singular values", count, sizeof(real), 1);
    int work = attn_ledger_book(&ledger, "LAPACK", space, sizeof(real), 1);
    int integers = attn_ledger_book(&ledger, "LAPACK's integers", attn_lapack_gesdd_integer_bytes(rows, cols), 1, 1);
    void *memory;
    ATTN_TRY(attn_allocate_pieces(resources, &ledger, &memory));
    real *copied = attn_ledger_grant(&ledger, memory, copy, 0), *found = attn_ledger_grant(&ledger, memory, values, 0);
    attn_copy(rows, cols, a, row_stride, copied, cols);
    attn_blas_guard guard = {0};
    attn_blas_enter(&guard);
    attn_lapack_info info =
        attn_lapack_gesdd(cols, rows, copied, found, NULL, NULL, attn_ledger_grant(&ledger, memory, work, 0), space,
                          attn_ledger_grant(&ledger, memory, integers, 0));
    attn_blas_leave(&guard);
    attn_status status = attn_lapack_status(info, "a");
    if (status == ATTN_OK && !isfinite(found[0]))
        status = attn_fail(ATTN_ERR_VALUE, "a: its norm is beyond the range of %s", REAL_NAME);
    if (status == ATTN_OK && spectrum != NULL) {
        attn_spectrum described = describe(rows, cols, found);
        if (isfinite(described.frobenius))
            *spectrum = described;
        else
            status = attn_fail(ATTN_ERR_VALUE, "a: its Frobenius norm is beyond the range of double");
    }
    if (status == ATTN_OK && s != NULL)
        attn_copy(1, count, found, count, s, count);
    attn_release(resources, memory, ledger.bytes);
    return status;
}

attn_status REAL(attn_spectrum)(const attn_context *context, int64_t rows, int64_t cols, const real *a,
                                int64_t row_stride, real *singular_values, attn_spectrum *spectrum) {
    attn_resources resources;
    attn_spectrum given = ATTN_SPECTRUM_INIT, found;
    ATTN_TRY(attn_resolve_context(context, &resources));
    ATTN_TRY(attn_check_size("rows", rows, 0));
    ATTN_TRY(attn_check_size("cols", cols, 0));
    if (spectrum != NULL)
        ATTN_TRY(attn_read_struct("spectrum", "attn_spectrum", spectrum, SPECTRUM_FIRST_SIZE, sizeof given, &given));
    else if (singular_values == NULL)
        return attn_fail(ATTN_ERR_NULL, "singular_values and spectrum are both NULL");
    int64_t count = attn_smaller(rows, cols);
    attn_extent input = attn_extent_matrix("a", a, rows, cols, row_stride, sizeof(real));
    attn_extent values = attn_extent_matrix("singular_values", singular_values, 1, count, count, sizeof(real));
    ATTN_TRY(attn_check_array(&input));
    attn_extent fields =
        attn_extent_matrix("spectrum", spectrum, 1, (int64_t)given.struct_size, (int64_t)given.struct_size, 1);
    ATTN_TRY(attn_check_apart(&values, &input));
    ATTN_TRY(attn_check_apart(&fields, &input));
    ATTN_TRY(attn_check_outputs_apart(&values, &fields));
    if (count > 0) {
        ATTN_TRY(attn_check_lapack_matrix("rows", rows, "cols", cols));
        ATTN_TRY(attn_check_entries("a", a, rows, cols, row_stride));
        ATTN_TRY(attn_blas_check());
        ATTN_TRY(compute(&resources, rows, cols, a, row_stride, singular_values, spectrum != NULL ? &found : NULL));
    } else {
        found = describe(rows, cols, NULL);
    }
    if (spectrum != NULL) {
        found.struct_size = given.struct_size;
        memcpy(spectrum, &found, given.struct_size);
    }
    return ATTN_OK;
}
