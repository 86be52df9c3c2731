/* The three products of the chain against long double, on matrices with NaN between their rows. */
#ifndef PRODUCT_CHECK_H
#define PRODUCT_CHECK_H

#include "chain_test.h"

/* |error| <= PRODUCT_EPS eps (sum of |terms|). The rigorous bound is half the inner size; the worst of the millions of
 * numbers in product_sweep_test.c was 2.9 (OpenBLAS 0.3.21, Zen 3, 2026-11-30). */
#define PRODUCT_EPS 4.0L

/* Room for one row of wanted numbers. */
typedef struct wanted_row {
    long double *value, *tolerance;
} wanted_row;

static inline wanted_row wanted_row_create(int64_t cols) {
    size_t count = cols > 0 ? (size_t)cols : 1;
    wanted_row row = {calloc(count, sizeof(long double)), calloc(count, sizeof(long double))};
    assert_non_null(row.value);
    assert_non_null(row.tolerance);
    return row;
}

static inline void wanted_row_free(wanted_row *row) {
    free(row->value);
    free(row->tolerance);
}

/* tolerance holds the sums of magnitudes. */
static inline void compare_product_row(support_report *report, const char *name, int64_t r, int64_t cols,
                                       const real *got, wanted_row *row) {
    for (int64_t c = 0; c < cols; c++)
        row->tolerance[c] *= PRODUCT_EPS * EPS * (long double)support_valgrind_factor(REAL_DTYPE);
    support_compare_row(report, name, r, REAL_DTYPE, cols, got, row->value, row->tolerance);
}

static inline double finish_report(support_report *report, const char *what) {
    if (!support_report_end(report, what))
        fail_msg("%s", report->text);
    return report->worst;
}

/* pad: unused elements after each row, and after each member. Returns the worst error in units of the tolerance. */
static inline double check_project(int64_t batch, int64_t rows, int64_t d_in, int64_t d_out, int64_t pad,
                                   bool with_bias) {
    int64_t x_stride = d_in + pad, w_stride = d_out + pad, y_stride = d_out + pad;
    int64_t x_batch = rows * x_stride + pad, y_batch = rows * y_stride + pad;
    real *x = poisoned(batch * x_batch), *y = poisoned(batch * y_batch);
    real *w = random_matrix(d_in, d_out, w_stride, 2), *bias = with_bias ? random_numbers(d_out, 3) : NULL;
    for (int64_t r = 0; r < batch * rows; r++)
        support_fill_normal(REAL_DTYPE, x + r / rows * x_batch + r % rows * x_stride, d_in, 1, 1, (uint64_t)(r * d_in),
                            1);
    assert_ok(REAL(attn_project)(NULL, batch, rows, d_in, d_out, x, x_batch, x_stride, w, w_stride, bias, y, y_batch,
                                 y_stride));
    support_report report;
    support_report_begin(&report);
    wanted_row row = wanted_row_create(d_out);
    for (int64_t b = 0; b < batch; b++) {
        assert_rows_only(y + b * y_batch, rows, d_out, y_stride);
        assert_untouched(y + b * y_batch + (rows - 1) * y_stride + d_out, 2 * pad);
        for (int64_t r = 0; r < rows; r++) {
            support_oracle_project(REAL_DTYPE, d_in, d_out, x + b * x_batch + r * x_stride, w, w_stride, bias,
                                   row.value, row.tolerance);
            compare_product_row(&report, "y", b * rows + r, d_out, y + b * y_batch + r * y_stride, &row);
        }
    }
    wanted_row_free(&row);
    free(x);
    free(y);
    free(w);
    free(bias);
    return finish_report(&report, "project");
}

static inline double check_scores(int64_t q_len, int64_t kv_len, int64_t head_dim, int64_t pad, double scale) {
    int64_t q_stride = head_dim + pad, k_stride = head_dim + 2 * pad, s_stride = kv_len + pad;
    real *q = random_matrix(q_len, head_dim, q_stride, 1), *k = random_matrix(kv_len, head_dim, k_stride, 2);
    real *s = poisoned(matrix_extent(q_len, kv_len, s_stride));
    assert_ok(REAL(attn_scores)(NULL, q_len, kv_len, head_dim, q, q_stride, k, k_stride, scale, s, s_stride));
    assert_rows_only(s, q_len, kv_len, s_stride);
    support_report report;
    support_report_begin(&report);
    wanted_row row = wanted_row_create(kv_len);
    for (int64_t r = 0; r < q_len; r++) {
        support_oracle_scores(REAL_DTYPE, kv_len, head_dim, q + r * q_stride, k, k_stride, scale, row.value,
                              row.tolerance);
        compare_product_row(&report, "s", r, kv_len, s + r * s_stride, &row);
    }
    wanted_row_free(&row);
    free(q);
    free(k);
    free(s);
    return finish_report(&report, "scores");
}

static inline double check_combine(int64_t q_len, int64_t kv_len, int64_t v_dim, int64_t pad) {
    int64_t a_stride = kv_len + pad, v_stride = v_dim + 2 * pad, z_stride = v_dim + 3 * pad;
    real *a = random_matrix(q_len, kv_len, a_stride, 1), *v = random_matrix(kv_len, v_dim, v_stride, 2);
    real *z = poisoned(matrix_extent(q_len, v_dim, z_stride));
    assert_ok(REAL(attn_combine)(NULL, q_len, kv_len, v_dim, a, a_stride, v, v_stride, z, z_stride));
    assert_rows_only(z, q_len, v_dim, z_stride);
    support_report report;
    support_report_begin(&report);
    wanted_row row = wanted_row_create(v_dim);
    for (int64_t r = 0; r < q_len; r++) {
        support_oracle_combine(REAL_DTYPE, kv_len, v_dim, a + r * a_stride, v, v_stride, row.value, row.tolerance);
        compare_product_row(&report, "z", r, v_dim, z + r * z_stride, &row);
    }
    wanted_row_free(&row);
    free(a);
    free(v);
    free(z);
    return finish_report(&report, "combine");
}

#endif
