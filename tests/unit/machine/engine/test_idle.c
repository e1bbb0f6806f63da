/* The annotation rest-lit/gpu-idle: stored with the status, removed, and right after a restart. */
#include "tests/unit/base/cmocka.h"

#include "base/posix/clock.h"
#include "machine/engine/engine_internal.h"
#include "tests/unit/jobs/job_entry_kit.h"
#include "tests/unit/machine/local_kit.h"

static const int64_t SINCE = INT64_C(1700000000123);

/* An engine without thread and machine, and one job that nothing syncs. */
struct idle_world {
	struct engine e;
	struct engine_job *job;
	size_t notices;
	char uid[UID_TEXT];
};

static void idle_note(void *arg, enum engine_level level, const char *text)
{
	struct idle_world *w = arg;
	assert_int_equal(level, ENGINE_NOTE);
	assert_non_null(strstr(text, "job f do nothing"));
	assert_non_null(strstr(text, "2023-11-14T22:13:20Z"));
	w->notices++;
}

static void idle_note_later(void *arg, enum engine_level level, const char *text)
{
	struct idle_world *w = arg;
	(void)level;
	assert_non_null(strstr(text, "2023-11-14T22:14:30Z"));
	w->notices++;
}

static enum framework_answer idle_create(void *arg, const struct framework_object *o,
                                         struct framework_created *out)
{
	(void)arg;
	(void)o;
	(void)out;
	return FRAMEWORK_FAILED;
}

static enum framework_presence idle_configmap(void *arg, const char *name, const char *uid,
                                              struct framework_configmap *out)
{
	(void)arg;
	(void)name;
	(void)uid;
	(void)out;
	return FRAMEWORK_ABSENT;
}

static const char IDLE_JOB[] =
    "{\"apiVersion\":\"frameworkcontroller.microsoft.com/v1\",\"kind\":\"Framework\","
    "\"metadata\":{\"name\":\"f\",\"labels\":{\"userName\":\"alice\"},\"annotations\":{"
    "\"jobName\":\"train\",\"other\":\"stays\"}},\"spec\":{"
    "\"executionType\":\"Start\",\"retryPolicy\":{\"fancyRetryPolicy\":true,\"maxRetryCount\":0},"
    "\"taskRoles\":[{\"name\":\"w\",\"taskNumber\":1,\"frameworkAttemptCompletionPolicy\":"
    "{\"minFailedTaskCount\":1,\"minSucceededTaskCount\":-1},\"task\":{\"retryPolicy\":"
    "{\"fancyRetryPolicy\":false,\"maxRetryCount\":0},\"pod\":{\"spec\":{\"containers\":"
    "[{\"name\":\"app\",\"image\":\"i\"}]}}}}]}}";

/* The state machine's first status, which needs no pods. */
static void idle_put_status(struct idle_world *w)
{
	ERR_AUTO err = { 0 };
	STR_AUTO status = STR_INIT(1 << 20);
	struct framework_result r;
	const struct framework_client client = { .create = idle_create,
		                                 .configmap = idle_configmap };
	struct framework *f = framework_new(w->e.config);
	struct kept k = get_whole(store, KIND_FRAMEWORK, "f");
	assert_int_equal(framework_put(f, span_of(k.body), &err), 0);
	framework_sync(f, &client, 1700000000, 1, &r);
	framework_status_write(f, &status);
	assert_int_equal(put_status("f", w->uid, str_view(&status)), STORE_OK);
	framework_free(f);
}

static void idle_start(struct idle_world *w)
{
	struct kept k = get_whole(store, KIND_FRAMEWORK, "f");
	JOB_ENTRY_AUTO *c = job_entry_new(span_of(k.body));
	w->job = engine_job_of(&w->e, span_of(w->uid));
	job_read_order(w->job, c);
}

static void idle_open(struct idle_world *w)
{
	ERR_AUTO err = { 0 };
	*w = (struct idle_world){ 0 };
	w->e.set.store = local;
	w->e.set.gpu_idle_ms = 1800000;
	w->e.set.arg = w;
	w->e.set.notice = idle_note;
	w->e.queue = queue_new();
	w->e.config = machine_config(&err);
	assert_non_null(w->e.config);
	TAILQ_INIT(&w->e.live);
	TAILQ_INIT(&w->e.changes);
	TAILQ_INIT(&w->e.round);
	(void)pthread_mutex_init(&w->e.lock, NULL);
	struct kept made = create(KIND_FRAMEWORK, "f", IDLE_JOB);
	(void)snprintf(w->uid, sizeof(w->uid), "%.39s", made.uid);
	idle_put_status(w);
	idle_start(w);
}

static void idle_close(struct idle_world *w)
{
	engine_drop(w->job);
	queue_free(w->e.queue);
	framework_config_free(w->e.config);
	free(w->e.due.v);
	(void)pthread_mutex_destroy(&w->e.lock);
}

static void idle_round(struct idle_world *w)
{
	w->job->look = false;
	w->job->sync_ms = ENGINE_NEVER;
	w->job->store_ms = 0;
	heap_remove(&w->e.due, &w->job->due);
	job_step(w->job);
	TAILQ_INSERT_TAIL(&w->e.round, w->job, round);
	w->job->in_round = ROUND_LOOKED;
	jobs_settle(&w->e);
	assert_int_equal(w->job->life, LIFE_STORED);
}

/* The engine reads the Framework. */
static void idle_look(struct idle_world *w)
{
	struct local_answer a;
	assert_int_equal(engine_get(&w->e, KIND_FRAMEWORK, "f", &a), STORE_OK);
	job_put(w->job, &a);
	local_answer_done(&a);
	idle_round(w);
}

/* The stored annotation; "": it is not there. */
static const char *idle_annotation(char *version)
{
	ARENA_AUTO a = { 0 };
	static char text[128];
	struct kept k = get_whole(store, KIND_FRAMEWORK, "f");
	struct span notes = scan_path(span_of(k.body), "metadata", "annotations");
	struct span value = scan_text(scan_get(notes, "rest-lit/gpu-idle"), &a);
	assert_true(span_is(scan_text(scan_get(notes, "other"), &a), "stays"));
	(void)snprintf(text, sizeof(text), "%.*s", (int)value.n, value.p ?: "");
	if (version)
		(void)snprintf(version, 32, "%.31s", k.version);
	return text;
}

static int64_t idle_since(void)
{
	int64_t warned_ms = 0;
	int64_t boot_ms = 0;
	const char *text = idle_annotation(NULL);
	int64_t since_ms = text[0] ? job_idle_read(span_of(text), &warned_ms, &boot_ms) : 0;
	if (since_ms) {
		assert_in_range(warned_ms, clock_wall_ms() - 600000, clock_wall_ms());
		assert_in_range(boot_ms, 0, clock_boot_ms());
	}
	return since_ms;
}

TEST_WITH(test_idle_gpus_are_told_until_they_work, setup, teardown)
{
	struct idle_world w;
	char version[2][32];
	idle_open(&w);
	idle_look(&w);
	assert_int_equal(idle_since(), 0);
	job_set_gpu_idle(w.job, SINCE);
	idle_round(&w);
	assert_int_equal(idle_since(), SINCE);
	assert_int_equal(w.notices, 1);
	/* The same, by a clock that is read again: the warning stays as old as it is. */
	(void)idle_annotation(version[0]);
	job_set_gpu_idle(w.job, SINCE + 50);
	job_set_gpu_idle(w.job, SINCE - 50);
	idle_round(&w);
	(void)idle_annotation(version[1]);
	assert_string_equal(version[0], version[1]);
	job_set_gpu_idle(w.job, 0);
	idle_round(&w);
	assert_string_equal(idle_annotation(NULL), "");
	job_set_gpu_idle(w.job, SINCE + 1);
	idle_round(&w);
	assert_int_equal(idle_since(), SINCE + 1);
	assert_int_equal(w.notices, 2);
	idle_close(&w);
}

/* A time that is later by more than the clock errs: a new warning, which is as old as it is. */
TEST_WITH(test_idle_time_that_begins_anew_is_a_new_warning, setup, teardown)
{
	struct idle_world w;
	idle_open(&w);
	idle_look(&w);
	job_set_gpu_idle(w.job, SINCE);
	idle_round(&w);
	job_set_gpu_idle(w.job, SINCE + 70000);
	w.e.set.notice = idle_note_later;
	idle_round(&w);
	assert_int_equal(idle_since(), SINCE + 70000);
	assert_int_equal(w.notices, 2);
	idle_close(&w);
}

TEST_WITH(test_idle_annotation_stays_over_a_restart, setup, teardown)
{
	struct idle_world w;
	char version[2][32];
	idle_open(&w);
	idle_look(&w);
	job_set_gpu_idle(w.job, SINCE);
	idle_round(&w);
	(void)idle_annotation(version[0]);
	engine_drop(w.job);
	idle_start(&w);
	idle_look(&w);
	assert_int_equal(w.job->idle_ms, SINCE);
	job_set_gpu_idle(w.job, SINCE + 3);
	idle_round(&w);
	(void)idle_annotation(version[1]);
	assert_string_equal(version[0], version[1]);
	assert_int_equal(w.notices, 1);
	/* After another restart they work. */
	engine_drop(w.job);
	idle_start(&w);
	idle_look(&w);
	job_set_gpu_idle(w.job, 0);
	idle_round(&w);
	assert_string_equal(idle_annotation(NULL), "");
	/* One that cannot be read, and --gpu-idle 0: it goes. */
	(void)patch("{\"metadata\":{\"annotations\":{\"rest-lit/gpu-idle\":\"nonsense\"}}}");
	engine_drop(w.job);
	idle_start(&w);
	idle_look(&w);
	assert_string_equal(idle_annotation(NULL), "");
	(void)patch("{\"metadata\":{\"annotations\":{\"rest-lit/gpu-idle\":\"1 2 b 3\"}}}");
	w.e.set.gpu_idle_ms = 0;
	idle_look(&w);
	assert_string_equal(idle_annotation(NULL), "");
	idle_close(&w);
}

TEST_WITH(test_job_that_is_kept_is_not_idle, setup, teardown)
{
	struct idle_world w;
	FREE_AUTO char *kept =
	    xasprintf("{\"metadata\":{\"annotations\":{\"rest-lit/gpu-keep\":\"%lld 1 why\"}}}",
	              (long long)clock_wall_ms() + 3600000);
	idle_open(&w);
	idle_look(&w);
	job_set_gpu_idle(w.job, SINCE);
	idle_round(&w);
	assert_int_equal(idle_since(), SINCE);
	/* Another program has not removed the annotation: the engine does. */
	(void)patch(kept);
	idle_look(&w);
	assert_string_equal(idle_annotation(NULL), "");
	assert_in_range(w.job->due.at_ms - clock_ms(), 3000000, 3600000);
	job_set_gpu_idle(w.job, 0);
	job_set_gpu_idle(w.job, SINCE);
	idle_round(&w);
	assert_string_equal(idle_annotation(NULL), "");
	assert_int_equal(w.notices, 1);
	/* Its time is over. */
	w.job->kept_ms = clock_wall_ms();
	idle_round(&w);
	assert_int_equal(idle_since(), SINCE);
	assert_int_equal(w.notices, 2);
	idle_close(&w);
}
