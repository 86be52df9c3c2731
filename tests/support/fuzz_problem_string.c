/* Fuzzes the problem strings: no text may crash the parser, and what it accepts must print and parse back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "problem_string.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *printed(const support_case *c) {
    size_t length = support_case_print(c, NULL, 0);
    char *text = malloc(length + 1);
    if (!text || support_case_print(c, text, length + 1) != length) {
        abort();
    }
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char error[64];
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    support_case *c = support_case_parse(text, error, sizeof error);
    free(text);
    if (c) {
        char *first = printed(c);
        support_case_free(c);
        c = support_case_parse(first, error, sizeof error);
        char *second = c ? printed(c) : NULL;
        if (!second || strcmp(first, second) != 0) {
            abort();
        }
        free(first);
        free(second);
        support_case_free(c);
    }
    return 0;
}
