/* Philox4x32-10 by counter, uniform numbers from its bits, normal numbers by Box and Muller.
 *
 * Only +, -, *, / and sqrt on doubles, which IEEE 754 rounds the same way everywhere, and no fused operations: lib/ is
 * compiled with -ffp-contract=off. Series instead of fitted polynomials: their coefficients are exact by definition.
 */
#include "weights/random.h"

#include <math.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "libattn_weights needs IEEE arithmetic: do not compile it with -ffast-math"
#endif

enum { PHILOX_ROUNDS = 10, PHILOX_WORDS = 4 };

/* Multipliers and increments of the keys: Salmon et al. 2011. */
#define PHILOX_M0 UINT32_C(0xD2511F53)
#define PHILOX_M1 UINT32_C(0xCD9E8D57)
#define PHILOX_W0 UINT32_C(0x9E3779B9)
#define PHILOX_W1 UINT32_C(0xBB67AE85)

typedef uint32_t philox_words[PHILOX_WORDS][ATTN_RANDOM_BLOCKS];

static void philox(attn_random_stream stream, int64_t group, philox_words word) {
    uint32_t key0 = (uint32_t)stream.seed, key1 = (uint32_t)(stream.seed >> 32);
    for (int i = 0; i < ATTN_RANDOM_BLOCKS; i++) {
        uint64_t block = (uint64_t)group * ATTN_RANDOM_BLOCKS + (uint64_t)i;
        word[0][i] = (uint32_t)block;
        word[1][i] = (uint32_t)(block >> 32);
        word[2][i] = (uint32_t)stream.stream;
        word[3][i] = (uint32_t)(stream.stream >> 32);
    }
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        for (int i = 0; i < ATTN_RANDOM_BLOCKS; i++) {
            uint64_t product0 = (uint64_t)PHILOX_M0 * word[0][i];
            uint64_t product1 = (uint64_t)PHILOX_M1 * word[2][i];
            word[0][i] = (uint32_t)(product1 >> 32) ^ word[1][i] ^ key0;
            word[2][i] = (uint32_t)(product0 >> 32) ^ word[3][i] ^ key1;
            word[1][i] = (uint32_t)product1;
            word[3][i] = (uint32_t)product0;
        }
        key0 += PHILOX_W0;
        key1 += PHILOX_W1;
    }
}

/* ---- Uniform ----------------------------------------------------------------------------------------------------- */

static inline double double_of_bits(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline uint64_t bits_of_double(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* (k + 1/2) / 2^52, k the upper 52 bits: as the fraction of a number in [1, 2), whose 1 is then taken away. */
static inline double uniform_of_words(uint32_t low, uint32_t high) {
    const uint64_t one = UINT64_C(0x3ff0000000000000);
    uint64_t fraction = ((uint64_t)high << 32 | low) >> 12;
    return (double_of_bits(one | fraction) - 1.0) + 0x1p-53;
}

void attn_random_uniforms(attn_random_stream stream, int64_t group, double number[ATTN_RANDOM_GROUP]) {
    philox_words word;
    philox(stream, group, word);
    for (int i = 0; i < ATTN_RANDOM_BLOCKS; i++) {
        number[2 * i] = uniform_of_words(word[0][i], word[1][i]);
        number[2 * i + 1] = uniform_of_words(word[2][i], word[3][i]);
    }
}

/* ---- Normal ------------------------------------------------------------------------------------------------------ */

/* ln 2 in two parts: the first has 37 bits, so that its product with an exponent is exact. */
#define LN2_HI 0x1.62e42fefa0000p-1
#define LN2_LO 0x1.cf79abc9e3b3ap-40
#define HALF_PI 0x1.921fb54442d18p+0

/* ln u of a normal number below 1: u = 2^e m, sqrt(1/2) <= m < sqrt(2), ln m = 2 artanh((m - 1) / (m + 1)) by its
 * series. Relative error at most 2^-51. */
static inline double logarithm(double u) {
    const uint64_t root_half = UINT64_C(0x3fe6a09e667f3bcd); /* the bits of sqrt(1/2) */
    int64_t exponent = (int64_t)(bits_of_double(u) - root_half) >> 52;
    double e = (double)(int32_t)exponent;
    double m = double_of_bits(bits_of_double(u) - ((uint64_t)exponent << 52));
    double s = (m - 1.0) / (m + 1.0);
    double z = s * s;
    double series = 1.0 / 21;
    series = series * z + 1.0 / 19;
    series = series * z + 1.0 / 17;
    series = series * z + 1.0 / 15;
    series = series * z + 1.0 / 13;
    series = series * z + 1.0 / 11;
    series = series * z + 1.0 / 9;
    series = series * z + 1.0 / 7;
    series = series * z + 1.0 / 5;
    series = series * z + 1.0 / 3;
    return e * LN2_HI + (2.0 * s + (2.0 * s * (z * series) + e * LN2_LO));
}

/* sin x - x and cos x - 1 up to pi/4, by their series. */
static inline double sine_rest(double x) {
    double z = x * x;
    double series = 1.0 / 355687428096000.0;
    series = series * z - 1.0 / 1307674368000.0;
    series = series * z + 1.0 / 6227020800.0;
    series = series * z - 1.0 / 39916800.0;
    series = series * z + 1.0 / 362880.0;
    series = series * z - 1.0 / 5040.0;
    series = series * z + 1.0 / 120.0;
    series = series * z - 1.0 / 6.0;
    return x * z * series;
}

static inline double cosine_rest(double x) {
    double z = x * x;
    double series = 1.0 / 20922789888000.0;
    series = series * z - 1.0 / 87178291200.0;
    series = series * z + 1.0 / 479001600.0;
    series = series * z - 1.0 / 3628800.0;
    series = series * z + 1.0 / 40320.0;
    series = series * z - 1.0 / 720.0;
    series = series * z + 1.0 / 24.0;
    return z * (z * series) - 0.5 * z;
}

void attn_random_normals(attn_random_stream stream, int64_t group, double number[ATTN_RANDOM_GROUP]) {
    attn_random_uniforms(stream, group, number);
    for (int i = 0; i < ATTN_RANDOM_BLOCKS; i++) {
        double radius = sqrt(-2.0 * logarithm(number[2 * i]));
        /* 2 pi v is `quarter` quarter turns, 0 .. 4, and x: adding and taking away 3/2 2^52 rounds to an integer */
        double turns = 4.0 * number[2 * i + 1];
        double quarter = (turns + 0x1.8p52) - 0x1.8p52;
        double x = (turns - quarter) * HALF_PI;
        double sine = x + sine_rest(x), cosine = 1.0 + cosine_rest(x);
        int odd = (quarter == 1.0) | (quarter == 3.0);
        double across = odd ? sine : cosine;
        double up = odd ? cosine : sine;
        int left = (quarter == 1.0) | (quarter == 2.0);
        int down = (quarter == 2.0) | (quarter == 3.0);
        number[2 * i] = radius * (left ? -across : across);
        number[2 * i + 1] = radius * (down ? -up : up);
    }
}
