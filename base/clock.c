#include "base/clock.h"

#include <errno.h>
#include <time.h>

int64_t clock_us(void)
{
	struct timespec now = { 0 };
	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_wall_ms(void)
{
	struct timespec now = { 0 };
	(void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail for this clock */
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
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
