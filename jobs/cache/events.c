/*
 * A hash table has a group of at most EVENTS_PER_FRAMEWORK Events for each Framework.  A heap over
 * all Events has the oldest on top, which is dropped first; lists are ordered by names, not by
 * time.
 */
#include "jobs/cache/events.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/image/image.h"
#include "base/posix/lock.h"

enum { BUCKETS = 4096 };

struct event_group;

struct event_record {
	struct heap_item due; /* first; its time is that of the event */
	struct event event;   /* its texts are in `texts` */
	struct event_group *group;
	size_t bytes;
	unsigned list; /* number of the last list that had it */
	char texts[];
};

struct event_group {
	struct event_group *next; /* in its bucket */
	size_t n;
	bool refused;                                 /* has had an Event that is a refusal */
	struct event_record *v[EVENTS_PER_FRAMEWORK]; /* unordered */
	size_t name_n;
	char name[];
};

struct events {
	pthread_mutex_t lock; /* protects all below */
	struct hash_key key;
	struct event_group *buckets[BUCKETS];
	struct heap heap; /* the oldest record is the first */
	size_t bytes, max_bytes;
	size_t refused; /* groups */
	unsigned list;
	char *trouble;
};

static struct event_record *events_record(const struct heap *h, size_t i)
{
	return (struct event_record *)(void *)h->v[i];
}

/* ---- groups ---------------------------------------------------------------------------------- */

static struct event_group **events_group_at(struct events *e, struct span name)
{
	struct event_group **g = &e->buckets[hash_bytes(&e->key, name) % BUCKETS];
	while (*g && !span_eq((struct span){ (*g)->name, (*g)->name_n }, name))
		g = &(*g)->next;
	return g;
}

static struct event_record *events_find(const struct event_group *g, struct span uid)
{
	for (size_t i = 0; g && i < g->n; i++) {
		if (span_eq(g->v[i]->event.uid, uid))
			return g->v[i];
	}
	return NULL;
}

/* Frees its group, too, if that is empty then. */
static void events_drop(struct events *e, struct event_record *r)
{
	struct event_group *g = r->group;
	size_t i = 0;
	while (g->v[i] != r)
		i++;
	g->v[i] = g->v[--g->n];
	heap_remove(&e->heap, &r->due);
	e->bytes -= r->bytes;
	free(r);
	if (g->n > 0)
		return;
	*events_group_at(e, (struct span){ g->name, g->name_n }) = g->next;
	e->refused -= g->refused;
	e->bytes -= sizeof(*g) + g->name_n;
	free(g);
}

/* ---- records --------------------------------------------------------------------------------- */

enum { TEXTS = 10 };
static const size_t TEXT_AT[TEXTS] = {
	offsetof(struct event, uid),       offsetof(struct event, framework),
	offsetof(struct event, role),      offsetof(struct event, pod),
	offsetof(struct event, pod_uid),   offsetof(struct event, type),
	offsetof(struct event, reason),    offsetof(struct event, message),
	offsetof(struct event, component), offsetof(struct event, host),
};

static struct span *events_text(struct event *e, size_t i)
{
	return (struct span *)(void *)((char *)e + TEXT_AT[i]);
}

static size_t event_texts_size(struct event *e)
{
	size_t n = 0;
	for (size_t i = 0; i < TEXTS; i++)
		n += events_text(e, i)->n;
	return n;
}

/* Copies the texts to `to`, which has event_texts_size() bytes. */
static void event_move_texts(struct event *e, char *to)
{
	for (size_t i = 0; i < TEXTS; i++) {
		struct span *text = events_text(e, i);
		if (text->n)
			memcpy(to, text->p, text->n);
		text->p = to;
		to += text->n;
	}
}

static void events_keep(struct events *e, struct event *event)
{
	struct event_group **at = events_group_at(e, event->framework);
	struct event_record *old = events_find(*at, event->uid);
	if (!old && *at && (*at)->n == EVENTS_PER_FRAMEWORK) { /* the oldest goes */
		old = (*at)->v[0];
		for (size_t i = 1; i < (*at)->n; i++)
			if ((*at)->v[i]->event.last_ms < old->event.last_ms)
				old = (*at)->v[i];
	}
	if (old)
		events_drop(e, old); /* may free the group */
	at = events_group_at(e, event->framework);
	if (!*at) {
		struct span name = event->framework;
		*at = xcalloc(1, sizeof(**at) + name.n);
		(*at)->name_n = name.n;
		memcpy((*at)->name, name.p, name.n);
		e->bytes += sizeof(**at) + name.n;
	}
	struct event_group *g = *at;
	size_t bytes = sizeof(struct event_record) + event_texts_size(event);
	struct event_record *r = xmalloc(bytes);
	*r = (struct event_record){
		.event = *event, .group = g, .list = e->list, .bytes = bytes + sizeof(void *)
	};
	event_move_texts(&r->event, r->texts);
	g->v[g->n++] = r;
	if (!g->refused && event_is_refusal(event)) {
		g->refused = true;
		e->refused++;
	}
	e->bytes += r->bytes;
	heap_put(&e->heap, &r->due, event->last_ms);
	while (e->bytes > e->max_bytes && e->heap.n > 0)
		events_drop(e, events_record(&e->heap, 0));
}

/* ---- interface ------------------------------------------------------------------------------- */

struct events *events_new(size_t max_bytes)
{
	struct events *e = xcalloc(1, sizeof(*e));
	(void)pthread_mutex_init(&e->lock, NULL); /* cannot fail with default attributes */
	e->key = hash_key_new();
	e->max_bytes = max_bytes;
	e->trouble = xstrdup("they have not been listed yet");
	return e;
}

void events_free(struct events *e)
{
	if (!e)
		return;
	while (e->heap.n > 0)
		events_drop(e, events_record(&e->heap, e->heap.n - 1));
	free(e->heap.v);
	free(e->trouble);
	(void)pthread_mutex_destroy(&e->lock);
	free(e);
}

void events_change(struct events *e, struct span object, bool there)
{
	ARENA_AUTO arena = { 0 };
	struct event event;
	if (!event_read(object, &arena, &event))
		return;
	if (there) {
		events_add(e, &event);
		return;
	}
	LOCK_AUTO(&e->lock);
	struct event_record *r = events_find(*events_group_at(e, event.framework), event.uid);
	if (r)
		events_drop(e, r);
}

void events_add(struct events *e, const struct event *event)
{
	struct event copy = *event;
	LOCK_AUTO(&e->lock);
	events_keep(e, &copy);
}

/* Begins a list: the events of the list get its number. */
void events_begin(struct events *e)
{
	LOCK_AUTO(&e->lock);
	e->list++;
}

/* Events that have another number are gone. */
void events_end(struct events *e)
{
	LOCK_AUTO(&e->lock);
	/* The last record takes the place of a dropped one, so the same place is checked again. */
	for (size_t i = e->heap.n; i-- > 0;) {
		while (i < e->heap.n && events_record(&e->heap, i)->list != e->list)
			events_drop(e, events_record(&e->heap, i));
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

static int events_compare(const void *a, const void *b)
{
	const struct event *x = a;
	const struct event *y = b;
	if (x->last_ms != y->last_ms)
		return x->last_ms < y->last_ms ? 1 : -1;
	size_t n = x->uid.n < y->uid.n ? x->uid.n : y->uid.n;
	int c = memcmp(x->uid.p, y->uid.p, n); /* for a stable order */
	return c ?: (x->uid.n > y->uid.n) - (x->uid.n < y->uid.n);
}

size_t events_of(struct events *e, struct span framework, struct arena *a, struct event **out)
{
	(void)pthread_mutex_lock(&e->lock);
	const struct event_group *g = *events_group_at(e, framework);
	size_t n = g ? g->n : 0;
	*out = ARENA_NEW(a, struct event, n ? n : 1);
	for (size_t i = 0; i < n; i++) {
		(*out)[i] = g->v[i]->event;
		event_move_texts(&(*out)[i], arena_alloc(a, event_texts_size(&(*out)[i]) + 1));
	}
	(void)pthread_mutex_unlock(&e->lock);
	qsort(*out, n, sizeof(**out), events_compare);
	return n;
}

/* Returns true if the event is the kubelet's message for a failed pull whose image reference is
 * refused. */
bool event_is_refusal(const struct event *e)
{
	bool pull =
	    span_is(e->reason, "Failed") && span_starts(e->message, "Failed to pull image ");
	return (pull || span_is(e->reason, "InspectFailed")) && image_is_refused(e->message);
}

size_t events_refusals(struct events *e, struct arena *a, struct span **out)
{
	size_t n = 0;
	LOCK_AUTO(&e->lock);
	*out = ARENA_NEW(a, struct span, e->refused + 1);
	for (size_t i = 0; i < BUCKETS && n < e->refused; i++) {
		for (const struct event_group *g = e->buckets[i]; g; g = g->next) {
			if (g->refused)
				(*out)[n++] = arena_span(a, (struct span){ g->name, g->name_n });
		}
	}
	return n;
}

void events_note_trouble(struct events *e, const char *why)
{
	LOCK_AUTO(&e->lock);
	free(e->trouble);
	e->trouble = why ? xstrdup(why) : NULL;
}

/* A copy, as the text may be replaced at any time. */
const char *events_problem(struct events *e, struct arena *a)
{
	LOCK_AUTO(&e->lock);
	return e->trouble ? arena_dup(a, span_of(e->trouble)) : NULL;
}

/*
 * The count and the times of an Event have two forms: count, firstTimestamp and lastTimestamp
 * (core/v1: the kubelet), or eventTime and series (events.k8s.io: schedulers since 1.19).
 */

enum { PART_MAX = 63, INDEX_MAX = 9999 };

/* Takes the text before the next '-', and the '-'. */
static bool event_take_name_part(struct span *rest, struct span *part)
{
	size_t n = 0;
	while (n < rest->n && is_lower_alnum(rest->p[n]))
		n++;
	if (n == 0 || n > PART_MAX || n == rest->n || rest->p[n] != '-')
		return false;
	*part = (struct span){ rest->p, n };
	*rest = (struct span){ rest->p + n + 1, rest->n - n - 1 };
	return true;
}

static struct span events_text_of(struct span object, const char *key, struct arena *a)
{
	return span_cut(scan_text(scan_get(object, key), a), EVENT_TEXT_MAX);
}

static void read_times(struct span object, struct event *out)
{
	struct span series = scan_get(object, "series");
	int64_t made = 0;
	int64_t at = 0;
	(void)scan_time_ms(scan_path(object, "metadata", "creationTimestamp"), &made);
	if (!scan_time_ms(scan_get(object, "eventTime"), &at))
		at = made;
	out->first_ms = at;
	(void)scan_time_ms(scan_get(object, "firstTimestamp"), &out->first_ms);
	out->last_ms = out->first_ms;
	(void)(scan_time_ms(scan_get(object, "lastTimestamp"), &out->last_ms) ||
	       scan_time_ms(scan_get(series, "lastObservedTime"), &out->last_ms));
	out->count = 1;
	(void)(scan_int(scan_get(object, "count"), 1, INT32_MAX, &out->count) ||
	       scan_int(scan_get(series, "count"), 1, INT32_MAX, &out->count));
}

bool event_read(struct span object, struct arena *a, struct event *out)
{
	struct span involved = scan_get(object, "involvedObject");
	struct span source = scan_get(object, "source");
	*out = (struct event){ .uid = events_text_of(scan_get(object, "metadata"), "uid", a),
		               .pod = events_text_of(involved, "name", a) };
	/* The parts of a pod's name FRAMEWORK-ROLE-INDEX. */
	struct span index = out->pod;
	bool named = event_take_name_part(&index, &out->framework) &&
	             event_take_name_part(&index, &out->role) && index.n > 0 &&
	             is_digit(index.p[0]) && (index.n == 1 || index.p[0] != '0') &&
	             parse_i64(index, 0, INDEX_MAX, &out->index) == 0;
	struct span kind = events_text_of(involved, "kind", a);
	if (span_is(kind, "Framework")) {
		out->framework = out->pod;
		out->pod = out->role = SPAN("");
		out->index = -1;
		named = out->framework.n > 0;
	} else if (!span_is(kind, "Pod")) {
		return false;
	}
	if (!named || out->uid.n == 0)
		return false;
	out->pod_uid = events_text_of(involved, "uid", a);
	out->type = events_text_of(object, "type", a);
	out->reason = events_text_of(object, "reason", a);
	out->message = span_cut(scan_text(scan_get(object, "message"), a), EVENT_MESSAGE_MAX);
	out->component = events_text_of(source, "component", a);
	if (out->component.n == 0)
		out->component = events_text_of(object, "reportingComponent", a);
	out->host = events_text_of(source, "host", a);
	read_times(object, out);
	return true;
}
