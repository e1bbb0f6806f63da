#pragma once
/*
 * A small API server in memory, behind the door of a store: it has objects with uids, 409s, a
 * garbage collector, and fails at each request as its plan says.
 */
#include "tests/unit/k8s/kit.h"

#include "k8s/backend.h"
#include "k8s/paths.h"

#define ID       "0123456789abcdef0123456789abcdef"
#define OTHER_ID "ffffffffffffffffffffffffffffffff"

enum fault {
	FINE,
	NOT_SENT,    /* never arrived */
	LOST,        /* executed, but no answer came */
	LOST_BEFORE, /* not executed, and no answer came */
	ERROR_500,   /* not executed, as it turns out */
	NO_RIGHT,
	INVALID,
	NO_UID, /* executed; the answer is no object */
	FAULT_MAX
};

/* An object that exists in the world of the test. */
struct thing {
	enum object_kind kind;
	char name[32], uid[16], id[40], owner[16], instance[16];
	bool exists, started;
};

enum { THINGS = 8, PLAN = 16 };

struct world {
	struct store s; /* first */
	struct thing things[THINGS];
	int uids;
	size_t requests;
	enum fault plan[PLAN]; /* what happens to each request; the last one to all further */
	size_t busy_gets; /* foreign things vanish after so many POSTs that met them; 0: never */
	size_t verbs[STORE_READY + 1];
	struct {
		struct pending *p;
		struct store_reply reply;
	} answered[4];
	size_t n_answered;
	char text[512];
};

/* ---- the world --------------------------------------------------------------------- */

static struct thing *find(struct world *w, enum object_kind kind, const char *name)
{
	for (size_t i = 0; i < THINGS; i++) {
		struct thing *t = &w->things[i];
		if (t->exists && t->kind == kind && strcmp(t->name, name) == 0)
			return t;
	}
	return NULL;
}

static struct thing *add(struct world *w, enum object_kind kind, const char *name, const char *id)
{
	struct thing *t = w->things;
	while (t->exists)
		t++;
	*t = (struct thing){ .kind = kind, .exists = true };
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	(void)snprintf(t->uid, sizeof(t->uid), "uid-%d", ++w->uids);
	(void)snprintf(t->id, sizeof(t->id), "%s", id);
	(void)snprintf(t->instance, sizeof(t->instance), "here");
	return t;
}

static size_t count(const struct world *w)
{
	size_t n = 0;
	for (size_t i = 0; i < THINGS; i++)
		n += w->things[i].exists;
	return n;
}

static void answer_with(struct world *w, struct store_reply *r, const struct thing *t)
{
	(void)snprintf(w->text, sizeof(w->text),
	               "{\"metadata\":{\"annotations\":{\"rest-lit/submission\":\"%s\"},"
	               "\"labels\":{\"rest-lit/instance\":\"%s\"}}}",
	               t->id, t->instance);
	r->body = span_of(w->text);
	r->uid = span_of(t->uid);
	r->outcome = STORE_OK;
	r->status = 200;
}

static void create(struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	if (t != NULL && strcmp(t->id, ID) != 0 && w->busy_gets > 0 && --w->busy_gets == 0)
		t->exists = false; /* the garbage collector came by */
	if (t != NULL) {
		r->outcome = STORE_EXISTS;
		r->status = 409;
		return;
	}
	static struct thing made = { .uid = "dry" };
	t = q->dry_run ? &made : add(w, q->kind, q->name, ID);
	kept_copy(t->owner, sizeof(t->owner), q->body[1]);
	answer_with(w, r, t);
}

static void get(struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	r->outcome = STORE_NOT_FOUND;
	if (t != NULL)
		answer_with(w, r, t);
}

static void patch(struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	r->outcome = STORE_NOT_FOUND;
	if (t == NULL)
		return;
	assert_non_null(strstr(q->body[0].p, t->uid));
	assert_non_null(strstr(q->body[0].p, "\"executionType\":\"Start\""));
	t->started = true;
	answer_with(w, r, t);
}

static void delete (struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	r->outcome = STORE_NOT_FOUND;
	if (t == NULL)
		return;
	assert_non_null(q->uid);
	r->outcome = strcmp(t->uid, q->uid) == 0 ? STORE_OK : STORE_CONFLICT;
	if (r->outcome == STORE_CONFLICT)
		return;
	t->exists = false;
	for (size_t i = 0; i < THINGS; i++) { /* as the garbage collector does */
		if (strcmp(w->things[i].owner, t->uid) == 0)
			w->things[i].exists = false;
	}
}

static void execute(struct world *w, const struct store_request *q, struct store_reply *r)
{
	static void (*const VERBS[])(struct world *, const struct store_request *,
	                             struct store_reply *) = {
		[STORE_CREATE] = create,
		[STORE_GET] = get,
		[STORE_PATCH] = patch,
		[STORE_DELETE] = delete,
	};
	VERBS[q->verb](w, q, r);
}

static void apply(struct world *w, enum fault fault, const struct store_request *q,
                  struct store_reply *r)
{
	if (fault == FINE || fault == LOST || fault == NO_UID)
		execute(w, q, r);
	if (fault == FINE)
		return;
	bool reads = q->verb == STORE_GET;
	*r = (struct store_reply){ .body = SPAN(""), .uid = SPAN(""), .message = SPAN("fault") };
	switch (fault) {
	case NOT_SENT:
		r->outcome = STORE_BUSY;
		break;
	case LOST:
	case LOST_BEFORE:
		r->outcome = reads ? STORE_BUSY : STORE_AMBIGUOUS;
		break;
	case ERROR_500:
		r->outcome = STORE_AMBIGUOUS;
		r->status = 500;
		break;
	case NO_RIGHT:
	case INVALID:
		r->outcome = STORE_REFUSED;
		r->status = fault == NO_RIGHT ? 403 : 422;
		break;
	case NO_UID:
	case FINE:
	case FAULT_MAX:
		r->outcome = STORE_OK;
		break;
	}
}

static void world_begin(struct store *s, struct pending *p)
{
	struct world *w = (struct world *)s;
	size_t i = w->requests < PLAN ? w->requests : PLAN - 1;
	struct store_reply *r = &w->answered[w->n_answered].reply;
	*r = (struct store_reply){ .body = SPAN(""), .uid = SPAN(""), .message = SPAN("") };
	w->requests++;
	w->verbs[p->r.verb]++;
	assert_true(w->requests < 200);
	assert_true(segment_ok(p->r.name));
	apply(w, w->plan[i], &p->r, r);
	w->answered[w->n_answered++].p = p;
}

static void world_poll(struct store *s)
{
	struct world *w = (struct world *)s;
	while (w->n_answered > 0) {
		w->n_answered--;
		store_finish(s, w->answered[w->n_answered].p, &w->answered[w->n_answered].reply);
	}
}

static int world_fd(const struct store *s)
{
	(void)s;
	return -1;
}

static void world_free(struct store *s)
{
	store_done(s);
}

static void world_init(struct world *w)
{
	static const struct store_ops OPS = {
		.begin = world_begin,
		.poll = world_poll,
		.fd = world_fd,
		.timeout_ms = world_fd,
		.abort = world_poll,
		.free = world_free,
	};
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	*w = (struct world){ .uids = 0 };
	store_init(&w->s, &OPS, "jobs", &limits);
}
