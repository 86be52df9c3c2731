/* Every argument error: its status, its sentence, and outputs that were not touched. */
#include "worked_example.h"

#include <math.h>

/* Inputs that are numbers, an output that is poison; large enough for all calls below that are no errors. The output
 * lies first, so that an input whose sizes are huge reaches away from it. */
enum { ELEMENTS = 64 };
static real arrays[3 * ELEMENTS];
static real *const output = arrays, *const input = arrays + ELEMENTS, *const input2 = arrays + 2 * ELEMENTS;
static const int64_t ids[] = {0, 1, 2};

static int set_up(void **state) {
    (void)state;
    support_fill_normal(REAL_DTYPE, input, ELEMENTS, 1, 1, 0, 1);
    support_fill_normal(REAL_DTYPE, input2, ELEMENTS, 1, 2, 0, 1);
    memset(output, 0xff, ELEMENTS * sizeof *output);
    return 0;
}

#define REFUSED(status, sentence, ...)                                                                                 \
    do {                                                                                                               \
        assert_refused(status, sentence, __VA_ARGS__);                                                                 \
        assert_untouched(output, ELEMENTS);                                                                            \
    } while (0)

/* Far beyond memory, but each an int64. */
#define HUGE_SIZE (INT64_MAX / 2)
#define SPAN " its sizes and strides span more than the address space"

static void test_embed(void **state) {
    (void)state;
    const int64_t low[] = {0, -1, 2}, high[] = {0, 1, 3};
#define EMBED(rows, vocab, d, i, table, t_stride, e, e_stride)                                                         \
    REAL(attn_embed)(NULL, rows, vocab, d, i, table, t_stride, e, e_stride)
    REFUSED(ATTN_ERR_SIZE, "rows -1 is below 0", EMBED(-1, 3, 2, ids, input, 2, output, 2));
    REFUSED(ATTN_ERR_SIZE, "vocab -3 is below 0", EMBED(3, -3, 2, ids, input, 2, output, 2));
    REFUSED(ATTN_ERR_SIZE, "d_model -2 is below 0", EMBED(3, 3, -2, ids, input, 2, output, 2));
    REFUSED(ATTN_ERR_NULL, "ids is NULL", EMBED(3, 3, 2, NULL, input, 2, output, 2));
    REFUSED(ATTN_ERR_NULL, "table is NULL", EMBED(3, 3, 2, ids, NULL, 2, output, 2));
    REFUSED(ATTN_ERR_NULL, "e is NULL", EMBED(3, 3, 2, ids, input, 2, NULL, 2));
    REFUSED(ATTN_ERR_STRIDE, "table: row stride 1 is below the row size 2", EMBED(3, 3, 2, ids, input, 1, output, 2));
    REFUSED(ATTN_ERR_STRIDE, "e: row stride 0 is below the row size 2", EMBED(3, 3, 2, ids, input, 2, output, 0));
    REFUSED(ATTN_ERR_STRIDE, "e: row stride -2 is negative", EMBED(3, 3, 2, ids, input, 2, output, -2));
    REFUSED(ATTN_ERR_OVERFLOW, "table:" SPAN, EMBED(3, HUGE_SIZE, 2, ids, input, 2, output, 2));
    REFUSED(ATTN_ERR_OVERFLOW, "e:" SPAN, EMBED(3, 3, 2, ids, input, 2, output, HUGE_SIZE));
    REFUSED(ATTN_ERR_ID, "ids[1] -1 is no row of a table with vocab 3", EMBED(3, 3, 2, low, input, 2, output, 2));
    REFUSED(ATTN_ERR_ID, "ids[2] 3 is no row of a table with vocab 3", EMBED(3, 3, 2, high, input, 2, output, 2));
    REFUSED(ATTN_ERR_ID, "ids[0] 0 is no row of a table with vocab 0", EMBED(3, 0, 2, ids, NULL, 2, output, 2));
    REFUSED(ATTN_ERR_OVERLAP, "e starts where table starts", EMBED(3, 3, 2, ids, output, 2, output, 2));
    REFUSED(ATTN_ERR_OVERLAP, "e overlaps table", EMBED(3, 3, 2, ids, output, 2, output + 5, 2));
    REFUSED(ATTN_ERR_OVERLAP, "e starts where ids starts",
            EMBED(3, 3, 2, (const int64_t *)(const void *)output, input, 2, output, 2));
#undef EMBED
}

static void test_sinusoidal(void **state) {
    (void)state;
#define SINUSOIDAL(rows, d, start, base, p, stride) REAL(attn_sinusoidal)(NULL, rows, d, start, base, p, stride)
    REFUSED(ATTN_ERR_SIZE, "rows -1 is below 0", SINUSOIDAL(-1, 4, 0, 1e4, output, 4));
    REFUSED(ATTN_ERR_SIZE, "d_model 0 is below 1", SINUSOIDAL(3, 0, 0, 1e4, output, 4));
    REFUSED(ATTN_ERR_VALUE, "base nan is not finite and positive", SINUSOIDAL(3, 4, 0, (double)NAN, output, 4));
    REFUSED(ATTN_ERR_VALUE, "base inf is not finite and positive", SINUSOIDAL(3, 4, 0, (double)INFINITY, output, 4));
    REFUSED(ATTN_ERR_VALUE, "base 0 is not finite and positive", SINUSOIDAL(3, 4, 0, 0, output, 4));
    REFUSED(ATTN_ERR_VALUE, "base -10000 is not finite and positive", SINUSOIDAL(3, 4, 0, -1e4, output, 4));
    REFUSED(ATTN_ERR_OVERFLOW, "start 9223372036854775806: the last of 3 positions is no int64",
            SINUSOIDAL(3, 4, INT64_MAX - 1, 1e4, output, 4));
    REFUSED(ATTN_ERR_STRIDE, "p: row stride 3 is below the row size 4", SINUSOIDAL(3, 4, 0, 1e4, output, 3));
    REFUSED(ATTN_ERR_STRIDE, "p: row stride -4 is negative", SINUSOIDAL(1, 4, 0, 1e4, output, -4));
    REFUSED(ATTN_ERR_OVERFLOW, "p:" SPAN, SINUSOIDAL(HUGE_SIZE, 4, 0, 1e4, output, 4));
    REFUSED(ATTN_ERR_NULL, "p is NULL", SINUSOIDAL(3, 4, 0, 1e4, NULL, 4));
    assert_ok(SINUSOIDAL(3, 4, INT64_MAX - 2, 1e4, output, 4));
#undef SINUSOIDAL
}

static void test_add(void **state) {
    (void)state;
#define ADD(rows, d, e, es, p, ps, x, xs) REAL(attn_add)(NULL, rows, d, e, es, p, ps, x, xs)
    REFUSED(ATTN_ERR_SIZE, "rows -1 is below 0", ADD(-1, 4, input, 4, input2, 4, output, 4));
    REFUSED(ATTN_ERR_SIZE, "d_model -4 is below 0", ADD(3, -4, input, 4, input2, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "e is NULL", ADD(3, 4, NULL, 4, input2, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "p is NULL", ADD(3, 4, input, 4, NULL, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "x is NULL", ADD(3, 4, input, 4, input2, 4, NULL, 4));
    REFUSED(ATTN_ERR_STRIDE, "e: row stride 3 is below the row size 4", ADD(3, 4, input, 3, input2, 4, output, 4));
    REFUSED(ATTN_ERR_STRIDE, "p: row stride 0 is below the row size 4", ADD(3, 4, input, 4, input2, 0, output, 4));
    REFUSED(ATTN_ERR_STRIDE, "x: row stride 2 is below the row size 4", ADD(3, 4, input, 4, input2, 4, output, 2));
    REFUSED(ATTN_ERR_OVERFLOW, "x:" SPAN, ADD(3, 4, input, 4, input2, 4, output, HUGE_SIZE));
    REFUSED(ATTN_ERR_OVERLAP, "x starts where e starts", ADD(3, 4, output, 5, input2, 4, output, 4));
    REFUSED(ATTN_ERR_OVERLAP, "x overlaps p", ADD(3, 4, input, 4, output + 1, 4, output, 4));
#undef ADD
}

static void test_project(void **state) {
    (void)state;
#define PROJECT(batch, rows, in, out, x, xb, xs, w, ws, bias, y, yb, ys)                                               \
    REAL(attn_project)(NULL, batch, rows, in, out, x, xb, xs, w, ws, bias, y, yb, ys)
    REFUSED(ATTN_ERR_SIZE, "batch -2 is below 0", PROJECT(-2, 3, 4, 5, input, 12, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_SIZE, "rows -3 is below 0", PROJECT(2, -3, 4, 5, input, 12, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_SIZE, "d_in -4 is below 0", PROJECT(2, 3, -4, 5, input, 12, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_SIZE, "d_out -5 is below 0", PROJECT(2, 3, 4, -5, input, 12, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_NULL, "x is NULL", PROJECT(2, 3, 4, 5, NULL, 12, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_NULL, "w is NULL", PROJECT(2, 3, 4, 5, input, 12, 4, NULL, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_NULL, "y is NULL", PROJECT(2, 3, 4, 5, input, 12, 4, input2, 5, NULL, NULL, 15, 5));
    REFUSED(ATTN_ERR_STRIDE, "x: row stride 3 is below the row size 4",
            PROJECT(2, 3, 4, 5, input, 12, 3, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_STRIDE, "x: batch stride -12 is negative",
            PROJECT(2, 3, 4, 5, input, -12, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_STRIDE, "w: row stride 4 is below the row size 5",
            PROJECT(2, 3, 4, 5, input, 12, 4, input2, 4, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_STRIDE, "y: row stride 4 is below the row size 5",
            PROJECT(2, 3, 4, 5, input, 12, 4, input2, 5, NULL, output, 15, 4));
    REFUSED(ATTN_ERR_STRIDE, "y: a stride of 0 makes its elements overlap, at least 1 is needed",
            PROJECT(2, 3, 4, 5, input, 12, 4, input2, 5, NULL, output, 0, 5));
    REFUSED(ATTN_ERR_STRIDE, "y: a stride of 14 makes its elements overlap, at least 15 is needed",
            PROJECT(2, 3, 4, 5, input, 12, 4, input2, 5, NULL, output, 14, 5));
    REFUSED(ATTN_ERR_OVERFLOW, "x:" SPAN, PROJECT(2, 3, 4, 5, input, HUGE_SIZE, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_OVERFLOW, "y:" SPAN, PROJECT(2, 3, 4, 5, input, 12, 4, input2, 5, NULL, output, 15, HUGE_SIZE));
    REFUSED(ATTN_ERR_OVERLAP, "y starts where x starts",
            PROJECT(2, 3, 4, 5, output, 12, 4, input2, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_OVERLAP, "y overlaps w", PROJECT(2, 3, 4, 5, input, 12, 4, output + 29, 5, NULL, output, 15, 5));
    REFUSED(ATTN_ERR_OVERLAP, "y overlaps bias",
            PROJECT(2, 3, 4, 5, input, 12, 4, input2, 5, output + 3, output, 15, 5));
#undef PROJECT
}

static void test_scores(void **state) {
    (void)state;
#define SCORES(q_len, kv_len, dim, q, qs, k, ks, scale, s, ss)                                                         \
    REAL(attn_scores)(NULL, q_len, kv_len, dim, q, qs, k, ks, scale, s, ss)
    REFUSED(ATTN_ERR_SIZE, "q_len -3 is below 0", SCORES(-3, 5, 4, input, 4, input2, 4, 1, output, 5));
    REFUSED(ATTN_ERR_SIZE, "kv_len -5 is below 0", SCORES(3, -5, 4, input, 4, input2, 4, 1, output, 5));
    REFUSED(ATTN_ERR_SIZE, "head_dim -4 is below 0", SCORES(3, 5, -4, input, 4, input2, 4, 1, output, 5));
    REFUSED(ATTN_ERR_NULL, "q is NULL", SCORES(3, 5, 4, NULL, 4, input2, 4, 1, output, 5));
    REFUSED(ATTN_ERR_NULL, "k is NULL", SCORES(3, 5, 4, input, 4, NULL, 4, 1, output, 5));
    REFUSED(ATTN_ERR_NULL, "s is NULL", SCORES(3, 5, 4, input, 4, input2, 4, 1, NULL, 5));
    REFUSED(ATTN_ERR_STRIDE, "q: row stride 3 is below the row size 4",
            SCORES(3, 5, 4, input, 3, input2, 4, 1, output, 5));
    REFUSED(ATTN_ERR_STRIDE, "k: row stride 0 is below the row size 4",
            SCORES(3, 5, 4, input, 4, input2, 0, 1, output, 5));
    REFUSED(ATTN_ERR_STRIDE, "s: row stride 4 is below the row size 5",
            SCORES(3, 5, 4, input, 4, input2, 4, 1, output, 4));
    REFUSED(ATTN_ERR_OVERFLOW, "s:" SPAN, SCORES(3, 5, 4, input, 4, input2, 4, 1, output, HUGE_SIZE));
    REFUSED(ATTN_ERR_OVERLAP, "s starts where q starts", SCORES(3, 5, 4, output, 4, input2, 4, 1, output, 5));
    REFUSED(ATTN_ERR_OVERLAP, "s overlaps k", SCORES(3, 5, 4, input, 4, output + 2, 4, 1, output, 5));
#if ATTN_REAL_BITS == 32
#define PRECISION "float"
    REFUSED(ATTN_ERR_VALUE, "scale 1e+39 is not finite in float",
            SCORES(3, 5, 4, input, 4, input2, 4, 1e39, output, 5));
#else
#define PRECISION "double"
#endif
    REFUSED(ATTN_ERR_VALUE, "scale nan is not finite in " PRECISION,
            SCORES(3, 5, 4, input, 4, input2, 4, (double)NAN, output, 5));
    REFUSED(ATTN_ERR_VALUE, "scale -inf is not finite in " PRECISION,
            SCORES(3, 5, 4, input, 4, input2, 4, -(double)INFINITY, output, 5));
#undef SCORES
}

static void test_softmax(void **state) {
    (void)state;
#define SOFTMAX(rows, cols, s, ss, a, as) REAL(attn_softmax)(NULL, rows, cols, s, ss, a, as)
    REFUSED(ATTN_ERR_SIZE, "rows -1 is below 0", SOFTMAX(-1, 4, input, 4, output, 4));
    REFUSED(ATTN_ERR_SIZE, "cols -4 is below 0", SOFTMAX(3, -4, input, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "s is NULL", SOFTMAX(3, 4, NULL, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "a is NULL", SOFTMAX(3, 4, input, 4, NULL, 4));
    REFUSED(ATTN_ERR_STRIDE, "s: row stride 3 is below the row size 4", SOFTMAX(3, 4, input, 3, output, 4));
    REFUSED(ATTN_ERR_STRIDE, "a: row stride 3 is below the row size 4", SOFTMAX(3, 4, input, 4, output, 3));
    REFUSED(ATTN_ERR_OVERFLOW, "a:" SPAN, SOFTMAX(3, 4, input, 4, output, HUGE_SIZE));
    REFUSED(ATTN_ERR_OVERLAP, "a starts where s starts", SOFTMAX(3, 4, output, 5, output, 4));
    REFUSED(ATTN_ERR_OVERLAP, "a overlaps s", SOFTMAX(3, 4, output + 1, 4, output, 4));
#undef SOFTMAX
}

static void test_combine(void **state) {
    (void)state;
#define COMBINE(q_len, kv_len, dim, a, as, v, vs, z, zs)                                                               \
    REAL(attn_combine)(NULL, q_len, kv_len, dim, a, as, v, vs, z, zs)
    REFUSED(ATTN_ERR_SIZE, "q_len -3 is below 0", COMBINE(-3, 5, 4, input, 5, input2, 4, output, 4));
    REFUSED(ATTN_ERR_SIZE, "kv_len -5 is below 0", COMBINE(3, -5, 4, input, 5, input2, 4, output, 4));
    REFUSED(ATTN_ERR_SIZE, "v_dim -4 is below 0", COMBINE(3, 5, -4, input, 5, input2, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "a is NULL", COMBINE(3, 5, 4, NULL, 5, input2, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "v is NULL", COMBINE(3, 5, 4, input, 5, NULL, 4, output, 4));
    REFUSED(ATTN_ERR_NULL, "z is NULL", COMBINE(3, 5, 4, input, 5, input2, 4, NULL, 4));
    REFUSED(ATTN_ERR_STRIDE, "a: row stride 4 is below the row size 5",
            COMBINE(3, 5, 4, input, 4, input2, 4, output, 4));
    REFUSED(ATTN_ERR_STRIDE, "v: row stride 3 is below the row size 4",
            COMBINE(3, 5, 4, input, 5, input2, 3, output, 4));
    REFUSED(ATTN_ERR_STRIDE, "z: row stride 3 is below the row size 4",
            COMBINE(3, 5, 4, input, 5, input2, 4, output, 3));
    REFUSED(ATTN_ERR_OVERFLOW, "v:" SPAN, COMBINE(3, 5, 4, input, 5, input2, HUGE_SIZE, output, 4));
    REFUSED(ATTN_ERR_OVERLAP, "z starts where a starts", COMBINE(3, 5, 4, output, 5, input2, 4, output, 4));
    REFUSED(ATTN_ERR_OVERLAP, "z overlaps v", COMBINE(3, 5, 4, input, 5, output + 11, 4, output, 4));
#undef COMBINE
}

/* What a 32-bit BLAS cannot be told is refused before any memory is touched; what is not used may be anything. */
static void test_sizes_beyond_blas(void **state) {
    (void)state;
    attn_blas_info info = ATTN_STRUCT_INIT(attn_blas_info);
    assert_ok(attn_blas_get_info(&info));
    if (info.integer_bits != 32)
        skip();
    const int64_t big = INT64_C(1) << 32;
#define BEYOND " 4294967296 does not fit the integer of the BLAS library"
    REFUSED(ATTN_ERR_OVERFLOW, "x: row stride" BEYOND,
            REAL(attn_project)(NULL, 1, 2, 3, 4, input, 0, big, input2, 4, NULL, output, 0, 4));
    REFUSED(ATTN_ERR_OVERFLOW, "w: row stride" BEYOND,
            REAL(attn_project)(NULL, 1, 2, 3, 4, input, 0, 3, input2, big, NULL, output, 0, 4));
    REFUSED(ATTN_ERR_OVERFLOW, "y: row stride" BEYOND,
            REAL(attn_project)(NULL, 1, 2, 3, 4, input, 0, 3, input2, 4, NULL, output, 0, big));
    REFUSED(ATTN_ERR_OVERFLOW, "d_in" BEYOND,
            REAL(attn_project)(NULL, 1, 1, big, 4, input, 0, big, input2, 4, NULL, output, 0, 4));
    REFUSED(ATTN_ERR_OVERFLOW, "head_dim" BEYOND,
            REAL(attn_scores)(NULL, 1, 1, big, input, big, input2, big, 1, output, 1));
    REFUSED(ATTN_ERR_OVERFLOW, "k: row stride" BEYOND,
            REAL(attn_scores)(NULL, 2, 2, 3, input, 3, input2, big, 1, output, 2));
    REFUSED(ATTN_ERR_OVERFLOW, "kv_len" BEYOND, REAL(attn_combine)(NULL, 1, big, 1, input, big, input2, 1, output, 1));
    /* one row needs no stride, a scale of 0 no product */
    assert_ok(REAL(attn_project)(NULL, 1, 1, 3, 4, input, 0, big, input2, 4, NULL, output, 0, big));
    assert_ok(REAL(attn_scores)(NULL, 1, 1, big, input, big, input2, big, 0, output, 1));
    assert_true(output[0] == 0);
}

/* A weight of one row in the loops for few rows, whose sums of strides would leave 63 bits. */
static void test_weight_of_one_row(void **state) {
    (void)state;
    enum { OUT = 45 };
    assert_ok(
        REAL(attn_project)(NULL, 1, 1, 1, OUT, input, 0, INT64_MAX, input2, INT64_MAX, NULL, output, 0, INT64_MAX));
    for (int c = 0; c < OUT; c++)
        assert_true(output[c] == input[0] * input2[c]);
    assert_untouched(output + OUT, ELEMENTS - OUT);
}

static void test_context(void **state) {
    (void)state;
    attn_context context = ATTN_CONTEXT_INIT;
    context.threads = -1;
    REFUSED(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
            REAL(attn_softmax)(&context, 1, 4, input, 4, output, 4));
    REFUSED(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
            REAL(attn_add)(&context, 1, 4, input, 4, input2, 4, output, 4));
    REFUSED(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
            REAL(attn_embed)(&context, 3, 3, 2, ids, input, 2, output, 2));
    REFUSED(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
            REAL(attn_sinusoidal)(&context, 3, 4, 0, 1e4, output, 4));
    REFUSED(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
            REAL(attn_project)(&context, 1, 2, 3, 4, input, 0, 3, input2, 4, NULL, output, 0, 4));
    REFUSED(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
            REAL(attn_scores)(&context, 2, 2, 3, input, 3, input2, 3, 1, output, 2));
    REFUSED(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
            REAL(attn_combine)(&context, 2, 2, 3, input, 2, input2, 3, output, 3));
    context.threads = 1;
    context.struct_size = 0;
    assert_int_equal(REAL(attn_softmax)(&context, 1, 4, input, 4, output, 4), ATTN_ERR_STRUCT_SIZE);
    context.struct_size = sizeof context + 1;
    assert_int_equal(REAL(attn_softmax)(&context, 1, 4, input, 4, output, 4), ATTN_ERR_STRUCT_SIZE);
    context.struct_size = sizeof context;
    context.alloc = counting_alloc;
    REFUSED(ATTN_ERR_NULL, "context: alloc is given without free",
            REAL(attn_softmax)(&context, 1, 4, input, 4, output, 4));
}

/* ---- The traced call --------------------------------------------------------------------------------------------- */

static real *table;
static example_matrices matrices;

static REAL(attn_trace) full_trace(void) {
    REAL(attn_trace) t = example_trace(table);
    example_want_all(&t, &matrices);
    return t;
}

/* Changes one thing of a good trace and expects the sentence. */
#define TRACE_REFUSED(status, sentence, change)                                                                        \
    do {                                                                                                               \
        REAL(attn_trace) t = full_trace();                                                                             \
        change;                                                                                                        \
        assert_refused(status, sentence, REAL(attn_chain_trace)(NULL, &t));                                            \
        assert_true(all_poison(&matrices, sizeof matrices));                                                           \
    } while (0)

static void test_trace(void **state) {
    (void)state;
    table = example_table();
    const int64_t bad_ids[] = {1258, 10000, 9527};
    assert_refused(ATTN_ERR_NULL, "trace is NULL", REAL(attn_chain_trace)(NULL, NULL));
    REAL(attn_trace) good = full_trace();
    good.struct_size = 8;
    assert_int_equal(REAL(attn_chain_trace)(NULL, &good), ATTN_ERR_STRUCT_SIZE);
    good.struct_size = sizeof good + 8;
    assert_int_equal(REAL(attn_chain_trace)(NULL, &good), ATTN_ERR_STRUCT_SIZE);
    assert_true(all_poison(&matrices, sizeof matrices));

    TRACE_REFUSED(ATTN_ERR_FLAG, "flags: 0x30 is unknown", t.flags = 0x31);
    TRACE_REFUSED(ATTN_ERR_SIZE, "tokens -3 is below 0", t.tokens = -3);
    TRACE_REFUSED(ATTN_ERR_SIZE, "vocab -1 is below 0", t.vocab = -1);
    TRACE_REFUSED(ATTN_ERR_SIZE, "d_model 0 is below 1", t.d_model = 0);
    TRACE_REFUSED(ATTN_ERR_SIZE, "d_k 0 is below 1", t.d_k = 0);
    TRACE_REFUSED(ATTN_ERR_SIZE, "d_v -1 is below 0", t.d_v = -1);
    TRACE_REFUSED(ATTN_ERR_VALUE, "base 0 is not finite and positive", t.flags = ATTN_TRACE_HAS_BASE);
    TRACE_REFUSED(ATTN_ERR_VALUE, "scale inf is not finite in " PRECISION,
                  (t.flags = ATTN_TRACE_HAS_SCALE, t.scale = (double)INFINITY));
    TRACE_REFUSED(ATTN_ERR_OVERFLOW, "start 9223372036854775806: the last of 3 positions is no int64",
                  (t.flags = ATTN_TRACE_HAS_START, t.start = INT64_MAX - 1));
    TRACE_REFUSED(ATTN_ERR_NULL, "ids is NULL", t.ids = NULL);
    TRACE_REFUSED(ATTN_ERR_NULL, "table is NULL", t.table = NULL);
    TRACE_REFUSED(ATTN_ERR_NULL, "w_q is NULL", t.w_q = NULL);
    TRACE_REFUSED(ATTN_ERR_NULL, "w_k is NULL", t.w_k = NULL);
    TRACE_REFUSED(ATTN_ERR_NULL, "w_v is NULL", t.w_v = NULL);
    TRACE_REFUSED(ATTN_ERR_ID, "ids[1] 10000 is no row of a table with vocab 10000", t.ids = bad_ids);
    TRACE_REFUSED(ATTN_ERR_OVERFLOW, "table:" SPAN, t.vocab = HUGE_SIZE);
    TRACE_REFUSED(ATTN_ERR_OVERFLOW, "v:" SPAN, t.d_v = HUGE_SIZE);
    TRACE_REFUSED(ATTN_ERR_OVERLAP, "a overlaps s", t.a = t.s);
    TRACE_REFUSED(ATTN_ERR_OVERLAP, "z overlaps e", t.z = t.e + 1);
    TRACE_REFUSED(ATTN_ERR_OVERLAP, "q starts where w_v starts", t.w_v = t.q);
    TRACE_REFUSED(ATTN_ERR_OVERLAP, "s overlaps b_k", t.b_k = t.s + 4);
    TRACE_REFUSED(ATTN_ERR_OVERLAP, "x overlaps table", t.x = (real *)(uintptr_t)(table + 17));
    /* scores of more tokens than memory has room for */
    REAL(attn_trace) t = example_trace(table);
    t.tokens = INT64_C(1) << 31;
    t.qk = matrices.qk;
    assert_refused(ATTN_ERR_OVERFLOW, "qk:" SPAN, REAL(attn_chain_trace)(NULL, &t));
    assert_true(all_poison(&matrices, sizeof matrices));
    free(table);
}

/* Matrices on the way that no memory can hold, or a product too large for BLAS: refused before the ids are read. */
static void test_trace_too_large(void **state) {
    (void)state;
    REAL(attn_trace) t = example_trace(input);
    t.z = output;
    t.d_v = 0; /* an output without elements, so that it overlaps nothing */
    t.vocab = 1;
    t.tokens = INT64_C(1) << 31;
    assert_int_equal(REAL(attn_chain_trace)(NULL, &t), ATTN_ERR_OVERFLOW);
    assert_non_null(strstr(attn_last_error(), "tokens 2147483648"));
    assert_untouched(output, ELEMENTS);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_embed),
        TEST(test_sinusoidal),
        TEST(test_add),
        TEST(test_project),
        TEST(test_scores),
        TEST(test_softmax),
        TEST(test_combine),
        TEST(test_sizes_beyond_blas),
        TEST(test_weight_of_one_row),
        TEST(test_context),
        TEST(test_trace),
        TEST(test_trace_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
