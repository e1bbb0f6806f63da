/* FrameworkController's states as states of OpenPAI. */

#include "tests/unit/base/cmocka.h"

#include "jobs/cache/job_entry.h"

static const struct {
	const char *state;
	const char *none, *zero, *stopped, *failed; /* by code: none, 0, -210 and -220, 1 */
	const char *attempt[4];                     /* the same of an attempt */
} CASES[] = {
	/* clang-format off */
	{ "AttemptCreationPending", "WAITING", "WAITING", "WAITING", "WAITING", { "WAITING", "WAITING", "WAITING", "WAITING" } },
	{ "AttemptCreationRequested", "WAITING", "WAITING", "WAITING", "WAITING", { "WAITING", "WAITING", "WAITING", "WAITING" } },
	{ "AttemptPreparing", "WAITING", "WAITING", "WAITING", "WAITING", { "WAITING", "WAITING", "WAITING", "WAITING" } },
	{ "AttemptRunning", "RUNNING", "RUNNING", "RUNNING", "RUNNING", { "RUNNING", "RUNNING", "RUNNING", "RUNNING" } },
	{ "AttemptDeletionPending", "RUNNING", "RUNNING", "STOPPING", "RUNNING", { "RUNNING", "RUNNING", "STOPPING", "RUNNING" } },
	{ "AttemptDeletionRequested", "RUNNING", "RUNNING", "STOPPING", "RUNNING", { "RUNNING", "RUNNING", "STOPPING", "RUNNING" } },
	{ "AttemptDeleting", "RUNNING", "RUNNING", "STOPPING", "RUNNING", { "RUNNING", "RUNNING", "STOPPING", "RUNNING" } },
	{ "AttemptCompleted", "RUNNING", "RUNNING", "STOPPING", "RUNNING", { "FAILED", "SUCCEEDED", "STOPPED", "FAILED" } },
	{ "Completed", "FAILED", "SUCCEEDED", "STOPPED", "FAILED", { "FAILED", "SUCCEEDED", "STOPPED", "FAILED" } },
	{ "", "UNKNOWN", "UNKNOWN", "UNKNOWN", "UNKNOWN", { "UNKNOWN", "UNKNOWN", "UNKNOWN", "UNKNOWN" } },
	{ "completed", "UNKNOWN", "UNKNOWN", "UNKNOWN", "UNKNOWN", { "UNKNOWN", "UNKNOWN", "UNKNOWN", "UNKNOWN" } },
	{ "CompletedX", "UNKNOWN", "UNKNOWN", "UNKNOWN", "UNKNOWN", { "UNKNOWN", "UNKNOWN", "UNKNOWN", "UNKNOWN" } },
	/* clang-format on */
};

TEST(test_job_state_of_gives_the_states_of_openpai)
{
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct span s = span_of(CASES[i].state);
		assert_string_equal(JOB_STATES[job_state_of(s, false, 0)], CASES[i].none);
		assert_string_equal(JOB_STATES[job_state_of(s, false, -210)], CASES[i].none);
		assert_string_equal(JOB_STATES[job_state_of(s, true, 0)], CASES[i].zero);
		assert_string_equal(JOB_STATES[job_state_of(s, true, -210)], CASES[i].stopped);
		assert_string_equal(JOB_STATES[job_state_of(s, true, -220)], CASES[i].stopped);
		assert_string_equal(JOB_STATES[job_state_of(s, true, 1)], CASES[i].failed);
		assert_string_equal(JOB_STATES[job_state_of(s, true, -200)], CASES[i].failed);
	}
}

TEST(test_attempt_state_of_gives_the_states_of_openpai)
{
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct span s = span_of(CASES[i].state);
		const char *const *wanted = CASES[i].attempt;
		assert_string_equal(JOB_STATES[attempt_state_of(s, false, 0)], wanted[0]);
		assert_string_equal(JOB_STATES[attempt_state_of(s, true, 0)], wanted[1]);
		assert_string_equal(JOB_STATES[attempt_state_of(s, true, -210)], wanted[2]);
		assert_string_equal(JOB_STATES[attempt_state_of(s, true, 137)], wanted[3]);
	}
}

TEST(test_job_state_named_ignores_case)
{
	for (int s = 0; s < JOB_STATE_MAX; s++)
		assert_int_equal(job_state_named(span_of(JOB_STATES[s])), s);
	assert_int_equal(job_state_named(SPAN("running")), JOB_RUNNING);
	assert_int_equal(job_state_named(SPAN("RUNNIN")), JOB_STATE_MAX);
	assert_int_equal(job_state_named(SPAN("RUNNINGS")), JOB_STATE_MAX);
	assert_int_equal(job_state_named(SPAN("")), JOB_STATE_MAX);
}

TEST(test_job_state_final_has_three_states)
{
	for (int s = 0; s < JOB_STATE_MAX; s++)
		assert_int_equal(job_state_final((enum job_state)s),
		                 s == JOB_SUCCEEDED || s == JOB_STOPPED || s == JOB_FAILED);
}
