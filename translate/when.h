#pragma once
/* Times in text.  Pure. */
#include <stdint.h>

#include "base/str.h"

/* 2026-11-20T10:25:38.123Z, of this form and no other (a schema has seen to that), as milliseconds
 * since 1970; whole seconds, which are enough for what it is used for. */
int64_t when_ms(struct span time);
