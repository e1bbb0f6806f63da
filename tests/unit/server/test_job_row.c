/* A job as a row of a list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/job_show.h"
#include "tests/unit/server/job_list_kit.h"

enum { ROW_MAX = 1 << 20 };

static void row_is(const struct cached *job, bool v1, const char *want)
{
	STR_AUTO out = STR_INIT(ROW_MAX);
	job_row(&out, job, v1);
	assert_string_equal(str_c(&out), want);
}

static const char NAME[] = "0123456789abcdef0123456789abcdef";

static void test_row_all(void **state)
{
	(void)state;
	const struct cached job =
	    JOB(.job = "a\"b", .sub_state = "Completed", .execution = "STOP", .priority = "prod",
	        .tags = "[\"x\"]", .state = JOB_FAILED, .has_code = true, .code = -1200,
	        .retries = 5, .accountable = 2, .retry_delay_s = 30, .tasks = 4, .roles = 2,
	        .gpus = 16, .launched_ms = 2000, .completed_ms = 3000);
	row_is(
	    &job, false,
	    "{\"name\":\"a\\\"b\",\"username\":\"alice\",\"state\":\"FAILED\","
	    "\"subState\":\"Completed\",\"executionType\":\"STOP\",\"virtualCluster\":\"default\","
	    "\"retries\":5,\"createdTime\":1000,\"completedTime\":3000,\"appExitCode\":-1200,"
	    "\"debugId\":\"0123456789abcdef0123456789abcdef\",\"tags\":[\"x\"],"
	    "\"retryDetails\":{\"user\":2,\"platform\":3,\"resource\":0},\"retryDelayTime\":30,"
	    "\"submissionTime\":1000,\"launchedTime\":2000,\"totalGpuNumber\":16,"
	    "\"totalTaskNumber\":4,\"totalTaskRoleNumber\":2,\"jobPriority\":\"prod\"}");
	row_is(
	    &job, true,
	    "{\"name\":\"a\\\"b\",\"username\":\"alice\",\"state\":\"FAILED\","
	    "\"subState\":\"Completed\",\"executionType\":\"STOP\",\"virtualCluster\":\"default\","
	    "\"retries\":5,\"createdTime\":1000,\"completedTime\":3000,\"appExitCode\":-1200}");
}

static void test_row_nothing_known(void **state)
{
	(void)state;
	const struct cached job =
	    JOB(.job = NAME, .user = "", .maker = "", .sub_state = "", .execution = "",
	        .state = JOB_UNKNOWN, .legacy = true, .code = 1, .created_ms = CACHED_NONE);
	row_is(&job, false,
	       "{\"name\":\"0123456789abcdef0123456789abcdef\",\"username\":\"unknown\","
	       "\"state\":\"UNKNOWN\",\"subState\":\"\",\"executionType\":\"\","
	       "\"virtualCluster\":\"default\",\"retries\":0,\"createdTime\":null,"
	       "\"completedTime\":null,\"appExitCode\":null,"
	       "\"debugId\":\"0123456789abcdef0123456789abcdef\",\"tags\":[],"
	       "\"retryDetails\":{\"user\":0,\"platform\":0,\"resource\":0},"
	       "\"retryDelayTime\":null,\"submissionTime\":null,\"launchedTime\":null,"
	       "\"totalGpuNumber\":0,\"totalTaskNumber\":0,\"totalTaskRoleNumber\":0,"
	       "\"jobPriority\":null}");
	row_is(&job, true,
	       "{\"name\":\"0123456789abcdef0123456789abcdef\",\"username\":\"unknown\","
	       "\"state\":\"UNKNOWN\",\"subState\":\"\",\"executionType\":\"\","
	       "\"virtualCluster\":\"default\",\"retries\":0,\"createdTime\":null,"
	       "\"completedTime\":null,\"appExitCode\":null,\"legacy\":true}");
}

static void test_row_v1_states(void **state)
{
	(void)state;
	for (int s = 0; s < JOB_STATE_MAX; s++) {
		const struct cached job = JOB(.state = (enum job_state)s);
		STR_AUTO v1 = STR_INIT(ROW_MAX);
		STR_AUTO v2 = STR_INIT(ROW_MAX);
		STR_AUTO want = STR_INIT(ROW_MAX);
		job_row(&v1, &job, true);
		job_row(&v2, &job, false);
		str_printf(&want, "\"state\":\"%s\",", JOB_STATES[s]);
		assert_non_null(strstr(str_c(&v2), str_c(&want)));
		if (s == JOB_STOPPING)
			assert_non_null(strstr(str_c(&v1), "\"state\":\"RUNNING\","));
		else
			assert_non_null(strstr(str_c(&v1), str_c(&want)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row_all),
		cmocka_unit_test(test_row_nothing_known),
		cmocka_unit_test(test_row_v1_states),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
