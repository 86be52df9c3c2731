/* Slopes of ALiBi: small numbers, any number of heads against the oracle, errors. */
#include "chain/chain_test.h"

static void test_small_numbers(void **state) {
    (void)state;
    real slopes[3];
    memset(slopes, 0xff, sizeof slopes);
    assert_ok(REAL(attn_alibi_slopes)(3, slopes));
    assert_true(slopes[0] == (real)1 / 16 && slopes[1] == (real)1 / 256 && slopes[2] == (real)1 / 4);
}

/* 8 heads: 1/2 to 1/256, exactly. */
static void test_eight_heads_are_powers_of_two(void **state) {
    (void)state;
    real slopes[8], wanted = 1;
    memset(slopes, 0xff, sizeof slopes);
    assert_ok(REAL(attn_alibi_slopes)(8, slopes));
    for (int h = 0; h < 8; h++) {
        wanted /= 2;
        assert_true(slopes[h] == wanted);
    }
}

static void test_any_number_of_heads(void **state) {
    (void)state;
    for (int64_t heads = 0; heads <= 150; heads++) {
        real *slopes = poisoned(heads + 1);
        assert_ok(REAL(attn_alibi_slopes)(heads, slopes));
        for (int64_t h = 0; h < heads; h++) {
            long double wanted = support_oracle_alibi_slope(heads, h);
            assert_near(slopes[h], wanted, EPS * wanted * (long double)support_valgrind_factor(REAL_DTYPE));
        }
        assert_untouched(slopes + heads, 1);
        free(slopes);
    }
    assert_ok(REAL(attn_alibi_slopes)(0, NULL));
}

static void test_errors(void **state) {
    (void)state;
    real slopes[3];
    memset(slopes, 0xff, sizeof slopes);
    assert_refused(ATTN_ERR_SIZE, "heads -1 is below 0", REAL(attn_alibi_slopes)(-1, slopes));
    assert_refused(ATTN_ERR_NULL, "slopes is NULL", REAL(attn_alibi_slopes)(3, NULL));
    assert_refused(ATTN_ERR_OVERFLOW, "slopes: its sizes and strides span more than the address space",
                   REAL(attn_alibi_slopes)(INT64_MAX, slopes));
    assert_untouched(slopes, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_numbers),
        cmocka_unit_test(test_eight_heads_are_powers_of_two),
        cmocka_unit_test(test_any_number_of_heads),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
