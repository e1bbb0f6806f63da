/* The engine: its table of jobs, small files, logs, events, and the ConfigMaps of a status. */

#include "tests/unit/base/cmocka.h"
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "machine/engine/engine_internal.h"
#include "tests/unit/machine/machine_tree.h"

/* An engine without thread, store and machine, in a directory of its own. */
struct fixture {
	struct engine e;
	char dir[64];
	size_t events;
	struct event event;
	char notice[300]; /* the last one */
	struct arena arena;
};

static void note_notice(void *arg, enum engine_level level, const char *text)
{
	struct fixture *f = arg;
	(void)level;
	assert_int_equal(pthread_mutex_trylock(&f->e.lock), 0); /* it can take long */
	(void)pthread_mutex_unlock(&f->e.lock);
	(void)snprintf(f->notice, sizeof(f->notice), "%s", text); /* may be cut */
}

static void note_event(void *arg, const struct event *event)
{
	struct fixture *f = arg;
	f->events++;
	f->event = *event;
	f->event.message = arena_span(&f->arena, event->message);
}

static void fixture_open(struct fixture *f)
{
	ERR_AUTO err = { 0 };
	*f = (struct fixture){ 0 };
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/test-engine.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->e.set.dir = f->dir;
	f->e.set.keep_logs = 1 << 20;
	f->e.set.arg = f;
	f->e.set.event = note_event;
	f->e.set.notice = note_notice;
	f->e.pods.node_name = "node";
	f->e.pods_dir = f->e.logs_dir = f->e.results_dir = f->e.trash_dir = f->e.trash = -1;
	TAILQ_INIT(&f->e.live);
	TAILQ_INIT(&f->e.changes);
	TAILQ_INIT(&f->e.round);
	(void)pthread_mutex_init(&f->e.lock, NULL);
	assert_int_equal(engine_make_directories(&f->e, &err), 0);
}

static void fixture_close(struct fixture *f)
{
	while (!TAILQ_EMPTY(&f->e.live))
		engine_drop(TAILQ_FIRST(&f->e.live));
	free(f->e.due.v);
	(void)close(f->e.pods_dir);
	(void)close(f->e.logs_dir);
	(void)close(f->e.results_dir);
	(void)close(f->e.trash_dir);
	(void)pthread_mutex_destroy(&f->e.lock);
	arena_done(&f->arena);
	assert_int_equal(tree_remove(AT_FDCWD, f->dir, 10000), 0);
}

/* Jobs are found by uid, added in any order. */
TEST(test_engine_table_finds_jobs_by_uid)
{
	struct fixture f;
	char uid[UID_TEXT];
	fixture_open(&f);
	for (unsigned i = 0; i < 500; i++) {
		(void)snprintf(uid, sizeof(uid), "%u", i * 7919 % 500);
		struct engine_job *job = engine_job_of(&f.e, span_of(uid));
		assert_string_equal(job->uid, uid);
		assert_ptr_equal(engine_job_of(&f.e, span_of(uid)), job);
	}
	engine_drop(engine_job_of(&f.e, SPAN("7")));
	assert_null(engine_find(&f.e, SPAN("7")));
	assert_non_null(engine_find(&f.e, SPAN("8")));
	assert_null(engine_find(&f.e, SPAN("500")));
	assert_null(engine_find(&f.e, SPAN("")));
	fixture_close(&f);
}

/* The stored state implies whether the ConfigMap exists. */
TEST(test_configmap_exists_by_the_stored_state)
{
	static const struct {
		const char *state;
		bool there, dying;
	} ROWS[] = {
		{ "AttemptCreationPending", false, false },
		{ "AttemptCreationRequested", true, false },
		{ "AttemptPreparing", true, false },
		{ "AttemptRunning", true, false },
		{ "AttemptDeletionPending", true, false },
		{ "AttemptDeletionRequested", true, true },
		{ "AttemptDeleting", true, true },
		{ "AttemptCompleted", false, false },
		{ "Completed", false, false },
		{ "", false, false },
	};
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		struct engine_job job = { 0 };
		FREE_AUTO char *status =
		    xasprintf("{\"state\":\"%s\",\"attemptStatus\":{"
		              "\"configMapName\":\"n\",\"configMapUID\":\"u\"}}",
		              ROWS[i].state);
		job_restore(&job, span_of(status));
		assert_string_equal(job.configmap, ROWS[i].there ? "u" : "");
		assert_int_equal(job.dying, ROWS[i].dying);
	}
	static const char *const WITHOUT[] = { "{\"state\":\"AttemptRunning\"}", "null" };
	for (size_t i = 0; i < sizeof(WITHOUT) / sizeof(WITHOUT[0]); i++) {
		struct engine_job job = { 0 };
		job_restore(&job, span_of(WITHOUT[i]));
		assert_string_equal(job.configmap, "");
	}
}

static void make_pod(struct fixture *f, struct engine_pod *p, int64_t retry)
{
	p->e = &f->e;
	p->job = engine_job_of(&f->e, SPAN("framework"));
	p->job->label = p->job->label ?: xstrdup("alice~f");
	(void)snprintf(p->uid, sizeof(p->uid), "pod%lld", (long long)retry);
	p->name = "f-worker-2";
	p->role = "worker";
	p->index = 2;
	p->retry = retry;
}

static bool has_log(struct fixture *f, int64_t retry)
{
	ARENA_AUTO a = { 0 };
	const struct engine_task t = { SPAN("framework"), SPAN("worker"), 2, 0, retry, false };
	struct log_files found;
	return engine_log_find(&f->e, &t, &a, &found);
}

static bool has_file(struct fixture *f, const char *name)
{
	return access(arena_printf(&f->arena, "%s/%s", f->dir, name), F_OK) == 0;
}

static bool has_trash(const struct fixture *f)
{
	DIR_AUTO *list = dir_list(f->e.trash_dir, ".");
	return dir_next(list);
}

/* Logs move, the oldest are removed, and a deleted job leaves none. */
TEST(test_logs_are_kept_up_to_a_limit_and_deleted_with_the_job)
{
	enum { LOG_BYTES = 300 << 10, RUNS = 5 };
	static char bytes[LOG_BYTES];
	struct fixture f;
	fixture_open(&f);
	memset(bytes, 'x', sizeof(bytes));
	for (int64_t retry = 0; retry < RUNS; retry++) {
		struct engine_pod p = { 0 };
		make_pod(&f, &p, retry);
		p.dir = arena_printf(&f.arena, "%s/pods/%s", f.dir, p.uid);
		assert_int_equal(mkdirat(f.e.pods_dir, p.uid, 0700), 0);
		int dir = openat(f.e.pods_dir, p.uid, O_RDONLY | O_DIRECTORY);
		assert_true(dir >= 0);
		FD_AUTO log = openat(dir, "log", O_WRONLY | O_CREAT, 0600);
		assert_int_equal(fd_write_all(log, (struct span){ bytes, sizeof(bytes) }), 0);
		/* The time of its end, in the order of the tries. */
		const struct timespec times[2] = { { 1000 + retry, 0 }, { 1000 + retry, 0 } };
		assert_int_equal(utimensat(dir, "log", times, 0), 0);
		(void)close(dir);
		p.job->pods = &p;
		assert_true(has_log(&f, retry));
		logs_keep(&p);
		assert_true(has_log(&f, retry)); /* also before the pod is forgotten */
		p.job->pods = NULL;
		trash_take(&f.e, f.e.pods_dir, p.uid);
	}
	assert_true(has_log(&f, RUNS - 1));
	assert_false(has_log(&f, 0));
	assert_true(f.e.log_bytes <= f.e.set.keep_logs);
	assert_true(has_file(&f, "logs/framework/deleted"));
	const struct span of = SPAN("alice~f");
	assert_non_null(
	    strstr(engine_log_absence(&f.e, SPAN("framework"), of, &f.arena), "--keep-logs"));
	assert_non_null(strstr(engine_log_absence(&f.e, SPAN("other"), of, &f.arena), "is lost"));
	struct engine_job *job = TAILQ_FIRST(&f.e.live);
	job->name = xstrdup("f");
	logs_set_orphans_aside(&f.e);
	assert_true(has_log(&f, RUNS - 1));
	assert_false(has_file(&f, "damaged"));
	/* A job that was deleted is still known. */
	free(TAKE(job->name));
	job->life = LIFE_GONE;
	logs_set_orphans_aside(&f.e);
	assert_true(has_log(&f, RUNS - 1));
	job->life = LIFE_NEW;
	assert_int_equal(close(open(arena_printf(&f.arena, "%s/damaged", f.dir),
	                            O_WRONLY | O_CREAT | O_EXCL, 0600)),
	                 0);
	logs_set_orphans_aside(&f.e);
	assert_non_null(strstr(f.notice, "logs/framework cannot be moved to"));
	assert_int_equal(unlink(arena_printf(&f.arena, "%s/damaged", f.dir)), 0);
	logs_set_orphans_aside(&f.e);
	assert_false(has_log(&f, RUNS - 1));
	assert_non_null(strstr(f.notice, "the database lacks the job alice~f: its files are now in "
	                                 "damaged/alice~f/logs-framework"));
	assert_true(has_file(&f, "damaged/alice~f/logs-framework/worker-2-0-4/log"));
	assert_true(has_file(&f, LOST_FILE));
	assert_non_null(strstr(engine_log_absence(&f.e, SPAN("framework"), of, &f.arena),
	                       "in damaged/alice~f"));
	fixture_close(&f);
}

TEST(test_trash_is_emptied_unless_the_engine_stops)
{
	struct fixture f;
	fixture_open(&f);
	assert_int_equal(mkdirat(f.e.pods_dir, "p", 0700), 0);
	trash_take(&f.e, f.e.pods_dir, "p");
	f.e.stop = true;
	assert_false(trash_empty(&f.e));
	assert_true(has_trash(&f));
	f.e.stop = false;
	assert_true(trash_empty(&f.e));
	assert_false(has_trash(&f));
	fixture_close(&f);
}

/* The log of a try of a job, of so many bytes, which ended at this time. */
static void keep_log(struct fixture *f, const char *uid, const char *label, int64_t retry,
                     size_t bytes)
{
	struct engine_pod p = { .e = &f->e, .role = "worker", .retry = retry };
	STR_AUTO text = STR_INIT(1 << 20);
	while (text.n < bytes)
		str_char(&text, 'x');
	p.job = engine_job_of(&f->e, span_of(uid));
	p.job->label = p.job->label ?: xstrdup(label);
	p.dir = arena_printf(&f->arena, "%s/pods/p", f->dir);
	assert_int_equal(mkdir(p.dir, 0700), 0);
	const char *path = arena_printf(&f->arena, "%s/log", p.dir);
	FD_AUTO log = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(fd_write_all(log, str_view(&text)), 0);
	const struct timespec times[2] = { { 1000 + retry, 0 }, { 1000 + retry, 0 } };
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	logs_keep(&p);
	assert_int_equal(rmdir(p.dir), 0);
}

/* The logs of the user who has most go, however old those of others are. */
TEST(test_logs_of_one_user_do_not_remove_those_of_others)
{
	struct fixture f;
	fixture_open(&f);
	keep_log(&f, "old", "alice~old", 0, 200 << 10);
	for (int64_t retry = 1; retry < 8; retry++)
		keep_log(&f, "many", "bob~many", retry, 300 << 10);
	assert_true(has_file(&f, "logs/old/worker-0-0-0/log"));
	assert_false(has_file(&f, "logs/old/deleted"));
	assert_true(has_file(&f, "logs/many/deleted"));
	assert_true(has_file(&f, "logs/many/worker-0-0-7/log"));
	assert_false(has_file(&f, "logs/many/worker-0-0-1"));
	/* Two users with too much keep the same. */
	for (int64_t retry = 8; retry < 16; retry++)
		keep_log(&f, "more", "alice~more", retry, 300 << 10);
	assert_true(has_file(&f, "logs/many/worker-0-0-7/log"));
	assert_true(has_file(&f, "logs/more/worker-0-0-15/log"));
	assert_false(has_file(&f, "logs/old/worker-0-0-0"));
	assert_true(f.e.log_bytes <= f.e.set.keep_logs);
	fixture_close(&f);
}

/* A job with results of so many bytes, which ended at this time unless it runs. */
static struct engine_job *keep_results(struct fixture *f, const char *uid, const char *label,
                                       int64_t ended_s, size_t bytes)
{
	struct engine_job *job = engine_job_of(&f->e, span_of(uid));
	job->label = job->label ?: xstrdup(label);
	job->name = job->name ?: xstrdup(uid);
	const char *dir = results_path(&f->e, uid, &f->arena);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkdir(arena_printf(&f->arena, "%s/a", dir), 0700), 0);
	assert_int_equal(symlink("/", arena_printf(&f->arena, "%s/a/root", dir)), 0);
	FD_AUTO fd = open(arena_printf(&f->arena, "%s/a/file", dir), O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
	if (ended_s == 0)
		return job;
	results_end(job);
	results_measure_ended(&f->e);
	const struct timespec times[2] = { { ended_s, 0 }, { ended_s, 0 } };
	(void)utimensat(f->e.results_dir, arena_printf(&f->arena, "%s.size", uid), times, 0);
	return job;
}

static enum results_state state_of_results(struct fixture *f, const char *uid)
{
	const char *dir;
	enum results_state is = engine_results(&f->e, span_of(uid), &f->arena, &dir);
	if (is == RESULTS_KEPT)
		assert_int_equal(access(dir, F_OK), 0);
	return is;
}

TEST(test_oldest_results_of_the_user_who_has_most_go)
{
	struct fixture f;
	fixture_open(&f);
	f.e.set.keep_results = 1 << 20;
	keep_results(&f, "old", "alice~old", 1000, 200 << 10);
	keep_results(&f, "b1", "bob~1", 1001, 300 << 10);
	keep_results(&f, "b3", "bob~3", 1003, 300 << 10);
	struct engine_job *runs = keep_results(&f, "runs", "bob~runs", 0, 900 << 10);
	runs->queued = (struct queue_job *)&f; /* it has not ended */
	assert_int_equal(state_of_results(&f, "b1"), RESULTS_KEPT);
	keep_results(&f, "b2", "bob~2", 1002, 300 << 10);
	assert_int_equal(state_of_results(&f, "old"), RESULTS_KEPT);
	assert_int_equal(state_of_results(&f, "b1"), RESULTS_DELETED);
	assert_int_equal(state_of_results(&f, "b2"), RESULTS_KEPT);
	assert_int_equal(state_of_results(&f, "b3"), RESULTS_KEPT);
	assert_int_equal(state_of_results(&f, "runs"), RESULTS_KEPT);
	assert_int_equal(state_of_results(&f, "other"), RESULTS_NONE);
	assert_int_equal(state_of_results(&f, ""), RESULTS_NONE);
	assert_int_equal(state_of_results(&f, "../logs"), RESULTS_NONE);
	assert_true(f.e.result_bytes <= 1 << 20);
	assert_non_null(strstr(f.notice, "--keep-results"));
	/* A job is measured once. */
	int64_t before = f.e.result_bytes;
	assert_int_equal(unlinkat(f.e.results_dir, "b2/a/file", 0), 0);
	f.e.result_bytes -= 300 << 10;
	results_end(engine_find(&f.e, SPAN("b2")));
	results_measure_ended(&f.e);
	assert_true(f.e.result_bytes >= before);
	results_remove(&f.e, "b1");
	results_remove(&f.e, "b2");
	assert_int_equal(state_of_results(&f, "b1"), RESULTS_NONE);
	assert_int_equal(state_of_results(&f, "b2"), RESULTS_NONE);
	runs->queued = NULL;
	fixture_close(&f);
}

TEST(test_results_of_unknown_jobs_are_never_removed)
{
	struct fixture f;
	fixture_open(&f);
	f.e.set.keep_results = 0;
	struct engine_job *job = keep_results(&f, "uid", "alice~f", 0, 1000);
	free(TAKE(job->name));
	f.notice[0] = '\0';
	results_set_orphans_aside(&f.e);
	assert_non_null(strstr(f.notice, "its results are now in results/unknown-uid"));
	assert_true(has_file(&f, "results/unknown-uid/a/file"));
	assert_true(has_file(&f, LOST_FILE));
	f.notice[0] = '\0';
	results_set_orphans_aside(&f.e);
	assert_string_equal(f.notice, ""); /* told once */
	/* Both are there: none replaces the other. */
	keep_results(&f, "uid", "alice~f", 0, 1000);
	results_set_orphans_aside(&f.e);
	assert_non_null(strstr(f.notice, "still in results/u"));
	assert_true(has_file(&f, "results/unknown-uid/a/file"));
	assert_true(has_file(&f, "results/uid/a/file"));
	/* The database was put back. */
	trash_take(&f.e, f.e.results_dir, "uid");
	results_set_orphans_aside(&f.e);
	assert_true(has_file(&f, "results/uid/a/file"));
	assert_false(has_file(&f, "results/unknown-uid"));
	assert_non_null(strstr(f.notice, "has again the job alice~f"));
	fixture_close(&f);
}

/* After the database has lost its end, a task runs again with the same numbers. */
TEST(test_log_of_an_end_that_is_not_known_stays)
{
	struct fixture f;
	fixture_open(&f);
	keep_log(&f, "uid", "alice~twice", 3, 100);
	keep_log(&f, "uid", "alice~twice", 3, 50);
	assert_true(has_file(&f, "damaged/alice~twice/logs-uid-worker-0-0-3/log"));
	assert_true(has_file(&f, "logs/uid/worker-0-0-3/log"));
	assert_non_null(strstr(f.notice, "lacks an end of a task of the job alice~twice"));
	fixture_close(&f);
}

TEST(test_empty_directory_of_a_task_is_no_loss)
{
	struct fixture f;
	fixture_open(&f);
	FREE_AUTO char *empty = xasprintf("%s/pods/empty", f.dir);
	assert_int_equal(mkdir(empty, 0700), 0);
	orphans_end(&f.e);
	assert_false(has_file(&f, "pods/empty"));
	assert_false(has_file(&f, "damaged"));
	assert_null(engine_find(&f.e, SPAN("empty")));
	fixture_close(&f);
}

/* The path would leave the directory of logs. */
TEST(test_log_names_that_leave_the_directory_are_refused)
{
	static const char *const BAD[] = { "", "..", "a/b", ".hidden", "a b" };
	struct fixture f;
	ARENA_AUTO a = { 0 };
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		const struct engine_task role = { SPAN("u"), span_of(BAD[i]), 0, 0, 0, false };
		const struct engine_task uid = { span_of(BAD[i]), SPAN("r"), 0, 0, 0, false };
		assert_null(logs_path(&f.e, &role, &a));
		assert_null(logs_path(&f.e, &uid, &a));
	}
	fixture_close(&f);
}

/* The server's cache reads these events. */
TEST(test_events_have_the_members_that_the_cache_reads)
{
	struct fixture f;
	struct engine_pod p = { 0 };
	fixture_open(&f);
	make_pod(&f, &p, 0);
	pod_event(&p, "Warning", "Failed", "of no Framework");
	assert_int_equal(f.events, 0);
	p.job->name = xstrdup("f");
	pod_event(&p, "Warning", "Failed", "a \"quoted\" %s", "text");
	assert_int_equal(f.events, 1);
	assert_true(span_is(f.event.framework, "f"));
	assert_true(span_is(f.event.role, "worker"));
	assert_int_equal(f.event.index, 2);
	assert_true(span_is(f.event.reason, "Failed"));
	assert_true(span_is(f.event.message, "a \"quoted\" text"));
	assert_true(span_is(f.event.host, "node"));
	assert_true(llabs(f.event.last_ms - clock_wall_ms()) < INT64_C(3600000));
	fixture_close(&f);
}

/* The failures differ only in their sockets, so they count as one reason. */
TEST(test_pulls_that_fail_for_one_reason_count_as_one)
{
	static const char *const WHY[] = {
		"dial tcp 192.0.2.1:5000: connect: connection refused",
		"dial tcp 192.0.2.1:5000: i/o timeout",
		"read tcp 192.0.2.7:40001->192.0.2.1:5000: i/o timeout",
		"write tcp 192.0.2.7:40003->192.0.2.1:5000: i/o timeout",
	};
	struct fixture f;
	struct engine_pod p = { 0 };
	fixture_open(&f);
	make_pod(&f, &p, 0);
	for (size_t i = 0; i < sizeof(WHY) / sizeof(WHY[0]); i++) {
		assert_string_equal(f.notice, "");
		pod_count_pull(&p, WHY[i]);
	}
	assert_string_equal(f.notice, WHY[3]);
	free(p.pull_problem);
	fixture_close(&f);
}

/* After a restart, a task is unknown without its spec and the file of a shim. */
TEST(test_task_file_and_lock_tell_the_state_after_a_restart)
{
	struct fixture f;
	struct engine_pod p = { 0 };
	fixture_open(&f);
	make_pod(&f, &p, 7);
	p.pidfd = -1;
	p.dir = arena_printf(&f.arena, "%s/pods/%s", f.dir, p.uid);
	assert_int_equal(mkdirat(f.e.pods_dir, p.uid, 0700), 0);
	assert_false(pod_find(&p));
	assert_int_equal(p.state, POD_QUEUED);
	char *spec = arena_printf(&f.arena, "%s/spec", p.dir);
	assert_int_equal(close(open(spec, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
	assert_true(pod_find(&p));
	assert_int_equal(p.state, POD_SOUGHT);
	arena_done(&p.texts);
	fixture_close(&f);
}

/* A job that is scaled needs room for its tasks that are not Completed; for all, if none is known.
 */
TEST(test_scaled_jobs_need_room_for_tasks_not_completed)
{
	static const char FRAMEWORK[] =
	    "{\"metadata\":{\"uid\":\"framework\"},\"spec\":{\"taskRoles\":[{\"name\":\"worker\","
	    "\"taskNumber\":3,\"task\":{\"pod\":{\"spec\":{\"initContainers\":[{\"name\":\"init\","
	    "\"env\":[{\"name\":\"GANG_ALLOCATION\",\"value\":\"true\"}]}],\"containers\":[{"
	    "\"name\":"
	    "\"app\",\"resources\":{\"limits\":{\"cpu\":1}}}]}}}}]}}";
	struct fixture f;
	struct engine_pod p = { 0 };
	fixture_open(&f);
	f.e.queue = queue_new();
	f.e.queue->total.cpus = 2000;
	make_pod(&f, &p, 0);
	p.job->queued = queue_add(f.e.queue, SPAN("alice"), SPAN("v"));
	p.need.cpus = 1000;
	p.gang = true;
	p.state = POD_STARTED;
	for (int known = 0; known < 2; known++) {
		ERR_AUTO err = { 0 };
		ERR_AUTO other = { 0 };
		struct engine_asked asked = { .framework = SPAN(FRAMEWORK),
			                      .role = SPAN("worker"),
			                      .number = 4 };
		if (known)
			allocation_enter(&p);
		assert_int_equal(engine_admit(&f.e, &asked, &other), known ? 0 : -1);
		asked.number = 3; /* it would never be refused */
		assert_int_equal(engine_admit(&f.e, &asked, &err), 0);
		asked.number = 5;
		assert_int_equal(engine_admit(&f.e, &asked, &err), -1);
		assert_non_null(strstr(err_msg(&err), known
		                                          ? "ask for 3 CPUs; this machine has 2"
		                                          : "ask for 5 CPUs; this machine has 2"));
	}
	fixture_close(&f);
	queue_free(f.e.queue);
}

/* The resources of a task count as use of its user until its end: half the machine for a minute. */
TEST(test_use_of_a_task_counts_until_its_end)
{
	struct fixture f;
	struct engine_pod p = { .need.cpus = 1000, .state = POD_STARTED };
	fixture_open(&f);
	f.e.queue = queue_new();
	f.e.queue->total.cpus = 2000;
	make_pod(&f, &p, 0);
	p.job->queued = queue_add(f.e.queue, SPAN("alice"), SPAN("v"));
	queue_time_now(f.e.queue, clock_ms() - 60000);
	allocation_enter(&p);
	allocations_end(p.job, p.role, p.index);
	assert_null(p.allocation);
	assert_true(fabs(f.e.queue->users->use - 29) < 2);
	fixture_close(&f);
	queue_free(f.e.queue);
}

/* The limits of a task that an earlier process has started are written again, into a fake cgroup
 * of ordinary files. */
TEST(test_limits_of_a_running_pod_are_written_again)
{
	static const char *const GROUP[] = { "cgroup.procs", "cgroup.subtree_control",
		                             "rest-lit-server/cgroup.procs", "task-pod0/memory.max",
		                             "task-pod0/cpu.max" };
	struct fixture f;
	struct engine_pod p = { 0 };
	STR_AUTO why = STR_INIT(1000);
	assert_int_equal(tree_setup(state), 0);
	fixture_open(&f);
	make_pod(&f, &p, 0);
	p.need = (struct amounts){ .cpus = 1500, .memory = 64 << 20 };
	pod_limit(&p); /* no cgroup: nothing is written */
	assert_string_equal(f.notice, "");

	tree_put("proc/self/cgroup", "0::/\n");
	tree_put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
	for (size_t i = 0; i < sizeof(GROUP) / sizeof(GROUP[0]); i++) {
		FREE_AUTO char *path = xasprintf("sys/fs/cgroup/%s", GROUP[i]);
		tree_put(path, "");
	}
	f.e.cgroup = cgroup_open(tree_root, &why);
	assert_string_equal(str_c(&why), "");
	pod_limit(&p);
	assert_string_equal(f.notice, "");
	tree_holds("sys/fs/cgroup/task-pod0/memory.max", "67108864");
	tree_holds("sys/fs/cgroup/task-pod0/cpu.max", "150000 100000");
	tree_put("sys/fs/cgroup/task-pod0/memory.max", "max"); /* by its unit */
	pod_limit(&p);
	tree_holds("sys/fs/cgroup/task-pod0/memory.max", "67108864");
	free(f.e.cgroup);
	fixture_close(&f);
	assert_int_equal(tree_teardown(state), 0);
}
