#include "translate/when.h"

static int64_t number_at(struct span t, size_t at, size_t n)
{
	int64_t v = 0;
	(void)parse_i64((struct span){ t.p + at, n }, 0, INT64_MAX, &v); /* the schema saw digits */
	return v;
}

/* Days from 1970-01-01, Gregorian; years from 0. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
	/* Years begin in March, so that the leap day comes last. */
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t m = month <= 2 ? month + 9 : month - 3;
	int64_t leap_days = y / 4 - y / 100 + y / 400;
	return 365 * y + leap_days + (153 * m + 2) / 5 + day - 1 - 719468;
}

int64_t when_ms(struct span t)
{
	int64_t days = days_of(number_at(t, 0, 4), number_at(t, 5, 2), number_at(t, 8, 2));
	int64_t s = 3600 * number_at(t, 11, 2) + 60 * number_at(t, 14, 2) + number_at(t, 17, 2);
	return (86400 * days + s) * 1000;
}
