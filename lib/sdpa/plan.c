/* Plans: engine, tiles and workspace, decided once. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "blas/blas.h"
#include "kernels/parts.h"
#include "sdpa/plan.h"

/* TINY: 2-core Xeon (Sapphire Rapids), 2026-11-30, a program that times plans of one engine after the other; LADDER.md,
 * "Short members". FEW_SCORES and FEW_ELEMENTS: 2-core EPYC (Zen 4), the same day, the second table of few queries
 * there. MANY_ROWS and
 * MANY_SCORES: 2-core Xeon (Emerald Rapids), the same day, the table after that. CHUNKED_QUERIES to KEYS_PER_QUERY:
 * 2-core EPYC (Zen 4), the same day, "Tiles whose keys are in chunks". The others are reasoned, not measured. */
enum {
    TINY = 320,               /* queries x keys x head size, up to which the plain loops are ahead of everything */
    FEW_QUERIES = 8,          /* up to here own loops wait for K and V as a product would */
    FEW_KEYS = 32,            /* up to 32 x 32 scores the calls cost more than the products */
    FEW_SCORES = 8192,        /* of a chunk of keys, all heads of the group together, */
    FEW_ELEMENTS = 262144,    /* and of its K: some 70 microseconds from memory, and little is left to merge */
    FEW_CHUNK = 256,          /* keys, the least and the unit */
    MANY_ROWS = 32,           /* of a key head with few queries: from here on Q is transposed */
    MANY_KEYS = 64,           /* which takes as long as the scores of some keys, */
    MANY_SCORES = 16384,      /* so that their chunks are longer */
    NAIVE_BLOCK_ROWS = 64,    /* without tiles a block only shares out the work */
    LEAST_FLOPS = 1000000,    /* for a thread: some 20 microseconds, a few times what starting it costs */
    BLOCKS_PER_THREAD = 8,    /* so that no thread waits long for the last one */
    CHUNKED_QUERIES = 1024,   /* with tiles: up to here keys are in chunks */
    TILES_CHUNK = 1024,       /* keys of them, the least, */
    KEYS_PER_QUERY = 4,       /* and the least for each query, so that merging takes less than a hundredth */
    MOST_CHUNKS = 16,         /* of a row, */
    MOST_CHUNK_ROWS = 4096,   /* and of all rows together: their outputs are kept until all are done */
    CHUNKS_PER_THREAD = 4,    /* pieces of work that are alike need not be as many */
    THREAD_BYTES = 2 << 20,   /* the workspace of a thread, of which chunks take what is left */
    OTHER_BYTES = 384 * 1024, /* by what few queries take, 128 KiB three times, or by maxima and sums of many rows */
};

static int64_t group_of(const attn_problem *problem) {
    return problem->kv_heads > 0 ? problem->q_heads / problem->kv_heads : 0;
}

/* True when so many rows read each key that their scores come from a transposed Q. All rows count, not those of a piece
 * of work, which follow the threads. Double and generic kernels, of fewer lanes, are faster without. */
static bool many_rows(const attn_plan *plan, int64_t q_len, int64_t kv_len) {
    int64_t rows = attn_mul_saturated(group_of(&plan->problem), q_len);
    return q_len <= FEW_QUERIES && rows >= MANY_ROWS && kv_len >= MANY_KEYS && plan->dtype == ATTN_F32 &&
           attn_isa_in_use() != ATTN_ISA_GENERIC;
}

/* Keys of a chunk, for all rows that read a key head and not for those of a piece of work, which follow the threads. */
static int64_t few_chunk(const attn_plan *plan, int64_t q_len) {
    const attn_problem *p = &plan->problem;
    int64_t rows = attn_larger(attn_mul_saturated(group_of(p), q_len), 1);
    int64_t widest = attn_larger(attn_larger(p->head_dim, p->v_dim), 1);
    int64_t scores = many_rows(plan, q_len, MANY_KEYS) ? MANY_SCORES : FEW_SCORES;
    int64_t keys = attn_smaller(scores / rows, FEW_ELEMENTS / widest);
    return attn_larger(keys / FEW_CHUNK, 1) * FEW_CHUNK;
}

/* Keys of a chunk for a member that takes tiles, of which it has several alike; all keys where one is enough. */
static int64_t tiles_chunk(const attn_plan *plan, int64_t q_len, int64_t kv_len) {
    if (q_len > CHUNKED_QUERIES || kv_len < 2 * TILES_CHUNK)
        return INT64_MAX;
    int64_t chunks = kv_len / attn_larger(TILES_CHUNK, KEYS_PER_QUERY * q_len);
    chunks = attn_smaller(chunks, attn_smaller(MOST_CHUNKS, MOST_CHUNK_ROWS / attn_larger(q_len, 1)));
    if (chunks <= 1)
        return INT64_MAX;
    return attn_blocks_of(attn_blocks_of(kv_len, chunks), plan->shape.keys) * plan->shape.keys;
}

/* The most chunks that few queries of this plan see. A window sees as many keys as it is long, but not from where a
 * chunk begins. */
static int64_t most_few_chunks(const attn_plan *plan) {
    attn_member longest = attn_member_of(&plan->problem, 0, &(attn_lengths){0});
    int64_t size = few_chunk(plan, longest.q_len);
    int64_t fewer =
        (MANY_ROWS - 1) / attn_larger(group_of(&plan->problem), 1); /* queries whose chunks may be shorter */
    if (fewer > 0 && fewer < longest.q_len)
        size = attn_smaller(size, few_chunk(plan, fewer));
    int64_t all = attn_blocks_of(plan->problem.kv_len, size);
    if (longest.left < 0 || longest.right < 0)
        return all;
    int64_t seen = attn_add_saturated(attn_add_saturated(longest.left, longest.right), longest.q_len);
    return attn_smaller(all, attn_add_saturated(attn_blocks_of(seen, size), 1));
}

static bool few_queries(int64_t q_len, int64_t kv_len) {
    return q_len <= FEW_QUERIES || (q_len <= FEW_KEYS && kv_len <= FEW_KEYS);
}

static bool tiny(const attn_plan *plan, int64_t q_len, int64_t kv_len) {
    int64_t widest = attn_larger(attn_larger(plan->problem.head_dim, plan->problem.v_dim), 1);
    return few_queries(q_len, kv_len) && attn_mul_saturated(attn_mul_saturated(q_len, kv_len), widest) <= TINY;
}

attn_share attn_share_of(const attn_plan *plan, const attn_member *member) {
    attn_share share = {
        .few_queries = few_queries(member->q_len, member->kv_len),
        .tiny = tiny(plan, member->q_len, member->kv_len),
        .heads = plan->block_heads,
        .rows = plan->block_rows,
        .tile_rows = plan->shape.rows,
        .tile_keys = plan->shape.keys,
        .chunk_keys = INT64_MAX,
    };
    if (member->kv_len <= plan->shape.keys)
        share.tile_rows = plan->shape.short_rows;
    if (share.few_queries && !share.tiny) { /* divisions are a fifth of a tiny member's time */
        share.many_rows = many_rows(plan, member->q_len, member->kv_len);
        int64_t room = share.heads * attn_smaller(share.rows, plan->problem.q_len);
        share.rows = share.tile_rows = attn_larger(member->q_len, 1);
        share.tile_keys = share.chunk_keys = few_chunk(plan, member->q_len);
        share.heads =
            attn_smaller(group_of(&plan->problem), attn_larger(attn_smaller(room, ATTN_FEW_ROWS) / share.rows, 1));
    }
    if (!share.few_queries)
        share.chunk_keys = tiles_chunk(plan, member->q_len, member->kv_len);
    return share;
}

static int64_t bytes_of_real(const attn_plan *plan) {
    return plan->dtype == ATTN_F32 ? sizeof(float) : sizeof(double);
}

/* Rows of all heads that a block has at most, when no member has more queries than this. */
static int64_t most_rows(const attn_plan *plan, int64_t q_len) {
    q_len = attn_smaller(q_len, plan->problem.q_len);
    return attn_larger(plan->block_heads * attn_smaller(plan->block_rows, q_len), attn_smaller(FEW_KEYS, q_len));
}

/* Rows of all heads that a block has at most where keys are in chunks; 0 where they never are. */
static int64_t most_chunk_rows(const attn_plan *plan) {
    const attn_problem *p = &plan->problem;
    if (p->q_len > FEW_QUERIES && p->kv_len >= 2 * TILES_CHUNK)
        return most_rows(plan, CHUNKED_QUERIES);
    return most_few_chunks(plan) > 1 ? attn_smaller(most_rows(plan, p->q_len), ATTN_FEW_ROWS) : 0;
}

/* Chunks of tiles that members with so many queries see at full length. */
static int64_t chunks_of_tiles(const attn_plan *plan, int64_t q_len) {
    const attn_problem *p = &plan->problem;
    attn_member longest = attn_member_of(p, 0, &(attn_lengths){0});
    return attn_chunks_in(attn_block_keys(&longest, 0, p->q_len), tiles_chunk(plan, q_len, p->kv_len));
}

/* What Q of a block takes that is made dense or in parts, of which each head begins with a tile. */
static int64_t bytes_of_queries(const attn_plan *plan, int64_t rows) {
    int64_t head_dim = plan->problem.head_dim;
    if (plan->shape.parts)
        return attn_parts_bytes(rows + plan->block_heads * ATTN_PARTS_SIDE, head_dim);
    return plan->queries_packed ? attn_mul_saturated(attn_mul_saturated(rows, head_dim), bytes_of_real(plan)) : 0;
}

static int64_t bytes_of_weight_parts(const attn_plan *plan) {
    return plan->shape.parts ? attn_parts_bytes(plan->shape.rows, plan->shape.keys) : 0;
}

/* What shared chunks may take for each thread, so that all but K and V of a tile stays below THREAD_BYTES. */
static int64_t room_for_chunks(const attn_plan *plan) {
    const attn_problem *p = &plan->problem;
    int64_t rows = most_rows(plan, p->q_len);
    /* output of a block and the same beside it; values without NaN and Inf; a tile of scores */
    int64_t outputs = attn_mul_saturated(2 * rows, p->v_dim);
    int64_t clean = attn_mul_saturated(attn_larger(plan->shape.keys, ATTN_FEW_CLEAN_KEYS), p->v_dim);
    int64_t elements = attn_add_saturated(attn_add_saturated(outputs, clean), plan->shape.rows * plan->shape.keys);
    int64_t others = attn_add_saturated(attn_mul_saturated(elements, bytes_of_real(plan)), OTHER_BYTES);
    others = attn_add_saturated(others, bytes_of_queries(plan, rows));
    return attn_larger(THREAD_BYTES - attn_add_saturated(others, bytes_of_weight_parts(plan)), 0);
}

/* Where blocks are too few for the threads their keys are shared out in chunks: those of all blocks or, so that these
 * have room, of the last ones. */
static void share_out_keys(attn_plan *plan, int64_t blocks) {
    const attn_problem *p = &plan->problem;
    int64_t threads = plan->resources.threads;
    plan->chunks = 1;
    plan->shared_blocks = plan->shared_rows = 0;
    if (plan->engine == ATTN_ENGINE_FUSED && !plan->plain_loops && threads > 1 && blocks > 0 &&
        blocks < threads * BLOCKS_PER_THREAD) {
        int64_t chunks, rows, shared = blocks;
        if (p->q_len <= FEW_QUERIES) {
            chunks = most_few_chunks(plan);
            rows = attn_mul_saturated(chunks, most_chunk_rows(plan));
        } else {
            /* members with fewer queries have more chunks, which have room as long as there are as many rows of them */
            chunks = chunks_of_tiles(plan, p->q_len);
            rows = attn_larger(chunks * most_rows(plan, p->q_len),
                               chunks_of_tiles(plan, FEW_QUERIES + 1) * most_rows(plan, MOST_CHUNK_ROWS / MOST_CHUNKS));
            int64_t bytes =
                attn_mul_saturated(attn_mul_saturated(rows, attn_add_saturated(p->v_dim, 2)), bytes_of_real(plan));
            shared = attn_smaller(blocks, threads * room_for_chunks(plan) / attn_larger(bytes, 1));
        }
        /* whole blocks keep all threads at work */
        if (chunks > 1 && shared > 0 && shared >= blocks % threads) {
            plan->chunks = chunks;
            plan->shared_blocks = shared;
            plan->shared_rows = rows;
        }
    }
    plan->whole_blocks = blocks - plan->shared_blocks;
    plan->tasks = attn_add_saturated(plan->whole_blocks, attn_mul_saturated(plan->shared_blocks, plan->chunks));
}

/* Blocks of rows and of heads: large, since a block reads K and V once, but enough of them for all threads. Short
 * sequences put several heads into a block; long keys of few queries are shared out first. */
static void choose_blocks(attn_plan *plan) {
    const attn_problem *p = &plan->problem;
    int64_t group = group_of(p);
    /* few queries wait for memory: the fewer pieces read a key the better */
    int64_t threads = plan->resources.threads;
    int64_t enough = threads * (p->q_len <= FEW_QUERIES ? 1 : BLOCKS_PER_THREAD);
    int64_t members = attn_mul_saturated(p->batch, p->kv_heads);
    int64_t unit = plan->shape.rows;
    bool fused = plan->engine == ATTN_ENGINE_FUSED && !plan->plain_loops;
    if (!fused) {
        plan->block_heads = 1;
        plan->block_rows = plan->engine == ATTN_ENGINE_BLAS ? p->q_len : NAIVE_BLOCK_ROWS;
    } else {
        int64_t tiles = attn_blocks_of(p->q_len, unit), blocks = attn_blocks_of(p->q_len, plan->shape.block_rows);
        plan->block_rows = attn_mul_saturated(attn_blocks_of(tiles, attn_larger(blocks, 1)), unit); /* alike */
        /* not more heads than a member with few queries may have in a piece of work */
        plan->block_heads = attn_larger(
            attn_smaller(plan->shape.block_rows / attn_larger(p->q_len, 1),
                         attn_smaller(group, ATTN_FEW_ROWS / attn_larger(attn_smaller(p->q_len, FEW_KEYS), 1))),
            1);
    }
    for (;;) {
        int64_t blocks = p->q_len > 0 ? attn_blocks_of(p->q_len, plan->block_rows) : 0;
        plan->blocks_per_head = attn_mul_saturated(attn_blocks_of(group, plan->block_heads), blocks);
        share_out_keys(plan, attn_mul_saturated(members, plan->blocks_per_head));
        if (!fused || threads == 1 || plan->tasks >= enough ||
            (plan->shared_blocks > 0 && (plan->tasks % threads == 0 || plan->tasks >= threads * CHUNKS_PER_THREAD)))
            break;
        if (plan->block_heads > 1)
            plan->block_heads = (plan->block_heads + 1) / 2;
        else if (plan->block_rows > unit)
            plan->block_rows = (plan->block_rows / unit + 1) / 2 * unit;
        else
            break;
    }
}

/* ---- Workspace and work ---- */

static void book_naive(attn_plan *plan, int64_t real_bytes) {
    plan->pieces.keys =
        attn_ledger_book(&plan->ledger, "visible keys of a row", plan->problem.kv_len, sizeof(int64_t), plan->workers);
    plan->pieces.scores =
        attn_ledger_book(&plan->ledger, "scores of a row", plan->problem.kv_len, real_bytes, plan->workers);
}

static void book_blas(attn_plan *plan, int64_t real_bytes) {
    const attn_problem *p = &plan->problem;
    plan->pieces.scores = attn_ledger_book(&plan->ledger, "scores of a head", attn_mul_saturated(p->q_len, p->kv_len),
                                           real_bytes, plan->workers);
    plan->pieces.clean_values = attn_ledger_book(&plan->ledger, "values of a head without NaN and Inf",
                                                 attn_mul_saturated(p->kv_len, p->v_dim), real_bytes, plan->workers);
}

/* Q, K, V and weights for products that pack nothing: as the matrix unit has them, or dense where they are not. */
static void book_packed(attn_plan *plan, int64_t rows) {
    const attn_problem *p = &plan->problem;
    const attn_tile_shape *shape = &plan->shape;
    attn_ledger *ledger = &plan->ledger;
    bool parts = shape->parts;
    int64_t keys = 0, values = 0;
    if (parts) {
        keys = attn_parts_bytes(shape->keys, p->head_dim);
        values = attn_parts_bytes(p->v_dim, shape->keys);
    } else if (shape->packed) {
        int64_t bytes = bytes_of_real(plan);
        keys = attn_mul_saturated(attn_mul_saturated(shape->keys + shape->keys_gap, p->head_dim), bytes);
        values = attn_mul_saturated(attn_mul_saturated(shape->keys, p->v_dim), bytes);
    }
    plan->pieces.packed_queries =
        attn_ledger_book(ledger, parts ? "queries of a block, in parts" : "queries of a block, dense",
                         bytes_of_queries(plan, rows), 1, plan->workers);
    plan->pieces.packed_keys = attn_ledger_book(
        ledger, parts ? "keys of a tile, in parts" : "keys of a tile, transposed", keys, 1, plan->workers);
    plan->pieces.packed_values = attn_ledger_book(
        ledger, parts ? "values of a tile, in parts" : "values of a tile, dense", values, 1, plan->workers);
    plan->pieces.weight_parts =
        attn_ledger_book(ledger, "weights of a tile, in parts", bytes_of_weight_parts(plan), 1, plan->workers);
    plan->pieces.wild = attn_ledger_book(ledger, "queries and keys that parts are not for",
                                         parts ? rows + shape->keys : 0, 1, plan->workers);
}

/* Enough for every path at every length: a block has at most as many rows over all its heads as at full length. */
static void book_fused(attn_plan *plan, int64_t real_bytes) {
    const attn_problem *p = &plan->problem;
    const attn_tile_shape *shape = &plan->shape;
    int64_t rows = most_rows(plan, p->q_len), few_rows = attn_smaller(rows, ATTN_FEW_ROWS);
    int64_t few_scores =
        attn_smaller(attn_larger(MANY_SCORES, few_rows * FEW_CHUNK), attn_mul_saturated(few_rows, p->kv_len));
    int64_t scores =
        attn_larger(attn_smaller(shape->rows, p->q_len) * attn_smaller(shape->keys, p->kv_len), few_scores);
    int64_t keys = attn_smaller(attn_larger(shape->keys, ATTN_FEW_CLEAN_KEYS), p->kv_len);
    attn_ledger *ledger = &plan->ledger;
    plan->pieces.scores = attn_ledger_book(ledger, "scores of a tile", scores, real_bytes, plan->workers);
    plan->pieces.keys = attn_ledger_book(ledger, "visible keys of a row of few scores", attn_smaller(TINY, p->kv_len),
                                         sizeof(int64_t), plan->workers);
    book_packed(plan, rows);
    int64_t many = many_rows(plan, attn_smaller(p->q_len, FEW_QUERIES), p->kv_len) ? few_rows : 0;
    plan->pieces.queries_transposed = attn_ledger_book(
        ledger, "queries of few, transposed", attn_mul_saturated(many, p->head_dim), real_bytes, plan->workers);
    plan->pieces.strip = attn_ledger_book(ledger, "scores of a strip of keys",
                                          attn_mul_saturated(many, attn_larger(ATTN_STRIP_KEYS, p->head_dim)),
                                          real_bytes, plan->workers);
    plan->pieces.output =
        attn_ledger_book(ledger, "output of a block", attn_mul_saturated(rows, p->v_dim), real_bytes, plan->workers);
    plan->pieces.row_max = attn_ledger_book(ledger, "row maxima", rows, real_bytes, plan->workers);
    plan->pieces.row_sum = attn_ledger_book(ledger, "row sums", rows, real_bytes, plan->workers);
    plan->pieces.rescale = attn_ledger_book(ledger, "row factors", rows, real_bytes, plan->workers);
    int64_t state = attn_add_saturated(p->v_dim, 2);
    plan->pieces.beside = attn_ledger_book(ledger, "output, maxima and sums of a chunk of keys",
                                           attn_mul_saturated(most_chunk_rows(plan), state), real_bytes, plan->workers);
    plan->pieces.chunks =
        attn_ledger_book(ledger, "the same of chunks that are shared out", attn_mul_saturated(plan->shared_rows, state),
                         real_bytes, plan->shared_blocks);
    plan->pieces.chunks_done = attn_ledger_book(ledger, "numbers of chunks done", plan->shared_blocks, sizeof(int64_t),
                                                plan->shared_blocks > 0);
    plan->pieces.clean_values = attn_ledger_book(ledger, "values of a tile without NaN and Inf",
                                                 attn_mul_saturated(keys, p->v_dim), real_bytes, plan->workers);
}

/* Sizes that go to CBLAS as they are. Longer sequences are cut into tiles by fused; a head of blas is not cut. */
static attn_status check_blas_integers(const attn_plan *plan) {
    const attn_problem *p = &plan->problem;
    ATTN_TRY(attn_check_fits_blas("head_dim", "", p->head_dim));
    ATTN_TRY(attn_check_fits_blas("v_dim", "", p->v_dim));
    ATTN_TRY(attn_check_fits_blas("q", ": row stride", attn_used_stride(p->q_len, p->q.row, 0)));
    ATTN_TRY(attn_check_fits_blas("k", ": row stride", attn_used_stride(p->kv_len, p->k.row, 0)));
    ATTN_TRY(attn_check_fits_blas("v", ": row stride", attn_used_stride(p->kv_len, p->v.row, 0)));
    if (plan->engine != ATTN_ENGINE_BLAS)
        return ATTN_OK;
    ATTN_TRY(attn_check_fits_blas("out", ": row stride", attn_used_stride(p->q_len, p->out.row, 0)));
    ATTN_TRY(attn_check_fits_blas("q_len", "", p->q_len));
    return attn_check_fits_blas("kv_len", "", p->kv_len);
}

/* Threads that have enough to do at full length. */
static int64_t useful_workers(const attn_plan *plan) {
    const attn_problem *p = &plan->problem;
    attn_member longest = attn_member_of(p, 0, &(attn_lengths){0});
    double flops = 2 * attn_visible_pairs(&longest) * (double)p->batch * (double)p->q_heads *
                   ((double)p->head_dim + (double)p->v_dim);
    double useful = 1 + flops / LEAST_FLOPS;
    return useful < INT32_MAX ? (int64_t)useful : INT32_MAX;
}

static void choose_engine(attn_plan *plan) {
    plan->engine = plan->problem.engine;
    plan->engine_reason = "asked for";
    if (plan->engine == ATTN_ENGINE_AUTO) {
        bool whole = (plan->problem.flags & ATTN_WANT_ANY) != 0;
        plan->engine = whole ? ATTN_ENGINE_BLAS : ATTN_ENGINE_FUSED;
        plan->engine_reason = whole ? "scores or weights are asked for" : "no scores or weights are asked for";
    }
}

/* A number of the problem in the precision of the plan. */
static attn_status round_to_dtype(const char *name, double value, attn_dtype dtype, double *rounded) {
    if (dtype == ATTN_F32 && fabs(value) > (double)FLT_MAX)
        return attn_fail(ATTN_ERR_VALUE, "%s %g does not fit float", name, value);
    *rounded = dtype == ATTN_F32 ? (double)(float)value : value;
    return ATTN_OK;
}

attn_status attn_plan_prepare(attn_plan *plan, const attn_context *context, const attn_problem *problem,
                              attn_dtype dtype) {
    memset(plan, 0, sizeof *plan);
    if (dtype != ATTN_F32 && dtype != ATTN_F64)
        return attn_fail(ATTN_ERR_DTYPE, "dtype %d is none", (int)dtype);
    ATTN_TRY(attn_check_problem(problem, &plan->problem));
    ATTN_TRY(attn_resolve_context(context, &plan->resources));
    plan->dtype = dtype;
    const attn_problem *p = &plan->problem;
    ATTN_TRY(round_to_dtype("scale", attn_problem_scale(p), dtype, &plan->scale));
    if ((p->flags & ATTN_HAS_SOFTCAP) != 0 && p->softcap > 0) {
        ATTN_TRY(round_to_dtype("softcap", p->softcap, dtype, &plan->softcap));
        if (plan->softcap == 0)
            return attn_fail(ATTN_ERR_VALUE, "softcap %g is 0 in float", p->softcap);
    }
    choose_engine(plan);
    plan->edited = plan->softcap > 0 || (p->flags & (ATTN_HAS_MASK | ATTN_HAS_BIAS | ATTN_HAS_ALIBI)) != 0;
    plan->shape = attn_shape_tiles(p->head_dim, p->v_dim, dtype);
    /* a single tile of keys reads Q once, as copying it would */
    plan->queries_packed =
        plan->shape.packed && !plan->shape.parts && p->q.row != p->head_dim && p->kv_len > plan->shape.keys;
    plan->plain_loops =
        plan->engine == ATTN_ENGINE_NAIVE || (plan->engine == ATTN_ENGINE_FUSED && tiny(plan, p->q_len, p->kv_len));
    choose_blocks(plan);
    if (plan->engine == ATTN_ENGINE_FUSED) {
        attn_member longest = attn_member_of(p, 0, &(attn_lengths){0});
        plan->longest_share = attn_share_of(plan, &longest);
    }
    if (plan->tasks == INT64_MAX)
        return attn_fail(ATTN_ERR_OVERFLOW, "batch, heads and lengths make more than 2^63 blocks of work");
    if (plan->engine != ATTN_ENGINE_NAIVE && plan->tasks > 0 && p->kv_len > 0) {
        ATTN_TRY(attn_blas_check());
        ATTN_TRY(check_blas_integers(plan));
    }
    plan->workers = (int)attn_smaller(plan->resources.threads, plan->tasks);
    bool threads_asked_for = context != NULL && context->threads > 0;
    if (!threads_asked_for)
        plan->workers = (int)attn_smaller(plan->workers, useful_workers(plan));
    int64_t real_bytes = bytes_of_real(plan);
    if (plan->plain_loops)
        book_naive(plan, real_bytes);
    else if (plan->engine == ATTN_ENGINE_BLAS)
        book_blas(plan, real_bytes);
    else
        book_fused(plan, real_bytes);
    if (plan->ledger.overflow)
        return attn_fail(ATTN_ERR_OVERFLOW, "the workspace of these sizes does not fit the address space");
    return ATTN_OK;
}

/* ---- Public ---- */

attn_status attn_plan_create(const attn_context *context, const attn_problem *problem, attn_dtype dtype,
                             attn_plan **plan) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    attn_plan prepared;
    ATTN_TRY(attn_plan_prepare(&prepared, context, problem, dtype));
    attn_plan *made = attn_allocate(&prepared.resources, sizeof *made);
    if (made == NULL)
        return attn_fail(ATTN_ERR_NOMEM, "the allocator has no %zu bytes for a plan", sizeof *made);
    *made = prepared;
    *plan = made;
    return ATTN_OK;
}

void attn_plan_destroy(attn_plan *plan) {
    if (plan == NULL)
        return;
    attn_resources resources = plan->resources;
    attn_release(&resources, plan, sizeof *plan);
}

attn_status attn_plan_workspace(const attn_plan *plan, size_t *bytes) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    if (bytes == NULL)
        return attn_fail(ATTN_ERR_NULL, "bytes is NULL");
    *bytes = (size_t)plan->ledger.bytes;
    return ATTN_OK;
}

attn_status attn_check_workspace(const attn_ledger *ledger, const void *workspace, size_t workspace_bytes) {
    if (workspace == NULL)
        return ATTN_OK;
    if (workspace_bytes < (size_t)ledger->bytes)
        return attn_fail(ATTN_ERR_WORKSPACE, "workspace_bytes %zu is below the %" PRId64 " that this plan needs",
                         workspace_bytes, ledger->bytes);
    if ((uintptr_t)workspace % ATTN_WORKSPACE_ALIGN != 0)
        return attn_fail(ATTN_ERR_WORKSPACE, "workspace %p is not aligned to %d", workspace, ATTN_WORKSPACE_ALIGN);
    return ATTN_OK;
}

static void describe_fused(const attn_plan *plan, attn_text *out) {
    const attn_problem *p = &plan->problem;
    attn_share share = plan->longest_share;
    if (share.tiny) {
        attn_add_text(out, "path: plain loops (q_len x kv_len x head size at most %d)\n", TINY);
        return; /* they know neither tiles nor blocks */
    }
    if (!share.few_queries)
        attn_add_text(out, "path: tiles (q_len above %d), %s\n", FEW_QUERIES,
                      plan->shape.parts ? "products by the matrix unit (AMX)" : attn_multiply_way());
    else if (p->q_len <= FEW_QUERIES)
        attn_add_text(out, "path: few queries, own loops (q_len at most %d)\n", FEW_QUERIES);
    else
        attn_add_text(out, "path: few queries, own loops (both lengths at most %d)\n", FEW_KEYS);
    attn_add_text(out, "%s: %" PRId64 " queries x %" PRId64 " keys", share.few_queries ? "chunk" : "tile",
                  attn_smaller(share.tile_rows, p->q_len), attn_smaller(share.tile_keys, p->kv_len));
    if (!share.few_queries)
        attn_add_text(out, " (%s)\npacking: %s%s", plan->shape.reason,
                      plan->shape.parts    ? "Q, K, V and weights in parts of bfloat16, three for each float"
                      : plan->shape.packed ? "K transposed and V dense, a tile at a time"
                                           : "none",
                      plan->queries_packed ? "; Q dense, a block at a time" : "");
    if (!share.few_queries && share.chunk_keys < p->kv_len)
        attn_add_text(out, "\nchunk: %" PRId64 " keys", share.chunk_keys);
    if (plan->shared_blocks > 0)
        attn_add_text(out, ", shared out to the threads");
    if (plan->shared_blocks > 0 && plan->whole_blocks > 0)
        attn_add_text(out, " (of the last %" PRId64 " of %" PRId64 " blocks)", plan->shared_blocks,
                      plan->whole_blocks + plan->shared_blocks);
    if (share.many_rows)
        attn_add_text(out, "\npacking: Q transposed (%d rows or more of a key head)", MANY_ROWS);
    attn_add_text(out, "\nblock that reads K and V once: %" PRId64 " heads x %" PRId64 " queries\n", share.heads,
                  attn_smaller(share.rows, p->q_len));
}

/* The options that are on, by the names of their flags. */
static void describe_options(const attn_plan *plan, attn_text *out) {
    static const struct {
        uint64_t flag;
        const char *name;
    } options[] = {
        {ATTN_CAUSAL, "causal"},
        {ATTN_HAS_WINDOW, "window"},
        {ATTN_HAS_SOFTCAP, "softcap"},
        {ATTN_HAS_MASK, "mask"},
        {ATTN_HAS_BIAS, "bias"},
        {ATTN_HAS_ALIBI, "alibi"},
        {ATTN_HAS_SINK, "sink"},
        {ATTN_RAGGED, "ragged"},
        {ATTN_WANT_SCORES, "scores"},
        {ATTN_WANT_CAPPED, "capped scores"},
        {ATTN_WANT_MASKED, "masked scores"},
        {ATTN_WANT_WEIGHTS, "weights"},
    };
    static const char *const alignments[] = {"top left", "bottom right", "offset"};
    attn_add_text(out, "options: scale %g, %s", plan->scale, alignments[plan->problem.alignment]);
    if (plan->problem.alignment == ATTN_ALIGN_OFFSET)
        attn_add_text(out, " %" PRId64, plan->problem.offset);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if ((plan->problem.flags & options[i].flag) != 0)
            attn_add_text(out, ", %s", options[i].name);
    attn_add_text(out, "\n");
}

attn_status attn_plan_describe(const attn_plan *plan, char *text, size_t size, size_t *needed) {
    if (plan == NULL)
        return attn_fail(ATTN_ERR_NULL, "plan is NULL");
    if (text == NULL && size > 0)
        return attn_fail(ATTN_ERR_NULL, "text is NULL with a size of %zu", size);
    static const char *const engines[] = {"auto", "naive", "blas", "fused"};
    const attn_problem *p = &plan->problem;
    attn_text out = {text, size, 0};
    attn_add_text(&out,
                  "problem: batch %" PRId64 ", q_heads %" PRId64 ", kv_heads %" PRId64 ", q_len %" PRId64
                  ", kv_len %" PRId64 ", head_dim %" PRId64 ", v_dim %" PRId64 ", %s\n",
                  p->batch, p->q_heads, p->kv_heads, p->q_len, p->kv_len, p->head_dim, p->v_dim,
                  plan->dtype == ATTN_F32 ? "float" : "double");
    describe_options(plan, &out);
    attn_add_text(&out, "library: %s\n", attn_version_string());
    if (attn_blas_falls_short())
        attn_add_text(&out, "advice: %s\n", attn_blas_advice());
    attn_add_text(&out, "engine: %s (%s)\n", engines[plan->engine], plan->engine_reason);
    if (plan->engine == ATTN_ENGINE_FUSED)
        describe_fused(plan, &out);
    attn_add_text(&out, "threads: %d of %d, %" PRId64 " pieces of work\n", plan->workers, plan->resources.threads,
                  plan->tasks);
    attn_add_text(&out, "workspace: %" PRId64 " bytes\n", plan->ledger.bytes);
    for (int i = 0; i < plan->ledger.pieces; i++)
        if (!attn_ledger_is_empty(&plan->ledger, i))
            attn_add_text(&out, "workspace of %s: %" PRId64 " x %" PRId64 " bytes\n", plan->ledger.piece[i].name,
                          plan->ledger.piece[i].copies, plan->ledger.piece[i].bytes);
    if (needed != NULL)
        *needed = out.used + 1;
    return ATTN_OK;
}
