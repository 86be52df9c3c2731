/* Test data of a case in one precision: every array that the call needs, malloc'd exactly as large as its strides reach
 * (address sanitizer and valgrind see any access beyond), inputs seeded, outputs poisoned.
 *
 * Numbers: element n of array a is a function of (seed, a, n) alone, by splitmix64 and Box-Muller in double, rounded to
 * the precision, so that float and double runs see the same numbers up to rounding and any element can be had without
 * those before it. Keys at or beyond a member's length, query rows at or beyond its length, K when the scale is 0, and
 * the elements between rows are NaN.
 * Outputs start as bytes of 0xff (a NaN that no arithmetic makes here), elements between rows included, so that "never
 * written" and "written beside the rows" can be told.
 */
#ifndef ATTN_SUPPORT_DATA_H
#define ATTN_SUPPORT_DATA_H

#include <attn/sdpa.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "problem_string.h"

/* The arrays of a call. MASK holds bytes, all others elements of the precision. */
typedef enum support_array {
    SUPPORT_Q,
    SUPPORT_K,
    SUPPORT_V,
    SUPPORT_OUT,
    SUPPORT_LSE,
    SUPPORT_MASK,
    SUPPORT_BIAS,
    SUPPORT_ALIBI,
    SUPPORT_SINK,
    SUPPORT_SCORES,
    SUPPORT_CAPPED,
    SUPPORT_MASKED,
    SUPPORT_WEIGHTS,
    SUPPORT_ARRAY_COUNT
} support_array;

typedef struct support_data {
    const support_case *problem_case; /* not owned: must outlive the data */
    attn_dtype dtype;
    attn_args_f32 args32;                               /* complete when dtype is ATTN_F32 */
    attn_args_f64 args64;                               /* complete when dtype is ATTN_F64 */
    void *memory[SUPPORT_ARRAY_COUNT];                  /* what malloc returned; with layout=qkv K and V stand in Q's */
    void *base[SUPPORT_ARRAY_COUNT];                    /* element (0, 0, 0, 0); NULL when the call has no such array */
    int64_t elements[SUPPORT_ARRAY_COUNT];              /* from base to the end of the memory */
    int64_t *q_lens, *kv_lens, *q_offsets, *kv_offsets; /* copies of exact size, NULL when not given */
} support_data;

/* Allocates and fills everything. False, with d cleared, when there is not enough memory. */
bool support_data_create(support_data *d, const support_case *c, attn_dtype dtype);
void support_data_destroy(support_data *d);

/* Poisons all outputs again, for the next call on the same inputs. */
void support_data_poison_outputs(support_data *d);

/* True when the call has that array. */
bool support_has(const support_data *d, support_array array);

/* Index from base of one element. b, h, row, col by the array's own dimensions: K and V count key heads and keys, MASK,
 * BIAS and the intermediates query heads, rows and keys; LSE ignores col; ALIBI and SINK ignore all but h. With ragged
 * problems b names the member and row counts from its start. */
int64_t support_index(const support_data *d, support_array array, int64_t b, int64_t h, int64_t row, int64_t col);

/* Reads and writes one element, for tests with numbers of their own. */
double support_get(const support_data *d, support_array array, int64_t b, int64_t h, int64_t row, int64_t col);
void support_set(support_data *d, support_array array, int64_t b, int64_t h, int64_t row, int64_t col, double value);

/* ---- The generator, for tests and benches with arrays of their own ------------------------------------------- */

/* Number n of the stream `stream` of `seed`: 64 random bits; uniform in [0, 1); standard normal. */
uint64_t support_random_bits(uint64_t seed, uint64_t stream, uint64_t n);
double support_random_uniform(uint64_t seed, uint64_t stream, uint64_t n);
double support_random_normal(uint64_t seed, uint64_t stream, uint64_t n);

/* Fills count elements with factor * standard normals first .. first+count-1 of a stream. */
void support_fill_normal(attn_dtype dtype, void *x, int64_t count, uint64_t seed, uint64_t stream, uint64_t first,
                         double factor);

/* Where the arrays of problems and layers come from; free() takes them back. malloc, which aligns to 16 bytes and no
 * more, so that tests see what a careless caller passes. */
extern void *(*support_memory)(size_t bytes);

/* malloc of count elements exactly, filled with the byte 0xff (NaN in both precisions). */
void *support_alloc_poisoned(attn_dtype dtype, int64_t count);

/* Element n of x. Here, since the oracle does it for all that it reads. */
static inline double support_load(attn_dtype dtype, const void *x, int64_t n) {
    return dtype == ATTN_F32 ? ((const float *)x)[n] : ((const double *)x)[n];
}
void support_store(attn_dtype dtype, void *x, int64_t n, double value);

#endif
