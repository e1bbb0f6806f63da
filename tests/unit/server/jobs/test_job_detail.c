/* Parts of the detail of a job: ports and diagnostics.  tests/http/details.py compares the whole.
 */
#include "tests/unit/base/cmocka.h"

#include "server/jobs/jobs_internal.h"

enum { DETAIL_MAX = 4 << 20 };

#define HASHED                                                                                     \
	"{\\\"schedulePortStart\\\":15000,\\\"schedulePortEnd\\\":40000,\\\"ports\\\":"            \
	"{\\\"ssh\\\":{\\\"count\\\":1},\\\"http\\\":{\\\"count\\\":1}}}"
#define REPORT "[PAI_RUNTIME_ERROR_START]\\\\nexitCode: 1\\\\nname: x\\\\n[PAI_RUNTIME_ERROR_END]"

/* Values of a job with one task, as JSON.  given: the ports of a task of this machine; NULL: the
 * task is elsewhere. */
struct told {
	const char *ports, *pod, *index, *given, *diagnostics;
};

static void detail(struct str *out, const struct told *t)
{
	STR_AUTO framework = STR_INIT(DETAIL_MAX);
	str_printf(
	    &framework,
	    "{\"metadata\":{\"name\":\"f\"},\"spec\":{\"taskRoles\":[{\"name\":\"w\",\"task\":"
	    "{\"pod\":{\"metadata\":{\"annotations\":{\"rest-server/port-scheduling-spec\":"
	    "%s}}}}}]},\"status\":{\"state\":\"Completed\",\"attemptStatus\":{"
	    "\"completionStatus\":{\"code\":1,\"diagnostics\":%s},\"taskRoleStatuses\":[{"
	    "\"name\":\"w\",\"taskStatuses\":[{\"index\":%s,\"attemptStatus\":{\"podUID\":%s,"
	    "\"podPorts\":%s,\"completionStatus\":{\"code\":1,\"diagnostics\":%s}}}]}]}}}",
	    t->ports, t->diagnostics, t->index, t->pod, t->given ?: "null", t->diagnostics);
	struct exit_spec *spec = exit_spec_new("", no_err());
	struct job_entry *job = job_entry_new(str_view(&framework));
	const struct job_shown shown = {
		.job = job, .doc = str_view(&framework), .spec = spec, .here = t->given != NULL
	};
	assert_int_equal(job_detail(out, &shown, &unit.a, no_err()), 0);
	job_entry_drop(job);
	exit_spec_free(spec);
}

static struct span task_of(const struct str *answer)
{
	struct span task = { NULL, 0 };
	struct scan s = scan_begin(scan_path(str_view(answer), "taskRoles", "w", "taskStatuses"));
	(void)scan_item(&s, &task);
	return task;
}

/* OpenPAI has computed the ports of the first row. */
TEST(test_ports_equal_those_of_openpai)
{
	static const struct {
		const char *ports, *pod, *index, *want, *given;
	} CASES[] = {
		{ "\"" HASHED "\"", "\"5d1c4fb3-01af-4b6a-93a8-133ec484aa99\"", "0",
		  "{\"ssh\":\"25542\",\"http\":\"23230\"}", NULL },
		{ "\"" HASHED "\"", "null", "0", "{}", NULL },
		{ "\"" HASHED "\"", "\"x\"", "0", "{\"ssh\":\"70\",\"http\":\"71\"}", "\"70,71\"" },
		{ "\"" HASHED "\"", "\"x\"", "0", "{\"ssh\":\"70\",\"http\":\"\"}", "\"70\"" },
		{ "\"" HASHED "\"", "\"x\"", "0", "{}", "null" }, /* it waits */
		{ "\"" HASHED "\"", "\"x\"", "null", "{}", NULL },
		{ "\"{\\\"a\\\":{\\\"start\\\":100,\\\"count\\\":2}}\"", "\"x\"", "3",
		  "{\"a\":\"106,107\"}", NULL },
		{ "\"{\\\"a\\\":{\\\"start\\\":65534,\\\"count\\\":3}}\"", "\"x\"", "0",
		  "{\"a\":\"65534,65535\"}", NULL },
		{ "\"{\\\"a\\\":{\\\"count\\\":2}}\"", "\"x\"", "3", "{}", NULL },
		{ "\"{\\\"a\\\":7,\\\"b\\\":{\\\"start\\\":1,\\\"count\\\":1},\\\"b\\\":{"
		  "\\\"start\\\":2,\\\"count\\\":1}}\"",
		  "\"x\"", "0", "{\"b\":\"1\"}", NULL },
		{ "\"{\"", "\"x\"", "0", "{}", NULL },
		{ "7", "\"x\"", "0", "{}", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO out = STR_INIT(DETAIL_MAX);
		const struct told told = { CASES[i].ports, CASES[i].pod, CASES[i].index,
			                   CASES[i].given, "null" };
		detail(&out, &told);
		struct span got = scan_get(task_of(&out), "containerPorts");
		if (!span_is(got, CASES[i].want))
			fail_msg("row %zu: %.*s", i, (int)got.n, got.p);
	}
}

/* The summary, also that of the task, and the report of pai-runtime. */
TEST(test_diagnostics_give_summary_and_report)
{
	static const struct {
		const char *diagnostics, *summary, *runtime; /* a beginning; JSON */
	} CASES[] = {
		{ "null", "null", "" },
		{ "7", "null", "" },
		{ "\"\"", "null", "" },
		{ "\"stopped\"", "\"stopped\"", "null" },
		{ "\"matched: {\"", "\"matched: {\"", "null" },
		{ "\"P matched: {\\\"a\\\":1}\\nmore\"", "\"P matched:\\na: 1\\n\"", "null" },
		{ "\"P unmatched: {\\\"containers\\\":[{\\\"name\\\":\\\"app\\\",\\\"code\\\":0,"
		  "\\\"message\\\":\\\"" REPORT "\\\"}]}\"",
		  "\"P unmatched:\\n", "null" },
		{ "\"P unmatched: {\\\"containers\\\":[{\\\"name\\\":\\\"init\\\",\\\"code\\\":0},"
		  "{\\\"name\\\":\\\"app\\\",\\\"code\\\":1,\\\"message\\\":\\\"" REPORT
		  "\\\"}]}\"",
		  "\"P unmatched:\\ncontainers:\\n", "{\"exitCode\":1,\"name\":\"app\"}" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO out = STR_INIT(DETAIL_MAX);
		const struct told told = { "null", "null", "0", NULL, CASES[i].diagnostics };
		detail(&out, &told);
		struct span status = scan_get(str_view(&out), "jobStatus");
		struct span of_job = scan_get(status, "appExitDiagnostics");
		struct span of_task = scan_get(task_of(&out), "containerExitDiagnostics");
		struct span runtime = scan_path(status, "appExitMessages", "runtime");
		if (!span_starts(of_job, CASES[i].summary) || !span_eq(of_job, of_task) ||
		    !span_is(runtime, CASES[i].runtime))
			fail_msg("row %zu: %.*s", i, (int)out.n, out.p);
	}
}
