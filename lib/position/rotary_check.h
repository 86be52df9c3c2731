/* Checks of rotary positions that do not depend on the precision. */
#ifndef ATTN_LIB_ROTARY_CHECK_H
#define ATTN_LIB_ROTARY_CHECK_H

#include <attn/position.h>

/* Copies the caller's rotary of any known struct_size; checks everything but the arrays. */
attn_status attn_read_rotary(const attn_rotary *given, attn_rotary *rotary);
attn_status attn_check_rotary(const attn_rotary *rotary);

#endif
