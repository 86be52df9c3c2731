/* The choice of kernels: one constant table per instruction set that is compiled in, the best one this CPU has in use.
 *
 * A table starts from the generic kernels; an instruction set overwrites what it has. CMake defines ATTN_HAVE_<NAME>
 * for each instruction set whose objects are in the library.
 */
#include <stddef.h>

#include "base/cpu.h"
#include "kernels/kernel_list.h"

typedef REAL(attn_kernels) kernel_table;

#define KERNELS_OF(isa)                                                                                                \
    .exp = KERNEL_OF(exp, isa), .softmax_row = KERNEL_OF(softmax_row, isa),                                            \
    .softmax_tile = KERNEL_OF(softmax_tile, isa), .scale_rows = KERNEL_OF(scale_rows, isa),                            \
    .scaled = KERNEL_OF(scaled, isa), .divided = KERNEL_OF(divided, isa), .transpose = KERNEL_OF(transpose, isa),      \
    .all_finite = KERNEL_OF(all_finite, isa), .add_product = KERNEL_OF(add_product, isa),                              \
    .product_transposed = KERNEL_OF(product_transposed, isa), .multiply = KERNEL_OF(multiply, isa),                    \
    .add = KERNEL_OF(add, isa), .softcap = KERNEL_OF(softcap, isa), .add_bias = KERNEL_OF(add_bias, isa),              \
    .add_alibi = KERNEL_OF(add_alibi, isa), .hide = KERNEL_OF(hide, isa), .sincos = KERNEL_OF(sincos, isa),            \
    .rotate_interleaved = KERNEL_OF(rotate_interleaved, isa), .rotate_halves = KERNEL_OF(rotate_halves, isa)

static const kernel_table generic_table = {KERNELS_OF(generic)};
#ifdef ATTN_HAVE_NEON
static const kernel_table neon_table = {KERNELS_OF(neon)};
#endif
#ifdef ATTN_HAVE_AVX2
static const kernel_table avx2_table = {KERNELS_OF(avx2)};
#endif
#ifdef ATTN_HAVE_AVX512
static const kernel_table avx512_table = {KERNELS_OF(avx512)};
#endif
/* The kernels of AVX-512 and, in float, what the matrix unit has. */
#ifdef ATTN_HAVE_AMX
static const kernel_table amx_table = {
    KERNELS_OF(avx512),
#if ATTN_REAL_BITS == 32
    .split_rows = KERNEL_OF(split_rows, amx),
    .split_values = KERNEL_OF(split_values, amx),
    .split_keys = KERNEL_OF(split_keys, amx),
    .multiply_parts = KERNEL_OF(multiply_parts, amx),
    .parts_begin = KERNEL_OF(parts_begin, amx),
    .parts_end = KERNEL_OF(parts_end, amx),
#endif
};
#endif

static const kernel_table *const tables[] = {
    [ATTN_ISA_GENERIC] = &generic_table,
#ifdef ATTN_HAVE_NEON
    [ATTN_ISA_NEON] = &neon_table,
#endif
#ifdef ATTN_HAVE_AVX2
    [ATTN_ISA_AVX2] = &avx2_table,
#endif
#ifdef ATTN_HAVE_AVX512
    [ATTN_ISA_AVX512] = &avx512_table,
#endif
#ifdef ATTN_HAVE_AMX
    [ATTN_ISA_AMX] = &amx_table,
#endif
};

const kernel_table *REAL(attn_kernels_of)(attn_isa isa) {
    int index = (int)isa;
    if (index < 0 || index >= (int)(sizeof tables / sizeof tables[0]) || isa > attn_cpu_isa())
        return NULL;
    return tables[index];
}

/* The best instruction set that this CPU has and that is compiled in. */
static attn_isa best_isa(void) {
    int isa = (int)attn_cpu_isa();
    while (REAL(attn_kernels_of)((attn_isa)isa) == NULL)
        isa--;
    return (attn_isa)isa;
}

const kernel_table *REAL(attn_kernels_in_use)(void) {
    return tables[best_isa()];
}

/* Both precisions are compiled for the same instruction sets, so one of them answers. */
#if ATTN_REAL_BITS == 32
attn_isa attn_isa_in_use(void) {
    return best_isa();
}
#endif
