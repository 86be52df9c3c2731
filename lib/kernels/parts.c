/* Kernels of parts: products of floats by the matrix unit of AMX, which multiplies numbers of bfloat16 and adds them up
 * in float.
 *
 * A float is the sum of three such numbers, of eight bits each: x = x1 + x2 + x3, each the nearest to what is left. Of
 * the nine products of x w the six largest are made,
 *
 *   x w = x1 w1 + x1 w2 + x2 w1 + x2 w2 + x1 w3 + x3 w1 + rest,  |rest| < 2^-24 |x w|,
 *
 * no more than rounding a product to float may change. Each is exact; they are added in float, in an order that is the
 * same for every result. The unit takes what is smaller than the normal floats, 2^-126, for 0, and results too.
 *
 * Parts are kept as the unit loads them, in tiles of 1 KiB, three for every 16 x 32 elements: of the left factor 16
 * rows x 32 terms, of the right one 16 columns x 32 terms, in which each row of the tile holds two terms of each
 * column. Behind the last term both are 0.
 *
 * There are 16 times as many multiplications a cycle as by multiply-add, of which six are needed.
 */
#include <string.h>

#include "kernels/simd.h"

#if ATTN_REAL_BITS != 32
#error "the matrix unit adds in float"
#endif

enum {
    SIDE = ATTN_PARTS_SIDE,   /* rows or columns of a tile */
    TERMS = ATTN_PARTS_TERMS, /* of a tile */
    PARTS = 3,
    TILE = SIDE * TERMS,  /* numbers of bfloat16 */
    ROW_BYTES = 64,       /* of a tile */
    BLOCK = PARTS * TILE, /* of terms */
};

typedef uint16_t bfloat;

/* ---- A vector of floats in parts ---- */

typedef struct split_vec {
    __m512 part[PARTS]; /* numbers of bfloat16 as floats; the last one may have more digits, which are cut off */
} split_vec;

INLINE __m512 high_half(__m512i x) {
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)));
}

/* To the nearest of eight bits. NaN may become anything here: what is left of it is NaN, up to the last part. */
INLINE __m512 rounded(__m512 x) {
    return high_half(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)));
}

/* x with a first part that is next to it. */
INLINE split_vec split_from(__m512 first, __m512 x) {
    __m512 left = x - first, second = rounded(left);
    return (split_vec){{first, second, left - second}}; /* the third is of eight bits by itself */
}

INLINE split_vec split(__m512 x) {
    return split_from(rounded(x), x);
}

/* Of the largest numbers too, which would be rounded to infinity. */
INLINE split_vec split_any(__m512 x) {
    __m512i bits = _mm512_castps_si512(x);
    __mmask16 largest =
        _mm512_cmpeq_epi32_mask(_mm512_and_si512(bits, _mm512_set1_epi32(0x7fff0000)), _mm512_set1_epi32(0x7f7f0000));
    return split_from(_mm512_mask_mov_ps(rounded(x), largest, high_half(bits)), x);
}

/* factor * x, as if it were not rounded. */
INLINE split_vec split_product(__m512 factor, __m512 x) {
    __m512 product = factor * x;
    split_vec s = split(product);
    s.part[2] = rounded(s.part[2] + _mm512_fmsub_ps(factor, x, product));
    return s;
}

/* The larger of the magnitudes of each element, as bits; NaN is larger than all. */
INLINE __m512i larger_magnitude(__m512i most, __m512 x) {
    return _mm512_max_epu32(most, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}

INLINE __mmask16 is_wild(__m512i magnitude) {
    return _mm512_cmpge_epu32_mask(magnitude, _mm512_castps_si512(_mm512_set1_ps(ATTN_PARTS_LARGE)));
}

/* The first n of a vector's elements, n any number, and those from begin to end-1. */
INLINE __mmask16 first_elements(int64_t n) {
    return n >= SIDE ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}
INLINE __mmask16 elements_between(int64_t begin, int64_t end) {
    return (__mmask16)(first_elements(end) & ~first_elements(begin));
}

/* x + n, as a number: it may be outside of the array, where masks read nothing. */
INLINE const float *address(const float *x, int64_t n) {
    return (const float *)((uintptr_t)x + (uintptr_t)(n * (int64_t)sizeof *x));
}

/* ---- The left factor ---- */

/* Two vectors to a row of a tile of each part: the upper halves of their elements. */
INLINE void store_left(split_vec a, split_vec b, __m512i odd_words, bfloat *to) {
    for (int p = 0; p < PARTS; p++)
        _mm512_store_si512(to + p * TILE, _mm512_permutex2var_epi16(_mm512_castps_si512(a.part[p]), odd_words,
                                                                    _mm512_castps_si512(b.part[p])));
}

INLINE __m512i odd_words(void) {
    const __m512i pair = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    /* a pair of words is 4 * pair + 1 and 4 * pair + 3 */
    return _mm512_add_epi32(_mm512_mullo_epi32(pair, _mm512_set1_epi32(0x40004)), _mm512_set1_epi32(0x30001));
}

void KERNEL(split_rows)(int64_t rows, int64_t k, int64_t skip, float scale, const float *x, int64_t ldx, void *parts,
                        uint8_t *wild) {
    const __m512i words = odd_words();
    const __m512 factor = _mm512_set1_ps(scale);
    int64_t blocks = attn_parts_blocks(skip + k);
    for (int64_t i = 0; i < rows; i++, x += ldx) {
        bfloat *to = (bfloat *)parts + i / SIDE * blocks * BLOCK + i % SIDE * TERMS;
        __m512i most = _mm512_setzero_si512();
        for (int64_t c = -skip; c < k; c += TERMS, to += BLOCK) {
            __m512 a, b;
            if (c >= 0 && c + TERMS <= k) {
                a = _mm512_loadu_ps(x + c);
                b = _mm512_loadu_ps(x + c + SIDE);
            } else {
                a = _mm512_maskz_loadu_ps(elements_between(-c, k - c), address(x, c));
                b = _mm512_maskz_loadu_ps(elements_between(-c - SIDE, k - c - SIDE), address(x, c + SIDE));
            }
            if (wild != NULL) {
                most = larger_magnitude(larger_magnitude(most, factor * a), factor * b);
                store_left(split_product(factor, a), split_product(factor, b), words, to);
            } else {
                store_left(split(a), split(b), words, to);
            }
        }
        if (wild != NULL)
            wild[i] = is_wild(most) != 0;
    }
}

/* ---- The right factor ---- */

/* Two terms of 16 columns to a row of a tile of each part. */
INLINE void store_right(split_vec first, split_vec second, bfloat *to) {
    for (int p = 0; p < PARTS; p++) {
        __m512i low = _mm512_srli_epi32(_mm512_castps_si512(first.part[p]), 16);
        _mm512_store_si512(to + p * TILE, _mm512_mask_mov_epi16(low, 0xaaaaaaaa, _mm512_castps_si512(second.part[p])));
    }
}

void KERNEL(split_values)(int64_t k, int64_t cols, int64_t skip, const float *w, int64_t ldw, void *parts) {
    bfloat *to = parts;
    for (int64_t j = 0; j < cols; j += SIDE) {
        __mmask16 some = first_elements(cols - j);
        for (int64_t c = -skip; c < k; c += TERMS, to += (PARTS - 1) * TILE)
            for (int64_t term = c; term < c + TERMS; term += 2, to += TERMS) {
                __mmask16 here = term >= 0 && term < k ? some : 0;
                __mmask16 next = term + 1 >= 0 && term + 1 < k ? some : 0;
                store_right(split_any(_mm512_maskz_loadu_ps(here, address(w, term * ldw + j))),
                            split_any(_mm512_maskz_loadu_ps(next, address(w, (term + 1) * ldw + j))), to);
            }
    }
}

void KERNEL(split_keys)(int64_t cols, int64_t k, int64_t skip, const float *w, int64_t ldw, void *parts,
                        uint8_t *wild) {
    bfloat *to = parts;
    for (int64_t j = -skip; j < cols; j += SIDE) {
        int64_t begin = j < 0 ? 0 : j, end = j + SIDE < cols ? j + SIDE : cols;
        __m512i most = _mm512_setzero_si512();
        for (int64_t c = 0; c < k; c += TERMS, to += (PARTS - 1) * TILE) {
            float terms[TERMS][SIDE] __attribute__((aligned(64)));
            int64_t depth = k - c < TERMS ? k - c : TERMS;
            if (depth < TERMS || end - begin < SIDE)
                memset(terms, 0, sizeof terms);
            KERNEL_OF(transpose, avx512)(end - begin, depth, w + begin * ldw + c, ldw, &terms[0][begin - j], SIDE);
            for (int t = 0; t < TERMS; t += 2, to += TERMS) {
                __m512 first = _mm512_load_ps(terms[t]), second = _mm512_load_ps(terms[t + 1]);
                most = larger_magnitude(larger_magnitude(most, first), second);
                store_right(split(first), split(second), to);
            }
        }
        __mmask16 mask = is_wild(most);
        for (int64_t key = begin; key < end; key++)
            wild[key] = mask >> (key - j) & 1;
    }
}

/* ---- Products ---- */

/* The compilers' intrinsics do not say which memory they read and write: gcc 12 leaves out what nobody else reads. */
INLINE void memory_as_it_is(void) {
    __asm__ volatile("" ::: "memory");
}

void KERNEL(parts_begin)(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } __attribute__((aligned(64))) config = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        config.row_bytes[tile] = ROW_BYTES;
        config.rows[tile] = SIDE;
    }
    __asm__ volatile("" ::"r"(&config) : "memory"); /* all of it is read, which the intrinsic does not say */
    _tile_loadconfig(&config);
}

void KERNEL(parts_end)(void) {
    _tile_release();
}

/* Tiles 0 to 3 are results, high x wide of them; 4 and 5 parts of the left factor, 6 and 7 of the right one. high and
 * wide are constants at every call. */
INLINE void load_left(int high, const bfloat *part, int64_t group) {
    _tile_loadd(4, part, ROW_BYTES);
    if (high > 1)
        _tile_loadd(5, part + group, ROW_BYTES);
}

INLINE void load_right(int wide, const bfloat *part, int64_t group) {
    _tile_loadd(6, part, ROW_BYTES);
    if (wide > 1)
        _tile_loadd(7, part + group, ROW_BYTES);
}

INLINE void add_products(int high, int wide) {
    _tile_dpbf16ps(0, 4, 6);
    if (wide > 1)
        _tile_dpbf16ps(1, 4, 7);
    if (high > 1)
        _tile_dpbf16ps(2, 5, 6);
    if (high > 1 && wide > 1)
        _tile_dpbf16ps(3, 5, 7);
}

/* y, whole tiles of it. The largest product last, and of one number's parts the smallest first, so that a product with
 * 1 is exact; each product differs from the one before in one part, which spares loads. */
INLINE void multiply_tiles(int high, int wide, const attn_parts_product *p, const bfloat *left, const bfloat *right,
                           float *y, int64_t ldy) {
    const int64_t left_group = p->blocks * BLOCK, right_group = p->right_blocks * BLOCK;
    const int64_t row = ldy * (int64_t)sizeof *y;
    float *below = y + SIDE * ldy;
    memory_as_it_is();
    if (p->add) {
        _tile_loadd(0, y, row);
        if (wide > 1)
            _tile_loadd(1, y + SIDE, row);
        if (high > 1)
            _tile_loadd(2, below, row);
        if (high > 1 && wide > 1)
            _tile_loadd(3, below + SIDE, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t b = 0; b < p->blocks; b++, left += BLOCK, right += BLOCK) {
        load_left(high, left, left_group);
        load_right(wide, right + 2 * TILE, right_group);
        add_products(high, wide);
        load_right(wide, right + TILE, right_group);
        add_products(high, wide);
        load_left(high, left + TILE, left_group);
        add_products(high, wide);
        load_right(wide, right, right_group);
        add_products(high, wide);
        load_left(high, left + 2 * TILE, left_group);
        add_products(high, wide);
        load_left(high, left, left_group);
        add_products(high, wide);
    }
    _tile_stored(0, y, row);
    if (wide > 1)
        _tile_stored(1, y + SIDE, row);
    if (high > 1)
        _tile_stored(2, below, row);
    if (high > 1 && wide > 1)
        _tile_stored(3, below + SIDE, row);
    memory_as_it_is();
}

static __attribute__((noinline)) void multiply_some(bool high, bool wide, const attn_parts_product *p,
                                                    const bfloat *left, const bfloat *right, float *y, int64_t ldy) {
    if (high && wide)
        multiply_tiles(2, 2, p, left, right, y, ldy);
    else if (high)
        multiply_tiles(2, 1, p, left, right, y, ldy);
    else if (wide)
        multiply_tiles(1, 2, p, left, right, y, ldy);
    else
        multiply_tiles(1, 1, p, left, right, y, ldy);
}

/* Rows and columns that are no whole tiles, by a copy: `height` rows, columns begin .. end-1 of the tiles', which begin
 * at y. */
static __attribute__((noinline)) void multiply_edge(bool high, bool wide, const attn_parts_product *p,
                                                    const bfloat *left, const bfloat *right, int64_t height,
                                                    int64_t begin, int64_t end, float *y) {
    float copy[2 * SIDE][2 * SIDE] __attribute__((aligned(64)));
    for (int64_t i = 0; p->add && i < height; i++)
        for (int64_t c = 0; c < 2 * SIDE; c += SIDE)
            _mm512_store_ps(&copy[i][c],
                            _mm512_maskz_loadu_ps(elements_between(begin - c, end - c), address(y, i * p->ldy + c)));
    multiply_some(high, wide, p, left, right, copy[0], 2 * SIDE);
    for (int64_t i = 0; i < height; i++)
        for (int64_t c = 0; c < 2 * SIDE; c += SIDE)
            _mm512_mask_storeu_ps((float *)address(y, i * p->ldy + c), elements_between(begin - c, end - c),
                                  _mm512_load_ps(&copy[i][c]));
}

void KERNEL(multiply_parts)(const attn_parts_product *p) {
    const bfloat *right = p->right;
    for (int64_t j = -p->skip; j < p->cols; j += 2 * SIDE, right += 2 * p->right_blocks * BLOCK) {
        const bfloat *left = p->left;
        int64_t begin = j < 0 ? -j : 0, end = p->cols - j < 2 * SIDE ? p->cols - j : 2 * SIDE;
        for (int64_t i = 0; i < p->rows; i += 2 * SIDE, left += 2 * p->blocks * BLOCK) {
            int64_t height = p->rows - i < 2 * SIDE ? p->rows - i : 2 * SIDE;
            float *y = (float *)address(p->y, i * p->ldy + j);
            if (begin == 0 && end % SIDE == 0 && height % SIDE == 0)
                multiply_some(height > SIDE, end > SIDE, p, left, right, y, p->ldy);
            else
                multiply_edge(height > SIDE, end > SIDE, p, left, right, height, begin, end, y);
        }
    }
}
