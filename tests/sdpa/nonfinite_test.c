/* NaN and Inf in inputs: they reach the rows that see them, in their column when they stand in V, and nothing else
 * changes by a bit. */
#include "sdpa_test.h"

/* ---- Against the run with 0 in their place ----------------------------------------------------------------------- */

/* The sizes cover few queries and tiles, one tile and several, hidden keys in the same tile as visible ones. Keys
 * beyond a length and elements between rows are NaN in all of them. */
static const char *const problems[] = {
    /* visible to all rows */
    "h2q19k43d5,lse,nan=v:0:0:7:3",
    "h2q5k600d5,lse,nan=v:0:0:7:3+v:0:0:599:3+v:0:1:300:0",
    "q300k1100d5,lse,nan=v:0:0:1000:4",
    "h2q19k43d5,lse,inf=v:0:0:7:3",
    "h2q5k43d5,lse,inf=v:0:0:7:3,nan=v:0:0:8:3+v:0:0:8:4",
    "h40/1q2k1100d5,lse,nan=v:0:0:7:3+v:0:0:599:3+v:0:0:1099:0+k:0:0:255:1",
    "q2k8500d5,lse,nan=v:0:0:7:3+q:0:0:0:1",
    /* visible to some rows only */
    "h40/1q2k1100d5v5,causal,off=512,lse,nan=v:0:0:513:1+v:0:0:514:2+v:0:0:1000:3+k:0:0:512:0+k:0:0:600:1",
    "q8k2100d5v5,causal,off=1020,lse,nan=v:0:0:1023:1+v:0:0:1024:2+v:0:0:2050:3+k:0:0:1026:0,inf=k:0:0:1027:0",
    "h4/2q23k57d7v5,causal,lse,nan=v:0:0:20:2+v:0:1:15:0+v:0:1:56:4+k:0:0:21:3+q:0:1:4:6",
    "h4/2q23k57d7v5,causal,br,lse,nan=v:0:0:40:2+v:0:1:56:0+k:0:0:50:3+k:0:1:51:0+q:0:3:4:6+q:0:3:5:0",
    "h4/2q23k57d7v5,causal,lse,inf=v:0:0:20:2+v:0:1:15:0,nan=v:0:0:22:2",
    "h2q5k600d7v5,causal,off=297,lse,nan=v:0:0:300:1+v:0:0:310:2+v:0:1:500:3+k:0:1:299:2+k:0:1:599:0",
    /* a key that some rows of a tile see and others do not, late in a tile that is not the first, of 256 or 512 keys */
    "q900k1100d7v5,causal,off=-20,lse,nan=k:0:0:760:0+v:0:0:758:2",
    "q300k1100d7v5,causal,off=500,lse,nan=v:0:0:520:0+v:0:0:511:1+v:0:0:790:2+v:0:0:799:3+v:0:0:1050:4+k:0:0:795:0",
    "q300k1100d7v5,causal,off=-20,lse,nan=v:0:0:0:0+v:0:0:5:1+v:0:0:255:2+k:0:0:277:0+k:0:0:279:3+q:0:0:270:0",
    "q40k90d7v5,layout=blhd,causal,nan=v:0:0:20:2+v:0:0:60:1+k:0:0:35:0",
    "b2h4/2q40k90d7v5,layout=padded,kvlens=90:50,causal,off=10,lse,nan=v:0:0:20:2+v:1:1:48:1+k:1:0:45:0",
    /* hidden from every row */
    "h2q19k43d5,causal,lse,nan=v:0:0:19:3+k:0:0:20:1+v:0:1:42:0+k:0:1:42:2",
    "h2q5k300d5,causal,lse,nan=v:0:0:5:3+k:0:0:6:1+v:0:1:299:0,inf=k:0:1:42:2+v:0:1:43:1",
    "h2q5k43d5,causal,off=-5,lse,nan=v:0:0:0:3+k:0:0:6:1+q:0:0:0:1+q:0:1:4:2",
    /* hidden by window, mask and bias */
    "h2q41k41d5,window=6:3,lse,nan=v:0:0:20:2+k:0:0:30:1+v:0:1:10:0+v:0:1:11:4",
    "h2q5k300d5,br,window=2:1,lse,nan=v:0:0:20:2+k:0:0:298:1+v:0:1:295:0+k:0:1:100:2",
    "h40/1q2k1100d5,br,window=400:1,lse,nan=v:0:0:20:2+k:0:0:698:1+v:0:0:697:0+k:0:0:1023:1",
    "h40/1q2k1100d5,mask@qk=random:0.5,lse,nan=v:0:0:20:2+k:0:0:30:1+v:0:0:1099:0,inf=v:0:0:600:3",
    "h40/1q2k1100d5,mask=lead:512,sink,lse,nan=v:0:0:20:2+k:0:0:300:1+v:0:0:511:0",
    "q270k600d5,off=300,window=20:5,lse,nan=v:0:0:320:2+k:0:0:400:1+v:0:0:599:0+v:0:0:0:4",
    "h2q19k43d5,mask=random:0.5,lse,nan=v:0:0:20:2+k:0:0:30:1+v:0:1:42:0+q:0:1:3:2,inf=v:0:1:10:3",
    "h4/2q5k300d5,mask@q=random:0.5,sink,lse,nan=v:0:0:20:2+k:0:0:30:1+v:0:1:299:0+k:0:1:4:4",
    "q40k1100d5,mask=random:0.5,alibi,softcap=3,lse,nan=v:0:0:20:2+k:0:0:600:1+v:0:0:1099:0",
    "h2q19k43d5,bias=inf:0.5,sink,lse,nan=v:0:0:20:2+k:0:0:30:1+v:0:1:42:0+q:0:1:3:2",
    "h2q5k300d5,bias=inf:0.5,bias_len=250,lse,nan=v:0:0:20:2+k:0:0:30:1+v:0:1:299:0+k:0:1:260:0",
    "b3h2q19k43d5,ragged=19:5:11/43:17:30,causal,br,lse,nan=v:0:0:42:2+k:1:0:16:1+v:2:1:25:0+q:2:1:3:2",
    /* scale 0 reads neither queries nor keys */
    "h2q19k43d5,scale=0,causal,lse,nan=v:0:0:7:3+k:0:0:3:1+q:0:0:3:1",
    "h2q5k43d5,scale=0,lse,nan=v:0:0:7:3+k:0:0:3:1+q:0:0:3:1",
};

/* What is wanted of an element: the bits of the run with 0, NaN, or anything that is not finite. */
typedef enum wanted { SAME_BITS, NOT_A_NUMBER, NOT_FINITE } wanted;

/* Puts 0 in the place of all specials, or puts them back. */
static void set_specials(trial *t, bool zero) {
    const support_case *c = t->problem_case;
    for (int n = 0; n < c->special_count; n++) {
        const support_special *s = &c->specials[n];
        support_array array = s->array == 'q' ? SUPPORT_Q : s->array == 'k' ? SUPPORT_K : SUPPORT_V;
        double value = zero ? 0 : s->infinite ? INFINITY : NAN;
        support_set(&t->data, array, s->b, s->h, s->row, s->col, value);
    }
}

/* What column c of a row is to be; column -1 is lse. */
static wanted wanted_of(const trial *t, int64_t b, int64_t h, int64_t i, int64_t c) {
    const support_case *problem_case = t->problem_case;
    const attn_problem *p = &problem_case->problem;
    int64_t kv_head = h / (p->q_heads / p->kv_heads);
    bool scores_are_zero = (p->flags & ATTN_HAS_SCALE) != 0 && p->scale == 0;
    bool empty = true;
    for (int64_t j = 0; j < p->kv_len && empty; j++)
        empty = !support_oracle_sees(&t->data, b, h, i, j);
    wanted want = SAME_BITS;
    for (int n = 0; n < problem_case->special_count && !empty; n++) {
        const support_special *s = &problem_case->specials[n];
        if (s->b != b || s->h != (s->array == 'q' ? h : kv_head))
            continue;
        if (s->array == 'q' ? s->row != i : !support_oracle_sees(&t->data, b, h, i, s->row))
            continue;
        if (s->array == 'v' ? s->col != c : scores_are_zero)
            continue;
        if (s->infinite && want == SAME_BITS)
            want = NOT_FINITE;
        else if (!s->infinite)
            want = NOT_A_NUMBER;
    }
    return want;
}

static void check_element(const trial *t, attn_engine engine, const real *got, const real *zero_run, wanted want,
                          const int64_t place[4]) {
    bool right = want == SAME_BITS      ? same_bits(got, zero_run, 1)
                 : want == NOT_A_NUMBER ? (bool)isnan(*got)
                                        : !isfinite(*got);
    if (!right)
        fail_msg("%s, %s: member %lld, head %lld, row %lld, column %lld (-1 is lse) is %.9g, but %.9g with 0 in their "
                 "place; %s",
                 t->text, engine_name(engine), (long long)place[0], (long long)place[1], (long long)place[2],
                 (long long)place[3], (double)*got, (double)*zero_run,
                 want == SAME_BITS ? "should be the same bits" : "should not be finite");
}

static void check_against_zeros(trial *t, attn_engine engine) {
    const attn_problem *p = &t->problem_case->problem;
    bool ragged = (p->flags & ATTN_RAGGED) != 0; /* then rows beyond a member's are another's */
    set_specials(t, true);
    trial_run(t, engine, 1);
    results zeros = results_of(t);
    set_specials(t, false);
    trial_run(t, engine, 1);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < (ragged ? support_case_q_len(t->problem_case, b) : p->q_len); i++)
                for (int64_t c = t->problem_case->lse ? -1 : 0; c < p->v_dim; c++) {
                    support_array array = c < 0 ? SUPPORT_LSE : SUPPORT_OUT;
                    int64_t at = support_index(&t->data, array, b, h, i, c);
                    check_element(t, engine, (real *)t->data.base[array] + at,
                                  (c < 0 ? zeros.copy[SUPPORT_LSE] : zeros.copy[SUPPORT_OUT]) + at,
                                  wanted_of(t, b, h, i, c), (const int64_t[]){b, h, i, c});
                }
    results_free(&zeros);
}

static void test_against_zeros(void **state) {
    (void)state;
    for (size_t s = first_problem(); s < sizeof problems / sizeof *problems; s += stride_of_problems()) {
        trial t;
        trial_open(&t, problems[s]);
        for_each_engine(engine) {
            check_against_zeros(&t, engine);
            trial_verify(&t, engine);
        }
        trial_close(&t);
    }
}

/* ---- Infinite scores --------------------------------------------------------------------------------------------- */

/* With d = 1 a key of +Inf makes the score +Inf or -Inf by the sign of the query: a row of NaN, or a key that is hidden
 * together with the NaN in its V. The oracle knows. */
static void test_infinite_scores(void **state) {
    (void)state;
    static const char *const infinite[] = {
        "q6k10d1v3,lse,inf=k:0:0:4:0,nan=v:0:0:4:1",
        "q40k10d1v3,lse,inf=k:0:0:0:0,nan=v:0:0:0:1",
        "q5k1100d1v3,lse,inf=k:0:0:700:0+k:0:0:0:0,nan=v:0:0:700:2",
        "q40k1100d1v3,lse,inf=k:0:0:700:0+k:0:0:0:0,nan=v:0:0:700:2",
        "q300k600d1v3,causal,lse,inf=k:0:0:100:0,nan=v:0:0:100:1+v:0:0:50:0",
        "h4/2q9k20d1v2,lse,inf=k:0:1:19:0+k:0:0:0:0",
    };
    for (size_t s = 0; s < sizeof infinite / sizeof *infinite; s++) {
        trial t;
        trial_open(&t, infinite[s]);
        for_each_engine(engine) {
            trial_run(&t, engine, 1);
            trial_verify(&t, engine);
        }
        trial_close(&t);
    }
}

/* Queries 1, -1 and 0 against keys of which some are Inf, by hand. */
static void check_infinite_scores(int64_t head_dim) {
    static const struct {
        const char *problem;
        double q, k[2], v[2];
        double out, lse; /* NaN where NaN is wanted */
    } table[] = {
        {"q2k2d1,scale=1,lse", 1, {3, INFINITY}, {1, 2}, NAN, NAN},
        {"q2k2d1,scale=1,lse", -1, {3, INFINITY}, {1, NAN}, 1, -3},
        {"q2k2d1,scale=1,lse", 0, {3, INFINITY}, {1, 2}, NAN, NAN},
        {"q2k2d1,scale=1,lse", -1, {INFINITY, INFINITY}, {NAN, 2}, 0, -INFINITY},
        {"q2k2d1,scale=1,lse", 1, {-INFINITY, INFINITY}, {1, 2}, NAN, NAN},
        {"q2k2d1,scale=1,lse", 1, {NAN, -INFINITY}, {1, 2}, NAN, NAN},
        {"q2k2d1,scale=1,lse", NAN, {1, 2}, {1, 2}, NAN, NAN},
        /* a visible key of weight 0 carries the NaN of its V, a hidden one does not */
        {"q2k2d1,scale=1,lse", 1, {0, -2000}, {1, NAN}, NAN, 0},
        {"q2k2d1,scale=1,lse", 1, {0, -INFINITY}, {1, NAN}, 1, 0},
        {"q40k1100d1,scale=1,lse", 1, {-INFINITY, 5}, {NAN, 7}, 7, 5},
        {"q40k1100d1,scale=1,lse", 1, {-INFINITY, INFINITY}, {1, 7}, NAN, NAN},
        {"q40k1100d1,scale=1,lse", 1, {-INFINITY, NAN}, {1, 7}, NAN, NAN},
        {"q40k1100d1,scale=1,lse", 1, {-2000, 0}, {NAN, 7}, NAN, 0},
        {"q4k1100d1,scale=1,lse", 1, {-INFINITY, INFINITY}, {1, 7}, NAN, NAN},
        {"q4k1100d1,scale=1,lse", 1, {-2000, 0}, {NAN, 7}, NAN, 0},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        trial t;
        char problem[100];
        trial_open_widened(&t, table[n].problem, head_dim, problem, sizeof problem);
        const attn_problem *p = &t.problem_case->problem;
        for (int64_t i = 0; i < p->q_len; i++)
            *element(&t, SUPPORT_Q, 0, 0, i, 0) = (real)table[n].q;
        for (int64_t j = 0; j < p->kv_len; j++) {
            /* the second key stands last, the first in all places before */
            *element(&t, SUPPORT_K, 0, 0, j, 0) = (real)table[n].k[j == p->kv_len - 1];
            *element(&t, SUPPORT_V, 0, 0, j, 0) = (real)table[n].v[j == p->kv_len - 1];
        }
        for_each_engine(engine) {
            trial_run(&t, engine, 1);
            for (int64_t i = 0; i < p->q_len; i++) {
                double out = *element(&t, SUPPORT_OUT, 0, 0, i, 0), lse = *element(&t, SUPPORT_LSE, 0, 0, i, 0);
                if (isnan(table[n].out) ? !isnan(out) : out != table[n].out)
                    fail_msg("line %zu, %s, %s: out is %g, not %g", n, problem, engine_name(engine), out, table[n].out);
                if (isnan(table[n].lse) ? !isnan(lse) : lse != table[n].lse)
                    fail_msg("line %zu, %s, %s: lse is %g, not %g", n, problem, engine_name(engine), lse, table[n].lse);
            }
        }
        trial_close(&t);
    }
}

static void test_infinite_scores_by_hand(void **state) {
    (void)state;
    check_infinite_scores(1);
    check_infinite_scores(WIDE_HEAD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_zeros),
        cmocka_unit_test(test_infinite_scores),
        cmocka_unit_test(test_infinite_scores_by_hand),
    };
    return run_sdpa_tests(tests);
}
