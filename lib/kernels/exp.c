/* Kernel exp: the exponential of an array. */
#include "kernels/vexp.h"

void KERNEL(exp)(int64_t n, const real *x, real *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(y + i, vexp(vec_load(x + i)));
    if (i < n)
        vec_store_part(y + i, n - i, vexp(vec_load_part(x + i, n - i, 0)));
}
