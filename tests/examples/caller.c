/* A C99 program that calls libattn: one query, two keys whose scores are 1000 and 1001. The weights are
 * 1/(1+e) and e/(1+e), the values 3 and 5, so the output is 4.462117157. Exit code 1 when it is not. */
#include <attn/attn.h>
#include <math.h>
#include <stdio.h>

int main(void) {
    const double expected = 4.46211715726001;

    const double q[1] = {1}, k[2] = {1000, 1001}, v[2] = {3, 5};
    double out[1] = {NAN};
    /* batch, query heads, key heads, queries, keys, head size, value size */
    attn_status status = attn_sdpa_flat_f64(1, 1, 1, 1, 2, 1, 1, q, k, v, out, 0);
    if (status != ATTN_OK) {
        fprintf(stderr, "%s: %s\n", attn_status_string(status), attn_last_error());
        return 1;
    }

    const float q32[1] = {1}, k32[2] = {1000, 1001}, v32[2] = {3, 5};
    float out32[1] = {NAN};
    status = attn_sdpa_flat_f32(1, 1, 1, 1, 2, 1, 1, q32, k32, v32, out32, 0);
    if (status != ATTN_OK) {
        fprintf(stderr, "%s: %s\n", attn_status_string(status), attn_last_error());
        return 1;
    }

    printf("%s: f64 %.9f, f32 %.6f\n", attn_version_string(), out[0], (double)out32[0]);
    return fabs(out[0] - expected) <= 1e-14 * expected && fabs(out32[0] - expected) <= 1e-6 * expected ? 0 : 1;
}
