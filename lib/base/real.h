/* The precision of the source being compiled. CMake compiles each precision-typed source twice, with ATTN_REAL_BITS 32
 * and 64: `real` is the number type, REAL(name) the name with its suffix _f32 or _f64. */
#ifndef ATTN_LIB_REAL_H
#define ATTN_LIB_REAL_H

#include <float.h>

#ifdef __FAST_MATH__
#error "libattn needs IEEE arithmetic: do not compile it with -ffast-math"
#endif

#if ATTN_REAL_BITS == 32
typedef float real;
#define REAL(name) name##_f32
#define REAL_MAX FLT_MAX
#define REAL_EPSILON FLT_EPSILON
#define REAL_DTYPE ATTN_F32
#elif ATTN_REAL_BITS == 64
typedef double real;
#define REAL(name) name##_f64
#define REAL_MAX DBL_MAX
#define REAL_EPSILON DBL_EPSILON
#define REAL_DTYPE ATTN_F64
#else
#error "ATTN_REAL_BITS must be 32 or 64"
#endif

#endif
