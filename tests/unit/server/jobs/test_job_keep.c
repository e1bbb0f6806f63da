/* Sums of the hours for which a job with idle GPUs is kept. */
#include "tests/unit/base/cmocka.h"

#include "base/posix/clock.h"
#include "jobs/cache/job_entry.h"
#include "server/jobs/jobs_internal.h"

enum { HOUR_MS = 3600000, SLOW_MS = 600000 };

/* The time until the result ends, and its hours; -1: refused. */
static int64_t kept_ms(const char *annotation, int64_t hours, int64_t most, int64_t *sum)
{
	ERR_AUTO e = { 0 };
	const char *out =
	    keep_add(span_of(annotation), hours, most, SPAN("a \"reason\""), &unit.a, &e);
	if (!out) {
		assert_int_equal(e.http, 400);
		assert_non_null(strstr(err_msg(&e), "an administrator"));
		return -1;
	}
	assert_non_null(strstr(out, " a \"reason\""));
	assert_null(strstr(out, "older"));
	struct span kept = span_of(out);
	return job_keep_read(&kept, sum) - clock_wall_ms();
}

TEST(test_hours_of_a_kept_job_add_up)
{
	int64_t sum;
	FREE_AUTO char *future =
	    xasprintf("%lld 5 older", (long long)clock_wall_ms() + INT64_C(2) * HOUR_MS);
	assert_in_range(kept_ms("", 24, 24, &sum), 24 * HOUR_MS - SLOW_MS, 24 * HOUR_MS);
	assert_int_equal(sum, 24);
	/* From its end, if that has not come yet; else from now. */
	assert_in_range(kept_ms(future, 3, 8, &sum), 5 * HOUR_MS - SLOW_MS, 5 * HOUR_MS);
	assert_int_equal(sum, 8);
	assert_in_range(kept_ms("1000 5 older", 3, 8, &sum), 3 * HOUR_MS - SLOW_MS, 3 * HOUR_MS);
	assert_int_equal(sum, 8);
	assert_in_range(kept_ms("nonsense", 3, 3, &sum), 3 * HOUR_MS - SLOW_MS, 3 * HOUR_MS);
	assert_int_equal(sum, 3);
	assert_int_equal(kept_ms(future, 4, 8, &sum), -1);
	assert_int_equal(kept_ms("1000 9 older", 1, 8, &sum), -1);
	assert_int_equal(kept_ms("", 25, 24, &sum), -1);
	assert_int_equal(kept_ms("1000 2147483647 older", 87600, 87600, &sum), -1);
}
