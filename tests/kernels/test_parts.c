/* Products by the matrix unit: split_rows, split_values, split_keys, multiply_parts. Against long double, and to the
 * bit where a product is exact. */
#include <sys/mman.h>

#include "kernel_test.h"

enum { MOST = 100 };

typedef struct parts_size {
    int64_t rows, cols, k, skip_terms, skip_cols;
} parts_size;

static const REAL(attn_kernels) * kernels_of_parts(void) {
    const REAL(attn_kernels) *kernels = REAL(attn_kernels_of)(ATTN_ISA_AMX);
    if (!kernels) {
        print_message("skipped: this CPU or build has no matrix unit (or ATTN_MAX_ISA is below it)\n");
        skip();
    }
    return kernels;
}

/* Room for parts before memory that cannot be read: sanitizers do not see what tiles load. Poisoned, since what is not
 * written must not matter. */
typedef struct parts_room {
    void *parts, *map;
    size_t size;
} parts_room;

static parts_room room_for(int64_t rows, int64_t k) {
    const size_t page = 4096, bytes = (size_t)attn_parts_bytes(rows, k), pages = (bytes + page - 1) / page * page;
    parts_room room = {.size = pages + page};
    room.map = mmap(NULL, room.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room.map, MAP_FAILED);
    assert_int_equal(mprotect((char *)room.map + pages, page, PROT_NONE), 0);
    room.parts = (char *)room.map + pages - bytes;
    memset(room.parts, 0xff, bytes);
    return room;
}

static void leave_room(parts_room room) {
    munmap(room.map, room.size);
}

/* y = x w, or more than that with add, w as it is or given by its transpose. */
static void multiply(const REAL(attn_kernels) * kernels, parts_size s, bool from_keys, bool add, real scale,
                     const real *x, const real *w, int64_t ldw, real *y, int64_t ldy) {
    parts_room left = room_for(s.rows, s.skip_terms + s.k);
    parts_room right = room_for(s.skip_cols + s.cols, s.skip_terms + s.k);
    uint8_t wild[MOST];
    int64_t blocks = attn_parts_blocks(s.skip_terms + s.k);
    kernels->split_rows(s.rows, s.k, s.skip_terms, scale, x, s.k, left.parts, scale == 1 ? NULL : wild);
    if (from_keys)
        kernels->split_keys(s.cols, s.k, s.skip_cols, w, ldw, right.parts, wild);
    else
        kernels->split_values(s.k, s.cols, s.skip_terms, w, ldw, right.parts);
    kernels->parts_begin();
    attn_parts_product product = {.left = left.parts,
                                  .right = right.parts,
                                  .rows = s.rows,
                                  .cols = s.cols,
                                  .blocks = blocks,
                                  .skip = s.skip_cols,
                                  .right_blocks = blocks,
                                  .y = y,
                                  .ldy = ldy,
                                  .add = add};
    kernels->multiply_parts(&product);
    kernels->parts_end();
    leave_room(left);
    leave_room(right);
}

/* The sum of the magnitudes of its terms is what a result is measured by: one term is off by less than two roundings,
 * and each of the unit's sums by one more. */
static void check_product(const REAL(attn_kernels) * kernels, parts_size s, bool from_keys, bool add, real scale) {
    int64_t ldw = (from_keys ? s.k : s.cols) + 3, ldy = s.cols + 2, w_rows = from_keys ? s.cols : s.k;
    real *x = normals(s.rows * s.k, 1, 1, 0), *w = normals(w_rows * ldw, 2, 1, 0);
    real *y = add ? normals(s.rows * ldy, 3, 1, 0) : poisoned(s.rows * ldy), *before = copied(y, s.rows * ldy);
    multiply(kernels, s, from_keys, add, scale, x, w, ldw, y, ldy);
    long double roundings = s.k <= 1 && !add ? 3 : 20 + 6 * (long double)attn_parts_blocks(s.k + s.skip_terms);
    for (int64_t i = 0; i < s.rows; i++) {
        for (int64_t j = 0; j < s.cols; j++) {
            long double sum = add ? before[i * ldy + j] : 0, size = fabsl(sum);
            for (int64_t c = 0; c < s.k; c++) {
                long double term = (long double)scale * x[i * s.k + c] * w[from_keys ? j * ldw + c : c * ldw + j];
                sum += term;
                size += fabsl(term);
            }
            check_near("y", i * s.cols + j, y[i * ldy + j], sum, roundings * 0x1p-24L * size);
        }
        assert_true(same_bits(y + i * ldy + s.cols, before + i * ldy + s.cols, ldy - s.cols));
    }
    free(x);
    free(w);
    free(y);
    free(before);
}

static void test_products(void **state) {
    (void)state;
    const REAL(attn_kernels) *kernels = kernels_of_parts();
    static const int64_t rows[] = {1, 15, 16, 17, 31, 32, 33, 50}, cols[] = {1, 5, 16, 17, 32, 47, 64};
    static const int64_t terms[] = {0, 1, 2, 31, 32, 33, 64, 97};
    int64_t n = 0;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (size_t k = 0; k < sizeof terms / sizeof *terms; k++, n++) {
                parts_size s = {rows[r], cols[c], terms[k], n % 4 == 0 ? 0 : n * 7 % 32, 0};
                check_product(kernels, s, false, n % 3 == 0, 1);
                s.skip_terms = 0;
                s.skip_cols = n % 4 == 1 ? 0 : n * 5 % 16;
                check_product(kernels, s, true, n % 3 == 1, n % 2 == 0 ? 1 : (real)0.0883883461);
            }
}

/* Three parts hold every float whose last bit is above 2^-126, the largest too. */
static void test_exact(void **state) {
    (void)state;
    const REAL(attn_kernels) *kernels = kernels_of_parts();
    static const real some[] = {0,          1,           -1,       FLT_MAX, -FLT_MAX, 0x1.fep127F, 0x1.ff8p127F,
                                0x1.ffp-1F, 0x1.ff8p55F, 0x1p-126F};
    enum { COUNT = 4096 };
    real *x = poisoned(COUNT), *y = poisoned(COUNT), one = 1;
    for (int i = 0; i < COUNT; i++) {
        if (i < (int)(sizeof some / sizeof *some)) {
            x[i] = some[i];
            continue;
        }
        double mantissa = 1 + floor(support_random_uniform(SEED, 5, (uint64_t)i) * 0x1p23) * 0x1p-23;
        x[i] = (real)ldexp(i % 2 ? mantissa : -mantissa, i % 220 - 100);
    }
    for (int i = 0; i < COUNT; i += 64)
        multiply(kernels, (parts_size){1, 64, 1, 0, 0}, false, false, 1, &one, x + i, 64, y + i, 64);
    for (int i = 0; i < COUNT; i++)
        if (y[i] != x[i])
            fail_msg("%a became %a", (double)x[i], (double)y[i]);
    /* the left factor, of what is not wild */
    for (int i = 0; i < COUNT; i++)
        if (fabsf(x[i]) < 0x1p56F) {
            real got;
            multiply(kernels, (parts_size){1, 1, 1, 0, 0}, false, false, 1, x + i, &one, 1, &got, 1);
            if (got != x[i])
                fail_msg("%a became %a", (double)x[i], (double)got);
        }
    free(x);
    free(y);
}

static real from_float_bits(uint32_t bits) {
    real x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void test_wild(void **state) {
    (void)state;
    const REAL(attn_kernels) *kernels = kernels_of_parts();
    static const struct {
        uint32_t bits;
        bool wild;
    } cases[] = {
        {0, false},          {0x80000000, false}, {1, false},         {0x3f800000, false}, {0x5b7fffff, false},
        {0xdb7fffff, false}, {0x5b800000, true},  {0xdb800000, true}, {0x7f7fffff, true},  {0x7f800000, true},
        {0xff800000, true},  {0x7f800001, true},  {0x7fffffff, true}, {0xffffffff, true},  {0xffc00000, true},
    };
    enum { ROWS = 37, K = 45 };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (int64_t skip = 0; skip < 16; skip += 5) {
            real *x = normals(ROWS * K, 7, 1, 0);
            int64_t row = (int64_t)(n * 11 + (size_t)skip) % ROWS, c = (int64_t)(n * 17) % K;
            x[row * K + c] = from_float_bits(cases[n].bits);
            uint8_t rows[ROWS], keys[ROWS];
            memset(rows, 7, sizeof rows);
            memset(keys, 7, sizeof keys);
            parts_room left = room_for(ROWS, K), right = room_for(skip + ROWS, K);
            kernels->split_rows(ROWS, K, 0, 1, x, K, left.parts, rows);
            kernels->split_keys(ROWS, K, skip, x, K, right.parts, keys);
            for (int64_t i = 0; i < ROWS; i++) {
                assert_int_equal(rows[i], i == row && cases[n].wild);
                assert_int_equal(keys[i], i == row && cases[n].wild);
            }
            /* by the scale too */
            kernels->split_rows(ROWS, K, 0, 0x1p56F, x, K, left.parts, rows);
            for (int64_t i = 0; i < ROWS; i++) {
                bool large = false;
                for (int64_t j = 0; j < K; j++)
                    large |= !(fabsf(x[i * K + j]) < 1);
                assert_int_equal(rows[i], large);
            }
            leave_room(left);
            leave_room(right);
            free(x);
        }
}

/* A weight of 0 too makes NaN of a value that is not finite; columns beside it are as without it. */
static void test_nonfinite_values(void **state) {
    (void)state;
    const REAL(attn_kernels) *kernels = kernels_of_parts();
    static const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff, 0xffffffff};
    parts_size s = {20, 37, 70, 13, 0};
    real *weights = normals(s.rows * s.k, 1, 1, 0), *w = normals(s.k * s.cols, 2, 1, 0);
    real *clean = poisoned(s.rows * s.cols), *y = poisoned(s.rows * s.cols);
    for (size_t n = 0; n < sizeof bits / sizeof *bits; n++) {
        int64_t term = (int64_t)n * 11 % s.k, column = (int64_t)n * 5 % s.cols;
        weights[3 * s.k + term] = 0;
        real kept = w[term * s.cols + column];
        multiply(kernels, s, false, false, 1, weights, w, s.cols, clean, s.cols);
        w[term * s.cols + column] = from_float_bits(bits[n]);
        multiply(kernels, s, false, false, 1, weights, w, s.cols, y, s.cols);
        for (int64_t i = 0; i < s.rows; i++)
            for (int64_t j = 0; j < s.cols; j++) {
                int64_t at = i * s.cols + j;
                if (j == column)
                    assert_false(isfinite(y[at]));
                else
                    assert_true(same_bits(y + at, clean + at, 1));
            }
        w[term * s.cols + column] = kept;
    }
    free(weights);
    free(w);
    free(clean);
    free(y);
}

/* A row's bits are its own, whatever other rows and columns are there and however many terms of 0 and blocks behind. */
static void test_bits(void **state) {
    (void)state;
    const REAL(attn_kernels) *kernels = kernels_of_parts();
    enum { ROWS = 53, COLS = 45, K = 96, FIRST = 32, TERMS = 40 };
    real *x = normals(ROWS * K, 1, 1, 0), *w = normals(K * COLS, 2, 1, 0), *y = poisoned(ROWS * COLS);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t c = 0; c < K; c++)
            if (c < FIRST || c >= FIRST + TERMS)
                x[i * K + c] = 0;
    multiply(kernels, (parts_size){ROWS, COLS, K, 0, 0}, false, false, 1, x, w, COLS, y, COLS);
    parts_room right = room_for(COLS, K), left = room_for(1, TERMS);
    kernels->split_values(K, COLS, 0, w, COLS, right.parts);
    kernels->parts_begin();
    for (int64_t i = 0; i < ROWS; i++) {
        real row[COLS];
        kernels->split_rows(1, TERMS, 0, 1, x + i * K + FIRST, K, left.parts, NULL);
        attn_parts_product product = {.left = left.parts,
                                      .right = (char *)right.parts + ATTN_PARTS_BLOCK_BYTES,
                                      .rows = 1,
                                      .cols = COLS,
                                      .blocks = 2,
                                      .right_blocks = 3,
                                      .y = row,
                                      .ldy = COLS};
        kernels->multiply_parts(&product);
        assert_true(same_bits(row, y + i * COLS, COLS));
    }
    kernels->parts_end();
    leave_room(left);
    leave_room(right);
    free(x);
    free(w);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),         cmocka_unit_test(test_exact), cmocka_unit_test(test_wild),
        cmocka_unit_test(test_nonfinite_values), cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests_name("kernels of parts", tests, NULL, NULL);
}
