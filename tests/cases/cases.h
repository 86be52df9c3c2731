/* The operators of the conformance cases, computed by libattn. Each fails its cmocka test on a difference. */
#ifndef ATTN_CASES_H
#define ATTN_CASES_H

#include "case_file.h"

/* Compares with output `index` of the case: float32 rtol 1e-6 + atol 1e-7; float64 1e-14 of the largest wanted number.
 * NaN and infinities must be the same. */
void check_output(const case_file *file, int index, int64_t count, const real *got, const char *how);

void run_attention(const case_file *file);
void run_rotary(const case_file *file);
void run_softmax(const case_file *file);
void run_gather(const case_file *file);

#endif
