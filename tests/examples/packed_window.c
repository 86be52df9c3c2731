/* Packed tokens with a sliding window: four sequences of 5, 1, 0 and 17 tokens stand one after the other without
 * padding, and each token sees itself and the 3 tokens before it. The result is compared with plain loops. Exit code 1
 * when it is another. Build: cc packed_window.c -lattn -lm */
#include <attn/attn.h>
#include <math.h>
#include <stdio.h>

enum { SEQUENCES = 4, LONGEST = 17, TOKENS = 23, HEADS = 4, SIZE = 16, WIDTH = HEADS * SIZE, BEFORE = 3 };

/* Sequence b has the rows offsets[b] .. offsets[b+1]-1 of all arrays. */
static const int64_t offsets[SEQUENCES + 1] = {0, 5, 6, 6, 23};

static float q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH], out[TOKENS * WIDTH];

/* Numbers from -1 to 1. */
static void fill(float *numbers, int count) {
    static unsigned state = 1;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (float)(state >> 8) / 8388608.0f - 1;
    }
}

/* The largest difference of a row of one head from softmax(q k^T / sqrt(SIZE)) v over the keys of its window. */
static double row_error(int64_t first, int64_t row, int head) {
    double sum = 0, wanted[SIZE] = {0}, worst = 0;
    for (int64_t key = row - BEFORE > first ? row - BEFORE : first; key <= row; key++) {
        double s = 0;
        for (int c = 0; c < SIZE; c++)
            s += (double)q[row * WIDTH + head * SIZE + c] * (double)k[key * WIDTH + head * SIZE + c];
        double weight = exp(s / sqrt(SIZE));
        sum += weight;
        for (int c = 0; c < SIZE; c++)
            wanted[c] += weight * (double)v[key * WIDTH + head * SIZE + c];
    }
    for (int c = 0; c < SIZE; c++) {
        double error = fabs((double)out[row * WIDTH + head * SIZE + c] - wanted[c] / sum);
        worst = error <= worst ? worst : error; /* NaN is taken */
    }
    return worst;
}

int main(void) {
    attn_problem problem = ATTN_PROBLEM_INIT;
    attn_args_f32 args = ATTN_ARGS_F32_INIT;
    fill(q, TOKENS * WIDTH);
    fill(k, TOKENS * WIDTH);
    fill(v, TOKENS * WIDTH);
    problem.flags = ATTN_RAGGED | ATTN_CAUSAL | ATTN_HAS_WINDOW;
    problem.window_left = BEFORE;
    problem.window_right = -1; /* unlimited: causal is narrower */
    problem.batch = SEQUENCES;
    problem.q_heads = problem.kv_heads = HEADS;
    problem.q_len = problem.kv_len = LONGEST; /* of a sequence; more is legal too */
    problem.head_dim = problem.v_dim = SIZE;
    problem.total_q = problem.total_kv = TOKENS;
    attn_status status = attn_problem_layout_blhd(&problem); /* rows of all heads side by side */
    args.q = q;
    args.k = k;
    args.v = v;
    args.out = out;
    args.q_offsets = args.kv_offsets = offsets;
    if (status == ATTN_OK)
        status = attn_sdpa_f32(NULL, &problem, &args);
    if (status != ATTN_OK) {
        fprintf(stderr, "%s: %s\n", attn_status_string(status), attn_last_error());
        return 1;
    }
    double worst = 0;
    for (int b = 0; b < SEQUENCES; b++)
        for (int64_t row = offsets[b]; row < offsets[b + 1]; row++)
            for (int head = 0; head < HEADS; head++) {
                double error = row_error(offsets[b], row, head);
                worst = error <= worst ? worst : error;
            }
    printf("%d sequences, %d tokens, window of %d: largest difference from plain loops %.2g\n", SEQUENCES, TOKENS,
           BEFORE + 1, worst);
    return worst <= 1e-6 ? 0 : 1;
}
