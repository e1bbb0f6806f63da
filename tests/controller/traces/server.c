#include "tests/controller/traces/play.h"

#include <stdlib.h>

#include "base/enc.h"
#include "base/time.h"

enum {
	HTTP_OK = 200,
	HTTP_CREATED = 201,
	HTTP_BAD = 400,
	HTTP_NOT_FOUND = 404,
	HTTP_CONFLICT = 409,
	HTTP_INVALID = 422,
	HTTP_TOO_MANY = 429,
	HTTP_ERROR = 500,
	HTTP_UNAVAILABLE = 503,
};

static const enum object_kind KINDS[WATCHES] = { KIND_FRAMEWORK, KIND_CONFIGMAP, KIND_POD };

enum object_kind server_kind(int watch)
{
	return KINDS[watch];
}

/* ---- objects as the API server shows them ---------------------------------------------------- */

static char *object_text(int watch, const json_t *object, bool whole)
{
	static const char *const NAMES[WATCHES][2] = {
		{ "frameworkcontroller.microsoft.com/v1", "Framework" },
		{ "v1", "ConfigMap" },
		{ "v1", "Pod" },
	};
	char time[RFC3339_MAX];
	JSON_AUTO *shown = json_object();
	JSON_AUTO *metadata = json_copy(scene_metadata(object));
	json_object_set_new(shown, "apiVersion", json_string(NAMES[watch][0]));
	json_object_set_new(shown, "kind", json_string(NAMES[watch][1]));
	json_object_set(shown, "metadata", metadata);
	if (whole) {
		json_object_set(shown, "spec", json_object_get(object, "spec"));
		json_object_set(shown, "status", json_object_get(object, "status"));
	}
	json_object_del(metadata, "deletionStep");
	if (!json_object_get(metadata, "namespace"))
		json_object_set_new(metadata, "namespace", json_string("ns"));
	json_int_t dying = json_integer_value(json_object_get(metadata, "deletionTimestamp"));
	if (dying)
		json_object_set_new(metadata, "deletionTimestamp",
		                    json_string(rfc3339_put(time, dying * 1000, 0)));
	return json_dumps(shown, JSON_COMPACT);
}

/* Watches of ConfigMaps and pods select by label. */
static bool object_is_watched(int watch, const json_t *object)
{
	const json_t *labels = json_object_get(scene_metadata(object), "labels");
	return watch == WATCH_FRAMEWORKS || json_object_get(labels, "FC_FRAMEWORK_NAME");
}

static int object_watch(const struct scene *sc, const json_t *object)
{
	const char *name = reply_text(scene_metadata(object), "name");
	if (object == sc->framework)
		return WATCH_FRAMEWORKS;
	return json_object_get(sc->pods, name) == object ? WATCH_PODS : WATCH_CONFIGMAPS;
}

static json_t *object_named(const struct scene *sc, enum object_kind kind, const char *name)
{
	if (kind == KIND_POD || kind == KIND_CONFIGMAP)
		return json_object_get(kind == KIND_POD ? sc->pods : sc->configmaps, name);
	bool same = strcmp(reply_text(scene_metadata(sc->framework), "name"), name) == 0;
	return kind == KIND_FRAMEWORK && same ? sc->framework : NULL;
}

/* ---- uids in a status ----------------------------------------------------------------------- */

/* Adds the uids of ConfigMap and pods that a status names. */
static void status_uids(json_t *status, json_t *uids)
{
	const char *key;
	json_t *v;
	size_t i;
	if (json_is_object(status)) {
		json_object_foreach (status, key, v) {
			bool uid = strcmp(key, "podUID") == 0 || strcmp(key, "configMapUID") == 0;
			if (uid && json_is_string(v))
				json_object_set_new(uids, json_string_value(v), json_true());
			else
				status_uids(v, uids);
		}
	}
	json_array_foreach (status, i, v)
		status_uids(v, uids);
}

static json_t *server_uids(const struct server *s)
{
	json_t *uids = json_object();
	json_t *status = json_object_get(s->scene->framework, "status");
	JSON_AUTO *plain = symbols_plain(status);
	status_uids(plain, uids);
	return uids;
}

/* ---- watches --------------------------------------------------------------------------------- */

static void server_note(void *arg, const json_t *object, bool gone)
{
	struct server *s = arg;
	int watch = object_watch(s->scene, object);
	if (watch == WATCH_FRAMEWORKS && !gone) {
		JSON_AUTO *uids = server_uids(s);
		json_object_update(s->named, uids);
	}
	if (watch == WATCH_CONFIGMAPS &&
	    strcmp(scene_owner(object), scene_uid(s->scene->framework)) == 0)
		json_object_set_new(s->configmaps, scene_uid(object), json_true());
	if (!object_is_watched(watch, object))
		return;
	struct event *event = xcalloc(1, sizeof(*event));
	event->gone = gone;
	event->text = object_text(watch, object, true);
	TAILQ_INSERT_TAIL(&s->events[watch], event, next);
	s->waiting[watch]++;
}

static struct event *server_take(struct server *s, int watch)
{
	struct event *event = TAILQ_FIRST(&s->events[watch]);
	if (event) {
		TAILQ_REMOVE(&s->events[watch], event, next);
		s->waiting[watch]--;
	}
	return event;
}

static void event_free(struct event *event)
{
	free(event->text);
	free(event);
}

static void server_forget(struct server *s, int watch)
{
	struct event *event;
	while ((event = server_take(s, watch)) != NULL)
		event_free(event);
}

void server_deliver(struct server *s, int watch, struct rules *r, const struct rules_time *now)
{
	struct event *event = server_take(s, watch);
	if (!event)
		return;
	(event->gone ? rules_gone : rules_put)(r, now, KINDS[watch], span_of(event->text));
	event_free(event);
}

/* The newest object that has no event yet is not in an old list. */
static const json_t *server_newest(struct server *s, int watch)
{
	const json_t *newest = NULL;
	const char *name;
	json_t *object;
	int64_t most = -1;
	if (watch == WATCH_FRAMEWORKS)
		return NULL;
	json_object_foreach (scene_kind(s->scene, watch == WATCH_PODS), name, object) {
		int64_t version = 0;
		(void)parse_i64(span_of(reply_text(scene_metadata(object), "resourceVersion")), 0,
		                INT64_MAX, &version);
		if (version > most) {
			most = version;
			newest = object;
		}
	}
	return newest;
}

void server_list(struct server *s, int watch, bool old, struct rules *r,
                 const struct rules_time *now)
{
	struct scene *sc = s->scene;
	const json_t *unlisted = old ? server_newest(s, watch) : NULL;
	server_forget(s, watch);
	rules_list_begin(r, KINDS[watch]);
	if (watch == WATCH_FRAMEWORKS && sc->framework) {
		FREE_AUTO char *text = object_text(watch, sc->framework, true);
		rules_put(r, now, KINDS[watch], span_of(text));
	} else if (watch != WATCH_FRAMEWORKS) {
		const char *name;
		json_t *object;
		json_object_foreach (scene_kind(sc, watch == WATCH_PODS), name, object) {
			FREE_AUTO char *text = object_text(watch, object, true);
			if (object_is_watched(watch, object) && object != unlisted)
				rules_put(r, now, KINDS[watch], span_of(text));
		}
	}
	rules_list_end(r, now, KINDS[watch]);
	if (unlisted)
		server_note(s, unlisted, false);
}

void server_begin(struct server *s, struct scene *scene)
{
	*s = (struct server){ .scene = scene, .named = json_object(), .configmaps = json_object() };
	for (int i = 0; i < WATCHES; i++)
		TAILQ_INIT(&s->events[i]);
	scene->event = server_note;
	scene->event_arg = s;
}

void server_end(struct server *s)
{
	for (int i = 0; i < WATCHES; i++)
		server_forget(s, i);
	json_decref(s->named);
	json_decref(s->configmaps);
	free(s->broken);
}

/* ---- requests -------------------------------------------------------------------------------- */

static char *text_or_null(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

struct request *request_new(const struct store_request *r, const char *leader)
{
	struct request *q = xcalloc(1, sizeof(*q));
	STR_AUTO body = STR_INIT(RULES_OBJECT_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(r->body); i++)
		str_span(&body, r->body[i]);
	*q = (struct request){
		.arg = r->arg,
		.leader = xstrdup(leader),
		.verb = r->verb,
		.kind = r->kind,
		.name = text_or_null(r->name),
		.uid = text_or_null(r->uid),
		.body = xstrdup(str_c(&body)),
		.whole = r->whole,
		.force = r->force,
		.foreground = r->foreground,
		.json_patch = r->json_patch,
	};
	return q;
}

void request_free(struct request *q)
{
	free(q->name);
	free(q->uid);
	free(q->body);
	free(q->text);
	free(q->made);
	free(q->version);
	free(q->leader);
	free(q);
}

void request_answer(struct request *q, enum store_outcome outcome, int status)
{
	q->outcome = outcome;
	q->status = status;
	q->text = q->text ? q->text : xstrdup("");
	q->made = q->made ? q->made : xstrdup("");
	q->version = q->version ? q->version : xstrdup("");
}

/* A Status. */
static void request_refuse(struct request *q, enum store_outcome outcome, int status,
                           const char *reason)
{
	const char *name = q->name ? q->name : "";
	JSON_AUTO *error = json_pack("{s:s, s:s}", "reason", reason, "message", reason);
	JSON_AUTO *body = scene_status(error, name, status);
	q->text = json_dumps(body, JSON_COMPACT);
	request_answer(q, outcome, status);
}

static void request_show(const struct server *s, struct request *q, int status,
                         const json_t *object)
{
	q->text = object_text(object_watch(s->scene, object), object, q->whole);
	q->made = xstrdup(scene_uid(object));
	q->version = xstrdup(reply_text(scene_metadata(object), "resourceVersion"));
	request_answer(q, STORE_OK, status);
}

/* The answer of the record. */
static void create_refuse(struct request *q, const json_t *refusal, const char *name)
{
	int status = (int)json_integer_value(json_object_get(refusal, "code"));
	JSON_AUTO *body = scene_status(json_object_get(refusal, "error"), name, status);
	bool busy = status == HTTP_TOO_MANY || status == HTTP_UNAVAILABLE;
	q->text = json_dumps(body, JSON_COMPACT);
	request_answer(q,
	               busy                   ? STORE_BUSY
	               : status >= HTTP_ERROR ? STORE_AMBIGUOUS
	                                      : STORE_REFUSED,
	               status);
}

/* ---- what must hold at each request ---------------------------------------------------------- */

static void server_blame(struct server *s, const struct request *q, const char *why)
{
	if (!s->broken)
		s->broken = xasprintf("%s %s: %s", q->name ? q->name : "", q->leader, why);
}

static unsigned leader_number(const char *leader)
{
	int64_t number = 0;
	struct span text = span_of(leader);
	if (strncmp(leader, LEADER, strlen(LEADER)) == 0)
		(void)parse_i64(span_from(text, strlen(LEADER)), 0, INT32_MAX, &number);
	return (unsigned)number;
}

static const char *object_leader(const json_t *framework)
{
	return reply_text(json_object_get(scene_metadata(framework), "annotations"),
	                  RULES_ANNOTATION);
}

/* A Framework is taken over before anything else; later somebody may have taken it. */
static void leader_check(struct server *s, const struct request *q)
{
	const char *leader = object_leader(s->scene->framework);
	if (q->kind != KIND_FRAMEWORK && strcmp(leader, q->leader) != 0 &&
	    (!leader[0] || leader_number(leader) > 0))
		server_blame(s, q, "is asked by a leader that is not in the annotation");
}

/* Nothing is done before the state that announces it is stored. */
static void create_check(struct server *s, const struct request *q, const json_t *object)
{
	json_t *status = json_object_get(s->scene->framework, "status");
	JSON_AUTO *plain = symbols_plain(status);
	const json_t *metadata = scene_metadata(object);
	const json_t *labels = json_object_get(metadata, "labels");
	const json_t *of = plain;
	size_t i;
	json_t *role;
	if (q->kind == KIND_POD) {
		int64_t index = -1;
		(void)parse_i64(span_of(reply_text(labels, "FC_TASK_INDEX")), 0, INT32_MAX, &index);
		of = NULL;
		json_array_foreach (symbols_roles(plain), i, role)
			if (strcmp(reply_text(role, "name"),
			           reply_text(labels, "FC_TASKROLE_NAME")) == 0)
				of = json_array_get(json_object_get(role, "taskStatuses"),
				                    (size_t)index);
	}
	if (strcmp(reply_text(of, "state"), "AttemptCreationPending") != 0)
		server_blame(s, q, "is created before AttemptCreationPending is stored");
}

/* Only own objects go, and none whose creation had no answer. */
static void delete_check(struct server *s, const struct request *q, const json_t *object)
{
	const char *owner = scene_owner(object);
	bool own = q->kind == KIND_POD ? json_object_get(s->configmaps, owner) != NULL
	                               : strcmp(owner, scene_uid(s->scene->framework)) == 0;
	if (!q->uid)
		server_blame(s, q, "is deleted without its uid");
	if (!own && q->kind != KIND_FRAMEWORK)
		server_blame(s, q, "is deleted, but belongs to others");
	if (own && s->keeps && !json_object_get(s->named, scene_uid(object)))
		server_blame(s, q, "is deleted, though this process has created it");
}

static bool framework_is_completed(const json_t *framework)
{
	return strcmp(reply_text(json_object_get(framework, "status"), "state"), "Completed") == 0;
}

/* Only who is in the annotation writes, none takes over after its successor, and an end is final.
 */
static void patch_check(struct server *s, const struct request *q, const json_t *before,
                        const json_t *after)
{
	const char *was = object_leader(before);
	const char *is = object_leader(after);
	if (strcmp(is, q->leader) != 0)
		server_blame(s, q, "writes, but is not in the annotation");
	if (leader_number(was) > leader_number(is))
		server_blame(s, q, "takes over after its successor");
	if (s->announces && framework_is_completed(before) && !framework_is_completed(after))
		server_blame(s, q, "takes an end back");
}

/* ---- execution ------------------------------------------------------------------------------- */

static void server_create(struct server *s, struct request *q)
{
	struct scene *sc = s->scene;
	json_t *object = reply_parse(span_of(q->body));
	bool pod = q->kind == KIND_POD;
	FREE_AUTO char *name = xstrdup(reply_text(scene_metadata(object), "name"));
	if (q->kind == KIND_ACCESS_REVIEW) {
		q->text = xstrdup("{\"status\":{\"allowed\":true}}");
		request_answer(q, STORE_OK, HTTP_CREATED);
		json_decref(object);
		return;
	}
	if (!name[0] || (!pod && q->kind != KIND_CONFIGMAP)) {
		request_refuse(q, STORE_REFUSED, HTTP_BAD, "BadRequest");
		json_decref(object);
		return;
	}
	if (!q->late && s->announces) {
		leader_check(s, q);
		create_check(s, q, object);
	}
	JSON_AUTO *refusal = pod ? scene_refusal(sc, name) : NULL;
	if (refusal) {
		create_refuse(q, refusal, name);
	} else if (object_named(sc, q->kind, name)) {
		request_refuse(q, STORE_EXISTS, HTTP_CONFLICT, "AlreadyExists");
	} else {
		(void)scene_take_create(sc, pod, name, TAKE(object));
		request_show(s, q, HTTP_CREATED, object_named(sc, q->kind, name));
	}
	json_decref(object);
}

static void server_patch(struct server *s, struct request *q)
{
	struct scene *sc = s->scene;
	JSON_AUTO *before = json_incref(sc->framework);
	JSON_AUTO *patch = json_loads(q->body, JSON_REJECT_DUPLICATES, NULL);
	/* The rules patch metadata and replace the status; the rest is shared. */
	json_t *next = json_copy(sc->framework);
	json_object_set_new(next, "metadata", json_deep_copy(scene_metadata(sc->framework)));
	if (!q->json_patch || !patch_apply(&next, patch) || !scene_store(sc, next)) {
		request_refuse(q, STORE_REFUSED, HTTP_INVALID, "Invalid");
	} else {
		patch_check(s, q, before, next);
		request_show(s, q, HTTP_OK, sc->framework);
	}
	json_decref(next);
}

static void server_delete(struct server *s, struct request *q, const json_t *object)
{
	if (q->uid && strcmp(scene_uid(object), q->uid) != 0) {
		request_refuse(q, STORE_CONFLICT, HTTP_CONFLICT, "Conflict");
		return;
	}
	delete_check(s, q, object);
	if (!q->late && s->announces)
		leader_check(s, q);
	if (q->kind == KIND_FRAMEWORK)
		scene_delete_framework(s->scene, q->foreground ? "Foreground" : "Background");
	else
		scene_take_delete(s->scene, q->kind == KIND_POD, q->name, q->force);
	request_answer(q, STORE_OK, HTTP_OK);
}

void server_execute(struct server *s, struct request *q)
{
	const json_t *object = q->name ? object_named(s->scene, q->kind, q->name) : NULL;
	q->executed = true;
	if (q->verb == STORE_CREATE)
		server_create(s, q);
	else if (!object)
		request_refuse(q, STORE_NOT_FOUND, HTTP_NOT_FOUND, "NotFound");
	else if (q->verb == STORE_GET)
		request_show(s, q, HTTP_OK, object);
	else if (q->verb == STORE_PATCH && q->kind == KIND_FRAMEWORK)
		server_patch(s, q);
	else if (q->verb == STORE_DELETE)
		server_delete(s, q, object);
	else
		request_refuse(q, STORE_REFUSED, HTTP_BAD, "BadRequest");
}

void server_annotate(struct server *s, const char *leader)
{
	struct scene *sc = s->scene;
	json_t *metadata = scene_metadata(sc->framework);
	if (!metadata)
		return;
	if (!json_object_get(metadata, "annotations"))
		json_object_set_new(metadata, "annotations", json_object());
	json_object_set_new(json_object_get(metadata, "annotations"), RULES_ANNOTATION,
	                    json_string(leader));
	(void)scene_store(sc, sc->framework);
}

void server_shrink(struct server *s)
{
	struct scene *sc = s->scene;
	JSON_AUTO *next = json_copy(sc->framework);
	json_t *spec = json_deep_copy(json_object_get(next, "spec"));
	size_t i;
	json_t *role;
	json_object_set_new(next, "spec", spec);
	json_array_foreach (json_object_get(spec, "taskRoles"), i, role)
		json_object_set_new(role, "taskNumber", json_integer(0));
	json_object_set_new(next, "metadata", json_deep_copy(scene_metadata(next)));
	(void)scene_store(sc, next);
}

/* ---- what no task and no attempt has --------------------------------------------------------- */

const char *server_stray(const struct server *s)
{
	JSON_AUTO *uids = server_uids(s);
	const char *name;
	const char *cm_name;
	json_t *pod;
	json_t *cm;
	json_object_foreach (s->scene->configmaps, cm_name, cm) {
		json_object_foreach (s->scene->pods, name, pod)
			if (!scene_dying(cm) && !scene_dying(pod) &&
			    strcmp(scene_owner(pod), scene_uid(cm)) == 0 &&
			    strcmp(scene_owner(cm), scene_uid(s->scene->framework)) == 0 &&
			    !json_object_get(uids, scene_uid(pod)))
				return name;
	}
	return NULL;
}

bool server_tidy(struct server *s)
{
	struct scene *sc = s->scene;
	int64_t before = sc->version;
	const char *name;
	json_t *object;
	void *next;
	json_object_foreach_safe(sc->configmaps, next, name, object)
	{
		if (scene_dying(object) && !json_object_get(s->named, scene_uid(object)))
			scene_release(sc, false, name);
	}
	json_object_foreach_safe(sc->pods, next, name, object)
	{
		if (scene_owner(object)[0] &&
		    (scene_dying(object) || !scene_owner_lives(sc, object)) &&
		    !json_object_get(s->named, scene_uid(object)))
			scene_release(sc, true, name);
	}
	return sc->version != before;
}
