/* The problem of a low-rank factorisation: initialiser and checks of its sizes. */
#include <inttypes.h>

#include "base/blocks.h"
#include "base/status.h"
#include "weights/low_rank.h"

/* Size of the struct in 0.1, the first version. */
#define PROBLEM_FIRST_SIZE (offsetof(attn_low_rank, b_row) + sizeof(int64_t))

attn_status attn_low_rank_init(attn_low_rank *problem, size_t struct_size) {
    return attn_init_struct("attn_low_rank", problem, struct_size, PROBLEM_FIRST_SIZE, sizeof *problem);
}

int64_t attn_low_rank_count(const attn_low_rank *problem) {
    return attn_smaller(problem->head_dim, attn_smaller(problem->d_model, problem->d_context));
}

attn_status attn_read_low_rank(const attn_low_rank *given, attn_low_rank *problem) {
    attn_low_rank *p = problem;
    ATTN_TRY(attn_read_struct("problem", "attn_low_rank", given, PROBLEM_FIRST_SIZE, sizeof *p, p));
    if ((p->flags & ~ATTN_LOW_RANK_OUT_IN) != 0)
        return attn_fail(ATTN_ERR_FLAG, "flags 0x%" PRIx64 " are unknown", p->flags & ~ATTN_LOW_RANK_OUT_IN);
    ATTN_TRY(attn_check_size("q_heads", p->q_heads, 0));
    ATTN_TRY(attn_check_size("kv_heads", p->kv_heads, 1));
    if (p->q_heads % p->kv_heads != 0)
        return attn_fail(ATTN_ERR_SIZE, "kv_heads %" PRId64 " does not divide q_heads %" PRId64, p->kv_heads,
                         p->q_heads);
    ATTN_TRY(attn_check_size("d_model", p->d_model, 0));
    ATTN_TRY(attn_check_size("d_context", p->d_context, 0));
    ATTN_TRY(attn_check_size("head_dim", p->head_dim, 0));
    ATTN_TRY(attn_check_size("rank", p->rank, 0));
    if (p->rank > attn_low_rank_count(p))
        return attn_fail(ATTN_ERR_SIZE,
                         "rank %" PRId64 " is above the smallest of head_dim %" PRId64 ", d_model %" PRId64
                         ", d_context %" PRId64,
                         p->rank, p->head_dim, p->d_model, p->d_context);
    return ATTN_OK;
}
