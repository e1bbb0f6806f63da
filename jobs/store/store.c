/* The part of the store that is common to all backends: queues, deadlines, callbacks. */
#include "jobs/store/store.h"

#include <assert.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "jobs/store/store_internal.h"

static const int64_t NEVER = INT64_MAX;

bool store_is_outdated(enum store_outcome outcome)
{
	return outcome == STORE_EXISTS || outcome == STORE_CONFLICT || outcome == STORE_NOT_FOUND ||
	       outcome == STORE_AMBIGUOUS;
}

static int64_t store_earlier(int64_t a, int64_t b)
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
		.at_once = limits->in_flight,
		.wake_ms = NEVER,
	};
	TAILQ_INIT(&s->fresh.users);
}

void store_done(struct store *s)
{
	assert(store_pending(s) == 0);
	free(s->namespace_name);
}

void store_count(struct store *s, struct store_counts *c)
{
	s->counts = c;
}

/* outcome: or STORE_CALL_AGAIN. */
static void store_count_call(struct store *s, const struct pending *p, unsigned outcome)
{
	struct store_counts *c = s->counts;
	if (!c)
		return;
	counter_add(&c->calls[p->r.verb][outcome], 1);
	if (p->started)
		histogram_add(&c->latency[p->r.verb], clock_us() - p->started_us);
}

void store_finish(struct store *s, struct pending *p, const struct store_reply *reply)
{
	store_count_call(s, p, reply->outcome);
	if (p->started)
		s->in_flight--;
	fair_queue_leave(&s->fresh, p);
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

static void store_wait_until(struct store *s, struct pending *p, int64_t due_ms)
{
	p->due_ms = due_ms;
	pending_append(&s->later, p);
	s->wake_ms = store_earlier(s->wake_ms, store_earlier(due_ms, p->r.deadline_ms));
}

/* A try without a result is counted, too. */
void store_later(struct store *s, struct pending *p, int64_t due_ms)
{
	assert(p->started);
	store_count_call(s, p, STORE_CALL_AGAIN);
	p->started = false;
	s->in_flight--;
	store_wait_until(s, p, due_ms);
}

/* A pause is never shortened. */
void store_slow(struct store *s, size_t at_once, int64_t until_ms)
{
	s->at_once = at_once < s->limits.in_flight ? at_once : s->limits.in_flight;
	if (until_ms > s->paused_until_ms)
		s->paused_until_ms = until_ms;
}

/* ---- the queue --------------------------------------------------------------------- */

static size_t store_waiting(const struct store *s)
{
	return s->urgent.n + s->fresh.n + s->later.n;
}

/* Returns the reason why a new request of this user is refused, or NULL. */
static const char *store_no_room(const struct store *s, const char *user)
{
	if (store_waiting(s) >= s->limits.queue)
		return "too many requests are waiting for the API server";
	if (user != NULL && s->limits.per_user > 0 &&
	    fair_queue_held(&s->fresh, user) >= s->limits.per_user)
		return "too many requests of this user are waiting for the API server";
	return NULL;
}

/* A single job is allowed, however large. */
bool store_has_room(const struct store *s, const char *user)
{
	return !s->closing && store_no_room(s, user) == NULL;
}

void store_request(struct store *s, const struct store_request *r)
{
	struct pending *p = xcalloc(1, sizeof(*p));
	p->r = *r;
	const char *why = r->urgent ? NULL : store_no_room(s, r->user);
	if (s->closing || why != NULL) {
		p->full = !s->closing;
		p->why = why;
		pending_append(&s->refused, p);
		return;
	}
	bool now = r->not_before_ms == 0;
	if (!r->urgent)
		fair_queue_join(&s->fresh, p, now);
	else if (now)
		pending_append(&s->urgent, p);
	if (now)
		s->wake_ms = store_earlier(s->wake_ms, r->deadline_ms);
	else
		store_wait_until(s, p, r->not_before_ms);
}

/* Gives up a request that the backend does not have. */
static void store_give_up(struct store *s, struct pending *p)
{
	enum store_outcome outcome = STORE_BUSY;
	const char *why = p->why;
	if (p->full) {
		outcome = STORE_FULL;
	} else if (p->maybe_executed) {
		outcome = STORE_AMBIGUOUS;
	} else if (s->closing) {
		why = "this server is shutting down";
	}
	store_fail(s, p, outcome, why ? why : "no answer came in time");
}

static void store_give_up_all(struct store *s, struct pending_list *l)
{
	struct pending_list all = pending_take_all(l);
	struct pending *p;
	while ((p = pending_take(&all)) != NULL)
		store_give_up(s, p);
}

void store_reap(struct store *s)
{
	struct pending_list *lists[] = { &s->urgent, &s->later };
	struct pending_list expired = { 0 };
	s->ops->poll(s);
	store_give_up_all(s, &s->refused);
	int64_t now = clock_ms();
	if (now < s->wake_ms)
		return;
	/* Sorts waiting requests into expired, due and still waiting. */
	s->wake_ms = fair_queue_expire(&s->fresh, now, &expired);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct pending_list all = pending_take_all(lists[i]);
		struct pending *p;
		while ((p = pending_take(&all)) != NULL) {
			bool is_later = lists[i] == &s->later;
			if (p->r.deadline_ms <= now) {
				pending_append(&expired, p);
				continue;
			}
			/* Repeated requests precede new ones. */
			bool due = is_later && p->due_ms <= now;
			pending_append(due ? &s->urgent : lists[i], p);
			s->wake_ms = store_earlier(s->wake_ms, p->r.deadline_ms);
			if (is_later && !due)
				s->wake_ms = store_earlier(s->wake_ms, p->due_ms);
		}
	}
	store_give_up_all(s, &expired);
}

static bool store_can_start(const struct store *s, int64_t now)
{
	return s->in_flight < s->at_once && s->urgent.n + s->fresh.n > 0 &&
	       now >= s->paused_until_ms;
}

void store_start(struct store *s)
{
	int64_t now = clock_ms();
	while (store_can_start(s, now)) {
		struct pending *p =
		    s->urgent.n ? pending_take(&s->urgent) : fair_queue_take(&s->fresh);
		p->started = true;
		p->started_us = clock_us();
		p->tries++;
		s->in_flight++;
		s->ops->begin(s, p);
	}
	if (s->counts) {
		counter_set(&s->counts->queued, store_waiting(s));
		counter_set(&s->counts->in_flight, s->in_flight);
	}
}

int store_fd(const struct store *s)
{
	return s->ops->fd(s);
}

int store_timeout_ms(const struct store *s)
{
	int64_t now = clock_ms();
	if (s->refused.n > 0 || store_can_start(s, now))
		return 0;
	int64_t wake = s->wake_ms;
	if (s->urgent.n + s->fresh.n > 0 && s->paused_until_ms > now)
		wake = store_earlier(wake, s->paused_until_ms);
	int backend = s->ops->timeout_ms ? s->ops->timeout_ms(s) : -1;
	if (wake == NEVER)
		return backend;
	int64_t left = wake <= now ? 0 : wake - now;
	int ours = left > INT32_MAX ? INT32_MAX : (int)left;
	return backend >= 0 && backend < ours ? backend : ours;
}

bool store_is_atomic(const struct store *s)
{
	return s->ops->atomic;
}

size_t store_pending(const struct store *s)
{
	return store_waiting(s) + s->refused.n + s->in_flight;
}

void store_free(struct store *s)
{
	if (s == NULL)
		return;
	s->closing = true;
	store_give_up_all(s, &s->urgent);
	struct pending *p;
	while ((p = fair_queue_take(&s->fresh)) != NULL)
		store_give_up(s, p);
	store_give_up_all(s, &s->later);
	s->ops->abort(s);
	while (s->refused.n > 0) /* callbacks can make requests */
		store_give_up_all(s, &s->refused);
	s->ops->free(s);
}
