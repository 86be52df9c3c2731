/* Why attention divides its scores by sqrt(d_k): what becomes of A = softmax(scale Q K^T) as the head size d_k grows,
 * with queries and keys of independent standard normals, for three scales: 1, 1/sqrt(d_k) and 1/d_k.
 *
 *   effective_rank > effective_rank.csv
 *   gnuplot -e "csv='effective_rank.csv'; out='effective_rank'" tests/examples/effective_rank.gp
 *
 * Scores have the standard deviation scale sqrt(d_k). With scale 1 it grows: rows of A become one-hot, softmax is
 * saturated, and its slope a (1 - a), which training needs, vanishes. With 1/d_k it shrinks: every row becomes the mean
 * of all keys, A has rank one. With 1/sqrt(d_k) neither happens at any head size. Exit code 1 when the numbers say
 * something else.
 */
#include <attn/attn.h>
#include <attn/weights.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEN = 128, HEADS = 4, MOST_DIM = 512, SCALES = 3 };

/* Means over heads. */
typedef struct outcome {
    double effective_rank; /* entropy of the singular values: how many directions A has */
    double stable_rank;    /* how many of them are as strong as the first */
    double slope;   /* mean over rows of the sum of a (1 - a): 0 for one-hot rows, 1 - 1/LEN for the mean of all keys */
    double largest; /* mean over rows of the largest weight */
} outcome;

static void require(attn_status status) {
    if (status == ATTN_OK)
        return;
    fprintf(stderr, "%s: %s\n", attn_status_string(status), attn_last_error());
    exit(1);
}

static double scale_of(int which, int dim) {
    return which == 0 ? 1 : which == 1 ? 1 / sqrt(dim) : 1.0 / dim;
}

static void add_rows(const double *a, outcome *sum) {
    for (int i = 0; i < LEN; i++) {
        double slope = 0, largest = 0;
        for (int j = 0; j < LEN; j++) {
            double weight = a[i * LEN + j];
            slope += weight * (1 - weight);
            largest = weight > largest ? weight : largest;
        }
        sum->slope += slope / LEN / HEADS;
        sum->largest += largest / LEN / HEADS;
    }
}

static outcome attend(int dim, double scale) {
    static double q[LEN * MOST_DIM], k[LEN * MOST_DIM], scores[LEN * LEN], a[LEN * LEN];
    outcome mean = {0, 0, 0, 0};
    for (int head = 0; head < HEADS; head++) {
        attn_spectrum spectrum = ATTN_SPECTRUM_INIT;
        /* one seed, and a stream for every array */
        require(attn_random_normal_f64(NULL, LEN, dim, 0, 1, 2026, (uint64_t)(2 * head), q, dim));
        require(attn_random_normal_f64(NULL, LEN, dim, 0, 1, 2026, (uint64_t)(2 * head + 1), k, dim));
        require(attn_scores_f64(NULL, LEN, LEN, dim, q, dim, k, dim, scale, scores, LEN));
        require(attn_softmax_f64(NULL, LEN, LEN, scores, LEN, a, LEN));
        require(attn_spectrum_f64(NULL, LEN, LEN, a, LEN, NULL, &spectrum));
        mean.effective_rank += spectrum.effective_rank / HEADS;
        mean.stable_rank += spectrum.stable_rank / HEADS;
        add_rows(a, &mean);
    }
    return mean;
}

int main(void) {
    outcome first[SCALES], last[SCALES];
    printf("head_dim,scale,effective_rank,stable_rank,slope,largest_weight\n");
    for (int dim = 4; dim <= MOST_DIM; dim *= 2) {
        static const char *const names[SCALES] = {"1", "1/sqrt(d_k)", "1/d_k"};
        for (int which = 0; which < SCALES; which++) {
            outcome o = attend(dim, scale_of(which, dim));
            printf("%d,%s,%.3f,%.3f,%.4f,%.4f\n", dim, names[which], o.effective_rank, o.stable_rank, o.slope,
                   o.largest);
            if (dim == 4)
                first[which] = o;
            last[which] = o;
        }
    }
    int saturates = last[0].slope < 0.15 && last[0].largest > 0.9;
    int steady = fabs(last[1].slope - first[1].slope) < 0.01 && last[1].slope > 0.95 &&
                 fabs(last[1].stable_rank / first[1].stable_rank - 1) < 0.1;
    int collapses = last[2].effective_rank < 0.1 * last[1].effective_rank && last[2].stable_rank < 1.01 &&
                    last[2].largest < 2.0 / LEN;
    if (!saturates || !steady || !collapses)
        fprintf(stderr, "scale 1 saturates: %d, 1/sqrt(d_k) is steady: %d, 1/d_k collapses: %d\n", saturates, steady,
                collapses);
    return saturates && steady && collapses ? 0 : 1;
}
