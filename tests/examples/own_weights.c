/* A layer with weights of one's own, from a raw file: float numbers of this machine's byte order, one matrix after the
 * other, each row by row as [in, out]:
 *
 *   W_Q [d_model, heads * size]   W_K [d_model, heads * size]   W_V [d_model, heads * size]
 *   W_O [heads * size, d_model]
 *
 * that is 4 * d_model * heads * size numbers and nothing else. From NumPy (PyTorch has [out, in]: transpose those):
 *   numpy.concatenate([w.astype(numpy.float32).ravel() for w in (w_q, w_k, w_v, w_o)]).tofile("weights.raw")
 *
 * own_weights FILE D_MODEL HEADS runs the layer on 5 tokens and prints the first numbers of each row. Exit code 1, with
 * a sentence, when the file does not fit. Build: cc own_weights.c -lattn -lm */
#include <attn/attn.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 5, MOST = 65536 };

/* The numbers of a file that holds exactly so many, or NULL with a sentence. */
static float *read_weights(const char *name, size_t count) {
    FILE *file = fopen(name, "rb");
    float *numbers = malloc((count + 1) * sizeof *numbers);
    if (file == NULL || numbers == NULL) {
        fprintf(stderr, "%s: %s\n", name, file == NULL ? "cannot be opened" : "not enough memory");
    } else {
        /* one byte more than wanted tells a longer file */
        size_t bytes = fread(numbers, 1, count * sizeof *numbers + 1, file);
        if (bytes == count * sizeof *numbers && !ferror(file)) {
            fclose(file);
            return numbers;
        }
        fprintf(stderr, "%s: holds %s%zu bytes, but 4 * d_model * heads * size floats are %zu bytes\n", name,
                bytes > count * sizeof *numbers ? "at least " : "", bytes, count * sizeof *numbers);
    }
    if (file != NULL)
        fclose(file);
    free(numbers);
    return NULL;
}

static attn_status run_layer(int64_t d_model, int64_t heads, const float *weights, const float *x, float *y) {
    attn_problem attention = ATTN_PROBLEM_INIT;
    attn_layer layer = ATTN_LAYER_INIT;
    attn_layer_args_f32 args = ATTN_LAYER_ARGS_F32_INIT;
    int64_t matrix = d_model * d_model;
    attention.batch = 1;
    attention.q_heads = attention.kv_heads = heads;
    attention.q_len = attention.kv_len = TOKENS;
    attention.head_dim = attention.v_dim = d_model / heads;
    attention.flags = ATTN_CAUSAL;
    layer.d_model = layer.d_out = d_model;
    layer.attention = &attention;
    attn_status status = attn_layer_layout_dense(&layer); /* weights [in, out]; ATTN_LAYER_OUT_IN for the transposes */
    args.x = x;
    args.w_q = weights;
    args.w_k = weights + matrix;
    args.w_v = weights + 2 * matrix;
    args.w_o = weights + 3 * matrix;
    args.y = y;
    return status == ATTN_OK ? attn_layer_f32(NULL, &layer, &args) : status;
}

int main(int argc, char **argv) {
    long d_model = argc == 4 ? strtol(argv[2], NULL, 10) : 0, heads = argc == 4 ? strtol(argv[3], NULL, 10) : 0;
    if (d_model < 1 || d_model > MOST || heads < 1 || d_model % heads != 0) {
        fprintf(stderr, "usage: own_weights FILE D_MODEL HEADS, D_MODEL from 1 to %d, HEADS a divisor of it\n", MOST);
        return 2;
    }
    float *weights = read_weights(argv[1], 4 * (size_t)d_model * (size_t)d_model);
    if (weights == NULL)
        return 1;
    float *x = calloc((size_t)(2 * TOKENS * d_model), sizeof *x), *y = x != NULL ? x + TOKENS * d_model : NULL;
    attn_status status = ATTN_ERR_NOMEM;
    for (long i = 0; x != NULL && i < TOKENS * d_model; i++)
        x[i] = (float)(i % 7 - 3) / 4;
    if (x != NULL)
        status = run_layer(d_model, heads, weights, x, y);
    if (status != ATTN_OK)
        fprintf(stderr, "%s: %s\n", attn_status_string(status), x != NULL ? attn_last_error() : "no arrays");
    for (long row = 0; status == ATTN_OK && row < TOKENS; row++) {
        printf("token %ld:", row);
        for (long c = 0; c < d_model && c < 4; c++)
            printf(" %.6g", (double)y[row * d_model + c]);
        printf("\n");
    }
    free(weights);
    free(x);
    return status == ATTN_OK ? 0 : 1;
}
