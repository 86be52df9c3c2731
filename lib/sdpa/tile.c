/* A tile of scores between the two products: the steps of sdpa.h on it. */
#include "sdpa/tile.h"

#include <string.h>
#include <tgmath.h>

#include "base/fetch.h"
#include "blas/blas.h"

static void hide_range(real *s, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j++)
        s[j] = -(real)INFINITY;
}

void attn_tile_scores(const attn_call *call, const attn_head *head, const attn_tile *tile) {
    if (tile->rows == 0 || tile->keys == 0)
        return; /* there may be no K to point at */
    if (call->scale == 0) {
        for (int64_t i = 0; i < tile->rows; i++)
            for (int64_t j = 0; j < tile->keys; j++)
                tile->s[i * tile->ld + j] = 0;
        return;
    }
    attn_gemm(false, true, tile->rows, tile->keys, call->plan->problem.head_dim, call->scale,
              head->q + tile->row0 * head->q_row, head->q_row, head->k + tile->key0 * head->k_row, head->k_row, 0,
              tile->s, tile->ld);
}

void attn_tile_scores_apart(const attn_call *call, const attn_head *head, const attn_tile *tile) {
    for (int64_t i = 0; i < tile->rows; i++) {
        const real *q = head->q + (tile->row0 + i) * head->q_row;
        real *s = tile->s + i * tile->ld;
        call->kernels->product_transposed(1, tile->keys, call->plan->problem.head_dim, false, call->scale, &q,
                                          head->k + tile->key0 * head->k_row, head->k_row, &s);
    }
}

void attn_tile_cap(const attn_call *call, const attn_tile *tile) {
    if (call->plan->softcap == 0)
        return;
    /* rows without gaps are one long row: the kernel prepares much for each */
    bool dense = tile->keys == tile->ld;
    int64_t rows = dense ? 1 : tile->rows, keys = dense ? tile->rows * tile->keys : tile->keys;
    for (int64_t i = 0; i < rows; i++)
        call->kernels->softcap(keys, (real)call->plan->softcap, tile->s + i * tile->ld);
}

/* The keys of a tile that a mask or bias covers. */
static int64_t covered(const attn_tile *tile, const attn_problem *p, uint64_t flag, int64_t length) {
    int64_t end = (p->flags & flag) != 0 && length < tile->key0 + tile->keys ? length : tile->key0 + tile->keys;
    return end > tile->key0 ? end - tile->key0 : 0;
}

/* Row i of a tile in the caller's mask and bias, from the tile's first key on, which they cover. */
static const uint8_t *mask_row(const attn_call *call, const attn_head *head, const attn_tile *tile, int64_t i) {
    const attn_problem *p = &call->plan->problem;
    return call->args->mask + head->b * p->mask.batch + head->q_head * p->mask.head + (tile->row0 + i) * p->mask.row +
           tile->key0 * p->mask.key;
}

static const real *bias_row(const attn_call *call, const attn_head *head, const attn_tile *tile, int64_t i) {
    const attn_problem *p = &call->plan->problem;
    return call->args->bias + head->b * p->bias.batch + head->q_head * p->bias.head + (tile->row0 + i) * p->bias.row +
           tile->key0 * p->bias.key;
}

/* A bias of one value for the whole row. */
static void add_to_row(int64_t n, real b, real *s) {
    for (int64_t j = 0; j < n; j++)
        s[j] = b == -(real)INFINITY ? b : s[j] + b;
}

/* Position less key, in double: it may be out of int64, and rounding to `real` comes last. */
static double distance_to(const attn_member *member, int64_t row, int64_t key) {
    return (double)member->offset + (double)row - (double)key;
}

void attn_tile_bias(const attn_call *call, const attn_head *head, const attn_member *member, const attn_tile *tile) {
    const attn_problem *p = &call->plan->problem;
    const attn_args *args = call->args;
    int64_t keys = covered(tile, p, ATTN_HAS_BIAS_LEN, p->bias_len);
    for (int64_t i = 0; args->bias != NULL && keys > 0 && i < tile->rows; i++) {
        const real *bias = bias_row(call, head, tile, i);
        if (p->bias.key == 1)
            call->kernels->add_bias(keys, bias, tile->s + i * tile->ld);
        else
            add_to_row(keys, *bias, tile->s + i * tile->ld);
    }
    for (int64_t i = 0; args->alibi_slopes != NULL && i < tile->rows; i++)
        call->kernels->add_alibi(tile->keys, args->alibi_slopes[head->q_head],
                                 distance_to(member, tile->row0 + i, tile->key0), tile->s + i * tile->ld);
}

static void hide_by_mask(const attn_call *call, const attn_head *head, const attn_tile *tile) {
    const attn_problem *p = &call->plan->problem;
    int64_t keys = covered(tile, p, ATTN_HAS_MASK_LEN, p->mask_len);
    for (int64_t i = 0; keys > 0 && i < tile->rows; i++) {
        const uint8_t *mask = mask_row(call, head, tile, i);
        real *s = tile->s + i * tile->ld;
        if (p->mask.key == 1)
            call->kernels->hide(keys, mask, s);
        else if (*mask == 0)
            hide_range(s, 0, keys);
    }
}

static void hide_by_position(const attn_member *member, const attn_tile *tile) {
    if (attn_tile_visible(member, tile->row0, tile->rows, tile->key0, tile->keys))
        return;
    for (int64_t i = 0; i < tile->rows; i++) {
        attn_key_range seen = attn_row_keys(member, tile->row0 + i);
        real *s = tile->s + i * tile->ld;
        int64_t begin = seen.begin - tile->key0;
        int64_t end = seen.end - tile->key0;
        hide_range(s, 0, begin < tile->keys ? begin : tile->keys);
        hide_range(s, end > 0 ? end : 0, tile->keys);
    }
}

void attn_tile_hide(const attn_call *call, const attn_head *head, const attn_member *member, const attn_tile *tile) {
    if (call->args->mask != NULL)
        hide_by_mask(call, head, tile);
    hide_by_position(member, tile);
}

void attn_tile_edit(const attn_call *call, const attn_head *head, const attn_member *member, const attn_tile *tile) {
    if (!call->plan->edited) {
        hide_by_position(member, tile);
        return;
    }
    attn_tile_cap(call, tile);
    attn_tile_bias(call, head, member, tile);
    attn_tile_hide(call, head, member, tile);
}

void attn_tile_fetch(const attn_call *call, const attn_head *head, const attn_tile *tile) {
    const attn_problem *p = &call->plan->problem;
    int64_t masked = call->args->mask != NULL ? covered(tile, p, ATTN_HAS_MASK_LEN, p->mask_len) : 0;
    int64_t biased = call->args->bias != NULL ? covered(tile, p, ATTN_HAS_BIAS_LEN, p->bias_len) : 0;
    for (int64_t i = 0; masked > 0 && i < tile->rows; i++)
        attn_fetch_all(mask_row(call, head, tile, i), p->mask.key != 0 ? masked : 1, ATTN_FETCH_TO_L2);
    for (int64_t i = 0; biased > 0 && i < tile->rows; i++)
        attn_fetch_all(bias_row(call, head, tile, i), (p->bias.key != 0 ? biased : 1) * (int64_t)sizeof(real),
                       ATTN_FETCH_TO_L2);
}

/* True when n bytes are all 0. */
static bool all_zero(int64_t n, const uint8_t *x) {
    int64_t i = 0;
    for (uint64_t eight; i + (int64_t)sizeof eight <= n; i += (int64_t)sizeof eight) {
        memcpy(&eight, x + i, sizeof eight);
        if (eight != 0)
            return false;
    }
    for (; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

/* Rows of a mask between the one that is read and the one that is asked for: a tile that turns out to be visible in its
 * last row costs 1 % with them, 5 % without (LADDER.md, "In the fused engine"). */
enum { ROWS_AHEAD = 16 };

bool attn_tile_hidden(const attn_call *call, const attn_head *head, const attn_tile *tile) {
    if (call->args->mask == NULL)
        return false;
    const attn_problem *p = &call->plan->problem;
    int64_t keys = covered(tile, p, ATTN_HAS_MASK_LEN, p->mask_len);
    int64_t bytes = p->mask.key != 0 ? keys : attn_smaller(keys, 1);
    int64_t rows = p->mask.row != 0 ? tile->rows : attn_smaller(tile->rows, 1);
    for (int64_t i = 0; i < rows; i++) {
        if (!all_zero(bytes, mask_row(call, head, tile, i)))
            return false;
        if (i + ROWS_AHEAD < rows)
            attn_fetch_all(mask_row(call, head, tile, i + ROWS_AHEAD), bytes, ATTN_FETCH_TO_L2);
    }
    return true;
}

void attn_tile_clean(const attn_call *call, const attn_head *head, const attn_tile *tile, real *clean, real *o,
                     int64_t o_ld) {
    int64_t v_dim = call->plan->problem.v_dim;
    for (int64_t j = 0; j < tile->keys; j++) {
        const real *v = head->v + (tile->key0 + j) * head->v_row;
        for (int64_t c = 0; c < v_dim; c++) {
            clean[j * v_dim + c] = isfinite(v[c]) ? v[c] : 0;
            if (isfinite(v[c]))
                continue;
            for (int64_t i = 0; i < tile->rows; i++)
                if (tile->s[i * tile->ld + j] != -(real)INFINITY)
                    o[i * o_ld + c] = (real)NAN;
        }
    }
}
