/* Sinusoidal positions over a grid of sizes, starts and bases. */
#include "position_check.h"

static void test_grid(void **state) {
    (void)state;
    static const int64_t sizes[] = {3, 16, 96, 257, 768, 2048};
    static const double bases[] = {10000, 500000, 2};
    double worst = 0;
    for (int s = 0; s < 6; s++)
        for (int b = 0; b < 3; b++)
            for (int64_t start = -999983; start <= 1000000 - 3; start += 49943)
                worst = fmax(worst, check_positions(3, sizes[s], start, bases[b]));
    print_message("worst error: %.3f of the bound\n", worst);
}

/* Every position of two sizes, the first 65536 of them. */
static void test_all_first_positions(void **state) {
    (void)state;
    print_message("worst error: %.3f of the bound\n",
                  fmax(check_positions(65536, 8, 0, 10000), check_positions(65536, 11, 934465, 10000)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_all_first_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
