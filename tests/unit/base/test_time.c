/* Times as texts, both ways. */
/* cmocka wants these four first */
#include "tests/unit/base/cmocka.h"

#include "base/time.h"

#define NO_TIME INT64_MIN

static const struct time_case {
	const char *text;
	int64_t ms; /* NO_TIME: refused */
	int digits; /* of the fraction when it is written; -1: another text is written */
} RFC3339[] = {
	{ "1970-01-01T00:00:00Z", 0, 0 },
	{ "2026-11-22T01:34:56Z", INT64_C(1795311296000), 0 },
	{ "2024-02-29T23:59:59.500Z", INT64_C(1709251199500), 3 },
	{ "2024-02-29T23:59:59.500000Z", INT64_C(1709251199500), 6 },
	{ "2024-02-29T23:59:59.5Z", INT64_C(1709251199500), -1 },
	{ "2000-03-01T00:00:00.123456789Z", INT64_C(951868800123), -1 },
	{ "1969-12-31T23:59:59.999Z", -1, 3 },
	{ "0001-01-01T00:00:00Z", INT64_C(-62135596800000), 0 },
	{ "9999-12-31T23:59:59Z", INT64_C(253402300799000), 0 },
	{ "2016-12-31T23:59:60Z", INT64_C(1483228800000), -1 }, /* a leap second */
	{ "", NO_TIME, -1 },
	{ "2026-11-22", NO_TIME, -1 },
	{ "2026-11-22T01:34:56", NO_TIME, -1 },
	{ "2026-11-22T01:34:56Zx", NO_TIME, -1 },
	{ "2026-11-22T01:34:56+01:00", NO_TIME, -1 },
	{ "2026-11-22 01:34:56Z", NO_TIME, -1 },
	{ "2026-02-29T00:00:00Z", NO_TIME, -1 },
	{ "1900-02-29T00:00:00Z", NO_TIME, -1 },
	{ "2026-13-01T00:00:00Z", NO_TIME, -1 },
	{ "2026-00-01T00:00:00Z", NO_TIME, -1 },
	{ "2026-11-22T24:00:00Z", NO_TIME, -1 },
	{ "2026-11-22T01:34:5xZ", NO_TIME, -1 },
	{ "2026-11-22T01:34:56.Z", NO_TIME, -1 },
	{ "2026-11-22T01:34:56.1xZ", NO_TIME, -1 },
	{ "-026-11-22T01:34:56Z", NO_TIME, -1 },
};

static const struct time_case HTTP[] = {
	{ "Sun, 06 Nov 1994 08:49:37 GMT", INT64_C(784111777000), -1 },
	{ "Thu, 29 Feb 2024 23:59:59 GMT", INT64_C(1709251199000), -1 },
	{ "Thu, 01 Jan 1970 00:00:00 GMT", 0, -1 },
	{ "", NO_TIME, -1 },
	{ "Sun, 06 Nov 1994 08:49:37 GMT ", NO_TIME, -1 },
	{ "Sun, 06 Nov 1994 08:49:37 UTC", NO_TIME, -1 },
	{ "Sun, 06 nov 1994 08:49:37 GMT", NO_TIME, -1 },
	{ "Sun, 6 Nov 1994 08:49:37 GMT", NO_TIME, -1 },
	{ "Sun, 31 Feb 1994 08:49:37 GMT", NO_TIME, -1 },
	{ "Sun, 06 Nov 1994 24:49:37 GMT", NO_TIME, -1 },
	{ "Sun, 06 Nov 1994 08:49:-7 GMT", NO_TIME, -1 },
	{ "Sun, 06 Nov +994 08:49:37 GMT", NO_TIME, -1 },
	{ "Sunday, 06-Nov-94 08:49:37 GMT", NO_TIME, -1 },
	{ "Sun Nov  6 08:49:37 1994", NO_TIME, -1 },
};

static void time_check(const struct time_case *v, size_t n, bool (*read)(struct span, int64_t *))
{
	for (size_t i = 0; i < n; i++) {
		char text[RFC3339_MAX];
		int64_t ms = NO_TIME;
		if (read(span_of(v[i].text), &ms) != (v[i].ms != NO_TIME) || ms != v[i].ms)
			fail_msg("\"%s\" is %lld", v[i].text, (long long)ms);
		if (v[i].digits >= 0)
			assert_string_equal(rfc3339_put(text, ms, v[i].digits), v[i].text);
	}
}

TEST(test_rfc3339_times_are_read_and_written)
{
	time_check(RFC3339, ARRAY_SIZE(RFC3339), rfc3339_read);
}

TEST(test_http_dates_are_read_and_written)
{
	time_check(HTTP, ARRAY_SIZE(HTTP), http_date_read);
}
