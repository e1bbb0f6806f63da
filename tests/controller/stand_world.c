/* What the stand-in knows of the objects, and what it does with each next. */
#include <stdlib.h>

#include "base/hash.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "tests/controller/stand.h"

static const int64_t NEVER = INT64_MAX;
#define FOREGROUND "foregroundDeletion"

enum {
	LOST_MS = 5000, /* an event of a request that succeeded is not awaited longer */
	AGAIN_MS = 300, /* after a request that failed */
	NAMES_BYTES = 1 << 20,
};

static void thing_look(struct stand *s, struct thing *t);

/* ---- the table ---- */

static struct thing **thing_place(struct stand *s, struct span uid)
{
	static const struct hash_key KEY = { { 1, 2 } };
	struct thing **at = &s->bucket[hash_bytes(&KEY, uid) % THING_BUCKETS];
	while (*at && !span_is(uid, (*at)->uid))
		at = &(*at)->chain;
	return at;
}

static struct thing *thing_get(struct stand *s, struct span uid)
{
	struct thing **at = thing_place(s, uid);
	if (!*at) {
		*at = xcalloc(1, sizeof(**at));
		(*at)->uid = xstrndup(uid.p, uid.n);
		LIST_INIT(&(*at)->dependents);
	}
	return *at;
}

static void thing_set_owner(struct stand *s, struct thing *t, struct thing *owner);

/* An owner that is gone stays until its last dependent is gone. */
static void thing_drop(struct stand *s, struct thing *t)
{
	if (t->known || t->busy || !LIST_EMPTY(&t->dependents))
		return;
	thing_set_owner(s, t, NULL);
	heap_remove(&s->due, &t->due);
	struct thing **at = thing_place(s, span_of(t->uid));
	*at = t->chain;
	free(t->uid);
	free(t->name);
	free(t->version);
	free(t->owner_name);
	free(t->finalizers);
	free(t->containers);
	free(t->reason);
	free(t->node);
	free(t);
}

static void thing_set_owner(struct stand *s, struct thing *t, struct thing *owner)
{
	struct thing *before = t->owner;
	if (before == owner)
		return;
	if (before)
		LIST_REMOVE(t, sibling);
	t->owner = owner;
	if (owner)
		LIST_INSERT_HEAD(&owner->dependents, t, sibling);
	if (before && before->known)
		thing_look(s, before);
	else if (before)
		thing_drop(s, before);
}

/* ---- reading ---- */

static void text_set(char **to, struct span text)
{
	free(*to);
	*to = xstrndup(text.n ? text.p : "", text.n);
}

static int64_t random_between(struct stand *s, struct milliseconds range)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return range.least + (int64_t)(s->random % (uint64_t)(range.most - range.least + 1));
}

/* How long the stage lasts: as the annotation of the pod says, else within the range. */
static int64_t stage_end(struct stand *s, struct span annotations, const char *key,
                         struct milliseconds range)
{
	ARENA_AUTO a = { 0 };
	int64_t ms;
	struct span text = scan_text(scan_get(annotations, key), &a);
	if (span_is(text, "never"))
		return NEVER;
	return clock_ms() +
	       (parse_i64(text, 0, INT32_MAX, &ms) == 0 ? ms : random_between(s, range));
}

/* The n-th part of a text, or its last one. */
static struct span part_of(struct span text, char separator, int64_t n)
{
	struct span part = span_next(&text, separator);
	while (n-- > 0 && text.n)
		part = span_next(&text, separator);
	return part;
}

static int64_t read_exit(struct span annotations)
{
	ARENA_AUTO a = { 0 };
	int64_t framework = 0;
	int64_t task = 0;
	int64_t code = 0;
	(void)parse_i64(scan_text(scan_get(annotations, "FC_FRAMEWORK_ATTEMPT_ID"), &a), 0,
	                INT32_MAX, &framework);
	(void)parse_i64(scan_text(scan_get(annotations, "FC_TASK_ATTEMPT_ID"), &a), 0, INT32_MAX,
	                &task);
	struct span codes = scan_text(scan_get(annotations, "stand/exit"), &a);
	(void)parse_i64(part_of(part_of(codes, ';', framework), ',', task), 0, 255, &code);
	return code;
}

static void read_names(char **to, struct span containers)
{
	struct span container;
	STR_AUTO names = STR_INIT(NAMES_BYTES);
	struct scan all = scan_begin(containers);
	str_char(&names, '[');
	while (scan_item(&all, &container))
		json_put_raw(&names, NULL, scan_get(container, "name"));
	str_char(&names, ']');
	text_set(to, str_view(&names));
}

static enum pod_stage read_stage(const struct thing *t, struct span object)
{
	ARENA_AUTO a = { 0 };
	struct span phase = scan_text(scan_path(object, "status", "phase"), &a);
	if (t->dying)
		return POD_DYING;
	if (span_is(phase, "Succeeded") || span_is(phase, "Failed"))
		return POD_ENDED;
	if (span_is(phase, "Running"))
		return POD_RUNNING;
	return scan_type(scan_path(object, "spec", "nodeName")) == SCAN_STRING ? POD_BOUND
	                                                                       : POD_NEW;
}

static void read_pod(struct stand *s, struct thing *t, struct span object)
{
	ARENA_AUTO a = { 0 };
	struct span annotations = scan_path(object, "metadata", "annotations");
	enum pod_stage stage = read_stage(t, object);
	if (stage == t->stage)
		return;
	t->stage = stage;
	t->stage_ms =
	    stage == POD_NEW       ? stage_end(s, annotations, "stand/bind-ms", s->bind_ms)
	    : stage == POD_BOUND   ? stage_end(s, annotations, "stand/start-ms", s->start_ms)
	    : stage == POD_RUNNING ? stage_end(s, annotations, "stand/run-ms", s->run_ms)
	    : stage == POD_DYING   ? stage_end(s, annotations, "stand/linger-ms", s->linger_ms)
				   : NEVER;
	t->exit_code = read_exit(annotations);
	text_set(&t->reason, scan_text(scan_get(annotations, "stand/reason"), &a));
	text_set(&t->node, scan_text(stage == POD_NEW ? scan_get(annotations, "stand/node")
	                                              : scan_path(object, "spec", "nodeName"),
	                             &a));
	read_names(&t->containers, scan_path(object, "spec", "containers"));
}

static void read_finalizers(struct thing *t, struct span finalizers)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO others = STR_INIT(NAMES_BYTES);
	struct span item;
	struct scan all = scan_begin(finalizers);
	t->foreground = false;
	str_char(&others, '[');
	while (scan_item(&all, &item)) {
		if (span_is(scan_text(item, &a), FOREGROUND))
			t->foreground = true;
		else
			json_put_raw(&others, NULL, item);
	}
	str_char(&others, ']');
	text_set(&t->finalizers, str_view(&others));
}

/* Its controller; other owners are not of Frameworks. */
static void read_owner(struct stand *s, struct thing *t, struct span references)
{
	ARENA_AUTO a = { 0 };
	struct span item;
	struct span controller = { 0 };
	struct scan all = scan_begin(references);
	while (scan_item(&all, &item)) {
		if (span_is(scan_get(item, "controller"), "true"))
			controller = item;
	}
	struct span uid = scan_text(scan_get(controller, "uid"), &a);
	text_set(&t->owner_name, scan_text(scan_get(controller, "name"), &a));
	thing_set_owner(s, t, uid.n ? thing_get(s, uid) : NULL);
}

/* ---- decisions ---- */

static bool is_waiting_for_dependents(const struct thing *t)
{
	return t && t->known && t->dying && t->foreground;
}

/* The garbage collector's part; STAND_NOTHING: none now. */
static enum stand_action collector_action(const struct thing *t)
{
	if (t->dying)
		return is_waiting_for_dependents(t) && LIST_EMPTY(&t->dependents) ? STAND_RELEASE
		                                                                  : STAND_NOTHING;
	if (is_waiting_for_dependents(t->owner) || t->orphan)
		return STAND_DELETE;
	return t->owner && !t->owner->known ? STAND_ASK : STAND_NOTHING;
}

static enum stand_action kubelet_action(const struct stand *s, const struct thing *t)
{
	static const enum stand_action ACTIONS[] = {
		[POD_NONE] = STAND_NOTHING, [POD_NEW] = STAND_BIND,      [POD_BOUND] = STAND_RUN,
		[POD_RUNNING] = STAND_END,  [POD_ENDED] = STAND_NOTHING, [POD_DYING] = STAND_REMOVE,
	};
	bool answers = !s->lost || t->stage <= POD_NEW || strcmp(t->node, "node0") != 0;
	return answers ? ACTIONS[t->stage] : STAND_NOTHING;
}

static void thing_look(struct stand *s, struct thing *t)
{
	int64_t at = 0;
	if (t->busy)
		return;
	t->action = t->known && world_complete(s) ? collector_action(t) : STAND_NOTHING;
	if (t->action == STAND_NOTHING && t->known) {
		t->action = kubelet_action(s, t);
		at = t->stage_ms;
	}
	if (t->action == STAND_NOTHING || at == NEVER)
		heap_remove(&s->due, &t->due);
	else
		heap_put(&s->due, &t->due, at > t->not_before_ms ? at : t->not_before_ms);
}

static void thing_look_around(struct stand *s, struct thing *t)
{
	struct thing *other;
	LIST_FOREACH(other, &t->dependents, sibling)
	thing_look(s, other);
	if (t->owner)
		thing_look(s, t->owner);
	thing_look(s, t);
}

void world_lose(struct stand *s, bool lost)
{
	s->lost = lost;
	for (size_t i = 0; i < THING_BUCKETS; i++)
		for (struct thing *t = s->bucket[i]; t; t = t->chain)
			thing_look(s, t);
}

bool world_complete(const struct stand *s)
{
	return s->listed == (1u << KIND_FRAMEWORK | 1u << KIND_CONFIGMAP | 1u << KIND_POD);
}

struct thing *world_take(struct stand *s)
{
	struct thing *t = (struct thing *)heap_first(&s->due);
	if (!t || t->due.at_ms > clock_ms())
		return NULL;
	heap_remove(&s->due, &t->due);
	t->busy = true;
	t->heard = false;
	return t;
}

/* ---- events and answers ---- */

void world_put(struct stand *s, enum object_kind kind, struct span object)
{
	enum { NAME, UID, VERSION, DELETED, FINALIZERS, OWNERS, N };
	static const char *const KEYS[N] = {
		"name",           "uid", "resourceVersion", "deletionTimestamp", "finalizers",
		"ownerReferences"
	};
	ARENA_AUTO a = { 0 };
	struct span v[N];
	scan_members(scan_inside(object, "metadata"), KEYS, v, N);
	struct thing *t = thing_get(s, scan_text(v[UID], &a));
	bool was_known = t->known;
	bool was_dying = t->dying;
	t->heard = t->known = true;
	t->stale = false;
	t->kind = kind;
	t->not_before_ms = 0;
	t->dying = scan_type(v[DELETED]) == SCAN_STRING;
	text_set(&t->name, scan_text(v[NAME], &a));
	text_set(&t->version, scan_text(v[VERSION], &a));
	read_finalizers(t, v[FINALIZERS]);
	read_owner(s, t, v[OWNERS]);
	if (kind == KIND_POD)
		read_pod(s, t, object);
	if (!was_known || t->dying != was_dying)
		thing_look_around(s, t);
	else
		thing_look(s, t);
}

static void world_forget(struct stand *s, struct thing *t)
{
	t->known = t->dying = false;
	t->heard = true;
	thing_set_owner(s, t, NULL);
	thing_look_around(s, t);
	thing_drop(s, t);
}

void world_gone(struct stand *s, struct span object)
{
	ARENA_AUTO a = { 0 };
	struct thing *t = *thing_place(s, scan_text(scan_path(object, "metadata", "uid"), &a));
	if (t && t->known)
		world_forget(s, t);
}

/* At the end of a list, what it lacked is gone; after the last first list, all are looked at. */
void world_list(struct stand *s, enum object_kind kind, bool begin)
{
	bool was_complete = world_complete(s);
	s->listed |= begin ? 0 : 1u << kind;
	for (size_t i = 0; i < THING_BUCKETS; i++) {
		for (struct thing *t = s->bucket[i], *next; t; t = next) {
			next = t->chain;
			if (begin && t->kind == kind)
				t->stale = t->known;
			else if (!begin && !was_complete)
				thing_look(s, t);
		}
	}
	/* To forget one may drop others of its bucket, so this begins anew after each. */
	for (size_t i = 0; i < THING_BUCKETS && !begin; i++) {
		struct thing *t = s->bucket[i];
		while (t) {
			bool gone = t->stale && t->known && t->kind == kind;
			if (gone) {
				t->stale = false;
				world_forget(s, t);
			}
			t = gone ? s->bucket[i] : t->chain;
		}
	}
}

static void answer_ask(struct stand *s, struct thing *t, int status, struct span body)
{
	ARENA_AUTO a = { 0 };
	if (status == 404)
		t->orphan = true;
	else if (status == 200 && t->owner && scan_valid(body, SCAN_DEPTH_MAX))
		t->orphan =
		    !span_is(scan_text(scan_path(body, "metadata", "uid"), &a), t->owner->uid);
	if (t->orphan)
		t->not_before_ms = 0;
	thing_look(s, t);
}

void world_answer(struct stand *s, struct thing *t, int status, struct span body)
{
	bool good = status >= 200 && status < 300;
	s->done[t->action] += good;
	s->failed += !good && status != 404 && status != 409;
	t->busy = false;
	if (!t->known) {
		thing_drop(s, t);
		return;
	}
	t->not_before_ms = t->heard ? 0 : clock_ms() + (good ? LOST_MS : AGAIN_MS);
	if (!good && t->heard)
		t->not_before_ms = clock_ms() + AGAIN_MS;
	if (t->action == STAND_ASK)
		answer_ask(s, t, status, body);
	else
		thing_look(s, t);
}
