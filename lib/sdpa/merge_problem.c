/* The problem of a merge: initialiser and checks of its sizes. */
#include "sdpa/merge_problem.h"

#include <inttypes.h>

#include "base/checks.h"
#include "base/status.h"

/* Size of the struct in 0.1, the first version. */
#define MERGE_FIRST_SIZE (offsetof(attn_merge, lse) + sizeof(attn_strides))

attn_status attn_merge_init(attn_merge *merge, size_t struct_size) {
    return attn_init_struct("attn_merge", merge, struct_size, MERGE_FIRST_SIZE, sizeof *merge);
}

attn_status attn_read_merge(const attn_merge *given, attn_merge *merge) {
    attn_merge *m = merge;
    ATTN_TRY(attn_read_struct("merge", "attn_merge", given, MERGE_FIRST_SIZE, sizeof *m, m));
    if ((m->flags & ~ATTN_MERGE_HAS_SINK) != 0)
        return attn_fail(ATTN_ERR_FLAG, "flags: 0x%" PRIx64 " is unknown", m->flags & ~ATTN_MERGE_HAS_SINK);
    ATTN_TRY(attn_check_size("batch", m->batch, 0));
    ATTN_TRY(attn_check_size("q_heads", m->q_heads, 0));
    ATTN_TRY(attn_check_size("q_len", m->q_len, 0));
    return attn_check_size("v_dim", m->v_dim, 0);
}
