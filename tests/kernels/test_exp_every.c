/* Kernel exp, float: every one of the 2^32 floats. Double: twenty million points, random ones and those where the
 * reduction of the argument is hardest. The largest error found is printed.
 *
 * The float reference is the C library's double exp: its error of about 2^-53 is 2^-29 ulp of the float, granted below.
 */
#include <pthread.h>

#include "kernel_test.h"

#define THREADS 2
#define BLOCK 4096

typedef struct share {
    const REAL(attn_kernels) * kernels;
    int index; /* of the thread */
    double worst;
    real worst_at;
    bool wrong; /* a special value came out wrong, at worst_at */
} share;

static void note_error(share *s, real x, double error) {
    if (!(error <= s->worst)) {
        s->worst = error;
        s->worst_at = x;
    }
}

#if ATTN_REAL_BITS == 32
#define REFERENCE_ERROR 0x1p-28

static void note_wrong(share *s, real x) {
    s->wrong = true;
    s->worst_at = x;
}

static void check_block(share *s, const float *x, const float *y) {
    for (int i = 0; i < BLOCK; i++) {
        if (isnan(x[i])) {
            if (!isnan(y[i])) {
                note_wrong(s, x[i]);
            }
        } else if (x[i] < -0x1.5d589ep+6f) {
            if (y[i] != 0 || signbit(y[i])) {
                note_wrong(s, x[i]);
            }
        } else if (x[i] > 0x1.62e42ep+6f) {
            if (y[i] != INFINITY) {
                note_wrong(s, x[i]);
            }
        } else {
            double wanted = exp((double)x[i]);
            uint64_t bits;
            memcpy(&bits, &wanted, sizeof bits);
            double ulp = from_double_bits((bits & 0x7ff0000000000000u) - ((uint64_t)23 << 52));
            note_error(s, x[i], fabs((double)y[i] - wanted) / ulp);
        }
    }
}

/* The floats of this thread: all blocks of consecutive bit patterns, every THREADS-th one. */
static void fill_and_check(share *s, float *x, float *y) {
    for (uint64_t first = (uint64_t)s->index * BLOCK; first < (uint64_t)1 << 32; first += THREADS * BLOCK) {
        for (uint32_t i = 0; i < BLOCK; i++) {
            uint32_t bits = (uint32_t)first + i;
            memcpy(&x[i], &bits, sizeof bits);
        }
        s->kernels->exp(BLOCK, x, y);
        check_block(s, x, y);
    }
}
#else
#define REFERENCE_ERROR 0x1p-10
#define POINTS 20000000

static void fill_and_check(share *s, double *x, double *y) {
    const double lowest = -0x1.6232bdd7abcd2p+9, highest = 0x1.62e42fefa39efp+9, ln2 = 0x1.62e42fefa39efp-1;
    for (int64_t first = 0; first < POINTS / THREADS; first += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            uint64_t n = (uint64_t)(first + i) * 2;
            double a = support_random_uniform(SEED, (uint64_t)s->index, n);
            double b = support_random_uniform(SEED, (uint64_t)s->index, n + 1);
            if (i % 4 == 0) { /* near the middle between two multiples of ln 2, where r is largest */
                x[i] = (floor(lowest / ln2 + 1 + a * (highest - lowest) / ln2) + 0.5) * ln2 * (1 + (b - 0.5) * 1e-13);
            } else if (i % 4 == 1) { /* near a multiple of ln 2, where most digits cancel */
                x[i] = floor(lowest / ln2 + 1 + a * (highest - lowest) / ln2) * ln2 * (1 + (b - 0.5) * 1e-13);
            } else if (i % 4 == 2) { /* all magnitudes */
                x[i] = ldexp(b - 0.5, (int)(a * 64) - 54);
            } else {
                x[i] = lowest + a * (highest - lowest);
            }
            x[i] = fmin(fmax(x[i], lowest), highest);
        }
        s->kernels->exp(BLOCK, x, y);
        for (int i = 0; i < BLOCK; i++) {
            note_error(s, x[i], error_in_ulp(y[i], expl((long double)x[i])));
        }
    }
}
#endif

static void *run_share(void *argument) {
    real *x = malloc(BLOCK * sizeof *x), *y = malloc(BLOCK * sizeof *y);
    if (x && y) {
        fill_and_check(argument, x, y);
    } else {
        ((share *)argument)->wrong = true;
    }
    free(x);
    free(y);
    return NULL;
}

static void test_every_value(void **state) {
    const REAL(attn_kernels) *kernels = kernels_under_test(state);
    share shares[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        shares[t] = (share){.kernels = kernels, .index = t};
        assert_int_equal(pthread_create(&threads[t], NULL, run_share, &shares[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    double limit = allowed_ulp() - REFERENCE_ERROR;
    for (int t = 0; t < THREADS; t++) {
        print_message("largest error %.5f ulp at %a\n", shares[t].worst, (double)shares[t].worst_at);
    }
    for (int t = 0; t < THREADS; t++) {
        if (shares[t].wrong || !(shares[t].worst <= limit)) {
            fail_msg("exp(%a) is wrong: %.5f ulp", (double)shares[t].worst_at, shares[t].worst);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_value)};
    return run_for_every_isa("kernels exp, every value", tests, 1);
}
