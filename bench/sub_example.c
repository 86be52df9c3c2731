/* attn-bench example: three tokens through the whole chain, small enough to follow by hand. */
#include <attn/chain.h>
#include <stdio.h>
#include <stdlib.h>

#include "subcommands.h"

#define TOKENS 3
#define WIDTH 2
#define VOCABULARY 10000

static void print_matrix(const char *name, const char *meaning, const double *x, int columns) {
    for (int i = 0; i < TOKENS; i++) {
        printf("%-4s", i ? "" : name);
        for (int j = 0; j < columns; j++)
            printf("%9.4f", x[i * columns + j]);
        printf("%*s%s\n", i ? 0 : 3 + 9 * (TOKENS - columns), "", i ? "" : meaning);
    }
    putchar('\n');
}

int sub_example(const bench_options *options) {
    (void)options;
    static const int64_t ids[TOKENS] = {1258, 875, 9527};
    static const double rows[TOKENS][WIDTH] = {{3, 1}, {2, 2}, {2, 4}};
    static const double w_q[] = {-0.6, 0.9, 0.8, -0.5}, w_k[] = {0.6, 0.1, -0.1, 1.4}, w_v[] = {1.0, -0.5, -0.4, 1.2};
    static double table[VOCABULARY * WIDTH];
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j < WIDTH; j++)
            table[ids[i] * WIDTH + j] = rows[i][j];

    double e[TOKENS * WIDTH], p[TOKENS * WIDTH], x[TOKENS * WIDTH];
    double q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH];
    double qk[TOKENS * TOKENS], s[TOKENS * TOKENS], a[TOKENS * TOKENS], z[TOKENS * WIDTH];
    attn_trace_f64 trace = ATTN_TRACE_F64_INIT;
    trace.tokens = TOKENS, trace.vocab = VOCABULARY;
    trace.d_model = trace.d_k = trace.d_v = WIDTH;
    trace.ids = ids, trace.table = table;
    trace.w_q = w_q, trace.w_k = w_k, trace.w_v = w_v;
    trace.e = e, trace.p = p, trace.x = x;
    trace.q = q, trace.k = k, trace.v = v;
    trace.qk = qk, trace.s = s, trace.a = a, trace.z = z;
    if (attn_chain_trace_f64(NULL, &trace) != ATTN_OK) {
        fprintf(stderr, "attn-bench: example: %s\n", attn_last_error());
        return 1;
    }

    printf("Tokens %d, %d, %d of a vocabulary of %d; d_model = d_k = d_v = %d; in double\n", (int)ids[0], (int)ids[1],
           (int)ids[2], VOCABULARY, WIDTH);
    printf("W_Q = [[-0.6, 0.9], [0.8, -0.5]], W_K = [[0.6, 0.1], [-0.1, 1.4]], W_V = [[1.0, -0.5], [-0.4, 1.2]]\n\n");
    print_matrix("E", "embedding: the rows of the table", e, WIDTH);
    print_matrix("P", "positions: sin and cos of 0, 1, 2", p, WIDTH);
    print_matrix("X", "E + P", x, WIDTH);
    print_matrix("Q", "queries X W_Q", q, WIDTH);
    print_matrix("K", "keys X W_K", k, WIDTH);
    print_matrix("V", "values X W_V", v, WIDTH);
    print_matrix("QK", "every query with every key: Q K^T", qk, TOKENS);
    print_matrix("S", "scores QK / sqrt(d_k)", s, TOKENS);
    print_matrix("A", "weights: softmax of each row of S", a, TOKENS);
    print_matrix("Z", "result A V", z, WIDTH);
    return 0;
}
