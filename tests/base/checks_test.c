/* The checks that every public function shares. */
#include "base/checks.h"

#include "base_test.h"

/* ---- Saturation -------------------------------------------------------------------------------------------------- */

static void test_saturation(void **state) {
    (void)state;
    assert_true(attn_mul_saturated(0, INT64_MAX) == 0);
    assert_true(attn_mul_saturated(7, 11) == 77);
    assert_true(attn_mul_saturated(INT64_MAX, 1) == INT64_MAX);
    assert_true(attn_mul_saturated(INT64_C(3037000500), INT64_C(3037000500)) == INT64_MAX);
    assert_true(attn_mul_saturated(INT64_C(3037000499), INT64_C(3037000499)) == INT64_C(9223372030926249001));
    assert_true(attn_mul_saturated(INT64_MAX, INT64_MAX) == INT64_MAX);
    assert_true(attn_add_saturated(3, 4) == 7);
    assert_true(attn_add_saturated(INT64_MAX - 1, 1) == INT64_MAX);
    assert_true(attn_add_saturated(INT64_MAX, 1) == INT64_MAX);
    assert_true(attn_add_saturated(INT64_MAX, INT64_MAX) == INT64_MAX);
}

/* ---- One array --------------------------------------------------------------------------------------------------- */

/* Places in here are only compared, never read. */
static char memory[4096];

/* [batch, heads, rows, cols] of 4-byte elements at memory + offset. */
static attn_extent array4(const char *name, int offset, int64_t batch, int64_t heads, int64_t rows, int64_t cols,
                          int64_t batch_stride, int64_t head_stride, int64_t row_stride) {
    return (attn_extent){
        .name = name,
        .address = memory + offset,
        .dims = 4,
        .size = {batch, heads, rows, cols},
        .stride = {batch_stride, head_stride, row_stride, 1},
        .element_bytes = 4,
    };
}

static attn_extent matrix(const char *name, int offset, int64_t rows, int64_t cols, int64_t row_stride) {
    return attn_extent_matrix(name, memory + offset, rows, cols, row_stride, 4);
}

static void test_sizes(void **state) {
    (void)state;
    assert_ok(attn_check_size("rows", 0, 0));
    assert_ok(attn_check_size("head_dim", 1, 1));
    assert_refused(ATTN_ERR_SIZE, "rows -1 is below 0", attn_check_size("rows", -1, 0));
    assert_refused(ATTN_ERR_SIZE, "rows -9223372036854775808 is below 0", attn_check_size("rows", INT64_MIN, 0));
    assert_refused(ATTN_ERR_SIZE, "head_dim 0 is below 1", attn_check_size("head_dim", 0, 1));
}

static void test_strides(void **state) {
    (void)state;
    attn_extent e = matrix("x", 0, 3, 5, 5);
    assert_ok(attn_check_extent(&e));
    e = matrix("x", 0, 3, 5, 4);
    assert_refused(ATTN_ERR_STRIDE, "x: row stride 4 is below the row size 5", attn_check_extent(&e));
    e = matrix("x", 0, 1, 5, 0);
    assert_ok(attn_check_extent(&e)); /* no second row to step to */
    e = matrix("x", 0, 1, 5, -1);
    assert_refused(ATTN_ERR_STRIDE, "x: row stride -1 is negative", attn_check_extent(&e));
    e = matrix("x", 0, 3, 0, 0);
    assert_ok(attn_check_extent(&e));
    e = array4("k", 0, 2, 3, 5, 7, 0, 0, 7);
    assert_ok(attn_check_extent(&e)); /* batch and heads broadcast */
    e = array4("k", 0, 2, 3, 5, 7, -105, 35, 7);
    assert_refused(ATTN_ERR_STRIDE, "k: batch stride -105 is negative", attn_check_extent(&e));
    e = array4("k", 0, 2, 3, 5, 7, 105, -35, 7);
    assert_refused(ATTN_ERR_STRIDE, "k: head stride -35 is negative", attn_check_extent(&e));
    e = array4("k", 0, 2, 3, 5, 7, 105, 35, 6);
    assert_refused(ATTN_ERR_STRIDE, "k: row stride 6 is below the row size 7", attn_check_extent(&e));
    e = attn_extent_vector("ids", memory, 9, 8);
    assert_ok(attn_check_extent(&e));
}

static void test_extents_beyond_the_address_space(void **state) {
    (void)state;
    const char *sentence = "x: its sizes and strides span more than the address space";
    attn_extent e = matrix("x", 0, INT64_C(1) << 40, 1, INT64_C(1) << 40);
    assert_refused(ATTN_ERR_OVERFLOW, sentence, attn_check_extent(&e));
    e = matrix("x", 0, 2, 1, INT64_MAX);
    assert_refused(ATTN_ERR_OVERFLOW, sentence, attn_check_extent(&e));
    e = array4("x", 0, 2, 2, 2, 2, INT64_MAX / 2, INT64_MAX / 2, INT64_MAX / 2);
    assert_refused(ATTN_ERR_OVERFLOW, sentence, attn_check_extent(&e));
    e = attn_extent_vector("x", memory, INT64_MAX / 4, 4); /* the bytes fit int64, just */
    assert_ok(attn_check_extent(&e));
    e = attn_extent_vector("x", memory, INT64_MAX / 4 + 1, 4);
    assert_refused(ATTN_ERR_OVERFLOW, sentence, attn_check_extent(&e));
    e = matrix("x", 0, INT64_MAX, 0, INT64_MAX);
    assert_ok(attn_check_extent(&e)); /* no element */
}

static void test_strides_that_lead_nowhere(void **state) {
    (void)state;
    attn_extent e = array4("x", 0, 2, 1, 3, 1, INT64_MAX, INT64_MAX, 7);
    attn_settle_strides(&e);
    assert_true(e.stride[0] == INT64_MAX && e.stride[1] == 0 && e.stride[2] == 7 && e.stride[3] == 0);
    e = array4("x", 0, 2, 3, 0, 5, INT64_MAX, 35, 7);
    attn_settle_strides(&e);
    for (int d = 0; d < 4; d++)
        assert_true(e.stride[d] == 0);
    e = array4("x", 0, 2, 3, 5, 0, INT64_MAX, -1, 7);
    attn_strides settled = attn_settled_strides(e);
    assert_true(settled.batch == 0 && settled.head == -1 && settled.row == 0);
    assert_refused(ATTN_ERR_STRIDE, "x: head stride -1 is negative", attn_check_extent(&e));
}

static void test_presence(void **state) {
    (void)state;
    attn_extent e = attn_extent_matrix("v", NULL, 3, 5, 5, 4);
    assert_refused(ATTN_ERR_NULL, "v is NULL", attn_check_present(&e));
    assert_refused(ATTN_ERR_NULL, "v is NULL", attn_check_present_with(&e, NULL));
    assert_refused(ATTN_ERR_NULL, "HAS_V is set, but v is NULL", attn_check_present_with(&e, "HAS_V"));
    e.size[1] = 0;
    assert_true(attn_extent_empty(&e));
    assert_ok(attn_check_present(&e));
    e = attn_extent_vector("bias", NULL, 0, 4);
    assert_ok(attn_check_present(&e));
    e = matrix("v", 0, 3, 5, 5);
    assert_false(attn_extent_empty(&e));
    assert_ok(attn_check_present(&e));
}

/* ---- Overlap ----------------------------------------------------------------------------------------------------- */

static void test_self_overlap(void **state) {
    (void)state;
    attn_extent e = array4("out", 0, 2, 3, 5, 7, 105, 35, 7); /* [batch, heads, len, dim] */
    assert_ok(attn_check_no_self_overlap(&e));
    e = array4("out", 0, 2, 3, 5, 7, 105, 7, 21); /* [batch, len, heads, dim] */
    assert_ok(attn_check_no_self_overlap(&e));
    e = array4("out", 0, 2, 3, 5, 7, 7, 14, 42); /* [len, heads, batch, dim] */
    assert_ok(attn_check_no_self_overlap(&e));
    e = array4("out", 0, 2, 3, 5, 7, 0, 35, 7);
    assert_refused(ATTN_ERR_STRIDE, "out: a stride of 0 makes its elements overlap, at least 1 is needed",
                   attn_check_no_self_overlap(&e));
    e = array4("out", 0, 2, 3, 5, 7, 104, 35, 7);
    assert_refused(ATTN_ERR_STRIDE, "out: a stride of 104 makes its elements overlap, at least 105 is needed",
                   attn_check_no_self_overlap(&e));
    e = array4("out", 0, 2, 3, 5, 7, 105, 6, 21);
    assert_refused(ATTN_ERR_STRIDE, "out: a stride of 6 makes its elements overlap, at least 7 is needed",
                   attn_check_no_self_overlap(&e));
    e = array4("out", 0, 1, 1, 5, 7, 0, 0, 7); /* no second member to step to */
    assert_ok(attn_check_no_self_overlap(&e));
    e = array4("out", 0, 2, 3, 0, 7, 0, 0, 0);
    assert_ok(attn_check_no_self_overlap(&e)); /* empty */
    e = array4("out", 0, 2, 2, 2, 2, INT64_MAX, INT64_MAX / 2, 2);
    assert_ok(attn_check_no_self_overlap(&e)); /* saturates, does not wrap */
}

/* The exhaustive answer for small shapes: are all elements at different places? */
static bool all_apart(const attn_extent *e) {
    bool taken[512] = {false};
    for (int64_t b = 0; b < e->size[0]; b++)
        for (int64_t h = 0; h < e->size[1]; h++)
            for (int64_t r = 0; r < e->size[2]; r++)
                for (int64_t c = 0; c < e->size[3]; c++) {
                    int64_t at = b * e->stride[0] + h * e->stride[1] + r * e->stride[2] + c;
                    if (taken[at])
                        return false;
                    taken[at] = true;
                }
    return true;
}

/* Whatever is accepted has no two elements in one place. */
static void test_self_overlap_of_all_small_shapes(void **state) {
    (void)state;
    int accepted = 0;
    for (int shape = 0; shape < 81; shape++)
        for (int strides = 0; strides < 13 * 13 * 13; strides++) {
            attn_extent e = array4("out", 0, 1 + shape % 3, 1 + shape / 3 % 3, 1 + shape / 9 % 3, 1 + shape / 27,
                                   strides % 13, strides / 13 % 13, strides / 169);
            if (attn_check_no_self_overlap(&e) != ATTN_OK)
                continue;
            accepted++;
            if (!all_apart(&e))
                fail_msg("shape %d, strides %d overlap", shape, strides);
        }
    assert_true(accepted > 1000);
}

static void test_output_and_input(void **state) {
    (void)state;
    attn_extent out = matrix("out", 400, 5, 10, 10); /* bytes 400 to 600 */
    attn_extent in = matrix("q", 400, 5, 10, 10);
    assert_refused(ATTN_ERR_OVERLAP, "out starts where q starts", attn_check_apart(&out, &in));
    in = matrix("q", 400, 5, 8, 100); /* the same start, whatever the rest */
    assert_refused(ATTN_ERR_OVERLAP, "out starts where q starts", attn_check_apart(&out, &in));
    in = matrix("q", 200, 5, 10, 10); /* ends where out starts */
    assert_ok(attn_check_apart(&out, &in));
    in = matrix("q", 204, 5, 10, 10); /* reaches one element into it */
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps q", attn_check_apart(&out, &in));
    in = matrix("q", 596, 5, 10, 10);
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps q", attn_check_apart(&out, &in));
    in = matrix("q", 600, 5, 10, 10);
    assert_ok(attn_check_apart(&out, &in));
    in = matrix("q", 440, 1, 2, 2); /* inside */
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps q", attn_check_apart(&out, &in));
    in = matrix("q", 360, 5, 10, 20); /* with holes: undefined, not refused */
    assert_ok(attn_check_apart(&out, &in));
    in = array4("q", 360, 3, 2, 5, 10, 0, 50, 10); /* dense but for its broadcast batch */
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps q", attn_check_apart(&out, &in));
    in = array4("q", 196, 3, 2, 5, 5, 0, 25, 5); /* 50 elements, broadcast: ends before 400 */
    assert_ok(attn_check_apart(&out, &in));
    in = matrix("q", 440, 1, 2, 1000); /* one row has no holes, whatever its stride */
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps q", attn_check_apart(&out, &in));
}

static void test_slices_of_one_array(void **state) {
    (void)state;
    attn_extent left = matrix("out", 0, 5, 10, 20), right = matrix("v", 40, 5, 10, 20);
    assert_ok(attn_check_apart(&left, &right));
    assert_ok(attn_check_apart(&right, &left));
    assert_ok(attn_check_outputs_apart(&left, &right));
    attn_extent whole = matrix("lse", 4, 5, 20, 20);
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps lse", attn_check_outputs_apart(&left, &whole));
    assert_refused(ATTN_ERR_OVERLAP, "lse overlaps out", attn_check_outputs_apart(&whole, &left));
    attn_extent same = matrix("lse", 0, 5, 3, 20);
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps lse", attn_check_outputs_apart(&left, &same));
    attn_extent after = matrix("lse", 360, 5, 1, 1); /* the last element of out is at 356 */
    assert_ok(attn_check_outputs_apart(&left, &after));
    after = matrix("lse", 356, 5, 1, 1);
    assert_refused(ATTN_ERR_OVERLAP, "out overlaps lse", attn_check_outputs_apart(&left, &after));
}

static void test_empty_arrays_overlap_nothing(void **state) {
    (void)state;
    attn_extent full = matrix("out", 0, 5, 10, 10), empty = matrix("q", 0, 5, 0, 10);
    assert_ok(attn_check_apart(&full, &empty));
    assert_ok(attn_check_apart(&empty, &full));
    assert_ok(attn_check_outputs_apart(&full, &empty));
    assert_ok(attn_check_outputs_apart(&empty, &full));
    attn_extent absent = attn_extent_matrix("lse", NULL, 5, 10, 10, 4);
    assert_ok(attn_check_apart(&full, &absent));
    assert_ok(attn_check_outputs_apart(&absent, &absent));
}

/* ---- struct_size ------------------------------------------------------------------------------------------------- */

typedef struct new_struct {
    size_t struct_size;
    int32_t field;
    int32_t later;
    int64_t later_still;
} new_struct;
enum { FIRST = offsetof(new_struct, field) + sizeof(int32_t), OURS = sizeof(new_struct) };

static void test_struct_sizes(void **state) {
    (void)state;
    assert_ok(attn_check_struct_size("thing", FIRST, FIRST, OURS));
    assert_ok(attn_check_struct_size("thing", OURS, FIRST, OURS));
    assert_refused(ATTN_ERR_STRUCT_SIZE, "thing: struct_size 11 is below the first version's 12",
                   attn_check_struct_size("thing", FIRST - 1, FIRST, OURS));
    assert_refused(ATTN_ERR_STRUCT_SIZE, "thing: struct_size 0 is no size: its initialiser sets it, or sizeof",
                   attn_check_struct_size("thing", 0, FIRST, OURS));
    assert_refused(ATTN_ERR_STRUCT_SIZE, "thing: struct_size 25 is above this library's 24",
                   attn_check_struct_size("thing", OURS + 1, FIRST, OURS));
    assert_int_equal(attn_check_struct_size("thing", SIZE_MAX, FIRST, OURS), ATTN_ERR_STRUCT_SIZE);
}

/* Every size from 0 to beyond ours: accepted ones are filled to the last byte and not further, others not touched. */
static void test_initialisers_write_struct_size_bytes(void **state) {
    (void)state;
    for (size_t size = 0; size < OURS + 8; size++) {
        unsigned char bytes[OURS + 16];
        memset(bytes, 0xa5, sizeof bytes);
        attn_status status = attn_init_struct("thing", bytes, size, FIRST, OURS);
        assert_int_equal(status, size < FIRST || size > OURS ? ATTN_ERR_STRUCT_SIZE : ATTN_OK);
        size_t written = status == ATTN_OK ? size : 0;
        for (size_t i = written; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xa5);
        for (size_t i = sizeof size; i < written; i++)
            assert_int_equal(bytes[i], 0);
        if (written > 0)
            assert_memory_equal(bytes, &size, sizeof size);
    }
    assert_refused(ATTN_ERR_NULL, "thing is NULL", attn_init_struct("thing", NULL, OURS, FIRST, OURS));
}

/* Called through a pointer to any struct. */
#define INITIALISER(function, type)                                                                                    \
    static attn_status init_##type(void *object, size_t size) {                                                        \
        return function(object, size);                                                                                 \
    }
INITIALISER(attn_context_init, attn_context)
INITIALISER(attn_problem_init, attn_problem)
INITIALISER(attn_args_init_f32, attn_args_f32)
INITIALISER(attn_args_init_f64, attn_args_f64)
INITIALISER(attn_trace_init_f32, attn_trace_f32)
INITIALISER(attn_trace_init_f64, attn_trace_f64)

static void test_public_initialisers(void **state) {
    (void)state;
    const struct {
        attn_status (*init)(void *object, size_t size);
        size_t size;
    } structs[] = {
        {init_attn_context, sizeof(attn_context)},     {init_attn_problem, sizeof(attn_problem)},
        {init_attn_args_f32, sizeof(attn_args_f32)},   {init_attn_args_f64, sizeof(attn_args_f64)},
        {init_attn_trace_f32, sizeof(attn_trace_f32)}, {init_attn_trace_f64, sizeof(attn_trace_f64)},
    };
    unsigned char bytes[2048];
    for (size_t s = 0; s < sizeof structs / sizeof *structs; s++) {
        const size_t size = structs[s].size;
        assert_true(size + 16 <= sizeof bytes);
        memset(bytes, 0xa5, sizeof bytes);
        assert_ok(structs[s].init(bytes, size));
        assert_memory_equal(bytes, &size, sizeof size);
        for (size_t i = sizeof size; i < size + 16; i++)
            assert_int_equal(bytes[i], i < size ? 0 : 0xa5);
        memset(bytes, 0xa5, sizeof bytes);
        assert_int_equal(structs[s].init(bytes, size + 1), ATTN_ERR_STRUCT_SIZE);
        assert_int_equal(structs[s].init(bytes, sizeof size), ATTN_ERR_STRUCT_SIZE);
        assert_int_equal(structs[s].init(NULL, size), ATTN_ERR_NULL);
        for (size_t i = 0; i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0xa5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_extents_beyond_the_address_space),
        cmocka_unit_test(test_strides_that_lead_nowhere),
        cmocka_unit_test(test_presence),
        cmocka_unit_test(test_self_overlap),
        cmocka_unit_test(test_self_overlap_of_all_small_shapes),
        cmocka_unit_test(test_output_and_input),
        cmocka_unit_test(test_slices_of_one_array),
        cmocka_unit_test(test_empty_arrays_overlap_nothing),
        cmocka_unit_test(test_struct_sizes),
        cmocka_unit_test(test_initialisers_write_struct_size_bytes),
        cmocka_unit_test(test_public_initialisers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
