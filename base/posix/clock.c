#include "base/posix/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static int64_t clock_read_us(clockid_t clock)
{
	struct timespec now = { 0 };
	(void)clock_gettime(clock, &now); /* cannot fail for the clocks below */
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_us(void)
{
	return clock_read_us(CLOCK_MONOTONIC);
}

int64_t clock_wall_ms(void)
{
	return clock_read_us(CLOCK_REALTIME) / 1000;
}

int64_t clock_boot_ms(void)
{
	return clock_read_us(CLOCK_BOOTTIME) / 1000;
}

int64_t clock_ms(void)
{
	return clock_us() / 1000;
}

void clock_sleep_until(int64_t when_ms)
{
	struct timespec when = { when_ms / 1000, when_ms % 1000 * 1000000 };
	while (when_ms > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
		;
}

void clock_sleep(int64_t ms)
{
	if (ms > 0)
		clock_sleep_until(clock_ms() + ms);
}
