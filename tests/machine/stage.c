#include "tests/machine/replay.h"

#include <stdlib.h>

#include "base/time.h"

/* 2020-09-13: after all times of stimuli, which are of 2001. */
enum { FIRST_S = 1600000000, DEFAULT_GRACE_S = 30, ROUNDS_MAX = 500 };

#define FINALIZER "foregroundDeletion"

/* ---- objects ---- */

static json_t *stage_metadata(const json_t *object)
{
	return json_object_get(object, "metadata");
}

static const char *stage_uid(const json_t *object)
{
	return reply_text(stage_metadata(object), "uid");
}

/* The uid of the controlling owner. */
static const char *stage_owner(const json_t *object)
{
	size_t i;
	json_t *owner;
	json_array_foreach (json_object_get(stage_metadata(object), "ownerReferences"), i, owner)
		if (json_is_true(json_object_get(owner, "controller")))
			return reply_text(owner, "uid");
	return "";
}

static bool stage_dying(const json_t *object)
{
	return json_object_get(stage_metadata(object), "deletionTimestamp") != NULL;
}

static bool stage_held(const json_t *object)
{
	return json_array_size(json_object_get(stage_metadata(object), "finalizers")) > 0;
}

static const char *stage_phase(const json_t *pod)
{
	return reply_text(json_object_get(pod, "status"), "phase");
}

static const char *stage_node(const json_t *pod)
{
	return reply_text(json_object_get(pod, "spec"), "nodeName");
}

static json_t *stage_kind(struct stage *st, bool pods)
{
	return pods ? st->pods : st->configmaps;
}

/* An object as the API server takes it; takes the reference. */
static const char *stage_post(struct stage *st, bool pod, const char *name, json_t *object)
{
	FREE_AUTO char *what = pod ? xasprintf("pod %s", name) : xstrdup("configmap");
	json_t *metadata = stage_metadata(object);
	json_object_set_new(metadata, "name", json_string(name));
	json_object_set_new(metadata, "uid", symbols_next(&st->symbols, what));
	if (pod)
		json_object_set_new(object, "status", json_pack("{s:s}", "phase", "Pending"));
	json_object_set_new(stage_kind(st, pod), name, object);
	st->changed = true;
	return stage_uid(object);
}

/* Marks an object as dying.  grace_s: what it still has. */
static void stage_mark(struct stage *st, json_t *object, int64_t grace_s)
{
	json_t *metadata = stage_metadata(object);
	json_object_set_new(metadata, "deletionTimestamp", json_integer(st->now_s + grace_s));
	json_object_set_new(metadata, "deletionGracePeriodSeconds", json_integer(grace_s));
	json_object_set_new(metadata, "deletionStep",
	                    json_integer((json_int_t)(st->symbols.steps - 1)));
	st->changed = true;
}

/* The object is gone, unless it has finalizers. */
static void stage_drop(struct stage *st, bool pod, const char *name)
{
	json_t *object = json_object_get(stage_kind(st, pod), name);
	if (stage_held(object)) {
		stage_mark(st, object, 0);
		return;
	}
	json_object_del(stage_kind(st, pod), name);
	st->changed = true;
}

/* DELETE.  grace_s -1: the pod's own. */
static void stage_delete_pod(struct stage *st, const char *name, int64_t grace_s)
{
	json_t *pod = json_object_get(st->pods, name);
	const json_t *own =
	    json_object_get(json_object_get(pod, "spec"), "terminationGracePeriodSeconds");
	const char *phase = stage_phase(pod);
	bool ended = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
	if (!pod)
		return;
	if (grace_s < 0)
		grace_s = json_is_integer(own) ? json_integer_value(own) : DEFAULT_GRACE_S;
	if (grace_s == 0 || ended || !stage_node(pod)[0])
		stage_drop(st, true, name);
	else if (!stage_dying(pod))
		stage_mark(st, pod, grace_s);
}

static void stage_delete_configmap(struct stage *st, const char *name)
{
	json_t *cm = json_object_get(st->configmaps, name);
	if (cm && !(stage_dying(cm) && stage_held(cm)))
		stage_drop(st, false, name);
}

/* ---- what the machine asks ---- */

static enum framework_presence stage_see_configmap(void *arg, const char *name, const char *uid,
                                                   struct framework_configmap *out)
{
	struct stage *st = arg;
	const json_t *cm = json_object_get(st->configmaps, name);
	(void)uid;
	if (!cm)
		return FRAMEWORK_ABSENT;
	*out = (struct framework_configmap){ stage_uid(cm), stage_owner(cm), stage_dying(cm) };
	return FRAMEWORK_THERE;
}

static int64_t stage_time_s(const char *text)
{
	int64_t ms = 0;
	(void)rfc3339_read(span_of(text), &ms);
	return ms / 1000;
}

static void stage_see_containers(struct stage *st, const json_t *list, size_t *n)
{
	size_t i;
	json_t *c;
	json_array_foreach (list, i, c) {
		const json_t *state = json_object_get(c, "state");
		const json_t *ended = json_object_get(state, "terminated");
		const json_t *of = ended ? ended : json_object_get(state, "waiting");
		if (*n == sizeof(st->containers) / sizeof(*st->containers))
			return;
		st->containers[(*n)++] = (struct framework_container){
			.name = reply_text(c, "name"),
			.reason = reply_text(of, "reason"),
			.message = reply_text(of, "message"),
			.terminated = ended != NULL,
			.code = (int32_t)json_integer_value(json_object_get(ended, "exitCode")),
			.signal = (int32_t)json_integer_value(json_object_get(ended, "signal")),
			.finished_s = stage_time_s(reply_text(ended, "finishedAt")),
		};
	}
}

static enum framework_presence stage_see_pod(void *arg, const char *name, const char *uid,
                                             struct framework_pod *out)
{
	struct stage *st = arg;
	const json_t *pod = json_object_get(st->pods, name);
	const json_t *metadata = stage_metadata(pod);
	const json_t *status = json_object_get(pod, "status");
	size_t n = 0;
	(void)uid;
	if (!pod)
		return FRAMEWORK_ABSENT;
	stage_see_containers(st, json_object_get(status, "initContainerStatuses"), &n);
	stage_see_containers(st, json_object_get(status, "containerStatuses"), &n);
	*out = (struct framework_pod){
		.uid = stage_uid(pod),
		.owner_uid = stage_owner(pod),
		.dying = stage_dying(pod),
		.deletion_s = json_integer_value(json_object_get(metadata, "deletionTimestamp")),
		.grace_s =
		    json_integer_value(json_object_get(metadata, "deletionGracePeriodSeconds")),
		.phase = stage_phase(pod),
		.reason = reply_text(status, "reason"),
		.message = reply_text(status, "message"),
		.node = stage_node(pod),
		.ip = reply_text(status, "podIP"),
		.host_ip = reply_text(status, "hostIP"),
		.containers = st->containers,
		.n_containers = n,
	};
	return FRAMEWORK_THERE;
}

/* The answer that the trace has for a creation of this pod: {code, error}, NULL: that of this API
 * server.  The last one stays, unless the trace has a later success. */
static json_t *stage_refusal(struct stage *st, const char *name)
{
	json_t *left = json_object_get(st->refusals, name);
	json_t *first = json_array_get(left, 0);
	if (!first)
		return NULL;
	json_incref(first);
	if (json_array_size(left) > 1) {
		json_array_remove(left, 0);
		st->changed = true;
	}
	if (json_is_object(first))
		return first;
	json_decref(first);
	return NULL;
}

/* A Status as the API server writes it, from its reason and message. */
static json_t *stage_status(const json_t *error, const char *name, int code)
{
	static const char *const TYPES[][2] = {
		{ "Required value", "FieldValueRequired" },
		{ "Duplicate value", "FieldValueDuplicate" },
		{ "Forbidden", "FieldValueForbidden" },
		{ "Too long", "FieldValueTooLong" },
		{ "Not found", "FieldValueNotFound" },
		{ "Too many", "FieldValueTooMany" },
		{ "Unsupported value", "FieldValueNotSupported" },
		{ "", "FieldValueInvalid" },
	};
	const char *reason = reply_text(error, "reason");
	const char *message = reply_text(error, "message");
	bool invalid = strcmp(reason, "Invalid") == 0;
	json_t *details = json_pack("{s:s, s:s}", "name", name, "kind", invalid ? "Pod" : "pods");
	const char *at = strstr(message, " is invalid: ");
	const char *colon = at ? strstr(at += strlen(" is invalid: "), ": ") : NULL;
	if (invalid && colon) {
		const char *says = colon + 2;
		size_t i = 0;
		while (TYPES[i][0][0] && strncmp(says, TYPES[i][0], strlen(TYPES[i][0])) != 0)
			i++;
		FREE_AUTO char *field = xstrndup(at, (size_t)(colon - at));
		json_object_set_new(details, "causes",
		                    json_pack("[{s:s, s:s, s:s}]", "reason", TYPES[i][1], "message",
		                              says, "field", field));
	}
	return json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s, s:o, s:i}", "kind", "Status",
	                 "apiVersion", "v1", "metadata", "status", "Failure", "message", message,
	                 "reason", reason, "details", details, "code", code);
}

static void stage_asked(struct stage *st, const char *verb, bool pod, const char *name,
                        json_t *details)
{
	json_array_append_new(st->requests, json_pack("{s:s, s:s, s:s, s:o}", "verb", verb, "kind",
	                                              pod ? "Pod" : "ConfigMap", "name", name,
	                                              "details", details));
}

static enum framework_answer stage_create(void *arg, const struct framework_object *object,
                                          struct framework_created *out)
{
	static json_t *status; /* borrowed by the machine until the next call */
	struct stage *st = arg;
	const char *name = object->name;
	bool pod = object->kind == FRAMEWORK_POD;
	JSON_AUTO *refusal = pod ? stage_refusal(st, name) : NULL;
	json_decref(TAKE(status));
	if (refusal) {
		enum { TOO_MANY = 429 };
		int code = (int)json_integer_value(json_object_get(refusal, "code"));
		status = stage_status(json_object_get(refusal, "error"), name, code);
		out->http = code;
		out->status = status;
		return code >= 500 || code == TOO_MANY ? FRAMEWORK_FAILED : FRAMEWORK_REFUSED;
	}
	if (json_object_get(stage_kind(st, pod), name))
		return FRAMEWORK_FAILED;
	STR_AUTO text = STR_INIT(FRAMEWORK_OBJECT_MAX);
	framework_object_write(st->machine, object, &text);
	json_t *made = reply_parse(str_view(&text));
	JSON_AUTO *shown = symbols_shown(&st->symbols, made);
	stage_asked(st, "create", pod, name, json_incref(shown));
	out->uid = stage_post(st, pod, name, made);
	return FRAMEWORK_DONE;
}

static enum framework_answer stage_remove(void *arg, const struct framework_delete *what)
{
	struct stage *st = arg;
	bool pod = what->kind == FRAMEWORK_POD;
	const json_t *object = json_object_get(stage_kind(st, pod), what->name);
	FREE_AUTO char *uid = xstrdup(what->uid);
	if (!object)
		return FRAMEWORK_DONE;
	if (strcmp(stage_uid(object), uid) != 0)
		return FRAMEWORK_FAILED;
	stage_asked(st, "delete", pod, what->name,
	            json_pack("{s:s, s:b}", "uid", uid, "force", what->force));
	if (pod)
		stage_delete_pod(st, what->name, what->force ? 0 : -1);
	else
		stage_delete_configmap(st, what->name);
	object = json_object_get(stage_kind(st, pod), what->name);
	return what->confirm && object && strcmp(stage_uid(object), uid) == 0 ? FRAMEWORK_FAILED
	                                                                      : FRAMEWORK_DONE;
}

static void stage_transition(void *arg, const char *role, int index, const char *from,
                             const char *to)
{
	struct stage *st = arg;
	FREE_AUTO char *who = role ? xasprintf("%s/%d", role, index) : xstrdup("framework");
	json_array_append_new(st->transitions, json_pack("[s, s, s]", who, from, to));
}

/* ---- the controller ---- */

static void stage_stop(struct stage *st)
{
	framework_free(TAKE(st->machine));
	st->unsaved = false;
	st->wake_s = INT64_MAX;
}

/* The controller sees the Framework, the first time or again. */
static int stage_put(struct stage *st, struct err *e)
{
	if (st->down || !st->framework) {
		stage_stop(st);
		return 0;
	}
	if (!st->machine)
		st->machine = framework_new(st->config);
	FREE_AUTO char *text = json_dumps(st->framework, JSON_COMPACT);
	return framework_put(st->machine, span_of(text), e);
}

/* PUT of the status; the schema has three types of execution. */
static void stage_store(struct stage *st)
{
	const char *type = reply_text(json_object_get(st->framework, "spec"), "executionType");
	st->unsaved =
	    strcmp(type, "Create") != 0 && strcmp(type, "Start") != 0 && strcmp(type, "Stop") != 0;
	if (st->unsaved)
		return;
	STR_AUTO text = STR_INIT(FRAMEWORK_OBJECT_MAX);
	framework_status_write(st->machine, &text);
	json_t *status = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	json_object_set_new(st->framework, "status", status);
	JSON_AUTO *plain = symbols_plain(status);
	symbols_learn(&st->symbols, plain);
}

static void stage_delete_framework(struct stage *st, const char *propagation)
{
	json_t *metadata = stage_metadata(st->framework);
	if (!metadata || stage_dying(st->framework))
		return;
	bool foreground = strcmp(propagation, "Foreground") == 0;
	if (foreground || strcmp(propagation, "Orphan") == 0)
		json_object_set_new(metadata, "finalizers",
		                    json_pack("[s]", foreground ? FINALIZER : "orphan"));
	if (stage_held(st->framework))
		stage_mark(st, st->framework, 0);
	else
		json_decref(TAKE(st->framework));
	st->changed = true;
}

static const struct framework_world STAGE_WORLD = {
	.configmap = stage_see_configmap,
	.pod = stage_see_pod,
	.create = stage_create,
	.remove = stage_remove,
	.transition = stage_transition,
};

/* Syncs until nothing changes. */
static int stage_settle(struct stage *st, struct err *e)
{
	struct framework_world w = STAGE_WORLD;
	w.arg = st;
	for (int round = 0; st->machine; round++) {
		struct framework_result r;
		if (round == ROUNDS_MAX)
			return err_set(e, UNKNOWN_ERROR, "the machine does not settle");
		if (st->unsaved)
			stage_store(st);
		if (st->unsaved)
			return 0;
		st->changed = false;
		framework_sync(st->machine, &w, st->now_s,
		               (uint64_t)round + ((uint64_t)st->now_s << 20), &r);
		st->wake_s = r.wake_s;
		if (r.status_changed)
			stage_store(st);
		if (r.delete_framework) {
			stage_delete_framework(st, "Foreground");
			if (st->changed && stage_put(st, e) < 0)
				return -1;
		}
		if (st->stale) {
			st->stale = false;
			if (stage_put(st, e) < 0)
				return -1;
			continue;
		}
		if (st->unsaved || !(r.status_changed || r.again || st->changed))
			return 0;
	}
	return 0;
}

/* ---- stimuli ---- */

static const char *stage_configmap_name(const struct stage *st)
{
	static char name[256];
	const char *of =
	    reply_text(stage_metadata(json_object_get(st->trace, "framework")), "name");
	(void)snprintf(name, sizeof(name), "%s-attempt", of);
	return name;
}

static int stage_make_framework(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	if (st->framework)
		return err_set(e, UNKNOWN_ERROR, "there is a Framework already");
	st->framework = symbols_meant(&st->symbols, json_object_get(st->trace, "framework"));
	json_t *metadata = stage_metadata(st->framework);
	json_object_set_new(metadata, "namespace", json_string("ns"));
	json_object_set_new(metadata, "uid", symbols_next(&st->symbols, "framework"));
	return stage_put(st, e);
}

static int stage_patch_framework(struct stage *st, const json_t *stimulus, struct err *e);

static int stage_patch_status(struct stage *st, const json_t *stimulus, struct err *e)
{
	JSON_AUTO *patch = symbols_meant(&st->symbols, json_object_get(stimulus, "jsonPatch"));
	if (!st->framework || !patch_apply(&st->framework, patch))
		return err_set(e, UNKNOWN_ERROR, "the JSON patch does not fit");
	JSON_AUTO *plain = symbols_plain(json_object_get(st->framework, "status"));
	symbols_learn(&st->symbols, plain);
	return stage_put(st, e);
}

static int stage_remove_framework(struct stage *st, const json_t *stimulus, struct err *e)
{
	stage_delete_framework(st, reply_text(stimulus, "propagation"));
	return stage_put(st, e);
}

static int stage_release_framework(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	json_object_del(stage_metadata(st->framework), "finalizers");
	if (stage_dying(st->framework))
		json_decref(TAKE(st->framework));
	return stage_put(st, e);
}

static int stage_remove_configmap(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	stage_delete_configmap(st, stage_configmap_name(st));
	return 0;
}

static int stage_release_configmap(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	json_t *cm = json_object_get(st->configmaps, stage_configmap_name(st));
	json_object_del(stage_metadata(cm), "finalizers");
	if (cm && stage_dying(cm))
		stage_drop(st, false, stage_configmap_name(st));
	return 0;
}

static json_t *stage_named_pod(struct stage *st, const json_t *stimulus)
{
	return json_object_get(st->pods, reply_text(stimulus, "pod"));
}

static int stage_bind_pod(struct stage *st, const json_t *stimulus, struct err *e)
{
	json_t *pod = stage_named_pod(st, stimulus);
	if (!pod)
		return err_set(e, UNKNOWN_ERROR, "there is no pod %s", reply_text(stimulus, "pod"));
	if (!json_object_get(pod, "spec"))
		json_object_set_new(pod, "spec", json_object());
	json_object_set(json_object_get(pod, "spec"), "nodeName",
	                json_object_get(stimulus, "node"));
	return 0;
}

/* RFC 7396. */
static void stage_merge(json_t *to, json_t *patch)
{
	const char *key;
	json_t *v;
	JSON_AUTO *from = json_incref(patch);
	json_object_foreach (from, key, v) {
		if (json_is_null(v)) {
			json_object_del(to, key);
		} else if (json_is_object(v)) {
			if (!json_is_object(json_object_get(to, key)))
				json_object_set_new(to, key, json_object());
			stage_merge(json_object_get(to, key), v);
		} else {
			json_object_set(to, key, v);
		}
	}
}

static int stage_patch_framework(struct stage *st, const json_t *stimulus, struct err *e)
{
	JSON_AUTO *patch = symbols_meant(&st->symbols, json_object_get(stimulus, "patch"));
	if (!st->framework)
		return err_set(e, UNKNOWN_ERROR, "there is no Framework");
	stage_merge(st->framework, patch);
	/* Of two outcomes that are both right, that of the record. */
	st->stale = json_is_true(json_object_get(st->step, "nondeterministic")) &&
	            json_array_size(json_object_get(st->step, "transitions")) > 0;
	return st->stale ? 0 : stage_put(st, e);
}

static int stage_report_pod(struct stage *st, const json_t *stimulus, struct err *e)
{
	json_t *pod = stage_named_pod(st, stimulus);
	if (!pod)
		return err_set(e, UNKNOWN_ERROR, "there is no pod %s", reply_text(stimulus, "pod"));
	stage_merge(json_object_get(pod, "status"), json_object_get(stimulus, "status"));
	return 0;
}

static int stage_remove_pod(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)e;
	const json_t *grace = json_object_get(stimulus, "grace");
	stage_delete_pod(st, reply_text(stimulus, "pod"),
	                 json_is_integer(grace) ? json_integer_value(grace) : -1);
	return 0;
}

/* The names of all pods; new reference. */
static json_t *stage_pod_names(const struct stage *st)
{
	json_t *names = json_array();
	const char *name;
	json_t *pod;
	json_object_foreach (st->pods, name, pod)
		json_array_append_new(names, json_string(name));
	return names;
}

static int stage_pods_gone(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)e;
	const char *only = reply_text(stimulus, "pod");
	JSON_AUTO *names = stage_pod_names(st);
	size_t i;
	json_t *name;
	json_array_foreach (names, i, name) {
		const char *text = json_string_value(name);
		if (only[0] ? strcmp(only, text) == 0
		            : stage_dying(json_object_get(st->pods, text)))
			stage_drop(st, true, text);
	}
	return 0;
}

static bool stage_owner_lives(const struct stage *st, const json_t *pod)
{
	const char *name;
	json_t *cm;
	json_object_foreach (st->configmaps, name, cm)
		if (strcmp(stage_uid(cm), stage_owner(pod)) == 0)
			return !stage_dying(cm);
	return false;
}

static int stage_collect_pods(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	JSON_AUTO *names = stage_pod_names(st);
	size_t i;
	json_t *name;
	json_array_foreach (names, i, name) {
		const json_t *pod = json_object_get(st->pods, json_string_value(name));
		if (stage_owner(pod)[0] && !stage_owner_lives(st, pod))
			stage_delete_pod(st, json_string_value(name), -1);
	}
	return 0;
}

static int stage_wait(struct stage *st, const json_t *stimulus, struct err *e)
{
	if (st->wake_s == INT64_MAX)
		return err_set(e, UNKNOWN_ERROR, "the machine has no timer to wait for, as %s",
		               reply_text(stimulus, "until"));
	return 0; /* the time has gone on before: stage_clock */
}

static int stage_stop_controller(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	st->down = true;
	stage_stop(st);
	return 0;
}

static int stage_start_controller(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	st->down = false;
	stage_stop(st);
	return stage_put(st, e);
}

static int stage_make_object(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)e;
	const char *kind = reply_text(stimulus, "kind");
	json_t *object = json_deep_copy(json_object_get(stimulus, "object"));
	FREE_AUTO char *name = xstrdup(reply_text(stage_metadata(object), "name"));
	if (strcmp(kind, "pods") == 0 || strcmp(kind, "configmaps") == 0)
		(void)stage_post(st, kind[0] == 'p', name, object);
	else
		json_decref(object); /* quotas: the trace has the answers that they cause */
	return 0;
}

static int stage_remove_object(struct stage *st, const json_t *stimulus, struct err *e)
{
	(void)e;
	const char *kind = reply_text(stimulus, "kind");
	if (strcmp(kind, "pods") == 0)
		stage_delete_pod(st, reply_text(stimulus, "name"), -1);
	else if (strcmp(kind, "configmaps") == 0)
		stage_delete_configmap(st, reply_text(stimulus, "name"));
	return 0;
}

static const struct stimulus {
	const char *op;
	int (*play)(struct stage *st, const json_t *stimulus, struct err *e);
} STIMULI[] = {
	{ "framework.create", stage_make_framework },
	{ "framework.patch", stage_patch_framework },
	{ "framework.status", stage_patch_status },
	{ "framework.delete", stage_remove_framework },
	{ "framework.release", stage_release_framework },
	{ "configmap.delete", stage_remove_configmap },
	{ "configmap.release", stage_release_configmap },
	{ "pod.bind", stage_bind_pod },
	{ "pod.status", stage_report_pod },
	{ "pod.delete", stage_remove_pod },
	{ "pod.gone", stage_pods_gone },
	{ "pods.gone", stage_pods_gone },
	{ "gc.pods", stage_collect_pods },
	{ "wait", stage_wait },
	{ "controller.stop", stage_stop_controller },
	{ "controller.start", stage_start_controller },
	{ "object.create", stage_make_object },
	{ "object.delete", stage_remove_object },
};

/* ---- steps ---- */

/* Each step is a second later; `wait` goes to the time of the next timer. */
static int stage_clock(struct stage *st, bool wait, struct err *e)
{
	struct symbols *s = &st->symbols;
	if (s->steps == sizeof(s->times) / sizeof(*s->times))
		return err_set(e, UNKNOWN_ERROR, "there are more than %zu steps", s->steps);
	st->now_s++;
	if (wait && st->wake_s != INT64_MAX && st->wake_s > st->now_s)
		st->now_s = st->wake_s;
	s->times[s->steps++] = st->now_s;
	return 0;
}

/* Collects the answers that pods got in this step, in order. */
static void stage_answers(struct stage *st)
{
	size_t i;
	json_t *request;
	json_object_clear(st->refusals);
	json_array_foreach (json_object_get(st->step, "requests"), i, request) {
		const json_t *object = json_object_get(request, "object");
		const char *name = reply_text(stage_metadata(object), "name");
		json_int_t code = json_integer_value(json_object_get(request, "code"));
		enum { CONFLICT_STATUS = 409, BAD = 400 };
		if (strcmp(reply_text(request, "verb"), "create") != 0 ||
		    strcmp(reply_text(request, "kind"), "Pod") != 0)
			continue;
		json_t *list = json_object_get(st->refusals, name);
		if (code >= BAD && code != CONFLICT_STATUS) {
			if (!list) {
				list = json_array();
				json_object_set_new(st->refusals, name, list);
			}
			json_array_append(list, request);
		} else if (code < BAD && list) {
			json_array_append_new(list, json_null());
		}
	}
}

int stage_play(struct stage *st, const json_t *step, struct err *e)
{
	const json_t *stimulus = json_object_get(step, "stimulus");
	const char *op = reply_text(stimulus, "op");
	const struct stimulus *s = STIMULI;
	const struct stimulus *end = STIMULI + sizeof(STIMULI) / sizeof(*STIMULI);
	while (s < end && strcmp(s->op, op) != 0)
		s++;
	if (s == end)
		return err_set(e, UNKNOWN_ERROR, "there is no stimulus \"%s\"", op);
	st->step = step;
	json_array_clear(st->transitions);
	json_array_clear(st->requests);
	stage_answers(st);
	if (stage_clock(st, strcmp(op, "wait") == 0, e) < 0 || s->play(st, stimulus, e) < 0)
		return -1;
	return stage_settle(st, e);
}

/* ---- what is there ---- */

static void stage_show_deletion(const json_t *object, json_t *out, bool grace, bool pod)
{
	const json_t *metadata = stage_metadata(object);
	const json_t *finalizers = json_object_get(metadata, "finalizers");
	json_t *left = json_object_get(metadata, "deletionGracePeriodSeconds");
	long long at = json_integer_value(json_object_get(metadata, "deletionStep"));
	if (stage_dying(object)) {
		long long seconds = json_integer_value(left);
		json_object_set_new(out, "deletionTimestamp",
		                    seconds ? json_sprintf("@%lld+%lld", at, seconds)
		                            : json_sprintf("@%lld", at));
		if (grace)
			json_object_set(out, "deletionGracePeriodSeconds", left);
	}
	if (json_array_size(finalizers) && !pod)
		json_object_set_new(out, "finalizers", json_deep_copy(finalizers));
}

static json_t *stage_show_framework(struct stage *st)
{
	if (!st->framework)
		return json_null();
	json_t *out = json_pack("{s:s}", "uid", stage_uid(st->framework));
	stage_show_deletion(st->framework, out, false, false);
	const json_t *status = json_object_get(st->framework, "status");
	JSON_AUTO *plain = status ? symbols_plain(status) : NULL;
	json_object_set_new(out, "status",
	                    plain ? symbols_shown(&st->symbols, plain) : json_null());
	return out;
}

static void stage_show_text(json_t *out, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(out, key, json_string(text));
}

static int stage_by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *stage_show_all(json_t *objects, bool pods)
{
	size_t n = 0;
	const char **names = xcalloc(json_object_size(objects) + 1, sizeof(*names));
	JSON_AUTO *copy = json_incref(objects);
	const char *name;
	json_t *object;
	json_object_foreach (copy, name, object)
		names[n++] = name;
	qsort(names, n, sizeof(*names), stage_by_name);
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		object = json_object_get(objects, names[i]);
		json_t *out = json_pack("{s:s, s:s}", "name", names[i], "uid", stage_uid(object));
		stage_show_deletion(object, out, true, pods);
		if (pods) {
			const json_t *status = json_object_get(object, "status");
			stage_show_text(out, "phase", reply_text(status, "phase"));
			stage_show_text(out, "reason", reply_text(status, "reason"));
			stage_show_text(out, "node", stage_node(object));
			stage_show_text(out, "ip", reply_text(status, "podIP"));
			stage_show_text(out, "hostIP", reply_text(status, "hostIP"));
		}
		json_array_append_new(list, out);
	}
	free(names);
	return list;
}

json_t *stage_after(struct stage *st)
{
	return json_pack("{s:o, s:o, s:o}", "framework", stage_show_framework(st), "configMaps",
	                 stage_show_all(st->configmaps, false), "pods",
	                 stage_show_all(st->pods, true));
}

void stage_begin(struct stage *st, const struct framework_config *config, const json_t *trace)
{
	*st = (struct stage){
		.config = config,
		.trace = trace,
		.configmaps = json_object(),
		.pods = json_object(),
		.refusals = json_object(),
		.transitions = json_array(),
		.requests = json_array(),
		.now_s = FIRST_S,
		.wake_s = INT64_MAX,
	};
	symbols_begin(&st->symbols);
}

void stage_end(struct stage *st)
{
	stage_stop(st);
	symbols_end(&st->symbols);
	json_decref(st->framework);
	json_decref(st->configmaps);
	json_decref(st->pods);
	json_decref(st->refusals);
	json_decref(st->transitions);
	json_decref(st->requests);
}
