/* The generator of attn/weights.h: numbers of a stream, a group at a time. */
#ifndef ATTN_LIB_RANDOM_H
#define ATTN_LIB_RANDOM_H

#include <stdint.h>

/* Blocks of Philox that are computed side by side, so that the compiler can use vectors; two numbers each. */
enum { ATTN_RANDOM_BLOCKS = 64, ATTN_RANDOM_GROUP = 2 * ATTN_RANDOM_BLOCKS };

typedef struct attn_random_stream {
    uint64_t seed, stream;
} attn_random_stream;

/* Numbers group * ATTN_RANDOM_GROUP and on. */
typedef void attn_random_numbers(attn_random_stream stream, int64_t group, double number[ATTN_RANDOM_GROUP]);
attn_random_numbers attn_random_uniforms, attn_random_normals;

#endif
