/* The problem of a merge, checked. */
#ifndef ATTN_LIB_MERGE_PROBLEM_H
#define ATTN_LIB_MERGE_PROBLEM_H

#include <attn/sdpa.h>

/* Copies and checks a caller's merge: flags and sizes, not the arrays. */
attn_status attn_read_merge(const attn_merge *given, attn_merge *merge);

#endif
