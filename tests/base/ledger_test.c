/* The workspace ledger: sizes and addresses agree, no two pieces share a byte. */
#include "base/ledger.h"

#include "base_test.h"

/* Fills every copy of every piece with a number of its own, then finds all of them whole. */
static void check_pieces_apart(const attn_ledger *ledger, const int64_t *bytes_asked) {
    unsigned char *base = aligned_alloc(ATTN_LEDGER_ALIGN, (size_t)ledger->bytes + ATTN_LEDGER_ALIGN);
    assert_non_null(base);
    memset(base, 0, (size_t)ledger->bytes + ATTN_LEDGER_ALIGN);
    for (int pass = 0; pass < 2; pass++) {
        unsigned char mark = 0;
        for (int p = 0; p < ledger->pieces; p++)
            for (int64_t copy = 0; copy < ledger->piece[p].copies; copy++) {
                unsigned char *piece = attn_ledger_grant(ledger, base, p, copy);
                mark++;
                assert_int_equal((uintptr_t)piece % ATTN_LEDGER_ALIGN, 0);
                assert_true(piece >= base && piece + bytes_asked[p] <= base + ledger->bytes);
                for (int64_t i = 0; i < bytes_asked[p]; i++)
                    if (pass == 0)
                        piece[i] = mark;
                    else
                        assert_int_equal(piece[i], mark);
            }
    }
    free(base);
}

static void test_pieces(void **state) {
    (void)state;
    attn_ledger ledger = {0};
    const int64_t asked[] = {7 * 4, 64, 0, 65, 3 * 8, 1};
    assert_int_equal(attn_ledger_book(&ledger, "seven floats", 7, 4, 3), 0);
    assert_int_equal(attn_ledger_book(&ledger, "a line", 64, 1, 2), 1);
    assert_int_equal(attn_ledger_book(&ledger, "nothing", 0, 8, 2), 2);
    assert_int_equal(attn_ledger_book(&ledger, "over a line", 65, 1, 4), 3);
    assert_int_equal(attn_ledger_book(&ledger, "three doubles", 3, 8, 1), 4);
    assert_int_equal(attn_ledger_book(&ledger, "a byte", 1, 1, 5), 5);
    assert_int_equal(ledger.pieces, 6);
    assert_false(ledger.overflow);
    int64_t least = 3 * 64 + 2 * 64 + 4 * 128 + 64 + 5 * 64; /* more with the red zones of a sanitizer */
    assert_true(ledger.bytes >= least && ledger.bytes % ATTN_LEDGER_ALIGN == 0);
    assert_string_equal(ledger.piece[3].name, "over a line");
    check_pieces_apart(&ledger, asked);
}

static void test_no_copies(void **state) {
    (void)state;
    attn_ledger ledger = {0};
    attn_ledger_book(&ledger, "nobody's", 1000, 8, 0);
    assert_true(ledger.bytes == 0);
    assert_false(ledger.overflow);
}

static void test_as_many_pieces_as_fit(void **state) {
    (void)state;
    attn_ledger ledger = {0};
    int64_t asked[ATTN_LEDGER_MAX];
    for (int p = 0; p < ATTN_LEDGER_MAX; p++) {
        asked[p] = 1 + 31 * p;
        assert_int_equal(attn_ledger_book(&ledger, "piece", asked[p], 1, 1 + p % 3), p);
    }
    check_pieces_apart(&ledger, asked);
}

static void check_overflow(int64_t count, int64_t element_bytes, int64_t copies) {
    attn_ledger ledger = {0};
    attn_ledger_book(&ledger, "before", 10, 4, 1);
    attn_ledger_book(&ledger, "too much", count, element_bytes, copies);
    assert_true(ledger.overflow);
    assert_true(ledger.bytes == INT64_MAX);
    attn_ledger_book(&ledger, "after", 10, 4, 1);
    assert_true(ledger.overflow);
    assert_true(ledger.bytes == INT64_MAX);
}

static void test_overflow(void **state) {
    (void)state;
    check_overflow(INT64_MAX, 1, 1);
    check_overflow(INT64_MAX - 64, 1, 1); /* only with what stands before it */
    check_overflow(INT64_MAX / 8 + 1, 8, 1);
    check_overflow(INT64_C(1) << 40, 8, INT64_C(1) << 21);
    check_overflow(INT64_MAX, INT64_MAX, INT64_MAX);
    attn_ledger ledger = {0};
    attn_ledger_book(&ledger, "large, but a size", INT64_C(1) << 59, 8, 1);
    assert_false(ledger.overflow);
    assert_true(ledger.bytes >= INT64_C(1) << 62);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_no_copies),
        cmocka_unit_test(test_as_many_pieces_as_fit),
        cmocka_unit_test(test_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
