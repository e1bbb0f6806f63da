#pragma once
/*
 * Clocks.  The monotonic clock (CLOCK_MONOTONIC) is used for all deadlines and pauses.
 *
 *	int64_t deadline_ms = clock_ms() + 5000;
 *	while (!is_ready() && clock_ms() < deadline_ms)
 *		clock_sleep(20);
 *
 * The clocks cannot fail.
 *
 * Thread: any
 */
#include <stdint.h>

/* Milliseconds since an arbitrary point in time; never decreases. */
int64_t clock_ms(void);
/* The same in microseconds, for durations. */
int64_t clock_us(void);

/* Milliseconds since the machine was booted, also while it was suspended (CLOCK_BOOTTIME). */
int64_t clock_boot_ms(void);

/* Milliseconds since 1970 (CLOCK_REALTIME); the administrator can set this clock. */
int64_t clock_wall_ms(void);

/* Sleeps until clock_ms() is `when_ms`; returns at once if that time has passed.  Signals do not
 * end the sleep.  Thread: worker. */
void clock_sleep_until(int64_t when_ms);
/* Sleeps for `ms` milliseconds; returns at once if ms is not positive.  Thread: worker. */
void clock_sleep(int64_t ms);
