/*
 * The process of the controller: it takes requests from the rules, sends them to the server, brings
 * back answers and events, and lets the time go on.
 *
 * The wall clock stands still within a step, as in the record: only `wait` goes to a timer.  The
 * other clock goes on, so back-off and pace are over within a step.
 */
#include "tests/controller/traces/play.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	/* More than two of the longest pauses of the rules, 60 s and a quarter. */
	SETTLE_MS = 200000,
	MOVES_MOST = 400000, /* of a step */
	VERBS_MOST = MOVES_MOST,
	IDLE_MOST = 200, /* times that the rules want to go on at once, and have nothing */
	WAITS_MOST = 50, /* timers that do nothing */
};

static const char *const KIND_NAMES[KIND_MAX] = { [KIND_FRAMEWORK] = "Framework",
	                                          [KIND_CONFIGMAP] = "ConfigMap",
	                                          [KIND_POD] = "Pod",
	                                          [KIND_ACCESS_REVIEW] = "AccessReview" };

/* splitmix64 */
static uint64_t play_random(void *arg)
{
	struct play *p = arg;
	uint64_t z = p->random += 0x9e3779b97f4a7c15;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static void play_notice(void *arg, const struct rules_notice *n)
{
	const struct play *p = arg;
	if (p->tells)
		fprintf(stderr, "  notice %s: %s\n", n->reason, n->message);
}

/* ---- the process ----------------------------------------------------------------------------- */

static void requests_clear(struct requests *list)
{
	struct request *q;
	while ((q = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, q, next);
		request_free(q);
	}
}

static void play_stop(struct play *p)
{
	rules_free(TAKE(p->rules));
	requests_clear(&p->open);
}

static void play_start(struct play *p, bool old)
{
	play_stop(p);
	memset(&p->counts, 0, sizeof(p->counts));
	(void)snprintf(p->identity, sizeof(p->identity), LEADER "%u", ++p->starts);
	const struct rules_settings settings = {
		.config = p->config,
		.identity = p->identity,
		.counts = &p->counts,
		.random = play_random,
		.notice = play_notice,
		.arg = p,
	};
	p->rules = rules_new(&settings);
	int first = p->order ? (int)(play_random(p) % WATCHES) : 0;
	for (int i = 0; i < WATCHES; i++)
		server_list(&p->server, (first + i) % WATCHES, old, p->rules, &p->now);
	if (p->tells)
		fprintf(stderr, "  %s starts\n", p->identity);
}

/* ---- requests and their faults --------------------------------------------------------------- */

static void play_execute(struct play *p, struct request *q)
{
	struct request *late;
	server_execute(&p->server, q);
	TAILQ_FOREACH(late, &p->late, next)
	late->delay--;
	while ((late = TAILQ_FIRST(&p->late)) != NULL && late->delay <= 0) {
		TAILQ_REMOVE(&p->late, late, next);
		if (p->tells)
			fprintf(stderr, "  late: %s %s\n", KIND_NAMES[late->kind],
			        late->name ? late->name : "");
		server_execute(&p->server, late);
		request_free(late);
	}
}

/* A copy of the request is executed later. */
static void play_delay(struct play *p, const struct request *q)
{
	const struct store_request again = {
		.verb = q->verb,
		.kind = q->kind,
		.name = q->name,
		.uid = q->uid,
		.body = { span_of(q->body) },
		.whole = q->whole,
		.force = q->force,
		.foreground = q->foreground,
		.json_patch = q->json_patch,
	};
	struct request *late = request_new(&again, q->leader);
	late->late = true;
	late->delay = p->fault.kind == FAULT_SHRINK ? 4 * p->fault.extra : p->fault.extra;
	TAILQ_INSERT_TAIL(&p->late, late, next);
}

bool step_is_patch(const json_t *step)
{
	return strcmp(reply_text(json_object_get(step, "stimulus"), "op"), "framework.patch") == 0;
}

/* The next stimulus, if it is a patch of the Framework. */
static void play_early(struct play *p)
{
	ERR_AUTO e = { 0 };
	const json_t *steps = json_object_get(p->scene.trace, "steps");
	const json_t *next = json_array_get(steps, p->step + 1);
	if (!step_is_patch(next))
		return;
	p->ahead = scene_play(&p->scene, next, &e) == 0;
	p->now.ms += 1000;
	p->now.wall_ms = p->scene.now_s * 1000;
}

static void play_put_back(struct play *p, struct request *q)
{
	JSON_AUTO *status = json_incref(json_object_get(p->scene.framework, "status"));
	server_execute(&p->server, q);
	JSON_AUTO *next = json_copy(p->scene.framework);
	json_object_set_new(next, "metadata", json_deep_copy(scene_metadata(next)));
	if (status && q->outcome == STORE_OK) {
		json_object_set(next, "status", status);
		(void)scene_store(&p->scene, next);
	}
}

enum {
	OK_STATUS = 200,
	CONFLICT_STATUS = 409,
	MANY_STATUS = 429,
	ERROR_STATUS = 500,
	DOWN_STATUS = 503
};

/* What the fault makes of this request; false: nothing. */
static bool play_spoil(struct play *p, struct request *q)
{
	switch (p->fault.kind) {
	case FAULT_LOST:
		server_execute(&p->server, q);
		request_answer(q, STORE_AMBIGUOUS, 0);
		return true;
	case FAULT_LATE:
	case FAULT_KILL_LATE:
		play_delay(p, q);
		request_answer(q, STORE_AMBIGUOUS, 0);
		return true;
	case FAULT_VOID:
		request_answer(q, STORE_OK, OK_STATUS);
		return true;
	case FAULT_UNSENT:
		request_answer(q, STORE_AMBIGUOUS, 0);
		return true;
	case FAULT_KILL_AFTER:
	case FAULT_KILL_OLD:
		server_execute(&p->server, q);
		return true;
	case FAULT_CONFLICT:
		request_answer(q, q->verb == STORE_CREATE ? STORE_EXISTS : STORE_CONFLICT,
		               CONFLICT_STATUS);
		return true;
	case FAULT_429:
	case FAULT_503:
		q->retry_after_s = 1;
		request_answer(q, STORE_BUSY,
		               p->fault.kind == FAULT_429 ? MANY_STATUS : DOWN_STATUS);
		return true;
	case FAULT_500:
		request_answer(q, STORE_AMBIGUOUS, ERROR_STATUS);
		return true;
	case FAULT_FULL:
		request_answer(q, STORE_FULL, 0);
		return true;
	case FAULT_FOREIGN:
		play_put_back(p, q);
		return true;
	case FAULT_EARLY:
		play_early(p);
		return false;
	case FAULT_SHRINK:
		server_shrink(&p->server);
		play_delay(p, q);
		request_answer(q, STORE_AMBIGUOUS, 0);
		return true;
	case FAULT_TAKEN:
		server_annotate(&p->server, "another");
		return false;
	case FAULT_RETAKEN:
		server_annotate(&p->server, "another");
		server_execute(&p->server, q);
		server_annotate(&p->server, p->identity);
		return true;
	default:
		return false;
	}
}

static bool fault_kills(enum fault_kind kind)
{
	return kind == FAULT_KILL_BEFORE || kind == FAULT_KILL_AFTER || kind == FAULT_KILL_LATE ||
	       kind == FAULT_KILL_OLD;
}

/* The fault is due at this request, or before all of the step (n 0). */
static bool play_is_due(const struct play *p)
{
	return !p->faulted && p->fault.kind != FAULT_NONE && p->fault.step == p->step &&
	       p->fault.n == p->verbs.n;
}

/* Faults that need no request.  false: it is none. */
static bool play_disturb(struct play *p)
{
	enum fault_kind kind = p->fault.kind;
	if (fault_kills(kind)) {
		play_start(p, kind == FAULT_KILL_OLD);
		return true;
	}
	if (kind == FAULT_RELIST || kind == FAULT_RELIST_OLD) {
		server_list(&p->server, p->fault.extra, kind == FAULT_RELIST_OLD, p->rules,
		            &p->now);
		return true;
	}
	return false;
}

static void play_tell(const struct play *p, const char *what, const struct request *q)
{
	static const char *const VERBS[] = { "POST", "GET", "LIST", "PATCH", "DELETE", "READY" };
	if (p->tells)
		fprintf(stderr, "  %s %s %s %s: %d %d%s%.900s\n", what, VERBS[q->verb],
		        KIND_NAMES[q->kind], q->name ? q->name : "", q->outcome, q->status,
		        q->verb == STORE_PATCH ? " " : "", q->verb == STORE_PATCH ? q->body : "");
}

/* The next request of the rules; false: there is none. */
static bool play_send(struct play *p)
{
	struct store_request r;
	if (!p->rules || !rules_next(p->rules, &p->now, &r))
		return false;
	struct request *q = request_new(&r, p->identity);
	str_char(&p->verbs, VERB_LETTERS[r.kind == KIND_ACCESS_REVIEW ? STORE_READY : r.verb]);
	TAILQ_INSERT_TAIL(&p->open, q, next);
	if (play_is_due(p)) {
		p->faulted = true;
		p->server.keeps = !fault_kills(p->fault.kind) && p->fault.kind != FAULT_LATE &&
		                  p->fault.kind != FAULT_SHRINK && p->fault.kind != FAULT_TAKEN;
		p->server.announces = p->fault.kind != FAULT_FOREIGN;
		bool spoilt = play_spoil(p, q);
		q->executed |= spoilt;
		play_tell(p, "FAULT", q);
		if (play_disturb(p))
			return true;
	} else if (p->order && play_random(p) % 2 == 0) {
		play_execute(p, q);
	}
	return true;
}

/* The answer of an open request; false: there is none. */
static bool play_answer(struct play *p)
{
	struct request *q = TAILQ_FIRST(&p->open);
	if (!q)
		return false;
	for (uint64_t n = p->order ? play_random(p) % 4 : 0; n > 0; n--)
		q = TAILQ_NEXT(q, next) ? TAILQ_NEXT(q, next) : q;
	if (!q->executed)
		play_execute(p, q);
	TAILQ_REMOVE(&p->open, q, next);
	play_tell(p, "answer", q);
	const struct store_reply reply = {
		.outcome = q->outcome,
		.status = q->status,
		.retry_after_s = q->retry_after_s,
		.body = span_of(q->text),
		.uid = span_of(q->made),
		.resource_version = span_of(q->version),
		.message = SPAN("the message"),
	};
	rules_answer(p->rules, &p->now, q->arg, &reply);
	request_free(q);
	return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* A watch that is late keeps so many events back. */
static bool play_is_late(const struct play *p, int watch)
{
	bool step = p->fault.kind == FAULT_STALE && p->fault.step == p->step;
	bool spec = watch == WATCH_FRAMEWORKS && p->scene.stale;
	return spec ||
	       (step && (p->fault.extra & (1 << watch)) && p->server.waiting[watch] <= p->fault.n);
}

/* Delivers an event; false: there is none, or they are late. */
static bool play_event(struct play *p, bool all)
{
	int first = p->order ? (int)(play_random(p) % WATCHES) : 0;
	for (int i = 0; p->rules && i < WATCHES; i++) {
		int watch = (first + i) % WATCHES;
		if (p->server.waiting[watch] == 0 || (!all && play_is_late(p, watch)))
			continue;
		if (p->tells)
			fprintf(stderr, "  event %s\n", KIND_NAMES[server_kind(watch)]);
		server_deliver(&p->server, watch, p->rules, &p->now);
		return true;
	}
	return false;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* One event, answer or request; false: there is nothing to do now. */
static bool play_move(struct play *p)
{
	enum { CHOICES = 3 };
	unsigned first = p->order ? (unsigned)(play_random(p) % CHOICES) : 0;
	for (unsigned i = 0; i < CHOICES; i++) {
		unsigned choice = (first + i) % CHOICES;
		if (choice == 0 ? play_answer(p)
		                : (choice == 1 ? play_send(p) : play_event(p, false)))
			return true;
	}
	return play_event(p, true);
}

/* Requests that are still late. */
static bool play_execute_late(struct play *p)
{
	struct request *q = TAILQ_FIRST(&p->late);
	if (!q)
		return false;
	TAILQ_REMOVE(&p->late, q, next);
	play_tell(p, "late", q);
	server_execute(&p->server, q);
	request_free(q);
	return true;
}

/* Until nothing is due before the clock is at until_ms. */
static int play_settle(struct play *p, int64_t until_ms, struct err *e)
{
	int idle = 0;
	for (int i = 0; i < MOVES_MOST; i++) {
		if (play_move(p)) {
			idle = 0;
			continue;
		}
		p->scene.stale = false;
		if (p->faulted && server_tidy(&p->server))
			continue;
		int64_t wake_ms = p->rules ? rules_wake_ms(p->rules) : INT64_MAX;
		if (wake_ms > until_ms && !play_execute_late(p))
			return 0;
		if (wake_ms > until_ms)
			continue;
		if (wake_ms <= p->now.ms && ++idle > IDLE_MOST)
			return err_set(e, UNKNOWN_ERROR,
			               "the rules wait for nothing: wake %lld, now %lld",
			               (long long)wake_ms, (long long)p->now.ms);
		p->now.ms = wake_ms > p->now.ms ? wake_ms : p->now.ms + 1;
	}
	return err_set(e, UNKNOWN_ERROR, "the rules do not settle");
}

/* The time goes on to the next timer that does something; GETs are nothing. */
static int play_wait(struct play *p, struct err *e)
{
	for (int i = 0; i < WAITS_MOST && p->rules && !strpbrk(str_c(&p->verbs), "CPD"); i++) {
		int64_t wake_ms = rules_wake_ms(p->rules);
		if (wake_ms == INT64_MAX)
			break;
		int64_t on_ms = wake_ms > p->now.ms ? wake_ms - p->now.ms : 0;
		p->now.ms += on_ms;
		p->now.wall_ms += on_ms;
		scene_set_time(&p->scene, p->now.wall_ms / 1000);
		if (play_settle(p, p->now.ms, e) < 0)
			return -1;
	}
	return 0;
}

int play_step(struct play *p, const json_t *step, struct err *e)
{
	struct scene *sc = &p->scene;
	bool wait = strcmp(reply_text(json_object_get(step, "stimulus"), "op"), "wait") == 0;
	p->step = (size_t)json_integer_value(json_object_get(step, "step"));
	str_done(&p->verbs);
	p->verbs = STR_INIT(VERBS_MOST);
	int64_t before_s = sc->now_s;
	if (!p->rules && !sc->down)
		play_start(p, false);
	if (!p->ahead && scene_play(sc, step, e) < 0)
		return -1;
	p->ahead = false;
	p->now.ms += (sc->now_s - before_s) * 1000;
	p->now.wall_ms = sc->now_s * 1000;
	if (p->tells)
		fprintf(stderr, "step %zu: %s\n", p->step,
		        reply_text(json_object_get(step, "stimulus"), "op"));
	if (sc->down)
		play_stop(p);
	else if (sc->started)
		play_start(p, false);
	if (play_is_due(p) && p->rules) {
		p->server.keeps = !fault_kills(p->fault.kind);
		p->faulted = play_disturb(p);
	}
	if (wait && play_wait(p, e) < 0)
		return -1;
	return play_settle(p, p->now.ms + SETTLE_MS, e);
}

void play_begin(struct play *p, const struct framework_config *config, const json_t *trace)
{
	*p = (struct play){ .config = config, .verbs = STR_INIT(VERBS_MOST), .random = 1 };
	scene_begin(&p->scene, trace);
	server_begin(&p->server, &p->scene);
	TAILQ_INIT(&p->open);
	TAILQ_INIT(&p->late);
	p->server.keeps = p->server.announces = true;
	p->now = (struct rules_time){ .ms = 1000000, .wall_ms = p->scene.now_s * 1000 };
}

void play_end(struct play *p)
{
	play_stop(p);
	requests_clear(&p->late);
	server_end(&p->server);
	scene_end(&p->scene);
	str_done(&p->verbs);
}
