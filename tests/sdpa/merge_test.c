/* Merging two results by their log-sums: small numbers, long double, sinks, empty parts, NaN, strides, errors. */
#include <math.h>
#include <unistd.h>

#include "chain/chain_test.h"

/* ---- Two parts and a result -------------------------------------------------------------------------------------- */

enum { BATCH = 2, HEADS = 3, ROWS = 5, DIM = 19, ALL_ROWS = BATCH * HEADS * ROWS, PAD = 2 };

/* Dense parts and results, [batch, q_heads, q_len, v_dim]. */
static attn_merge make_merge(int64_t batch, int64_t heads, int64_t rows, int64_t dim) {
    attn_merge m = ATTN_MERGE_INIT;
    m.batch = batch;
    m.q_heads = heads;
    m.q_len = rows;
    m.v_dim = dim;
    m.out_a = m.out_b = m.out = (attn_strides){heads * rows * dim, rows * dim, dim};
    m.lse_a = m.lse_b = m.lse = (attn_strides){heads * rows, rows, 1};
    return m;
}

typedef struct parts {
    real out_a[ALL_ROWS * DIM], out_b[ALL_ROWS * DIM], lse_a[ALL_ROWS], lse_b[ALL_ROWS], sink[HEADS];
} parts;

typedef struct result {
    real out[ALL_ROWS * DIM], lse[ALL_ROWS];
} result;

static parts *make_parts(double spread) {
    parts *p = malloc(sizeof *p);
    assert_non_null(p);
    support_fill_normal(REAL_DTYPE, p->out_a, ALL_ROWS * DIM, 3, 1, 0, 1);
    support_fill_normal(REAL_DTYPE, p->out_b, ALL_ROWS * DIM, 3, 2, 0, 1);
    support_fill_normal(REAL_DTYPE, p->lse_a, ALL_ROWS, 3, 3, 0, spread);
    support_fill_normal(REAL_DTYPE, p->lse_b, ALL_ROWS, 3, 4, 0, spread);
    support_fill_normal(REAL_DTYPE, p->sink, HEADS, 3, 5, 0, spread);
    return p;
}

static void merge(const attn_merge *m, const parts *p, result *r) {
    memset(r, 0xff, sizeof *r);
    const real *sink = m->flags & ATTN_MERGE_HAS_SINK ? p->sink : NULL;
    assert_ok(REAL(attn_merge)(NULL, m, p->out_a, p->lse_a, p->out_b, p->lse_b, sink, r->out, r->lse));
}

/* ---- Against long double ----------------------------------------------------------------------------------------- */

static void test_small_numbers(void **state) {
    (void)state;
    /* no keys; key 1 with value 3; key 2 with value 5; in every order */
    static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const real outs[] = {0, 3, 5}, lses[] = {-(real)INFINITY, 1, 2};
    attn_merge m = make_merge(1, 1, 1, 1);
    for (int i = 0; i < 6; i++) {
        real out, lse;
        memset(&out, 0xff, sizeof out);
        memset(&lse, 0xff, sizeof lse);
        const int *o = order[i];
        assert_ok(REAL(attn_merge)(NULL, &m, &outs[o[0]], &lses[o[0]], &outs[o[1]], &lses[o[1]], NULL, &out, &lse));
        assert_ok(REAL(attn_merge)(NULL, &m, &out, &lse, &outs[o[2]], &lses[o[2]], NULL, &out, &lse));
        assert_near(out, 4.462117157L, 0.5e-9L + 20 * EPS);
        assert_near(lse, 2.313261688L, 0.5e-9L + 4 * EPS);
    }
}

static void test_against_long_double(void **state) {
    (void)state;
    static const double spreads[] = {0.1, 3, 40, 2000};
    result r;
    for (int s = 0; s < 4; s++)
        for (int with_sink = 0; with_sink < 2; with_sink++) {
            parts *p = make_parts(spreads[s]);
            attn_merge m = make_merge(BATCH, HEADS, ROWS, DIM);
            m.flags = with_sink ? ATTN_MERGE_HAS_SINK : 0;
            merge(&m, p, &r);
            long double widen = (long double)support_valgrind_factor(REAL_DTYPE);
            for (int row = 0; row < ALL_ROWS; row++) {
                long double a = p->lse_a[row], b = p->lse_b[row], max = fmaxl(a, b);
                long double sum = expl(a - max) + expl(b - max), wanted_lse = max + logl(sum);
                if (with_sink)
                    sum += expl(p->sink[row / ROWS % HEADS] - max);
                assert_near(r.lse[row], wanted_lse, EPS * fmaxl(1, absolute(wanted_lse)) * widen);
                for (int c = row * DIM; c < (row + 1) * DIM; c++) {
                    long double wanted = (expl(a - max) * p->out_a[c] + expl(b - max) * p->out_b[c]) / sum;
                    long double largest = fmaxl(absolute(p->out_a[c]), absolute(p->out_b[c]));
                    assert_near(r.out[c], wanted, 4 * EPS * largest * widen);
                }
            }
            free(p);
        }
}

/* Attention over a part of the keys and over the rest, merged: what one call over all of them gives. */
static void test_parts_of_attention(void **state) {
    (void)state;
    enum { Q = 7, K = 40, D = 16, V = 11, Q_HEADS = 4, KV_HEADS = 2 };
    real *q = random_numbers(Q_HEADS * Q * D, 1), *k = random_numbers(KV_HEADS * K * D, 2);
    real *v = random_numbers(KV_HEADS * K * V, 3), *sink = random_numbers(Q_HEADS, 4);
    for (int with_sink = 0; with_sink < 2; with_sink++)
        for (int64_t cut = 0; cut <= K; cut += 8) {
            attn_problem whole = ATTN_PROBLEM_INIT;
            whole.batch = 1, whole.q_heads = Q_HEADS, whole.kv_heads = KV_HEADS;
            whole.q_len = Q, whole.kv_len = K, whole.head_dim = D, whole.v_dim = V;
            whole.engine = ATTN_ENGINE_NAIVE;
            assert_ok(attn_problem_layout_bhld(&whole));
            attn_problem first = whole, second = whole;
            first.kv_len = cut;
            second.kv_len = K - cut;
            whole.flags = with_sink ? ATTN_HAS_SINK : 0;
            real *out[3], *lse[3];
            for (int i = 0; i < 3; i++) {
                out[i] = poisoned(Q_HEADS * Q * V);
                lse[i] = poisoned(Q_HEADS * Q);
                REAL(attn_args) args = ATTN_STRUCT_INIT(REAL(attn_args));
                args.q = q, args.k = i == 1 ? k + cut * D : k, args.v = i == 1 ? v + cut * V : v;
                args.out = out[i], args.lse = lse[i];
                args.sink = i == 2 && with_sink ? sink : NULL;
                assert_ok(REAL(attn_sdpa)(NULL, i == 0 ? &first : i == 1 ? &second : &whole, &args));
            }
            attn_merge m = make_merge(1, Q_HEADS, Q, V);
            m.flags = with_sink ? ATTN_MERGE_HAS_SINK : 0;
            assert_ok(
                REAL(attn_merge)(NULL, &m, out[0], lse[0], out[1], lse[1], with_sink ? sink : NULL, out[0], lse[0]));
            for (int i = 0; i < Q_HEADS * Q * V; i++)
                assert_near(out[0][i], out[2][i], 2 * (3 + 1.5L * 6) * EPS * 4);
            for (int i = 0; i < Q_HEADS * Q; i++)
                assert_near(lse[0][i], lse[2][i], 2 * (3 + 1.5L * 6) * EPS * 6);
            for (int i = 0; i < 3; i++) {
                free(out[i]);
                free(lse[i]);
            }
        }
    free(q);
    free(k);
    free(v);
    free(sink);
}

/* ---- Rules ------------------------------------------------------------------------------------------------------- */

static void test_an_empty_part_is_not_read(void **state) {
    (void)state;
    result r;
    for (int empty = 0; empty < 2; empty++) {
        parts *p = make_parts(3);
        real *out = empty == 0 ? p->out_a : p->out_b, *lse = empty == 0 ? p->lse_a : p->lse_b;
        const real *other_out = empty == 0 ? p->out_b : p->out_a, *other_lse = empty == 0 ? p->lse_b : p->lse_a;
        memset(out, 0xff, ALL_ROWS * DIM * sizeof *out);
        for (int row = 0; row < ALL_ROWS; row++)
            lse[row] = -(real)INFINITY;
        attn_merge m = make_merge(BATCH, HEADS, ROWS, DIM);
        merge(&m, p, &r);
        assert_same_bits(r.out, other_out, ALL_ROWS * DIM);
        assert_same_bits(r.lse, other_lse, ALL_ROWS);
        m.flags = ATTN_MERGE_HAS_SINK;
        merge(&m, p, &r);
        assert_same_bits(r.lse, other_lse, ALL_ROWS);
        for (int c = 0; c < ALL_ROWS * DIM; c++) {
            int row = c / DIM;
            long double share = 1 / (1 + expl((long double)p->sink[row / ROWS % HEADS] - other_lse[row]));
            assert_near(r.out[c], share * other_out[c], 4 * EPS * absolute(other_out[c]));
        }
        free(p);
    }
}

static void test_two_empty_parts_are_empty(void **state) {
    (void)state;
    const real minus = -(real)INFINITY;
    real junk[2], out[2], lse = 0;
    memset(junk, 0xff, sizeof junk);
    const real sinks[] = {-5, 1000, minus, (real)INFINITY, (real)NAN};
    attn_merge m = make_merge(1, 1, 1, 2);
    for (int i = -1; i < 5; i++) {
        m.flags = i < 0 ? 0 : ATTN_MERGE_HAS_SINK;
        memset(out, 0xff, sizeof out);
        lse = 0;
        assert_ok(REAL(attn_merge)(NULL, &m, junk, &minus, junk, &minus, i < 0 ? NULL : &sinks[i], out, &lse));
        assert_true(out[0] == 0 && out[1] == 0 && lse == minus);
    }
}

static void test_nan(void **state) {
    (void)state;
    const real bad[] = {(real)NAN, (real)INFINITY}, good = 1, minus = -(real)INFINITY;
    const real values[] = {3, 5};
    attn_merge m = make_merge(1, 1, 1, 2);
    for (int i = 0; i < 2; i++)
        for (int swapped = 0; swapped < 2; swapped++)
            for (int other = 0; other < 2; other++) {
                const real *a = &bad[i], *b = other ? &good : &minus;
                real out[2] = {0}, lse = 0;
                assert_ok(
                    REAL(attn_merge)(NULL, &m, values, swapped ? b : a, values, swapped ? a : b, NULL, out, &lse));
                assert_true(isnan(out[0]) && isnan(out[1]) && isnan(lse));
            }
    /* in one column of a part only */
    const real torn[] = {3, (real)NAN};
    real out[2], lse;
    assert_ok(REAL(attn_merge)(NULL, &m, values, &good, torn, &good, NULL, out, &lse));
    assert_true(out[0] == 3 && isnan(out[1]) && isfinite(lse));
}

static void test_sinks_that_are_not_finite(void **state) {
    (void)state;
    result plain, r;
    parts *p = make_parts(3);
    attn_merge m = make_merge(BATCH, HEADS, ROWS, DIM);
    merge(&m, p, &plain);
    p->sink[0] = -(real)INFINITY;
    p->sink[1] = (real)INFINITY;
    p->sink[2] = (real)NAN;
    m.flags = ATTN_MERGE_HAS_SINK;
    merge(&m, p, &r);
    assert_same_bits(r.lse, plain.lse, ALL_ROWS);
    for (int i = 0; i < ALL_ROWS * DIM; i++) {
        int head = i / DIM / ROWS % HEADS;
        assert_true(head == 0 ? r.out[i] == plain.out[i] : head == 1 ? r.out[i] == 0 : isnan(r.out[i]));
    }
    free(p);
}

static void test_same_bits_in_either_order(void **state) {
    (void)state;
    result r, exchanged;
    parts *p = make_parts(3);
    attn_merge m = make_merge(BATCH, HEADS, ROWS, DIM);
    m.flags = ATTN_MERGE_HAS_SINK;
    merge(&m, p, &r);
    memset(&exchanged, 0xff, sizeof exchanged);
    assert_ok(
        REAL(attn_merge)(NULL, &m, p->out_b, p->lse_b, p->out_a, p->lse_a, p->sink, exchanged.out, exchanged.lse));
    assert_same_bits(r.out, exchanged.out, ALL_ROWS * DIM);
    assert_same_bits(r.lse, exchanged.lse, ALL_ROWS);
    /* lse not wanted */
    memset(&exchanged, 0xff, sizeof exchanged);
    assert_ok(REAL(attn_merge)(NULL, &m, p->out_a, p->lse_a, p->out_b, p->lse_b, p->sink, exchanged.out, NULL));
    assert_same_bits(r.out, exchanged.out, ALL_ROWS * DIM);
    assert_untouched(exchanged.lse, ALL_ROWS);
    free(p);
}

static void test_in_place(void **state) {
    (void)state;
    result r;
    for (int out_in_b = 0; out_in_b < 2; out_in_b++)
        for (int lse_in_b = 0; lse_in_b < 2; lse_in_b++) {
            parts *p = make_parts(3);
            p->lse_a[4] = p->lse_b[9] = p->lse_a[11] = p->lse_b[11] = -(real)INFINITY;
            attn_merge m = make_merge(BATCH, HEADS, ROWS, DIM);
            merge(&m, p, &r);
            real *out = out_in_b ? p->out_b : p->out_a, *lse = lse_in_b ? p->lse_b : p->lse_a;
            assert_ok(REAL(attn_merge)(NULL, &m, p->out_a, p->lse_a, p->out_b, p->lse_b, NULL, out, lse));
            assert_same_bits(out, r.out, ALL_ROWS * DIM);
            assert_same_bits(lse, r.lse, ALL_ROWS);
            free(p);
        }
}

/* Layouts that differ from array to array, holes between rows; a part that is the same for all heads. */
static void test_strides(void **state) {
    (void)state;
    result r;
    parts *p = make_parts(3);
    for (int b = 0; b < BATCH; b++)
        for (int h = 1; h < HEADS; h++) {
            memcpy(p->out_b + (b * HEADS + h) * ROWS * DIM, p->out_b + b * HEADS * ROWS * DIM,
                   sizeof(real) * ROWS * DIM);
            memcpy(p->lse_b + (b * HEADS + h) * ROWS, p->lse_b + b * HEADS * ROWS, sizeof(real) * ROWS);
        }
    attn_merge m = make_merge(BATCH, HEADS, ROWS, DIM);
    merge(&m, p, &r);
    m.out_b.head = m.lse_b.head = 0;
    const attn_strides rows_first = {ROWS * HEADS * (DIM + PAD), DIM + PAD, HEADS * (DIM + PAD)};
    const attn_strides lse_rows_first = {ROWS * HEADS * PAD, PAD, HEADS * PAD};
    m.out_a = m.out = rows_first;
    m.lse_a = m.lse = lse_rows_first;
    real *out_a = poisoned(ALL_ROWS * (DIM + PAD)), *out = poisoned(ALL_ROWS * (DIM + PAD));
    real *lse_a = poisoned(ALL_ROWS * PAD), *lse = poisoned(ALL_ROWS * PAD);
    for (int row = 0; row < ALL_ROWS; row++) {
        int64_t b = row / ROWS / HEADS, h = row / ROWS % HEADS, i = row % ROWS, place = (b * ROWS + i) * HEADS + h;
        memcpy(out_a + place * (DIM + PAD), p->out_a + row * DIM, sizeof(real) * DIM);
        lse_a[place * PAD] = p->lse_a[row];
    }
    assert_ok(REAL(attn_merge)(NULL, &m, out_a, lse_a, p->out_b, p->lse_b, NULL, out, lse));
    for (int row = 0; row < ALL_ROWS; row++) {
        int64_t b = row / ROWS / HEADS, h = row / ROWS % HEADS, i = row % ROWS, place = (b * ROWS + i) * HEADS + h;
        assert_same_bits(out + place * (DIM + PAD), r.out + row * DIM, DIM);
        assert_untouched(out + place * (DIM + PAD) + DIM, PAD);
        assert_same_bits(lse + place * PAD, r.lse + row, 1);
        assert_untouched(lse + place * PAD + 1, PAD - 1);
    }
    free(p);
    free(out_a);
    free(out);
    free(lse_a);
    free(lse);
}

static void test_threads(void **state) {
    (void)state;
    enum { N = 1500, D = 67 };
    attn_merge m = make_merge(1, 2, N, D);
    real *out_a = random_numbers(2 * N * D, 1), *out_b = random_numbers(2 * N * D, 2);
    real *lse_a = random_numbers(2 * N, 3), *lse_b = random_numbers(2 * N, 4);
    real *out[2] = {poisoned(2 * N * D), poisoned(2 * N * D)}, *lse[2] = {poisoned(2 * N), poisoned(2 * N)};
    static const int threads[] = {1, 2, 4, 0};
    for (int i = 0; i < 4; i++) {
        attn_context context = threads_context(threads[i]);
        int to = i > 0;
        memset(out[to], 0xff, 2 * N * D * sizeof(real));
        memset(lse[to], 0xff, 2 * N * sizeof(real));
        assert_ok(REAL(attn_merge)(&context, &m, out_a, lse_a, out_b, lse_b, NULL, out[to], lse[to]));
        if (i > 0) {
            assert_same_bits(out[0], out[1], 2 * N * D);
            assert_same_bits(lse[0], lse[1], 2 * N);
        }
    }
    for (int i = 0; i < 2; i++) {
        free(out[i]);
        free(lse[i]);
    }
    free(out_a);
    free(out_b);
    free(lse_a);
    free(lse_b);
}

static void test_sizes_of_0_and_memory(void **state) {
    (void)state;
    counting_allocator allocator = {.fail_at = -1};
    attn_context context = counting_context(&allocator);
    for (int i = 0; i < 3; i++) {
        attn_merge m = make_merge(i != 0, i != 1, i != 2, 4);
        assert_ok(REAL(attn_merge)(&context, &m, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    }
    attn_merge m = make_merge(1, 1, 2, 0);
    const real lse_a[] = {1, -(real)INFINITY}, lse_b[] = {2, 7};
    real lse[2];
    memset(lse, 0xff, sizeof lse);
    assert_ok(REAL(attn_merge)(&context, &m, NULL, lse_a, NULL, lse_b, NULL, NULL, lse));
    assert_near(lse[0], 2.313261688L, 0.5e-9L + 4 * EPS);
    assert_true(lse[1] == 7);
    assert_int_equal(allocator.calls, 0);
}

/* Members without number whose rows have neither values nor an lse that is wanted. */
static void test_nothing_to_write_takes_no_time(void **state) {
    (void)state;
    const real lse_a[] = {1}, lse_b[] = {2};
    attn_merge m = make_merge(1, 1, 1, 0);
    m.batch = INT64_MAX;
    m.lse_a = m.lse_b = (attn_strides){0, 0, 0};
    alarm(60);
    assert_ok(REAL(attn_merge)(NULL, &m, NULL, lse_a, NULL, lse_b, NULL, NULL, NULL));
    alarm(0);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

enum { ELEMENTS = 256 };
static real values_a[ELEMENTS], values_b[ELEMENTS], sums_a[ELEMENTS], sums_b[ELEMENTS], sinks[ELEMENTS];
static real merged[ELEMENTS], merged_lse[ELEMENTS];

/* Changes one thing of a good call (2 members, 3 heads, 4 rows of 5) and expects the sentence. */
#define REFUSED(status, sentence, change)                                                                              \
    do {                                                                                                               \
        attn_merge m = make_merge(2, 3, 4, 5);                                                                         \
        const real *out_a = values_a, *out_b = values_b, *lse_a = sums_a, *lse_b = sums_b, *sink = sinks;              \
        real *out = merged, *lse = merged_lse;                                                                         \
        m.flags = ATTN_MERGE_HAS_SINK;                                                                                 \
        memset(merged, 0xff, sizeof merged);                                                                           \
        memset(merged_lse, 0xff, sizeof merged_lse);                                                                   \
        change;                                                                                                        \
        assert_refused(status, sentence, REAL(attn_merge)(NULL, &m, out_a, lse_a, out_b, lse_b, sink, out, lse));      \
        assert_untouched(merged, ELEMENTS);                                                                            \
        assert_untouched(merged_lse, ELEMENTS);                                                                        \
    } while (0)

#define SPAN " its sizes and strides span more than the address space"

static void test_errors(void **state) {
    (void)state;
    REFUSED(ATTN_ERR_FLAG, "flags: 0x2 is unknown", m.flags = 2);
    REFUSED(ATTN_ERR_FLAG, "sink is given without ATTN_MERGE_HAS_SINK", m.flags = 0);
    REFUSED(ATTN_ERR_SIZE, "batch -1 is below 0", m.batch = -1);
    REFUSED(ATTN_ERR_SIZE, "q_heads -1 is below 0", m.q_heads = -1);
    REFUSED(ATTN_ERR_SIZE, "q_len -1 is below 0", m.q_len = -1);
    REFUSED(ATTN_ERR_SIZE, "v_dim -1 is below 0", m.v_dim = -1);
    REFUSED(ATTN_ERR_NULL, "out_a is NULL", out_a = NULL);
    REFUSED(ATTN_ERR_NULL, "lse_a is NULL", lse_a = NULL);
    REFUSED(ATTN_ERR_NULL, "out_b is NULL", out_b = NULL);
    REFUSED(ATTN_ERR_NULL, "lse_b is NULL", lse_b = NULL);
    REFUSED(ATTN_ERR_NULL, "ATTN_MERGE_HAS_SINK is set, but sink is NULL", sink = NULL);
    REFUSED(ATTN_ERR_NULL, "out is NULL", out = NULL);
    REFUSED(ATTN_ERR_STRIDE, "out_a: row stride 4 is below the row size 5", m.out_a.row = 4);
    REFUSED(ATTN_ERR_STRIDE, "out: row stride 4 is below the row size 5", m.out.row = 4);
    REFUSED(ATTN_ERR_STRIDE, "lse_b: head stride -1 is negative", m.lse_b.head = -1);
    REFUSED(ATTN_ERR_STRIDE, "lse: row stride 0 is below the row size 1", m.lse.row = 0);
    REFUSED(ATTN_ERR_STRIDE, "out: a stride of 19 makes its elements overlap, at least 20 is needed", m.out.head = 19);
    REFUSED(ATTN_ERR_STRIDE, "lse: a stride of 0 makes its elements overlap, at least 1 is needed", m.lse.batch = 0);
    REFUSED(ATTN_ERR_OVERFLOW, "out_b:" SPAN, m.out_b.batch = INT64_MAX / 2);
    REFUSED(ATTN_ERR_OVERFLOW, "lse:" SPAN, m.lse.batch = INT64_MAX / 2);
    REFUSED(ATTN_ERR_OVERLAP, "out overlaps out_a", out_a = merged + 1);
    REFUSED(ATTN_ERR_OVERLAP, "out starts where out_b starts", (out_b = merged, m.out_b.head = 21));
    REFUSED(ATTN_ERR_OVERLAP, "out starts where lse_a starts", lse_a = merged);
    REFUSED(ATTN_ERR_OVERLAP, "lse starts where out_a starts", out_a = merged_lse);
    REFUSED(ATTN_ERR_OVERLAP, "lse overlaps lse_b", lse_b = merged_lse + 1);
    REFUSED(ATTN_ERR_OVERLAP, "out overlaps sink", sink = merged + 7);
    REFUSED(ATTN_ERR_OVERLAP, "out overlaps lse", lse = merged + 9);
    REFUSED(ATTN_ERR_STRUCT_SIZE, "attn_merge: struct_size 8 is below the first version's 192", m.struct_size = 8);
    REFUSED(ATTN_ERR_STRUCT_SIZE, "attn_merge: struct_size 200 is above this library's 192", m.struct_size += 8);
    assert_refused(ATTN_ERR_NULL, "merge is NULL",
                   REAL(attn_merge)(NULL, NULL, values_a, sums_a, values_b, sums_b, NULL, merged, NULL));
    assert_refused(ATTN_ERR_NULL, "attn_merge is NULL", attn_merge_init(NULL, sizeof(attn_merge)));
    attn_merge m;
    memset(&m, 0xff, sizeof m);
    assert_ok(attn_merge_init(&m, sizeof m));
    assert_true(m.struct_size == sizeof m && m.flags == 0 && m.batch == 0 && m.lse.row == 0);
    attn_context context = threads_context(-1);
    assert_refused(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
                   REAL(attn_merge)(&context, &m, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_numbers),
        cmocka_unit_test(test_against_long_double),
        cmocka_unit_test(test_parts_of_attention),
        cmocka_unit_test(test_an_empty_part_is_not_read),
        cmocka_unit_test(test_two_empty_parts_are_empty),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_sinks_that_are_not_finite),
        cmocka_unit_test(test_same_bits_in_either_order),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_sizes_of_0_and_memory),
        cmocka_unit_test(test_nothing_to_write_takes_no_time),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
