/* A job as a row of a list. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "server/jobs/jobs_internal.h"
#include "tests/unit/server/job_list_kit.h"

enum { ROW_MAX = 1 << 20 };

static void row_is(const struct job_entry *job, bool v1, const char *want)
{
	STR_AUTO out = STR_INIT(ROW_MAX);
	job_row(&out, job, NULL, v1);
	json_auto_t *got = json_loadb(out.p, out.n, JSON_REJECT_DUPLICATES, NULL);
	json_auto_t *wanted = json_loads(want, JSON_REJECT_DUPLICATES, NULL);
	assert_true(wanted && json_equal(got, wanted));
}

#define NAME "0123456789abcdef0123456789abcdef"

TEST(test_row_has_all_members)
{
	const struct job_entry job =
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

TEST(test_row_has_null_for_unknown_values)
{
	const struct job_entry job =
	    JOB(.job = NAME, .user = "", .maker = "", .sub_state = "", .execution = "",
	        .state = JOB_UNKNOWN, .legacy = true, .code = 1, .created_ms = JOB_ENTRY_NONE);
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

TEST(test_row_of_v1_has_the_states_of_v1)
{
	for (int s = 0; s < JOB_STATE_MAX; s++) {
		const struct job_entry job = JOB(.state = (enum job_state)s);
		STR_AUTO v1 = STR_INIT(ROW_MAX);
		STR_AUTO v2 = STR_INIT(ROW_MAX);
		STR_AUTO want = STR_INIT(ROW_MAX);
		job_row(&v1, &job, NULL, true);
		job_row(&v2, &job, NULL, false);
		str_printf(&want, "\"state\":\"%s\",", JOB_STATES[s]);
		assert_non_null(strstr(str_c(&v2), str_c(&want)));
		if (s == JOB_STOPPING)
			assert_non_null(strstr(str_c(&v1), "\"state\":\"RUNNING\","));
		else
			assert_non_null(strstr(str_c(&v1), str_c(&want)));
	}
}

/* ---- which Event stands in a row ---- */

#define EVENT(word, pod_, uid_, at)                                                                \
	(struct event)                                                                             \
	{                                                                                          \
		.framework = SPAN(NAME), .pod = SPAN(pod_), .pod_uid = SPAN(uid_),                 \
		.type = SPAN("Warning"), .reason = SPAN(word), .last_ms = (at)                     \
	}

static void chosen_is(const struct job_entry *job, const struct event *v, size_t n, size_t want)
{
	const struct event *chosen = job_row_event(job, v, n);
	assert_ptr_equal(chosen, want < n ? &v[want] : NULL);
}

TEST(test_row_shows_the_event_why_a_job_waits)
{
	const struct job_entry waits = JOB(.state = JOB_WAITING, .transition_ms = 5000);
	const struct job_entry retried =
	    JOB(.state = JOB_WAITING, .transition_ms = 5000, .attempt = 1);
	const struct job_entry runs = JOB(.state = JOB_RUNNING);
	struct event v[] = {
		EVENT("MissingClusterDNS", "a-0", "1", 9000),
		EVENT("Unhealthy", "a-1", "2", 8000),
		EVENT("FailedScheduling", "a-0", "1", 5000),
		EVENT("FailedMount", "a-1", "2", 4000),
	};
	chosen_is(&waits, v, 4, 2);
	chosen_is(&runs, v, 4, 4);
	chosen_is(&waits, v, 1, 1);       /* about the node */
	chosen_is(&retried, v + 3, 1, 1); /* that is of the attempt before */
	chosen_is(&waits, v + 3, 1, 0);
	v[3].last_ms = 999; /* of a job with this name that was there before */
	chosen_is(&waits, v + 3, 1, 1);
	v[0].reason = SPAN("Scheduled");
	v[0].type = SPAN("Normal");
	chosen_is(&waits, v, 4, 1); /* the pod has found a node */
	v[1].pod = v[0].pod;
	v[1].reason = SPAN("Failed");
	v[1].message = SPAN("Failed to pull image");
	chosen_is(&waits, v, 3, 3); /* its pod has made room for another */
}

/* Events of the kubelet about an image in the words of Kubernetes 1.20, the latest first: only the
 * oldest names the image and the cause. */
TEST(test_row_shows_the_event_that_names_the_image)
{
	const struct job_entry waits = JOB(.state = JOB_WAITING, .transition_ms = 5000);
	struct event v[] = {
		EVENT("Unhealthy", "a-0", "1", 9500), EVENT("Failed", "a-0", "1", 9000),
		EVENT("BackOff", "a-0", "1", 8900),   EVENT("Failed", "a-0", "1", 8100),
		EVENT("Failed", "a-0", "1", 8000),
	};
	v[0].message = SPAN("Readiness probe failed");
	v[1].message = SPAN("Error: ImagePullBackOff");
	v[2].message = SPAN("Back-off pulling image \"debain:12\"");
	v[2].type = SPAN("Normal");
	v[3].message = SPAN("Error: ErrImagePull");
	v[4].message = SPAN("Failed to pull image \"debain:12\": rpc error: code = NotFound desc = "
	                    "docker.io/library/debain:12: not found");
	chosen_is(&waits, v, 5, 4);
	chosen_is(&waits, v, 4, 1); /* it has been lost: the image is still the cause */
	v[1].message = SPAN("Error: secret \"key\" not found"); /* of a container: no bare word */
	chosen_is(&waits, v + 1, 1, 0);
	v[0].message = SPAN("Error: RunContainerError");
	chosen_is(&waits, v, 2, 1);
}

TEST(test_row_shortens_the_reason_why_a_job_waits)
{
	const struct job_entry job = JOB(.state = JOB_WAITING);
	struct event v = EVENT("FailedScheduling", "a-0", "1", 9000);
	STR_AUTO message = STR_INIT(ROW_MAX);
	STR_AUTO out = STR_INIT(ROW_MAX);
	STR_AUTO want = STR_INIT(ROW_MAX);
	while (message.n < ROW_MESSAGE_MAX - 1)
		str_char(&message, 'x');
	str_printf(&want,
	           "\"waitingReason\":{\"kind\":\"unschedulable\",\"reason\":"
	           "\"FailedScheduling\",\"message\":\"%s\"}",
	           str_c(&message));
	str_puts(&message, "ä and so on");
	v.message = str_view(&message);
	job_waiting_put(&out, &job, &(struct job_why){ .event = &v }, false);
	assert_string_equal(str_c(&out), str_c(&want));
	out.n = 0;
	job_waiting_put(&out, &job, &(struct job_why){ .event = &v, .machine = SPAN("2nd") },
	                false);
	assert_string_equal(str_c(&out), "\"waitingReason\":{\"kind\":\"machine\",\"reason\":"
	                                 "\"Waiting\",\"message\":\"2nd\"}");
}
