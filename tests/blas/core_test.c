/* BLAS cores that leave vectors of this CPU unused or pack whatever they multiply: what the library says of them, and
 * who multiplies. ctest runs this with a core of OpenBLAS and kernels of one instruction set (ATTN_MAX_ISA). Prescott,
 * which every x86-64 processor can run, has vectors of sixteen bytes as the generic kernels have: it falls short of all
 * others, but not of these. Haswell falls short of AVX-512 only. */
#include <attn/layer.h>
#include <ctype.h>

#include "base/real.h"
#include "blas/blas.h"
#include "blas_test.h"
#include "layer.h"
#include "support.h"

#define OWN_PRODUCTS "products by the library's own kernel"

static bool falls_short;
static bool own_products; /* of tiles and other small products */
static attn_blas_info blas = {.struct_size = sizeof blas};

static void test_advice(void **state) {
    (void)state;
    char wanted[256] = "";
    const char *better = attn_isa_in_use() == ATTN_ISA_AVX512 ? "SkylakeX" : "Haswell";
    if (falls_short)
        snprintf(wanted, sizeof wanted,
                 "OpenBLAS computes with core %s, which does not use the %s of this CPU: set OPENBLAS_CORETYPE=%s",
                 blas.core, attn_isa_name(attn_isa_in_use()), better);
    assert_string_equal(blas.advice, wanted);
    assert_int_equal(blas.own_products, own_products);
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

static support_case *parsed(const char *text) {
    char error[256] = "";
    support_case *c = support_case_parse(text, error, sizeof error);
    if (c == NULL)
        fail_msg("%s: %s", text, error);
    return c;
}

/* Products through CBLAS of one call, whose result is right. */
static int products_of_attention(const char *text, attn_engine engine) {
    support_case *c = parsed(text);
    support_data d;
    support_report report;
    assert_true(support_data_create(&d, c, REAL_DTYPE));
    attn_problem problem = c->problem;
    problem.engine = engine;
    watch_begin(WATCH_ANY_TASKS);
#if ATTN_REAL_BITS == 32
    assert_int_equal(attn_sdpa_f32(NULL, &problem, &d.args32), ATTN_OK);
#else
    assert_int_equal(attn_sdpa_f64(NULL, &problem, &d.args64), ATTN_OK);
#endif
    int products = watch_end().products;
    if (!support_verify_sampled(&d, NULL, 24, 1, &report))
        fail_msg("%s", report.text);
    support_data_destroy(&d);
    support_case_free(c);
    return products;
}

static support_layer *parsed_layer(const char *text, support_layer_data *d) {
    char error[256] = "";
    support_layer *l = support_layer_parse(text, error, sizeof error);
    if (l == NULL)
        fail_msg("%s: %s", text, error);
    assert_true(support_layer_data_create(d, l, REAL_DTYPE));
    return l;
}

static int products_of_layer(const char *text) {
    support_layer_data d;
    support_report report;
    support_layer *l = parsed_layer(text, &d);
    watch_begin(WATCH_ANY_TASKS);
#if ATTN_REAL_BITS == 32
    assert_int_equal(attn_layer_f32(NULL, &d.layer, &d.args32), ATTN_OK);
#else
    assert_int_equal(attn_layer_f64(NULL, &d.layer, &d.args64), ATTN_OK);
#endif
    int products = watch_end().products;
    if (!support_layer_verify(&d, &report))
        fail_msg("%s", report.text);
    support_layer_data_destroy(&d);
    support_layer_free(l);
    return products;
}

/* Tiles begin above 8 queries. Of the last head size no tile is below the million multiply-adds up to which OpenBLAS
 * has small products. */
static const char *const problems[] = {
    "b2h3q61k71d67",
    "h6/2q131k257d64v37,causal,br,lse",
    "h2q97d33,mask,bias,softcap=3",
    "h2q300k517d64,nan=v:0:0:5:1+k:0:0:277:0",
    "q9k33d4099",
};

static void test_tiles(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        int products = products_of_attention(problems[i], ATTN_ENGINE_FUSED);
        if ((products == 0) != own_products)
            fail_msg("%s: fused made %d products through CBLAS", problems[i], products);
    }
}

/* Whole score matrices stay with BLAS, whatever its core. */
static void test_engine_blas(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        assert_true(products_of_attention(problems[i], ATTN_ENGINE_BLAS) > 0);
}

/* Rows above the 32 that own loops take; more than a million multiply-adds of each weight, less, and less with weights
 * that are transposed. */
static const struct {
    const char *text;
    enum { LARGE, SMALL, SMALL_TRANSPOSED } products;
} layers[] = {
    {"layer d128h4 b1q97,causal", LARGE},
    {"layer d128h4,packed,outin b2q97", LARGE},
    {"layer d24h4 b1q37", SMALL},
    {"layer d24h4,outin b1q37", SMALL_TRANSPOSED},
};

static bool projects_itself(size_t layer) {
    return layers[layer].products == LARGE ? falls_short : layers[layer].products == SMALL && own_products;
}

static void test_projections(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        int products = products_of_layer(layers[i].text);
        if ((products == 0) != projects_itself(i))
            fail_msg("%s: %d products through CBLAS", layers[i].text, products);
    }
}

static void test_stages(void **state) {
    (void)state;
    for (product_call call = CALL_SCORES; call <= CALL_COMBINE; call++) {
        void *output = malloc(call_output_bytes(REAL_DTYPE, call));
        assert_non_null(output);
        watch_begin(WATCH_ANY_TASKS);
        assert_int_equal(call_run(REAL_DTYPE, call, NULL, output), ATTN_OK);
        assert_true(watch_end().products > 0);
        free(output);
    }
}

/* ---- What plans say ---------------------------------------------------------------------------------------------- */

static void assert_says(const char *text, const char *words) {
    if (strstr(text, words) == NULL)
        fail_msg("no \"%s\" in: %s", words, text);
}

static void test_plan_says_who_multiplies(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        support_case *c = parsed(problems[i]);
        char text[4096], words[512];
        attn_plan *plan;
        assert_int_equal(attn_plan_create(NULL, &c->problem, REAL_DTYPE, &plan), ATTN_OK);
        assert_int_equal(attn_plan_describe(plan, text, sizeof text, NULL), ATTN_OK);
        snprintf(words, sizeof words, "\npath: tiles (q_len above 8), %s\n",
                 own_products ? OWN_PRODUCTS : "CBLAS products");
        assert_says(text, words);
        snprintf(words, sizeof words, "\nadvice: %s\n", blas.advice);
        if (falls_short)
            assert_says(text, words);
        else
            assert_null(strstr(text, "advice"));
        assert_says(text, own_products ? " keys (small products, by the library's own kernel)\npacking: K transposed"
                                       : " keys (large products, for a BLAS core that packs them)\npacking: none");
        attn_plan_destroy(plan);
        support_case_free(c);
    }
}

static void test_layer_plan_says_who_multiplies(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char text[8192], words[512];
        support_layer_data d;
        support_layer *l = parsed_layer(layers[i].text, &d);
        attn_layer_plan *plan;
        assert_int_equal(attn_layer_plan_create(NULL, &d.layer, REAL_DTYPE, &plan), ATTN_OK);
        assert_int_equal(attn_layer_plan_describe(plan, text, sizeof text, NULL), ATTN_OK);
        bool itself = projects_itself(i), panels = itself && layers[i].products == LARGE;
        snprintf(words, sizeof words, " columns, %s%s\n",
                 panels ? "weights packed in panels for small " : "in blocks, ",
                 itself ? OWN_PRODUCTS : "CBLAS products");
        assert_says(text, words);
        attn_layer_plan_destroy(plan);
        support_layer_data_destroy(&d);
        support_layer_free(l);
    }
}

/* An OpenBLAS built for one core writes its name in capitals. */
static void test_name_of_core_in_any_letters(void **state) {
    (void)state;
    char capitals[64];
    size_t n = 0;
    for (const char *c = attn_blas_core(); *c != 0 && n + 1 < sizeof capitals; c++)
        capitals[n++] = (char)toupper((unsigned char)*c);
    capitals[n] = 0;
    assert_true(attn_blas_core_is(attn_blas_core()));
    assert_true(attn_blas_core_is(capitals));
    capitals[n > 0 ? n - 1 : 0] = n > 0 ? 0 : 'x';
    assert_false(attn_blas_core_is(capitals));
}

int main(void) {
    enum { SKIPPED = 77 };
    const char *isa = getenv("ATTN_MAX_ISA"), *core = getenv("OPENBLAS_CORETYPE");
    if (isa == NULL || core == NULL || attn_blas_get_info(&blas) != ATTN_OK)
        return 1;
    if (strcmp(attn_isa_name(attn_isa_in_use()), isa) != 0) {
        printf("skipped: this CPU, this build or valgrind has no %s\n", isa);
        return SKIPPED;
    }
    if (strcmp(blas.core, core) != 0) {
        printf("skipped: %s %s has no choice of cores, or no core %s (built without DYNAMIC_ARCH?)\n", blas.name,
               blas.version, core);
        return SKIPPED;
    }
    own_products = attn_isa_in_use() > ATTN_ISA_GENERIC;
    falls_short = attn_isa_in_use() > (strcmp(core, "Haswell") == 0 ? ATTN_ISA_AVX2 : ATTN_ISA_GENERIC);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name_of_core_in_any_letters),
        cmocka_unit_test(test_advice),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_engine_blas),
        cmocka_unit_test(test_projections),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_plan_says_who_multiplies),
        cmocka_unit_test(test_layer_plan_says_who_multiplies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
