/* Runs the thread of the controller: it waits for the Lease, hands events and answers to the rules,
 * and sends their requests. */
#include "k8s/controller/controller.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "jobs/store/paths.h"
#include "k8s/controller/object_queue.h"
#include "k8s/lease/lease.h"
#include "k8s/watch/reflector.h"

enum {
	LEASE_S = 15,
	LEASE_LEAST_MS = 1000, /* nothing is sent that near to the end of the Lease */
	REQUEST_MS = 10000,    /* the longest request */
	IN_FLIGHT = 64,        /* requests at once */
	QUEUE_MAX = 64 << 20,  /* bytes of events that wait for the rules */
	LIST_PAGE = 500,
	TURN_MS = 1000, /* the longest sleep of the loop */
	PAUSE_MS = 200, /* between looks at the Lease, without it */
	EVENTS_MS = 50, /* for events, in one round of the loop */
	DRAIN_MS = 500, /* for open answers, at the end */
	HANGS_MS = 30000,
	UNRENEWED_MS = 300000,
};

/* Workloads are followed when a Framework is in a queue of Kueue. */
enum { WORKLOADS = CONTROLLER_WATCHES - 1 };
static const enum object_kind WATCHED[CONTROLLER_WATCHES] = { KIND_FRAMEWORK, KIND_CONFIGMAP,
	                                                      KIND_POD, KIND_WORKLOAD };

enum { TROUBLE_NONE, TROUBLE_ABSENT /* the API server does not know the kind */, TROUBLE_OTHER };

/* A collection that is followed; its callbacks are called by the thread of the reflector. */
struct watched {
	struct controller *c;
	enum object_kind kind;
	struct reflector *reflector;
	bool listed;        /* the loop's: a list was complete */
	atomic_int trouble; /* TROUBLE_... */
	struct watch_counts *counts;
};

struct controller {
	struct controller_settings set;
	struct controller_counts *counts;
	pthread_t thread;
	bool started;
	int stop_fd, ended_fd;
	struct lease *lease;
	struct object_queue *queue;
	struct watched watched[CONTROLLER_WATCHES];
	/* All below: the thread. */
	struct store *store;
	struct rules *rules;
	struct notices notices;
	bool troubled; /* the Lease cannot be used: the Lease's thread */
	bool passive, stopping;
	unsigned term;     /* of the Lease */
	int kueue_trouble; /* that the rules know */
};

/* A request of the rules. */
struct sent_request {
	struct controller *c;
	void *of_rules;
};

static void controller_say(const struct controller *c, bool warn, const char *message,
                           const char *object, const char *reason)
{
	c->set.say(c->set.arg, &(struct controller_line){ warn, message, object, reason });
}

static struct rules_time controller_now(void)
{
	return (struct rules_time){ clock_ms(), clock_wall_ms() };
}

/* ---- health ---- */

const char *controller_unhealthy(const struct controller_counts *c, int64_t now_ms)
{
	uint64_t phase = counter_get(&c->phase);
	if (phase != CONTROLLER_ENDED && now_ms - (int64_t)counter_get(&c->turn_ms) > HANGS_MS)
		return "the loop of the controller hangs";
	if ((phase == CONTROLLER_LISTING || phase == CONTROLLER_LEADING) &&
	    now_ms - (int64_t)counter_get(&c->held_ms) > UNRENEWED_MS)
		return "the Lease of this leader could not be renewed for 5 minutes";
	return NULL;
}

const char *controller_unready(const struct controller_counts *c)
{
	switch ((enum controller_phase)counter_get(&c->phase)) {
	case CONTROLLER_LISTING:
		return "this leader does not know all objects yet";
	case CONTROLLER_ENDED:
		return "shutting down";
	case CONTROLLER_LEADING:
		if (counter_get(&c->rules.passive))
			return "another controller writes the Frameworks, so this one sends "
			       "nothing";
		break;
	case CONTROLLER_STANDBY:
		break;
	}
	return NULL;
}

/* ---- what the reflectors call ---- */

static void watched_note(struct watched *w, enum object_said said, struct span object)
{
	counter_set(&w->counts->seen_ms, (uint64_t)clock_ms());
	object_queue_put(w->c->queue, w->kind, said, object);
}

static void watched_begin(void *arg)
{
	watched_note(arg, OBJECT_LIST_BEGINS, SPAN(""));
}

static void watched_end(void *arg, int64_t version)
{
	const struct watched *w = arg;
	(void)version;
	counter_add(&w->counts->lists, 1);
	watched_note(arg, OBJECT_LIST_ENDS, SPAN(""));
}

static void watched_put(void *arg, struct span object)
{
	watched_note(arg, OBJECT_PUT, object);
}

static void watched_gone(void *arg, struct span object)
{
	watched_note(arg, OBJECT_GONE, object);
}

static void watched_seen(void *arg, int64_t version)
{
	struct watched *w = arg;
	(void)version;
	counter_set(&w->counts->seen_ms, (uint64_t)clock_ms());
}

static void watched_trouble(void *arg, const char *why, bool absent)
{
	struct watched *w = arg;
	counter_add(&w->counts->outages, why != NULL);
	atomic_store(&w->trouble, !why ? TROUBLE_NONE : absent ? TROUBLE_ABSENT : TROUBLE_OTHER);
	controller_say(w->c, why != NULL,
	               why ? "a collection cannot be followed; trying again"
	                   : "a collection is followed again",
	               resource_of(w->kind)->plural, why);
}

/* ---- requests ---- */

static void controller_notice(void *arg, const struct rules_notice *n)
{
	struct controller *c = arg;
	struct rules_time now = controller_now();
	if (c->stopping || !lease_is_held(c->lease, NULL) || !notices_take(&c->notices, n, &now))
		return;
	FREE_AUTO char *object = xasprintf("%s/%s", n->namespace_name, n->name);
	FREE_AUTO char *why = xasprintf("%s: %s", n->reason, n->message);
	controller_say(c, true, "a Framework has an Event", object, why);
}

static void controller_answered(void *arg, const struct store_reply *reply)
{
	struct sent_request *s = arg;
	struct rules_time now = controller_now();
	rules_answer(s->c->rules, &now, s->of_rules, reply);
	free(s);
}

static void controller_request(struct controller *c, struct store_request *r, int64_t deadline_ms)
{
	struct sent_request *s = xmalloc(sizeof(*s));
	*s = (struct sent_request){ c, r->arg };
	if (r->verb == STORE_CREATE || r->verb == STORE_PATCH)
		r->query = CONTROLLER_QUERY;
	r->deadline_ms = deadline_ms;
	r->done = controller_answered;
	r->arg = s;
	store_request(c->store, r);
}

/* Sends what the rules want now.  Returns the longest time until this is called again. */
static int64_t controller_send(struct controller *c)
{
	while (store_pending(c->store) < IN_FLIGHT) {
		struct store_request r;
		struct rules_time now = controller_now();
		int64_t left_ms = 0;
		if (!lease_is_held(c->lease, &left_ms) || left_ms < LEASE_LEAST_MS ||
		    lease_terms(c->lease) != c->term)
			return PAUSE_MS;
		counter_set(&c->counts->held_ms, (uint64_t)now.ms);
		if (!rules_next(c->rules, &now, &r)) {
			int64_t wake_ms = rules_wake_ms(c->rules);
			return wake_ms - now.ms < TURN_MS ? wake_ms - now.ms : TURN_MS;
		}
		controller_request(c, &r, now.ms + (left_ms < REQUEST_MS ? left_ms : REQUEST_MS));
	}
	return TURN_MS; /* an answer comes before */
}

/* ---- events ---- */

static void controller_list_ended(struct controller *c, enum object_kind kind)
{
	size_t listed = 0;
	for (size_t i = 0; i < WORKLOADS; i++) {
		c->watched[i].listed |= c->watched[i].kind == kind;
		listed += c->watched[i].listed;
	}
	if (listed < WORKLOADS || counter_get(&c->counts->phase) != CONTROLLER_LISTING)
		return;
	counter_set(&c->counts->phase, CONTROLLER_LEADING);
	controller_say(c, false, "all objects are known", NULL, NULL);
}

static void controller_take_one(struct controller *c, const struct queued_object *o)
{
	struct rules_time now = controller_now();
	struct span object = { o->text, o->n };
	switch (o->said) {
	case OBJECT_LIST_BEGINS:
		rules_list_begin(c->rules, o->kind);
		break;
	case OBJECT_LIST_ENDS:
		rules_list_end(c->rules, &now, o->kind);
		controller_list_ended(c, o->kind);
		break;
	case OBJECT_PUT:
		rules_put(c->rules, &now, o->kind, object);
		break;
	case OBJECT_GONE:
		rules_gone(c->rules, &now, o->kind, object);
		break;
	}
}

/* Takes what has come; the rest stays for the next round, so that answers do not wait long. */
static void controller_take_events(struct controller *c)
{
	int64_t end_ms = clock_ms() + EVENTS_MS;
	struct queued_object *o;
	while (clock_ms() < end_ms && (o = object_queue_take(c->queue))) {
		controller_take_one(c, o);
		free(o);
	}
}

/* Follows the i-th collection.  -1 and *e. */
static int controller_follow(struct controller *c, size_t i, struct err *e)
{
	struct watched *w = &c->watched[i];
	*w = (struct watched){ c, WATCHED[i], .counts = &c->counts->watches[i] };
	counter_set(&w->counts->seen_ms, (uint64_t)clock_ms());
	w->reflector = reflector_new(
	    &(struct reflector_settings){
		.login = c->set.login,
		.namespace_name = c->set.namespace_name,
		.kind = w->kind,
		.metadata = w->kind == KIND_CONFIGMAP,
		.selector = w->kind == KIND_FRAMEWORK ? NULL : "labelSelector=FC_FRAMEWORK_NAME",
		.page = LIST_PAGE,
		.max_object = RULES_OBJECT_MAX,
		.begin = watched_begin,
		.end = watched_end,
		.put = watched_put,
		.remove = watched_gone,
		.seen = watched_seen,
		.trouble = watched_trouble,
		.arg = w,
	    },
	    e);
	return w->reflector ? 0 : -1;
}

/* Workloads are followed from the first Framework on that needs them.  If they cannot be, the
 * reflector asks again each minute. */
static void controller_follow_kueue(struct controller *c)
{
	static const char *const WHY[] = {
		[TROUBLE_NONE] = NULL,
		[TROUBLE_ABSENT] = "Kueue 0.15 or later is not installed in this cluster",
		[TROUBLE_OTHER] =
		    "the controller cannot read Workloads of Kueue; its log says why, "
		    "and k8s/deploy/options/kueue has the rights",
	};
	ERR_AUTO e = { 0 };
	struct watched *w = &c->watched[WORKLOADS];
	struct rules_time now = controller_now();
	if (!rules_wants_workloads(c->rules))
		return;
	if (!w->reflector && !c->kueue_trouble && controller_follow(c, WORKLOADS, &e) < 0)
		controller_say(c, true, "Workloads cannot be followed", NULL, err_msg(&e));
	int trouble = w->reflector ? atomic_load(&w->trouble) : TROUBLE_OTHER;
	if (trouble == c->kueue_trouble)
		return;
	c->kueue_trouble = trouble;
	counter_set(&w->counts->seen_ms, trouble == TROUBLE_ABSENT ? 0 : (uint64_t)now.ms);
	rules_no_workloads(c->rules, &now, WHY[trouble]);
}

/* ---- the loop ---- */

/* Waits for an event, an answer or the order to stop. */
static void controller_wait(struct controller *c, int64_t most_ms)
{
	int store_ms = store_timeout_ms(c->store);
	struct pollfd fds[] = { { .fd = store_fd(c->store), .events = POLLIN },
		                { .fd = c->stopping ? -1 : object_queue_fd(c->queue),
		                  .events = POLLIN },
		                { .fd = c->stopping ? -1 : c->stop_fd, .events = POLLIN } };
	if (store_ms >= 0 && store_ms < most_ms)
		most_ms = store_ms;
	(void)poll(fds, ARRAY_SIZE(fds), most_ms > 0 ? (int)most_ms : 0); /* read below */
	c->stopping |= fds[2].revents != 0;
}

static void controller_lead(struct controller *c)
{
	while (!c->stopping) {
		counter_set(&c->counts->turn_ms, (uint64_t)clock_ms());
		store_reap(c->store);
		controller_take_events(c);
		controller_follow_kueue(c);
		int64_t ms = controller_send(c);
		store_start(c->store);
		if (counter_get(&c->counts->rules.passive) != c->passive) {
			c->passive = !c->passive;
			controller_say(c, c->passive,
			               c->passive
			                   ? "another controller writes the Frameworks: pausing"
			                   : "working again after the pause",
			               NULL, NULL);
		}
		if (lease_is_others(c->lease) || lease_terms(c->lease) != c->term) {
			controller_say(c, true, "another process has, or had, the Lease", NULL,
			               NULL);
			return;
		}
		controller_wait(c, ms);
	}
}

/* Waits for the Lease; false: the order to stop came before. */
static bool controller_stand_by(struct controller *c)
{
	struct pollfd stop = { .fd = c->stop_fd, .events = POLLIN };
	while (!lease_is_held(c->lease, NULL)) {
		counter_set(&c->counts->turn_ms, (uint64_t)clock_ms());
		if (poll(&stop, 1, PAUSE_MS) > 0)
			return false;
	}
	return true;
}

static uint64_t controller_random(void *arg)
{
	uint64_t n;
	(void)arg;
	random_bytes(&n, sizeof(n));
	return n;
}

static int64_t controller_clock_us(void *arg)
{
	(void)arg;
	return clock_us();
}

/* Makes the rules and follows the collections.  -1 and *e. */
static int controller_begin(struct controller *c, struct err *e)
{
	c->rules = rules_new(&(struct rules_settings){
	    .config = c->set.config,
	    .identity = lease_identity(c->lease),
	    .counts = &c->counts->rules,
	    .random = controller_random,
	    .clock_us = controller_clock_us,
	    .notice = controller_notice,
	    .arg = c,
	});
	c->term = lease_terms(c->lease);
	c->notices = (struct notices){ .store = c->store, .counts = &c->counts->notices };
	counter_set(&c->counts->held_ms, (uint64_t)clock_ms());
	for (size_t i = 0; i < WORKLOADS; i++)
		if (controller_follow(c, i, e) < 0)
			return -1;
	counter_set(&c->counts->phase, CONTROLLER_LISTING);
	return 0;
}

/* Open answers come, or their requests are given up. */
static void controller_drain(struct controller *c)
{
	int64_t end_ms = clock_ms() + DRAIN_MS;
	c->stopping = true;
	object_queue_close(c->queue);
	while (c->rules && rules_open(c->rules) > 0 && clock_ms() < end_ms) {
		store_start(c->store);
		controller_wait(c, end_ms - clock_ms());
		store_reap(c->store);
	}
	store_free(c->store);
	rules_free(c->rules);
	lease_free(TAKE(c->lease));
}

static void *controller_main(void *arg)
{
	struct controller *c = arg;
	ERR_AUTO e = { 0 };
	controller_say(c, false, "waiting for the Lease", lease_identity(c->lease), NULL);
	bool leads = controller_stand_by(c);
	if (leads && controller_begin(c, &e) < 0) {
		controller_say(c, true, "the collections cannot be followed", NULL, err_msg(&e));
	} else if (leads) {
		controller_say(c, false, "this process has the Lease: leading", NULL, NULL);
		controller_lead(c);
	}
	counter_set(&c->counts->phase, CONTROLLER_ENDED);
	controller_drain(c);
	(void)eventfd_write(c->ended_fd, 1); /* cannot overflow */
	return NULL;
}

/* ---- life ---- */

/* After each round of the Lease's thread. */
static void controller_lease_trouble(void *arg, const char *why)
{
	struct controller *c = arg;
	if (c->troubled == (why != NULL))
		return;
	c->troubled = why != NULL;
	controller_say(c, c->troubled,
	               why ? "the Lease cannot be used; trying again"
	                   : "the Lease can be used again",
	               CONTROLLER_NAME, why);
}

static int controller_set_up(struct controller *c, struct err *e)
{
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	const char *namespace_name = login_namespace(c->set.login);
	limits.per_user = 0;
	limits.in_flight = IN_FLIGHT;
	c->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->queue = object_queue_new(QUEUE_MAX, &c->counts->queue_bytes);
	if (c->stop_fd < 0 || c->ended_fd < 0 || !c->queue)
		return err_set(e, UNKNOWN_ERROR, "eventfd failed");
	c->store = store_api_new(c->set.login, namespace_name, &limits, e);
	if (!c->store)
		return -1;
	store_count(c->store, &c->counts->store);
	limits.in_flight = 1;
	struct store *store = store_api_new(c->set.login, namespace_name, &limits, e);
	if (!store || lease_start(c->lease, store, e) < 0)
		return -1;
	c->started = pthread_create(&c->thread, NULL, controller_main, c) == 0;
	return c->started ? 0 : err_set(e, UNKNOWN_ERROR, "a thread cannot be started");
}

struct controller *controller_new(const struct controller_settings *s, struct err *e)
{
	struct controller *c = xcalloc(1, sizeof(*c));
	c->set = *s;
	c->counts = s->counts;
	c->stop_fd = c->ended_fd = -1;
	counter_set(&c->counts->turn_ms, (uint64_t)clock_ms());
	c->lease = lease_new(&(struct lease_settings){
	    .name = CONTROLLER_NAME,
	    .duration_s = LEASE_S,
	    .trouble = controller_lease_trouble,
	    .arg = c,
	});
	if (controller_set_up(c, e) == 0)
		return c;
	controller_free(c);
	return NULL;
}

int controller_fd(const struct controller *c)
{
	return c->ended_fd;
}

void controller_free(struct controller *c)
{
	if (!c)
		return;
	if (c->stop_fd >= 0)
		(void)eventfd_write(c->stop_fd, 1); /* cannot overflow */
	if (c->started)
		(void)pthread_join(c->thread, NULL); /* cannot fail: joined once */
	else if (c->store)
		store_free(c->store);
	lease_free(c->lease);
	for (size_t i = 0; i < CONTROLLER_WATCHES; i++)
		reflector_free(c->watched[i].reflector);
	object_queue_free(c->queue);
	if (c->stop_fd >= 0)
		(void)close(c->stop_fd);
	if (c->ended_fd >= 0)
		(void)close(c->ended_fd);
	free(c);
}
