/* Random cases: composes a problem string option by option and parses it, so that what is drawn can always be written
 * down.
 */
#include <stdarg.h>
#include <stdio.h>

#include "oracle.h"

/* Multiply-adds of the oracle that a case may cost: 20,000 cases in a few minutes. */
#define COST_LIMIT 1500000.0

enum { TEXT_SIZE = 2048, MAX_BATCH = 5 };

typedef struct draw {
    uint64_t seed, count, allowed;
    char text[TEXT_SIZE];
    size_t length;
    int64_t batch, q_heads, kv_heads, q_len, kv_len, head_dim, v_dim;
    int64_t q_lens[MAX_BATCH], kv_lens[MAX_BATCH];
} draw;

static uint64_t below(draw *d, uint64_t limit) {
    return support_random_bits(d->seed, 0, d->count++) % limit;
}

static bool one_in(draw *d, uint64_t n) {
    return below(d, n) == 0;
}

/* True in one of n cases when the option is allowed. */
static bool option(draw *d, uint64_t flag, uint64_t n) {
    return one_in(d, n) && (d->allowed & flag) != 0;
}

static int64_t pick(draw *d, const int64_t *choices, uint64_t count) {
    return choices[below(d, count)];
}
#define PICK(d, choices) pick(d, choices, sizeof(choices) / sizeof *(choices))

__attribute__((format(printf, 2, 3))) static void put(draw *d, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int more = vsnprintf(d->text + d->length, TEXT_SIZE - d->length, format, list);
    va_end(list);
    d->length += more > 0 ? (size_t)more : 0;
}

/* One of `count` names. */
static const char *name(draw *d, const char *const *names, uint64_t count) {
    return names[below(d, count)];
}
#define NAME(d, names) name(d, names, sizeof(names) / sizeof *(names))

/* ---- Sizes --------------------------------------------------------------------------------------------------- */

static double cost(const draw *d) {
    return (double)d->batch * (double)d->q_heads * (double)d->q_len * (double)d->kv_len *
           (double)(d->head_dim + d->v_dim + 8);
}

static int64_t draw_length(draw *d) {
    static const int64_t small[] = {1, 2, 3, 5, 7, 11, 13, 17, 23, 31, 37, 53, 61, 67, 97, 131};
    static const int64_t large[] = {257, 311, 521, 673, 1031};
    if (one_in(d, 30)) {
        return 0;
    }
    return one_in(d, 6) ? PICK(d, large) : PICK(d, small);
}

/* The longer sequence, or both of equal ones. */
static void halve_lengths(draw *d) {
    if (d->q_len == d->kv_len) {
        d->q_len = d->kv_len /= 2;
    } else if (d->q_len > d->kv_len) {
        d->q_len /= 2;
    } else {
        d->kv_len /= 2;
    }
}

/* One step towards a cheap case that keeps its heads wide and, with few queries, its rows of a key head many; false
 * where lengths end. */
static bool cut_but_heads(draw *d) {
    enum { FEW = 9, ROWS = 32, KEYS = 64 };
    if (d->batch > 1) {
        d->batch = 1;
    } else if (d->kv_heads > 1) {
        d->q_heads /= d->kv_heads;
        d->kv_heads = 1;
    } else if (d->q_len > FEW && d->q_heads > 1) {
        d->q_heads--;
    } else if (d->q_len <= FEW && d->q_heads * d->q_len >= 2 * ROWS && d->q_len > 1) {
        d->q_len /= 2;
    } else if (d->kv_len > KEYS || d->q_len > FEW) {
        halve_lengths(d);
    } else {
        return false;
    }
    return true;
}

/* Makes a case cheap: most give up wide heads first, some last, half of the widest among them. */
static void cut_cost(draw *d) {
    bool keep_heads = one_in(d, d->head_dim > 128 ? 2 : 8);
    while (cost(d) > COST_LIMIT) {
        if (keep_heads && cut_but_heads(d)) {
            continue;
        }
        if (d->head_dim > 16) {
            d->v_dim = d->v_dim == d->head_dim ? 16 : d->v_dim;
            d->head_dim = 16;
        } else if (d->v_dim > 17) {
            d->v_dim = 17;
        } else if (d->q_heads > d->kv_heads && d->kv_heads > 1) {
            d->q_heads /= d->kv_heads;
            d->kv_heads = 1;
        } else if (d->batch > 1) {
            d->batch--;
        } else {
            halve_lengths(d);
        }
    }
}

static void draw_sizes(draw *d) {
    static const int64_t dims[] = {1, 2, 3, 5, 8, 11, 16, 17, 31, 37, 64, 67, 80, 128, 131, 192, 257, 300};
    static const int64_t groups[] = {1, 1, 2, 3, 4, 1, 1, 2, 3, 4, 7};
    static const int64_t large_groups[] = {5, 8, 16, 31, 32};
    d->batch = one_in(d, 40) ? 0 : 1 + (int64_t)below(d, 3);
    d->kv_heads = 1 + (int64_t)below(d, 3);
    int64_t group = PICK(d, groups);
    d->q_len = draw_length(d);
    d->kv_len = one_in(d, 3) ? d->q_len : draw_length(d);
    d->head_dim = PICK(d, dims);
    d->v_dim = one_in(d, 3) ? PICK(d, dims) : d->head_dim;
    if (one_in(d, 50)) {
        d->v_dim = 0;
    }
    if (one_in(d, 8)) { /* many rows of few queries */
        group = PICK(d, large_groups);
        d->q_len = 1 + (int64_t)below(d, 9);
        d->batch = d->kv_heads = 1 + (int64_t)below(d, 2);
    }
    d->q_heads = d->kv_heads * group;
    cut_cost(d);
    put(d, "b%lldh%lld/%lldq%lldk%lldd%lldv%lld", (long long)d->batch, (long long)d->q_heads, (long long)d->kv_heads,
        (long long)d->q_len, (long long)d->kv_len, (long long)d->head_dim, (long long)d->v_dim);
}

/* ---- Options ------------------------------------------------------------------------------------------------- */

static void draw_visibility(draw *d) {
    if (option(d, SUPPORT_OPTION_CAUSAL, 2)) {
        put(d, ",causal");
    }
    switch (below(d, 4) * ((d->allowed & SUPPORT_OPTION_ALIGNMENT) != 0)) {
    case 1:
        put(d, ",br");
        break;
    case 2: {
        /* From half of the queries before the first key to all of them behind the last. */
        int64_t before = d->q_len / 2 + 2;
        put(d, ",off=%lld", (long long)below(d, (uint64_t)(before + d->kv_len + 2)) - before);
        break;
    }
    case 3:
        if (one_in(d, 20)) {
            put(d, ",off=%lld", one_in(d, 2) ? INT64_MAX - 5000LL : INT64_MIN + 5000LL);
        }
        break;
    default:
        break;
    }
    if (option(d, SUPPORT_OPTION_WINDOW, 3)) {
        uint64_t reach = (uint64_t)d->kv_len / (1 + below(d, 4)) + 3;
        put(d, ",window=%lld:%lld", (long long)below(d, reach) - 1, (long long)below(d, reach) - 1);
    }
}

static void draw_broadcast(draw *d, const char *letters) {
    bool any = false;
    for (; *letters; letters++) {
        if (one_in(d, 4)) {
            put(d, "%s%c", any ? "" : "@", *letters);
            any = true;
        }
    }
}

static void draw_mask(draw *d) {
    if (!option(d, SUPPORT_OPTION_MASK, 3)) {
        return;
    }
    put(d, ",mask");
    draw_broadcast(d, "bhqk");
    switch (below(d, 7)) {
    case 0:
        put(d, "=rowempty:0.3");
        break;
    case 1:
        put(d, "=lead:%lld", (long long)below(d, (uint64_t)d->kv_len + 1));
        break;
    case 2:
        put(d, "=%s", one_in(d, 2) ? "none" : "all");
        break;
    case 3:
        put(d, "=random:0.9");
        break;
    case 4:
        put(d, "=blocks:%lld", 1 + (long long)below(d, (uint64_t)d->kv_len + 1));
        break;
    default:
        break;
    }
    if (one_in(d, 5)) {
        put(d, ",mask_len=%lld", (long long)(d->kv_len - (int64_t)below(d, (uint64_t)d->kv_len / 2 + 1)));
    }
}

static void draw_bias(draw *d) {
    static const char *const kinds[] = {"", "=large", "=inf:0.3", "=infrow:0.3", "=lowest:0.3", "=lowestrow:0.4"};
    if (!option(d, SUPPORT_OPTION_BIAS, 3)) {
        return;
    }
    put(d, ",bias");
    draw_broadcast(d, "bhqk");
    put(d, "%s", NAME(d, kinds));
    if (one_in(d, 5)) {
        put(d, ",bias_len=%lld", (long long)(d->kv_len - (int64_t)below(d, (uint64_t)d->kv_len / 2 + 1)));
    }
}

static void draw_scores(draw *d) {
    static const char *const scales[] = {"0", "-0.25", "1", "0.5", "-1", "1e-60", "0.125"};
    static const char *const caps[] = {"2", "30", "0.5", "50"};
    static const char *const sinks[] = {"", "", "=0", "=-1000", "=20"};
    if (option(d, SUPPORT_OPTION_SCALE, 3)) {
        put(d, ",scale=%s", NAME(d, scales));
    }
    if (option(d, SUPPORT_OPTION_SOFTCAP, 4)) {
        put(d, ",softcap=%s", NAME(d, caps));
    }
    draw_mask(d);
    draw_bias(d);
    if (option(d, SUPPORT_OPTION_ALIBI, 4)) {
        put(d, ",alibi");
    }
    if (option(d, SUPPORT_OPTION_SINK, 4)) {
        put(d, ",sink%s", NAME(d, sinks));
    }
}

static void draw_lengths(draw *d, int64_t *lengths, int64_t most, const char *before) {
    put(d, "%s", before);
    for (int64_t b = 0; b < d->batch; b++) {
        lengths[b] = one_in(d, 10) ? 0 : one_in(d, 4) ? most : most - (int64_t)below(d, (uint64_t)most / 2 + 1);
        put(d, "%s%lld", b > 0 ? ":" : "", (long long)lengths[b]);
    }
}

/* Lengths of members, ragged or not. The lengths stay known for what follows. */
static bool draw_members(draw *d) {
    for (int64_t b = 0; b < d->batch; b++) {
        d->q_lens[b] = d->q_len;
        d->kv_lens[b] = d->kv_len;
    }
    if (d->batch == 0) {
        return false;
    }
    if (option(d, SUPPORT_OPTION_RAGGED, 5)) {
        draw_lengths(d, d->q_lens, d->q_len, ",ragged=");
        draw_lengths(d, d->kv_lens, d->kv_len, "/");
        return true;
    }
    if (option(d, SUPPORT_OPTION_LENGTHS, 3)) {
        draw_lengths(d, d->q_lens, d->q_len, ",qlens=");
    }
    if (option(d, SUPPORT_OPTION_LENGTHS, 2)) {
        draw_lengths(d, d->kv_lens, d->kv_len, ",kvlens=");
    }
    return false;
}

static void draw_layout(draw *d, bool ragged) {
    static const char *const inputs[] = {"q", "k", "v"};
    static const char *const broadcasts[] = {"b", "h", "bh"};
    if (!(d->allowed & SUPPORT_OPTION_LAYOUT)) {
        return;
    }
    switch (below(d, 4)) {
    case 0:
        put(d, ",layout=blhd");
        break;
    case 1:
        put(d, ",layout=padded");
        break;
    case 2:
        if (d->q_len == d->kv_len && !ragged) {
            put(d, ",layout=qkv");
            return;
        }
        break;
    default:
        break;
    }
    for (int i = 0; i < 3; i++) {
        if (one_in(d, 8)) {
            put(d, ",%s@%s", inputs[i], ragged ? "h" : NAME(d, broadcasts));
        }
    }
}

static void draw_outputs(draw *d) {
    static const char *const wants[] = {"scores",  "capped",         "masked",
                                        "weights", "masked+weights", "scores+capped+masked+weights"};
    if (option(d, SUPPORT_OPTION_WANT, 5)) {
        put(d, ",want=%s", NAME(d, wants));
    }
    if (option(d, SUPPORT_OPTION_LSE, 2)) {
        put(d, ",lse");
    }
}

/* A few NaN and Inf inside what the members have. */
static void draw_specials(draw *d, const char *before) {
    for (uint64_t left = 1 + below(d, 3); left > 0; left--) {
        int64_t b = (int64_t)below(d, (uint64_t)d->batch);
        int which = (int)below(d, 4);
        char array = "vvqk"[which];
        int64_t heads = array == 'q' ? d->q_heads : d->kv_heads;
        int64_t rows = array == 'q' ? d->q_lens[b] : d->kv_lens[b];
        int64_t cols = array == 'v' ? d->v_dim : d->head_dim;
        if (rows > 0 && cols > 0) {
            put(d, "%s%c:%lld:%lld:%lld:%lld", before, array, (long long)b, (long long)below(d, (uint64_t)heads),
                (long long)below(d, (uint64_t)rows), (long long)below(d, (uint64_t)cols));
            before = "+";
        }
    }
}

static void draw_data(draw *d) {
    static const char *const kinds[] = {"large", "equal", "neg", "extreme"};
    if (option(d, SUPPORT_OPTION_DATA, 3)) {
        put(d, ",data=%s", NAME(d, kinds));
    }
    put(d, ",seed=%llu", (unsigned long long)below(d, 1000000));
    if (d->batch > 0 && option(d, SUPPORT_OPTION_NONFINITE, 6)) {
        draw_specials(d, ",nan=");
    }
    if (d->batch > 0 && option(d, SUPPORT_OPTION_NONFINITE, 8)) {
        draw_specials(d, ",inf=");
    }
    if (option(d, SUPPORT_OPTION_NONFINITE, 3)) {
        put(d, ",poison");
    }
}

static support_case *draw_case(draw *d) {
    d->length = 0;
    draw_sizes(d);
    draw_visibility(d);
    draw_scores(d);
    bool ragged = draw_members(d);
    draw_layout(d, ragged);
    draw_outputs(d);
    draw_data(d);
    return support_case_parse(d->text, NULL, 0);
}

static bool row_sees_a_key(const support_data *data, int64_t b, int64_t h, int64_t i) {
    for (int64_t j = 0; j < data->problem_case->problem.kv_len; j++) {
        if (support_oracle_sees(data, b, h, i, j)) {
            return true;
        }
    }
    return false;
}

/* True when rows that see nothing are a good part of the result, or there is no result: whatever an engine writes, it
 * is hardly told apart. Looks at some rows. */
static bool shows_little(draw *d, const support_case *c) {
    enum { ROWS = 40, ENOUGH = 26 };
    const attn_problem *p = &c->problem;
    if (p->batch == 0 || p->q_len == 0 || p->kv_len == 0 || p->v_dim == 0) {
        return true;
    }
    support_data data;
    if (!support_data_create(&data, c, ATTN_F32)) {
        return false;
    }
    int seeing = 0;
    for (int n = 0; n < ROWS; n++) {
        int64_t b = (int64_t)below(d, (uint64_t)p->batch), h = (int64_t)below(d, (uint64_t)p->q_heads);
        seeing += row_sees_a_key(&data, b, h, (int64_t)below(d, (uint64_t)p->q_len));
    }
    support_data_destroy(&data);
    return seeing < ENOUGH;
}

support_case *support_case_random(uint64_t seed, uint64_t allowed) {
    draw d = {.seed = seed, .allowed = allowed};
    for (;;) {
        support_case *c = draw_case(&d);
        if (!c || !shows_little(&d, c) || one_in(&d, 16)) {
            return c;
        }
        support_case_free(c);
    }
}
