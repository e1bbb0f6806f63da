/* The time of the next sync. */
#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "jobs/framework/drive.h"

TEST(test_drive_backoff_doubles_up_to_a_maximum)
{
	assert_int_equal(drive_backoff_ms(0, 1000), 5);
	assert_int_equal(drive_backoff_ms(3, 1000), 40);
	assert_int_equal(drive_backoff_ms(8, 1000), 1000);
	assert_int_equal(drive_backoff_ms(4000000000u, 1000), 1000);
}

TEST(test_drive_next_is_the_earlier_of_timer_and_backoff)
{
	const int64_t wall_ms = 1600000000500;
	const int64_t most_ms = 1000;
	unsigned failures = 0;
	struct framework_result r = { .wake_s = INT64_MAX };
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), INT64_MAX);
	r.wake_s = 1600000001;
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), 600);
	r.failed = true;
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), 105);
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), 110);
	assert_int_equal(failures, 2);
	failures = UINT32_MAX;
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), 600);
	assert_int_equal(failures, UINT32_MAX);
	r.failed = false;
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), 600);
	assert_int_equal(failures, 0);
	r = (struct framework_result){ .wake_s = INT64_MAX, .delete_framework = true };
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), 105);
	r.wake_s = INT64_MAX - 1; /* of a forged status */
	assert_int_equal(drive_next_ms(&r, &failures, 100, wall_ms, most_ms), 110);
}
