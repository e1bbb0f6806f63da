/*
 * The part of the store that is the same for every backend: who waits, who is
 * next, and who has waited too long.
 */
#include "k8s/store.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "k8s/backend.h"

static const int64_t NEVER = INT64_MAX;

int64_t store_now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void append(struct pending_list *l, struct pending *p)
{
	p->next = NULL;
	if (l->head != NULL)
		l->last->next = p;
	else
		l->head = p;
	l->last = p;
	l->n++;
}

static struct pending *take(struct pending_list *l)
{
	struct pending *p = l->head;
	if (p != NULL) {
		l->head = p->next;
		l->n--;
	}
	return p;
}

static struct pending_list take_all(struct pending_list *l)
{
	struct pending_list all = *l;
	*l = (struct pending_list){ 0 };
	return all;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* ---- for the backends -------------------------------------------------------------- */

void store_init(struct store *s, const struct store_ops *ops, const char *namespace_name,
                const struct store_limits *limits)
{
	*s = (struct store){
		.ops = ops,
		.namespace_name = xstrdup(namespace_name),
		.limits = *limits,
		.wake_ms = NEVER,
	};
}

void store_done(struct store *s)
{
	assert(store_pending(s) == 0);
	free(s->namespace_name);
}

void store_finish(struct store *s, struct pending *p, const struct store_reply *reply)
{
	if (p->started)
		s->in_flight--;
	p->r.done(p->r.arg, reply);
	free(p);
}

void store_fail(struct store *s, struct pending *p, enum store_outcome outcome, const char *message)
{
	struct store_reply reply = {
		.outcome = outcome,
		.body = SPAN(""),
		.uid = SPAN(""),
		.resource_version = SPAN(""),
		.message = span_of(message),
	};
	store_finish(s, p, &reply);
}

static void wait_until(struct store *s, struct pending *p, int64_t due_ms)
{
	p->due_ms = due_ms;
	append(&s->later, p);
	s->wake_ms = earlier(s->wake_ms, earlier(due_ms, p->r.deadline_ms));
}

void store_later(struct store *s, struct pending *p, int64_t due_ms)
{
	assert(p->started);
	p->started = false;
	s->in_flight--;
	wait_until(s, p, due_ms);
}

void store_pause(struct store *s, int64_t until_ms)
{
	if (until_ms > s->paused_until_ms)
		s->paused_until_ms = until_ms;
}

/* ---- the queue --------------------------------------------------------------------- */

static size_t waiting(const struct store *s)
{
	return s->urgent.n + s->fresh.n + s->later.n;
}

bool store_has_room(const struct store *s)
{
	return !s->closing && waiting(s) < s->limits.queue;
}

void store_request(struct store *s, const struct store_request *r)
{
	struct pending *p = xcalloc(1, sizeof(*p));
	p->r = *r;
	if (s->closing || (!r->urgent && !store_has_room(s))) {
		p->full = !s->closing;
		append(&s->refused, p);
		return;
	}
	if (r->not_before_ms > 0) {
		wait_until(s, p, r->not_before_ms);
		return;
	}
	append(r->urgent ? &s->urgent : &s->fresh, p);
	s->wake_ms = earlier(s->wake_ms, r->deadline_ms);
}

/* Give up p, which the backend has not got. */
static void give_up(struct store *s, struct pending *p)
{
	enum store_outcome outcome = STORE_BUSY;
	const char *why = p->why;
	if (p->full) {
		outcome = STORE_FULL;
		why = "too many requests are waiting for the API server";
	} else if (p->maybe_executed) {
		outcome = STORE_AMBIGUOUS;
	} else if (s->closing) {
		why = "this server is shutting down";
	}
	store_fail(s, p, outcome, why ? why : "no answer came in time");
}

static void give_up_all(struct store *s, struct pending_list l)
{
	struct pending *p;
	while ((p = take(&l)) != NULL)
		give_up(s, p);
}

/* Sort what waits into: too late, due now, still waiting. */
static void sweep(struct store *s, int64_t now)
{
	struct pending_list *lists[] = { &s->urgent, &s->fresh, &s->later };
	struct pending_list expired = { 0 };
	s->wake_ms = NEVER;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct pending_list all = take_all(lists[i]);
		struct pending *p;
		while ((p = take(&all)) != NULL) {
			bool is_later = lists[i] == &s->later;
			if (p->r.deadline_ms <= now) {
				append(&expired, p);
				continue;
			}
			/* What has waited once goes before what is new. */
			bool due = is_later && p->due_ms <= now;
			append(due ? &s->urgent : lists[i], p);
			s->wake_ms = earlier(s->wake_ms, p->r.deadline_ms);
			if (is_later && !due)
				s->wake_ms = earlier(s->wake_ms, p->due_ms);
		}
	}
	give_up_all(s, expired);
}

void store_reap(struct store *s)
{
	s->ops->poll(s);
	give_up_all(s, take_all(&s->refused));
	int64_t now = store_now_ms();
	if (now >= s->wake_ms)
		sweep(s, now);
}

static bool can_start(const struct store *s, int64_t now)
{
	return s->in_flight < s->limits.in_flight && s->urgent.n + s->fresh.n > 0 &&
	       now >= s->paused_until_ms;
}

void store_start(struct store *s)
{
	int64_t now = store_now_ms();
	while (can_start(s, now)) {
		struct pending *p = take(s->urgent.n ? &s->urgent : &s->fresh);
		p->started = true;
		p->tries++;
		s->in_flight++;
		s->ops->begin(s, p);
	}
}

int store_fd(const struct store *s)
{
	return s->ops->fd(s);
}

static int until(int64_t when, int64_t now)
{
	if (when <= now)
		return 0;
	return when - now > INT32_MAX ? INT32_MAX : (int)(when - now);
}

int store_timeout_ms(const struct store *s)
{
	int64_t now = store_now_ms();
	if (s->refused.n > 0 || can_start(s, now))
		return 0;
	int64_t wake = s->wake_ms;
	if (s->urgent.n + s->fresh.n > 0 && s->paused_until_ms > now)
		wake = earlier(wake, s->paused_until_ms);
	int backend = s->ops->timeout_ms(s);
	if (wake == NEVER)
		return backend;
	int ours = until(wake, now);
	return backend >= 0 && backend < ours ? backend : ours;
}

size_t store_pending(const struct store *s)
{
	return waiting(s) + s->refused.n + s->in_flight;
}

void store_free(struct store *s)
{
	if (s == NULL)
		return;
	s->closing = true;
	give_up_all(s, take_all(&s->urgent));
	give_up_all(s, take_all(&s->fresh));
	give_up_all(s, take_all(&s->later));
	s->ops->abort(s);
	while (s->refused.n > 0) /* what the callbacks asked for meanwhile */
		give_up_all(s, take_all(&s->refused));
	s->ops->free(s);
}
