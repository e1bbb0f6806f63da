/*
 * The task that failed first.  Each file of tests/data/first-failure has the status of a Framework,
 * as FrameworkController stores it, and the expected result.
 */

#include "tests/unit/base/cmocka.h"
#include <dirent.h>
#include <jansson.h>

#include "server/jobs/jobs_internal.h"

#define FOLDER "tests/data/first-failure"

enum { OUT_MAX = 1 << 20, PATH_LENGTH = 512, CASES_MIN = 20 };

/* A Framework in full. */
static int detail_of(struct str *out, struct span framework, const struct exit_spec *spec,
                     struct arena *a)
{
	struct job_entry *job = job_entry_new(framework);
	int rc = job_detail(out, &(struct job_shown){ .job = job, .doc = framework, .spec = spec },
	                    a, no_err());
	job_entry_drop(job);
	return rc;
}

/* The member of the job in full with this status; NULL if it is absent. */
static json_t *first_of(json_t *status)
{
	STR_AUTO out = STR_INIT(OUT_MAX);
	struct exit_spec *spec = exit_spec_new("", no_err());
	json_t *framework =
	    json_pack("{s{ss,ss},sO}", "metadata", "name", "train", "uid", "u", "status", status);
	FREE_AUTO char *text = json_dumps(framework, JSON_COMPACT);
	assert_int_equal(detail_of(&out, span_of(text), spec, &unit.a), 0);
	json_auto_t *detail = json_loadb(out.p, out.n, JSON_REJECT_DUPLICATES, NULL);
	json_t *first = json_object_get(json_object_get(detail, "jobStatus"), "firstFailure");
	json_incref(first);
	json_decref(framework);
	exit_spec_free(spec);
	return first;
}

/* The answer lacks one byte to all bytes of the room for it. */
TEST(test_answer_without_room_leaves_out_the_first_failure)
{
	static const char JOB[] =
	    "{\"metadata\":{\"name\":\"train\",\"uid\":\"u\"},\"status\":{\"attemptStatus\":{"
	    "\"id\":0,\"completionStatus\":{\"code\":1},\"taskRoleStatuses\":[{\"name\":\"w\","
	    "\"taskStatuses\":[{\"index\":0,\"attemptStatus\":{\"id\":0,"
	    "\"completionStatus\":{\"code\":1}}}]}]}}}";
	struct exit_spec *spec = exit_spec_new("", no_err());
	STR_AUTO whole = STR_INIT(OUT_MAX);
	assert_int_equal(detail_of(&whole, SPAN(JOB), spec, &unit.a), 0);
	size_t first = span_find(str_view(&whole), 0, ",\"firstFailure\":");
	assert_true(first != SIZE_MAX);
	for (size_t max = whole.n; max >= first; max--) {
		STR_AUTO out = STR_INIT(max);
		int rc = detail_of(&out, SPAN(JOB), spec, &unit.a);
		bool room = max >= first + strlen("}}\n");
		assert_int_equal(rc, room ? 0 : -1);
		if (!room)
			continue;
		bool all = max == whole.n;
		assert_int_equal(out.n, all ? whole.n : first + strlen("}}\n"));
		assert_memory_equal(out.p, whole.p, all ? out.n : first);
		assert_true(span_starts(span_from(str_view(&out), out.n - 3), "}}\n"));
	}
	exit_spec_free(spec);
}

static bool check_file(const char *name)
{
	char path[PATH_LENGTH];
	json_error_t error;
	(void)snprintf(path, sizeof(path), FOLDER "/%s", name);
	json_auto_t *test = json_load_file(path, 0, &error);
	json_t *want = json_object_get(test, "firstFailure");
	assert_non_null(want);
	json_auto_t *got = first_of(json_object_get(test, "status"));
	json_t *spec = json_object_get(got, "exitSpec");
	bool same =
	    spec ? json_equal(json_object_get(spec, "code"), json_object_get(got, "exitCode"))
		 : json_is_null(want);
	(void)json_object_del(got, "exitSpec"); /* compared above */
	same = same && (got ? json_equal(got, want) : json_is_null(want));
	if (!same) {
		FREE_AUTO char *text = json_dumps(got, JSON_INDENT(1) | JSON_ENCODE_ANY);
		print_error("%s: %s\n", name, text ? text : "absent");
	}
	return same;
}

TEST(test_recorded_frameworks_give_the_expected_failure)
{
	DIR *d = opendir(FOLDER);
	const struct dirent *entry;
	size_t n = 0;
	size_t wrong = 0;
	assert_non_null(d);
	while ((entry = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
		if (entry->d_name[0] == '.')
			continue;
		n++;
		wrong += !check_file(entry->d_name);
	}
	(void)closedir(d);
	assert_int_equal(wrong, 0);
	assert_true(n >= CASES_MIN);
}

static struct task_end end_of(int64_t code, const char *said, int64_t ms)
{
	static struct exit_spec *spec;
	struct task_end t = { .code = code, .ended_ms = ms };
	if (!spec)
		spec = exit_spec_new("", no_err());
	task_end_classify(&t, spec, span_of(said));
	return t;
}

TEST(test_kind_of_an_end_follows_code_and_output)
{
	static const struct {
		int64_t code;
		const char *said;
		enum end_kind kind;
	} CASES[] = {
		{ 1, "", END_ORIGIN },
		{ 1, "write error: Broken pipe", END_FOLLOWED },
		{ 255, "srun: error: node-3: task 5: Killed", END_FOLLOWED },
		{ 134, "terminate called: Connection reset by peer", END_FOLLOWED },
		{ 137, "", END_KILLED },
		{ 137, "process rank 5 with PID 0 on node b exited on signal 9", END_FOLLOWED },
		{ 139, "Broken pipe", END_ORIGIN },
		{ 141, "", END_FOLLOWED },
		{ 193, "Connection reset by peer", END_ORIGIN },
		{ 226, "Connection reset by peer", END_ORIGIN },
		{ 236, "", END_FOLLOWED },
		{ 237, "unhandled cuda error", END_ORIGIN },
		{ 237, "unhandled system error", END_FOLLOWED },
		{ 238, "The server socket has failed to bind to [::]:29500", END_ORIGIN },
		{ 238, "The client socket has timed out", END_FOLLOWED },
		{ 245, "  exitcode  : -15 (pid: 77)", END_KILLED },
		{ 245, "exits with return code = -15", END_KILLED },
		{ 245, "  exitcode  : -9 (pid: 77)", END_ORIGIN },
		{ 245, "KILLED BY SIGNAL: 9 (Killed)", END_FOLLOWED },
		{ -220, "", END_STOPPED },
		{ -1000, "Broken pipe", END_ORIGIN },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct task_end t = end_of(CASES[i].code, CASES[i].said, 0);
		if (t.kind != CASES[i].kind)
			fail_msg("%lld %s: %d", (long long)CASES[i].code, CASES[i].said, t.kind);
		assert_int_equal(t.kind == END_ORIGIN, t.why == NULL);
	}
}

TEST(test_choice_prefers_the_origin_over_its_effects)
{
	struct task_end v[] = { end_of(-220, "", 1000), end_of(236, "", 2000),
		                end_of(143, "", 3000), end_of(255, "KeyError", 9000),
		                end_of(1, "", END_UNKNOWN) };
	assert_int_equal(first_failure(v, 0), SIZE_MAX);
	assert_int_equal(first_failure(v, 1), SIZE_MAX);
	assert_int_equal(first_failure(v, 2), 1);
	assert_int_equal(first_failure(v, 3), 2);
	assert_int_equal(first_failure(v, 4), 2);
	v[2].ended_ms++;
	assert_int_equal(first_failure(v, 3), 1);
	assert_int_equal(first_failure(v, 4), 3);
	assert_int_equal(first_failure(v + 4, 1), 0);
	v[3].ended_ms = END_UNKNOWN;
	assert_int_equal(first_failure(v, 5), 3);
}

/* All of many tasks are counted, and the first of them are named. */
TEST(test_many_failed_tasks_are_counted_and_some_are_named)
{
	enum { TASKS = 250, SHOWN = 100, FIRST = 240 };
	json_t *tasks = json_array();
	for (int i = 0; i < TASKS; i++) {
		json_t *end =
		    json_pack("{s{si},ss}", "completionStatus", "code", i == FIRST ? -1200 : 237,
		              "completionTime", "2026-11-23T12:00:00Z");
		(void)json_array_append_new(tasks, json_pack("{si,ss,so}", "index", i, "state",
		                                             "Completed", "attemptStatus",
		                                             end)); /* else its size is wrong */
	}
	json_auto_t *status = json_pack(
	    "{ss,s{s{si},s[{ss,so}]}}", "state", "Completed", "attemptStatus", "completionStatus",
	    "code", 237, "taskRoleStatuses", "name", "worker", "taskStatuses", tasks);
	json_auto_t *first = first_of(status);
	json_t *followers = json_object_get(first, "followers");
	assert_int_equal(json_integer_value(json_object_get(first, "taskIndex")), FIRST);
	assert_int_equal(json_integer_value(json_object_get(first, "followersCount")), TASKS - 1);
	assert_int_equal(json_array_size(followers), SHOWN);
}
