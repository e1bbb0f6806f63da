/* See stamp.h. */
#include "runtime-assets/stamp.h"

#include <stdio.h>
#include <time.h>

void stamp_text(char out[static STAMP_MAX], int64_t seconds)
{
	time_t t = seconds;
	struct tm tm = { 0 };
	(void)gmtime_r(&t, &tm); /* fails only beyond the year 2^31 */
	(void)snprintf(out, STAMP_MAX, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
	               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
}
