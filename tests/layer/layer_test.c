/* The layer against long double: weights, packed and separate, grouped heads, cross-attention, rotary positions,
 * caches, every option of attention; small numbers. */
#include "layer_test.h"

#include <math.h>
#include <stdio.h>

/* ---- Small numbers ----------------------------------------------------------------------------------------------- */

/* One head of size 1, all weights 1, W_O 2, b_O 1: q = k = v = x = [1, 2]; row 0 sees itself when causal, row 1 both:
 * z = (1 e^2 + 2 e^4) / (e^2 + e^4) = 1.880797078, y = 2 z + 1. */
static void test_small_numbers(void **state) {
    (void)state;
    const real x[] = {1, 2}, one = 1, two = 2;
    attn_problem heads = ATTN_PROBLEM_INIT;
    heads.flags = ATTN_CAUSAL;
    heads.batch = heads.q_heads = heads.kv_heads = heads.head_dim = heads.v_dim = 1;
    heads.q_len = heads.kv_len = 2;
    attn_layer layer = ATTN_LAYER_INIT;
    layer.d_model = layer.d_out = 1;
    layer.attention = &heads;
    assert_ok(attn_layer_layout_dense(&layer));
    real *y = poisoned(2);
    layer_args args = ATTN_STRUCT_INIT(layer_args);
    args.x = x;
    args.w_q = args.w_k = args.w_v = &one;
    args.w_o = &two;
    args.b_o = &one;
    args.y = y;
    assert_ok(REAL(attn_layer)(NULL, &layer, &args));
    assert_near(y[0], 3, 4 * EPS);
    assert_near(y[1], 2 * 1.880797077977882444L + 1, 16 * EPS);
    free(y);
}

/* ---- Given problems ---------------------------------------------------------------------------------------------- */

static void test_problems(void **state) {
    (void)state;
    static const char *const texts[] = {
        /* both weight layouts, packed and separate, with and without biases */
        "layer d24h3 b2q7",
        "layer d24h3,outin b2q7",
        "layer d24h3,packed b2q7,causal",
        "layer d24h3,packed,outin b2q7,causal",
        "layer d24h3,bias,pad=3 b2q7",
        "layer d24h3,packed,outin,bias,pad=5 b2q7",
        /* sizes of their own, grouped heads */
        "layer d29h6/2s7v11o13,bias b2q5,causal",
        "layer d29h6/3s7v11o13,packed,bias,pad=1 b2q5",
        "layer d17h4/1s8,outin b3q3,br,causal",
        /* cross-attention */
        "layer d24h3c19 b2q7k11",
        "layer d24h4/2c37o11,packed,bias,pad=2 b2q7k11",
        "layer d24h4/2c37o11,packed,bias,outin b2q1k5",
        /* rotary positions */
        "layer d24h3,rope=half b2q7,causal",
        "layer d24h3,rope=pairs:4,start=1000,packed b2q7,causal",
        "layer d24h2c10,rope=half:6,start=3 b2q5k9",
        /* caches: a first chunk, a later one, one token, cross-attention with nothing new */
        "layer d24h3,cache=12 b2q7,br,causal",
        "layer d24h4/2,cache=31,past=17,rope=half,packed,bias b2q5,br,causal",
        "layer d24h4/2,cache=18,past=17,rope=pairs,outin b3q1,br,causal",
        "layer d24h3c10,cache=17,past=17 b2q3k0",
        "layer d24h3c10,cache=20,past=9,bias,rope=half b2q3k11",
        /* lengths and packed members; rows above the edge between loops and blocks */
        "layer d24h3,packed,bias b3q9,qlens=9:0:4,causal",
        "layer d24h3,bias b3q9,kvlens=1:9:5",
        "layer d24h3,bias b3q9,qlens=2:9:0,kvlens=7:1:9",
        "layer d24h3c7,bias,rope=half b3q5k9,qlens=5:0:2,kvlens=0:9:4",
        "layer d24h3,cache=29,past=11,rope=half,bias b3q9,qlens=9:0:4,br,causal",
        "layer d24h3,packed,rope=half,bias,pad=2 b3q9,ragged=4:0:9/4:0:9,causal",
        "layer d24h3c7,rope=pairs b3q9k5,ragged=4:0:9/1:5:0",
        "layer d16h2,packed,rope=half b2q41,qlens=41:33,causal",
        "layer d16h2,bias,outin b2q37,ragged=37:31/37:31",
        /* several blocks of columns, several strips; panels that are packed several times, beside a member of few
         * rows */
        "layer d40h5/1s128o600,bias b1q3",
        "layer d40h5/1s128o600,bias b1q35",
        "layer d1031h2s37o11,outin,bias b2q53,qlens=53:5",
        /* options of attention */
        "layer d24h3,bias b2q7,window=2:1,softcap=3,alibi,sink,lse,mask=random:0.3,bias=normal",
        "layer d24h3,cache=13,past=6 b2q7,br,causal,window=4:0,sink=1,lse,mask@bh,bias@bhq,bias_len=11",
        "layer d24h3 b2q7,want=scores+weights,lse,scale=-0.3,mask=rowempty:0.3",
        "layer d24h3,cache=13,past=6 b2q7,want=weights,off=-2,causal",
        /* empty sizes */
        "layer d24h3v0,bias b2q7",
        "layer d24h3o0 b2q7",
        "layer d24h3 b0q7",
        "layer d24h3 b2q0",
        "layer d24h3c5,bias b2q3k0",
        "layer d24h3,cache=4,past=4 b2q0",
    };
    double worst = 0;
    for (size_t i = first_problem(); i < sizeof texts / sizeof *texts; i += stride_of_problems())
        worst = fmax(worst, check_layer(texts[i]));
    print_message("worst error: %.3f of the tolerance\n", worst);
}

/* ---- Positions by ids and tables --------------------------------------------------------------------------------- */

enum { TABLE_ROWS = 40, MOST_PAIRS = 8, START = 3 };

/* cos and sin of every position and pair, rounded once. */
static void fill_tables(const support_layer *l, real *cosines, real *sines) {
    for (int64_t pos = 0; pos < TABLE_ROWS; pos++)
        for (int64_t k = 0; k < l->rotary_dim / 2; k++) {
            long double angle = (long double)pos * powl(10000, -2.0L * (long double)k / (long double)l->rotary_dim);
            cosines[pos * MOST_PAIRS + k] = (real)cosl(angle);
            sines[pos * MOST_PAIRS + k] = (real)sinl(angle);
        }
}

/* Ids that say what start says: the same bits. Tables that hold what own angles give: within the bound. */
static void test_ids_and_tables(void **state) {
    (void)state;
    static const char *const texts[] = {
        "layer d24h4/2,rope=half,start=3 b2q5,causal",
        "layer d24h2c10,rope=pairs:8,start=3,packed b2q5k9",
        "layer d24h4/2,rope=half,start=3,cache=20,past=9 b2q5,br,causal,qlens=5:2",
        "layer d24h4,rope=pairs,start=3,packed b2q5,ragged=5:2/5:2",
    };
    real cosines[TABLE_ROWS * MOST_PAIRS], sines[TABLE_ROWS * MOST_PAIRS];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        test_layer *t = make_layer(texts[i]);
        layer_args *args = args_of_layer(t);
        int64_t ids[2 * 9], kv_ids[2 * 9], size = t->d.elements[SUPPORT_LAYER_Y];
        bool ragged = t->d.heads.q_offsets != NULL;
        assert_layer_ok(t, texts[i], REAL(attn_layer)(NULL, &t->d.layer, args));
        real *by_start = poisoned(size);
        memcpy(by_start, y_of_layer(t), (size_t)size * sizeof *by_start);
        t->d.rotary.start = -77; /* not looked at */
        t->d.rotary.flags = ATTN_ROTARY_HAS_IDS;
        t->d.rotary.ids_batch = ragged ? -77 : 9;
        for (int64_t b = 0; b < 2; b++)
            for (int64_t row = 0; row < 9; row++) {
                kv_ids[b * 9 + row] = START + row;
                ids[(ragged ? b * 5 : b * 9) + row] = START + row + t->l->past;
            }
        args->ids = ids;
        args->kv_ids = t->l->cross ? kv_ids : NULL;
        for (int tables = 0; tables < 2; tables++) {
            if (t->cache != NULL)
                assert_ok(attn_cache_truncate(t->cache, ATTN_CACHE_ALL, t->l->past));
            support_layer_poison_outputs(&t->d);
            if (tables) {
                fill_tables(t->l, cosines, sines);
                t->d.rotary.flags |= ATTN_ROTARY_HAS_TABLES;
                t->d.rotary.table_rows = TABLE_ROWS;
                t->d.rotary.table_row = MOST_PAIRS;
                args->cosines = cosines;
                args->sines = sines;
            }
            assert_layer_ok(t, texts[i], REAL(attn_layer)(NULL, &t->d.layer, args));
            if (!tables)
                assert_same_bits(y_of_layer(t), by_start, size);
        }
        free(by_start);
        free_layer(t);
    }
}

/* ---- Random problems --------------------------------------------------------------------------------------------- */

typedef struct dice {
    uint64_t seed, n;
} dice;

/* 0 .. sides-1 */
static int64_t roll(dice *d, int64_t sides) {
    return (int64_t)(support_random_bits(d->seed, 900, d->n++) % (uint64_t)sides);
}

static bool chance(dice *d, int one_in) {
    return roll(d, one_in) == 0;
}

/* A text that grows. */
typedef struct growing {
    char text[1024];
    size_t used;
} growing;

__attribute__((format(printf, 2, 3))) static void add(growing *g, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int added = vsnprintf(g->text + g->used, sizeof g->text - g->used, format, values);
    va_end(values);
    assert_true(added >= 0 && g->used + (size_t)added < sizeof g->text);
    g->used += (size_t)added;
}

static void add_lengths(growing *g, dice *d, const char *name, int64_t batch, int64_t most) {
    add(g, "%s", name);
    for (int64_t b = 0; b < batch; b++)
        add(g, "%s%lld", b > 0 ? ":" : "", (long long)roll(d, most + 1));
}

typedef struct drawn_sizes {
    bool cross, cached;
    int64_t batch, q_len, new_keys, past, room;
} drawn_sizes;

static void add_layer(growing *g, dice *d, drawn_sizes *s) {
    static const int64_t sizes[] = {1, 2, 5, 7, 11, 16, 19, 32};
    int64_t kv_heads = 1 + roll(d, 3), group = 1 + roll(d, 3), head_dim = sizes[roll(d, 8)];
    s->cross = chance(d, 3);
    s->cached = chance(d, 2);
    s->batch = 1 + roll(d, 3);
    s->q_len = chance(d, 8) ? 33 + roll(d, 9) : 1 + roll(d, 9);
    s->new_keys = s->cross ? roll(d, 12) : s->q_len;
    s->past = s->cached ? roll(d, 14) : 0;
    s->room = s->cached ? roll(d, 5) : 0;
    add(g, "layer d%lldh%lld/%llds%lldv%lld", (long long)(1 + roll(d, 47)), (long long)(kv_heads * group),
        (long long)kv_heads, (long long)head_dim, (long long)sizes[roll(d, 8)]);
    if (s->cross)
        add(g, "c%lld", (long long)(1 + roll(d, 31)));
    add(g, "o%lld", (long long)(1 + roll(d, 43)));
    if (chance(d, 2))
        add(g, ",outin");
    if (chance(d, 2))
        add(g, ",packed");
    if (chance(d, 2))
        add(g, ",bias");
    if (chance(d, 2))
        add(g, ",rope=%s:%lld", chance(d, 2) ? "half" : "pairs", (long long)(roll(d, head_dim / 2 + 1) * 2));
    if (chance(d, 2))
        add(g, ",start=%lld", (long long)roll(d, 40)); /* angles in double lose with their size: position.h */
    if (s->cached)
        add(g, ",cache=%lld,past=%lld", (long long)(s->past + s->new_keys + s->room), (long long)s->past);
    if (chance(d, 2))
        add(g, ",pad=%lld", (long long)roll(d, 4));
}

static void add_heads(growing *g, dice *d, const drawn_sizes *s) {
    static const char *const masks[] = {"mask", "mask@bh=rowempty:0.3", "mask@q=random:0.6", "mask=lead:2",
                                        "mask=none"};
    static const char *const biases[] = {"bias", "bias@bh", "bias=inf:0.2", "bias@k=infrow:0.3", "bias@bhqk"};
    int64_t keys = s->past + s->new_keys;
    add(g, " b%lldq%lld", (long long)s->batch, (long long)s->q_len);
    if (s->cross)
        add(g, "k%lld", (long long)s->new_keys);
    if (chance(d, 2))
        add(g, ",causal");
    if (chance(d, 2))
        add(g, ",br");
    else if (chance(d, 2))
        add(g, ",off=%lld", (long long)(roll(d, 15) - 5));
    if (chance(d, 4))
        add(g, ",scale=%g", (double)(roll(d, 9) - 4) / 8);
    if (chance(d, 4))
        add(g, ",window=%lld:%lld", (long long)(roll(d, 6) - 1), (long long)(roll(d, 6) - 1));
    if (chance(d, 4))
        add(g, ",softcap=%g", (double)(1 + roll(d, 5)));
    if (chance(d, 3))
        add(g, ",%s", masks[roll(d, 5)]);
    /* columns are the capacity, unless the length says that there are fewer */
    if (strstr(g->text, ",mask") != NULL && (s->room > 0 || chance(d, 3)))
        add(g, ",mask_len=%lld", (long long)(chance(d, 2) ? keys : roll(d, keys + 1)));
    size_t before = g->used;
    if (chance(d, 3))
        add(g, ",%s", biases[roll(d, 5)]);
    if (g->used > before && (s->room > 0 || chance(d, 3)))
        add(g, ",bias_len=%lld", (long long)(chance(d, 2) ? keys : roll(d, keys + 1)));
    if (chance(d, 4))
        add(g, ",alibi");
    if (chance(d, 4))
        add(g, ",sink");
    if (!s->cached && chance(d, 4)) {
        growing q = {"", 0};
        add_lengths(&q, d, "", s->batch, s->q_len);
        add(g, ",ragged=%s/", q.text);
        if (s->cross)
            add_lengths(g, d, "", s->batch, s->new_keys);
        else
            add(g, "%s", q.text);
    } else {
        if (chance(d, 3))
            add_lengths(g, d, ",qlens=", s->batch, s->q_len);
        if (chance(d, 3))
            add_lengths(g, d, ",kvlens=", s->batch, s->new_keys);
    }
    if (chance(d, 2))
        add(g, ",lse");
    if (s->room == 0 && chance(d, 4)) /* with a cache their columns are the capacity */
        add(g, ",want=weights");
    add(g, ",seed=%lld", (long long)(1 + roll(d, 1000000)));
}

/* How many; an argument of the program says otherwise. */
static uint64_t problems = 60;

static void test_random(void **state) {
    (void)state;
    double worst = 0;
    for (uint64_t seed = 1; seed <= problems; seed++) {
        dice d = {seed, 0};
        drawn_sizes sizes;
        growing g = {"", 0};
        add_layer(&g, &d, &sizes);
        add_heads(&g, &d, &sizes);
        worst = fmax(worst, check_layer(g.text));
    }
    print_message("worst error: %.3f of the tolerance\n", worst);
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static void assert_no_layer(const char *text, const char *sentence) {
    char error[512] = "";
    support_layer *l = support_layer_parse(text, error, sizeof error);
    assert_null(l);
    assert_string_equal(error, sentence);
}

static void test_texts_that_are_none(void **state) {
    (void)state;
    assert_no_layer("", "the sizes of a layer are written d768h12 or d768h12/4s64v32c512o640");
    assert_no_layer("layer h3 b1q2", "the sizes of a layer are written d768h12 or d768h12/4s64v32c512o640");
    assert_no_layer("layer d0h3 b1q2", "d: a size of at least 1 is needed at \"0h3 b1q2\"");
    assert_no_layer("layer d25h3 b1q2", "h 3 does not divide d 25: the head size s is needed");
    assert_no_layer("layer d24h3", "a blank and the heads, such as b1q1024, are needed at \"\"");
    assert_no_layer(
        "layer d24h3,flat b1q2",
        "no option of a layer at \"flat b1q2\": outin, packed, bias, rope=, start=, cache=, past=, pad= are "
        "accepted");
    assert_no_layer("layer d24h3,bias,bias b1q2", "bias is given twice");
    assert_no_layer("layer d24h3,rope=half:10 b1q2", "rope: 10 is not even and at most the head size 8");
    assert_no_layer("layer d24h3,past=3 b1q2", "past 3 is more than the cache holds");
    assert_no_layer("layer d24h3,cache=3,past=2 b1q2", "4 keys are more than the cache of 3 holds");
    assert_no_layer("layer d24h3 b1q2k2", "k goes with cross-attention: in self-attention keys are the rows of x");
    assert_no_layer("layer d1000000000h1 b1q2", "these sizes make arrays of more than 10^15 elements");
    assert_no_layer("layer d24h1 b1000000q1000000000", "these sizes make arrays of more than 10^15 elements");
    assert_no_layer("layer d24h3 b1k2", "the heads of a layer are written b1q1024, then options; q is needed");
}

int main(int argc, char **argv) {
    if (argc > 1)
        problems = strtoull(argv[1], NULL, 10);
    problems = (problems + stride_of_problems() - 1) / stride_of_problems();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_numbers),       cmocka_unit_test(test_problems),
        cmocka_unit_test(test_ids_and_tables),      cmocka_unit_test(test_random),
        cmocka_unit_test(test_texts_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
