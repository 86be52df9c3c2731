/* A two-head layer, step by step: X, the projections, scores, weights and Z of each head, and Y, printed; the same once
 * more by one call of attn_layer_f64(). Exit code 1 when the two disagree. Build: cc layer_steps.c -lattn -lm */
#include <attn/attn.h>
#include <math.h>
#include <stdio.h>

enum { TOKENS = 3, D_MODEL = 4, HEADS = 2, SIZE = 2, COLUMNS = HEADS * SIZE };

static const double x[TOKENS][D_MODEL] = {{1, 0, 1, 0}, {0, 2, 0, 1}, {1, 1, 0, -1}};
static const double w_q[D_MODEL][COLUMNS] = {{1, 0, 0.5, 0}, {0, 1, 0, 0.5}, {0, 0, 1, 0}, {0.5, 0, 0, 1}};
static const double w_k[D_MODEL][COLUMNS] = {{0, 1, 0, 1}, {1, 0, 0, 0.5}, {1, 0, 0.5, 0}, {0, 0.5, 1, 0}};
static const double w_v[D_MODEL][COLUMNS] = {{1, 0, 2, 0}, {0, 1, 0, 2}, {1, 1, 0, 0}, {0, 0, 1, 1}};
static const double w_o[COLUMNS][D_MODEL] = {{1, 0, 0, 1}, {0, 1, 1, 0}, {0.5, 0, 1, 0}, {0, 0.5, 0, 1}};
static const double b_o[D_MODEL] = {0.1, 0, 0, -0.1};

static int failed(const char *what, attn_status status) {
    if (status != ATTN_OK)
        fprintf(stderr, "%s: %s: %s\n", what, attn_status_string(status), attn_last_error());
    return status != ATTN_OK;
}

static void print(const char *name, const double *matrix, int rows, int columns, int stride) {
    printf("%s\n", name);
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++)
            printf(" %8.4f", matrix[i * stride + j]);
        printf("\n");
    }
}

/* Rows of X, or of Z, times a weight. */
static int project(const char *name, const double *rows, const double *w, int columns, const double *bias, double *y) {
    if (failed(name,
               attn_project_f64(NULL, 1, TOKENS, D_MODEL, columns, rows, 0, D_MODEL, w, columns, bias, y, 0, columns)))
        return 1;
    print(name, y, TOKENS, columns, columns);
    return 0;
}

/* One head: its columns of Q, K, V and Z, which stand beside those of the other one. */
static int attend(int head, const double *q, const double *k, const double *v, double *z) {
    double s[TOKENS * TOKENS], a[TOKENS * TOKENS];
    int c = head * SIZE;
    printf("-- head %d, columns %d to %d --\n", head, c, c + SIZE - 1);
    if (failed("scores",
               attn_scores_f64(NULL, TOKENS, TOKENS, SIZE, q + c, COLUMNS, k + c, COLUMNS, 1 / sqrt(SIZE), s, TOKENS)))
        return 1;
    print("S = Q K^T / sqrt(2)", s, TOKENS, TOKENS, TOKENS);
    if (failed("softmax", attn_softmax_f64(NULL, TOKENS, TOKENS, s, TOKENS, a, TOKENS)))
        return 1;
    print("A = softmax of the rows of S", a, TOKENS, TOKENS, TOKENS);
    if (failed("combine", attn_combine_f64(NULL, TOKENS, TOKENS, SIZE, a, TOKENS, v + c, COLUMNS, z + c, COLUMNS)))
        return 1;
    print("Z = A V", z + c, TOKENS, SIZE, COLUMNS);
    return 0;
}

static int in_one_call(double *y) {
    attn_problem heads = ATTN_PROBLEM_INIT;
    heads.batch = 1;
    heads.q_heads = heads.kv_heads = HEADS;
    heads.q_len = heads.kv_len = TOKENS;
    heads.head_dim = heads.v_dim = SIZE;
    attn_layer layer = ATTN_LAYER_INIT;
    layer.d_model = layer.d_out = D_MODEL;
    layer.attention = &heads;
    attn_layer_args_f64 args = ATTN_LAYER_ARGS_F64_INIT;
    args.x = &x[0][0];
    args.w_q = &w_q[0][0];
    args.w_k = &w_k[0][0];
    args.w_v = &w_v[0][0];
    args.w_o = &w_o[0][0];
    args.b_o = b_o;
    args.y = y;
    return failed("layout", attn_layer_layout_dense(&layer)) || failed("layer", attn_layer_f64(NULL, &layer, &args));
}

int main(void) {
    double q[TOKENS * COLUMNS], k[TOKENS * COLUMNS], v[TOKENS * COLUMNS], z[TOKENS * COLUMNS];
    double y[TOKENS * D_MODEL], whole[TOKENS * D_MODEL];
    print("X", &x[0][0], TOKENS, D_MODEL, D_MODEL);
    if (project("Q = X W_Q", &x[0][0], &w_q[0][0], COLUMNS, NULL, q) ||
        project("K = X W_K", &x[0][0], &w_k[0][0], COLUMNS, NULL, k) ||
        project("V = X W_V", &x[0][0], &w_v[0][0], COLUMNS, NULL, v))
        return 1;
    for (int head = 0; head < HEADS; head++)
        if (attend(head, q, k, v, z))
            return 1;
    if (project("Y = Z W_O + b_O", z, &w_o[0][0], D_MODEL, b_o, y) || in_one_call(whole))
        return 1;
    double worst = 0;
    for (int i = 0; i < TOKENS * D_MODEL; i++) {
        double difference = fabs(y[i] - whole[i]);
        worst = difference <= worst ? worst : difference; /* a NaN stays */
    }
    printf("attn_layer_f64() differs by at most %.1e\n", worst);
    return worst <= 1e-14 ? 0 : 1;
}
