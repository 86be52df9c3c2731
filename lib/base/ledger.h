/* The workspace ledger: pieces are booked by name and size while a plan is made, and granted from one base pointer
 * while it runs. Size and pointers come from the same table, so they cannot disagree. */
#ifndef ATTN_LIB_LEDGER_H
#define ATTN_LIB_LEDGER_H

#include <attn/base.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/exports.h"

enum { ATTN_LEDGER_ALIGN = 64, ATTN_LEDGER_MAX = 20 };

typedef struct attn_ledger {
    int pieces;
    bool overflow; /* some piece did not fit int64; bytes is INT64_MAX then */
    int64_t bytes; /* the whole workspace */
    struct {
        const char *name; /* shown by plan_describe */
        int64_t offset, bytes, copies;
    } piece[ATTN_LEDGER_MAX];
} attn_ledger;

/* Books `copies` (one per thread, or 1) pieces of count elements each; returns the piece's number. */
ATTN_API int attn_ledger_book(attn_ledger *ledger, const char *name, int64_t count, int64_t element_bytes,
                              int64_t copies);

/* True when a piece has no elements or no copies: descriptions leave it out. */
bool attn_ledger_is_empty(const attn_ledger *ledger, int piece);

/* The address of copy number `copy` of a piece. */
ATTN_API void *attn_ledger_grant(const attn_ledger *ledger, void *base, int piece, int64_t copy);

#endif
