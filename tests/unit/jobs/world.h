#pragma once
/* A small API server in memory with the interface of a store: it has objects with uids, 409s and a
 * garbage collector, and fails at each request by its plan. */
#include "tests/unit/jobs/kit.h"

#include "jobs/store/paths.h"
#include "jobs/store/store_internal.h"

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
	NO_UID,     /* executed; the answer is no object */
	IN_THE_WAY, /* 409, of a change at the same moment; not executed */
	FAULT_MAX
};

/* An object that exists in the world of the test. */
struct thing {
	enum object_kind kind;
	char name[32], uid[16], version[16], id[40], owner[16], instance[16], key[32];
	bool exists, started, going;
	bool bare; /* without the label rest-lit/creating */
	bool held; /* with the annotation rest-lit/hold */
};

/* The clock of this API server, and when all that is there at first was made. */
enum { THINGS = 8, PLAN = 16, NOW_S = 1700000000, HOUR_S = 3600 };
#define MADE "2023-11-14T21:13:20Z" /* an hour before */

struct world {
	struct store s; /* first */
	struct thing things[THINGS];
	int uids, versions;
	size_t requests;
	enum fault plan[PLAN]; /* what happens to each request; the last one to all further */
	size_t conflicts;      /* so many PATCHes are answered 409 */
	size_t idle;           /* so many PATCHes are answered 200 and not executed */
	int stolen_at; /* before this request, another client replaces the Framework; -1: never */
	const char *stolen_key; /* with this key, and started; NULL: neither */
	int late_at; /* before this request, an abandoned one is executed: the POST of a job without
	                dependents, or the PATCH; 0: never */
	int64_t now_s;
	int64_t tick_s;     /* each request takes so long */
	bool strips_labels; /* of new objects */
	const char *uid;    /* uids in its answers; NULL: the real ones */
	size_t busy_gets;   /* foreign things vanish after so many POSTs that met them; 0: never */
	size_t verbs[STORE_READY + 1];
	struct {
		struct pending *p;
		struct store_reply reply;
	} answered[4];
	size_t n_answered;
	char text[512];
	char patched[512]; /* the last PATCH */
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
	(void)snprintf(t->version, sizeof(t->version), "%d", ++w->versions);
	(void)snprintf(t->id, sizeof(t->id), "%s", id);
	(void)snprintf(t->instance, sizeof(t->instance), "here");
	return t;
}

static void start(struct world *w, struct thing *t)
{
	t->started = true;
	(void)snprintf(t->version, sizeof(t->version), "%d", ++w->versions);
}

static size_t count(const struct world *w)
{
	size_t n = 0;
	for (size_t i = 0; i < THINGS; i++)
		n += w->things[i].exists;
	return n;
}

static void answer_with(struct world *w, struct store_reply *r, const struct thing *t, bool whole)
{
	(void)snprintf(w->text, sizeof(w->text),
	               "{\"metadata\":{\"creationTimestamp\":\"" MADE "\",\"annotations\":{"
	               "\"rest-lit/submission\":\"%s\",\"rest-lit/idempotency\":\"%s\"%s},"
	               "\"labels\":{\"rest-lit/instance\":\"%s\"%s}%s}%s}",
	               t->id, t->key, t->held ? ",\"rest-lit/hold\":\"{}\"" : "", t->instance,
	               t->started || t->bare ? "" : ",\"rest-lit/creating\":\"true\"",
	               t->going ? ",\"deletionTimestamp\":\"" MADE "\"" : "",
	               !whole       ? ""
	               : t->started ? ",\"spec\":{\"executionType\":\"Start\"}"
	                            : ",\"spec\":{\"executionType\":\"Create\"}");
	r->date_s = w->now_s;
	r->body = span_of(w->text);
	r->uid = span_of(w->uid ? w->uid : t->uid);
	r->resource_version = span_of(t->version);
	r->outcome = STORE_OK;
	r->status = 200;
}

static void create(struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	if (t != NULL && strcmp(t->id, ID) != 0 && w->busy_gets > 0 && --w->busy_gets == 0)
		t->exists = false; /* the garbage collector came by */
	for (size_t i = 0; i < q->n_with && t == NULL; i++)
		t = find(w, q->with[i].kind, q->with[i].name);
	if (t != NULL) {
		r->outcome = STORE_EXISTS;
		r->status = 409;
		return;
	}
	static struct thing made = { .uid = "dry" };
	t = q->dry_run ? &made : add(w, q->kind, q->name, ID);
	kept_copy(t->owner, sizeof(t->owner), q->body[1]);
	t->started = strstr(q->body[0].p, "\"Start\"") != NULL;
	t->held = strstr(q->body[0].p, "rest-lit/hold") != NULL;
	t->bare = w->strips_labels || strstr(q->body[0].p, "complete") != NULL;
	for (size_t i = 0; i < q->n_with && !q->dry_run; i++)
		kept_copy(add(w, q->with[i].kind, q->with[i].name, ID)->owner, sizeof(t->owner),
		          span_of(q->with[i].uid_at ? t->uid : ""));
	answer_with(w, r, t, q->whole);
}

static void get(struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	r->outcome = STORE_NOT_FOUND;
	if (t != NULL)
		answer_with(w, r, t, q->whole);
}

static void patch(struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	r->outcome = STORE_NOT_FOUND;
	if (t == NULL)
		return;
	r->outcome = STORE_CONFLICT;
	r->status = 409;
	if (w->conflicts > 0 && w->conflicts--)
		return;
	r->outcome = STORE_REFUSED; /* a test fails */
	r->status = 422;
	kept_copy(w->patched, sizeof(w->patched), q->body[0]);
	bool creates =
	    strstr(w->patched, "\"test\",\"path\":\"/spec/executionType\",\"value\":\"Create\"");
	if (strstr(w->patched, t->uid) == NULL || (creates && t->started))
		return;
	if (w->idle > 0 && w->idle--) {
		answer_with(w, r, t, q->whole);
		return;
	}
	assert_true(q->json_patch);
	assert_non_null(
	    strstr(w->patched, "\"remove\",\"path\":\"/metadata/labels/rest-lit~1creating\""));
	bool starts = strstr(w->patched, "\"replace\",\"path\":\"/spec/executionType\","
	                                 "\"value\":\"Start\"");
	assert_true(starts != t->held);
	start(w, t);
	t->started = starts;
	t->bare = true;
	answer_with(w, r, t, q->whole);
}

static void delete (struct world *w, const struct store_request *q, struct store_reply *r)
{
	struct thing *t = find(w, q->kind, q->name);
	r->outcome = STORE_NOT_FOUND;
	if (t == NULL)
		return;
	assert_non_null(q->uid);
	bool fits = strcmp(t->uid, q->uid) == 0 &&
	            (q->resource_version == NULL || strcmp(t->version, q->resource_version) == 0);
	r->outcome = fits ? STORE_OK : STORE_CONFLICT;
	if (r->outcome == STORE_CONFLICT || q->dry_run)
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
	case IN_THE_WAY:
		r->outcome = q->verb == STORE_CREATE ? STORE_EXISTS : STORE_CONFLICT;
		r->status = 409;
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
	if (w->stolen_at == (int)w->requests) {
		(void)snprintf(w->things[0].uid, sizeof(w->things[0].uid), "other");
		(void)snprintf(w->things[0].id, sizeof(w->things[0].id), OTHER_ID);
		(void)snprintf(w->things[0].key, sizeof(w->things[0].key), "%s",
		               w->stolen_key ?: "");
		w->things[0].started = w->stolen_key != NULL;
	}
	w->now_s += w->tick_s;
	if (w->late_at > 0 && w->late_at == (int)w->requests)
		start(w, w->things[0].exists ? &w->things[0] : add(w, KIND_FRAMEWORK, "f", ID));
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
	*w = (struct world){ .uids = 0, .stolen_at = -1, .now_s = NOW_S };
	store_init(&w->s, &OPS, "jobs", &limits);
}

static void world_done(struct world *w)
{
	store_free(&w->s);
}

/* A store that creates several objects in one request. */
static inline void world_be_atomic(struct world *w)
{
	static struct store_ops ops;
	ops = *w->s.ops;
	ops.atomic = true;
	w->s.ops = &ops;
}

/* A new world, to the end of the block. */
#define WORLD(w)                                                                                   \
	__attribute__((cleanup(world_done))) struct world w;                                       \
	world_init(&w)
