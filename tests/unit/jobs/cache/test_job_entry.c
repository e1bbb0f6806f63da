/* Entries of the cache, made from real Frameworks in every state. */
#include <jansson.h>

#include "base/posix/clock.h"
#include "base/posix/process.h"
#include "jobs/cache/job_entry_pack.h"
#include "jobs/framework/view.h"
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/job_entry_kit.h"

/* ---- real ones ---- */

/* The expected values were determined from the files by other means. */
static const struct expected {
	const char *file;
	enum job_state state;
	const char *sub_state, *execution;
	bool has_code;
	int code;
	int retries[4]; /* total, accountable, attempt, delay */
	int size[3];    /* tasks, roles, gpus */
	int times_s[3]; /* created, launched, completed */
} EXPECTED[] = {
	/* clang-format off */
	{ "00-posted", JOB_WAITING, "AttemptCreationPending", "START", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, -1, -1 } },
	{ "01-AttemptCreationPending", JOB_WAITING, "AttemptCreationPending", "CREATE", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, -1, -1 } },
	{ "02-AttemptCreationRequested", JOB_WAITING, "AttemptCreationRequested", "START", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, -1, -1 } },
	{ "03-AttemptPreparing-no-pods", JOB_WAITING, "AttemptPreparing", "START", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, -1, -1 } },
	{ "04-AttemptPreparing-addresses", JOB_WAITING, "AttemptPreparing", "START", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, -1, -1 } },
	{ "05-AttemptRunning-first-task", JOB_RUNNING, "AttemptRunning", "START", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170397, -1 } },
	{ "06-AttemptRunning", JOB_RUNNING, "AttemptRunning", "START", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170397, -1 } },
	{ "07-AttemptDeletionPending", JOB_RUNNING, "AttemptDeletionPending", "START", true, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, -1 } },
	{ "08-AttemptDeletionRequested", JOB_RUNNING, "AttemptDeletionRequested", "START", true, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, -1 } },
	{ "09-AttemptDeleting", JOB_RUNNING, "AttemptDeleting", "START", true, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, -1 } },
	{ "10-AttemptCompleted", JOB_RUNNING, "AttemptCompleted", "START", true, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, -1 } },
	{ "11-Completed-succeeded", JOB_SUCCEEDED, "Completed", "START", true, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, 1795170402 } },
	{ "12-Completed-failed", JOB_FAILED, "Completed", "START", true, 1, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, 1795170401 } },
	{ "13-Completed-oom-killed", JOB_FAILED, "Completed", "START", true, -1200, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, 1795170400 } },
	{ "14-Completed-stopped", JOB_STOPPED, "Completed", "STOP", true, -210, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170392, 1795170397, 1795170398 } },
	{ "15-Completed-pod-refused", JOB_FAILED, "Completed", "START", true, -200, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170393, 1795170395, 1795170395 } },
	{ "16-Completed-no-rule-triggered", JOB_SUCCEEDED, "Completed", "START", true, 0, { 0, 0, 0, -1 }, { 3, 2, 4 }, { 1795170547, 1795170549, 1795170551 } },
	{ "17-retry-waiting", JOB_RUNNING, "AttemptCompleted", "START", true, 201, { 0, 0, 0, 71 }, { 4, 2, 4 }, { 1795170392, 1795170396, -1 } },
	{ "18-retry-pending", JOB_WAITING, "AttemptCreationPending", "START", false, 0, { 1, 0, 1, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, -1 } },
	{ "19-retry-AttemptRunning", JOB_RUNNING, "AttemptRunning", "START", false, 0, { 1, 0, 1, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, -1 } },
	{ "20-task-retry", JOB_RUNNING, "AttemptRunning", "START", false, 0, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170547, 1795170550, -1 } },
	{ "21-being-deleted", JOB_RUNNING, "AttemptDeleting", "START", true, -100, { 0, 0, 0, -1 }, { 4, 2, 4 }, { 1795170542, 1795170544, -1 } },
	{ "22-Completed-retries-exhausted", JOB_FAILED, "Completed", "START", true, 2, { 1, 1, 1, -1 }, { 4, 2, 4 }, { 1795170392, 1795170396, 1795170406 } },
	{ "23-compressed-1600-tasks", JOB_WAITING, "AttemptCreationPending", "CREATE", false, 0, { 0, 0, 0, -1 }, { 1600, 2, 4 }, { 1795170639, -1, -1 } },
	{ "real-Completed-failed", JOB_FAILED, "Completed", "START", true, 42, { 0, 0, 0, -1 }, { 4, 2, 0 }, { 1795171448, 1795171472, 1795171472 } },
	{ "real-Completed-oom-killed", JOB_FAILED, "Completed", "START", true, -1200, { 0, 0, 0, -1 }, { 4, 2, 0 }, { 1795171448, 1795171472, 1795171472 } },
	{ "real-Completed-succeeded", JOB_SUCCEEDED, "Completed", "START", true, 0, { 0, 0, 0, -1 }, { 4, 2, 0 }, { 1795171447, 1795171450, 1795171461 } },
	/* clang-format on */
};
enum { FILES = sizeof(EXPECTED) / sizeof(EXPECTED[0]) };

static int64_t milliseconds(int seconds)
{
	return seconds < 0 ? JOB_ENTRY_NONE : INT64_C(1000) * seconds;
}

static void check(const struct job_entry *c, const struct expected *x)
{
	assert_false(c->broken);
	assert_int_equal(c->state, x->state);
	assert_string_equal(c->sub_state, x->sub_state);
	assert_string_equal(c->execution, x->execution);
	assert_int_equal(c->has_code, x->has_code);
	assert_int_equal(c->code, x->code);
	assert_int_equal(c->retries, x->retries[0]);
	assert_int_equal(c->accountable, x->retries[1]);
	assert_int_equal(c->attempt, x->retries[2]);
	assert_int_equal(c->retry_delay_s, x->retries[3]);
	assert_int_equal(c->tasks, x->size[0]);
	assert_int_equal(c->roles, x->size[1]);
	assert_int_equal(c->gpus, x->size[2]);
	assert_int_equal(c->created_ms, milliseconds(x->times_s[0]));
	assert_int_equal(c->launched_ms, milliseconds(x->times_s[1]));
	assert_int_equal(c->completed_ms, milliseconds(x->times_s[2]));
	assert_int_equal(c->deleting, strstr(x->file, "21-being-deleted") != NULL);
	assert_string_equal(c->tags, "[]");
	assert_string_equal(c->priority, "");
	assert_true(c->weight >= sizeof(*c) + c->doc.n);
}

/* The limit counts from the first start of a task.  There is none without a valid annotation,
 * without a start, and after the end. */
TEST(test_deadline_counts_from_the_first_start)
{
	static const struct {
		const char *limit, *status, *execution;
		int64_t want;
	} CASES[] = {
		{ "\"60\"", "\"state\":\"AttemptRunning\",\"runTime\":\"1970-01-01T00:01:00Z\"",
		  "Start", 120000 },
		{ "\"60\"",
		  "\"state\":\"AttemptCreationPending\",\"runTime\":\"1970-01-01T00:00:00Z\"",
		  "Start", 60000 },
		{ "\"2147483647\"",
		  "\"state\":\"AttemptRunning\",\"runTime\":\"1970-01-01T00:00:00Z\"", "Start",
		  2147483647000 },
		{ "\"60\"", "\"state\":\"AttemptPreparing\"", "Start", INT64_MAX },
		{ "\"60\"", "\"state\":\"AttemptRunning\",\"runTime\":\"1970-01-01T00:01:00Z\"",
		  "Stop", INT64_MAX },
		{ "\"60\"",
		  "\"state\":\"Completed\",\"runTime\":\"1970-01-01T00:01:00Z\","
		  "\"completionTime\":\"1970-01-01T00:01:00Z\"",
		  "Start", INT64_MAX },
		{ "\"0\"", "\"state\":\"AttemptRunning\",\"runTime\":\"1970-01-01T00:01:00Z\"",
		  "Start", INT64_MAX },
		{ "\"2147483648\"",
		  "\"state\":\"AttemptRunning\",\"runTime\":\"1970-01-01T00:01:00Z\"", "Start",
		  INT64_MAX },
		{ "60", "\"state\":\"AttemptRunning\",\"runTime\":\"1970-01-01T00:01:00Z\"",
		  "Start", INT64_MAX },
		{ "{}", "\"state\":\"AttemptRunning\",\"runTime\":\"1970-01-01T00:01:00Z\"",
		  "Start", INT64_MAX },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		FREE_AUTO char *text = xasprintf(
		    "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":{"
		    "\"rest-lit/max-duration-sec\":%s}},\"spec\":{\"executionType\":\"%s\"},"
		    "\"status\":{%s}}",
		    CASES[i].limit, CASES[i].execution, CASES[i].status);
		struct job_entry *c = job_entry_new(span_of(text));
		assert_non_null(c);
		int64_t before = clock_wall_ms();
		int64_t left = job_entry_left_ms(c);
		if (CASES[i].want == INT64_MAX)
			assert_int_equal(left, INT64_MAX);
		else
			assert_in_range(CASES[i].want - left, before, clock_wall_ms());
		job_entry_drop(c);
	}
}

/* The job was started while the wall clock was in 1970.  The monotonic clock counts until the
 * machine boots again. */
TEST(test_time_left_counts_the_monotonic_clock_of_this_boot)
{
	char boot[PROCESS_BOOT_MAX];
	process_boot(boot);
	assert_true(boot[0]);
	for (int other = 0; other < 2; other++) {
		FREE_AUTO char *text = xasprintf(
		    "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":{"
		    "\"rest-lit/max-duration-sec\":\"60\",\"rest-lit/launched\":\"%s%s %lld\"}},"
		    "\"spec\":{\"executionType\":\"Start\"},\"status\":{\"state\":"
		    "\"AttemptRunning\","
		    "\"runTime\":\"1970-01-01T00:01:00Z\"}}",
		    other ? "0" : "", boot, (long long)clock_boot_ms() - 20000);
		JOB_ENTRY_AUTO *c = job_entry_new(span_of(text));
		assert_non_null(c);
		int64_t left = job_entry_left_ms(c);
		if (other)
			assert_true(left < 0);
		else
			assert_in_range(left, 1, 40000);
	}
}

#define IDLE_ENTRY(state, idle, keep, execution)                                                   \
	"{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":{\"rest-lit/gpu-idle\":" idle \
	",\"rest-lit/gpu-keep\":" keep "}},\"spec\":{\"executionType\":\"" execution               \
	"\"},\"status\":{\"state\":\"" state "\"}}"

TEST(test_idle_annotation_that_is_wrong_counts_as_absent)
{
	static const char *const WRONG[] = { "",
		                             " ",
		                             "x",
		                             "5",
		                             "0 5 b 7",
		                             "-1 5 b 7",
		                             "5 ",
		                             "5  b 7",
		                             "5 x b 7",
		                             "5.5 5 b 7",
		                             "99999999999999999999 5 b 7" };
	int64_t warned_ms;
	int64_t boot_ms;
	for (size_t i = 0; i < ARRAY_SIZE(WRONG); i++)
		assert_int_equal(job_idle_read(span_of(WRONG[i]), &warned_ms, &boot_ms),
		                 JOB_ENTRY_NONE);
	static const char *const TEXTS[] = { "null", "7", "{}", "\"\"", "\"x\"" };
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		FREE_AUTO char *text = xasprintf(IDLE_ENTRY("AttemptRunning", "%s", "%s", "Start"),
		                                 TEXTS[i], TEXTS[i]);
		JOB_ENTRY_AUTO *c = job_entry_new(span_of(text));
		assert_non_null(c);
		assert_int_equal(c->gpu_idle_ms, JOB_ENTRY_NONE);
		assert_int_equal(c->gpu_kept_ms, 0);
		assert_int_equal(job_entry_idle_left_ms(c, 1), INT64_MAX);
	}
}

TEST(test_keep_annotation_has_an_end_and_hours)
{
	int64_t hours;
	struct span text = SPAN("500 24 because of it");
	assert_int_equal(job_keep_read(&text, &hours), 500);
	assert_int_equal(hours, 24);
	assert_true(span_is(text, "because of it"));
	text = SPAN("500 1");
	assert_int_equal(job_keep_read(&text, &hours), 500);
	assert_true(text.n == 0);
	static const char *const WRONG[] = { "", "500", "500 x", "x 24", "-5 24", "0 0", "500 0" };
	for (size_t i = 0; i < ARRAY_SIZE(WRONG); i++) {
		text = span_of(WRONG[i]);
		assert_int_equal(job_keep_read(&text, &hours), 0);
		assert_int_equal(hours, 0);
	}
}

/* The wall clock says nothing: a warning of this boot is as old as the boot clock says, one of
 * another boot as old as this process has known it; also if the clock was set by a day. */
TEST(test_time_until_an_idle_job_is_stopped_counts_the_boot_clock)
{
	enum { DAY_MS = 86400000, STOP_MS = 3600000, AGO_MS = 20000 };
	static const int64_t JUMPS_MS[] = { 0, DAY_MS, -DAY_MS };
	char boot[PROCESS_BOOT_MAX];
	process_boot(boot);
	for (size_t i = 0; i < ARRAY_SIZE(JUMPS_MS); i++) {
		for (int other = 0; other < 2; other++) {
			FREE_AUTO char *text =
			    xasprintf(IDLE_ENTRY("AttemptRunning", "\"1000 %lld %s%s %lld\"",
			                         "null", "Start"),
			              clock_wall_ms() + JUMPS_MS[i] + 0LL, other ? "0" : "", boot,
			              clock_boot_ms() - AGO_MS + 0LL);
			JOB_ENTRY_AUTO *c = job_entry_new(span_of(text));
			assert_int_equal(c->gpu_idle_ms, 1000);
			int64_t left_ms = job_entry_idle_left_ms(c, STOP_MS);
			int64_t most_ms = other ? STOP_MS : STOP_MS - AGO_MS;
			assert_in_range(left_ms, 1, most_ms);
			assert_in_range(left_ms, most_ms - 600000, most_ms);
			assert_int_equal(job_entry_idle_left_ms(c, 0), INT64_MAX);
		}
	}
	/* A time of this boot that has not come yet is none. */
	FREE_AUTO char *text =
	    xasprintf(IDLE_ENTRY("AttemptRunning", "\"1000 1 %s %lld\"", "null", "Start"), boot,
	              (long long)clock_boot_ms() + DAY_MS);
	JOB_ENTRY_AUTO *c = job_entry_new(span_of(text));
	assert_in_range(job_entry_idle_left_ms(c, STOP_MS), 1, STOP_MS);
}

/* The time since this process knows a warning of another boot goes on when the job is read again,
 * and begins anew with another warning. */
TEST(test_idle_warning_of_another_boot_counts_from_the_first_sight)
{
	static const char FIRST[] =
	    IDLE_ENTRY("AttemptRunning", "\"1000 2000 other 5\"", "null", "Start");
	static const char NEXT[] =
	    IDLE_ENTRY("AttemptRunning", "\"1000 2001 other 5\"", "null", "Start");
	struct fw_summary none = { .state = SPAN("AttemptRunning"),
		                   .run_ms = 1,
		                   .completion_ms = -1 };
	JOB_ENTRY_AUTO *first = job_entry_new(span_of(FIRST));
	first->gpu_warned_boot_ms -= 5000;
	JOB_ENTRY_AUTO *same = job_entry_new_after(span_of(FIRST), first);
	assert_int_equal(same->gpu_warned_boot_ms, first->gpu_warned_boot_ms);
	JOB_ENTRY_AUTO *stated = job_entry_new_stated(
	    same, &(struct job_entry_stated){ .summary = &none, .status = SPAN("{}") });
	assert_int_equal(stated->gpu_idle_ms, 1000);
	assert_int_equal(stated->gpu_warned_boot_ms, first->gpu_warned_boot_ms);
	JOB_ENTRY_AUTO *next = job_entry_new_after(span_of(NEXT), stated);
	assert_true(next->gpu_warned_boot_ms > first->gpu_warned_boot_ms);
	/* The engine has removed it, or has another one. */
	JOB_ENTRY_AUTO *gone = job_entry_new_stated(
	    next,
	    &(struct job_entry_stated){ .summary = &none, .status = SPAN("{}"), .gpu_idle = "" });
	assert_int_equal(gone->gpu_idle_ms, JOB_ENTRY_NONE);
	assert_false(job_entry_same(gone, next));
	JOB_ENTRY_AUTO *again = job_entry_new_stated(
	    gone, &(struct job_entry_stated){
		      .summary = &none, .status = SPAN("{}"), .gpu_idle = "7 8 other 9" });
	assert_int_equal(again->gpu_idle_ms, 7);
	assert_int_equal(again->gpu_warned_ms, 8);
}

/* Only a running job is stopped, after its warning is so old, and none that somebody keeps. */
TEST(test_idle_job_that_is_kept_or_ended_is_never_stopped)
{
	static const struct {
		const char *state, *execution;
		int64_t kept_ms; /* from now */
		bool stopped;
	} CASES[] = {
		{ "AttemptRunning", "Start", 0, true },
		{ "AttemptRunning", "Start", -1000, true },
		{ "AttemptRunning", "Start", 86400000, false },
		{ "AttemptRunning", "Start", 600000, false },
		{ "AttemptRunning", "Stop", 0, false },
		{ "Completed", "Start", 0, false },
		{ "AttemptDeletionPending", "Stop", 0, false },
		{ "AttemptPreparing", "Start", 0, false },
		{ "Unheard", "Start", 0, false },
		{ "", "Start", 0, false },
	};
	char boot[PROCESS_BOOT_MAX];
	process_boot(boot);
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		FREE_AUTO char *text = xasprintf(
		    IDLE_ENTRY("%s", "\"1000 2000 %s 1\"", "\"%lld 1 why\"", "%s"), boot,
		    clock_wall_ms() + CASES[i].kept_ms + 0LL, CASES[i].execution, CASES[i].state);
		JOB_ENTRY_AUTO *c = job_entry_new(span_of(text));
		int64_t left_ms = job_entry_idle_left_ms(c, 1);
		assert_int_equal(left_ms <= 0, CASES[i].stopped);
		if (strcmp(CASES[i].state, "Completed") == 0)
			assert_int_equal(c->gpu_idle_ms, JOB_ENTRY_NONE);
	}
}

TEST(test_job_entry_new_reads_all_states)
{
	for (size_t i = 0; i < FILES; i++) {
		JOB_ENTRY_AUTO *c = job_entry_of(read_file(&unit.a, EXPECTED[i].file));
		print_message("%s: %zu bytes, %zu packed\n", EXPECTED[i].file, c->doc_size,
		              c->doc.n);
		check(c, &EXPECTED[i]);
	}
}

TEST(test_job_entry_new_reads_names_and_user)
{
	JOB_ENTRY_AUTO *c = job_entry_of(read_file(&unit.a, "19-retry-AttemptRunning"));
	assert_string_equal(c->name, "snapretried");
	assert_string_equal(c->uid, "648ca293-5412-4ea4-a48f-5160cf578d9c");
	assert_string_equal(c->job, "snapretried");
	assert_string_equal(c->user, "alice");
	assert_string_equal(c->cluster, "default");
	assert_string_equal(c->resource_version, "1768");
	assert_int_equal(c->version, 1768);
	assert_true(c->legacy); /* the name is no MD5 */
	JOB_ENTRY_AUTO *real = job_entry_of(read_file(&unit.a, "real-Completed-failed"));
	assert_string_equal(real->job, real->name);
	assert_string_equal(real->user, "");
	assert_string_equal(real->cluster, "unknown");
	assert_true(real->legacy);
}

static bool in(const char *const *names, const char *name)
{
	for (; *names; names++) {
		if (strcmp(*names, name) == 0)
			return true;
	}
	return false;
}

static void strip(json_t *object, const char *const *names)
{
	const char *key;
	void *next;
	json_t *value;
	json_object_foreach_safe(object, next, key, value)
	{
		if (!in(names, key))
			json_object_del(object, key);
	}
}

/* The expected document, computed with jansson. */
static void strip_role(json_t *role)
{
	static const char *const ROLE[] = { "name", "taskNumber", "task",
		                            "frameworkAttemptCompletionPolicy", NULL };
	static const char *const TASK[] = { "retryPolicy", "podGracefulDeletionTimeoutSec", "pod",
		                            NULL };
	static const char *const POD[] = { "metadata", "spec", NULL };
	static const char *const METADATA[] = { "labels", "annotations", NULL };
	static const char *const SPEC[] = { "containers",    "initContainers",
		                            "hostNetwork",   "terminationGracePeriodSeconds",
		                            "schedulerName", NULL };
	static const char *const CONTAINER[] = { "name", "image", "resources", NULL };
	json_t *task = json_object_get(role, "task");
	json_t *pod = json_object_get(task, "pod");
	json_t *spec = json_object_get(pod, "spec");
	strip(role, ROLE);
	strip(task, TASK);
	strip(pod, POD);
	strip(json_object_get(pod, "metadata"), METADATA);
	strip(spec, SPEC);
	size_t i;
	json_t *c;
	json_array_foreach (json_object_get(spec, "containers"), i, c)
		strip(c, CONTAINER);
	json_array_foreach (json_object_get(spec, "initContainers"), i, c)
		strip(c, CONTAINER);
}

TEST(test_job_entry_doc_has_the_members_that_are_shown)
{
	static const char *const TOP[] = { "metadata", "spec", "status", NULL };
	static const char *const METADATA[] = { "name",
		                                "namespace",
		                                "uid",
		                                "labels",
		                                "annotations",
		                                "creationTimestamp",
		                                "deletionTimestamp",
		                                NULL };
	static const char *const SPEC[] = { "executionType", "retryPolicy", "taskRoles", NULL };
	for (size_t n = 0; n < FILES; n++) {
		struct span object = read_file(&unit.a, EXPECTED[n].file);
		JOB_ENTRY_AUTO *c = job_entry_of(object);
		struct span doc;
		assert_true(job_entry_doc(c, &unit.a, &doc));
		assert_true(scan_valid(doc, 64));
		json_auto_t *got = json_loadb(doc.p, doc.n, JSON_REJECT_DUPLICATES, NULL);
		json_auto_t *wanted = json_loadb(object.p, object.n, 0, NULL);
		strip(wanted, TOP);
		strip(json_object_get(wanted, "metadata"), METADATA);
		json_t *spec = json_object_get(wanted, "spec");
		strip(spec, SPEC);
		size_t i;
		json_t *role;
		json_array_foreach (json_object_get(spec, "taskRoles"), i, role)
			strip_role(role);
		if (!json_equal(got, wanted))
			fail_msg("%s: %s", EXPECTED[n].file, doc.p);
	}
}

/* A job that FrameworkController has not seen, with a document of this size. */
static struct job_entry *new_job(size_t size, const char *status)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text,
	         "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"annotations\":{\"jobName\":\"");
	while (text.n < size)
		str_char(&text, 'x');
	str_printf(&text, "\"}}%s}", status);
	return job_entry_of(str_view(&text));
}

TEST(test_job_entry_doc_of_a_new_job_is_not_compressed)
{
	static const struct {
		size_t size;
		const char *status;
		bool plain;
	} CASES[] = {
		{ 100, "", true },
		{ JOB_ENTRY_PLAIN_MAX - 10, "", true },
		{ JOB_ENTRY_PLAIN_MAX, "", false },
		{ 80000, "", false },
		{ 100, ",\"status\":{}", false },
		{ 30000, ",\"status\":{}", false },
		{ 80000, ",\"status\":{}", false },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct span doc;
		JOB_ENTRY_AUTO *c = new_job(CASES[i].size, CASES[i].status);
		assert_int_equal(c->plain, CASES[i].plain);
		assert_true(c->plain ? c->doc.n == c->doc_size : c->doc.n < c->doc_size / 2 + 100);
		assert_true(job_entry_doc(c, &unit.a, &doc));
		assert_true(doc.n >= c->doc_size);
		assert_true(scan_valid(doc, 64));
		assert_true(span_is(scan_text(scan_path(doc, "metadata", "uid"), &unit.a), "u"));
	}
}

TEST(test_job_entry_roles_exist_in_all_states_but_the_first)
{
	for (size_t i = 0; i < FILES; i++) {
		JOB_ENTRY_AUTO *c = job_entry_of(read_file(&unit.a, EXPECTED[i].file));
		struct span doc;
		struct fw_view f;
		struct fw_view t;
		struct fw_walk w;
		assert_true(job_entry_doc(c, &unit.a, &doc));
		fw_view_read(scan_get(doc, "status"), &unit.a, &f);
		assert_true(fw_walk_begin(&w, &f, &unit.a));
		while (fw_walk_role(&w))
			while (fw_walk_task(&w, &t))
				;
		bool posted = strcmp(EXPECTED[i].file, "00-posted") == 0;
		assert_int_equal(w.tasks, posted ? 0 : EXPECTED[i].size[0]);
	}
}

/* ---- of two ---- */

TEST(test_job_entry_same_compares_what_lists_show)
{
	JOB_ENTRY_AUTO *running = job_entry_of(read_file(&unit.a, "06-AttemptRunning"));
	JOB_ENTRY_AUTO *first = job_entry_of(read_file(&unit.a, "05-AttemptRunning-first-task"));
	JOB_ENTRY_AUTO *preparing =
	    job_entry_of(read_file(&unit.a, "04-AttemptPreparing-addresses"));
	assert_true(job_entry_same(running, running));
	assert_true(job_entry_same(running, first)); /* only tasks, and the version, differ */
	assert_false(job_entry_same(running, preparing));
	JOB_ENTRY_AUTO *tag = annotated("{\"jobName\":\"j\",\"rest-lit/tags\":\"[\\\"a\\\"]\"}");
	JOB_ENTRY_AUTO *none = annotated("{\"jobName\":\"j\"}");
	assert_false(job_entry_same(tag, none));
}

TEST(test_job_entry_without_doc_equals_the_original)
{
	struct span doc;
	JOB_ENTRY_AUTO *c = job_entry_of(read_file(&unit.a, "12-Completed-failed"));
	JOB_ENTRY_AUTO *bare = job_entry_without_doc(c);
	assert_true(job_entry_same(c, bare));
	assert_string_equal(c->resource_version, bare->resource_version);
	assert_ptr_not_equal(c->name, bare->name);
	assert_true(bare->weight < c->weight);
	assert_false(job_entry_doc(bare, &unit.a, &doc));
}

#define AFTER(version, managed, config, state)                                                     \
	"{\"metadata\":{\"name\":\"" MD5 "\",\"uid\":\"u\",\"resourceVersion\":\"" version         \
	"\",\"managedFields\":[" managed "],\"annotations\":{\"config\":\"" config                 \
	"\"}},\"spec\":{},\"status\":{\"state\":\"" state "\"}}"
#define PRIORITY(name) "extras: {hivedScheduler: {jobPriorityClass: " name "}}"

/* A raw deflate stream that the program would not make: one block that is not compressed. */
static struct span stored(struct arena *a, struct span text)
{
	enum { HEAD = 5 };
	char *p = arena_alloc(a, HEAD + text.n);
	const char head[HEAD] = { 1, (char)text.n, (char)(text.n >> 8), (char)~text.n,
		                  (char)(~text.n >> 8) };
	memcpy(p, head, HEAD);
	memcpy(p + HEAD, text.p, text.n);
	return (struct span){ p, HEAD + text.n };
}

/* The document of the earlier entry is not made from the text, which shows the parts reused. */
TEST(test_job_entry_after_reuses_unchanged_parts)
{
	static const struct {
		const char *text, *priority, *version;
		bool same_doc;
	} CASES[] = {
		{ AFTER("8", "", PRIORITY("prod"), "Completed"), "prod", "8", true },
		{ AFTER("9", "{}", PRIORITY("prod"), "Completed"), "prod", "9", true },
		{ AFTER("9", "", PRIORITY("prod"), "AttemptRunning"), "prod", "9", false },
		{ AFTER("9", "", PRIORITY("prod"), "Attempted"), "prod", "9", false },
		{ AFTER("9", "", "\\u0065xtras: {hivedScheduler: {jobPriorityClass: prod}}",
		        "Completed"),
		  "prod", "9", false },
		{ AFTER("9", "", PRIORITY("test"), "Completed"), "test", "9", false },
		{ AFTER("9", "", "", "Completed"), "", "9", false },
	};
	struct job_entry *before = job_entry_new(span_of(CASES[0].text));
	assert_string_equal(before->priority, "prod");
	struct span whole;
	struct span status;
	assert_true(job_entry_unpack(before->doc, before->doc_size, &unit.a, &whole));
	assert_true(job_entry_status(before, &unit.a, &status));
	before->doc = stored(&unit.a, whole);
	before->status = stored(&unit.a, status);
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		JOB_ENTRY_AUTO *c = job_entry_new_after(span_of(CASES[i].text), before);
		assert_string_equal(c->priority, CASES[i].priority);
		assert_string_equal(c->resource_version, CASES[i].version);
		assert_int_equal(span_eq(c->doc, before->doc) && span_eq(c->status, before->status),
		                 CASES[i].same_doc);
		JOB_ENTRY_AUTO *bare = job_entry_without_doc(before);
		JOB_ENTRY_AUTO *again = job_entry_new_after(span_of(CASES[i].text), bare);
		assert_true(job_entry_doc(again, &unit.a, &whole) && scan_valid(whole, 64));
		assert_true(job_entry_doc(c, &unit.a, &whole) && whole.n >= again->doc_size);
	}
	job_entry_drop(before);
}

/* An entry whose status alone has changed is the one that the whole object makes. */
TEST(test_job_entry_stated_is_as_if_it_was_read)
{
	for (size_t i = 0; i < FILES; i++) {
		struct span object = read_file(&unit.a, EXPECTED[i].file);
		struct span status = scan_get(object, "status");
		struct fw_view f;
		struct fw_summary summary;
		if (scan_type(status) != SCAN_OBJECT)
			continue;
		size_t at = (size_t)(status.p - object.p);
		const char *without =
		    arena_printf(&unit.a, "%.*snull%.*s", (int)at, object.p,
		                 (int)(object.n - at - status.n), status.p + status.n);
		fw_view_read(status, &unit.a, &f);
		assert_true(fw_view_summary(&f, &unit.a, &summary));
		JOB_ENTRY_AUTO *read = job_entry_new(object);
		JOB_ENTRY_AUTO *before = job_entry_new(span_of(without));
		assert_true(before->plain);
		for (int twice = 0; twice < 2; twice++) {
			struct span doc[2];
			struct job_entry *now = job_entry_new_stated(
			    before,
			    &(struct job_entry_stated){ &summary, status, 4711 + twice, 17, NULL });
			check(now, &EXPECTED[i]);
			assert_true(job_entry_same(read, now));
			assert_int_equal(now->version, 4711 + twice);
			assert_int_equal(now->launched_boot_ms, 17);
			assert_false(now->plain || now->untouched);
			assert_true(job_entry_doc(read, &unit.a, &doc[0]) &&
			            job_entry_doc(now, &unit.a, &doc[1]));
			assert_true(span_eq(doc[0], doc[1]));
			job_entry_drop(before);
			before = now;
		}
		JOB_ENTRY_AUTO *bare = job_entry_without_doc(read);
		JOB_ENTRY_AUTO *next = job_entry_new_stated(
		    bare, &(struct job_entry_stated){ &summary, status, 4711, 0, NULL });
		assert_true(job_entry_same(read, next));
		assert_int_equal(next->doc.n + next->status.n, 0);
	}
}

/* The file of a job that this server has made is not parsed. */
TEST(test_job_entry_made_has_the_priority_of_the_annotation)
{
	const struct job_entry_made made = { .uid = "u", .version = "7", .created = "" };
	JOB_ENTRY_AUTO *said = job_entry_new_made(
	    SPAN("{\"metadata\":{\"name\":\"n\",\"annotations\":{"
	         "\"rest-lit/job-priority-class\":\"prod\",\"config\":\"" PRIORITY("test") "\"}}}"),
	    &made);
	JOB_ENTRY_AUTO *silent =
	    job_entry_new_made(SPAN(AFTER("8", "", PRIORITY("prod"), "Completed")), &made);
	assert_string_equal(said->priority, "prod");
	assert_string_equal(silent->priority, "");
}
