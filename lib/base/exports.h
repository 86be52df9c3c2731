/* What libattn.so exports for libattn_weights.so, so that a process has one copy of checks, error text, memory and BLAS
 * guard. To the linker these functions are attn_priv_..., in the version node ATTN_PRIVATE of cmake/attn.symbols; their
 * prototypes carry ATTN_API. */
#ifndef ATTN_LIB_EXPORTS_H
#define ATTN_LIB_EXPORTS_H

#define attn_allocate attn_priv_allocate
#define attn_blas_begin_product attn_priv_blas_begin_product
#define attn_blas_check attn_priv_blas_check
#define attn_blas_end_product attn_priv_blas_end_product
#define attn_blas_enter attn_priv_blas_enter
#define attn_blas_leave attn_priv_blas_leave
#define attn_check_apart attn_priv_check_apart
#define attn_check_array attn_priv_check_array
#define attn_check_outputs_apart attn_priv_check_outputs_apart
#define attn_check_size attn_priv_check_size
#define attn_extent_matrix attn_priv_extent_matrix
#define attn_fail attn_priv_fail
#define attn_gemm_f32 attn_priv_gemm_f32
#define attn_gemm_f64 attn_priv_gemm_f64
#define attn_init_struct attn_priv_init_struct
#define attn_ledger_book attn_priv_ledger_book
#define attn_ledger_grant attn_priv_ledger_grant
#define attn_mul_saturated attn_priv_mul_saturated
#define attn_read_struct attn_priv_read_struct
#define attn_release attn_priv_release
#define attn_resolve_context attn_priv_resolve_context
#define attn_run_blas_workers attn_priv_run_blas_workers
#define attn_run_workers attn_priv_run_workers
#define attn_threads_here attn_priv_threads_here

#endif
