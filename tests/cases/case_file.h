/* A conformance case: a folder with meta.txt and raw tensors, read into memory. Its format is described in the README
 * of the cases, which are not part of this project. */
#ifndef ATTN_CASE_FILE_H
#define ATTN_CASE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/real.h"

enum { CASE_MAX_RANK = 6, CASE_MAX_TENSORS = 12, CASE_MAX_ATTRIBUTES = 16, CASE_TEXT = 64 };

typedef struct case_tensor {
    bool present;
    char name[CASE_TEXT];
    int rank;
    int64_t dims[CASE_MAX_RANK];
    int64_t count;
    real *reals;    /* float32 and float64, converted */
    int64_t *ints;  /* int32 and int64 */
    uint8_t *bools; /* bool */
} case_tensor;

typedef struct case_attribute {
    char name[CASE_TEXT];
    char value[CASE_TEXT];
} case_attribute;

typedef struct case_file {
    char path[4096];
    char op[CASE_TEXT];
    int attributes;
    case_attribute attribute[CASE_MAX_ATTRIBUTES];
    case_tensor input[CASE_MAX_TENSORS];
    case_tensor output[CASE_MAX_TENSORS]; /* wanted: float32 as published, in double the recomputed float64 */
} case_file;

/* Reads a folder; NULL with a message in *error when it cannot be understood. */
case_file *case_read(const char *folder, char error[256]);
void case_free(case_file *file);

/* Attributes: a default where the case has none; floats are binary32. */
int64_t case_int(const case_file *file, const char *name, int64_t otherwise);
bool case_float(const case_file *file, const char *name, float *value);

#endif
