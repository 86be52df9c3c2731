/* Random problems against the oracle: random_test FIRST_SEED CASES [thorough]. Every other case may have NaN and Inf in
 * its inputs. A failure prints the line that reproduces it. */
#include "sdpa_test.h"

#include "base/cpu.h"

static uint64_t first_seed = 1;
static uint64_t cases = 60;

static void test_random_cases(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 4};
    uint64_t proving_little = 0;
    for (uint64_t seed = first_seed; seed < first_seed + cases; seed++) {
        uint64_t options = SUPPORT_OPTIONS_ALL & ~(seed % 2 == 0 ? SUPPORT_OPTION_NONFINITE : 0);
        if (seed % 3 == 0) /* fused refuses these */
            options &= ~SUPPORT_OPTION_WANT;
        attn_cpu_read_apart(seed % 5 < 2);
        support_case *c = support_case_random(seed, options);
        assert_non_null(c);
        trial t;
        trial_open_case(&t, c);
        bool proves_little = false;
        for_each_engine(engine) {
            if (!engine_can(&t, engine))
                continue;
            /* the same bits for any number of threads: one of them is enough for the oracle */
            trial_run(&t, engine, threads[seed % 3]);
            proves_little |= trial_verify(&t, engine).verdict == SUPPORT_MISTRUSTED;
            results one = results_of(&t);
            trial_run(&t, engine, threads[(seed + 1) % 3]);
            assert_same_results(&t, &one, engine, "another number of threads");
            results_free(&one);
        }
        trial_close(&t);
        proving_little += proves_little;
    }
    print_message("%llu of %llu problems prove little\n", (unsigned long long)proving_little,
                  (unsigned long long)cases);
    assert_true(10 * proving_little <= 10 + 2 * cases); /* a fifteenth is usual */
}

int main(int count, char **arguments) {
    thorough = count > 3 && strcmp(arguments[3], "thorough") == 0;
    if (count > 2) {
        first_seed = strtoull(arguments[1], NULL, 10);
        cases = strtoull(arguments[2], NULL, 10);
    }
    cases = (cases + stride_of_problems() - 1) / stride_of_problems();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_cases)};
    return run_sdpa_tests(tests);
}
