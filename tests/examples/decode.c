/* Decoding token by token with a cache: a causal layer of 8 heads over 2 with rotary positions reads a prompt of 40
 * tokens in two chunks and then 20 tokens one by one, through one plan and one workspace. Every row of y is that of all
 * 60 tokens in one call, within rounding. Exit code 1 when it is not. Build: cc decode.c -lattn -lm */
#include <attn/attn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 60, D_MODEL = 96, Q_HEADS = 8, KV_HEADS = 2, SIZE = 12, CHUNK = 20 };
enum { PACKED = (Q_HEADS + 2 * KV_HEADS) * SIZE, WIDTH = Q_HEADS * SIZE };

static float x[TOKENS * D_MODEL], w_qkv[D_MODEL * PACKED], w_o[WIDTH * D_MODEL];
static float at_once[TOKENS * D_MODEL], in_steps[TOKENS * D_MODEL];

/* Numbers from -scale to scale. */
static void fill(float *numbers, int count, float scale) {
    static unsigned state = 1;
    for (int i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = scale * ((float)(state >> 8) / 8388608.0f - 1);
    }
}

static int failed(const char *what, attn_status status) {
    if (status != ATTN_OK)
        fprintf(stderr, "%s: %s: %s\n", what, attn_status_string(status), attn_last_error());
    return status != ATTN_OK;
}

/* The parts of a layer that point to each other. */
typedef struct model {
    attn_problem heads;
    attn_rotary rotary;
    attn_layer layer;
    attn_layer_args_f32 args;
} model;

/* A layer for `rows` tokens at a time; capacity 0 = without a cache. */
static int make_model(model *m, int rows, int capacity) {
    const model empty = {ATTN_PROBLEM_INIT, ATTN_ROTARY_INIT, ATTN_LAYER_INIT, ATTN_LAYER_ARGS_F32_INIT};
    *m = empty;
    m->heads.batch = 1;
    m->heads.q_heads = Q_HEADS;
    m->heads.kv_heads = KV_HEADS;
    m->heads.q_len = m->heads.kv_len = rows;
    m->heads.head_dim = m->heads.v_dim = SIZE;
    m->heads.flags = ATTN_CAUSAL;
    m->heads.alignment = ATTN_ALIGN_BOTTOM_RIGHT; /* the last query stands at the last key */
    m->rotary.pairing = ATTN_ROTARY_HALF_SPLIT;
    m->rotary.rotary_dim = SIZE;
    m->rotary.base = 10000;
    m->layer.flags = ATTN_LAYER_PACKED | ATTN_LAYER_HAS_ROTARY | (capacity > 0 ? ATTN_LAYER_HAS_CACHE : 0);
    m->layer.d_model = m->layer.d_out = D_MODEL;
    m->layer.capacity = capacity;
    m->layer.attention = &m->heads;
    m->layer.rotary = &m->rotary;
    m->args.w_q = w_qkv;
    m->args.w_o = w_o;
    return failed("layout", attn_layer_layout_dense(&m->layer));
}

static int all_at_once(void) {
    model m;
    if (make_model(&m, TOKENS, 0))
        return 1;
    m.args.x = x;
    m.args.y = at_once;
    return failed("layer", attn_layer_f32(NULL, &m.layer, &m.args));
}

/* Tokens done .. done + rows - 1. */
static int step(const model *m, const attn_layer_plan *plan, int64_t done, int64_t rows, void *workspace,
                size_t bytes) {
    attn_layer_args_f32 args = m->args;
    attn_args_f32 lengths = ATTN_ARGS_F32_INIT;
    float y[CHUNK * D_MODEL];
    lengths.q_lens = &rows; /* of the chunk's rows so many are there */
    args.attention = &lengths;
    args.x = x + done * D_MODEL;
    args.y = y;
    if (failed("step", attn_layer_plan_run_f32(plan, &args, workspace, bytes)))
        return 1;
    for (int64_t i = 0; i < rows * D_MODEL; i++)
        in_steps[done * D_MODEL + i] = y[i];
    return 0;
}

static int in_pieces(attn_cache **cache, attn_layer_plan **plan, void **workspace) {
    attn_cache_sizes sizes = ATTN_CACHE_SIZES_INIT;
    model m;
    size_t bytes = 0;
    sizes.batch = 1;
    sizes.kv_heads = KV_HEADS;
    sizes.capacity = TOKENS;
    sizes.head_dim = sizes.v_dim = SIZE;
    if (make_model(&m, CHUNK, TOKENS) || failed("cache", attn_cache_create(NULL, &sizes, ATTN_F32, cache)) ||
        failed("plan", attn_layer_plan_create(NULL, &m.layer, ATTN_F32, plan)) ||
        failed("workspace", attn_layer_plan_workspace(*plan, &bytes)))
        return 1;
    m.args.cache = *cache;
    *workspace = malloc(bytes + ATTN_WORKSPACE_ALIGN);
    if (*workspace == NULL)
        return 1;
    char *aligned = *workspace;
    aligned += ATTN_WORKSPACE_ALIGN - (uintptr_t)aligned % ATTN_WORKSPACE_ALIGN;
    int64_t done = 0;
    while (done < TOKENS) {
        int64_t rows = done < 2 * CHUNK ? CHUNK : 1;
        if (step(&m, *plan, done, rows, aligned, bytes))
            return 1;
        done += rows;
    }
    return 0;
}

int main(void) {
    attn_cache *cache = NULL;
    attn_layer_plan *plan = NULL;
    void *workspace = NULL;
    fill(x, TOKENS * D_MODEL, 1);
    fill(w_qkv, D_MODEL * PACKED, 0.2f);
    fill(w_o, WIDTH * D_MODEL, 0.2f);
    int bad = all_at_once() || in_pieces(&cache, &plan, &workspace);
    free(workspace);
    attn_layer_plan_destroy(plan);
    attn_cache_destroy(cache);
    if (bad)
        return 1;
    double worst = 0, largest = 0;
    for (int i = 0; i < TOKENS * D_MODEL; i++) {
        double difference = fabs((double)at_once[i] - (double)in_steps[i]);
        worst = difference <= worst ? worst : difference; /* a NaN stays */
        largest = fmax(largest, fabs((double)at_once[i]));
    }
    printf("%d tokens in steps and at once: largest difference %.1e of numbers up to %.2f\n", TOKENS, worst, largest);
    return worst <= 3e-6 * largest ? 0 : 1;
}
