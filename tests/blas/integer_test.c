/* A BLAS library whose integers are not those that libattn was built for is found out before it is called: this program
 * answers cblas_ddot as a library with 64-bit integers does. */
#include "blas_test.h"

double cblas_ddot(int64_t n, const double *x, int64_t x_step, const double *y, int64_t y_step);
double cblas_ddot(int64_t n, const double *x, int64_t x_step, const double *y, int64_t y_step) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i * x_step] * y[i * y_step];
    return sum;
}

static void test_width_is_told(void **state) {
    (void)state;
    attn_blas_info info = {.struct_size = sizeof info};
    assert_int_equal(attn_blas_get_info(&info), ATTN_OK);
    assert_int_equal(info.integer_bits, 64);
    assert_non_null(strstr(attn_version_string(), ", 64-bit integers"));
}

static bool untouched(const unsigned char *output, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (output[i] != 0xff)
            return false;
    return true;
}

static void test_products_are_refused(void **state) {
    (void)state;
    watch_begin(WATCH_ANY_TASKS);
    for_each_call(dtype, call) {
        size_t bytes = call_output_bytes(dtype, call);
        unsigned char *output = malloc(bytes);
        assert_non_null(output);
        attn_status status = call_run(dtype, call, NULL, output);
        if (call == CALL_SDPA_NAIVE) {
            assert_int_equal(status, ATTN_OK); /* needs no BLAS */
        } else {
            assert_int_equal(status, ATTN_ERR_BLAS);
            assert_non_null(strstr(attn_last_error(), "64-bit integers, libattn was built for 32"));
            assert_true(untouched(output, bytes));
        }
        free(output);
    }
    assert_int_equal(watch_end().products, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_width_is_told),
        cmocka_unit_test(test_products_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
