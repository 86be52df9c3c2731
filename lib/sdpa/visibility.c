/* Visibility by position. Both ends of a row's range grow with the row, which is what makes blocks easy. */
#include "sdpa/visibility.h"

/* Sums of offsets, rows and window sizes, each of which may be as large as int64. */
__extension__ typedef __int128 wide;

static int64_t clamp(wide value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : (int64_t)value;
}

attn_key_range attn_row_keys(const attn_member *member, int64_t row) {
    wide position = (wide)member->offset + row;
    int64_t end = member->key_limit;
    int64_t begin = 0;
    if (member->right >= 0)
        end = clamp(position + member->right + 1, 0, end);
    if (member->left >= 0)
        begin = clamp(position - member->left, 0, end);
    return (attn_key_range){begin, end};
}

attn_key_range attn_block_keys(const attn_member *member, int64_t row0, int64_t rows) {
    attn_key_range first = attn_row_keys(member, row0);
    attn_key_range last = attn_row_keys(member, row0 + rows - 1);
    return (attn_key_range){first.begin, last.end};
}

bool attn_tile_visible(const attn_member *member, int64_t row0, int64_t rows, int64_t key0, int64_t keys) {
    attn_key_range first = attn_row_keys(member, row0);
    attn_key_range last = attn_row_keys(member, row0 + rows - 1);
    return last.begin <= key0 && key0 + keys <= first.end;
}

int64_t attn_chunks_in(attn_key_range keys, int64_t size) {
    return keys.begin < keys.end ? (keys.end - 1) / size - keys.begin / size + 1 : 0;
}

attn_key_range attn_chunk_at(attn_key_range keys, int64_t size, int64_t n) {
    int64_t begin = (keys.begin / size + n) * size;
    int64_t end = keys.end - begin < size ? keys.end : begin + size;
    return (attn_key_range){begin > keys.begin ? begin : keys.begin, end};
}

/* sum over i = 0 .. n-1 of clamp(i + shift, 0, limit) */
static double sum_of_clamped(double n, double shift, double limit) {
    double rising_from = shift < 0 ? -shift : 0; /* first i whose term is not below 0 */
    double full_from = limit - shift;            /* first i whose term is the limit */
    rising_from = rising_from > n ? n : rising_from;
    full_from = full_from < rising_from ? rising_from : full_from > n ? n : full_from;
    double rising = full_from - rising_from;
    double rising_sum = rising * (rising_from + shift) + rising * (rising - 1) / 2;
    return rising_sum + (n - full_from) * limit;
}

double attn_visible_pairs(const attn_member *member) {
    int64_t rows = member->q_len;
    double n = (double)rows;
    double limit = (double)member->key_limit;
    double ends = n * limit;
    double begins = 0;
    if (member->right >= 0)
        ends =
            sum_of_clamped(n, (double)clamp((wide)member->offset + member->right + 1, -rows, member->key_limit), limit);
    if (member->left >= 0)
        begins = sum_of_clamped(n, (double)clamp((wide)member->offset - member->left, -rows, member->key_limit), limit);
    return ends > begins ? ends - begins : 0;
}
