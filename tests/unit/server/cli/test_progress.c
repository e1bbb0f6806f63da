/* The progress of a job as text: lines, blocks, verdicts; and tables. */

#include "tests/unit/base/cmocka.h"

#include "server/cli/cli_internal.h"

enum { MAX = 65536 };

static const char RUNNING[] =
    "{\"name\":\"mnist\",\"jobStatus\":{\"state\":\"RUNNING\",\"executionType\":\"START\","
    "\"retries\":2,\"submissionTime\":1000000,\"completedTime\":null,"
    "\"waitingReason\":{\"reason\":\"Late\",\"message\":\"0/3 nodes:\\tno\\nGPU \\u001b[2J\","
    "\"taskRoleName\":\"worker\",\"taskIndex\":2}},\"taskRoles\":{"
    "\"worker\":{\"taskStatuses\":[{\"taskState\":\"RUNNING\"},{\"taskState\":\"RUNNING\"},"
    "{\"taskState\":\"WAITING\"},{\"taskState\":\"SUCCEEDED\"}]},"
    "\"ps\":{\"taskStatuses\":[{\"taskState\":\"FAILED\"},{\"taskState\":\"weird\"}]}}}";

static const char FAILED[] =
    "{\"jobStatus\":{\"state\":\"FAILED\",\"submissionTime\":1000,\"completedTime\":193000,"
    "\"appExitCode\":137,\"appExitSpec\":{\"phrase\":\"ContainerSigKillReceived\","
    "\"reason\":\"Killed by SIGKILL\",\"solution\":[\"Check memory\",\"Ask\\nsomebody\"]},"
    "\"appExitTriggerTaskRoleName\":\"worker\",\"appExitTriggerTaskIndex\":3,"
    "\"appExitMessages\":{\"runtime\":{\"reason\":\"out of memory\"}},"
    "\"appExitDiagnostics\":\"PodFailed:\\n  code: 137 \\u001b[0m\"},\"taskRoles\":{}}";

static struct progress read_ok(const char *text, struct arena *a)
{
	struct progress p;
	assert_int_equal(progress_read(&p, span_of(text), a, no_err()), 0);
	return p;
}

static void assert_block(const struct progress *p, size_t columns, size_t rows, const char *wanted)
{
	STR_AUTO out = STR_INIT(MAX);
	progress_block(&out, p,
	               &(struct progress_frame){ "alice~mnist", columns, rows, 1065000, NULL, 0 });
	assert_string_equal(str_c(&out), wanted);
}

static void assert_verdict(const char *detail, bool brief, const char *wanted)
{
	STR_AUTO out = STR_INIT(MAX);
	struct progress p = read_ok(detail, &unit.a);
	p.brief = brief;
	progress_verdict(&out, &p, "alice~mnist");
	assert_string_equal(str_c(&out), wanted);
}

TEST(test_progress_read_counts_tasks_by_state)
{
	struct progress p = read_ok(RUNNING, &unit.a);
	assert_int_equal(p.state, JOB_RUNNING);
	assert_false(p.stopping);
	assert_int_equal(p.retries, 2);
	assert_int_equal(p.n_roles, 2);
	assert_string_equal(p.role[0].name, "worker");
	assert_int_equal(p.role[0].tasks, 4);
	assert_int_equal(p.role[0].in[JOB_RUNNING], 2);
	assert_int_equal(p.role[1].in[JOB_UNKNOWN], 1);
}

/* The pods of two tasks do not exist; a task without a pod does not run. */
TEST(test_progress_counts_tasks_without_pods_as_not_running)
{
	struct progress p = read_ok("{\"jobStatus\":{\"state\":\"RUNNING\"},\"taskRoles\":{\"a\":{"
	                            "\"taskRoleStatus\":{\"gpuNumber\":2},\"taskStatuses\":["
	                            "{\"taskState\":\"RUNNING\",\"containerId\":null},"
	                            "{\"taskState\":\"RUNNING\",\"containerId\":\"5d1c\"},"
	                            "{\"taskState\":\"FAILED\",\"containerId\":null}]}}}",
	                            &unit.a);
	assert_int_equal(p.role[0].in[JOB_RUNNING], 1);
	assert_int_equal(p.role[0].in[JOB_WAITING], 1);
	assert_int_equal(p.role[0].in[JOB_FAILED], 1);
	assert_int_equal(p.role[0].gpus, 2);
}

/* Malformed answers cause no crash and no wrong values. */
TEST(test_progress_read_refuses_malformed_answers)
{
	static const char *const NONE[] = {
		"", "nothing", "[]", "{}", "{\"jobStatus\":[]}", "{\"jobStatus\":{}", "\"x\""
	};
	for (size_t i = 0; i < sizeof(NONE) / sizeof(NONE[0]); i++) {
		struct progress p;
		assert_int_equal(progress_read(&p, span_of(NONE[i]), &unit.a, no_err()), -1);
	}
	STR_AUTO out = STR_INIT(MAX);
	struct progress p = read_ok("{\"jobStatus\":{\"state\":7,\"retries\":\"x\"},\"taskRoles\":"
	                            "{\"a\":{\"taskStatuses\":{}},\"b\":[],\"c\":{\"taskStatuses\":"
	                            "[1,null,{\"taskState\":{}}]}}}",
	                            &unit.a);
	assert_int_equal(p.state, JOB_UNKNOWN);
	progress_line(&out, &p);
	progress_block(&out, &p, &(struct progress_frame){ "u~j", 40, 10, 0, NULL, 0 });
	progress_verdict(&out, &p, "u~j");
}

TEST(test_progress_line_summarizes_the_roles)
{
	STR_AUTO out = STR_INIT(MAX);
	struct progress p = read_ok(RUNNING, &unit.a);
	progress_line(&out, &p);
	assert_string_equal(
	    str_c(&out),
	    "RUNNING (retry 2)  worker 1/4 succeeded, 2 running, 1 waiting; "
	    "ps 1/2 failed, 1 unknown  worker[2]: Late: 0/3 nodes: no\\x0aGPU \\x1b[2J");
}

TEST(test_progress_line_shows_that_a_job_is_stopping)
{
	STR_AUTO out = STR_INIT(MAX);
	struct progress p =
	    read_ok("{\"jobStatus\":{\"state\":\"RUNNING\",\"executionType\":\"STOP\"}}", &unit.a);
	progress_line(&out, &p);
	assert_string_equal(str_c(&out), "STOPPING");
	p = read_ok("{\"jobStatus\":{\"state\":\"RUNNING\",\"executionType\":\"STOP\","
	            "\"stopReason\":\"after 2 seconds\"}}",
	            &unit.a);
	out.n = 0;
	progress_line(&out, &p);
	assert_string_equal(str_c(&out), "STOPPING  after 2 seconds");
	p = read_ok("{\"jobStatus\":{\"state\":\"WAITING\",\"waitingReason\":{\"kind\":\"machine\","
	            "\"reason\":\"Waiting\",\"message\":\"first in the queue\"}}}",
	            &unit.a);
	assert_string_equal(p.waiting, "first in the queue");
	p = read_ok("{\"jobStatus\":{\"state\":\"STOPPED\",\"executionType\":\"STOP\"}}", &unit.a);
	assert_false(p.stopping);
}

/* No line is wider than the terminal, and there are no more lines than it has. */
TEST(test_progress_block_fits_into_the_terminal)
{
	struct progress p = read_ok(RUNNING, &unit.a);
	for (size_t columns = 19; columns < 130; columns += 7) {
		for (size_t rows = 1; rows < 8; rows++) {
			STR_AUTO out = STR_INIT(MAX);
			progress_block(&out, &p,
			               &(struct progress_frame){ "alice~mnist", columns, rows,
			                                         1065000, NULL, 0 });
			size_t lines = 0;
			for (const char *s = str_c(&out); *s; s = strchr(s, '\n') + 1, lines++)
				assert_true(visible_width((struct span){ s, strcspn(s, "\n") }) <=
				            columns);
			assert_true(lines <= rows);
		}
	}
	assert_block(&p, 60, 3,
	             "alice~mnist  RUNNING  1m 05s  retry 2\n"
	             "  and 2 more task roles\n"
	             "  worker[2]: Late: 0/3 nodes: no\\x0aGPU \\x1b[2J\n");
	assert_block(&p, 60, 9,
	             "alice~mnist  RUNNING  1m 05s  retry 2\n"
	             "  worker  [#####==========.....] 1/4 succeeded, 2 running, 1\n"
	             "  ps      [xxxxxxxxxx??????????] 1/2 failed, 1 unknown\n"
	             "  worker[2]: Late: 0/3 nodes: no\\x0aGPU \\x1b[2J\n");
}

#define IN(colour, state) "\x1b[" #colour "m" state "\x1b[0m"

/* Escapes have no columns, and are never cut. */
TEST(test_progress_colours_take_no_columns)
{
	STR_AUTO out = STR_INIT(MAX);
	struct progress p = read_ok(RUNNING, &unit.a);
	p.colour = true;
	assert_block(&p, 60, 1, "alice~mnist  " IN(36, "RUNNING") "  1m 05s  retry 2\n");
	assert_block(&p, 20, 1, "alice~mnist  " IN(36, "RUNNING") "\n");
	assert_block(&p, 19, 1, "alice~mnist  RUNNIN\n");
	progress_line(&out, &p);
	assert_non_null(strstr(str_c(&out), IN(36, "RUNNING") " (retry 2)  worker 1/4 succeeded"));
	p = read_ok(FAILED, &unit.a);
	p.colour = true;
	out.n = 0;
	progress_verdict(&out, &p, "mnist");
	assert_non_null(strstr(str_c(&out), "mnist " IN(31, "FAILED") " after 3m 12s"));
}

/* The lines of tasks stand below the roles, as many as fit; running tasks come first. */
TEST(test_progress_block_shows_running_tasks_first)
{
	static const struct task_progress TASKS[] = {
		{ "ps[0]", "ended\tlong ago", false },
		{ "worker[0]", "epoch 1, loss 0.123456789, or so", true },
		{ "worker[10]", "epoch 2", true },
	};
	static const struct {
		size_t rows;
		const char *tasks;
	} CASES[] = {
		{ 10, "  worker[0]   epoch 1, loss 0.123456789,\n"
		      "  worker[10]  epoch 2\n"
		      "  ps[0]       ended long ago\n" },
		{ 6, "  worker[0]   epoch 1, loss 0.123456789,\n"
		     "  and 2 more tasks\n" },
		{ 5, "  and 3 more tasks\n" },
		{ 4, "" },
	};
	struct progress p = read_ok(RUNNING, &unit.a);
	p.role[0].gpus = 2;
	p.role[1].gpus = 1;
	p.waiting = "2nd in the queue";
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		STR_AUTO out = STR_INIT(MAX);
		STR_AUTO wanted = STR_INIT(MAX);
		progress_block(
		    &out, &p,
		    &(struct progress_frame){ "mnist", 40, CASES[i].rows, 1065000, TASKS, 3 });
		str_puts(&wanted, "mnist  RUNNING  1m 05s  retry 2\n"
		                  "  worker  [###======....] 1/4 succeeded,\n"
		                  "  ps      [xxxxxx???????] 1/2 failed, 1 \n");
		str_puts(&wanted, CASES[i].tasks);
		str_puts(&wanted, "  2nd in the queue\n");
		assert_string_equal(str_c(&out), str_c(&wanted));
	}
	STR_AUTO out = STR_INIT(MAX);
	p.role[0].tasks = 1;
	progress_block(&out, &p, &(struct progress_frame){ "mnist", 200, 10, 1065000, NULL, 0 });
	assert_non_null(strstr(str_c(&out), "1 waiting, 2 GPUs\n"));
	assert_non_null(strstr(str_c(&out), "1 unknown, 1 GPU each\n"));
}

TEST(test_progress_verdict_explains_the_end)
{
	STR_AUTO out = STR_INIT(MAX);
	assert_verdict(FAILED, false,
	               "alice~mnist FAILED after 3m 12s, exit code 137 "
	               "(ContainerSigKillReceived) of worker[3]\n"
	               "  reason:   Killed by SIGKILL\n"
	               "            out of memory\n"
	               "  solution: Check memory\n"
	               "            Ask\n"
	               "            somebody\n"
	               "  details:  PodFailed:\n"
	               "              code: 137 \\x1b[0m\n");
	assert_verdict("{\"jobStatus\":{\"state\":\"FAILED\",\"appExitCode\":255,"
	               "\"appExitTriggerTaskRoleName\":\"a\",\"appExitTriggerTaskIndex\":0,"
	               "\"appExitMessages\":{\"runtime\":{\"originUserExitCode\":7}},"
	               "\"appExitDiagnostics\":\"long\"}}",
	               true,
	               "alice~mnist FAILED, exit code 255 of a[0]; the command ended with 7\n");
	assert_verdict("{\"jobStatus\":{\"state\":\"SUCCEEDED\",\"submissionTime\":1000,"
	               "\"completedTime\":3601000,\"appExitCode\":0}}",
	               false, "alice~mnist SUCCEEDED after 1h 00m\n");
	/* Without the time in the queue, as `jobs` shows it. */
	assert_verdict("{\"jobStatus\":{\"state\":\"SUCCEEDED\",\"submissionTime\":1000,"
	               "\"appLaunchedTime\":3599000,\"completedTime\":3601000,"
	               "\"appExitCode\":0}}",
	               false, "alice~mnist SUCCEEDED after 2s\n");
	/* The verdict has the message from the report of pai-runtime. */
	static const char REPORT[] =
	    "{\"jobStatus\":{\"state\":\"FAILED\",\"appExitCode\":255,\"appExitMessages\":{"
	    "\"runtime\":{\"originUserExitCode\":7%s}},\"appExitDiagnostics\":\"PodFailed:\\n"
	    "[PAI_RUNTIME_ERROR_START]\\nexitcode: 7\\n[PAI_RUNTIME_ERROR_END]\"}}";
	static const char *const LOGS[][2] = {
		{ "", "  details:  PodFailed:\n" },
		{ ",\"errorLogs\":{\"platform\":\"p\\n\"}", "  lines:    p\n" },
		{ ",\"errorLogs\":{\"user\":\"1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10\\n11\\n12\\n13"
		  "\\n14\\n15\\n16\\n17\\n18\\n19\\nthe end\\n\",\"platform\":\"p\"}",
		  "  lines:    2\n            3\n" },
	};
	for (size_t i = 0; i < 3; i++) {
		out.n = 0;
		struct progress p = read_ok(arena_printf(&unit.a, REPORT, LOGS[i][0]), &unit.a);
		progress_verdict(&out, &p, "mnist");
		assert_non_null(strstr(str_c(&out), LOGS[i][1]));
		assert_null(strstr(str_c(&out), "PAI_RUNTIME"));
		assert_null(strstr(str_c(&out), "  ...\n"));
	}
	assert_non_null(strstr(str_c(&out), "            the end\n"));
}

#define FIRST                                                                                      \
	"{\"jobStatus\":{\"state\":\"FAILED\",\"appExitCode\":236,"                                \
	"\"appExitSpec\":{\"phrase\":\"Timeout\",\"reason\":\"a time-out\"},"                      \
	"\"appExitTriggerTaskRoleName\":\"worker\",\"appExitTriggerTaskIndex\":0,"                 \
	"\"appExitDiagnostics\":\"long\",\"firstFailure\":{\"taskRole\":\"worker\","               \
	"\"taskIndex\":2,%s\"cause\":\"CUDA out\\u001b of memory\","                               \
	"\"exitSpec\":{\"reason\":\"no memory\",\"solution\":[\"more\"]},"                         \
	"\"lines\":[\"one\",\"\",\"two\"],\"followers\":[%s],\"followersCount\":%d}},"             \
	"\"taskRoles\":{\"worker\":{\"taskStatuses\":[{},{},{}]}}}"

/* The verdict has the task that failed first, and its reason. */
TEST(test_progress_verdict_names_the_first_failure)
{
	char text[4096];
	(void)setenv("TZ", "UTC", 1); /* NOLINT(concurrency-mt-unsafe) */
	(void)snprintf(text, sizeof(text), FIRST, "\"rank\":5,\"time\":1795435384120,",
	               "{\"taskRole\":\"worker\",\"taskIndex\":0,\"cause\":\"lost its peer\"},"
	               "{\"taskRole\":\"worker\",\"taskIndex\":1,\"cause\":\"lost its peer\"}",
	               2);
	assert_verdict(text, false,
	               "alice~mnist FAILED, exit code 236 (Timeout) of worker[0]\n"
	               "  first:    worker[2] failed first (rank 5, 12:03:04.120): "
	               "CUDA out\\x1b of memory\n"
	               "            worker[0], worker[1] only followed (lost its peer)\n"
	               "  reason:   no memory\n"
	               "  solution: more\n"
	               "  lines:    one\n"
	               "            two\n");
	struct progress p = read_ok(text, &unit.a);
	assert_string_equal(p.failed, "worker[2]");
	(void)snprintf(text, sizeof(text), FIRST, "\"rank\":null,\"time\":1795435384000,",
	               "{\"taskRole\":\"worker\",\"taskIndex\":0,\"cause\":\"lost its peer\"},"
	               "{\"taskRole\":\"ps\",\"taskIndex\":0,\"cause\":\"broken pipe\"}",
	               110);
	assert_verdict(text, true,
	               "alice~mnist FAILED, exit code 236 (Timeout) of worker[0]\n"
	               "  first:    worker[2] failed first (12:03:04): "
	               "CUDA out\\x1b of memory\n"
	               "            worker[0], ps[0] and 108 more only followed "
	               "(lost its peer; broken pipe)\n"
	               "  reason:   no memory\n"
	               "  solution: more\n");
}

TEST(test_duration_text_has_two_units)
{
	static const struct {
		int64_t ms;
		const char *text;
	} CASES[] = {
		{ -5, "0s" },
		{ 999, "0s" },
		{ 59999, "59s" },
		{ 60000, "1m 00s" },
		{ 3599999, "59m 59s" },
		{ 3600000, "1h 00m" },
		{ 86399999, "23h 59m" },
		{ 90000000, "1d 01h" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		STR_AUTO out = STR_INIT(MAX);
		duration_put_short(&out, CASES[i].ms);
		assert_string_equal(str_c(&out), CASES[i].text);
	}
}

TEST(test_table_write_aligns_columns)
{
	AUTO(table_done) struct table t;
	STR_AUTO out = STR_INIT(MAX);
	table_begin(&t, (const char *const[]){ "NAME", "STATE" }, 2);
	table_cell(&t, SPAN("a\x1b\tb"));
	table_cell(&t, SPAN(""));
	table_cell(&t, SPAN("äö"));
	table_number(&t, SPAN("{\"n\":-7}"), "n");
	table_write(&out, &t, SIZE_MAX);
	assert_string_equal(str_c(&out), "NAME     STATE\n"
	                                 "a\\x1b b  -\n"
	                                 "äö       -7\n");
}

TEST(test_table_colours_only_known_states)
{
	static const char *const CELLS[] = { "FAILED", "STOPPED", "2", "b", "odd", "3" };
	AUTO(table_done) struct table t;
	STR_AUTO out = STR_INIT(MAX);
	table_begin(&t, (const char *const[]){ "NAME", "STATE", "GPUS" }, 3);
	t.states = 1;
	for (size_t i = 0; i < sizeof(CELLS) / sizeof(CELLS[0]); i++)
		table_cell(&t, span_of(CELLS[i]));
	table_write(&out, &t, SIZE_MAX);
	assert_string_equal(str_c(&out), "NAME    STATE    GPUS\n"
	                                 "FAILED  " IN(35, "STOPPED") "  2\n"
	                                                              "b       odd      3\n");
}

/* Only the last column is cut; without room for it, the row takes a second line. */
TEST(test_table_write_cuts_only_the_last_column)
{
	static const struct {
		size_t columns;
		const char *last;
	} CASES[] = {
		{ 11, "0123456789 äöä..." },     { 12, "0123456789 äöäöä..." },
		{ 20, "0123456789 äöäöäöäöäö" }, { 22, "0123456789 äö..." },
		{ 23, "0123456789 äöä..." },     { 26, "0123456789 äöäöäö..." },
		{ 27, "0123456789 äöäöäöäöäö" },
	};
	AUTO(table_done) struct table t;
	table_begin(&t, (const char *const[]){ "NAME", "REASON" }, 2);
	table_cell(&t, SPAN("äö"));
	table_cell(&t, SPAN("0123456789 äöäöäöäöäö"));
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		STR_AUTO out = STR_INIT(MAX);
		STR_AUTO want = STR_INIT(MAX);
		table_write(&out, &t, CASES[i].columns);
		str_printf(&want, "NAME  REASON\näö    %s\n", CASES[i].last);
		assert_string_equal(str_c(&out), str_c(&want));
	}
}
