/* Reading answers of an API server: its date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include "k8s/transport/reply.h"

static void test_date(void **state)
{
	(void)state;
	assert_int_equal(reply_date(SPAN("Sun, 06 Nov 1994 08:49:37 GMT")), 784111777);
	assert_int_equal(reply_date(SPAN("Thu, 29 Feb 2024 23:59:59 GMT")), 1709251199);
	assert_int_equal(reply_date(SPAN("Fri, 20 Nov 2026 19:26:12 GMT")), 1795202772);
}

static void test_date_is_strict(void **state)
{
	(void)state;
	static const char *const BAD[] = {
		"",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"sun, 06 nov 1994 08:49:37 gmt",
		"Mon, 06 Nov 1994 08:49:37 GMT", /* it was a Sunday */
		"Sun, 6 Nov 1994 08:49:37 GMT",
		"Sun, 31 Feb 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:60 GMT",
		"Sun, 06 Nov 1994 08:49:-7 GMT",
		"Sun, 06 Nov +994 08:49:37 GMT",
		"Thu, 01 Jan 1970 00:00:00 GMT",
		"Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994",
		"784111777",
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_int_equal(reply_date(span_of(BAD[i])), 0);
}

static void test_time_of_objects(void **state)
{
	(void)state;
	assert_int_equal(reply_time(SPAN("1994-11-06T08:49:37Z")), 784111777);
	assert_int_equal(reply_time(SPAN("2024-02-29T23:59:59Z")), 1709251199);
	static const char *const BAD[] = { "",
		                           "2023-02-29T23:59:59Z",
		                           "1994-11-06T24:00:00Z",
		                           "1994-11-06T08:49:37",
		                           "1994-11-06T08:49:37.5Z",
		                           "1994-11-06 08:49:37Z",
		                           "1994-11-06T08:4x:37Z",
		                           "1960-01-01T00:00:00Z" };
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++)
		assert_int_equal(reply_time(span_of(BAD[i])), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_of_objects),
		cmocka_unit_test(test_date),
		cmocka_unit_test(test_date_is_strict),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
