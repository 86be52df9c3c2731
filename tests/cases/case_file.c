/* Reading a conformance case. */
#include "case_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct element_type {
    const char *name;
    size_t bytes;
} element_type;

static const element_type element_types[] = {{"float32", 4}, {"float64", 8}, {"int32", 4}, {"int64", 8}, {"bool", 1}};

static const element_type *type_named(const char *name) {
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
        if (strcmp(element_types[i].name, name) == 0)
            return &element_types[i];
    return NULL;
}

static void *read_file(const char *folder, const char *name, size_t bytes) {
    char path[4096 + 2 * CASE_TEXT];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return NULL;
    unsigned char *data = malloc(bytes + 1);
    bool whole = data != NULL && fread(data, 1, bytes + 1, in) == bytes;
    fclose(in);
    if (whole)
        return data;
    free(data);
    return NULL;
}

/* Raw elements into the array of the tensor's kind. */
static bool convert(case_tensor *tensor, const element_type *type, const void *data) {
    size_t n = (size_t)tensor->count;
    bool is_real = type->name[0] == 'f';
    bool is_bool = type->name[0] == 'b';
    tensor->reals = is_real ? malloc((n + 1) * sizeof(real)) : NULL;
    tensor->bools = is_bool ? malloc(n + 1) : NULL;
    tensor->ints = !is_real && !is_bool ? malloc((n + 1) * sizeof(int64_t)) : NULL;
    if (tensor->reals == NULL && tensor->bools == NULL && tensor->ints == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (is_real)
            tensor->reals[i] = type->bytes == 4 ? (real)((const float *)data)[i] : (real)((const double *)data)[i];
        else if (is_bool)
            tensor->bools[i] = ((const uint8_t *)data)[i];
        else
            tensor->ints[i] = type->bytes == 4 ? ((const int32_t *)data)[i] : ((const int64_t *)data)[i];
    }
    return true;
}

/* In double an output is compared with its float64 version, ref64_<index>_<name>.bin, where there is one. */
static void prefer_float64(const char *folder, int index, case_tensor *tensor) {
    if (ATTN_REAL_BITS == 32 || tensor->reals == NULL)
        return;
    char name[2 * CASE_TEXT];
    snprintf(name, sizeof name, "ref64_%d_%s.bin", index, tensor->name);
    double *data = read_file(folder, name, (size_t)tensor->count * sizeof *data);
    for (int64_t i = 0; data != NULL && i < tensor->count; i++)
        tensor->reals[i] = (real)data[i];
    free(data);
}

/* The rest of a line "input INDEX NAME DTYPE RANK DIM... FILE" or "... NAME absent". */
static bool read_tensor(const char *folder, const char *line, case_tensor *list, bool is_output) {
    int index, used, rank;
    char name[CASE_TEXT], type_name[CASE_TEXT], file[2 * CASE_TEXT];
    if (sscanf(line, "%d %63s %63s%n", &index, name, type_name, &used) != 3 || index < 0 || index >= CASE_MAX_TENSORS)
        return false;
    case_tensor *tensor = &list[index];
    strcpy(tensor->name, name);
    if (strcmp(type_name, "absent") == 0)
        return true;
    const element_type *type = type_named(type_name);
    line += used;
    if (type == NULL || sscanf(line, "%d%n", &rank, &used) != 1 || rank < 0 || rank > CASE_MAX_RANK)
        return false;
    tensor->rank = rank;
    tensor->count = 1;
    for (int d = 0; d < rank; d++) {
        line += used;
        long long dim;
        if (sscanf(line, "%lld%n", &dim, &used) != 1 || dim < 0 || dim > 1 << 20)
            return false;
        tensor->dims[d] = dim;
        tensor->count *= dim;
    }
    if (sscanf(line + used, "%127s", file) != 1)
        return false;
    void *data = read_file(folder, file, (size_t)tensor->count * type->bytes);
    tensor->present = data != NULL && convert(tensor, type, data);
    free(data);
    if (tensor->present && is_output)
        prefer_float64(folder, index, tensor);
    return tensor->present;
}

static bool read_attribute(const char *line, case_file *file) {
    case_attribute *a = &file->attribute[file->attributes++];
    return file->attributes < CASE_MAX_ATTRIBUTES && sscanf(line, "%63s %*s %63s", a->name, a->value) == 2;
}

static bool read_record(const char *line, case_file *file) {
    int used = 0;
    char kind[CASE_TEXT];
    if (sscanf(line, "%63s%n", kind, &used) != 1)
        return true; /* a blank line */
    if (strcmp(kind, "op") == 0)
        return sscanf(line + used, "%63s", file->op) == 1;
    if (strcmp(kind, "attr") == 0)
        return read_attribute(line + used, file);
    if (strcmp(kind, "input") == 0)
        return read_tensor(file->path, line + used, file->input, false);
    if (strcmp(kind, "output") == 0)
        return read_tensor(file->path, line + used, file->output, true);
    return true; /* case, group, domain, opset */
}

case_file *case_read(const char *folder, char error[256]) {
    case_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    snprintf(file->path, sizeof file->path, "%s", folder);
    char line[4096];
    snprintf(line, sizeof line, "%s/meta.txt", folder);
    FILE *in = fopen(line, "r");
    bool understood = in != NULL;
    snprintf(error, 256, "no meta.txt");
    while (understood && fgets(line, sizeof line, in) != NULL) {
        understood = read_record(line, file);
        if (!understood)
            snprintf(error, 256, "not understood: %.200s", line);
    }
    if (in != NULL)
        fclose(in);
    if (understood)
        return file;
    case_free(file);
    return NULL;
}

static void free_tensors(case_tensor *list) {
    for (int i = 0; i < CASE_MAX_TENSORS; i++) {
        free(list[i].reals);
        free(list[i].ints);
        free(list[i].bools);
    }
}

void case_free(case_file *file) {
    free_tensors(file->input);
    free_tensors(file->output);
    free(file);
}

static const char *find_attribute(const case_file *file, const char *name) {
    for (int i = 0; i < file->attributes; i++)
        if (strcmp(file->attribute[i].name, name) == 0)
            return file->attribute[i].value;
    return NULL;
}

int64_t case_int(const case_file *file, const char *name, int64_t otherwise) {
    const char *value = find_attribute(file, name);
    return value != NULL ? strtoll(value, NULL, 10) : otherwise;
}

bool case_float(const case_file *file, const char *name, float *value) {
    const char *text = find_attribute(file, name);
    if (text != NULL)
        *value = strtof(text, NULL);
    return text != NULL;
}
