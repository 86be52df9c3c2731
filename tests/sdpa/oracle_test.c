/* Hand-picked problems against the long-double oracle, every engine, and the same bits for 1, 2 and 4 threads. A
 * failure prints the line that reproduces it. With the argument "thorough" all rows of all problems are compared. */
#include "sdpa_test.h"

static const char *const problems[] = {
    /* prime sizes, grouped heads, v_dim != head_dim */
    "b2h3q17k29d13,lse",
    "b2h6/3q37k53d17v11,causal,br,lse",
    "b3h5/1q11k67d31v29,lse",
    "h8/2q61k59d23,causal",
    /* either side of the 320 multiply-adds up to which fused takes the plain loops */
    "h2/1q5k21d3,lse",
    "h2/1q8k20d2,causal,lse",
    "h2q1k321d1,lse",
    "b3h2/1q8k41d1,qlens=8:8:7,kvlens=40:41:40,lse",
    /* head sizes */
    "h2/1q19k43d1,lse",
    "h2/1q19k43d3,lse",
    "h2/1q19k43d17,lse",
    "h2/1q19k43d37,lse",
    "h2/1q19k43d80,lse",
    "h2/1q19k43d128,lse",
    "h2/1q19k43d160,lse",
    "h2/1q19k43d256,lse",
    "q7k43d160,lse",
    "q23k41d37v1",
    "q23k41d3v160",
    "q5k41d3v257",
    "q23k41d8v257",
    /* tiles of 24, 16 and 12 rows, and of 16 keys */
    "q29k37d1030v5,causal,lse",
    "q41k67d3v1531,causal,br,lse",
    "b2q31k41d2053v3,lse",
    "q37k35d2609v2,causal,lse",
    /* one row, one key */
    "q1k1d1,lse",
    "q1k1d64,lse",
    "q1k300d64,causal,br,lse",
    "q300k1d64,lse",
    /* alignments, with causal and without */
    "q31k47d11,causal,lse",
    "q31k47d11,causal,br,lse",
    "q47k31d11,causal,br,lse",
    "q31k47d11,causal,off=9,lse",
    "q31k47d11,causal,off=-7,lse",
    "q31k47d11,causal,off=47,lse",
    "q31k47d11,causal,off=9223372036854775807,lse",
    "q31k47d11,off=9223372036854775807,lse",
    "q31k47d11,off=-9223372036854775808,lse",
    "q31k47d11,off=-40",
    "q31k47d11,br",
    "q5k47d11,causal,br,lse",
    "q5k47d11,causal,off=-1,lse",
    "q5k47d11,causal,off=9223372036854775807,lse",
    "q270k530d5,causal,off=300",
    "q270k530d5,causal,off=-37",
    /* lengths of members */
    "b4h2q13k29d7,qlens=13:12:11:3,kvlens=29:28:17:1,lse",
    "b4h2q13k29d7,kvlens=29:0:17:1,causal,br,lse",
    "b3h4/2q270k40d8,qlens=270:259:9,kvlens=40:30:33,lse",
    "b7q3k600d9,kvlens=600:513:512:511:257:256:255,causal,br,lse",
    "b2q12k40d5,qlens=12:8,kvlens=40:32,causal,off=20,lse",
    /* layouts and broadcast */
    "b2h4/2q19k37d11v7,layout=blhd,causal,br,lse",
    "b2h4/2q37k37d11v7,layout=qkv,causal,lse",
    "b2h4/2q19k37d11v7,layout=padded,causal,br,lse",
    "b2h2/1q263k523d3,layout=padded,lse",
    "b3h4/2q5k37d11v7,layout=padded,kvlens=37:5:20,lse",
    "b3h4/2q5k37d11v7,k@b,v@h,lse",
    "b3h4/2q19k37d11v7,q@b,k@bh,v@b,lse",
    "b2h2q19k37d11,q@h,k@h,v@bh,causal",
    "b2h3q31k31d8,layout=qkv,qlens=31:20,kvlens=31:10,lse",
    /* scale and scores */
    "h2q19k37d11,scale=0,lse",
    "h2q5k37d11,scale=0,causal,lse",
    "q67k530d3,scale=0,causal,off=460,lse",
    "h2q19k37d11,scale=-0.5,lse",
    "h2q19k37d11,scale=3,lse",
    "h2q19k37d11,scale=1e-30,lse",
    "h2q19k37d11,data=large,lse",
    "h2q19k37d11,data=equal,lse",
    "h2q19k37d11,data=neg,lse",
    "h2q19k37d11,data=extreme,lse",
    "h2q5k600d11,data=extreme,causal,br,lse",
    "q33k600d11,data=neg,causal,br,lse",
    /* edges of blocks and tiles */
    "q255k511d4,lse",
    "q256k512d4,causal,lse",
    "q257k513d4,causal,br,lse",
    "q257k513d4,lse",
    "q513k257d4,causal,lse",
    "q127k255d4,causal,lse",
    "q128k256d4,causal,lse",
    "q129k257d4,causal,lse",
    "q33k255d4v256,lse",
    "q33k256d4v256,lse",
    "q33k257d4v256,causal,br,lse",
    /* few queries */
    "h4/2q1k300d16,lse",
    "h4/2q2k300d16,causal,br,lse",
    "h4/2q3k300d16,lse",
    "h4/2q4k300d16,causal,br,lse",
    "h4/2q5k300d16,lse",
    "h4/2q6k300d16,causal,br,lse",
    "h4/2q7k300d16,lse",
    "h4/2q8k300d16,causal,br,lse",
    "h4/2q9k300d16,lse",
    "h4/2q31k31d16,causal,lse",
    "h4/2q32k32d16,causal,lse",
    "h4/2q33k33d16,causal,lse",
    "h4/2q32k33d16,lse",
    "h4/2q33k32d16,lse",
    "q8k255d4,lse",
    "q8k256d4,causal,br,lse",
    "q8k257d4,lse",
    "q3k513d4,causal,br,lse",
    "h70/1q8k20d5,lse",
    "h99/1q3k40d5,causal,br,lse",
    /* their chunks of keys */
    "h40/1q1k255d4,lse",
    "h40/1q1k256d4,lse",
    "h40/1q1k257d4,lse",
    "h40/1q1k1025d4,lse",
    "h9/1q8k600d4,causal,br,lse",
    "h9/1q8k600d4,causal,off=300,lse",
    "h9/1q8k600d4,causal,off=-3,lse",
    "h32/1q1k63d5,lse",
    "h32/1q1k64d5,lse",
    "h66/2q1k1200d19v7,lse",
    "h8/1q4k1200d17v3,causal,br,bias,mask,softcap=5,lse",
    "q1k8192d3,lse",
    "q1k8193d3,lse",
    "h2/1q2k9001d3v7,causal,br,sink,lse",
    "h40/2q2k1100d5,window=400:0,br,lse",
    "h40/2q2k1100d5,bias=infrow:0.2,lse",
    "b2h40/2q2k1100d5,mask=rowempty:0.3,kvlens=1100:530,lse",
    "h40/2q2k1100d5,mask=lead:1099,lse",
    "h40/2q2k1100d5,mask=lead:300,mask_len=700,alibi,lse",
    "h40/2q2k1100d5,data=large,lse",
    "h40/2q2k1100d5,data=neg,lse",
    "h40/2q2k1100d5,data=extreme,causal,br,lse",
    "h40/2q2k1100d5,scale=0,lse",
    "h40/2q2k1100d5v300,poison,causal,off=513,lse",
    "q1k2100d5v300,lse",
    /* chunks of keys with tiles */
    "q9k2047d4,lse",
    "q9k2048d4,lse",
    "q9k2049d4,causal,br,lse",
    "h2/1q40k3100d4v7,causal,br,bias,mask,softcap=5,lse",
    "q40k3100d4,causal,off=1000,lse",
    "q260k3000d4,causal,br,window=1300:0,sink,lse",
    "q520k4200d3,lse",
    "q1024k8192d1,lse",
    "b3q40k2100d5,qlens=40:39:8,kvlens=2100:2048:2047,mask,lse",
    "q40k2100d5,mask=lead:1099,lse",
    "q40k2100d5,mask=lead:1900,mask_len=2000,alibi,lse",
    "q40k2100d5,bias=infrow:0.3,lse",
    "q40k2100d5,data=large,lse",
    "q40k2100d5,data=neg,lse",
    "q40k2100d5,data=extreme,causal,br,lse",
    "q40k2100d5,scale=0,lse",
    "q40k2100d5v300,poison,causal,off=1013,lse",
    /* window */
    "h2q41k41d7,window=5:3,lse",
    "h2q41k41d7,causal,window=5:-1,lse",
    "h2q41k53d7,br,window=0:0,lse",
    "h2q41k53d7,off=4,window=-1:2,lse",
    "h2q41k53d7,causal,window=9223372036854775807:9223372036854775807,lse",
    "h2q5k600d7,br,causal,window=100:0,lse",
    "h2q19k43d7,off=9223372036854775807,window=9223372036854775805:-1,lse",
    "h2q19k43d7,off=-9223372036854775808,window=-1:9223372036854775807,lse",
    "h2q19k43d7,off=4611686018427387904,window=4611686018427387900:-1,lse",
    "h2q19k43d7,off=-4611686018427387904,window=-1:4611686018427387914,lse",
    "h2q5k43d7,off=-4611686018427387904,window=4611686018427387904:4611686018427387914,lse",
    "q270k600d5,off=300,window=20:20,lse",
    "b3q41k53d7,br,window=7:2,qlens=41:40:38,kvlens=53:50:47,lse",
    /* boolean mask */
    "b2h4/2q19k43d7,mask,lse",
    "b2h4/2q19k43d7,mask@bh,causal,br,lse",
    "b2h4/2q19k43d7,mask@bhq,lse",
    "b2h4/2q19k43d7,mask@qk=random:0.2,lse",
    "b2h4/2q5k600d7,mask=random:0.9,lse",
    "q40k1100d5,mask=lead:600,lse",
    "q5k1100d5,mask=lead:1099,lse",
    "q40k1100d5,mask,mask_len=513,lse",
    "h2q19k43d7,mask=rowempty:0.3,lse",
    /* bias and ALiBi */
    "b2h4/2q19k43d7,bias,lse",
    "b2h4/2q19k43d7,bias@hq=large,causal,lse",
    "b2h4/2q19k43d7,bias@k,lse",
    "h2q19k43d7,bias=inf:0.5,lse",
    "h2q19k43d7,bias=infrow:0.3,lse",
    "h2q19k43d7,bias=lowest:0.5,lse",
    "h2q19k43d7,bias=lowestrow:0.3,lse",
    "q40k1100d5,bias=inf:0.7,bias_len=700,lse",
    "h3q19k43d7,alibi,lse",
    "h8/2q5k600d7,alibi,causal,br,lse",
    "h6q31k47d7,alibi,off=-12,lse",
    "q40k1100d5,alibi,off=500,lse",
    /* softcap and sink */
    "h2q19k43d7,softcap=2,lse",
    "h2q5k600d7,softcap=0.5,data=large,lse",
    "h2q19k43d7,softcap=30,data=extreme,lse",
    "h2q19k43d7,sink,lse",
    "h2q5k600d7,sink=20,lse",
    "h2q19k43d7,sink=-1000,data=neg,lse",
    "q40k1100d5,sink=3,causal,br,lse",
    /* packed tokens */
    "b3h4/2q19k43d7,ragged=19:5:11/43:17:30,causal,br,lse",
    "b3h4/2q270k600d5,ragged=270:8:31/600:9:600,lse",
    "b3h4/2q43k43d7,layout=qkv,ragged=19:5:11/19:5:11,causal,lse",
    "b3h4/2q19k43d7,layout=padded,ragged=19:5:11/43:17:30,mask,bias,alibi,lse",
    /* many at once */
    "b2h4/2q19k43d7,causal,br,window=20:-1,softcap=5,mask@b,bias@h,alibi,sink,kvlens=43:37,lse",
    "b2h4/2q270k530d5,causal,br,window=200:3,softcap=5,mask@bh,bias@bhq,alibi,sink,lse",
    "b2h4/2q5k530d5,layout=padded,window=200:3,br,softcap=5,mask@bh=random:0.5,bias@bhq=inf:0.2,sink,scale=0.5,lse",
};

/* Intermediates, which naive and blas give. */
static const char *const intermediates[] = {
    "b2h4/2q19k43d7,want=scores+capped+masked+weights,lse",
    "b2h4/2q19k43d7,want=scores+capped+masked+weights,causal,br,softcap=3,mask,bias=inf:0.3,alibi,sink,lse",
    "b3h2q19k43d7,want=masked+weights,qlens=19:7:0,kvlens=43:0:11,causal,lse",
    "b2h4/2q19k43d7,layout=padded,want=weights,window=3:3",
    "h2q19k43d7,want=scores,scale=0",
    "q270k530d5,want=weights,data=extreme",
    "b3h4/2q19k43d7,ragged=19:5:11/43:17:30,want=scores+weights,lse",
    "q3k7d2v0,want=weights",
    "q5k0d2,want=weights",
    "h2q9k12d5,want=scores+weights,nan=k:0:0:3:1+q:0:1:2:0,causal",
};

/* Nothing to compute, or mostly 0: they prove less, but must not crash, write too far or leave anything unwritten. */
static const char *const degenerate[] = {
    "b0q3k5d2,lse",
    "q0k5d2,lse",
    "q3k0d2,lse",
    "q3k5d2v0,lse",
    "q40k600d2v0,causal,lse",
    "q0k0d1v0,lse",
    "q40k0d2,causal,br",
    "b3h2q5k7d3,qlens=0:0:0,lse",
    "b3h2q40k7d3,kvlens=0:0:0,lse",
    "b4h2q13k29d7,qlens=0:13:5:1,kvlens=29:0:17:1,lse",
    "b3h4/2q270k40d8,qlens=3:270:9,kvlens=40:30:0,lse",
    "b3h4/2q270k40d8,qlens=269:257:256,kvlens=40:30:33,causal,br,lse",
    "q31k47d11,causal,off=-9223372036854775808,lse",
    "q5k47d11,causal,off=-9223372036854775807,lse",
    "q31k47d11,causal,off=-40,lse",
    "q31k47d11,causal,off=-30,lse",
    "q600k3d4,causal,br,lse",
    "b2q19k37d11v0,layout=blhd,lse",
    /* masks and biases that cover nothing */
    "h2q19k37d11,mask,mask_len=0,lse",
    "h2q19k37d11,mask@k,mask_len=0,lse",
    "h2q19k37d11,bias,bias_len=0,lse",
    "h2q19k37d11,bias@k,bias_len=0,lse",
    "q40k600d3,bias@k,bias_len=5,lse",
    "q40k600d3,mask@k=all,mask_len=5,lse",
    "h40/2q2k1100d5,mask=none,sink,lse",
    "h2q5k0d11,mask,bias@k,lse",
};

static void check_problem(const char *text, bool must_prove_something) {
    static const int more_threads[] = {2, 4};
    trial t;
    trial_open(&t, text);
    for_each_engine(engine) {
        if (!engine_can(&t, engine))
            continue;
        trial_run(&t, engine, 1);
        support_report report = trial_verify(&t, engine);
        if (must_prove_something && report.verdict != SUPPORT_PASSED)
            fail_msg("%s", report.text);
        results one = results_of(&t);
        for (int i = 0; i < 2; i++) {
            trial_run(&t, engine, more_threads[i]);
            assert_same_results(&t, &one, engine, "more threads");
        }
        results_free(&one);
    }
    trial_close(&t);
}

static void test_problems(void **state) {
    (void)state;
    for (size_t i = first_problem(); i < sizeof problems / sizeof *problems; i += stride_of_problems())
        check_problem(problems[i], true);
}

static void test_degenerate(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof degenerate / sizeof *degenerate; i++)
        check_problem(degenerate[i], false);
}

static void test_intermediates(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof intermediates / sizeof *intermediates; i++)
        check_problem(intermediates[i], false);
}

/* No head at all, which the problem strings cannot say. */
static void test_no_heads(void **state) {
    (void)state;
    for_each_engine(engine) {
        attn_problem problem = ATTN_PROBLEM_INIT;
        problem.engine = engine;
        problem.batch = 2;
        problem.q_len = problem.kv_len = 3;
        problem.head_dim = problem.v_dim = 4;
        assert_ok(attn_problem_layout_bhld(&problem));
        real_args args = ATTN_STRUCT_INIT(real_args);
        assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
        problem.kv_heads = 5;
        real k[2 * 5 * 3 * 4] = {0};
        args.k = args.v = k;
        assert_ok(attn_problem_layout_bhld(&problem));
        assert_ok(REAL(attn_sdpa)(NULL, &problem, &args));
    }
}

int main(int count, char **arguments) {
    thorough = count > 1 && strcmp(arguments[1], "thorough") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_intermediates),
        cmocka_unit_test(test_no_heads),
    };
    return run_sdpa_tests(tests);
}
