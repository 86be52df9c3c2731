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
    if (e->dims > 1 && !attn_extent_empty(e)) {
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

void attn_settle_strides(attn_extent *e) {
    bool empty = attn_extent_empty(e);
    for (int d = 0; d < e->dims; d++)
        if ((empty || e->size[d] == 1) && e->stride[d] > 0)
            e->stride[d] = 0;
}

attn_strides attn_settled_strides(attn_extent heads) {
    attn_settle_strides(&heads);
    return (attn_strides){.batch = heads.stride[0], .head = heads.stride[1], .row = heads.stride[2]};
}

attn_status attn_check_present(const attn_extent *e) {
    if (e->address != NULL || attn_extent_empty(e))
        return ATTN_OK;
    return attn_fail(ATTN_ERR_NULL, "%s is NULL", e->name);
}

attn_status attn_check_present_with(const attn_extent *e, const char *flag_name) {
    if (flag_name == NULL || e->address != NULL || attn_extent_empty(e))
        return attn_check_present(e);
    return attn_fail(ATTN_ERR_NULL, "%s is set, but %s is NULL", flag_name, e->name);
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

/* The dimensions of more than one element without the last, in bytes, the widest step first. */
typedef struct steps {
    int dims;
    int64_t size[ATTN_MAX_DIMS], step[ATTN_MAX_DIMS];
    int64_t row_bytes; /* of the last dimension */
} steps;

static steps steps_of(const attn_extent *e) {
    int last = e->dims - 1;
    steps sorted = {.row_bytes = e->size[last] * e->element_bytes};
    for (int d = 0; d < last; d++) {
        if (e->size[d] < 2)
            continue;
        int64_t bytes = e->stride[d] * e->element_bytes; /* no more than the span, which fits */
        int at = sorted.dims++;
        for (; at > 0 && sorted.step[at - 1] < bytes; at--) {
            sorted.size[at] = sorted.size[at - 1];
            sorted.step[at] = sorted.step[at - 1];
        }
        sorted.size[at] = e->size[d];
        sorted.step[at] = bytes;
    }
    return sorted;
}

/* Bytes from the first to the last of one place along the first `outer` dimensions. */
static int64_t block_bytes(const steps *s, int outer) {
    int64_t bytes = s->row_bytes;
    for (int d = outer; d < s->dims; d++)
        bytes += (s->size[d] - 1) * s->step[d];
    return bytes;
}

/* True when delta less some steps, fewer than size in either direction along each of these dimensions, comes to lie
 * between low and high. Each step is wider than all that the later ones reach, so that few counts of it can do. */
static bool steps_reach(int dims, const int64_t *size, const int64_t *step, int64_t delta, int64_t low, int64_t high) {
    if (dims == 0)
        return low < delta && delta < high;
    int64_t nearest = delta / step[0];
    for (int64_t n = nearest - 1; n <= nearest + 1; n++) {
        int64_t moved, rest;
        if (n <= -size[0] || n >= size[0] || __builtin_mul_overflow(n, step[0], &moved) ||
            __builtin_sub_overflow(delta, moved, &rest))
            continue;
        if (steps_reach(dims - 1, size + 1, step + 1, rest, low, high))
            return true;
    }
    return false;
}

attn_status attn_check_outputs_apart(const attn_extent *a, const attn_extent *b) {
    if (a->address == NULL || b->address == NULL || attn_extent_empty(a) || attn_extent_empty(b))
        return ATTN_OK;
    steps of_a = steps_of(a);
    steps of_b = steps_of(b);
    int outer = 0;
    while (outer < of_a.dims && outer < of_b.dims && of_a.size[outer] == of_b.size[outer] &&
           of_a.step[outer] == of_b.step[outer])
        outer++;
    int64_t delta = (int64_t)((uintptr_t)b->address - (uintptr_t)a->address);
    if (steps_reach(outer, of_a.size, of_a.step, delta, -block_bytes(&of_b, outer), block_bytes(&of_a, outer)))
        return attn_fail(ATTN_ERR_OVERLAP, "%s overlaps %s", a->name, b->name);
    return ATTN_OK;
}

attn_status attn_check_struct_size(const char *type, size_t given, size_t first, size_t ours) {
    if (given == 0)
        return attn_fail(ATTN_ERR_STRUCT_SIZE, "%s: struct_size 0 is no size: its initialiser sets it, or sizeof",
                         type);
    if (given < first)
        return attn_fail(ATTN_ERR_STRUCT_SIZE, "%s: struct_size %zu is below the first version's %zu", type, given,
                         first);
    if (given > ours)
        return attn_fail(ATTN_ERR_STRUCT_SIZE, "%s: struct_size %zu is above this library's %zu", type, given, ours);
    return ATTN_OK;
}

attn_status attn_read_struct(const char *name, const char *type, const void *given, size_t first, size_t ours,
                             void *copy) {
    if (given == NULL)
        return attn_fail(ATTN_ERR_NULL, "%s is NULL", name);
    size_t size;
    memcpy(&size, given, sizeof size);
    ATTN_TRY(attn_check_struct_size(type, size, first, ours));
    memset(copy, 0, ours);
    memcpy(copy, given, size);
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
