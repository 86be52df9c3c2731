/* Checks that every public function shares. */
#include "base/checks.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

int64_t attn_mul_saturated(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t attn_add_saturated(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

attn_extent attn_extent_matrix(const char *name, const void *address, int64_t rows, int64_t cols, int64_t row_stride,
                               int64_t element_bytes) {
    return (attn_extent){
        .name = name,
        .address = address,
        .dims = 2,
        .size = {rows, cols},
        .stride = {row_stride, 1},
        .element_bytes = element_bytes,
    };
}

attn_extent attn_extent_vector(const char *name, const void *address, int64_t size, int64_t element_bytes) {
    return (attn_extent){
        .name = name,
        .address = address,
        .dims = 1,
        .size = {size},
        .stride = {1},
        .element_bytes = element_bytes,
    };
}

attn_extent attn_extent_heads(const char *name, const void *address, int64_t batch, int64_t heads, int64_t rows,
                              int64_t cols, attn_strides strides, int64_t element_bytes) {
    return (attn_extent){
        .name = name,
        .address = address,
        .dims = 4,
        .size = {batch, heads, rows, cols},
        .stride = {strides.batch, strides.head, strides.row, 1},
        .element_bytes = element_bytes,
    };
}

bool attn_extent_empty(const attn_extent *e) {
    for (int d = 0; d < e->dims; d++)
        if (e->size[d] == 0)
            return true;
    return false;
}

/* Elements from the first to the last one, both counted; saturated. */
static int64_t extent_span(const attn_extent *e) {
    if (attn_extent_empty(e))
        return 0;
    int64_t span = 1;
    for (int d = 0; d < e->dims; d++)
        span = attn_add_saturated(span, attn_mul_saturated(e->size[d] - 1, e->stride[d]));
    return span;
}

static int64_t extent_bytes(const attn_extent *e) {
    return attn_mul_saturated(extent_span(e), e->element_bytes);
}

attn_status attn_check_size(const char *name, int64_t value, int64_t minimum) {
    if (value >= minimum)
        return ATTN_OK;
    return attn_fail(ATTN_ERR_SIZE, "%s %" PRId64 " is below %" PRId64, name, value, minimum);
}

attn_status attn_check_extent(const attn_extent *e) {
    static const char *const names[] = {"batch", "head", "row"};
    for (int d = 0; d + 1 < e->dims; d++) {
        /* a matrix has a row stride only, a 4-D array all three */
        const char *which = names[3 - (e->dims - 1) + d];
        if (e->stride[d] < 0)
            return attn_fail(ATTN_ERR_STRIDE, "%s: %s stride %" PRId64 " is negative", e->name, which, e->stride[d]);
    }
    if (e->dims > 1) {
        int row = e->dims - 2;
        int64_t row_size = e->size[e->dims - 1];
        if (e->size[row] > 1 && e->stride[e->dims - 1] == 1 && e->stride[row] < row_size)
            return attn_fail(ATTN_ERR_STRIDE, "%s: row stride %" PRId64 " is below the row size %" PRId64, e->name,
                             e->stride[row], row_size);
    }
    if (extent_bytes(e) > PTRDIFF_MAX - 1)
        return attn_fail(ATTN_ERR_OVERFLOW, "%s: its sizes and strides span more than the address space", e->name);
    return ATTN_OK;
}

attn_status attn_check_present(const attn_extent *e) {
    if (e->address != NULL || attn_extent_empty(e))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_NULL, "%s is NULL", e->name);
}

attn_status attn_check_array(const attn_extent *e) {
    ATTN_TRY(attn_check_extent(e));
    return attn_check_present(e);
}

attn_status attn_check_no_self_overlap(const attn_extent *output) {
    if (attn_extent_empty(output))
        return ATTN_OK;
    /* dimensions by ascending stride; each must step over all that the smaller ones reach */
    int order[ATTN_MAX_DIMS];
    int used = 0;
    for (int d = 0; d < output->dims; d++) {
        if (output->size[d] < 2)
            continue;
        int at = used++;
        for (; at > 0 && output->stride[order[at - 1]] > output->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t reach = 1;
    for (int i = 0; i < used; i++) {
        int d = order[i];
        if (output->stride[d] < reach)
            return attn_fail(ATTN_ERR_STRIDE,
                             "%s: a stride of %" PRId64 " makes its elements overlap, at least %" PRId64 " is needed",
                             output->name, output->stride[d], reach);
        reach = attn_add_saturated(reach, attn_mul_saturated(output->size[d] - 1, output->stride[d]));
    }
    return ATTN_OK;
}

/* True when an array has no holes: as many elements as its span. Broadcast dimensions do not count. */
static bool extent_dense(const attn_extent *e) {
    int64_t elements = 1;
    for (int d = 0; d < e->dims; d++)
        if (e->stride[d] != 0)
            elements = attn_mul_saturated(elements, e->size[d]);
    return elements == extent_span(e);
}

static bool extents_intersect(const attn_extent *a, const attn_extent *b) {
    uintptr_t a_begin = (uintptr_t)a->address;
    uintptr_t b_begin = (uintptr_t)b->address;
    return a_begin < b_begin + (uintptr_t)extent_bytes(b) && b_begin < a_begin + (uintptr_t)extent_bytes(a);
}

attn_status attn_check_apart(const attn_extent *output, const attn_extent *input) {
    if (output->address == NULL || input->address == NULL || attn_extent_empty(output) || attn_extent_empty(input))
        return ATTN_OK;
    if (output->address == input->address)
        return attn_fail(ATTN_ERR_OVERLAP, "%s starts where %s starts", output->name, input->name);
    if (extent_dense(output) && extent_dense(input) && extents_intersect(output, input))
        return attn_fail(ATTN_ERR_OVERLAP, "%s overlaps %s", output->name, input->name);
    return ATTN_OK;
}

attn_status attn_check_apart_or_in_place(const attn_extent *output, const attn_extent *input) {
    bool same = output->address == input->address;
    for (int d = 0; d < output->dims; d++)
        same = same && (output->size[d] < 2 || output->stride[d] == input->stride[d]);
    return same ? ATTN_OK : attn_check_apart(output, input);
}

attn_status attn_check_outputs_apart(const attn_extent *a, const attn_extent *b) {
    if (a->address == NULL || b->address == NULL || attn_extent_empty(a) || attn_extent_empty(b))
        return ATTN_OK;
    /* two arrays with holes may interleave (slices of one array); with a dense one among them sharing is certain */
    bool shared = a->address == b->address || ((extent_dense(a) || extent_dense(b)) && extents_intersect(a, b));
    return shared ? attn_fail(ATTN_ERR_OVERLAP, "%s overlaps %s", a->name, b->name) : ATTN_OK;
}

attn_status attn_check_struct_size(const char *type, size_t given, size_t first, size_t ours) {
    if (given < first)
        return attn_fail(ATTN_ERR_STRUCT_SIZE, "%s: struct_size %zu is below the first version's %zu", type, given,
                         first);
    if (given > ours)
        return attn_fail(ATTN_ERR_STRUCT_SIZE, "%s: struct_size %zu is above this library's %zu", type, given, ours);
    return ATTN_OK;
}

attn_status attn_init_struct(const char *type, void *object, size_t given, size_t first, size_t ours) {
    if (object == NULL)
        return attn_fail(ATTN_ERR_NULL, "%s is NULL", type);
    ATTN_TRY(attn_check_struct_size(type, given, first, ours));
    memset(object, 0, given);
    memcpy(object, &given, sizeof given); /* struct_size is the first member of every struct */
    return ATTN_OK;
}
