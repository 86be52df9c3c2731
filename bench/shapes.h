/* Shape files: the attention problems of a model, by name. Lines of text:
 *
 *   # A title: everything behind # is a comment, the first comment is the title of the file
 *   decode-2048  b1h32q1k2048d128,causal,br
 *
 * a name of letters, digits and - . _, blanks, a problem string. */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H

#include <stdbool.h>
#include <stdio.h>

typedef struct shape {
    char name[96]; /* "llama-7b:decode-2048" */
    char problem[256];
} shape;

typedef struct shape_list {
    shape *item;
    int count;
} shape_list;

/* The shapes of a file, of the file NAME.shapes that came with attn-bench, or of all of these for "all". Whatever is
 * wrong with it is a usage error. Free item. */
void shapes_read(const char *file_or_name, shape_list *list);

/* The problem string of "NAME:SHAPE" or "FILE:SHAPE"; false when the text has not that form. A shape that is not there,
 * and the name of a file that came with attn-bench without a shape, are usage errors that tell what there is. */
bool shapes_resolve(const char *text, char *problem, size_t size);

/* What came with attn-bench: titles, names and problems. */
void shapes_print(FILE *out);

#endif
