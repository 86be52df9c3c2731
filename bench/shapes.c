/* Shape files. */
#define _GNU_SOURCE /* asprintf() */
#include "shapes.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "support.h"

#ifndef BENCH_SHAPES_FOLDER
#define BENCH_SHAPES_FOLDER "../share/attn-bench/shapes"
#endif

/* From the folder of the program: in the build tree, and where it is installed. */
static const char *const folders[] = {"shapes", BENCH_SHAPES_FOLDER};

#define SUFFIX ".shapes"
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"

static void *must_have(void *memory) {
    if (!memory) {
        fputs("attn-bench: not enough memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* ---- Finding files ----------------------------------------------------------------------------------------------- */

/* The folder with the shapes that came with the program, to be freed; NULL when there is none. */
static char *own_folder(void) {
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return NULL;
    program[n] = 0;
    *strrchr(program, '/') = 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *folder = NULL;
        if (asprintf(&folder, "%s/%s", program, folders[i]) > 0 && access(folder, R_OK) == 0)
            return folder;
        free(folder);
    }
    return NULL;
}

/* The files that came with the program, sorted; free with globfree(). */
static void find_own_files(glob_t *files) {
    char *folder = own_folder(), *pattern = NULL;
    memset(files, 0, sizeof *files);
    if (folder && asprintf(&pattern, "%s/*" SUFFIX, folder) > 0)
        glob(pattern, 0, NULL, files);
    free(pattern);
    free(folder);
}

/* "llama-7b" of ".../llama-7b.shapes". */
static void name_of_file(const char *path, char *name, size_t size) {
    const char *slash = strrchr(path, '/');
    snprintf(name, size, "%s", slash ? slash + 1 : path);
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    if (n > suffix && strcmp(name + n - suffix, SUFFIX) == 0)
        name[n - suffix] = 0;
}

/* The path of the file that came with the program under that name, to be freed; NULL when there is none. */
static char *find_own_file(const char *name) {
    glob_t files;
    char *found = NULL, other[96];
    find_own_files(&files);
    for (size_t i = 0; i < files.gl_pathc && !found; i++) {
        name_of_file(files.gl_pathv[i], other, sizeof other);
        if (strcmp(other, name) == 0)
            found = must_have(strdup(files.gl_pathv[i]));
    }
    globfree(&files);
    return found;
}

static __attribute__((noreturn)) void no_such_file(const char *option, const char *name) {
    glob_t files;
    char known[512] = "", other[96];
    find_own_files(&files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        size_t used = strlen(known);
        name_of_file(files.gl_pathv[i], other, sizeof other);
        snprintf(known + used, sizeof known - used, "%s, ", other);
    }
    globfree(&files);
    usage_error("%s%s: no such file and no shapes of that name; %sall or a file are accepted", option, name, known);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* One line without its comment; false when nothing is left. What it says must be right. */
static bool read_line(const char *path, int number, char *line, shape *s) {
    char *name = line + strspn(line, " \t\r\n"), problem[sizeof s->problem], stem[64], error[512];
    if (!*name)
        return false;
    size_t length = strspn(name, NAME_CHARACTERS);
    char *text = name + length + strspn(name + length, " \t");
    size_t size = strcspn(text, " \t\r\n");
    if (length == 0 || text == name + length || size == 0 || text[size + strspn(text + size, " \t\r\n")])
        usage_error("%s line %d: a name of letters, digits and - . _, then a problem string are needed", path, number);
    if (size >= sizeof problem || length > 40)
        usage_error("%s line %d: the name has more than 40 characters or the problem more than %zu", path, number,
                    sizeof problem - 1);
    snprintf(problem, sizeof problem, "%.*s", (int)size, text);
    support_case *c = support_case_parse(problem, error, sizeof error);
    if (!c)
        usage_error("%s line %d: problem '%s': %s", path, number, problem, error);
    support_case_free(c);
    name_of_file(path, stem, sizeof stem - 10);
    snprintf(s->name, sizeof s->name, "%.50s:%.*s", stem, (int)length, name);
    memcpy(s->problem, problem, sizeof problem);
    return true;
}

/* Adds the shapes of a file; *title gets its first comment when it is asked for. */
static void read_file(const char *path, shape_list *list, char *title, size_t title_size) {
    FILE *in = fopen(path, "r");
    if (!in)
        usage_error("%s: %s", path, strerror(errno));
    char *line = NULL;
    size_t capacity = 0;
    int before = list->count;
    for (int number = 1; getline(&line, &capacity, in) >= 0; number++) {
        char *comment = strchr(line, '#');
        if (comment) {
            *comment++ = 0;
            comment[strcspn(comment, "\r\n")] = 0;
            if (title && !*title)
                snprintf(title, title_size, "%s", comment + strspn(comment, " "));
        }
        shape s;
        if (!read_line(path, number, line, &s))
            continue;
        for (int i = before; i < list->count; i++)
            if (strcmp(list->item[i].name, s.name) == 0)
                usage_error("%s line %d: a second shape of the name %s", path, number, strchr(s.name, ':') + 1);
        list->item = must_have(realloc(list->item, (size_t)(list->count + 1) * sizeof *list->item));
        list->item[list->count++] = s;
    }
    if (ferror(in))
        usage_error("%s: %s", path, strerror(errno));
    free(line);
    fclose(in);
    if (list->count == before)
        usage_error("%s: no shape in it; lines of a name and a problem string are needed", path);
}

void shapes_read(const char *file_or_name, shape_list *list) {
    *list = (shape_list){0};
    if (strcmp(file_or_name, "all") == 0) {
        glob_t files;
        find_own_files(&files);
        for (size_t i = 0; i < files.gl_pathc; i++)
            read_file(files.gl_pathv[i], list, NULL, 0);
        globfree(&files);
        if (list->count == 0)
            usage_error("--shapes all: no shapes came with this attn-bench; a file is accepted");
        return;
    }
    char *own = find_own_file(file_or_name);
    if (!own && access(file_or_name, F_OK) != 0)
        no_such_file("--shapes ", file_or_name);
    read_file(own ? own : file_or_name, list, NULL, 0);
    free(own);
}

/* The problem of a shape of a file, which the user named `file`; one that is not there is a usage error. wanted: NULL =
 * none was named. */
static void take_shape(const char *path, const char *file, const char *wanted, char *problem, size_t size) {
    shape_list list = {0};
    char known[512] = "";
    bool found = false;
    read_file(path, &list, NULL, 0);
    for (int i = 0; i < list.count && !found; i++) {
        const char *name = strchr(list.item[i].name, ':') + 1;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", name);
        found = wanted && strcmp(name, wanted) == 0;
        if (found)
            snprintf(problem, size, "%s", list.item[i].problem);
    }
    free(list.item);
    if (!found && wanted)
        usage_error("%s:%s: no such shape; %s has %s", file, wanted, file, known);
    if (!found)
        usage_error("%s: one of its shapes is needed, %s:SHAPE; it has %s", file, file, known);
}

bool shapes_resolve(const char *text, char *problem, size_t size) {
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    bool is_name = length > 0 && length < 64 && strspn(text, NAME_CHARACTERS) >= length;
    char *file = must_have(strndup(text, length)), *path = is_name ? find_own_file(file) : NULL;
    if (!path && colon && access(file, F_OK) == 0)
        path = must_have(strdup(file));
    if (path)
        take_shape(path, file, colon ? colon + 1 : NULL, problem, size);
    else if (colon && is_name)
        no_such_file("", file);
    bool found = path != NULL;
    free(path);
    free(file);
    return found;
}

void shapes_print(FILE *out) {
    glob_t files;
    find_own_files(&files);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        shape_list list = {0};
        char name[96], title[160] = "";
        read_file(files.gl_pathv[i], &list, title, sizeof title);
        name_of_file(files.gl_pathv[i], name, sizeof name);
        fprintf(out, "  %s: %s\n", name, title);
        for (int j = 0; j < list.count; j++)
            fprintf(out, "    %-18s %s\n", strchr(list.item[j].name, ':') + 1, list.item[j].problem);
        free(list.item);
    }
    globfree(&files);
}
