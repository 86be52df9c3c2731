/* Problem strings: parser, printer, and the strides that a layout means. The grammar is in problem_string.h. */
#include "problem_string.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements that layout=padded adds after each row, head and batch member. */
enum { PAD_ROW = 3, PAD_HEAD = 5, PAD_BATCH = 7 };

#define DEFAULT_MASK_PROBABILITY 0.3
#define DEFAULT_SEED 1

typedef struct parser {
    const char *text, *at;
    char *error;
    size_t error_size;
    support_case *c;
    uint64_t seen; /* one bit per option group */
} parser;

/* ---- Errors and small pieces of text ------------------------------------------------------------------------- */

/* Writes the sentence and returns false, so that a parser can return what it returns. */
__attribute__((format(printf, 3, 4))) static bool refuse(parser *p, const char *at, const char *format, ...) {
    char what[320];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (p->error_size > 0) {
        if (at && *at == '\0') {
            snprintf(p->error, p->error_size, "at the end: %s", what);
        } else if (at) {
            snprintf(p->error, p->error_size, "character %zu, at \"%.24s\": %s", (size_t)(at - p->text) + 1, at, what);
        } else {
            snprintf(p->error, p->error_size, "%s", what);
        }
    }
    return false;
}

static bool accept(parser *p, char wanted) {
    if (*p->at != wanted) {
        return false;
    }
    p->at++;
    return true;
}

static bool expect(parser *p, char wanted, const char *what) {
    return accept(p, wanted) || refuse(p, p->at, "'%c' is needed here: %s", wanted, what);
}

/* Length of the run of small letters and underscores at `at`. */
static size_t name_length(const char *at) {
    return strspn(at, "abcdefghijklmnopqrstuvwxyz_");
}

/* Takes the word if the whole next name is that word. */
static bool accept_word(parser *p, const char *word) {
    size_t length = strlen(word);
    if (name_length(p->at) != length || strncmp(p->at, word, length) != 0) {
        return false;
    }
    p->at += length;
    return true;
}

static bool parse_int(parser *p, int64_t *value, const char *what) {
    const char *digits = p->at + (*p->at == '-');
    if (*digits < '0' || *digits > '9') {
        return refuse(p, p->at, "%s must be a whole number", what);
    }
    char *end;
    errno = 0;
    long long number = strtoll(p->at, &end, 10);
    if (errno == ERANGE) {
        return refuse(p, p->at, "%s does not fit 64 bits", what);
    }
    *value = number;
    p->at = end;
    return true;
}

static bool parse_size(parser *p, int64_t *value, const char *what) {
    const char *start = p->at;
    if (!parse_int(p, value, what)) {
        return false;
    }
    return *value >= 0 || refuse(p, start, "%s must not be negative", what);
}

static bool parse_real(parser *p, double *value, const char *what) {
    if (*p->at == '\0' || !strchr("+-.0123456789", *p->at)) {
        return refuse(p, p->at, "%s must be a number", what);
    }
    char *end;
    *value = strtod(p->at, &end);
    if (end == p->at || !isfinite(*value)) {
        return refuse(p, p->at, "%s must be a finite number", what);
    }
    p->at = end;
    return true;
}

static bool parse_probability(parser *p, double *value) {
    if (!expect(p, ':', "a probability follows")) {
        return false;
    }
    const char *start = p->at;
    if (!parse_real(p, value, "the probability")) {
        return false;
    }
    return (*value >= 0 && *value <= 1) || refuse(p, start, "a probability is between 0 and 1");
}

/* Letters after '@', of those allowed: each at most once. */
static bool parse_broadcast(parser *p, const char *allowed, unsigned *broadcast) {
    static const char letters[] = "bhqk";
    if (!accept(p, '@')) {
        return true;
    }
    const char *start = p->at;
    for (const char *letter; *p->at && (letter = strchr(letters, *p->at)) && strchr(allowed, *p->at); p->at++) {
        unsigned bit = 1u << (letter - letters);
        if (*broadcast & bit) {
            return refuse(p, p->at, "'%c' is broadcast twice", *p->at);
        }
        *broadcast |= bit;
    }
    return p->at > start || refuse(p, start, "after '@' come letters of \"%s\"", allowed);
}

/* Exactly `batch` lengths, separated by colons, each 0 .. most. */
static bool parse_lengths(parser *p, int64_t **lengths, int64_t most, const char *what) {
    int64_t batch = p->c->problem.batch;
    const char *start = p->at;
    int64_t count = 1;
    for (const char *s = start; *s && strchr("-0123456789:", *s); s++) {
        count += *s == ':';
    }
    if (count != batch) {
        return refuse(p, start, "%s needs one length per batch member, %lld, not %lld", what, (long long)batch,
                      (long long)count);
    }
    *lengths = malloc((size_t)count * sizeof **lengths);
    if (!*lengths) {
        return refuse(p, NULL, "no memory for %s", what);
    }
    for (int64_t b = 0; b < count; b++) {
        if (b > 0 && !expect(p, ':', what)) {
            return false;
        }
        const char *number = p->at;
        if (!parse_size(p, &(*lengths)[b], what)) {
            return false;
        }
        if ((*lengths)[b] > most) {
            return refuse(p, number, "a length of %s is more than the buffer's %lld", what, (long long)most);
        }
    }
    return true;
}

/* ---- Sizes --------------------------------------------------------------------------------------------------- */

static bool parse_sizes(parser *p) {
    attn_problem *problem = &p->c->problem;
    problem->batch = problem->q_heads = problem->kv_heads = 1;
    if (accept(p, 'b') && !parse_size(p, &problem->batch, "the batch")) {
        return false;
    }
    if (accept(p, 'h')) {
        const char *start = p->at;
        if (!parse_size(p, &problem->q_heads, "the number of query heads")) {
            return false;
        }
        problem->kv_heads = problem->q_heads;
        if (accept(p, '/') && !parse_size(p, &problem->kv_heads, "the number of key heads")) {
            return false;
        }
        if (problem->kv_heads == 0 ? problem->q_heads != 0 : problem->q_heads % problem->kv_heads != 0) {
            return refuse(p, start, "the number of key heads must divide that of query heads");
        }
    }
    static const char order[] = "sizes are written b1h12q1024k1024d64v64; q and d are needed";
    if (!expect(p, 'q', order) || !parse_size(p, &problem->q_len, "the query length")) {
        return false;
    }
    problem->kv_len = problem->q_len;
    if (accept(p, 'k') && !parse_size(p, &problem->kv_len, "the key length")) {
        return false;
    }
    if (!expect(p, 'd', order)) {
        return false;
    }
    const char *start = p->at;
    if (!parse_size(p, &problem->head_dim, "the head size")) {
        return false;
    }
    if (problem->head_dim == 0) {
        return refuse(p, start, "the head size must be at least 1");
    }
    problem->v_dim = problem->head_dim;
    if (accept(p, 'v') && !parse_size(p, &problem->v_dim, "the value size")) {
        return false;
    }
    return *p->at == '\0' || *p->at == ',' ||
           refuse(p, p->at, "after the sizes comes ',' and an option, or the end; %s", order);
}

/* ---- Options ------------------------------------------------------------------------------------------------- */

static bool parse_causal(parser *p) {
    p->c->problem.flags |= ATTN_CAUSAL;
    return true;
}

static bool parse_top_left(parser *p) {
    p->c->problem.alignment = ATTN_ALIGN_TOP_LEFT;
    return true;
}

static bool parse_bottom_right(parser *p) {
    p->c->problem.alignment = ATTN_ALIGN_BOTTOM_RIGHT;
    return true;
}

static bool parse_offset(parser *p) {
    p->c->problem.alignment = ATTN_ALIGN_OFFSET;
    p->c->problem.flags |= ATTN_HAS_OFFSET;
    return expect(p, '=', "off=N") && parse_int(p, &p->c->problem.offset, "the offset");
}

static bool parse_scale(parser *p) {
    p->c->problem.flags |= ATTN_HAS_SCALE;
    return expect(p, '=', "scale=X") && parse_real(p, &p->c->problem.scale, "the scale");
}

static bool parse_window(parser *p) {
    attn_problem *problem = &p->c->problem;
    problem->flags |= ATTN_HAS_WINDOW;
    const char *start = p->at;
    if (!expect(p, '=', "window=L:R") || !parse_int(p, &problem->window_left, "the left window") ||
        !expect(p, ':', "window=L:R") || !parse_int(p, &problem->window_right, "the right window")) {
        return false;
    }
    return (problem->window_left >= -1 && problem->window_right >= -1) ||
           refuse(p, start, "a window is -1 (unlimited) or more");
}

static bool parse_softcap(parser *p) {
    p->c->problem.flags |= ATTN_HAS_SOFTCAP;
    const char *start = p->at;
    if (!expect(p, '=', "softcap=X") || !parse_real(p, &p->c->problem.softcap, "the softcap")) {
        return false;
    }
    return p->c->problem.softcap > 0 || refuse(p, start, "a softcap is more than 0");
}

static bool parse_mask(parser *p) {
    support_case *c = p->c;
    c->problem.flags |= ATTN_HAS_MASK;
    c->mask_kind = SUPPORT_MASK_RANDOM;
    c->mask_probability = DEFAULT_MASK_PROBABILITY;
    if (!parse_broadcast(p, "bhqk", &c->mask_broadcast)) {
        return false;
    }
    if (!accept(p, '=') || accept_word(p, "random")) {
        return *p->at != ':' || parse_probability(p, &c->mask_probability);
    }
    if (accept_word(p, "rowempty")) {
        c->mask_kind = SUPPORT_MASK_ROWEMPTY;
        return parse_probability(p, &c->mask_probability);
    }
    if (accept_word(p, "lead")) {
        c->mask_kind = SUPPORT_MASK_LEAD;
        return expect(p, ':', "lead:N") && parse_size(p, &c->mask_lead, "the number of leading keys");
    }
    if (accept_word(p, "blocks")) {
        const char *start = p->at;
        c->mask_kind = SUPPORT_MASK_BLOCKS;
        if (!expect(p, ':', "blocks:N") || !parse_size(p, &c->mask_block, "the length of a block")) {
            return false;
        }
        return c->mask_block > 0 || refuse(p, start, "a block has 1 key or more");
    }
    if (accept_word(p, "all")) {
        c->mask_kind = SUPPORT_MASK_ALL;
        return true;
    }
    if (accept_word(p, "none")) {
        c->mask_kind = SUPPORT_MASK_NONE;
        return true;
    }
    return refuse(p, p->at, "a mask is random:P, rowempty:P, lead:N, blocks:N, all or none");
}

static const char *const bias_names[] = {
    [SUPPORT_BIAS_NORMAL] = "normal", [SUPPORT_BIAS_LARGE] = "large",   [SUPPORT_BIAS_INF] = "inf",
    [SUPPORT_BIAS_INFROW] = "infrow", [SUPPORT_BIAS_LOWEST] = "lowest", [SUPPORT_BIAS_LOWESTROW] = "lowestrow"};

static bool bias_has_probability(support_bias_kind kind) {
    return kind >= SUPPORT_BIAS_INF;
}

/* Index of the next name among `count` names, or -1. */
static int accept_name(parser *p, const char *const *names, int count) {
    for (int i = 0; i < count; i++) {
        if (accept_word(p, names[i])) {
            return i;
        }
    }
    return -1;
}

static bool parse_bias(parser *p) {
    support_case *c = p->c;
    c->problem.flags |= ATTN_HAS_BIAS;
    if (!parse_broadcast(p, "bhqk", &c->bias_broadcast)) {
        return false;
    }
    if (!accept(p, '=')) {
        return true;
    }
    int kind = accept_name(p, bias_names, sizeof bias_names / sizeof *bias_names);
    if (kind < 0) {
        return refuse(p, p->at, "a bias is normal, large, inf:P, infrow:P, lowest:P or lowestrow:P");
    }
    c->bias_kind = (support_bias_kind)kind;
    return !bias_has_probability(c->bias_kind) || parse_probability(p, &c->bias_probability);
}

static bool parse_mask_len(parser *p) {
    p->c->problem.flags |= ATTN_HAS_MASK_LEN;
    return expect(p, '=', "mask_len=N") && parse_size(p, &p->c->problem.mask_len, "mask_len");
}

static bool parse_bias_len(parser *p) {
    p->c->problem.flags |= ATTN_HAS_BIAS_LEN;
    return expect(p, '=', "bias_len=N") && parse_size(p, &p->c->problem.bias_len, "bias_len");
}

static bool parse_alibi(parser *p) {
    p->c->problem.flags |= ATTN_HAS_ALIBI;
    return true;
}

static bool parse_sink(parser *p) {
    p->c->problem.flags |= ATTN_HAS_SINK;
    if (!accept(p, '=')) {
        return true;
    }
    p->c->sink_constant = true;
    return parse_real(p, &p->c->sink_value, "the sink");
}

static bool refuse_second_lengths(parser *p) {
    return refuse(p, p->at, "ragged gives the lengths itself: qlens and kvlens do not go with it");
}

static bool parse_q_lens(parser *p) {
    if (p->c->problem.flags & ATTN_RAGGED) {
        return refuse_second_lengths(p);
    }
    return expect(p, '=', "qlens=A:B") && parse_lengths(p, &p->c->q_lens, p->c->problem.q_len, "qlens");
}

static bool parse_kv_lens(parser *p) {
    if (p->c->problem.flags & ATTN_RAGGED) {
        return refuse_second_lengths(p);
    }
    return expect(p, '=', "kvlens=A:B") && parse_lengths(p, &p->c->kv_lens, p->c->problem.kv_len, "kvlens");
}

static bool parse_ragged(parser *p) {
    support_case *c = p->c;
    if (c->q_lens || c->kv_lens) {
        return refuse_second_lengths(p);
    }
    c->problem.flags |= ATTN_RAGGED;
    return expect(p, '=', "ragged=A:B/C:D") && parse_lengths(p, &c->q_lens, c->problem.q_len, "ragged") &&
           expect(p, '/', "ragged=A:B/C:D") && parse_lengths(p, &c->kv_lens, c->problem.kv_len, "ragged");
}

static bool parse_input_broadcast(parser *p, unsigned *broadcast) {
    if (*p->at != '@') {
        return refuse(p, p->at, "'@' and the letters b, h are needed here");
    }
    return parse_broadcast(p, "bh", broadcast);
}

static bool parse_q_broadcast(parser *p) {
    return parse_input_broadcast(p, &p->c->q_broadcast);
}

static bool parse_k_broadcast(parser *p) {
    return parse_input_broadcast(p, &p->c->k_broadcast);
}

static bool parse_v_broadcast(parser *p) {
    return parse_input_broadcast(p, &p->c->v_broadcast);
}

static const char *const layout_names[] = {[SUPPORT_LAYOUT_BHLD] = "bhld",
                                           [SUPPORT_LAYOUT_BLHD] = "blhd",
                                           [SUPPORT_LAYOUT_QKV] = "qkv",
                                           [SUPPORT_LAYOUT_PADDED] = "padded"};

static bool parse_layout(parser *p) {
    if (!expect(p, '=', "layout=NAME")) {
        return false;
    }
    int layout = accept_name(p, layout_names, sizeof layout_names / sizeof *layout_names);
    if (layout < 0) {
        return refuse(p, p->at, "a layout is bhld, blhd, qkv or padded");
    }
    p->c->layout = (support_layout)layout;
    return true;
}

static const char *const want_names[] = {"scores", "capped", "masked", "weights"};
static const uint64_t want_flags[] = {ATTN_WANT_SCORES, ATTN_WANT_CAPPED, ATTN_WANT_MASKED, ATTN_WANT_WEIGHTS};
enum { WANT_COUNT = sizeof want_names / sizeof *want_names };

static bool parse_want(parser *p) {
    if (!expect(p, '=', "want=A+B")) {
        return false;
    }
    do {
        const char *start = p->at;
        int want = accept_name(p, want_names, WANT_COUNT);
        if (want < 0) {
            return refuse(p, start, "what can be wanted is scores, capped, masked and weights, joined by '+'");
        }
        if (p->c->problem.flags & want_flags[want]) {
            return refuse(p, start, "%s is wanted twice", want_names[want]);
        }
        p->c->problem.flags |= want_flags[want];
    } while (accept(p, '+'));
    return true;
}

static bool parse_lse(parser *p) {
    p->c->lse = true;
    return true;
}

static const char *const data_names[] = {[SUPPORT_DATA_NORMAL] = "normal",
                                         [SUPPORT_DATA_LARGE] = "large",
                                         [SUPPORT_DATA_EQUAL] = "equal",
                                         [SUPPORT_DATA_NEG] = "neg",
                                         [SUPPORT_DATA_EXTREME] = "extreme"};

static bool parse_data(parser *p) {
    if (!expect(p, '=', "data=NAME")) {
        return false;
    }
    int data = accept_name(p, data_names, sizeof data_names / sizeof *data_names);
    if (data < 0) {
        return refuse(p, p->at, "data is normal, large, equal, neg or extreme");
    }
    p->c->distribution = (support_distribution)data;
    return true;
}

static bool parse_seed(parser *p) {
    if (!expect(p, '=', "seed=N")) {
        return false;
    }
    if (*p->at < '0' || *p->at > '9') {
        return refuse(p, p->at, "the seed must be a whole number of 0 or more");
    }
    char *end;
    errno = 0;
    p->c->seed = strtoull(p->at, &end, 10);
    if (errno == ERANGE) {
        return refuse(p, p->at, "the seed does not fit 64 bits");
    }
    p->at = end;
    return true;
}

/* Whether a special lies inside what its member really has. */
static bool special_is_inside(const support_case *c, const support_special *s) {
    if (s->b >= c->problem.batch || s->h >= (s->array == 'q' ? c->problem.q_heads : c->problem.kv_heads)) {
        return false;
    }
    int64_t rows = s->array == 'q' ? support_case_q_len(c, s->b) : support_case_kv_len(c, s->b);
    return s->row < rows && s->col < (s->array == 'v' ? c->problem.v_dim : c->problem.head_dim);
}

static bool parse_specials(parser *p, bool infinite) {
    support_case *c = p->c;
    static const char form[] = "an element is written q:b:h:row:col, with q, k or v first";
    if (!expect(p, '=', form)) {
        return false;
    }
    do {
        if (c->special_count == SUPPORT_MAX_SPECIALS) {
            return refuse(p, p->at, "more than %d elements of nan= and inf=", SUPPORT_MAX_SPECIALS);
        }
        support_special *s = &c->specials[c->special_count];
        if (*p->at == '\0' || !strchr("qkv", *p->at)) {
            return refuse(p, p->at, "%s", form);
        }
        s->array = *p->at++;
        s->infinite = infinite;
        int64_t *parts[] = {&s->b, &s->h, &s->row, &s->col};
        for (int i = 0; i < 4; i++) {
            if (!expect(p, ':', form) || !parse_size(p, parts[i], "an index")) {
                return false;
            }
        }
        c->special_count++;
    } while (accept(p, '+'));
    return true;
}

static bool parse_nan(parser *p) {
    return parse_specials(p, false);
}

static bool parse_inf(parser *p) {
    return parse_specials(p, true);
}

static bool parse_poison(parser *p) {
    p->c->poison = true;
    return true;
}

/* Options of one group exclude each other. */
enum { GROUP_ALIGNMENT };
static const struct option {
    const char *name;
    bool (*parse)(parser *p);
    int group;
} options[] = {
    {"causal", parse_causal, 1},
    {"tl", parse_top_left, GROUP_ALIGNMENT},
    {"br", parse_bottom_right, GROUP_ALIGNMENT},
    {"off", parse_offset, GROUP_ALIGNMENT},
    {"scale", parse_scale, 2},
    {"window", parse_window, 3},
    {"softcap", parse_softcap, 4},
    {"mask", parse_mask, 5},
    {"mask_len", parse_mask_len, 6},
    {"bias", parse_bias, 7},
    {"bias_len", parse_bias_len, 8},
    {"alibi", parse_alibi, 9},
    {"sink", parse_sink, 10},
    {"qlens", parse_q_lens, 11},
    {"kvlens", parse_kv_lens, 12},
    {"ragged", parse_ragged, 13},
    {"q", parse_q_broadcast, 14},
    {"k", parse_k_broadcast, 15},
    {"v", parse_v_broadcast, 16},
    {"layout", parse_layout, 17},
    {"want", parse_want, 18},
    {"lse", parse_lse, 19},
    {"data", parse_data, 20},
    {"seed", parse_seed, 21},
    {"nan", parse_nan, 22},
    {"inf", parse_inf, 23},
    {"poison", parse_poison, 24},
};
enum { OPTION_COUNT = sizeof options / sizeof *options };

static bool parse_option(parser *p) {
    const char *start = p->at;
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!accept_word(p, options[i].name)) {
            continue;
        }
        uint64_t bit = UINT64_C(1) << options[i].group;
        if (p->seen & bit) {
            return refuse(p, start,
                          options[i].group == GROUP_ALIGNMENT ? "a second alignment (tl, br, off)"
                                                              : "this option is there twice");
        }
        p->seen |= bit;
        if (!options[i].parse(p)) {
            return false;
        }
        return *p->at == '\0' || *p->at == ',' || refuse(p, p->at, "after %s comes ',' or the end", options[i].name);
    }
    return refuse(p, start,
                  "an option is causal, tl, br, off, scale, window, softcap, mask, mask_len, bias, bias_len, alibi, "
                  "sink, qlens, kvlens, ragged, q@, k@, v@, layout, want, lse, data, seed, nan, inf or poison");
}

/* ---- Strides ------------------------------------------------------------------------------------------------- */

/* Arithmetic on sizes that remembers whether anything left int64. */
typedef struct sizes {
    bool overflow;
} sizes;

static int64_t plus(sizes *s, int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        s->overflow = true;
        return 0;
    }
    return sum;
}

static int64_t times(sizes *s, int64_t a, int64_t b) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        s->overflow = true;
        return 0;
    }
    return product;
}

/* Strides of [batch, heads, rows, size] in a layout; broadcast dimensions get stride 0. */
static attn_strides array_strides(sizes *s, support_layout layout, bool ragged, unsigned broadcast, int64_t heads,
                                  int64_t rows, int64_t size) {
    attn_strides strides;
    bool one_head = (broadcast & SUPPORT_BROADCAST_H) != 0;
    if (layout == SUPPORT_LAYOUT_BHLD || layout == SUPPORT_LAYOUT_PADDED) {
        bool padded = layout == SUPPORT_LAYOUT_PADDED;
        strides.row = plus(s, size, padded ? PAD_ROW : 0);
        strides.head = plus(s, times(s, rows, strides.row), padded ? PAD_HEAD : 0);
        strides.batch = plus(s, times(s, one_head ? 1 : heads, strides.head), padded ? PAD_BATCH : 0);
    } else {
        strides.head = size;
        strides.row = times(s, one_head ? 1 : heads, size);
        strides.batch = times(s, rows, strides.row);
    }
    if (ragged || (broadcast & SUPPORT_BROADCAST_B)) {
        strides.batch = 0;
    }
    if (one_head) {
        strides.head = 0;
    }
    return strides;
}

static attn_mask_strides mask_strides(sizes *s, support_layout layout, unsigned broadcast, const attn_problem *problem,
                                      int64_t keys) {
    bool padded = layout == SUPPORT_LAYOUT_PADDED;
    attn_mask_strides strides;
    strides.key = (broadcast & SUPPORT_BROADCAST_K) ? 0 : 1;
    strides.row = plus(s, (broadcast & SUPPORT_BROADCAST_K) ? 1 : keys, padded ? PAD_ROW : 0);
    strides.head =
        plus(s, times(s, (broadcast & SUPPORT_BROADCAST_Q) ? 1 : problem->q_len, strides.row), padded ? PAD_HEAD : 0);
    strides.batch = plus(s, times(s, (broadcast & SUPPORT_BROADCAST_H) ? 1 : problem->q_heads, strides.head),
                         padded ? PAD_BATCH : 0);
    strides.row = (broadcast & SUPPORT_BROADCAST_Q) ? 0 : strides.row;
    strides.head = (broadcast & SUPPORT_BROADCAST_H) ? 0 : strides.head;
    strides.batch = (broadcast & SUPPORT_BROADCAST_B) ? 0 : strides.batch;
    return strides;
}

/* Notes an overflow when batch members of this stride, in bytes of double, do not fit. */
static void check_extent(sizes *s, int64_t batch, int64_t batch_stride) {
    times(s, times(s, batch > 0 ? batch : 1, batch_stride), (int64_t)sizeof(double));
}

/* Fills the strides and the ragged totals. False when anything leaves int64. */
static bool lay_out(support_case *c) {
    attn_problem *p = &c->problem;
    bool ragged = (p->flags & ATTN_RAGGED) != 0;
    sizes s = {false};
    int64_t q_rows = p->q_len, kv_rows = p->kv_len;
    if (ragged) {
        for (int64_t b = 0; b < p->batch; b++) {
            p->total_q = plus(&s, p->total_q, c->q_lens[b]);
            p->total_kv = plus(&s, p->total_kv, c->kv_lens[b]);
        }
        q_rows = p->total_q;
        kv_rows = p->total_kv;
    }
    support_layout outputs = c->layout;
    if (c->layout == SUPPORT_LAYOUT_QKV) {
        outputs = SUPPORT_LAYOUT_BLHD;
        int64_t row = plus(&s, times(&s, p->q_heads, p->head_dim),
                           plus(&s, times(&s, p->kv_heads, p->head_dim), times(&s, p->kv_heads, p->v_dim)));
        int64_t batch = ragged ? 0 : times(&s, q_rows, row);
        p->q = p->k = (attn_strides){.batch = batch, .head = p->head_dim, .row = row};
        p->v = (attn_strides){.batch = batch, .head = p->v_dim, .row = row};
        check_extent(&s, p->batch, times(&s, q_rows, row));
    } else {
        p->q = array_strides(&s, c->layout, ragged, c->q_broadcast, p->q_heads, q_rows, p->head_dim);
        p->k = array_strides(&s, c->layout, ragged, c->k_broadcast, p->kv_heads, kv_rows, p->head_dim);
        p->v = array_strides(&s, c->layout, ragged, c->v_broadcast, p->kv_heads, kv_rows, p->v_dim);
    }
    p->out = array_strides(&s, outputs, ragged, 0, p->q_heads, q_rows, p->v_dim);
    /* lse and the intermediates keep [batch, heads, rows] in every layout; padded rows of lse stand apart. */
    support_layout rows_last = c->layout == SUPPORT_LAYOUT_PADDED ? SUPPORT_LAYOUT_PADDED : SUPPORT_LAYOUT_BHLD;
    p->lse = array_strides(&s, rows_last, ragged, 0, p->q_heads, q_rows, 1);
    p->scores = array_strides(&s, rows_last, false, 0, p->q_heads, p->q_len, p->kv_len);
    int64_t mask_keys = (p->flags & ATTN_HAS_MASK_LEN) ? p->mask_len : p->kv_len;
    int64_t bias_keys = (p->flags & ATTN_HAS_BIAS_LEN) ? p->bias_len : p->kv_len;
    if (p->flags & ATTN_HAS_MASK) {
        p->mask = mask_strides(&s, c->layout, c->mask_broadcast, p, mask_keys);
    }
    if (p->flags & ATTN_HAS_BIAS) {
        p->bias = mask_strides(&s, c->layout, c->bias_broadcast, p, bias_keys);
    }
    const attn_strides *all[] = {&p->q, &p->k, &p->v, &p->out, &p->lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t rows = i == 1 || i == 2 ? kv_rows : q_rows;
        int64_t heads = i == 1 || i == 2 ? p->kv_heads : p->q_heads;
        check_extent(&s, p->batch, all[i]->batch);
        check_extent(&s, heads, all[i]->head);
        check_extent(&s, rows, all[i]->row);
    }
    check_extent(&s, p->batch, p->scores.batch);
    check_extent(&s, p->batch, p->mask.batch);
    check_extent(&s, p->batch, p->bias.batch);
    return !s.overflow;
}

/* ---- The whole ----------------------------------------------------------------------------------------------- */

/* Options that do not go together, and whatever needs all of them to be known. */
static bool finish(parser *p) {
    support_case *c = p->c;
    attn_problem *problem = &c->problem;
    if ((problem->flags & ATTN_HAS_MASK_LEN) && !(problem->flags & ATTN_HAS_MASK)) {
        return refuse(p, NULL, "mask_len without mask");
    }
    if ((problem->flags & ATTN_HAS_BIAS_LEN) && !(problem->flags & ATTN_HAS_BIAS)) {
        return refuse(p, NULL, "bias_len without bias");
    }
    if (problem->mask_len > problem->kv_len || problem->bias_len > problem->kv_len) {
        return refuse(p, NULL, "mask_len and bias_len are at most the key length, %lld", (long long)problem->kv_len);
    }
    if (c->layout == SUPPORT_LAYOUT_QKV) {
        if (problem->q_len != problem->kv_len) {
            return refuse(p, NULL, "layout=qkv needs q and k of the same length");
        }
        if (c->q_broadcast || c->k_broadcast || c->v_broadcast) {
            return refuse(p, NULL, "layout=qkv does not go with q@, k@, v@");
        }
        if ((problem->flags & ATTN_RAGGED) &&
            memcmp(c->q_lens, c->kv_lens, (size_t)problem->batch * sizeof *c->q_lens) != 0) {
            return refuse(p, NULL, "layout=qkv needs the same ragged lengths for queries and keys");
        }
    }
    if ((problem->flags & ATTN_RAGGED) && ((c->q_broadcast | c->k_broadcast | c->v_broadcast) & SUPPORT_BROADCAST_B)) {
        return refuse(p, NULL, "ragged members stand one behind the other: they are not broadcast over the batch");
    }
    for (int i = 0; i < c->special_count; i++) {
        if (!special_is_inside(c, &c->specials[i])) {
            return refuse(p, NULL, "element %d of nan= and inf= is outside its array or beyond its member's length",
                          i + 1);
        }
    }
    return lay_out(c) || refuse(p, NULL, "the arrays of these sizes do not fit 64-bit byte counts");
}

support_case *support_case_parse(const char *text, char *error, size_t error_size) {
    support_case *c = calloc(1, sizeof *c);
    parser p = {.text = text, .at = text, .error = error, .error_size = error_size, .c = c};
    if (!c) {
        refuse(&p, NULL, "no memory");
        return NULL;
    }
    c->problem.struct_size = sizeof c->problem;
    c->seed = DEFAULT_SEED;
    bool good = parse_sizes(&p);
    while (good && accept(&p, ',')) {
        good = parse_option(&p);
    }
    if (!good || !finish(&p)) {
        support_case_free(c);
        return NULL;
    }
    return c;
}

void support_case_free(support_case *c) {
    if (c) {
        free(c->q_lens);
        free(c->kv_lens);
        free(c);
    }
}

int64_t support_case_q_len(const support_case *c, int64_t b) {
    return c->q_lens ? c->q_lens[b] : c->problem.q_len;
}

int64_t support_case_kv_len(const support_case *c, int64_t b) {
    return c->kv_lens ? c->kv_lens[b] : c->problem.kv_len;
}

/* ---- Printing ------------------------------------------------------------------------------------------------ */

typedef struct writer {
    char *text;
    size_t size, length;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
    bool room = w->length < w->size;
    va_list list;
    va_start(list, format);
    int more = vsnprintf(room ? w->text + w->length : NULL, room ? w->size - w->length : 0, format, list);
    va_end(list);
    w->length += more > 0 ? (size_t)more : 0;
}

/* The shortest decimal that reads back as the same number. */
static void put_real(writer *w, double value) {
    if (fabs(value) < 1e15 && value == floor(value)) {
        put(w, "%.0f", value);
        return;
    }
    char digits[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    put(w, "%s", digits);
}

static void put_broadcast(writer *w, unsigned broadcast) {
    if (broadcast) {
        put(w, "@%s%s%s%s", (broadcast & SUPPORT_BROADCAST_B) ? "b" : "", (broadcast & SUPPORT_BROADCAST_H) ? "h" : "",
            (broadcast & SUPPORT_BROADCAST_Q) ? "q" : "", (broadcast & SUPPORT_BROADCAST_K) ? "k" : "");
    }
}

static void put_lengths(writer *w, const int64_t *lengths, int64_t count) {
    for (int64_t b = 0; b < count; b++) {
        put(w, "%s%lld", b > 0 ? ":" : "", (long long)lengths[b]);
    }
}

static void put_probability(writer *w, double probability) {
    put(w, ":");
    put_real(w, probability);
}

static void put_mask(writer *w, const support_case *c) {
    put(w, ",mask");
    put_broadcast(w, c->mask_broadcast);
    switch (c->mask_kind) {
    case SUPPORT_MASK_RANDOM:
        if (c->mask_probability != DEFAULT_MASK_PROBABILITY) {
            put(w, "=random");
            put_probability(w, c->mask_probability);
        }
        break;
    case SUPPORT_MASK_ROWEMPTY:
        put(w, "=rowempty");
        put_probability(w, c->mask_probability);
        break;
    case SUPPORT_MASK_LEAD:
        put(w, "=lead:%lld", (long long)c->mask_lead);
        break;
    case SUPPORT_MASK_BLOCKS:
        put(w, "=blocks:%lld", (long long)c->mask_block);
        break;
    case SUPPORT_MASK_ALL:
        put(w, "=all");
        break;
    case SUPPORT_MASK_NONE:
        put(w, "=none");
        break;
    }
}

static void put_bias(writer *w, const support_case *c) {
    put(w, ",bias");
    put_broadcast(w, c->bias_broadcast);
    if (c->bias_kind != SUPPORT_BIAS_NORMAL) {
        put(w, "=%s", bias_names[c->bias_kind]);
        if (bias_has_probability(c->bias_kind)) {
            put_probability(w, c->bias_probability);
        }
    }
}

static void put_specials(writer *w, const support_case *c, bool infinite) {
    const char *before = infinite ? ",inf=" : ",nan=";
    for (int i = 0; i < c->special_count; i++) {
        const support_special *s = &c->specials[i];
        if (s->infinite == infinite) {
            put(w, "%s%c:%lld:%lld:%lld:%lld", before, s->array, (long long)s->b, (long long)s->h, (long long)s->row,
                (long long)s->col);
            before = "+";
        }
    }
}

static void put_sizes(writer *w, const attn_problem *p) {
    put(w, "b%lldh%lld", (long long)p->batch, (long long)p->q_heads);
    if (p->kv_heads != p->q_heads) {
        put(w, "/%lld", (long long)p->kv_heads);
    }
    put(w, "q%lldk%lldd%lld", (long long)p->q_len, (long long)p->kv_len, (long long)p->head_dim);
    if (p->v_dim != p->head_dim) {
        put(w, "v%lld", (long long)p->v_dim);
    }
}

/* Visibility, scores and additive terms. */
static void put_meaning(writer *w, const support_case *c) {
    const attn_problem *p = &c->problem;
    if (p->flags & ATTN_CAUSAL) {
        put(w, ",causal");
    }
    if (p->alignment == ATTN_ALIGN_BOTTOM_RIGHT) {
        put(w, ",br");
    } else if (p->alignment == ATTN_ALIGN_OFFSET) {
        put(w, ",off=%lld", (long long)p->offset);
    }
    if (p->flags & ATTN_HAS_SCALE) {
        put(w, ",scale=");
        put_real(w, p->scale);
    }
    if (p->flags & ATTN_HAS_WINDOW) {
        put(w, ",window=%lld:%lld", (long long)p->window_left, (long long)p->window_right);
    }
    if (p->flags & ATTN_HAS_SOFTCAP) {
        put(w, ",softcap=");
        put_real(w, p->softcap);
    }
    if (p->flags & ATTN_HAS_MASK) {
        put_mask(w, c);
    }
    if (p->flags & ATTN_HAS_MASK_LEN) {
        put(w, ",mask_len=%lld", (long long)p->mask_len);
    }
    if (p->flags & ATTN_HAS_BIAS) {
        put_bias(w, c);
    }
    if (p->flags & ATTN_HAS_BIAS_LEN) {
        put(w, ",bias_len=%lld", (long long)p->bias_len);
    }
    if (p->flags & ATTN_HAS_ALIBI) {
        put(w, ",alibi");
    }
    if (p->flags & ATTN_HAS_SINK) {
        put(w, ",sink");
        if (c->sink_constant) {
            put(w, "=");
            put_real(w, c->sink_value);
        }
    }
}

static void put_member_lengths(writer *w, const support_case *c) {
    bool ragged = (c->problem.flags & ATTN_RAGGED) != 0;
    if (c->q_lens) {
        put(w, ragged ? ",ragged=" : ",qlens=");
        put_lengths(w, c->q_lens, c->problem.batch);
    }
    if (c->kv_lens) {
        put(w, ragged ? "/" : ",kvlens=");
        put_lengths(w, c->kv_lens, c->problem.batch);
    }
}

/* Where arrays stand and what is in them. */
static void put_arrays(writer *w, const support_case *c) {
    const struct {
        char name;
        unsigned broadcast;
    } inputs[] = {{'q', c->q_broadcast}, {'k', c->k_broadcast}, {'v', c->v_broadcast}};
    for (int i = 0; i < 3; i++) {
        if (inputs[i].broadcast) {
            put(w, ",%c", inputs[i].name);
            put_broadcast(w, inputs[i].broadcast);
        }
    }
    if (c->layout != SUPPORT_LAYOUT_BHLD) {
        put(w, ",layout=%s", layout_names[c->layout]);
    }
    const char *before = ",want=";
    for (int i = 0; i < WANT_COUNT; i++) {
        if (c->problem.flags & want_flags[i]) {
            put(w, "%s%s", before, want_names[i]);
            before = "+";
        }
    }
    if (c->lse) {
        put(w, ",lse");
    }
    if (c->distribution != SUPPORT_DATA_NORMAL) {
        put(w, ",data=%s", data_names[c->distribution]);
    }
    if (c->seed != DEFAULT_SEED) {
        put(w, ",seed=%llu", (unsigned long long)c->seed);
    }
    put_specials(w, c, false);
    put_specials(w, c, true);
    if (c->poison) {
        put(w, ",poison");
    }
}

size_t support_case_print(const support_case *c, char *text, size_t size) {
    writer w = {text, size, 0};
    if (size > 0) {
        text[0] = '\0';
    }
    put_sizes(&w, &c->problem);
    put_meaning(&w, c);
    put_member_lengths(&w, c);
    put_arrays(&w, c);
    return w.length;
}
