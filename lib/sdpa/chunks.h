/* Keys in chunks: long key ranges are cut at multiples of a size that the member decides, each chunk with maxima, sums
 * and an output of its own, which are merged in the order of the keys. The chunks may then be anybody's. Serves fused's
 * two paths. */
#ifndef ATTN_LIB_CHUNKS_H
#define ATTN_LIB_CHUNKS_H

#include "sdpa/block.h"

#define attn_chunks_run REAL(attn_chunks_run)
#define attn_task_keys REAL(attn_task_keys)

/* The keys that a task takes a block over: those of its chunk, or all that the block sees. */
attn_key_range attn_task_keys(const attn_call *call, const attn_task *task, const attn_query_block *block);

/* A task's part of a block: all its keys, chunk after chunk, or its chunks, after which whoever ends the last one
 * merges all. A finished block is completed. */
void attn_chunks_run(const attn_call *call, const attn_task *task, const attn_query_block *block);

#endif
