/* The workspace ledger. */
#include "base/ledger.h"

#include <assert.h>
#include <stddef.h>

#include "base/checks.h"

/* Under a sanitizer the pieces lie apart, so that a step over the edge of one hits no other. */
#if defined(__SANITIZE_ADDRESS__)
#define REDZONE ATTN_LEDGER_ALIGN
#else
#define REDZONE 0
#endif

static int64_t round_up(int64_t bytes) {
    int64_t padded = attn_add_saturated(bytes, ATTN_LEDGER_ALIGN - 1 + REDZONE);
    return padded == INT64_MAX ? INT64_MAX : padded / ATTN_LEDGER_ALIGN * ATTN_LEDGER_ALIGN;
}

int attn_ledger_book(attn_ledger *ledger, const char *name, int64_t count, int64_t element_bytes, int64_t copies) {
    assert(ledger->pieces < ATTN_LEDGER_MAX);
    int piece = ledger->pieces++;
    int64_t bytes = round_up(attn_mul_saturated(count, element_bytes));
    ledger->piece[piece].name = name;
    ledger->piece[piece].offset = ledger->bytes;
    ledger->piece[piece].bytes = bytes;
    ledger->piece[piece].copies = copies;
    ledger->bytes = attn_add_saturated(ledger->bytes, attn_mul_saturated(bytes, copies));
    ledger->overflow = ledger->bytes == INT64_MAX;
    return piece;
}

bool attn_ledger_is_empty(const attn_ledger *ledger, int piece) {
    return ledger->piece[piece].copies == 0 || ledger->piece[piece].bytes == round_up(0);
}

void *attn_ledger_grant(const attn_ledger *ledger, void *base, int piece, int64_t copy) {
    return (char *)base + ledger->piece[piece].offset + copy * ledger->piece[piece].bytes;
}
