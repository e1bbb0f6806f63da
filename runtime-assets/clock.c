#include "runtime-assets/clock.h"

#include <errno.h>
#include <time.h>

int64_t clock_ms(void)
{
	struct timespec now = { 0 };
	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sleep_until_ms(int64_t when_ms)
{
	struct timespec when = { when_ms / 1000, when_ms % 1000 * 1000000 };
	while (when_ms > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
		;
}

void pause_ms(int64_t ms)
{
	if (ms > 0)
		sleep_until_ms(clock_ms() + ms);
}
