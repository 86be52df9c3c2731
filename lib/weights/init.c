/* Initial weights by Xavier and He. */
#include <math.h>

#include "base/checks.h"
#include "base/status.h"
#include "weights/fill.h"
#include "weights/matrix.h"

/* Numbers of mean 0 and the variance gain^2 2 / units; uniform ones on [-a, a] have a^2 / 3. */
typedef struct scaling {
    double gain, units;
} scaling;

static attn_status fill_scaled(const attn_context *context, scaling scale, attn_fill *fill) {
    ATTN_TRY(attn_check_gain(scale.gain));
    bool uniform = fill->numbers == attn_random_uniforms;
    double a = scale.gain * sqrt((uniform ? 6.0 : 2.0) / scale.units);
    fill->offset = uniform ? -a : 0;
    fill->factor = uniform ? 2 * a : a;
    return attn_fill_matrix(context, "w", fill);
}

attn_status REAL(attn_xavier_uniform)(const attn_context *context, int64_t rows, int64_t cols, double gain,
                                      uint64_t seed, uint64_t stream, real *w, int64_t row_stride) {
    attn_fill fill = {rows, cols, row_stride, attn_random_uniforms, {seed, stream}, 0, 0, w};
    return fill_scaled(context, (scaling){gain, (double)rows + (double)cols}, &fill);
}

attn_status REAL(attn_xavier_normal)(const attn_context *context, int64_t rows, int64_t cols, double gain,
                                     uint64_t seed, uint64_t stream, real *w, int64_t row_stride) {
    attn_fill fill = {rows, cols, row_stride, attn_random_normals, {seed, stream}, 0, 0, w};
    return fill_scaled(context, (scaling){gain, (double)rows + (double)cols}, &fill);
}

attn_status REAL(attn_he_uniform)(const attn_context *context, int64_t rows, int64_t cols, int64_t fan, double gain,
                                  uint64_t seed, uint64_t stream, real *w, int64_t row_stride) {
    ATTN_TRY(attn_check_size("fan", fan, 1));
    attn_fill fill = {rows, cols, row_stride, attn_random_uniforms, {seed, stream}, 0, 0, w};
    return fill_scaled(context, (scaling){gain, (double)fan}, &fill);
}

attn_status REAL(attn_he_normal)(const attn_context *context, int64_t rows, int64_t cols, int64_t fan, double gain,
                                 uint64_t seed, uint64_t stream, real *w, int64_t row_stride) {
    ATTN_TRY(attn_check_size("fan", fan, 1));
    attn_fill fill = {rows, cols, row_stride, attn_random_normals, {seed, stream}, 0, 0, w};
    return fill_scaled(context, (scaling){gain, (double)fan}, &fill);
}
