/* The problem of a low-rank factorisation, checked. */
#ifndef ATTN_LIB_LOW_RANK_H
#define ATTN_LIB_LOW_RANK_H

#include <attn/weights.h>

/* Copies and checks a caller's problem: sizes, flags, rank; not the arrays. */
attn_status attn_read_low_rank(const attn_low_rank *given, attn_low_rank *problem);

/* Singular values of a head. */
int64_t attn_low_rank_count(const attn_low_rank *problem);

#endif
