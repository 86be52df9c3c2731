/* Rotary positions: small numbers, both pairings against long double, tables, ids, layouts, in place, threads,
 * errors. */
#include "chain/chain_test.h"

#include <math.h>
#include <stdio.h>

/* ---- A rotation with its arrays ---------------------------------------------------------------------------------- */

static const attn_rotary_pairing pairings[] = {ATTN_ROTARY_INTERLEAVED, ATTN_ROTARY_HALF_SPLIT};

/* Elements between the rows of x and y, and between their heads and members. */
enum { PAD = 3 };

static attn_rotary make_rotary(attn_rotary_pairing pairing, int64_t batch, int64_t heads, int64_t rows,
                               int64_t head_dim, int64_t rotary_dim) {
    attn_rotary r = ATTN_ROTARY_INIT;
    r.pairing = pairing;
    r.batch = batch;
    r.heads = heads;
    r.rows = rows;
    r.head_dim = head_dim;
    r.rotary_dim = rotary_dim;
    r.base = 10000;
    /* x as [batch, heads, rows, head_dim], y as [batch, rows, heads, head_dim], both with holes */
    r.x.row = head_dim + PAD;
    r.x.head = rows * r.x.row + PAD;
    r.x.batch = heads * r.x.head + PAD;
    r.y.head = head_dim + PAD;
    r.y.row = heads * r.y.head + PAD;
    r.y.batch = rows * r.y.row + PAD;
    return r;
}

static int64_t at(attn_strides s, int64_t b, int64_t h, int64_t t) {
    return b * s.batch + h * s.head + t * s.row;
}

static int64_t extent(const attn_rotary *r, attn_strides s) {
    bool empty = r->batch == 0 || r->heads == 0 || r->rows == 0;
    return empty ? 0 : at(s, r->batch - 1, r->heads - 1, r->rows - 1) + r->head_dim;
}

#define for_each_row(r, b, h, t)                                                                                       \
    for (int64_t b = 0; b < (r)->batch; b++)                                                                           \
        for (int64_t h = 0; h < (r)->heads; h++)                                                                       \
            for (int64_t t = 0; t < (r)->rows; t++)

/* Standard normals in the rows, NaN between them. */
static real *make_x(const attn_rotary *r) {
    real *x = poisoned(extent(r, r->x));
    uint64_t n = 0;
    for_each_row(r, b, h, t) {
        support_fill_normal(REAL_DTYPE, x + at(r->x, b, h, t), r->head_dim, 1, 7, n, 1);
        n += (uint64_t)r->head_dim;
    }
    return x;
}

static real *rotated(const attn_context *context, const attn_rotary *r, const real *x, const int64_t *ids,
                     const real *cosines, const real *sines) {
    real *y = poisoned(extent(r, r->y));
    assert_ok(REAL(attn_rotary)(context, r, x, ids, cosines, sines, y));
    return y;
}

/* The elements of pair k of a row. */
static int64_t first_of(const attn_rotary *r, int64_t k) {
    return r->pairing == ATTN_ROTARY_INTERLEAVED ? 2 * k : k;
}

static int64_t second_of(const attn_rotary *r, int64_t k) {
    return r->pairing == ATTN_ROTARY_INTERLEAVED ? 2 * k + 1 : k + r->rotary_dim / 2;
}

/* ---- Against long double ----------------------------------------------------------------------------------------- */

/* Every element within the bounds that position.h states, the rest of a row bit for bit, nothing between the rows
 * written. Returns the worst error in units of its bound. */
static double check(const attn_rotary *r, const real *x, const int64_t *ids, const real *cosines, const real *sines,
                    const real *y) {
    double worst = 0;
    bool *written = calloc((size_t)extent(r, r->y) + 1, sizeof *written);
    assert_non_null(written);
    for_each_row(r, b, h, t) {
        const real *from = x + at(r->x, b, h, t), *to = y + at(r->y, b, h, t);
        int64_t position = ids != NULL ? ids[b * r->ids_batch + t] : r->start + t;
        for (int64_t c = 0; c < r->head_dim; c++)
            written[at(r->y, b, h, t) + c] = true;
        assert_same_bits(to + r->rotary_dim, from + r->rotary_dim, r->head_dim - r->rotary_dim);
        for (int64_t k = 0; k < r->rotary_dim / 2; k++) {
            long double a = from[first_of(r, k)], other = from[second_of(r, k)], cosine, sine, bound;
            if (cosines != NULL) {
                int64_t entry = b * r->table_batch + position * r->table_row + k;
                cosine = cosines[entry];
                sine = sines[entry];
                bound = EPS * (absolute(a) + absolute(other)) * fmaxl(absolute(cosine), absolute(sine));
            } else {
                long double angle =
                    (long double)position / powl(r->base, 2 * (long double)k / (long double)r->rotary_dim);
                cosine = cosl(angle);
                sine = sinl(angle);
                long double angle_error = sizeof(real) == 4 ? 2 : 5 * (1 + absolute(angle));
                bound = angle_error * EPS * (absolute(a) + absolute(other));
            }
            if (r->flags & ATTN_ROTARY_INVERSE)
                sine = -sine;
            bound *= (long double)support_valgrind_factor(REAL_DTYPE);
            long double wanted[] = {a * cosine - other * sine, other * cosine + a * sine};
            long double got[] = {to[first_of(r, k)], to[second_of(r, k)]};
            for (int i = 0; i < 2; i++) {
                assert_near(got[i], wanted[i], bound);
                worst = fmax(worst, (double)(absolute(got[i] - wanted[i]) / bound));
            }
        }
    }
    for (int64_t i = 0; i < extent(r, r->y); i++)
        if (!written[i])
            assert_untouched(y + i, 1);
    free(written);
    return worst;
}

static void test_small_numbers(void **state) {
    (void)state;
    static const double wanted[2][4] = {{-1.142639664, 1.922075597, 2.959850668, 4.029799502},
                                        {-1.984110649, 1.959900667, 2.462377902, 4.019799668}};
    const real x[] = {1, 2, 3, 4};
    for (int p = 0; p < 2; p++) {
        attn_rotary r = make_rotary(pairings[p], 1, 1, 1, 4, 4);
        r.start = 1;
        real *y = rotated(NULL, &r, x, NULL, NULL, NULL);
        for (int c = 0; c < 4; c++)
            assert_near(y[c], wanted[p][c], 0.5e-9L + (sizeof(real) == 4 ? 2 * 7 * EPS : 0));
        free(y);
    }
}

static void test_position_131071(void **state) {
    (void)state;
    const real x[] = {1, 0};
    for (int p = 0; p < 2; p++) {
        attn_rotary r = make_rotary(pairings[p], 1, 1, 1, 2, 2);
        r.start = 131071;
        real *y = rotated(NULL, &r, x, NULL, NULL, NULL);
        assert_near(y[0], -0.817983499L, 0.5e-9L + (sizeof(real) == 4 ? EPS : 0));
        assert_near(y[1], -0.575241684L, 0.5e-9L + (sizeof(real) == 4 ? EPS : 0));
        free(y);
    }
}

/* Sizes over the edges of vectors and of the pieces of 256 pairs; partial rotations; both directions. */
static void test_sizes(void **state) {
    (void)state;
    static const int64_t dims[][2] = {{1, 0},   {2, 2},   {5, 4},   {37, 14},  {64, 64},
                                      {80, 78}, {61, 60}, {130, 2}, {128, 96}, {1061, 1034}};
    double worst = 0;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < 10; i++)
            for (int inverse = 0; inverse < 2; inverse++) {
                attn_rotary r = make_rotary(pairings[p], 2, 3, 5, dims[i][0], dims[i][1]);
                r.flags = inverse ? ATTN_ROTARY_INVERSE : 0;
                r.start = 999983 * (i % 3 - 1);
                real *x = make_x(&r), *y = rotated(NULL, &r, x, NULL, NULL, NULL);
                worst = fmax(worst, check(&r, x, NULL, NULL, NULL, y));
                free(x);
                free(y);
            }
    print_message("worst error: %.3f of the bound\n", worst);
}

/* Ids of their own for each member, or one set for all; any base. */
static void test_ids(void **state) {
    (void)state;
    static const int64_t ids[] = {3, 1000000, -7, 0, 131071, 77, 2, 2, 524287, -1000000, 11};
    static const double bases[] = {10000, 500000, 1};
    for (int p = 0; p < 2; p++)
        for (int n = 0; n < 3; n++)
            for (int shared = 0; shared < 2; shared++) {
                attn_rotary r = make_rotary(pairings[p], 2, 3, 5, 23, 18);
                r.flags = ATTN_ROTARY_HAS_IDS;
                r.start = INT64_MAX; /* does not count */
                r.ids_batch = shared ? 0 : 6;
                r.base = bases[n];
                real *x = make_x(&r), *y = rotated(NULL, &r, x, ids, NULL, NULL);
                check(&r, x, ids, NULL, NULL, y);
                free(x);
                free(y);
            }
}

/* Tables of random numbers, for all members or for each, with holes between their rows. */
static void test_tables(void **state) {
    (void)state;
    enum { TABLE_ROWS = 13, ROW = 11 };
    static const int64_t ids[] = {12, 0, 7, 7, 3, 5, 1, 2, 11, 4};
    for (int p = 0; p < 2; p++)
        for (int own = 0; own < 2; own++)
            for (int way = 0; way < 4; way++) {
                attn_rotary r = make_rotary(pairings[p], 2, 3, 5, 23, 18);
                bool with_ids = way & 1;
                r.flags =
                    ATTN_ROTARY_HAS_TABLES | (with_ids ? ATTN_ROTARY_HAS_IDS : 0) | (way & 2 ? ATTN_ROTARY_INVERSE : 0);
                r.base = (double)NAN; /* does not count */
                r.start = 8;
                r.ids_batch = 5;
                r.table_rows = TABLE_ROWS;
                r.table_row = ROW;
                r.table_batch = own ? TABLE_ROWS * ROW : 0;
                int64_t entries = (own ? 2 : 1) * TABLE_ROWS;
                real *cosines = random_matrix(entries, 9, ROW, 3), *sines = random_matrix(entries, 9, ROW, 4);
                real *x = make_x(&r), *y = rotated(NULL, &r, x, with_ids ? ids : NULL, cosines, sines);
                check(&r, x, with_ids ? ids : NULL, cosines, sines, y);
                free(x);
                free(y);
                free(cosines);
                free(sines);
            }
}

/* The angles of a row, as the function itself sees them, put into tables give the same bits. */
static void test_tables_of_own_angles(void **state) {
    (void)state;
    enum { ROWS = 40, PAIRS = 33 };
    for (int p = 0; p < 2; p++) {
        attn_rotary unit = make_rotary(pairings[p], 1, 1, ROWS, 2 * PAIRS, 2 * PAIRS);
        real *x = poisoned(extent(&unit, unit.x));
        real *cosines = poisoned(ROWS * PAIRS), *sines = poisoned(ROWS * PAIRS);
        for (int64_t t = 0; t < ROWS; t++)
            for (int64_t k = 0; k < PAIRS; k++) {
                x[at(unit.x, 0, 0, t) + first_of(&unit, k)] = 1;
                x[at(unit.x, 0, 0, t) + second_of(&unit, k)] = 0;
            }
        real *y = rotated(NULL, &unit, x, NULL, NULL, NULL);
        for (int64_t t = 0; t < ROWS; t++)
            for (int64_t k = 0; k < PAIRS; k++) {
                cosines[t * PAIRS + k] = y[at(unit.y, 0, 0, t) + first_of(&unit, k)];
                sines[t * PAIRS + k] = y[at(unit.y, 0, 0, t) + second_of(&unit, k)];
            }
        free(x);
        free(y);
        attn_rotary r = make_rotary(pairings[p], 2, 3, 17, 2 * PAIRS + 3, 2 * PAIRS);
        r.start = ROWS - 17;
        x = make_x(&r);
        real *angles = rotated(NULL, &r, x, NULL, NULL, NULL);
        r.flags = ATTN_ROTARY_HAS_TABLES;
        r.table_rows = ROWS;
        r.table_row = PAIRS;
        real *tables = rotated(NULL, &r, x, NULL, cosines, sines);
        assert_same_bits(angles, tables, extent(&r, r.y));
        free(x);
        free(angles);
        free(tables);
        free(cosines);
        free(sines);
    }
}

/* ---- Properties -------------------------------------------------------------------------------------------------- */

static void test_in_place(void **state) {
    (void)state;
    static const int64_t dims[][2] = {{64, 64}, {37, 26}, {5, 0}, {1061, 1034}};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < 4; i++) {
            attn_rotary r = make_rotary(pairings[p], 2, 3, 5, dims[i][0], dims[i][1]);
            r.y = r.x;
            real *x = make_x(&r), *y = rotated(NULL, &r, x, NULL, NULL, NULL);
            assert_ok(REAL(attn_rotary)(NULL, &r, x, NULL, NULL, NULL, x));
            assert_same_bits(x, y, extent(&r, r.x));
            free(x);
            free(y);
        }
}

static void test_inverse_undoes(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        attn_rotary r = make_rotary(pairings[p], 2, 2, 7, 40, 38);
        r.y = r.x;
        r.start = 131071;
        real *x = make_x(&r), *y = rotated(NULL, &r, x, NULL, NULL, NULL);
        r.flags = ATTN_ROTARY_INVERSE;
        assert_ok(REAL(attn_rotary)(NULL, &r, y, NULL, NULL, NULL, y));
        for_each_row(&r, b, h, t) for (int64_t c = 0; c < r.head_dim; c++)
            assert_near(y[at(r.y, b, h, t) + c], x[at(r.x, b, h, t) + c], 40 * EPS);
        free(x);
        free(y);
    }
}

/* A query at p and a key at j: their product depends on p - j. */
static void test_products_depend_on_distance(void **state) {
    (void)state;
    enum { DIM = 32 };
    real *q = random_numbers(DIM, 1), *k = random_numbers(DIM, 2);
    for (int p = 0; p < 2; p++) {
        long double first = 0;
        for (int64_t shift = 0; shift < 2000; shift += 391) {
            attn_rotary r = make_rotary(pairings[p], 1, 1, 1, DIM, DIM);
            r.start = shift + 19;
            real *turned_q = rotated(NULL, &r, q, NULL, NULL, NULL);
            r.start = shift + 5;
            real *turned_k = rotated(NULL, &r, k, NULL, NULL, NULL);
            long double product = 0;
            for (int c = 0; c < DIM; c++)
                product += (long double)turned_q[c] * turned_k[c];
            if (shift == 0)
                first = product;
            assert_near(product, first, 100 * EPS * (sizeof(real) == 4 ? 1 : 2000));
            free(turned_q);
            free(turned_k);
        }
    }
    free(q);
    free(k);
}

/* The last row alone, in one head, has the bits it has among many: blocks, heads and threads do not matter. */
static void test_bits(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 4, 64};
    for (int p = 0; p < 2; p++) {
        attn_rotary r = make_rotary(pairings[p], 2, 3, 301, 131, 122);
        r.start = 5000;
        attn_context one = threads_context(1);
        real *x = make_x(&r), *y = rotated(&one, &r, x, NULL, NULL, NULL);
        for (int i = 0; i < 4; i++) {
            attn_context context = threads_context(threads[i]);
            real *other = rotated(&context, &r, x, NULL, NULL, NULL);
            assert_same_bits(other, y, extent(&r, r.y));
            free(other);
        }
        attn_rotary last = make_rotary(pairings[p], 1, 1, 1, 131, 122);
        last.start = 5300;
        real *alone = rotated(NULL, &last, x + at(r.x, 1, 2, 300), NULL, NULL, NULL);
        assert_same_bits(alone, y + at(r.y, 1, 2, 300), 131);
        free(x);
        free(y);
        free(alone);
    }
}

/* NaN and Inf stay in their pair, payloads of the rest survive. */
static void test_nan_stays_in_its_pair(void **state) {
    (void)state;
    for (int p = 0; p < 2; p++) {
        attn_rotary r = make_rotary(pairings[p], 1, 1, 1, 40, 34);
        r.start = 3;
        real *x = make_x(&r), *clean = rotated(NULL, &r, x, NULL, NULL, NULL);
        x[first_of(&r, 4)] = (real)NAN;
        x[second_of(&r, 9)] = (real)INFINITY;
        memset(x + 36, 0xff, sizeof *x);
        real *y = rotated(NULL, &r, x, NULL, NULL, NULL);
        for (int64_t k = 0; k < 17; k++) {
            real a = y[first_of(&r, k)], b = y[second_of(&r, k)];
            if (k == 4)
                assert_true(isnan(a) && isnan(b));
            else if (k == 9)
                assert_true(!isfinite(a) && !isfinite(b));
            else
                assert_true(a == clean[first_of(&r, k)] && b == clean[second_of(&r, k)]);
        }
        assert_same_bits(y + 34, x + 34, 6);
        free(x);
        free(y);
        free(clean);
    }
}

static void test_huge_positions(void **state) {
    (void)state;
    static const int64_t starts[] = {INT64_MIN, -(INT64_C(1) << 40), (INT64_C(1) << 31) - 1, INT64_MAX - 2};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < 4; i++) {
            attn_rotary r = make_rotary(pairings[p], 1, 1, 3, 20, 20);
            r.start = starts[i];
            real *x = make_x(&r), *y = rotated(NULL, &r, x, NULL, NULL, NULL);
            for (int64_t t = 0; t < 3; t++)
                for (int64_t k = 0; k < 10; k++) {
                    const real *from = x + at(r.x, 0, 0, t), *to = y + at(r.y, 0, 0, t);
                    long double before = hypotl(from[first_of(&r, k)], from[second_of(&r, k)]);
                    assert_near(hypotl(to[first_of(&r, k)], to[second_of(&r, k)]), before, 8 * EPS * before);
                }
            free(x);
            free(y);
        }
}

static void test_sizes_of_0(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        attn_rotary r = make_rotary(ATTN_ROTARY_HALF_SPLIT, i != 0, i != 1, i != 2, 8, 8);
        assert_ok(REAL(attn_rotary)(NULL, &r, NULL, NULL, NULL, NULL, NULL));
        r.flags = ATTN_ROTARY_HAS_TABLES;
        r.table_rows = i == 1; /* no head, but one position */
        r.table_row = 4;
        real table[4] = {0};
        assert_ok(REAL(attn_rotary)(NULL, &r, NULL, NULL, i == 1 ? table : NULL, i == 1 ? table : NULL, NULL));
    }
}

/* One array for all members and heads. */
static void test_broadcast_input(void **state) {
    (void)state;
    attn_rotary r = make_rotary(ATTN_ROTARY_INTERLEAVED, 2, 3, 5, 22, 20);
    r.x.batch = r.x.head = 0;
    real *x = make_x(&r), *y = rotated(NULL, &r, x, NULL, NULL, NULL);
    check(&r, x, NULL, NULL, NULL, y);
    free(x);
    free(y);
}

static void test_allocates_nothing(void **state) {
    (void)state;
    counting_allocator allocator = {.fail_at = -1};
    attn_context context = counting_context(&allocator);
    attn_rotary r = make_rotary(ATTN_ROTARY_INTERLEAVED, 2, 3, 5, 1061, 1060);
    real *x = make_x(&r), *y = rotated(&context, &r, x, NULL, NULL, NULL);
    assert_int_equal(allocator.calls, 0);
    free(x);
    free(y);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

enum { ELEMENTS = 512 };
static real input[ELEMENTS], output[ELEMENTS], tables[ELEMENTS];
static const int64_t good_ids[] = {0, 1, 2, 3, 3, 2, 1, 0};
static const int64_t bad_ids[] = {0, 1, 2, 3, 3, 4, 1, 0}, negative_ids[] = {0, 1, -1, 3, 3, 2, 1, 0};

/* Changes one thing of a good call (2 members, 3 heads, 4 rows of 8, tables of 4 positions) and expects the
 * sentence. */
#define REFUSED(status, sentence, change)                                                                              \
    do {                                                                                                               \
        attn_rotary r = ATTN_ROTARY_INIT;                                                                              \
        r.flags = ATTN_ROTARY_HAS_IDS | ATTN_ROTARY_HAS_TABLES;                                                        \
        r.pairing = ATTN_ROTARY_HALF_SPLIT;                                                                            \
        r.batch = 2, r.heads = 3, r.rows = 4, r.head_dim = 8, r.rotary_dim = 6, r.base = 10000;                        \
        r.x = r.y = (attn_strides){96, 32, 8};                                                                         \
        r.ids_batch = 4, r.table_rows = 4, r.table_row = 3;                                                            \
        const real *x = input, *cosines = tables, *sines = tables + 100;                                               \
        real *y = output;                                                                                              \
        const int64_t *ids = good_ids;                                                                                 \
        memset(output, 0xff, sizeof output);                                                                           \
        change;                                                                                                        \
        assert_refused(status, sentence, REAL(attn_rotary)(NULL, &r, x, ids, cosines, sines, y));                      \
        assert_untouched(output, ELEMENTS);                                                                            \
    } while (0)

#define SPAN " its sizes and strides span more than the address space"
#define HUGE_STRIDE (INT64_MAX / 2)

static void test_errors(void **state) {
    (void)state;
    REFUSED(ATTN_ERR_FLAG, "pairing 0 is neither ATTN_ROTARY_INTERLEAVED nor ATTN_ROTARY_HALF_SPLIT",
            r.pairing = (attn_rotary_pairing)0);
    REFUSED(ATTN_ERR_FLAG, "pairing 3 is neither ATTN_ROTARY_INTERLEAVED nor ATTN_ROTARY_HALF_SPLIT",
            r.pairing = (attn_rotary_pairing)3);
    REFUSED(ATTN_ERR_FLAG, "flags: 0x8 is unknown", r.flags |= 8);
    REFUSED(ATTN_ERR_SIZE, "batch -1 is below 0", r.batch = -1);
    REFUSED(ATTN_ERR_SIZE, "heads -1 is below 0", r.heads = -1);
    REFUSED(ATTN_ERR_SIZE, "rows -1 is below 0", r.rows = -1);
    REFUSED(ATTN_ERR_SIZE, "head_dim 0 is below 1", r.head_dim = 0);
    REFUSED(ATTN_ERR_SIZE, "rotary_dim -2 is below 0", r.rotary_dim = -2);
    REFUSED(ATTN_ERR_SIZE, "rotary_dim 5 is odd", r.rotary_dim = 5);
    REFUSED(ATTN_ERR_SIZE, "rotary_dim 10 is above head_dim 8", r.rotary_dim = 10);
    REFUSED(ATTN_ERR_SIZE, "table_rows -1 is below 0", r.table_rows = -1);
    REFUSED(ATTN_ERR_VALUE, "base 0 is not finite and positive",
            (r.flags = ATTN_ROTARY_HAS_IDS, r.base = 0, cosines = sines = NULL));
    REFUSED(ATTN_ERR_VALUE, "base inf is not finite and positive",
            (r.flags = 0, r.base = (double)INFINITY, ids = NULL, cosines = sines = NULL));
    REFUSED(ATTN_ERR_OVERFLOW, "start 9223372036854775805: the last of 4 positions is no int64",
            (r.flags = 0, r.start = INT64_MAX - 2, ids = NULL, cosines = sines = NULL));
    REFUSED(ATTN_ERR_NULL, "x is NULL", x = NULL);
    REFUSED(ATTN_ERR_NULL, "y is NULL", y = NULL);
    REFUSED(ATTN_ERR_NULL, "ATTN_ROTARY_HAS_IDS is set, but ids is NULL", ids = NULL);
    REFUSED(ATTN_ERR_NULL, "ATTN_ROTARY_HAS_TABLES is set, but cosines is NULL", cosines = NULL);
    REFUSED(ATTN_ERR_NULL, "ATTN_ROTARY_HAS_TABLES is set, but sines is NULL", sines = NULL);
    REFUSED(ATTN_ERR_FLAG, "ids is given without ATTN_ROTARY_HAS_IDS", r.flags = ATTN_ROTARY_HAS_TABLES);
    REFUSED(ATTN_ERR_FLAG, "cosines is given without ATTN_ROTARY_HAS_TABLES", r.flags = ATTN_ROTARY_HAS_IDS);
    REFUSED(ATTN_ERR_FLAG, "sines is given without ATTN_ROTARY_HAS_TABLES",
            (r.flags = ATTN_ROTARY_HAS_IDS, cosines = NULL));
    REFUSED(ATTN_ERR_STRIDE, "x: row stride 7 is below the row size 8", r.x.row = 7);
    REFUSED(ATTN_ERR_STRIDE, "y: row stride 7 is below the row size 8", r.y.row = 7);
    REFUSED(ATTN_ERR_STRIDE, "y: head stride -1 is negative", r.y.head = -1);
    REFUSED(ATTN_ERR_STRIDE, "y: a stride of 31 makes its elements overlap, at least 32 is needed", r.y.head = 31);
    REFUSED(ATTN_ERR_STRIDE, "ids: batch stride -1 is negative", r.ids_batch = -1);
    REFUSED(ATTN_ERR_STRIDE, "cosines: row stride 2 is below the row size 3", r.table_row = 2);
    REFUSED(ATTN_ERR_STRIDE, "cosines: batch stride -1 is negative", r.table_batch = -1);
    REFUSED(ATTN_ERR_OVERFLOW, "x:" SPAN, r.x.batch = HUGE_STRIDE);
    REFUSED(ATTN_ERR_OVERFLOW, "cosines:" SPAN, r.table_batch = HUGE_STRIDE);
    REFUSED(ATTN_ERR_ID, "ids[1][1] 4 is no row of a table with table_rows 4", ids = bad_ids);
    REFUSED(ATTN_ERR_ID, "ids[0][2] -1 is no row of a table with table_rows 4", ids = negative_ids);
    REFUSED(ATTN_ERR_ID, "positions 1 to 4 are not all rows of a table with table_rows 4",
            (r.flags = ATTN_ROTARY_HAS_TABLES, r.start = 1, ids = NULL));
    REFUSED(ATTN_ERR_ID, "positions -1 to 2 are not all rows of a table with table_rows 4",
            (r.flags = ATTN_ROTARY_HAS_TABLES, r.start = -1, ids = NULL));
    REFUSED(ATTN_ERR_ID, "positions 0 to 3 are not all rows of a table with table_rows 0",
            (r.flags = ATTN_ROTARY_HAS_TABLES, r.table_rows = 0, ids = NULL));
    REFUSED(ATTN_ERR_OVERLAP, "y starts where x starts", (x = output, r.x.head = 40));
    REFUSED(ATTN_ERR_OVERLAP, "y overlaps x", x = output + 8);
    REFUSED(ATTN_ERR_OVERLAP, "y starts where cosines starts", cosines = output);
    REFUSED(ATTN_ERR_OVERLAP, "y overlaps sines", sines = output + 100);
    REFUSED(ATTN_ERR_STRUCT_SIZE, "attn_rotary: struct_size 8 is below the first version's 160", r.struct_size = 8);
    REFUSED(ATTN_ERR_STRUCT_SIZE, "attn_rotary: struct_size 168 is above this library's 160", r.struct_size += 8);
    assert_refused(ATTN_ERR_NULL, "rotary is NULL", REAL(attn_rotary)(NULL, NULL, input, NULL, NULL, NULL, output));
    assert_refused(ATTN_ERR_NULL, "attn_rotary is NULL", attn_rotary_init(NULL, sizeof(attn_rotary)));
    attn_rotary r;
    memset(&r, 0xff, sizeof r);
    assert_ok(attn_rotary_init(&r, sizeof r));
    assert_true(r.struct_size == sizeof r && r.pairing == 0 && r.flags == 0 && r.table_batch == 0);
    attn_context context = threads_context(-1);
    assert_refused(ATTN_ERR_VALUE, "context: threads -1 is below 0 (0 = the default number)",
                   REAL(attn_rotary)(&context, &r, input, NULL, NULL, NULL, output));
}

int main(void) {
    const char *isa = getenv("ATTN_MAX_ISA");
    if (isa != NULL && strcmp(isa, attn_isa_name(attn_isa_in_use())) != 0) {
        printf("skipped: ATTN_MAX_ISA is %s, but the best that is here is %s\n", isa, attn_isa_name(attn_isa_in_use()));
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_numbers),
        cmocka_unit_test(test_position_131071),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_tables_of_own_angles),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_inverse_undoes),
        cmocka_unit_test(test_products_depend_on_distance),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_nan_stays_in_its_pair),
        cmocka_unit_test(test_huge_positions),
        cmocka_unit_test(test_sizes_of_0),
        cmocka_unit_test(test_broadcast_input),
        cmocka_unit_test(test_allocates_nothing),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
