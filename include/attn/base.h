/* Status codes, error text, context and version: what every other header of libattn builds on. */
#ifndef ATTN_BASE_H
#define ATTN_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
template <typename type> inline type attn_struct_init() {
    type object = type();
    object.struct_size = sizeof object;
    return object;
}
extern "C" {
#endif

/* Marks what libattn.so exports. Define ATTN_STATIC when linking the static library on Windows. */
#if defined(_WIN32) && !defined(ATTN_STATIC)
#ifdef ATTN_BUILDING
#define ATTN_API __declspec(dllexport)
#else
#define ATTN_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define ATTN_API __attribute__((visibility("default")))
#else
#define ATTN_API
#endif

/* ---- Version ------------------------------------------------------------------------------------------------ */

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION_PATCH 0
#define ATTN_VERSION_NUMBER (ATTN_VERSION_MAJOR * 10000 + ATTN_VERSION_MINOR * 100 + ATTN_VERSION_PATCH)

/* The version of the library that runs, as ATTN_VERSION_NUMBER (since 0.1). Never fails. */
ATTN_API int attn_version_number(void);

/* One line about the library that runs: its version, the instruction set in use, the BLAS library with its version,
 * core name, threading flavour and integer width (since 0.1). The text is owned by the library. Thread-safe.
 * Example: "libattn 0.1.0, avx2, OpenBLAS 0.3.21 Zen pthread, 32-bit integers" */
ATTN_API const char *attn_version_string(void);

/* ---- Status ------------------------------------------------------------------------------------------------- */

/* Every call that can fail returns one of these. Values are pinned for good. After an argument error (1 to 99)
 * nothing was written; after a run-time error (100 to 199) outputs are unspecified unless the function says more. */
typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_ERR_NULL = 1,         /* a pointer that is needed is NULL */
    ATTN_ERR_SIZE = 2,         /* a size is negative, or sizes do not fit each other */
    ATTN_ERR_STRIDE = 3,       /* a stride is too small for the rows it separates */
    ATTN_ERR_VALUE = 4,        /* a number is NaN, infinite or outside its range */
    ATTN_ERR_ID = 5,           /* a token id is no row of the table */
    ATTN_ERR_LENGTH = 6,       /* a sequence length is negative or longer than its buffer */
    ATTN_ERR_OVERFLOW = 7,     /* sizes or strides whose sum or product does not fit its type */
    ATTN_ERR_OVERLAP = 8,      /* an output is an input, or overlaps an array it must not */
    ATTN_ERR_WORKSPACE = 9,    /* the caller's workspace is too small or not aligned */
    ATTN_ERR_FLAG = 10,        /* flags or enumerators that are unknown, or a field or pointer without its flag */
    ATTN_ERR_STRUCT_SIZE = 11, /* struct_size is smaller than the first version's or larger than ours */
    ATTN_ERR_UNSUPPORTED = 12, /* understood, but not built into this version or refused by this engine */
    ATTN_ERR_DTYPE = 13,       /* a plan of one precision was run with arguments of the other */
    ATTN_ERR_NOMEM = 100,      /* the allocator returned NULL */
    ATTN_ERR_BLAS = 101,       /* the BLAS library in this process cannot be used, for example 64-bit integers */
    ATTN_ERR_THREADS = 102,    /* the parallel_for callback reported a failure */
    ATTN_ERR_LAPACK = 103      /* LAPACK reported a failure, such as an SVD that did not converge */
} attn_status;

/* A short English text for a status, "unknown status" for a number that is none (since 0.1).
 * Never NULL, owned by the library, thread-safe. */
ATTN_API const char *attn_status_string(attn_status status);

/* The sentence about the last failed call of this thread, naming the argument and its value, for example
 * "kv_heads 3 does not divide q_heads 8" (since 0.1). "" before the first failure; a call that succeeds leaves it.
 * Never NULL, owned by the library, valid until this thread's next failing call. */
ATTN_API const char *attn_last_error(void);

/* Initialises a struct whose first member is struct_size, all else 0: attn_problem p = ATTN_STRUCT_INIT(attn_problem);
 * in C++ as well. Each struct has its own name for it, such as ATTN_PROBLEM_INIT. To clear one again use its init
 * function, such as attn_problem_init(). */
#ifdef __cplusplus
#define ATTN_STRUCT_INIT(type) attn_struct_init<type>()
#else
#define ATTN_STRUCT_INIT(type)                                                                                         \
    { .struct_size = sizeof(type) }
#endif

/* ---- Strides ------------------------------------------------------------------------------------------------ */

/* Distances in elements between neighbours along the first three dimensions of a 4-D array [batch, heads, rows, size].
 * The last dimension is contiguous. Never negative. Inputs: batch and head may be 0 (one array for all); row must be at
 * least the row size when there is more than one row. Outputs neither overlap themselves nor each other. */
typedef struct attn_strides {
    int64_t batch, head, row;
} attn_strides;

/* ---- Context ------------------------------------------------------------------------------------------------ */

/* Returns bytes of memory aligned to at least 64, or NULL. May be called from any thread. */
typedef void *(*attn_alloc_fn)(void *data, size_t bytes);
/* Takes back what attn_alloc_fn returned, with the same number of bytes. NULL is never passed. */
typedef void (*attn_free_fn)(void *data, void *memory, size_t bytes);

/* One piece of a parallel job: does the part that belongs to `worker`, 0 <= worker < workers. */
typedef void (*attn_parallel_body)(void *argument, int worker);
/* Calls body(argument, w) exactly once for each w in 0 .. workers-1, on any threads, in any order, at the same time
 * or one after the other, and returns when all have ended: 0, or anything else on failure (ATTN_ERR_THREADS).
 * Results do not depend on how it does so. */
typedef int (*attn_parallel_fn)(void *data, int workers, attn_parallel_body body, void *argument);

/* Where a call gets its threads and memory. NULL in place of a context means: all defaults. A context is only read,
 * so that any number of threads may share one. */
typedef struct attn_context {
    size_t struct_size; /* sizeof(attn_context), set by the initialiser */
    /* Most threads a call may use; 0 = omp_get_max_threads() at the call, fewer for little work, 1 without OpenMP.
     * OpenMP is never asked for more than 64, or 8 for each processor. Its threads may spin for a while after a call
     * (OMP_WAIT_POLICY), which delays short calls where other programs use the processors: set 1 for those. Below 0
     * every call refuses it: ATTN_ERR_VALUE. */
    int threads;
    attn_alloc_fn alloc;           /* both or neither; NULL = aligned_alloc and free */
    attn_free_fn free;             /* takes back what alloc gave */
    void *alloc_data;              /* handed to alloc and free */
    attn_parallel_fn parallel_for; /* NULL = OpenMP where the library was built with it, else the calling thread */
    void *parallel_data;           /* handed to parallel_for */
} attn_context;

#define ATTN_CONTEXT_INIT ATTN_STRUCT_INIT(attn_context)

/* Fills a context with the defaults; writes struct_size bytes and no more (since 0.1).
 * Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_context_init(attn_context *context, size_t struct_size);

/* ---- What the library found --------------------------------------------------------------------------------- */

/* Instruction sets of the kernels, in ascending order. NEON is the one level of Arm above generic. */
typedef enum attn_isa {
    ATTN_ISA_GENERIC = 0,
    ATTN_ISA_NEON = 1,
    ATTN_ISA_AVX2 = 2,
    ATTN_ISA_AVX512 = 3,
    ATTN_ISA_AMX = 4 /* AVX-512 and the matrix unit of Intel's Xeons from Sapphire Rapids on, only when named */
} attn_isa;

/* The instruction set of the kernels in use: the best that was compiled in and that this CPU and its operating system
 * have, capped by the environment variable ATTN_MAX_ISA=generic|neon|avx2|avx512|amx, read once at start-up; a value
 * that is none of these is ignored (since 0.1). Without it the cap is avx512. With amx the library asks Linux for the
 * registers of the matrix unit when it is loaded, for the whole process, which from then on may not set a signal stack
 * too small for them; attention in float takes the unit for tiles. BLAS chooses its own. */
ATTN_API attn_isa attn_isa_in_use(void);

/* "generic", "neon", "avx2", "avx512", "amx" (since 0.1); "unknown" for any other number. */
ATTN_API const char *attn_isa_name(attn_isa isa);

/* What is known about the BLAS library in this process (since 0.1). All texts are owned by the library. */
typedef struct attn_blas_info {
    size_t struct_size;  /* sizeof(attn_blas_info), set by the caller */
    const char *name;    /* "OpenBLAS", "BLIS", "MKL" or "unknown CBLAS" */
    const char *version; /* "0.3.21", "" when the library does not say */
    const char *core;    /* the core its kernels are for: "Zen", "SkylakeX"; "" when it does not say */
    const char *flavour; /* "sequential", "pthread", "openmp"; "unknown" when it does not say */
    int integer_bits;    /* 32 or 64 */
    /* a sentence when that core leaves vectors unused that the kernels in use have, as OpenBLAS does on processors
     * newer than itself, or when the library is none of those named above, and what would help; "" when there is
     * nothing to say. fused and the layer then multiply most themselves: docs/guide.md */
    const char *advice;
    /* 1 when the small products of this process, tiles of engine fused above all, are done by a kernel of libattn:
     * while there is an advice, and beside cores that pack whatever they multiply, as "Haswell" and "Zen" do; else 0 */
    int own_products;
} attn_blas_info;

/* Fills struct_size bytes of info (since 0.1). Errors: ATTN_ERR_NULL, ATTN_ERR_STRUCT_SIZE. */
ATTN_API attn_status attn_blas_get_info(attn_blas_info *info);

#ifdef __cplusplus
}
#endif

#endif
