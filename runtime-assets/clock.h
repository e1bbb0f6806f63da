#pragma once
/* The clock that nobody sets: for deadlines and pauses. */
#include <stdint.h>

/* Milliseconds since some moment. */
int64_t clock_ms(void);
/* Sleep until then (or not at all); signals do not shorten it. */
void sleep_until_ms(int64_t when_ms);
/* Sleep for so long. */
void pause_ms(int64_t ms);
