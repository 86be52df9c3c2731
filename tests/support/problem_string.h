/* Problem strings: one line of text for one attention problem with its test data, shared by tests and attn-bench.
 *
 *   b1h12q1024k1024d64,causal
 *   b2h8/2q5k1000d64v32,br,causal,kvlens=1000:17,layout=blhd,lse,seed=7
 *
 * Sizes, in this order: b batch (default 1), h query heads or query heads/key heads (default 1; key heads = query
 * heads), q query length, k key length (default: as q), d head size, v value size (default: as d). q and d are needed.
 * Then options in any order, separated by commas, none twice:
 *
 *   causal                   key j is visible only if j <= p
 *   tl | br | off=N          alignment: top-left (default), bottom-right, explicit offset
 *   scale=X                  finite; default 1/sqrt(d)
 *   window=L:R               keys besides p itself to the left and right, -1 unlimited
 *   softcap=X                above 0
 *   mask[@BROADCAST][=KIND]  boolean mask; BROADCAST some of the letters b h q k: their stride is 0. KIND:
 *                            random:P (default, P 0.3: hidden with probability P), rowempty:P (as random:0.3 and whole
 *                            rows hidden with probability P), lead:N (keys 0..N-1 hidden), blocks:N (query i sees key j
 *                            if i / N = j / N, rounded down), all (all visible), none (all hidden)
 *   mask_len=N               the mask covers keys 0..N-1 only
 *   bias[@BROADCAST][=KIND]  additive bias; KIND normal (default), large (normal * 30), inf:P (an entry is -Inf with
 *                            probability P), infrow:P (all entries of a row), lowest:P, lowestrow:P (-FLT_MAX,
 *                            -DBL_MAX)
 *   bias_len=N               the bias covers keys 0..N-1 only
 *   alibi                    slopes of the paper
 *   sink[=X]                 seeded logits, or X for every head
 *   qlens=A:B:.. kvlens=A:B:..   lengths per batch member, one each
 *   ragged=A:B:../C:D:..     packed tokens: query lengths / key lengths, one per batch member; q and k of the size part
 *                            are at least the longest
 *   q@BROADCAST k@.. v@..    batch and head stride 0 (letters b, h)
 *   layout=bhld|blhd|qkv|padded   bhld is the default; qkv is one array of Q, K, V slices; padded has unneeded elements
 *                            between rows, heads and batches and starts one element off malloc's alignment
 *   want=A+B..               intermediates: scores, capped, masked, weights
 *   lse                      the log of the sum of exponentials is wanted
 *   data=KIND                normal (default), large (scores of some hundred), equal (all scores of a row the same),
 *                            neg (all scores far below 0), extreme (scores of some thousand)
 *   seed=N                   0 .. 2^64-1, default 1
 *   nan=A:b:h:row:col+..     these elements of A = q, k or v are NaN (up to SUPPORT_MAX_SPECIALS with inf=)
 *   inf=A:b:h:row:col+..     these are +Inf
 *   poison                   keys that no row sees are NaN or Inf (keys beyond a length always are)
 *
 * The engine and the precision are no part of it: they are given apart.
 */
#ifndef ATTN_SUPPORT_PROBLEM_STRING_H
#define ATTN_SUPPORT_PROBLEM_STRING_H

#include <attn/sdpa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum support_layout {
    SUPPORT_LAYOUT_BHLD,
    SUPPORT_LAYOUT_BLHD,
    SUPPORT_LAYOUT_QKV,
    SUPPORT_LAYOUT_PADDED
} support_layout;

typedef enum support_distribution {
    SUPPORT_DATA_NORMAL,
    SUPPORT_DATA_LARGE,
    SUPPORT_DATA_EQUAL,
    SUPPORT_DATA_NEG,
    SUPPORT_DATA_EXTREME
} support_distribution;

typedef enum support_mask_kind {
    SUPPORT_MASK_RANDOM,
    SUPPORT_MASK_ROWEMPTY,
    SUPPORT_MASK_LEAD,
    SUPPORT_MASK_BLOCKS,
    SUPPORT_MASK_ALL,
    SUPPORT_MASK_NONE
} support_mask_kind;

typedef enum support_bias_kind {
    SUPPORT_BIAS_NORMAL,
    SUPPORT_BIAS_LARGE,
    SUPPORT_BIAS_INF,
    SUPPORT_BIAS_INFROW,
    SUPPORT_BIAS_LOWEST,
    SUPPORT_BIAS_LOWESTROW
} support_bias_kind;

/* Letters of a broadcast: bit set = stride 0. */
#define SUPPORT_BROADCAST_B 1u
#define SUPPORT_BROADCAST_H 2u
#define SUPPORT_BROADCAST_Q 4u
#define SUPPORT_BROADCAST_K 8u

/* One element of an input that is not finite. */
typedef struct support_special {
    char array;    /* 'q', 'k' or 'v' */
    bool infinite; /* +Inf, else NaN */
    int64_t b, h, row, col;
} support_special;
#define SUPPORT_MAX_SPECIALS 8

/* A problem with everything that its test data need. Build it with support_case_parse() or support_case_random();
 * problem.engine is auto and may be set freely. */
typedef struct support_case {
    attn_problem problem; /* complete: sizes, options and strides */
    support_layout layout;
    support_distribution distribution;
    uint64_t seed;
    bool lse;
    bool poison;
    unsigned q_broadcast, k_broadcast, v_broadcast, mask_broadcast, bias_broadcast; /* SUPPORT_BROADCAST_... */
    support_mask_kind mask_kind;
    double mask_probability;
    int64_t mask_lead, mask_block;
    support_bias_kind bias_kind;
    double bias_probability;
    bool sink_constant;
    double sink_value;
    int64_t *q_lens, *kv_lens; /* [batch], NULL when not given; with ATTN_RAGGED the lengths of the members */
    support_special specials[SUPPORT_MAX_SPECIALS];
    int special_count;
} support_case;

/* The case that a text describes, or NULL with a sentence in error (cut to error_size bytes) that names what is wrong,
 * where, and what is accepted. Any text is safe. */
support_case *support_case_parse(const char *text, char *error, size_t error_size);

/* The text of a case in the order of the list above, sizes b h q k d always there, options at their default left out.
 * Parsing it gives the same case again. Writes at most size bytes with the closing 0 and returns the length of the
 * whole text. */
size_t support_case_print(const support_case *c, char *text, size_t size);

/* Long enough for the text of any case with a batch below 100. */
#define SUPPORT_TEXT_SIZE 8192

void support_case_free(support_case *c);

/* Lengths and alignment of one batch member. */
int64_t support_case_q_len(const support_case *c, int64_t b);
int64_t support_case_kv_len(const support_case *c, int64_t b);

/* What support_case_random() may draw. Sizes (small primes, 0 and 1, grouped heads, q_len != kv_len, v_dim != head_dim)
 * and seeds are always drawn. */
#define SUPPORT_OPTION_LAYOUT (UINT64_C(1) << 0)    /* layouts, and q, k, v broadcast over batch or heads */
#define SUPPORT_OPTION_SCALE (UINT64_C(1) << 1)     /* 0 and negative included */
#define SUPPORT_OPTION_ALIGNMENT (UINT64_C(1) << 2) /* top-left, bottom-right, offsets of either sign */
#define SUPPORT_OPTION_CAUSAL (UINT64_C(1) << 3)
#define SUPPORT_OPTION_LENGTHS (UINT64_C(1) << 4) /* qlens, kvlens, 0 included */
#define SUPPORT_OPTION_LSE (UINT64_C(1) << 5)
#define SUPPORT_OPTION_DATA (UINT64_C(1) << 6) /* distributions other than normal */
#define SUPPORT_OPTION_WINDOW (UINT64_C(1) << 7)
#define SUPPORT_OPTION_SOFTCAP (UINT64_C(1) << 8)
#define SUPPORT_OPTION_MASK (UINT64_C(1) << 9)
#define SUPPORT_OPTION_BIAS (UINT64_C(1) << 10)
#define SUPPORT_OPTION_ALIBI (UINT64_C(1) << 11)
#define SUPPORT_OPTION_SINK (UINT64_C(1) << 12)
#define SUPPORT_OPTION_RAGGED (UINT64_C(1) << 13)
#define SUPPORT_OPTION_WANT (UINT64_C(1) << 14)      /* intermediates */
#define SUPPORT_OPTION_NONFINITE (UINT64_C(1) << 15) /* nan=, inf=, poison */
#define SUPPORT_OPTIONS_0_1 UINT64_C(0x7f)           /* what libattn 0.1 builds, without NONFINITE */
#define SUPPORT_OPTIONS_ALL UINT64_C(0xffff)

/* A random case of the allowed options: the same seed and mask give the same case. Of cases that show little, with most
 * rows empty or no result at all, few are given: sizes and lengths of 0, masks that hide everything. Never NULL but for
 * lack of memory. */
support_case *support_case_random(uint64_t seed, uint64_t allowed);

#endif
