/* Rotary positions: initialiser and the checks that do not depend on the precision. */
#include "position/rotary_check.h"

#include <stddef.h>

#include "base/checks.h"
#include "position/position_check.h"

/* Size of the struct in 0.1, the first version. */
#define ROTARY_FIRST_SIZE (offsetof(attn_rotary, table_batch) + sizeof(int64_t))

attn_status attn_rotary_init(attn_rotary *rotary, size_t struct_size) {
    return attn_init_struct("attn_rotary", rotary, struct_size, ROTARY_FIRST_SIZE, sizeof *rotary);
}

attn_status attn_read_rotary(const attn_rotary *given, attn_rotary *rotary) {
    return attn_read_struct("rotary", "attn_rotary", given, ROTARY_FIRST_SIZE, sizeof *rotary, rotary);
}

attn_status attn_check_rotary(const attn_rotary *r) {
    const uint64_t known = ATTN_ROTARY_INVERSE | ATTN_ROTARY_HAS_IDS | ATTN_ROTARY_HAS_TABLES;
    if ((r->flags & ~known) != 0)
        return attn_fail(ATTN_ERR_FLAG, "flags: 0x%" PRIx64 " is unknown", r->flags & ~known);
    if (r->pairing != ATTN_ROTARY_INTERLEAVED && r->pairing != ATTN_ROTARY_HALF_SPLIT)
        return attn_fail(ATTN_ERR_FLAG, "pairing %d is neither ATTN_ROTARY_INTERLEAVED nor ATTN_ROTARY_HALF_SPLIT",
                         (int)r->pairing);
    ATTN_TRY(attn_check_size("batch", r->batch, 0));
    ATTN_TRY(attn_check_size("heads", r->heads, 0));
    ATTN_TRY(attn_check_size("rows", r->rows, 0));
    ATTN_TRY(attn_check_size("head_dim", r->head_dim, 1));
    ATTN_TRY(attn_check_size("rotary_dim", r->rotary_dim, 0));
    if (r->rotary_dim % 2 != 0)
        return attn_fail(ATTN_ERR_SIZE, "rotary_dim %" PRId64 " is odd", r->rotary_dim);
    if (r->rotary_dim > r->head_dim)
        return attn_fail(ATTN_ERR_SIZE, "rotary_dim %" PRId64 " is above head_dim %" PRId64, r->rotary_dim,
                         r->head_dim);
    if ((r->flags & ATTN_ROTARY_HAS_IDS) == 0)
        ATTN_TRY(attn_check_start(r->rows, r->start));
    if ((r->flags & ATTN_ROTARY_HAS_TABLES) != 0)
        return attn_check_size("table_rows", r->table_rows, 0);
    return attn_check_base(r->base);
}
