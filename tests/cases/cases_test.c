/* cases_test FOLDER: runs the conformance cases found in a folder. Without a folder it is skipped (77). */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>
/* cmocka.h wants stdarg, stddef, stdint and setjmp before it */
#include <cmocka.h>

#include "cases.h"

void check_output(const case_file *file, int index, int64_t count, const real *got, const char *how) {
    const case_tensor *wanted = &file->output[index];
    assert_int_equal(count, wanted->count);
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(wanted->reals[i]))
            largest = fmax(largest, (double)fabs(wanted->reals[i]));
    for (int64_t i = 0; i < count; i++) {
        double w = (double)wanted->reals[i];
        double g = (double)got[i];
        double gate = ATTN_REAL_BITS == 32 ? 1e-6 * fabs(w) + 1e-7 : 1e-14 * largest;
        bool same = isnan(w) ? isnan(g) : isinf(w) ? g == w : fabs(g - w) <= gate;
        if (!same)
            fail_msg("%s, %s: %s[%lld] is %.17g, wanted %.17g within %g", file->path, how, wanted->name, (long long)i,
                     g, w, gate);
    }
}

static const struct {
    const char *op;
    void (*run)(const case_file *file);
} operators[] = {
    {"Attention", run_attention},
    {"RotaryEmbedding", run_rotary},
    {"Softmax", run_softmax},
    {"Gather", run_gather},
};

static void run_case(void **state) {
    char error[256];
    case_file *file = case_read(*state, error);
    if (file == NULL)
        fail_msg("%s: %s", (const char *)*state, error);
    bool known = false;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(file->op, operators[i].op) == 0) {
            known = true;
            operators[i].run(file);
        }
    if (!known)
        print_message("skipped: libattn has no %s\n", file->op);
    case_free(file);
    if (!known)
        skip();
}

static int is_case(const struct dirent *entry) {
    return entry->d_name[0] != '.' && strchr(entry->d_name, '.') == NULL;
}

int main(int argc, char **argv) {
    struct dirent **entries;
    int count = argc == 2 && argv[1][0] != 0 ? scandir(argv[1], &entries, is_case, alphasort) : 0;
    if (argc == 2 && argv[1][0] != 0 && count < 1) {
        fprintf(stderr, "%s holds no cases\n", argv[1]);
        return 1;
    }
    if (count < 1) {
        puts("skipped: no folder of cases, configure with -DATTN_CASES_DIR=...");
        return 77;
    }
    struct CMUnitTest *tests = calloc((size_t)count, sizeof *tests);
    for (int i = 0; tests != NULL && i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        tests[i] = (struct CMUnitTest){
            .name = strdup(entries[i]->d_name), .test_func = run_case, .initial_state = strdup(path)};
    }
    int failed = tests == NULL ? 1 : _cmocka_run_group_tests("cases", tests, (size_t)count, NULL, NULL);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
        free(tests != NULL ? (char *)tests[i].name : NULL);
        free(tests != NULL ? tests[i].initial_state : NULL);
    }
    free(entries);
    free(tests);
    return failed;
}
