/* Follows the jobs that are held, decides about them after each change, and sends a PATCH or a GET
 * about each, one at a time. */
#include "server/cluster/order.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/cache/hold.h"
#include "server/cluster/cluster.h"
#include "server/cluster/rounds.h"
#include "server/state/log.h"

enum {
	ROWS = 1024,
	PAUSE_MS = 10,        /* between two looks at all held jobs, at least */
	PAUSE_TIMES = 4,      /* ... or so many times what the last one took */
	LOOK_MS = 1000,       /* at most: the wall clock may be set */
	AGAIN_MS = 1000,      /* after a request without a result */
	UNCHANGED_MS = 10000, /* after a refusal, if the job does not change */
	REQUESTS_MAX = 64,
	DEADLINE_MS = 30000,
	PATCH_MAX = 8192,
	WHY_MAX = 2048,
};

enum order_request { ORDER_START, ORDER_STOP, ORDER_ASK };

/* A job that is held, or will be, or counts for `max` of others. */
struct order_job {
	LIST_ENTRY(order_job) row;
	struct order *order;
	const struct job_entry *job; /* the latest */
	const char *name;            /* of all of them; in the arena, as hold */
	struct hold hold;
	bool valid;
	uint64_t deleted; /* a bit for each of hold.after that is */
	bool busy;        /* a request is under way */
	bool forgotten;   /* freed at its end */
	enum order_request request;
	struct str patch;
	size_t asked;
	int64_t refused;  /* the version of the job that a request was about; 0 */
	int64_t again_ms; /* not before; of that version only */
	struct arena arena;
};

LIST_HEAD(order_row, order_job);

struct order {
	struct server *server;
	struct store *store;
	struct change_queue *changes;
	struct hash_key key;
	struct order_row rows[ROWS]; /* by a hash of the name */
	size_t n, n_busy;
	bool complete; /* all jobs of a view are followed */
	bool due;      /* a job has changed since the last look */
	int64_t next_ms;
	char *trouble; /* the last one that was logged; NULL: none */
};

/* ---- the jobs that are followed ---- */

static void order_job_free(struct order_job *f)
{
	job_entry_drop(f->job);
	str_done(&f->patch);
	arena_done(&f->arena);
	free(f);
}

static void order_forget(struct order_job *f)
{
	LIST_REMOVE(f, row);
	f->order->n--;
	f->forgotten = true;
	if (!f->busy)
		order_job_free(f);
}

static void order_forget_all(struct order *o)
{
	for (struct order_row *row = o->rows; row < o->rows + ROWS; row++)
		while (LIST_FIRST(row))
			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it leaves the row */
			order_forget(LIST_FIRST(row));
}

static struct order_row *order_row_of(struct order *o, const char *name)
{
	return &o->rows[hash_bytes(&o->key, span_of(name)) % ROWS];
}

static void order_follow(struct order *o, const struct job_entry *job)
{
	struct order_job *f = xcalloc(1, sizeof(*f));
	f->order = o;
	f->job = job_entry_hold(job);
	f->name = arena_dup(&f->arena, span_of(job->name));
	/* Later entries of the job replace this one, and the texts may be parts of its text. */
	f->valid = hold_read(arena_span(&f->arena, span_of(job->hold)), &f->arena, &f->hold);
	LIST_INSERT_HEAD(order_row_of(o, job->name), f, row);
	o->n++;
	if (!job->held && !job->creating && !f->hold.max) /* it was started, and counts for none */
		order_forget(f);
}

/* A change of a job; one that has ended, or is gone, is forgotten. */
static void order_note(void *arg, const struct job_entry *now, const struct job_entry *before)
{
	struct order *o = arg;
	const char *name = (now ?: before)->name;
	struct order_job *f = LIST_FIRST(order_row_of(o, name));
	while (f && strcmp(f->job->name, name) != 0)
		f = LIST_NEXT(f, row);
	bool follow = now && now->hold[0] && !job_state_final(now->state);
	o->due = true;
	if (f && follow && strcmp(f->job->uid, now->uid) == 0 &&
	    (now->held || now->creating || f->hold.max)) {
		job_entry_drop(f->job);
		f->job = job_entry_hold(now);
		return;
	}
	if (f)
		order_forget(f);
	if (follow)
		order_follow(o, now);
}

/* Takes the changes; if some were lost, or not all jobs were known before, then all jobs. */
static void order_take_changes(struct order *o)
{
	while (!change_queue_empty(o->changes))
		o->complete &= change_queue_take(o->changes, order_note, o);
	if (o->complete)
		return;
	CACHE_VIEW_AUTO *view = cache_view(o->server->cache); /* not older than the changes */
	struct view_walk walk = { .view = view };
	order_forget_all(o);
	o->complete = view_warm(view);
	for (const struct job_entry *job; o->complete && (job = view_next(&walk)) != NULL;)
		order_note(o, job, NULL);
}

/* ---- requests ---- */

static void order_log(const struct order_job *f)
{
	struct line line =
	    log_begin(LOG_INFO, f->request == ORDER_START ? "a held job was started"
	                                                  : "a held job was stopped");
	log_text(&line, "user", span_of(f->job->user));
	log_text(&line, "job", span_of(f->job->job));
	log_text(&line, "framework", span_of(f->job->name));
	log_end(&line);
}

/* The job after a PATCH; the database tells it itself. */
static void order_cache(struct order *o, const struct order_job *f, struct span object)
{
	if (o->server->local || !scan_valid(object, SCAN_DEPTH_MAX))
		return;
	struct job_entry *now = job_entry_new_after(object, f->job);
	if (now)
		cache_note(o->server->cache, now);
}

static void order_answered(void *arg, const struct store_reply *reply)
{
	struct order_job *f = arg;
	struct order *o = f->order;
	bool ok = reply->outcome == STORE_OK;
	bool gone = reply->outcome == STORE_NOT_FOUND;
	f->busy = false;
	o->n_busy--;
	o->due = true;
	/* It was changed or deleted meanwhile, as the watch will tell. */
	bool known = ok || gone || store_is_outdated(reply->outcome);
	FREE_AUTO char *why = xstrndup(reply->message.p, known ? 0 : reply->message.n);
	if (f->forgotten) {
		order_job_free(f);
		return;
	}
	if (f->request == ORDER_ASK) {
		const struct hold_after *h = &f->hold.after[f->asked];
		if (gone || (ok && !span_eq(reply->uid, h->uid)))
			f->deleted |= UINT64_C(1) << f->asked;
		else
			f->again_ms = clock_ms() + AGAIN_MS; /* or the watch is late */
	} else {
		f->again_ms = clock_ms() + (known ? UNCHANGED_MS : AGAIN_MS);
		if (ok)
			order_log(f);
		if (ok)
			order_cache(o, f, reply->body);
	}
	if (atomic_load(&o->server->phase) == PHASE_RUN)
		cluster_log_trouble(&o->trouble, known ? NULL : why,
		                    "a held job cannot be started or stopped; trying again",
		                    "held jobs are started again");
	str_done(&f->patch);
}

static void order_send(struct order_job *f, enum order_request request, struct store_request r)
{
	struct order *o = f->order;
	f->busy = true;
	f->request = request;
	f->refused = f->job->version;
	o->n_busy++;
	r.kind = KIND_FRAMEWORK;
	r.deadline_ms = clock_ms() + DEADLINE_MS;
	r.done = order_answered;
	r.arg = f;
	store_request(o->store, &r);
}

/* Patches that take effect on the job as it is in the view only. */
static void order_patch(struct order_job *f, enum order_request request, const char *why)
{
	f->patch = STR_INIT(PATCH_MAX);
	if (request == ORDER_STOP) {
		job_stop_patch(&f->patch,
		               &(struct job_stop){ f->job->uid, f->job->resource_version, why });
	} else {
		job_start_patch(&f->patch, f->job);
	}
	order_send(f, request,
	           (struct store_request){ .verb = STORE_PATCH,
	                                   .name = f->name,
	                                   .whole = true,
	                                   .body = { str_view(&f->patch) } });
}

/* ---- decisions ---- */

/* Decides about a held job; first: no other has to be started before it. */
static void order_decide(struct order_job *f, const struct cache_view *view, bool first)
{
	struct order *o = f->order;
	STR_AUTO why = STR_INIT(WHY_MAX);
	bool refused = f->refused == f->job->version && clock_ms() < f->again_ms;
	if (!f->valid || !f->job->held || f->busy || refused || o->n_busy == REQUESTS_MAX)
		return;
	str_puts(&why, "The job was stopped before its start: ");
	struct hold_judgement j = hold_judge(&f->hold, view, clock_wall_ms(), f->deleted, &why);
	if (j.verdict == HOLD_STOPS)
		order_patch(f, ORDER_STOP, str_c(&why));
	else if (j.verdict == HOLD_STARTS && first)
		order_patch(f, ORDER_START, NULL);
	else if (j.verdict == HOLD_ASKS) {
		f->asked = j.asked;
		order_send(f, ORDER_ASK,
		           (struct store_request){ .verb = STORE_GET,
		                                   .name = f->hold.after[j.asked].framework.p });
	}
}

/* Users and tags of jobs with `max`, then their order; those whose order is not known yet first. */
static int order_compare(const void *a, const void *b)
{
	const struct order_job *x = *(struct order_job *const *)a;
	const struct order_job *y = *(struct order_job *const *)b;
	int by_user = strcmp(x->job->user, y->job->user);
	int by_tag = by_user ?: span_compare(x->hold.tag, y->hold.tag);
	const int64_t keys[][2] = { { !x->job->creating, !y->job->creating },
		                    { x->job->order, y->job->order },
		                    { x->job->submitted_ms, y->job->submitted_ms } };
	for (size_t i = 0; !by_tag && i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return by_tag ?: strcmp(x->job->uid, y->job->uid);
}

/* Jobs that count for the `max` of each other. */
static bool order_same_group(const struct order_job *x, const struct order_job *y)
{
	return strcmp(x->job->user, y->job->user) == 0 && span_eq(x->hold.tag, y->hold.tag);
}

/* The jobs with `max`, sorted.  heard: the watch has told all up to this version. */
static void order_decide_groups(struct order *o, struct order_job **v, size_t n,
                                const struct cache_view *view, int64_t heard)
{
	qsort(v, n, sizeof(struct order_job *), order_compare);
	for (size_t from = 0, to; from < n; from = to) {
		int64_t started = 0;
		struct order_job *first = NULL;
		for (to = from; to < n && order_same_group(v[from], v[to]); to++) {
			bool waits = v[to]->job->held || v[to]->job->creating;
			started += !waits;
			first = first ?: waits ? v[to] : NULL;
		}
		for (size_t i = from; i < to; i++) {
			bool may = v[i] == first && started < first->hold.max &&
			           (o->server->local || first->job->version <= heard);
			order_decide(v[i], view, may);
		}
	}
}

static void order_look(struct order *o, int64_t heard)
{
	CACHE_VIEW_AUTO *view = cache_view(o->server->cache);
	struct order_job **group = xcalloc(o->n + 1, sizeof(struct order_job *));
	size_t n = 0;
	for (struct order_row *row = o->rows; row < o->rows + ROWS; row++)
		for (struct order_job *f = LIST_FIRST(row); f; f = LIST_NEXT(f, row)) {
			if (f->hold.max)
				group[n++] = f;
			else
				order_decide(f, view, true);
		}
	order_decide_groups(o, group, n, view, heard);
	free(group);
}

void order_run_once(struct order *o)
{
	int64_t now_ms = clock_ms();
	order_take_changes(o);
	if (now_ms < o->next_ms || !(o->due || now_ms >= o->next_ms + LOOK_MS))
		return;
	int64_t heard = cache_heard_version(o->server->cache);
	order_take_changes(o); /* all that was heard, at least */
	o->due = false;
	if (o->n && o->complete)
		order_look(o, heard);
	o->next_ms = now_ms + PAUSE_MS + PAUSE_TIMES * (clock_ms() - now_ms);
}

int order_timeout_ms(const struct order *o)
{
	int64_t left_ms = o->next_ms + (o->due ? 0 : LOOK_MS) - clock_ms();
	return left_ms < 0 ? 0 : (int)left_ms;
}

/* ---- life ---- */

int order_fd(const struct order *o)
{
	return change_queue_fd(o->changes);
}

struct order *order_new(struct server *s, struct store *store, struct err *e)
{
	struct order *o = xcalloc(1, sizeof(*o));
	o->server = s;
	o->store = store;
	o->key = hash_key_new();
	o->changes = change_queue_new(s->cache, e);
	if (o->changes) {
		change_queue_listen(o->changes, true);
		return o;
	}
	free(o);
	return NULL;
}

void order_free(struct order *o)
{
	if (!o)
		return;
	order_forget_all(o);
	change_queue_free(o->changes);
	free(o->trouble);
	free(o);
}
