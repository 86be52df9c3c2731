/* Tests of the test support library itself: problem strings, test data, the oracle against numbers known from
 * elsewhere, and comparators that must fail when something is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static support_case *parsed(const char *text) {
    char error[512];
    support_case *c = support_case_parse(text, error, sizeof error);
    if (!c) {
        fail_msg("'%s': %s", text, error);
    }
    return c;
}

static support_data created(const support_case *c, attn_dtype dtype) {
    support_data d;
    assert_true(support_data_create(&d, c, dtype));
    return d;
}

static void assert_near(const char *what, long double got, long double wanted, long double tolerance) {
    bool same = isnan(wanted) ? isnan(got) : got == wanted || fabsl(got - wanted) <= tolerance;
    if (!same) {
        fail_msg("%s: got %.12Lg, wanted %.12Lg", what, got, wanted);
    }
}

/* Fewer rounds under valgrind, which is some thirty times slower. */
static uint64_t rounds(uint64_t usual) {
    const char *valgrind = getenv("ATTN_UNDER_VALGRIND");
    return valgrind && strcmp(valgrind, "1") == 0 ? usual / 20 : usual;
}

/* ---- Problem strings ----------------------------------------------------------------------------------------- */

static void test_strings_round_trip(void **state) {
    (void)state;
    static const struct {
        const char *text, *canonical; /* NULL: as the text */
    } cases[] = {
        {"b1h12q1024k1024d64,causal", NULL},
        {"q3d4", "b1h1q3k3d4"},
        {"b2h8/2q5k1000d64v32,br,causal,seed=7", "b2h8/2q5k1000d64v32,causal,br,seed=7"},
        {"h6/6q3d4v4,tl,seed=1", "b1h6q3k3d4"},
        {"b0h0q0d1v0", "b0h0q0k0d1v0"},
        {"b1h1q7k5d3,off=-3,scale=-0.25,window=-1:4,softcap=30", NULL},
        {"b1h1q7k5d3,scale=0,softcap=1e-05", NULL},
        {"b1h1q7k5d3,scale=0.1000", "b1h1q7k5d3,scale=0.1"},
        {"b1h1q7k5d3,mask=random:0.3", "b1h1q7k5d3,mask"},
        {"b1h1q7k5d3,mask@bhqk=rowempty:0.5,mask_len=4,bias@hk=lowestrow:0.25,bias_len=0", NULL},
        {"b1h1q7k5d3,mask@kq=lead:3", "b1h1q7k5d3,mask@qk=lead:3"},
        {"b1h1q7k5d3,mask@h=blocks:2", NULL},
        {"b1h1q7k5d3,mask=none,bias=inf:0.1,alibi,sink=-2.5", NULL},
        {"b1h1q7k5d3,mask=all,bias=large,alibi,sink", NULL},
        {"b2h1q7k5d3,qlens=0:7,kvlens=5:2", NULL},
        {"b2h1q7k5d3,ragged=3:7/0:5,want=scores+weights", NULL},
        {"b2h4/2q7k5d3,q@b,k@h,v@bh,layout=blhd,lse", NULL},
        {"b2h4/2q7k7d3v2,layout=qkv,data=extreme,seed=18446744073709551615", NULL},
        {"b2h4/2q7k7d3v2,layout=padded,nan=v:1:1:6:1+q:0:3:0:2,inf=k:0:0:0:0,poison", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[SUPPORT_TEXT_SIZE];
        support_case *c = parsed(cases[i].text);
        size_t length = support_case_print(c, text, sizeof text);
        assert_string_equal(text, cases[i].canonical ? cases[i].canonical : cases[i].text);
        assert_int_equal(length, strlen(text));
        char cut[8];
        assert_int_equal(support_case_print(c, cut, sizeof cut), length);
        assert_int_equal(strlen(cut), sizeof cut - 1);
        support_case_free(c);
    }
}

static void test_strings_mean_what_they_say(void **state) {
    (void)state;
    support_case *c = parsed("b2h6/3q5k7d4v3,off=-2,window=1:-1,mask@h,mask_len=6,kvlens=7:0,layout=blhd");
    const attn_problem *p = &c->problem;
    assert_int_equal(p->struct_size, sizeof *p);
    assert_int_equal(p->flags, ATTN_HAS_OFFSET | ATTN_HAS_WINDOW | ATTN_HAS_MASK | ATTN_HAS_MASK_LEN);
    assert_int_equal(p->alignment, ATTN_ALIGN_OFFSET);
    assert_int_equal(p->offset, -2);
    assert_int_equal(p->window_left, 1);
    assert_int_equal(p->window_right, -1);
    assert_int_equal(p->q.row, 6 * 4);
    assert_int_equal(p->q.head, 4);
    assert_int_equal(p->q.batch, 5 * 6 * 4);
    assert_int_equal(p->v.row, 3 * 3);
    assert_int_equal(p->out.row, 6 * 3);
    assert_int_equal(p->lse.head, 5);
    assert_int_equal(p->mask.head, 0);
    assert_int_equal(p->mask.row, 6);
    assert_int_equal(p->mask.batch, 5 * 6);
    assert_int_equal(support_case_kv_len(c, 1), 0);
    assert_int_equal(support_case_q_len(c, 1), 5);
    support_case_free(c);
}

static void test_bad_strings_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *sentence; /* a part of it */
    } cases[] = {
        {"", "at the end: 'q' is needed"},
        {"q3", "at the end: 'd' is needed"},
        {"q3d", "at the end: the head size"},
        {"q3d3,window=1", "at the end: ':' is needed"},
        {"q3d3,seed=", "at the end: the seed"},
        {"d3q3", "character 1, at \"d3q3\""},
        {"d3q3", "'q' is needed"},
        {"q3d0", "head size must be at least 1"},
        {"q-1d3", "must not be negative"},
        {"q3d3x", "at \"x\""},
        {"q3d3,", "an option is causal"},
        {"q3d3,sliding", "an option is causal"},
        {"q3d3,causal,causal", "twice"},
        {"q3d3,br,off=1", "second alignment"},
        {"q3d3,scale=nan", "must be a number"},
        {"q3d3,scale=1e999", "finite"},
        {"q3d3,softcap=-1", "more than 0"},
        {"q3d3,window=1", "':' is needed"},
        {"q3d3,window=-2:1", "-1 (unlimited) or more"},
        {"q3d3,mask@x", "letters of \"bhqk\""},
        {"q3d3,mask@hh", "twice"},
        {"q3d3,mask=random:2", "between 0 and 1"},
        {"q3d3,mask=some", "a mask is"},
        {"q3d3,mask=blocks", "blocks:N"},
        {"q3d3,mask=blocks:0", "1 key or more"},
        {"q3d3,mask_len=1", "mask_len without mask"},
        {"q3d3,mask,mask_len=4", "at most the key length, 3"},
        {"q3d3,bias=small", "a bias is"},
        {"b2q3d3,kvlens=1", "one length per batch member, 2, not 1"},
        {"b2q3d3,kvlens=1:4", "more than the buffer's 3"},
        {"b2q3d3,kvlens=1:2,ragged=1:2/1:2", "do not go with it"},
        {"b2q3d3,ragged=1:2/1:2,qlens=1:2", "do not go with it"},
        {"b2q3d3,ragged=1:2/1:2,k@b", "not broadcast over the batch"},
        {"q3k4d3,layout=qkv", "same length"},
        {"q3d3,layout=row", "a layout is"},
        {"q3d3,want=z", "can be wanted"},
        {"q3d3,want=masked+masked", "wanted twice"},
        {"q3d3,data=odd", "data is"},
        {"q3d3,seed=-1", "whole number"},
        {"q3d3,seed=18446744073709551616", "does not fit 64 bits"},
        {"q3d3,nan=v:0:0:3:0", "outside its array"},
        {"q3d3,kvlens=2,nan=k:0:0:2:0", "outside its array"},
        {"q3d3,nan=o:0:0:0:0", "with q, k or v first"},
        {"h3/2q3d3", "must divide"},
        {"h3/0q3d3", "must divide"},
        {"q9223372036854775808d3", "does not fit 64 bits"},
        {"b4294967296q4294967296d4294967296", "do not fit 64-bit byte counts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[512] = "";
        support_case *c = support_case_parse(cases[i].text, error, sizeof error);
        if (c || !strstr(error, cases[i].sentence)) {
            fail_msg("'%s' should be refused with '%s', got '%s'", cases[i].text, cases[i].sentence, error);
        }
        char cut[4];
        assert_null(support_case_parse(cases[i].text, cut, sizeof cut));
        assert_null(support_case_parse(cases[i].text, NULL, 0));
    }
}

static void test_random_cases_can_be_written_down(void **state) {
    (void)state;
    const uint64_t later = ATTN_HAS_WINDOW | ATTN_HAS_SOFTCAP | ATTN_HAS_MASK | ATTN_HAS_BIAS | ATTN_HAS_ALIBI |
                           ATTN_HAS_SINK | ATTN_RAGGED | ATTN_WANT_SCORES | ATTN_WANT_CAPPED | ATTN_WANT_MASKED |
                           ATTN_WANT_WEIGHTS;
    uint64_t drawn = 0;
    enum { NO_BATCH = 1, NO_QUERY = 2, NO_KEY = 4, NO_VALUE = 8, ALL_HIDDEN = 16, ZERO_LENGTH = 32, EDGES = 63 };
    unsigned edges = 0;
    for (uint64_t seed = 0; seed < rounds(2000); seed++) {
        char first[SUPPORT_TEXT_SIZE], second[SUPPORT_TEXT_SIZE];
        support_case *c = support_case_random(seed, seed % 2 ? SUPPORT_OPTIONS_ALL : SUPPORT_OPTIONS_0_1);
        if (!c) {
            fail_msg("seed %llu gives no case", (unsigned long long)seed);
        }
        if (seed % 2 == 0) {
            assert_int_equal(c->problem.flags & later, 0);
            assert_false(c->poison);
            assert_int_equal(c->special_count, 0);
        }
        const attn_problem *p = &c->problem;
        drawn |= p->flags;
        edges |= (p->batch == 0 ? NO_BATCH : 0) | (p->q_len == 0 ? NO_QUERY : 0) | (p->kv_len == 0 ? NO_KEY : 0) |
                 (p->v_dim == 0 ? NO_VALUE : 0) | (c->mask_kind == SUPPORT_MASK_NONE ? ALL_HIDDEN : 0) |
                 (p->batch > 0 && support_case_kv_len(c, 0) == 0 && p->kv_len > 0 ? ZERO_LENGTH : 0);
        support_case_print(c, first, sizeof first);
        support_case_free(c);
        c = parsed(first);
        support_case_print(c, second, sizeof second);
        assert_string_equal(first, second);
        support_case_free(c);
    }
    if (rounds(2000) == 2000) {
        assert_int_equal(drawn & later, later);
        assert_int_equal(edges, EDGES); /* rare, but there */
    }
}

/* ---- Data ---------------------------------------------------------------------------------------------------- */

static void test_normals_are_normal(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    double *x = malloc(COUNT * sizeof *x);
    support_fill_normal(ATTN_F64, x, COUNT, 5, 2, 1, 1);
    assert_true(x[0] == support_random_normal(5, 2, 1) && x[999] == support_random_normal(5, 2, 1000));
    double sum = 0, squares = 0, fourth = 0, neighbours = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += x[i];
        squares += x[i] * x[i];
        fourth += x[i] * x[i] * x[i] * x[i];
        neighbours += i > 0 ? x[i] * x[i - 1] : 0;
    }
    free(x);
    assert_near("mean", sum / COUNT, 0, 0.01);
    assert_near("variance", squares / COUNT, 1, 0.02);
    assert_near("fourth moment", fourth / COUNT, 3, 0.15);
    assert_near("correlation of neighbours", neighbours / COUNT, 0, 0.01);
}

static void test_both_precisions_hold_the_same_numbers(void **state) {
    (void)state;
    support_case *c = parsed("b2h4/2q3k5d3v2,bias,sink,layout=padded,seed=3");
    support_data narrow = created(c, ATTN_F32), wide = created(c, ATTN_F64);
    static const support_array arrays[] = {SUPPORT_Q, SUPPORT_K, SUPPORT_V, SUPPORT_BIAS};
    for (int a = 0; a < 4; a++) {
        for (int64_t row = 0; row < 3; row++) {
            double x = support_get(&wide, arrays[a], 1, 1, row, 1);
            assert_true(isfinite(x) && x != 0);
            assert_true(support_get(&narrow, arrays[a], 1, 1, row, 1) == (float)x);
        }
    }
    assert_true(wide.elements[SUPPORT_Q] == 2 * (4 * (3 * (3 + 3) + 5) + 7) - 7 - 5 - 3);
    /* Neither the padding between rows nor an output holds a number. */
    assert_true(isnan(((double *)wide.base[SUPPORT_Q])[3]));
    assert_true(isnan(support_get(&wide, SUPPORT_OUT, 0, 0, 0, 0)));
    support_data_destroy(&narrow);
    support_data_destroy(&wide);
    support_case_free(c);
}

static void test_what_nobody_may_read_is_poisoned(void **state) {
    (void)state;
    support_case *c = parsed("b2h1q3k6d2,causal,qlens=3:1,kvlens=5:6,poison");
    support_data d = created(c, ATTN_F64);
    assert_true(isfinite(support_get(&d, SUPPORT_K, 0, 0, 2, 0)));
    assert_true(isinf(support_get(&d, SUPPORT_V, 0, 0, 3, 0)));
    assert_true(isnan(support_get(&d, SUPPORT_V, 0, 0, 4, 0)));
    assert_true(isnan(support_get(&d, SUPPORT_K, 0, 0, 5, 0)));
    assert_true(isnan(support_get(&d, SUPPORT_Q, 1, 0, 1, 0)));
    support_data_destroy(&d);
    support_case_free(c);

    c = parsed("b1h1q3k6d2,scale=1e-60");
    d = created(c, ATTN_F32);
    assert_true(isnan(support_get(&d, SUPPORT_K, 0, 0, 0, 0)));
    support_data_destroy(&d);
    d = created(c, ATTN_F64);
    assert_true(isfinite(support_get(&d, SUPPORT_K, 0, 0, 0, 0)));
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_packed_arrays_are_slices(void **state) {
    (void)state;
    support_case *c = parsed("b2h4/2q3d5v2,layout=qkv");
    support_data d = created(c, ATTN_F32);
    assert_ptr_equal(d.args32.k, d.args32.q + 4 * 5);
    assert_ptr_equal(d.args32.v, d.args32.k + 2 * 5);
    assert_int_equal(d.elements[SUPPORT_Q], 2 * 3 * (4 * 5 + 2 * 5 + 2 * 2));
    assert_true(isfinite(support_get(&d, SUPPORT_V, 1, 1, 2, 1)));
    support_data_destroy(&d);
    support_case_free(c);

    c = parsed("b2h2q3k5d4,ragged=2:3/5:1");
    d = created(c, ATTN_F32);
    assert_int_equal(d.args32.kv_offsets[2], 6);
    assert_int_equal(support_index(&d, SUPPORT_K, 1, 1, 0, 0), 1 * 6 * 4 + 5 * 4);
    assert_int_equal(d.elements[SUPPORT_LSE], 0);
    assert_int_equal(d.elements[SUPPORT_OUT], 2 * 5 * 4);
    support_data_destroy(&d);
    support_case_free(c);
}

/* ---- The oracle against known numbers ------------------------------------------------------------------------ */

/* A case of one head with numbers of its own; unset pointers leave the seeded numbers. */
typedef struct small_case {
    const char *what, *text;
    double q;
    const double *k, *v, *mask; /* mask: [q_len, kv_len], of the bias when the case has no mask */
    const double *out, *lse;    /* wanted rows; lse may be NULL */
    double tolerance;
} small_case;

static void check_small_case(const small_case *s, attn_dtype dtype) {
    support_case *c = parsed(s->text);
    support_data d = created(c, dtype);
    const attn_problem *p = &c->problem;
    for (int64_t i = 0; i < p->q_len; i++) {
        support_set(&d, SUPPORT_Q, 0, 0, i, 0, s->q);
        for (int64_t j = 0; s->mask && j < p->kv_len; j++) {
            support_array array = support_has(&d, SUPPORT_MASK) ? SUPPORT_MASK : SUPPORT_BIAS;
            support_set(&d, array, 0, 0, i, j, s->mask[i * p->kv_len + j]);
        }
    }
    for (int64_t j = 0; j < p->kv_len; j++) {
        support_set(&d, SUPPORT_K, 0, 0, j, 0, s->k ? s->k[j] : 0);
        support_set(&d, SUPPORT_V, 0, 0, j, 0, s->v[j]);
    }
    support_row *row = support_row_create(c);
    for (int64_t i = 0; i < p->q_len; i++) {
        support_oracle_row(&d, 0, 0, i, row);
        assert_near(s->what, row->out[0], s->out[i], s->tolerance);
        if (s->lse) {
            assert_near(s->what, row->lse, s->lse[i], 1e-5);
        }
    }
    support_row_free(row);
    support_data_destroy(&d);
    support_case_free(c);
}

#define ROW(...)                                                                                                       \
    (const double[]) {                                                                                                 \
        __VA_ARGS__                                                                                                    \
    }
#define HIDES -INFINITY

static void test_oracle_small_numbers(void **state) {
    (void)state;
    const small_case cases[] = {
        {"two queries, one of them empty", "q2k2d1,scale=1,mask=all", 1, ROW(1, 2), ROW(3, 5), ROW(1, 1, 0, 0),
         ROW(4.462117157, 0), ROW(2.313261688, HIDES), 1e-9},
        {"large scores", "q1k2d1,scale=1", 1, ROW(1000, 1001), ROW(3, 5), NULL, ROW(4.462117157), ROW(1001.313262),
         1e-9},
        {"softcap and mask", "q1k2d1,scale=1,softcap=2,mask=all", 1, ROW(0, 0), ROW(1, 9), ROW(1, 0), ROW(1), ROW(0),
         0},
        {"softcap", "q1k2d1,scale=1,softcap=2", 1, ROW(0, 4), ROW(0, 1), NULL, ROW(0.873033999223), ROW(2.063835939),
         1e-9},
        {"bias after softcap", "q1k2d1,scale=1,softcap=2,bias", 1, ROW(0, 4), ROW(0, 1), ROW(0, -0.5),
         ROW(0.806598106310), ROW(1.642984904), 1e-9},
        {"alibi", "q1k2d1,scale=1,alibi,off=-100", 1, ROW(0, 0), ROW(0, 1), NULL, ROW(0.499023438742), ROW(0.300570963),
         1e-9},
        {"keys beyond the length", "q1k4d1,scale=1,kvlens=2", 1, ROW(1, 2, NAN, NAN), ROW(3, 5, NAN, NAN), NULL,
         ROW(4.462117157), ROW(2.313261688), 1e-9},
        {"mask and causal", "q2k2d1,scale=1,causal,mask=all", 1, ROW(1, 2), ROW(3, 5), ROW(0, 1, 1, 1),
         ROW(0, 4.462117157), ROW(HIDES, 2.313261688), 1e-9},
        {"causal, top-left", "q2k4d1,causal", 0, NULL, ROW(1, 2, 3, 4), NULL, ROW(1, 1.5), NULL, 1e-15},
        {"causal, bottom-right", "q2k4d1,causal,br", 0, NULL, ROW(1, 2, 3, 4), NULL, ROW(2, 2.5), NULL, 1e-15},
        {"causal, bottom-right, more queries", "q4k2d1,causal,br", 0, NULL, ROW(1, 3), NULL, ROW(0, 0, 1, 2),
         ROW(HIDES, HIDES, 0, 0.693147), 1e-15},
        {"causal, top-left, more queries", "q4k2d1,causal", 0, NULL, ROW(1, 3), NULL, ROW(1, 2, 2, 2), NULL, 1e-15},
        {"causal and window", "q4k4d1,causal,window=1:-1", 0, NULL, ROW(1, 2, 3, 4), NULL, ROW(1, 1.5, 2.5, 3.5), NULL,
         1e-15},
        {"window without causal", "q3k3d1,window=0:1", 0, NULL, ROW(1, 2, 4), NULL, ROW(1.5, 3, 4), NULL, 1e-15},
        {"explicit offset", "q3k3d1,causal,off=-1", 0, NULL, ROW(1, 2, 4), NULL, ROW(0, 1, 1.5), NULL, 1e-15},
        {"scale 0 reads no key", "q1k2d1,scale=0", 1, ROW(NAN, INFINITY), ROW(1, 3), NULL, ROW(2), ROW(0.693147),
         1e-15},
        {"sink of the same size", "q1k1d1,scale=1,sink=5", 1, ROW(5), ROW(8), NULL, ROW(4), ROW(5), 1e-15},
        {"mask shorter than the keys", "q1k3d1,mask=all,mask_len=2", 0, NULL, ROW(1, 3, 90), NULL, ROW(2),
         ROW(0.693147), 1e-15},
        {"all biases lowest: the mean", "q1k2d1,scale=1,bias=lowest:1", 1, ROW(-7, 20), ROW(1, 3), NULL, ROW(2), NULL,
         1e-15},
        {"all biases -Inf: empty", "q1k2d1,scale=1,bias=inf:1", 1, ROW(NAN, 1), ROW(1, 3), NULL, ROW(0), ROW(HIDES), 0},
        {"NaN score", "q1k2d1,scale=1", 1, ROW(NAN, 1), ROW(1, 3), NULL, ROW(NAN), ROW(NAN), 0},
        {"+Inf score", "q1k2d1,scale=1", 1, ROW(INFINITY, 1), ROW(1, 3), NULL, ROW(NAN), ROW(NAN), 0},
        {"-Inf score hides", "q1k2d1,scale=1", 1, ROW(-INFINITY, 1), ROW(NAN, 3), NULL, ROW(3), ROW(1), 0},
        {"NaN hidden by the mask", "q1k2d1,scale=1,mask=all", 1, ROW(NAN, 1), ROW(NAN, 3), ROW(0, 1), ROW(3), ROW(1),
         0},
        {"NaN value seen", "q2k2d1,causal,scale=1", 1, ROW(1, 1), ROW(3, NAN), NULL, ROW(3, NAN), ROW(1, 1.693147), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_small_case(&cases[i], ATTN_F32);
        check_small_case(&cases[i], ATTN_F64);
    }
}

static void test_mask_of_blocks(void **state) {
    (void)state;
    support_case *c = parsed("b2h2q7k5d1,mask@bh=blocks:3");
    support_data d = created(c, ATTN_F32);
    for (int64_t i = 0; i < 7; i++) {
        for (int64_t j = 0; j < 5; j++) {
            assert_int_equal(support_get(&d, SUPPORT_MASK, 1, 1, i, j) != 0, i / 3 == j / 3);
        }
    }
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_oracle_hidden_leading_tile(void **state) {
    (void)state;
    support_case *c = parsed("q1k600d1,scale=1,mask=lead:599,poison");
    support_data d = created(c, ATTN_F32);
    support_row *row = support_row_create(c);
    support_set(&d, SUPPORT_Q, 0, 0, 0, 0, 1);
    support_set(&d, SUPPORT_K, 0, 0, 599, 0, -300);
    support_set(&d, SUPPORT_V, 0, 0, 599, 0, 7);
    support_oracle_row(&d, 0, 0, 0, row);
    assert_true(row->out[0] == 7 && row->lse == -300);
    support_row_free(row);
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_oracle_grouped_heads(void **state) {
    (void)state;
    static const double wanted[] = {10, 10, 20, 20};
    support_case *c = parsed("h4/2q1k2d1");
    support_data d = created(c, ATTN_F64);
    support_row *row = support_row_create(c);
    for (int64_t j = 0; j < 2; j++) {
        support_set(&d, SUPPORT_V, 0, 0, j, 0, 10);
        support_set(&d, SUPPORT_V, 0, 1, j, 0, 20);
    }
    for (int64_t h = 0; h < 4; h++) {
        support_oracle_row(&d, 0, h, 0, row);
        assert_near("grouped heads", row->out[0], wanted[h], 1e-15);
    }
    support_row_free(row);
    support_data_destroy(&d);
    support_case_free(c);
}

/* Rows that hold a NaN stay apart by column, and rows beyond a length are 0. */
static void test_oracle_expectations(void **state) {
    (void)state;
    support_case *c = parsed("q3k3d2v3,causal,qlens=2,want=scores+weights,nan=v:0:0:1:1,inf=v:0:0:0:2");
    support_data d = created(c, ATTN_F32);
    support_row *row = support_row_create(c);
    support_oracle_row(&d, 0, 0, 1, row);
    assert_int_equal(row->out_expect[0], SUPPORT_EXPECT_NUMBER);
    assert_int_equal(row->out_expect[1], SUPPORT_EXPECT_NAN);
    assert_int_equal(row->out_expect[2], SUPPORT_EXPECT_NONFINITE);
    assert_int_equal(row->lse_expect, SUPPORT_EXPECT_NUMBER);
    assert_int_equal(row->weights_expect[2], SUPPORT_EXPECT_EXACT);
    assert_int_equal(row->visible, 2);
    support_oracle_row(&d, 0, 0, 2, row);
    assert_int_equal(row->visible, 0);
    assert_true(row->out[1] == 0 && row->out_expect[1] == SUPPORT_EXPECT_EXACT);
    assert_true(support_is_inf(row->scores[0]) && row->scores[0] < 0 && row->weights[0] == 0);
    support_row_free(row);
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_oracle_ignores_poison(void **state) {
    (void)state;
    support_case *clean = parsed("h4/2q5k9d3,causal,off=1,mask=random:0.4,kvlens=8");
    support_case *dirty = parsed("h4/2q5k9d3,causal,off=1,mask=random:0.4,kvlens=8,poison");
    support_data clean_data = created(clean, ATTN_F64), dirty_data = created(dirty, ATTN_F64);
    support_row *wanted = support_row_create(clean), *got = support_row_create(dirty);
    for (int64_t h = 0; h < 4; h++) {
        for (int64_t i = 0; i < 5; i++) {
            support_oracle_row(&clean_data, 0, h, i, wanted);
            support_oracle_row(&dirty_data, 0, h, i, got);
            for (int64_t col = 0; col < 3; col++) {
                assert_true(got->out[col] == wanted->out[col]);
            }
            assert_true(got->lse == wanted->lse);
        }
    }
    assert_false(isfinite(support_get(&dirty_data, SUPPORT_K, 0, 0, 7, 0)));
    support_row_free(wanted);
    support_row_free(got);
    support_data_destroy(&clean_data);
    support_data_destroy(&dirty_data);
    support_case_free(clean);
    support_case_free(dirty);
}

/* ---- The worked example through the stages' oracles ---------------------------------------------------------- */

enum { N = 3 };

static void narrow(int count, const long double *from, double *to) {
    for (int i = 0; i < count; i++) {
        to[i] = (double)from[i];
    }
}

static void assert_four_decimals(const char *what, int count, const double *got, const double *wanted) {
    for (int i = 0; i < count; i++) {
        assert_near(what, got[i], wanted[i], 0.5e-4 + 1e-7);
    }
}

static void test_worked_example(void **state) {
    (void)state;
    static const double e[] = {3, 1, 2, 2, 2, 4};
    static const double w_q[] = {-0.6, 0.9, 0.8, -0.5}, w_k[] = {0.6, 0.1, -0.1, 1.4}, w_v[] = {1, -0.5, -0.4, 1.2};
    const double *weights[] = {w_q, w_k, w_v};
    long double row[3];
    double p[6], x[6], qkv[3][6], qk[9], s[9], a[9], z[6];
    for (int i = 0; i < N; i++) {
        support_oracle_sinusoidal(i, 2, 10000, row);
        narrow(2, row, p + 2 * i);
    }
    for (int i = 0; i < 6; i++) {
        x[i] = e[i] + p[i];
    }
    for (int m = 0; m < 3; m++) {
        for (int i = 0; i < N; i++) {
            support_oracle_project(ATTN_F64, 2, 2, x + 2 * i, weights[m], 2, NULL, row, NULL);
            narrow(2, row, qkv[m] + 2 * i);
        }
    }
    for (int i = 0; i < N; i++) {
        support_oracle_scores(ATTN_F64, N, 2, qkv[0] + 2 * i, qkv[1], 2, 1, row, NULL);
        narrow(N, row, qk + N * i);
        support_oracle_scores(ATTN_F64, N, 2, qkv[0] + 2 * i, qkv[1], 2, 1 / sqrt(2), row, NULL);
        narrow(N, row, s + N * i);
        support_oracle_softmax(ATTN_F64, N, s + N * i, row);
        narrow(N, row, a + N * i);
        support_oracle_combine(ATTN_F64, N, 2, a + N * i, qkv[2], 2, row, NULL);
        narrow(2, row, z + 2 * i);
    }
    assert_four_decimals("P", 6, p, ROW(0, 1, 0.8415, 0.5403, 0.9093, -0.4161));
    assert_four_decimals("X", 6, x, ROW(3, 2, 2.8415, 2.5403, 2.9093, 3.5839));
    assert_four_decimals("Q", 6, qkv[0], ROW(-0.2, 1.7, 0.3274, 1.2872, 1.1215, 0.8264));
    assert_four_decimals("K", 6, qkv[1], ROW(1.6, 3.1, 1.4509, 3.8406, 1.3872, 5.3083));
    assert_four_decimals("V", 6, qkv[2], ROW(2.2, 0.9, 1.8254, 1.6276, 1.4758, 2.8460));
    assert_four_decimals("QK", 9, qk, ROW(4.95, 6.2388, 8.7467, 4.514, 5.4184, 7.2868, 4.3564, 4.8011, 5.9428));
    assert_four_decimals("S", 9, s, ROW(3.5002, 4.4115, 6.1849, 3.1919, 3.8314, 5.1526, 3.0804, 3.3949, 4.2022));
    assert_four_decimals("A", 9, a, ROW(0.0551, 0.1371, 0.8078, 0.1, 0.1896, 0.7104, 0.1838, 0.2518, 0.5644));
    assert_four_decimals("Z", 6, z, ROW(1.5636, 2.5716, 1.6145, 2.4204, 1.6969, 2.1815));

    /* Without the scale, and with the row eight times as large, it becomes one-hot. */
    support_oracle_softmax(ATTN_F64, N, qk, row);
    assert_near("unscaled", row[0], 0.020, 0.5e-3);
    assert_near("unscaled", row[1], 0.074, 0.5e-3);
    assert_near("unscaled", row[2], 0.906, 0.5e-3);
    double times_8[3] = {8 * qk[0], 8 * qk[1], 8 * qk[2]};
    support_oracle_softmax(ATTN_F64, N, times_8, row);
    assert_near("times 8", row[1], 0, 0.5e-6);
    assert_near("times 8", row[2], 1, 0.5e-6);
}

/* The attention oracle and the stages' oracles agree. */
static void test_attention_is_the_stages_together(void **state) {
    (void)state;
    support_case *c = parsed("q5k7d3v4,scale=0.7,want=weights");
    support_data d = created(c, ATTN_F64);
    support_row *row = support_row_create(c);
    long double s[7], a[7], z[4];
    double scores[7], weights[7];
    for (int64_t i = 0; i < 5; i++) {
        support_oracle_scores(ATTN_F64, 7, 3, d.args64.q + 3 * i, d.args64.k, 3, 0.7, s, NULL);
        narrow(7, s, scores);
        support_oracle_softmax(ATTN_F64, 7, scores, a);
        narrow(7, a, weights);
        support_oracle_combine(ATTN_F64, 7, 4, weights, d.args64.v, 4, z, NULL);
        support_oracle_row(&d, 0, 0, i, row);
        for (int j = 0; j < 7; j++) {
            assert_near("weights", row->weights[j], a[j], 1e-15);
        }
        for (int col = 0; col < 4; col++) {
            assert_near("out", row->out[col], z[col], 1e-14);
        }
    }
    support_row_free(row);
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_stage_edges(void **state) {
    (void)state;
    long double p[5], a[3];
    support_oracle_sinusoidal(1, 5, 10000, p);
    static const double wanted[] = {0.841470985, 0.540302306, 0.025116223, 0.999684538, 0.000630957};
    for (int c = 0; c < 5; c++) {
        assert_near("sinusoidal", p[c], wanted[c], 0.6e-9);
    }
    support_oracle_softmax(ATTN_F64, 3, ROW(HIDES, HIDES, HIDES), a);
    assert_true(a[0] == 0 && a[2] == 0);
    support_oracle_softmax(ATTN_F64, 3, ROW(1, INFINITY, HIDES), a);
    assert_true(isnan(a[0]) && isnan(a[2]));
    support_oracle_softmax(ATTN_F64, 3, ROW(HIDES, 800, 800), a);
    assert_true(a[0] == 0 && a[1] == 0.5L);
    assert_true(support_oracle_alibi_slope(3, 0) == 1 / 16.0L);
    assert_true(support_oracle_alibi_slope(3, 1) == 1 / 256.0L);
    assert_true(support_oracle_alibi_slope(3, 2) == 1 / 4.0L);
    assert_true(support_oracle_alibi_slope(8, 7) == 1 / 256.0L);
}

/* ---- Comparators --------------------------------------------------------------------------------------------- */

/* Fills the outputs with what the oracle says, rounded to the precision. */
static void write_oracle(support_data *d) {
    const attn_problem *p = &d->problem_case->problem;
    support_row *row = support_row_create(d->problem_case);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->q_heads; h++) {
            for (int64_t i = 0; i < p->q_len; i++) {
                support_oracle_row(d, b, h, i, row);
                const long double *intermediates[] = {row->scores, row->capped, row->masked, row->weights};
                bool has_row = !(p->flags & ATTN_RAGGED) || i < support_case_q_len(d->problem_case, b);
                for (int64_t col = 0; has_row && col < p->v_dim; col++) {
                    support_set(d, SUPPORT_OUT, b, h, i, col, (double)row->out[col]);
                }
                if (has_row && support_has(d, SUPPORT_LSE)) {
                    support_set(d, SUPPORT_LSE, b, h, i, 0, (double)row->lse);
                }
                for (int n = 0; n < 4; n++) {
                    support_array array = (support_array)(SUPPORT_SCORES + n);
                    for (int64_t j = 0; support_has(d, array) && j < p->kv_len; j++) {
                        support_set(d, array, b, h, i, j, (double)intermediates[n][j]);
                    }
                }
            }
        }
    }
    support_row_free(row);
}

static void test_oracle_passes_its_own_comparison(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < rounds(120); seed++) {
        support_case *c = support_case_random(seed, SUPPORT_OPTIONS_ALL);
        support_data d = created(c, seed % 2 ? ATTN_F32 : ATTN_F64);
        support_report report;
        write_oracle(&d);
        if (!support_verify(&d, NULL, &report)) {
            fail_msg("%s", report.text);
        }
        support_data_destroy(&d);
        support_case_free(c);
    }
}

static const char comparator_case[] = "b2h4/2q5k7d3v2,causal,lse,layout=padded,nan=v:0:0:4:1,want=weights";

/* The comparison fails after one element was changed, and names the place. */
static void check_is_noticed(attn_dtype dtype, const char *name, support_array array, int64_t row, int64_t col,
                             double value) {
    support_case *c = parsed(comparator_case);
    support_data d = created(c, dtype);
    support_report report;
    write_oracle(&d);
    assert_true(support_verify(&d, "naive", &report));
    assert_int_equal(report.verdict, SUPPORT_PASSED);
    support_set(&d, array, 0, 1, row, col, value);
    if (support_verify(&d, "naive", &report)) {
        fail_msg("a wrong %s passed: %s", name, report.text);
    }
    assert_int_equal(report.verdict, SUPPORT_FAILED);
    assert_int_equal(report.failures, 1);
    assert_string_equal(report.array, name);
    assert_true(report.b == 0 && report.h == 1 && report.row == row && report.col == col);
    assert_non_null(strstr(report.text, "attn-bench check 'b2h4/2q5k7d3v2,causal,"));
    assert_non_null(
        strstr(report.text, dtype == ATTN_F32 ? "--engine naive --dtype f32" : "--engine naive --dtype f64"));
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_wrong_numbers_are_noticed(void **state) {
    (void)state;
    support_case *c = parsed(comparator_case);
    for (int type = 0; type < 2; type++) {
        attn_dtype dtype = type ? ATTN_F64 : ATTN_F32;
        support_data d = created(c, dtype);
        write_oracle(&d);
        double right = support_get(&d, SUPPORT_OUT, 0, 1, 3, 0);
        double lse = support_get(&d, SUPPORT_LSE, 0, 1, 3, 0);
        double weight = support_get(&d, SUPPORT_WEIGHTS, 0, 1, 3, 1);
        support_data_destroy(&d);
        double bit = 20 * support_eps(dtype) * support_valgrind_factor(dtype);
        check_is_noticed(dtype, "out", SUPPORT_OUT, 3, 0, right + 4 * bit);
        check_is_noticed(dtype, "out", SUPPORT_OUT, 3, 0, NAN);
        check_is_noticed(dtype, "out", SUPPORT_OUT, 3, 0, INFINITY);
        check_is_noticed(dtype, "out", SUPPORT_OUT, 4, 1, 0.5); /* must be NaN */
        check_is_noticed(dtype, "lse", SUPPORT_LSE, 3, 0, lse + 4 * bit * (1 + fabs(lse)));
        check_is_noticed(dtype, "lse", SUPPORT_LSE, 3, 0, NAN);
        check_is_noticed(dtype, "weights", SUPPORT_WEIGHTS, 3, 1, weight + 4 * bit);
        check_is_noticed(dtype, "weights", SUPPORT_WEIGHTS, 3, 4, 1e-30); /* hidden: exactly 0 */
    }
    support_case_free(c);
}

static void test_missing_and_extra_writes_are_noticed(void **state) {
    (void)state;
    support_case *c = parsed(comparator_case);
    support_data d = created(c, ATTN_F32);
    support_report report;
    assert_false(support_verify(&d, NULL, &report));
    assert_non_null(strstr(report.text, "never written"));
    write_oracle(&d);
    assert_true(support_verify(&d, NULL, &report));
    d.args32.out[2] = 1; /* between row 0 and row 1 */
    assert_false(support_verify(&d, NULL, &report));
    assert_non_null(strstr(report.text, "between rows"));
    support_data_poison_outputs(&d);
    write_oracle(&d);
    assert_true(support_verify(&d, NULL, &report));
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_empty_rows_must_be_exact(void **state) {
    (void)state;
    support_case *c = parsed("q4k2d3,causal,br,lse");
    support_data d = created(c, ATTN_F64);
    support_report report;
    write_oracle(&d);
    assert_true(support_verify(&d, NULL, &report));
    assert_int_equal(report.verdict, SUPPORT_MISTRUSTED); /* half of it is 0 */
    support_set(&d, SUPPORT_OUT, 0, 0, 0, 0, 1e-300);
    assert_false(support_verify(&d, NULL, &report));
    support_set(&d, SUPPORT_OUT, 0, 0, 0, 0, 0);
    support_set(&d, SUPPORT_LSE, 0, 0, 1, 0, -1e300);
    assert_false(support_verify(&d, NULL, &report));
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_samples_hold_the_first_and_last_row(void **state) {
    (void)state;
    support_case *c = parsed("b2h3q101k37d5,causal");
    support_data d = created(c, ATTN_F32);
    support_report report;
    write_oracle(&d);
    assert_true(support_verify_sampled(&d, "fused", 10, 1, &report));
    assert_int_equal(report.rows, 10);
    assert_int_equal(report.verdict, SUPPORT_PASSED);
    double right = support_get(&d, SUPPORT_OUT, 1, 2, 100, 4);
    support_set(&d, SUPPORT_OUT, 1, 2, 100, 4, NAN);
    assert_false(support_verify_sampled(&d, "fused", 4, 1, &report));
    support_set(&d, SUPPORT_OUT, 1, 2, 100, 4, right);
    support_set(&d, SUPPORT_OUT, 0, 0, 0, 0, NAN);
    assert_false(support_verify_sampled(&d, "fused", 4, 1, &report));
    support_data_destroy(&d);
    support_case_free(c);
}

static void test_rows_of_a_stage(void **state) {
    (void)state;
    const long double wanted[] = {1, -INFINITY, NAN, 0};
    const long double tolerance[] = {1e-6L, 1e-6L, 1e-6L, 0};
    const float right[] = {1.0000001f, -INFINITY, NAN, 0};
    support_report report;
    support_report_begin(&report);
    support_compare_row(&report, "S", 5, ATTN_F32, 4, right, wanted, tolerance);
    assert_true(support_report_end(&report, "a stage"));
    for (int broken = 0; broken < 4; broken++) {
        float got[4];
        memcpy(got, right, sizeof got);
        got[broken] = broken == 2 ? 1 : NAN;
        support_report_begin(&report);
        support_compare_row(&report, "S", 5, ATTN_F32, 4, got, wanted, tolerance);
        assert_false(support_report_end(&report, "a stage"));
        assert_true(report.row == 5 && report.col == broken);
    }
}

/* ---- Calibration: a plain evaluation in the precision stays inside the tolerance, the worst far from 0 --------- */

static double rounded(attn_dtype dtype, double x) {
    return dtype == ATTN_F32 ? (double)(float)x : x;
}

/* One row by the textbook loops, every operation rounded to the precision; lengths, causal and alignment as flags. */
static void plain_row(support_data *d, int64_t b, int64_t h, int64_t i) {
    const support_case *c = d->problem_case;
    const attn_problem *p = &c->problem;
    attn_dtype t = d->dtype;
    int64_t group = p->q_heads / p->kv_heads, keys = i < support_case_q_len(c, b) ? support_case_kv_len(c, b) : 0;
    int64_t at = i + (p->alignment == ATTN_ALIGN_BOTTOM_RIGHT ? support_case_kv_len(c, b) - support_case_q_len(c, b)
                                                              : p->offset);
    if (p->flags & ATTN_CAUSAL) {
        keys = at < 0 ? 0 : at >= keys ? keys : at + 1;
    }
    double scale = rounded(t, (p->flags & ATTN_HAS_SCALE) ? p->scale : 1 / sqrt((double)p->head_dim));
    double *s = malloc(((size_t)keys + 1) * sizeof *s);
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        double score = 0;
        for (int64_t col = 0; scale != 0 && col < p->head_dim; col++) {
            double product = support_get(d, SUPPORT_Q, b, h, i, col) * support_get(d, SUPPORT_K, b, h / group, j, col);
            score = rounded(t, score + rounded(t, product));
        }
        s[j] = rounded(t, scale * score);
        max = fmax(max, s[j]);
    }
    for (int64_t j = 0; j < keys; j++) {
        s[j] = rounded(t, exp(rounded(t, s[j] - max)));
        sum = rounded(t, sum + s[j]);
    }
    for (int64_t col = 0; col < p->v_dim; col++) {
        double out = 0;
        for (int64_t j = 0; j < keys; j++) {
            out = rounded(t, out + rounded(t, s[j] * support_get(d, SUPPORT_V, b, h / group, j, col)));
        }
        support_set(d, SUPPORT_OUT, b, h, i, col, keys > 0 ? rounded(t, out / sum) : 0);
    }
    if (support_has(d, SUPPORT_LSE)) {
        support_set(d, SUPPORT_LSE, b, h, i, 0, keys > 0 ? rounded(t, max + log(sum)) : -INFINITY);
    }
    free(s);
}

static void test_plain_evaluation_is_inside_the_tolerance(void **state) {
    (void)state;
    double worst = 0;
    for (uint64_t seed = 0; seed < rounds(300); seed++) {
        support_case *c = support_case_random(seed, SUPPORT_OPTIONS_0_1);
        support_data d = created(c, seed % 2 ? ATTN_F32 : ATTN_F64);
        const attn_problem *p = &c->problem;
        for (int64_t b = 0; b < p->batch; b++) {
            for (int64_t h = 0; h < p->q_heads; h++) {
                for (int64_t i = 0; i < p->q_len; i++) {
                    plain_row(&d, b, h, i);
                }
            }
        }
        support_report report;
        if (!support_verify(&d, NULL, &report)) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, report.text);
        }
        worst = fmax(worst, report.worst);
        support_data_destroy(&d);
        support_case_free(c);
    }
    print_message("worst error of plain evaluation: %.3f of the tolerance\n", worst);
    assert_true(worst > 0.02);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_round_trip),
        cmocka_unit_test(test_strings_mean_what_they_say),
        cmocka_unit_test(test_bad_strings_are_refused),
        cmocka_unit_test(test_random_cases_can_be_written_down),
        cmocka_unit_test(test_normals_are_normal),
        cmocka_unit_test(test_both_precisions_hold_the_same_numbers),
        cmocka_unit_test(test_what_nobody_may_read_is_poisoned),
        cmocka_unit_test(test_packed_arrays_are_slices),
        cmocka_unit_test(test_oracle_small_numbers),
        cmocka_unit_test(test_mask_of_blocks),
        cmocka_unit_test(test_oracle_hidden_leading_tile),
        cmocka_unit_test(test_oracle_grouped_heads),
        cmocka_unit_test(test_oracle_expectations),
        cmocka_unit_test(test_oracle_ignores_poison),
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_attention_is_the_stages_together),
        cmocka_unit_test(test_stage_edges),
        cmocka_unit_test(test_oracle_passes_its_own_comparison),
        cmocka_unit_test(test_wrong_numbers_are_noticed),
        cmocka_unit_test(test_missing_and_extra_writes_are_noticed),
        cmocka_unit_test(test_empty_rows_must_be_exact),
        cmocka_unit_test(test_samples_hold_the_first_and_last_row),
        cmocka_unit_test(test_rows_of_a_stage),
        cmocka_unit_test(test_plain_evaluation_is_inside_the_tolerance),
    };
    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}
