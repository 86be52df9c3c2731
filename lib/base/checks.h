/* Checks that every public function shares: sizes, strides, extents, overlaps, struct sizes. Each returns ATTN_OK, or a
 * status with its sentence stored. */
#ifndef ATTN_LIB_CHECKS_H
#define ATTN_LIB_CHECKS_H

#include <attn/base.h>
#include <stdbool.h>

#include "base/exports.h"

static inline int64_t attn_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t attn_larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Blocks of this size that cover a length. */
static inline int64_t attn_blocks_of(int64_t length, int64_t block) {
    return length / block + (length % block != 0);
}

/* a * b and a + b of numbers that are not negative; INT64_MAX when they do not fit. */
ATTN_API int64_t attn_mul_saturated(int64_t a, int64_t b);
int64_t attn_add_saturated(int64_t a, int64_t b);

/* A matrix or array argument as the checks see it: an address, its dimensions from the outermost, and the size of an
 * element. The last dimension is contiguous unless its stride says otherwise. */
enum { ATTN_MAX_DIMS = 4 };
typedef struct attn_extent {
    const char *name;    /* as the caller knows it: "out" */
    const void *address; /* */
    int dims;
    int64_t size[ATTN_MAX_DIMS];
    int64_t stride[ATTN_MAX_DIMS];
    int64_t element_bytes;
} attn_extent;

/* The usual shapes: [rows, cols] with a row stride, and [rows] contiguous. */
ATTN_API attn_extent attn_extent_matrix(const char *name, const void *address, int64_t rows, int64_t cols,
                                        int64_t row_stride, int64_t element_bytes);
attn_extent attn_extent_vector(const char *name, const void *address, int64_t size, int64_t element_bytes);

/* [batch, heads, rows, cols] with the strides of the public structs. */
attn_extent attn_extent_heads(const char *name, const void *address, int64_t batch, int64_t heads, int64_t rows,
                              int64_t cols, attn_strides strides, int64_t element_bytes);

bool attn_extent_empty(const attn_extent *e);

/* The distance of rows in an array of that many. A single row has none: what the caller left there may be anything, too
 * much for BLAS and for sums with it, and row_size stands for it. */
static inline int64_t attn_used_stride(int64_t rows, int64_t stride, int64_t row_size) {
    return rows > 1 ? stride : row_size;
}

/* ATTN_ERR_SIZE when value is below minimum. */
ATTN_API attn_status attn_check_size(const char *name, int64_t value, int64_t minimum);

/* Strides not negative (ATTN_ERR_STRIDE), the row stride (of the dimension before the last) at least the row size when
 * there are elements and more than one row (ATTN_ERR_STRIDE), the whole extent addressable (ATTN_ERR_OVERFLOW). */
attn_status attn_check_extent(const attn_extent *e);

/* Makes strides that lead to no element 0: those along one element, and all of an array without elements. Callers may
 * leave anything there, too much for sums with it; negative ones stay, for the check to refuse. */
void attn_settle_strides(attn_extent *e);

/* The same for an array [batch, heads, rows, cols], as a public struct has it. */
attn_strides attn_settled_strides(attn_extent heads);

/* ATTN_ERR_NULL when the array has elements but no address. */
attn_status attn_check_present(const attn_extent *e);
/* The same for an array that goes with a flag, which the sentence names; NULL = with none. */
attn_status attn_check_present_with(const attn_extent *e, const char *flag_name);

/* Both of them: strides, extent and presence of one array. */
ATTN_API attn_status attn_check_array(const attn_extent *e);

/* ATTN_ERR_STRIDE when the elements of an output are not all at different places: the strides, sorted, must each clear
 * the extent of those below. */
attn_status attn_check_no_self_overlap(const attn_extent *output);

/* ATTN_ERR_OVERLAP when output starts at input's address, or when both extents are dense and intersect. */
ATTN_API attn_status attn_check_apart(const attn_extent *output, const attn_extent *input);

/* The same, but output may be the very same array as an input of its sizes: same address, same strides. */
attn_status attn_check_apart_or_in_place(const attn_extent *output, const attn_extent *input);

/* ATTN_ERR_OVERLAP when two outputs, neither of which overlaps itself, may have a byte in common. They may interleave:
 * along the outer dimensions in which their sizes and strides agree, what is left of each counts as a block. */
ATTN_API attn_status attn_check_outputs_apart(const attn_extent *a, const attn_extent *b);

/* ATTN_ERR_STRUCT_SIZE when a caller's struct_size is below the first version's or above ours. */
attn_status attn_check_struct_size(const char *type, size_t given, size_t first, size_t ours);

/* Copies a caller's struct of any known size to `copy`, later fields 0. Its first member is struct_size. ATTN_ERR_NULL
 * when it is NULL, by the name that the caller knows; ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_read_struct(const char *name, const char *type, const void *given, size_t first, size_t ours,
                                      void *copy);

/* The common body of the public initialisers: checks, zeroes struct_size bytes, stores struct_size. */
ATTN_API attn_status attn_init_struct(const char *type, void *object, size_t given, size_t first, size_t ours);

#endif
