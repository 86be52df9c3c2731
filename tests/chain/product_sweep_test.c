/* Projections, scores and weighted sums against long double over a grid of prime sizes. */
#include "product_check.h"

#include <math.h>

static const int64_t sizes[] = {1, 2, 3, 17, 61, 127, 293};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void test_grid(void **state) {
    (void)state;
    double worst = 0;
    for (int m = 0; m < SIZES; m++)
        for (int n = 0; n < SIZES; n++)
            for (int k = 0; k < SIZES; k++) {
                int64_t pad = (m + n + k) % 4;
                worst = fmax(worst, check_project(1 + (n + k) % 2, sizes[m], sizes[k], sizes[n], pad, k % 2 == 1));
                worst = fmax(worst, check_scores(sizes[m], sizes[n], sizes[k], pad, 1 / sqrt((double)sizes[k])));
                worst = fmax(worst, check_combine(sizes[m], sizes[n], sizes[k], pad));
            }
    print_message("worst error: %.3f of the tolerance\n", worst);
}

static void test_long_inner_sizes(void **state) {
    (void)state;
    double worst = check_project(1, 23, 4099, 31, 1, true);
    worst = fmax(worst, check_scores(19, 29, 2053, 0, 1));
    worst = fmax(worst, check_combine(17, 8209, 13, 2));
    worst = fmax(worst, check_project(1, 523, 769, 1033, 0, false));
    print_message("worst error: %.3f of the tolerance\n", worst);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_long_inner_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
