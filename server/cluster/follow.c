/*
 * Feeds the cache and the Events of pods, and logs problems: also if no controller
 * runs, or FrameworkController does not know the exit codes of pai-runtime.
 */
#include "server/cluster/follow.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/posix/clock.h"
#include "base/posix/lock.h"
#include "jobs/cache/cache.h"
#include "jobs/cache/events.h"
#include "jobs/framework/view.h"
#include "k8s/watch/reflector.h"
#include "machine/engine/engine.h"
#include "machine/store/local.h"
#include "server/check/check.h"
#include "server/cluster/history.h"
#include "server/cluster/one_machine.h"
#include "server/config/setup.h"
#include "server/state/log.h"

enum {
	BROKEN_KEPT = 1024, /* objects that are not logged again */
	BROKEN_LINES = 20,  /* of the log, per BROKEN_MS */
	BROKEN_MS = 60000,
	/* An API server that starts does not know the kind for some seconds, and lists stay. */
	ABSENT_MS = 10000,
};

/* Events of pods and Frameworks; a selector has no "or".  Those of nodes are the many others. */
static const char POD_EVENTS[] = "fieldSelector=involvedObject.kind%21%3DNode";

struct follow {
	struct server *server;
	struct cache *cache;
	struct events *events;
	struct reflector *frameworks_reflector, *events_reflector;
	int64_t begun_ms;
	pthread_mutex_t lock; /* protects trouble */
	struct arena arena;   /* settings of the engine */
	char *trouble;        /* reason why Frameworks cannot be followed; NULL: they are */
	int64_t absent_ms;    /* since when their kind does not exist; 0: it does */
	_Atomic int64_t heard_ms;
	/* The rest is used by the thread of frameworks_reflector only. */
	bool warm;
	struct hash_key key;
	uint64_t broken[BROKEN_KEPT]; /* hashes of uids */
	size_t n_broken, n_lines;
	char *neglected;      /* a started Framework without status; NULL: none */
	int64_t neglected_ms; /* since when */
	bool neglect_told;
	bool codes_told;  /* an exit code unknown to the controller was logged */
	int64_t lines_ms; /* begin of the period of n_lines */
};

/* ---- Frameworks ------------------------------------------------------------------------------ */

static void frameworks_begin(void *arg)
{
	struct follow *f = arg;
	cache_list_begin(f->cache);
}

static void frameworks_end_list(void *arg, int64_t version)
{
	struct follow *f = arg;
	cache_list_end(f->cache, version);
	atomic_store(&f->heard_ms, clock_ms());
	(void)malloc_trim(0); /* returns the memory of a long list */
	if (f->warm)
		return;
	f->warm = true;
	struct line line = log_begin(LOG_INFO, "all jobs are known");
	log_int(&line, "frameworks", (int64_t)cache_figures(f->cache).frameworks);
	log_ms(&line, "ms", (clock_ms() - f->begun_ms) * 1000);
	log_end(&line);
}

/* A Framework that FrameworkController cannot decode keeps it from seeing any. */
static void log_broken(struct follow *f, const struct job_entry *c)
{
	int64_t now = clock_ms();
	if (now - f->lines_ms >= BROKEN_MS) {
		f->lines_ms = now;
		f->n_lines = 0;
	}
	uint64_t hash = hash_bytes(&f->key, span_of(c->uid));
	bool is_new = f->n_lines < BROKEN_LINES;
	for (size_t i = 0; is_new && i < BROKEN_KEPT; i++)
		is_new = f->broken[i] != hash;
	if (!is_new)
		return;
	f->broken[f->n_broken++ % BROKEN_KEPT] = hash;
	f->n_lines++;
	struct line line =
	    log_begin(LOG_WARN, "a Framework is invalid; while it exists, FrameworkController "
	                        "may see no Framework");
	log_text(&line, "framework", span_of(c->name));
	log_text(&line, "uid", span_of(c->uid));
	log_end(&line);
}

static void log_unknown_code(struct follow *f, const struct job_entry *c, struct span object)
{
	ARENA_AUTO a = { 0 };
	if (f->codes_told || !c->has_code || !check_is_runtime_code(f->server->exit_spec, c->code))
		return;
	struct fw_view status;
	fw_view_read(scan_inside(object, "status"), &a, &status);
	if (!span_is(fw_view_completion(status.outcome, &a).phrase, "ContainerUnrecognizedFailed"))
		return;
	f->codes_told = true;
	struct check_line line = check_unknown_codes(
	    &a, arena_printf(&a, "%lld, of Framework %s", (long long)c->code, c->name));
	check_log(NULL, &line);
}

/* Notes a started Framework that gets no status, because no controller runs. */
static void note_neglect(struct follow *f, const struct job_entry *c)
{
	if (f->server->local) /* logged at the start */
		return;
	if (!c->untouched && f->warm) {
		if (f->neglect_told)
			log_event(LOG_INFO, "a controller processes jobs again", NULL, NULL);
		free(TAKE(f->neglected));
		f->neglect_told = false;
	} else if (c->untouched && !c->creating && !c->held && !f->neglected) {
		f->neglected = xstrdup(c->name);
		f->neglected_ms = clock_ms();
	}
}

/* Called at least every minute, by bookmarks. */
static void look_for_neglect(struct follow *f)
{
	ARENA_AUTO a = { 0 };
	int64_t ms = clock_ms() - f->neglected_ms;
	if (f->neglect_told || !f->neglected || ms < NEGLECT_MS)
		return;
	f->neglect_told = true;
	struct check_line line = check_neglect(&a, f->neglected, ms);
	check_log(NULL, &line);
}

static void frameworks_put(void *arg, struct span object)
{
	struct follow *f = arg;
	ARENA_AUTO arena = { 0 };
	CACHE_VIEW_AUTO *view = cache_view(f->cache);
	struct span name = scan_text(scan_get(scan_inside(object, "metadata"), "name"), &arena);
	const struct job_entry *before = view_find(view, name);
	struct job_entry *c = job_entry_new_after(object, before);
	atomic_store(&f->heard_ms, clock_ms());
	if (!c)
		return;
	if (c->broken)
		log_broken(f, c);
	log_unknown_code(f, c, object);
	note_neglect(f, c);
	look_for_neglect(f);
	history_note_end(f->server->history, before, c);
	if (f->server->engine)
		engine_look(f->server->engine, span_of(c->uid), c->version, c);
	cache_put(f->cache, c);
}

static void frameworks_remove(void *arg, struct span object)
{
	struct follow *f = arg;
	ARENA_AUTO arena = { 0 };
	atomic_store(&f->heard_ms, clock_ms());
	struct span meta = scan_get(object, "metadata");
	struct span name = scan_text(scan_get(meta, "name"), &arena);
	struct span uid = scan_text(scan_get(meta, "uid"), &arena);
	int64_t version = 0;
	(void)parse_i64(scan_text(scan_get(meta, "resourceVersion"), &arena), 0, INT64_MAX,
	                &version); /* else 0 */
	if (f->server->engine)
		engine_look(f->server->engine, uid, version, NULL);
	cache_remove(f->cache, name, uid, version);
}

static void frameworks_note_version(void *arg, int64_t version)
{
	struct follow *f = arg;
	cache_set_version(f->cache, version);
	atomic_store(&f->heard_ms, clock_ms());
	look_for_neglect(f);
}

static void frameworks_note_trouble(void *arg, const char *why, bool absent)
{
	struct follow *f = arg;
	(void)pthread_mutex_lock(&f->lock); /* cannot fail */
	free(f->trouble);
	f->trouble = why ? xstrdup(why) : NULL;
	f->absent_ms = absent ? f->absent_ms ?: clock_ms() : 0;
	(void)pthread_mutex_unlock(&f->lock);
	if (why)
		log_event(LOG_WARN, "jobs cannot be followed; trying again", "why", why);
	else
		log_event(LOG_INFO, "jobs are followed again", NULL, NULL);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void pod_events_begin(void *arg)
{
	struct follow *f = arg;
	events_begin(f->events);
}

static void pod_events_end_list(void *arg, int64_t version)
{
	struct follow *f = arg;
	(void)version;
	events_end(f->events);
	events_note_trouble(f->events, NULL);
}

static void pod_events_put(void *arg, struct span object)
{
	struct follow *f = arg;
	events_change(f->events, object, true);
}

static void pod_events_remove(void *arg, struct span object)
{
	struct follow *f = arg;
	events_change(f->events, object, false);
}

static void pod_events_note_trouble(void *arg, const char *why, bool absent)
{
	(void)absent;
	struct follow *f = arg;
	events_note_trouble(f->events, why);
	if (why)
		log_event(LOG_WARN, "events of pods cannot be followed; trying again", "why", why);
	else
		log_event(LOG_INFO, "events of pods are followed again", NULL, NULL);
}

/* ---- an API server, or a database ----------------------------------------------------------- */

static int follow_cluster(struct follow *f, struct err *e)
{
	const struct options *o = f->server->options;
	struct reflector_settings s = {
		.login = f->server->login,
		.namespace_name = f->server->namespace_name,
		.kind = KIND_FRAMEWORK,
		.page = (size_t)o->watch_page,
		.max_object = (size_t)o->max_object_read,
		.begin = frameworks_begin,
		.end = frameworks_end_list,
		.put = frameworks_put,
		.remove = frameworks_remove,
		.seen = frameworks_note_version,
		.trouble = frameworks_note_trouble,
		.arg = f,
	};
	f->frameworks_reflector = reflector_new(&s, e);
	if (!f->frameworks_reflector)
		return -1;
	s.kind = KIND_EVENT;
	s.selector = POD_EVENTS;
	s.begin = pod_events_begin;
	s.end = pod_events_end_list;
	s.put = pod_events_put;
	s.remove = pod_events_remove;
	s.seen = NULL;
	s.trouble = pod_events_note_trouble;
	f->events_reflector = reflector_new(&s, e);
	return f->events_reflector ? 0 : -1;
}

static void database_damaged(void *arg, const char *sentence)
{
	(void)arg;
	log_event(LOG_ERROR, "something damaged was set aside", "file", sentence);
}

/* The engine knows what it has decided. */
static void database_stated(void *arg, const struct local_state *state, int64_t version)
{
	struct follow *f = arg;
	CACHE_VIEW_AUTO *view = cache_view(f->cache);
	const struct job_entry *before = view_find(view, span_of(state->name));
	if (!before || strcmp(before->uid, state->uid) != 0)
		return; /* it is being deleted */
	struct job_entry *c = job_entry_new_stated(
	    before, &(struct job_entry_stated){ .summary = &state->summary,
	                                        .status = state->status,
	                                        .version = version,
	                                        .launched_boot_ms = state->launched_boot_ms,
	                                        .gpu_idle = state->gpu_idle });
	history_note_end(f->server->history, before, c);
	cache_put(f->cache, c);
}

static void database_forget(void *arg, struct span uid)
{
	const struct follow *f = arg;
	if (f->server->engine)
		engine_forget(f->server->engine, uid);
}

static int follow_database(struct follow *f, struct err *e)
{
	static const struct local_follower FOLLOWER = { .damaged = database_damaged,
		                                        .removed = database_forget,
		                                        .put = frameworks_put,
		                                        .remove = frameworks_remove,
		                                        .stated = database_stated };
	bool run = options_run_here(f->server->options);
	if (run && machine_start(f->server, &f->arena, e) < 0)
		return -1;
	frameworks_begin(f);
	if (local_follow(f->server->local, &FOLLOWER, f, e) < 0)
		return -1;
	frameworks_end_list(f, 0);
	events_note_trouble(f->events, NULL); /* they come from the engine */
	if (run)
		return machine_start_jobs(f->server, e);
	log_event(LOG_WARN, "--engine=none: jobs are only kept; nothing runs them", "directory",
	          f->server->options->local);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct follow *follow_start(struct server *s, struct err *e)
{
	struct follow *f = xcalloc(1, sizeof(*f));
	f->server = s;
	f->begun_ms = f->lines_ms = clock_ms();
	atomic_init(&f->heard_ms, f->begun_ms);
	f->key = hash_key_new();
	(void)pthread_mutex_init(&f->lock, NULL); /* cannot fail with default attributes */
	f->cache = s->cache = cache_new((size_t)s->options->cache_memory);
	f->events = s->events = events_new((size_t)s->options->events_memory);
	if ((s->local ? follow_database(f, e) : follow_cluster(f, e)) < 0) {
		follow_stop(f);
		follow_free(f);
		return NULL;
	}
	return f;
}

void follow_stop(struct follow *f)
{
	if (!f)
		return;
	reflector_free(TAKE(f->frameworks_reflector));
	reflector_free(TAKE(f->events_reflector));
	engine_stop(f->server->engine);
	f->server->engine = NULL; /* the store's thread, which its last requests wake, reads it */
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	f->server->cache = NULL;
	f->server->events = NULL;
	cache_free(f->cache);
	events_free(f->events);
	free(f->trouble);
	free(f->neglected);
	arena_done(&f->arena);
	(void)pthread_mutex_destroy(&f->lock);
	free(f);
}

const char *follow_problem(const struct server *s, struct arena *a)
{
	struct follow *f = s->follow;
	CACHE_VIEW_AUTO *view = cache_view(s->cache);
	bool warm = view_warm(view);
	const char *why = NULL;
	LOCK_AUTO(&f->lock);
	if (f->absent_ms && (!warm || clock_ms() - f->absent_ms > ABSENT_MS))
		why = arena_printf(a, "there are no jobs: %s; " CHECK_MEND_CRD, f->trouble);
	else if (f->trouble && !warm)
		why = arena_printf(a, "not all jobs are known yet: %s", f->trouble);
	return why || warm ? why : "not all jobs are known yet: they are being listed";
}

/* The database tells each change at once. */
int64_t follow_age_ms(const struct server *s)
{
	return s->local ? 0 : clock_ms() - atomic_load(&s->follow->heard_ms);
}

const struct reflector_counts *follow_counts(const struct server *s, bool events)
{
	const struct follow *f = s->follow;
	if (s->local)
		return NULL;
	const struct reflector *r = events ? f->events_reflector : f->frameworks_reflector;
	return reflector_counts(r);
}

enum neglect job_neglect(const struct server *s, const struct job_entry *job, int64_t now_ms)
{
	if (job->state != JOB_WAITING || !job->untouched || job->held || s->engine)
		return NEGLECT_NONE;
	if (s->local)
		return NEGLECT_NO_ENGINE;
	return job->created_ms != JOB_ENTRY_NONE && now_ms - job->created_ms >= NEGLECT_MS
	           ? NEGLECT_CONTROLLER
	           : NEGLECT_NONE;
}
