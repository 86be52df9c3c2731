/* Rotary positions in two steps, for callers that check everything before they begin. */
#ifndef ATTN_LIB_ROTARY_H
#define ATTN_LIB_ROTARY_H

#include <attn/position.h>

#include "base/blocks.h"
#include "base/real.h"
#include "position/rotary_check.h"

/* One call of attn_rotary. */
typedef struct attn_rotary_call {
    attn_rotary r;
    const real *x, *cosines, *sines;
    const int64_t *ids;
    real *y;
    int64_t pairs;
    real direction;
    int64_t first_member; /* what the caller calls member 0, for sentences */
    attn_blocks blocks;   /* of the rows of each member, and of pairs */
} attn_rotary_call;

/* Checks a call whose pointers and checked rotary are filled in, and completes it. */
attn_status REAL(attn_prepare_rotary)(attn_rotary_call *call);

attn_status REAL(attn_run_rotary)(const attn_resources *resources, attn_rotary_call *call);

#endif
