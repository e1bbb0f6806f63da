#pragma once
/* Points in time as text. */
#include <stdint.h>

enum { STAMP_MAX = 72 /* of numbers that no clock shows; usually 21 */ };

/* Seconds since 1970 as "2026-01-31T12:00:00Z".  Not by strftime, which brings time zones and
 * names of months into the binary. */
void stamp_text(char out[static STAMP_MAX], int64_t seconds);
