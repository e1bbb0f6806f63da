#pragma once
/* The monotonic clock (CLOCK_MONOTONIC): for all deadlines and pauses.  Any thread. */
#include <stdint.h>

/* Milliseconds since an arbitrary point in time; never decreases. */
int64_t clock_ms(void);

/* The same in microseconds, for durations. */
int64_t clock_us(void);

/* Sleeps until clock_ms() is `when_ms`; returns at once if that has passed.  Signals do not end it.
 */
void clock_sleep_until(int64_t when_ms);

/* Sleeps for `ms` milliseconds; returns at once if that is not positive. */
void clock_sleep(int64_t ms);
