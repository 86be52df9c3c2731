/* The two precisions of calls.c, joined in call_results.c. */
#ifndef BLAS_CALLS_REAL_H
#define BLAS_CALLS_REAL_H

#include <stdbool.h>
#include <stddef.h>

#include "calls.h"

size_t call_elements_f32(product_call call);
size_t call_elements_f64(product_call call);
attn_status call_make_f32(product_call call, const attn_context *context, void *output, bool refused);
attn_status call_make_f64(product_call call, const attn_context *context, void *output, bool refused);

#endif
