/* Few queries, whose keys and values are read in order or from several places at once, as the CPU likes it
 * (base/cpu.h): both ways on any CPU. */
#include "sdpa_test.h"

#include "base/cpu.h"

/* Groups of 256 keys, what is left of them above and below 64, more than one chunk; one row to eight, heads that share
 * keys; short and wide heads, those of known length; hidden keys and options. */
static const char *const problems[] = {
    "h3q1k63d7v5,lse",
    "h2q1k64d64,lse",
    "h4/2q1k259d128,lse",
    "b2h2q1k1100d33v17,kvlens=1100:319,sink,lse",
    "h6/1q1k9001d16,lse",
    "q1k20000d5v3,lse",
    "h2q8k517d64v130,causal,br,lse",
    "h8/2q3k1087d64,mask,bias,softcap=3,lse,layout=blhd",
    "h32/1q2k321d32,window=100:3,br,lse",
    "h2q4k300d520v3,alibi,lse",
    "q2k513d9,nan=v:0:0:511:2+k:0:0:70:0,lse",
    "b3h2q5k700d11,ragged=3:1:5/700:65:0,lse",
};

static void test_both_ways(void **state) {
    (void)state;
    bool usual = attn_cpu_reads_apart();
    for (int apart = 0; apart < 2; apart++)
        for (size_t i = first_problem(); i < sizeof problems / sizeof *problems; i += stride_of_problems()) {
            trial t;
            trial_open(&t, problems[i]);
            attn_cpu_read_apart(apart);
            trial_run(&t, ATTN_ENGINE_FUSED, 1);
            trial_verify(&t, ATTN_ENGINE_FUSED);
            results one = results_of(&t);
            trial_run(&t, ATTN_ENGINE_FUSED, 3);
            assert_same_results(&t, &one, ATTN_ENGINE_FUSED, "more threads");
            results_free(&one);
            trial_close(&t);
        }
    attn_cpu_read_apart(usual);
}

/* A block that is not finite is done again with cleaned values, a part of a chunk at a time: rows that do not see what
 * is not finite keep their bits. */
static void test_what_others_see(void **state) {
    (void)state;
    bool usual = attn_cpu_reads_apart();
    for (int apart = 0; apart < 2; apart++) {
        enum { ROWS = 4, KEYS = 1100, SIZE = 21 };
        trial t;
        trial_open(&t, "q4k1100d21,causal,br");
        attn_cpu_read_apart(apart);
        trial_run(&t, ATTN_ENGINE_FUSED, 1);
        results finite = results_of(&t);
        *element(&t, SUPPORT_V, 0, 0, KEYS - 1, 2) = (real)NAN; /* the last row's alone */
        trial_run(&t, ATTN_ENGINE_FUSED, 1);
        trial_verify(&t, ATTN_ENGINE_FUSED);
        assert_true(isnan(*element(&t, SUPPORT_OUT, 0, 0, ROWS - 1, 2)));
        assert_memory_equal(t.data.base[SUPPORT_OUT], finite.copy[SUPPORT_OUT], (ROWS - 1) * SIZE * sizeof(real));
        results_free(&finite);
        trial_close(&t);
    }
    attn_cpu_read_apart(usual);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_what_others_see),
    };
    return run_sdpa_tests(tests);
}
