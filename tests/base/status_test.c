/* Status texts, the sentence of each thread, versions and what is known about BLAS. */
#include "base/status.h"

#include <pthread.h>
#include <strings.h>

#include "base_test.h"

static void test_values_are_pinned(void **state) {
    (void)state;
    assert_int_equal(ATTN_OK, 0);
    assert_int_equal(ATTN_ERR_NULL, 1);
    assert_int_equal(ATTN_ERR_SIZE, 2);
    assert_int_equal(ATTN_ERR_STRIDE, 3);
    assert_int_equal(ATTN_ERR_VALUE, 4);
    assert_int_equal(ATTN_ERR_ID, 5);
    assert_int_equal(ATTN_ERR_LENGTH, 6);
    assert_int_equal(ATTN_ERR_OVERFLOW, 7);
    assert_int_equal(ATTN_ERR_OVERLAP, 8);
    assert_int_equal(ATTN_ERR_WORKSPACE, 9);
    assert_int_equal(ATTN_ERR_FLAG, 10);
    assert_int_equal(ATTN_ERR_STRUCT_SIZE, 11);
    assert_int_equal(ATTN_ERR_UNSUPPORTED, 12);
    assert_int_equal(ATTN_ERR_DTYPE, 13);
    assert_int_equal(ATTN_ERR_NOMEM, 100);
    assert_int_equal(ATTN_ERR_BLAS, 101);
    assert_int_equal(ATTN_ERR_THREADS, 102);
    assert_int_equal(ATTN_ERR_LAPACK, 103);
}

static bool is_status(int value) {
    return (value >= ATTN_OK && value <= ATTN_ERR_DTYPE) || (value >= ATTN_ERR_NOMEM && value <= ATTN_ERR_LAPACK);
}

/* Each status has a text of its own, every other number the same one. */
static void test_texts(void **state) {
    (void)state;
    assert_string_equal(attn_status_string(ATTN_OK), "success");
    for (int value = -3; value < 300; value++) {
        const char *text = attn_status_string((attn_status)value);
        assert_non_null(text);
        assert_true(strlen(text) > 0);
        assert_int_equal(strcmp(text, "unknown status") != 0, is_status(value));
        for (int other = 0; is_status(value) && other < value; other++)
            if (is_status(other))
                assert_string_not_equal(text, attn_status_string((attn_status)other));
    }
    assert_string_equal(attn_status_string((attn_status)INT32_MAX), "unknown status");
    assert_string_equal(attn_status_string((attn_status)INT32_MIN), "unknown status");
}

/* ---- The sentence ------------------------------------------------------------------------------------------------ */

static void *sentence_of_a_new_thread(void *data) {
    char *copy = data;
    copy[0] = attn_last_error()[0]; /* nothing has failed here yet */
    attn_fail(ATTN_ERR_SIZE, "of thread %d", 2);
    strcpy(copy + 1, attn_last_error());
    return NULL;
}

static void test_each_thread_has_its_sentence(void **state) {
    (void)state;
    char copy[ATTN_ERROR_TEXT + 1];
    pthread_t thread;
    assert_int_equal(attn_fail(ATTN_ERR_VALUE, "of thread %d", 1), ATTN_ERR_VALUE);
    assert_int_equal(pthread_create(&thread, NULL, sentence_of_a_new_thread, copy), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(copy[0], 0);
    assert_string_equal(copy + 1, "of thread 2");
    assert_string_equal(attn_last_error(), "of thread 1");
}

static void test_success_leaves_the_sentence(void **state) {
    (void)state;
    attn_context context;
    assert_int_equal(attn_context_init(NULL, sizeof context), ATTN_ERR_NULL);
    assert_string_equal(attn_last_error(), "attn_context is NULL");
    assert_ok(attn_context_init(&context, sizeof context));
    assert_string_equal(attn_last_error(), "attn_context is NULL");
}

static void test_long_sentences_are_cut(void **state) {
    (void)state;
    char long_text[2 * ATTN_ERROR_TEXT];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    attn_fail(ATTN_ERR_VALUE, "%s", long_text);
    assert_int_equal(strlen(attn_last_error()), ATTN_ERROR_TEXT - 1);
    assert_memory_equal(attn_last_error(), long_text, ATTN_ERROR_TEXT - 1);
}

static attn_status try_twice(attn_status first, attn_status second) {
    ATTN_TRY(first);
    ATTN_TRY(second);
    return ATTN_OK;
}

static void test_try(void **state) {
    (void)state;
    assert_int_equal(try_twice(ATTN_OK, ATTN_OK), ATTN_OK);
    assert_int_equal(try_twice(ATTN_OK, ATTN_ERR_ID), ATTN_ERR_ID);
    assert_int_equal(try_twice(ATTN_ERR_BLAS, ATTN_ERR_ID), ATTN_ERR_BLAS);
}

/* ---- Versions ---------------------------------------------------------------------------------------------------- */

static attn_blas_info blas_info(void) {
    attn_blas_info info = {.struct_size = sizeof info};
    assert_ok(attn_blas_get_info(&info));
    return info;
}

/* "libattn 0.1.0, avx2, OpenBLAS 0.3.21 Zen pthread, 32-bit integers" */
static void test_version_string(void **state) {
    (void)state;
    attn_blas_info info = blas_info();
    char wanted[512];
    snprintf(wanted, sizeof wanted, "libattn %d.%d.%d, %s, %s%s%s%s%s %s, %d-bit integers", ATTN_VERSION_MAJOR,
             ATTN_VERSION_MINOR, ATTN_VERSION_PATCH, attn_isa_name(attn_isa_in_use()), info.name,
             info.version[0] != 0 ? " " : "", info.version, info.core[0] != 0 ? " " : "", info.core, info.flavour,
             info.integer_bits);
    assert_string_equal(attn_version_string(), wanted);
    assert_ptr_equal(attn_version_string(), attn_version_string());
    assert_int_equal(attn_version_number(), ATTN_VERSION_NUMBER);
    int major, minor, patch;
    assert_int_equal(sscanf(attn_version_string(), "libattn %d.%d.%d, ", &major, &minor, &patch), 3);
    assert_int_equal(major * 10000 + minor * 100 + patch, attn_version_number());
}

static void test_blas_info(void **state) {
    (void)state;
    static const char *const names[] = {"OpenBLAS", "BLIS", "MKL", "unknown CBLAS"};
    static const char *const flavours[] = {"sequential", "pthread", "openmp", "unknown"};
    attn_blas_info info = blas_info();
    int known = 0;
    for (int i = 0; i < 4; i++)
        known += (strcmp(info.name, names[i]) == 0) + (strcmp(info.flavour, flavours[i]) == 0);
    assert_int_equal(known, 2);
    assert_int_equal(info.integer_bits, 32);
    if (strcmp(info.name, "OpenBLAS") == 0) {
        assert_true(info.version[0] >= '0' && info.version[0] <= '9');
        assert_true(info.core[0] != 0);
        assert_string_not_equal(info.flavour, "unknown");
    }
}

/* The advice names the core and what to set instead. Beside the kernels that a core is on a level with, and beside
 * lesser ones, there is none; cores that are not in this list may have any. */
static void test_blas_advice(void **state) {
    (void)state;
    static const struct {
        const char *core;
        attn_isa level;
    } cores[] = {
        {"Prescott", ATTN_ISA_GENERIC},
        {"Nehalem", ATTN_ISA_GENERIC},
        {"Sandybridge", ATTN_ISA_GENERIC},
        {"Haswell", ATTN_ISA_AVX2},
        {"Zen", ATTN_ISA_AVX2},
        {"SkylakeX", ATTN_ISA_AVX512},
        {"Cooperlake", ATTN_ISA_AVX512},
        {"SapphireRapids", ATTN_ISA_AVX512},
    };
    attn_blas_info info = blas_info();
    /* the matrix unit is beside the vectors */
    attn_isa ours = attn_isa_in_use() == ATTN_ISA_AMX ? ATTN_ISA_AVX512 : attn_isa_in_use();
    const char *better = ours == ATTN_ISA_AVX512 ? "set OPENBLAS_CORETYPE=SkylakeX" : "set OPENBLAS_CORETYPE=Haswell";
    char begin[200];
    int length =
        snprintf(begin, sizeof begin, "%s computes with core %s, which does not use the %s of this CPU: ", info.name,
                 info.core, attn_isa_name(ours));
    assert_non_null(info.advice);
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
        if (strcasecmp(info.core, cores[i].core) != 0)
            continue;
        if (cores[i].level >= ours) {
            assert_string_equal(info.advice, "");
            continue;
        }
        assert_true(strncmp(info.advice, begin, (size_t)length) == 0);
        /* OpenBLAS has a choice of cores unless it was built for one */
        if (strcmp(info.name, "OpenBLAS") != 0 || strcmp(info.advice + length, better) != 0)
            assert_string_equal(info.advice + length, "use one that was built for it");
    }
    if (strcmp(info.name, "unknown CBLAS") == 0) {
        snprintf(begin, sizeof begin, "this CBLAS is not known to use the %s of this CPU: OpenBLAS, BLIS and MKL do",
                 attn_isa_name(ours));
        assert_string_equal(info.advice, ours >= ATTN_ISA_AVX2 ? begin : "");
    }
    if (ours < ATTN_ISA_AVX2)
        assert_string_equal(info.advice, "");
    assert_ptr_equal(blas_info().advice, info.advice);
}

/* A caller built before there was an advice. */
static void test_blas_info_of_older_callers(void **state) {
    (void)state;
    typedef struct older_blas_info {
        size_t struct_size;
        const char *name, *version, *core, *flavour;
        int integer_bits;
    } older_blas_info;
    struct {
        older_blas_info info;
        const char *behind;
    } given = {.info = {.struct_size = sizeof given.info}, .behind = "untouched"};
    attn_blas_info whole = blas_info();
    assert_true(sizeof given.info < sizeof whole);
    assert_int_equal(sizeof given.info, offsetof(attn_blas_info, advice));
    assert_ok(attn_blas_get_info((attn_blas_info *)&given.info));
    assert_ptr_equal(given.info.name, whole.name);
    assert_ptr_equal(given.info.version, whole.version);
    assert_ptr_equal(given.info.core, whole.core);
    assert_ptr_equal(given.info.flavour, whole.flavour);
    assert_int_equal(given.info.integer_bits, whole.integer_bits);
    assert_string_equal(given.behind, "untouched");
}

static void test_blas_info_writes_struct_size_bytes(void **state) {
    (void)state;
    const size_t first = offsetof(attn_blas_info, integer_bits) + sizeof(int);
    attn_blas_info whole = blas_info();
    for (size_t size = 0; size <= sizeof whole + 8; size++) {
        union {
            attn_blas_info info;
            unsigned char bytes[sizeof(attn_blas_info) + 16];
        } given;
        memset(&given, 0xa5, sizeof given);
        given.info.struct_size = size;
        attn_status status = attn_blas_get_info(&given.info);
        assert_int_equal(status, size < first || size > sizeof whole ? ATTN_ERR_STRUCT_SIZE : ATTN_OK);
        size_t written = status == ATTN_OK ? size : sizeof size;
        assert_int_equal(given.info.struct_size, size);
        for (size_t i = written; i < sizeof given; i++)
            assert_int_equal(given.bytes[i], 0xa5);
        if (status == ATTN_OK)
            assert_string_equal(given.info.name, whole.name);
    }
    assert_refused(ATTN_ERR_NULL, "attn_blas_info is NULL", attn_blas_get_info(NULL));
}

static void test_isa_names(void **state) {
    (void)state;
    assert_string_equal(attn_isa_name(ATTN_ISA_GENERIC), "generic");
    assert_string_equal(attn_isa_name(ATTN_ISA_NEON), "neon");
    assert_string_equal(attn_isa_name(ATTN_ISA_AVX2), "avx2");
    assert_string_equal(attn_isa_name(ATTN_ISA_AVX512), "avx512");
    assert_string_equal(attn_isa_name(ATTN_ISA_AMX), "amx");
    assert_string_equal(attn_isa_name((attn_isa)5), "unknown");
    assert_string_equal(attn_isa_name((attn_isa)-1), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_pinned),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_each_thread_has_its_sentence),
        cmocka_unit_test(test_success_leaves_the_sentence),
        cmocka_unit_test(test_long_sentences_are_cut),
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_version_string),
        cmocka_unit_test(test_blas_info),
        cmocka_unit_test(test_blas_advice),
        cmocka_unit_test(test_blas_info_of_older_callers),
        cmocka_unit_test(test_blas_info_writes_struct_size_bytes),
        cmocka_unit_test(test_isa_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
