#include "tests/machine/replay.h"

#include <stdlib.h>

/* 2020-09-13: after all times of stimuli, which are of 2001. */
enum { FIRST_S = 1600000000, DEFAULT_GRACE_S = 30 };

#define FINALIZER "foregroundDeletion"

/* ---- objects ---- */

json_t *scene_metadata(const json_t *object)
{
	return json_object_get(object, "metadata");
}

const char *scene_uid(const json_t *object)
{
	return reply_text(scene_metadata(object), "uid");
}

/* The uid of the controlling owner. */
const char *scene_owner(const json_t *object)
{
	size_t i;
	json_t *owner;
	json_array_foreach (json_object_get(scene_metadata(object), "ownerReferences"), i, owner)
		if (json_is_true(json_object_get(owner, "controller")))
			return reply_text(owner, "uid");
	return "";
}

bool scene_dying(const json_t *object)
{
	return json_object_get(scene_metadata(object), "deletionTimestamp") != NULL;
}

static bool scene_held(const json_t *object)
{
	return json_array_size(json_object_get(scene_metadata(object), "finalizers")) > 0;
}

const char *scene_phase(const json_t *pod)
{
	return reply_text(json_object_get(pod, "status"), "phase");
}

const char *scene_node(const json_t *pod)
{
	return reply_text(json_object_get(pod, "spec"), "nodeName");
}

json_t *scene_kind(struct scene *sc, bool pods)
{
	return pods ? sc->pods : sc->configmaps;
}

/* Each change of an object comes here, also its end. */
static void scene_tell(struct scene *sc, json_t *object, bool gone)
{
	json_object_set_new(scene_metadata(object), "resourceVersion",
	                    json_sprintf("%lld", (long long)++sc->version));
	sc->changed = true;
	if (sc->event)
		sc->event(sc->event_arg, object, gone);
}

static void scene_touch(struct scene *sc, json_t *object)
{
	scene_tell(sc, object, false);
}

static const char *scene_post(struct scene *sc, bool pod, const char *name, json_t *object)
{
	FREE_AUTO char *what = pod ? xasprintf("pod %s", name) : xstrdup("configmap");
	json_t *metadata = scene_metadata(object);
	json_object_set_new(metadata, "name", json_string(name));
	json_object_set_new(metadata, "uid", symbols_next(&sc->symbols, what));
	if (pod)
		json_object_set_new(object, "status", json_pack("{s:s}", "phase", "Pending"));
	json_object_set_new(scene_kind(sc, pod), name, object);
	scene_touch(sc, object);
	return scene_uid(object);
}

/* Marks an object as dying.  grace_s: what it still has. */
static void scene_mark(struct scene *sc, json_t *object, int64_t grace_s)
{
	json_t *metadata = scene_metadata(object);
	json_object_set_new(metadata, "deletionTimestamp", json_integer(sc->now_s + grace_s));
	json_object_set_new(metadata, "deletionGracePeriodSeconds", json_integer(grace_s));
	json_object_set_new(metadata, "deletionStep",
	                    json_integer((json_int_t)(sc->symbols.steps - 1)));
	scene_touch(sc, object);
}

/* The object is gone, unless it has finalizers.  A pod is marked first, a ConfigMap without
 * finalizers is not. */
static void scene_drop(struct scene *sc, bool pod, const char *name)
{
	json_t *object = json_object_get(scene_kind(sc, pod), name);
	if (scene_held(object) || pod)
		scene_mark(sc, object, 0);
	if (scene_held(object))
		return;
	scene_tell(sc, object, true);
	json_object_del(scene_kind(sc, pod), name);
}

void scene_release(struct scene *sc, bool pod, const char *name)
{
	json_t *object = json_object_get(scene_kind(sc, pod), name);
	json_object_del(scene_metadata(object), "finalizers");
	if (object && (pod || scene_dying(object)))
		scene_drop(sc, pod, name);
	else if (object)
		scene_touch(sc, object);
}

/* DELETE.  grace_s -1: the pod's own. */
static void scene_delete_pod(struct scene *sc, const char *name, int64_t grace_s)
{
	json_t *pod = json_object_get(sc->pods, name);
	const json_t *own =
	    json_object_get(json_object_get(pod, "spec"), "terminationGracePeriodSeconds");
	const char *phase = scene_phase(pod);
	bool ended = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
	if (!pod)
		return;
	if (grace_s < 0)
		grace_s = json_is_integer(own) ? json_integer_value(own) : DEFAULT_GRACE_S;
	if (grace_s == 0 || ended || !scene_node(pod)[0])
		scene_drop(sc, true, name);
	else if (!scene_dying(pod))
		scene_mark(sc, pod, grace_s);
}

static void scene_delete_configmap(struct scene *sc, const char *name)
{
	json_t *cm = json_object_get(sc->configmaps, name);
	if (cm && !(scene_dying(cm) && scene_held(cm)))
		scene_drop(sc, false, name);
}

/* The answer that the trace has for a creation of this pod: {code, error}, NULL: that of this API
 * server.  The last one stays, unless the trace has a later success. */
json_t *scene_refusal(struct scene *sc, const char *name)
{
	json_t *left = json_object_get(sc->refusals, name);
	json_t *first = json_array_get(left, 0);
	if (!first)
		return NULL;
	json_incref(first);
	if (json_array_size(left) > 1) {
		json_array_remove(left, 0);
		sc->changed = true;
	}
	if (json_is_object(first))
		return first;
	json_decref(first);
	return NULL;
}

/* A Status as the API server writes it, from its reason and message. */
json_t *scene_status(const json_t *error, const char *name, int code)
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

static void scene_asked(struct scene *sc, const char *verb, bool pod, const char *name,
                        json_t *details)
{
	json_array_append_new(sc->requests, json_pack("{s:s, s:s, s:s, s:o}", "verb", verb, "kind",
	                                              pod ? "Pod" : "ConfigMap", "name", name,
	                                              "details", details));
}

const char *scene_take_create(struct scene *sc, bool pod, const char *name, json_t *object)
{
	scene_asked(sc, "create", pod, name, symbols_shown(&sc->symbols, object));
	return scene_post(sc, pod, name, object);
}

void scene_take_delete(struct scene *sc, bool pod, const char *name, bool force)
{
	const char *uid = scene_uid(json_object_get(scene_kind(sc, pod), name));
	scene_asked(sc, "delete", pod, name, json_pack("{s:s, s:b}", "uid", uid, "force", force));
	if (pod)
		scene_delete_pod(sc, name, force ? 0 : -1);
	else
		scene_delete_configmap(sc, name);
}

/* The schema has three types of execution. */
bool scene_store(struct scene *sc, json_t *framework)
{
	json_t *status = json_object_get(framework, "status");
	const char *type = reply_text(json_object_get(framework, "spec"), "executionType");
	if (strcmp(type, "Create") != 0 && strcmp(type, "Start") != 0 && strcmp(type, "Stop") != 0)
		return false;
	if (framework != sc->framework) {
		json_decref(sc->framework);
		sc->framework = json_incref(framework);
	}
	scene_touch(sc, framework);
	JSON_AUTO *plain = symbols_plain(status);
	symbols_learn(&sc->symbols, plain);
	return true;
}

static void scene_end_framework(struct scene *sc)
{
	scene_tell(sc, sc->framework, true);
	json_decref(TAKE(sc->framework));
}

void scene_delete_framework(struct scene *sc, const char *propagation)
{
	json_t *metadata = scene_metadata(sc->framework);
	if (!metadata || scene_dying(sc->framework))
		return;
	bool foreground = strcmp(propagation, "Foreground") == 0;
	if (foreground || strcmp(propagation, "Orphan") == 0)
		json_object_set_new(metadata, "finalizers",
		                    json_pack("[s]", foreground ? FINALIZER : "orphan"));
	if (scene_held(sc->framework))
		scene_mark(sc, sc->framework, 0);
	else
		scene_end_framework(sc);
}

/* ---- stimuli ---- */

static const char *scene_configmap_name(const struct scene *sc)
{
	static char name[256];
	const char *of =
	    reply_text(scene_metadata(json_object_get(sc->trace, "framework")), "name");
	(void)snprintf(name, sizeof(name), "%s-attempt", of);
	return name;
}

/* The Framework has changed, or is gone. */
static int scene_changed(struct scene *sc)
{
	if (sc->framework)
		scene_touch(sc, sc->framework);
	sc->put = true;
	return 0;
}

static int scene_make_framework(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	if (sc->framework)
		return err_set(e, UNKNOWN_ERROR, "there is a Framework already");
	sc->framework = symbols_meant(&sc->symbols, json_object_get(sc->trace, "framework"));
	json_t *metadata = scene_metadata(sc->framework);
	json_object_set_new(metadata, "namespace", json_string("ns"));
	json_object_set_new(metadata, "uid", symbols_next(&sc->symbols, "framework"));
	return scene_changed(sc);
}

static int scene_patch_framework(struct scene *sc, const json_t *stimulus, struct err *e);

static int scene_patch_status(struct scene *sc, const json_t *stimulus, struct err *e)
{
	JSON_AUTO *patch = symbols_meant(&sc->symbols, json_object_get(stimulus, "jsonPatch"));
	if (!sc->framework || !patch_apply(&sc->framework, patch))
		return err_set(e, UNKNOWN_ERROR, "the JSON patch does not fit");
	JSON_AUTO *plain = symbols_plain(json_object_get(sc->framework, "status"));
	symbols_learn(&sc->symbols, plain);
	return scene_changed(sc);
}

static int scene_remove_framework(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)e;
	scene_delete_framework(sc, reply_text(stimulus, "propagation"));
	sc->put = true;
	return 0;
}

static int scene_release_framework(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)e;
	(void)stimulus;
	json_object_del(scene_metadata(sc->framework), "finalizers");
	if (scene_dying(sc->framework))
		scene_end_framework(sc);
	return scene_changed(sc);
}

static int scene_remove_configmap(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	scene_delete_configmap(sc, scene_configmap_name(sc));
	return 0;
}

static int scene_release_configmap(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	scene_release(sc, false, scene_configmap_name(sc));
	return 0;
}

static json_t *scene_named_pod(struct scene *sc, const json_t *stimulus)
{
	return json_object_get(sc->pods, reply_text(stimulus, "pod"));
}

static int scene_bind_pod(struct scene *sc, const json_t *stimulus, struct err *e)
{
	json_t *pod = scene_named_pod(sc, stimulus);
	if (!pod)
		return err_set(e, UNKNOWN_ERROR, "there is no pod %s", reply_text(stimulus, "pod"));
	if (!json_object_get(pod, "spec"))
		json_object_set_new(pod, "spec", json_object());
	json_object_set(json_object_get(pod, "spec"), "nodeName",
	                json_object_get(stimulus, "node"));
	scene_touch(sc, pod);
	return 0;
}

/* RFC 7396. */
static void scene_merge(json_t *to, json_t *patch)
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
			scene_merge(json_object_get(to, key), v);
		} else {
			json_object_set(to, key, v);
		}
	}
}

static int scene_patch_framework(struct scene *sc, const json_t *stimulus, struct err *e)
{
	JSON_AUTO *patch = symbols_meant(&sc->symbols, json_object_get(stimulus, "patch"));
	if (!sc->framework)
		return err_set(e, UNKNOWN_ERROR, "there is no Framework");
	scene_merge(sc->framework, patch);
	/* Of two outcomes that are both right, that of the record. */
	sc->stale = json_is_true(json_object_get(sc->step, "nondeterministic")) &&
	            json_array_size(json_object_get(sc->step, "transitions")) > 0;
	scene_touch(sc, sc->framework);
	sc->put = !sc->stale;
	return 0;
}

static int scene_report_pod(struct scene *sc, const json_t *stimulus, struct err *e)
{
	json_t *pod = scene_named_pod(sc, stimulus);
	if (!pod)
		return err_set(e, UNKNOWN_ERROR, "there is no pod %s", reply_text(stimulus, "pod"));
	scene_merge(json_object_get(pod, "status"), json_object_get(stimulus, "status"));
	scene_touch(sc, pod);
	return 0;
}

static int scene_remove_pod(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)e;
	const json_t *grace = json_object_get(stimulus, "grace");
	scene_delete_pod(sc, reply_text(stimulus, "pod"),
	                 json_is_integer(grace) ? json_integer_value(grace) : -1);
	return 0;
}

/* The names of all pods; new reference. */
static json_t *scene_pod_names(const struct scene *sc)
{
	json_t *names = json_array();
	const char *name;
	json_t *pod;
	json_object_foreach (sc->pods, name, pod)
		json_array_append_new(names, json_string(name));
	return names;
}

static int scene_pods_gone(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)e;
	const char *only = reply_text(stimulus, "pod");
	JSON_AUTO *names = scene_pod_names(sc);
	size_t i;
	json_t *name;
	json_array_foreach (names, i, name) {
		const char *text = json_string_value(name);
		if (only[0] ? strcmp(only, text) == 0
		            : scene_dying(json_object_get(sc->pods, text)))
			scene_drop(sc, true, text);
	}
	return 0;
}

bool scene_owner_lives(const struct scene *sc, const json_t *pod)
{
	const char *name;
	json_t *cm;
	json_object_foreach (sc->configmaps, name, cm)
		if (strcmp(scene_uid(cm), scene_owner(pod)) == 0)
			return !scene_dying(cm);
	return false;
}

static int scene_collect_pods(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	JSON_AUTO *names = scene_pod_names(sc);
	size_t i;
	json_t *name;
	json_array_foreach (names, i, name) {
		const json_t *pod = json_object_get(sc->pods, json_string_value(name));
		if (scene_owner(pod)[0] && !scene_owner_lives(sc, pod))
			scene_delete_pod(sc, json_string_value(name), -1);
	}
	return 0;
}

/* The time goes on. */
static int scene_wait(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)sc;
	(void)stimulus;
	(void)e;
	return 0;
}

static int scene_stop_controller(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	sc->down = true;
	return 0;
}

static int scene_start_controller(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)stimulus;
	(void)e;
	sc->down = false;
	sc->started = true;
	sc->put = true;
	return 0;
}

static int scene_make_object(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)e;
	const char *kind = reply_text(stimulus, "kind");
	json_t *object = json_deep_copy(json_object_get(stimulus, "object"));
	FREE_AUTO char *name = xstrdup(reply_text(scene_metadata(object), "name"));
	if (strcmp(kind, "pods") == 0 || strcmp(kind, "configmaps") == 0)
		(void)scene_post(sc, kind[0] == 'p', name, object);
	else
		json_decref(object); /* quotas: the trace has the answers that they cause */
	return 0;
}

static int scene_remove_object(struct scene *sc, const json_t *stimulus, struct err *e)
{
	(void)e;
	const char *kind = reply_text(stimulus, "kind");
	if (strcmp(kind, "pods") == 0)
		scene_delete_pod(sc, reply_text(stimulus, "name"), -1);
	else if (strcmp(kind, "configmaps") == 0)
		scene_delete_configmap(sc, reply_text(stimulus, "name"));
	return 0;
}

static const struct stimulus {
	const char *op;
	int (*play)(struct scene *sc, const json_t *stimulus, struct err *e);
} STIMULI[] = {
	{ "framework.create", scene_make_framework },
	{ "framework.patch", scene_patch_framework },
	{ "framework.status", scene_patch_status },
	{ "framework.delete", scene_remove_framework },
	{ "framework.release", scene_release_framework },
	{ "configmap.delete", scene_remove_configmap },
	{ "configmap.release", scene_release_configmap },
	{ "pod.bind", scene_bind_pod },
	{ "pod.status", scene_report_pod },
	{ "pod.delete", scene_remove_pod },
	{ "pod.gone", scene_pods_gone },
	{ "pods.gone", scene_pods_gone },
	{ "gc.pods", scene_collect_pods },
	{ "wait", scene_wait },
	{ "controller.stop", scene_stop_controller },
	{ "controller.start", scene_start_controller },
	{ "object.create", scene_make_object },
	{ "object.delete", scene_remove_object },
};

/* ---- steps ---- */

void scene_set_time(struct scene *sc, int64_t now_s)
{
	sc->now_s = now_s;
	sc->symbols.times[sc->symbols.steps - 1] = now_s;
}

/* Collects the answers that pods got in this step, in order. */
static void scene_answers(struct scene *sc)
{
	size_t i;
	json_t *request;
	json_object_clear(sc->refusals);
	json_array_foreach (json_object_get(sc->step, "requests"), i, request) {
		const json_t *object = json_object_get(request, "object");
		const char *name = reply_text(scene_metadata(object), "name");
		json_int_t code = json_integer_value(json_object_get(request, "code"));
		enum { CONFLICT_STATUS = 409, BAD = 400 };
		if (strcmp(reply_text(request, "verb"), "create") != 0 ||
		    strcmp(reply_text(request, "kind"), "Pod") != 0)
			continue;
		json_t *list = json_object_get(sc->refusals, name);
		if (code >= BAD && code != CONFLICT_STATUS) {
			if (!list) {
				list = json_array();
				json_object_set_new(sc->refusals, name, list);
			}
			json_array_append(list, request);
		} else if (code < BAD && list) {
			json_array_append_new(list, json_null());
		}
	}
}

int scene_play(struct scene *sc, const json_t *step, struct err *e)
{
	struct symbols *symbols = &sc->symbols;
	const json_t *stimulus = json_object_get(step, "stimulus");
	const char *op = reply_text(stimulus, "op");
	const struct stimulus *s = STIMULI;
	const struct stimulus *end = STIMULI + sizeof(STIMULI) / sizeof(*STIMULI);
	while (s < end && strcmp(s->op, op) != 0)
		s++;
	if (s == end)
		return err_set(e, UNKNOWN_ERROR, "there is no stimulus \"%s\"", op);
	if (symbols->steps == sizeof(symbols->times) / sizeof(*symbols->times))
		return err_set(e, UNKNOWN_ERROR, "there are more than %zu steps", symbols->steps);
	sc->step = step;
	symbols->steps++;
	scene_set_time(sc, sc->now_s + 1);
	sc->put = false;
	sc->started = false;
	json_array_clear(sc->transitions);
	json_array_clear(sc->requests);
	scene_answers(sc);
	return s->play(sc, stimulus, e);
}

/* ---- what is there ---- */

static void scene_show_deletion(const json_t *object, json_t *out, bool grace, bool pod)
{
	const json_t *metadata = scene_metadata(object);
	const json_t *finalizers = json_object_get(metadata, "finalizers");
	json_t *left = json_object_get(metadata, "deletionGracePeriodSeconds");
	long long at = json_integer_value(json_object_get(metadata, "deletionStep"));
	if (scene_dying(object)) {
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

static json_t *scene_show_framework(const struct scene *sc)
{
	if (!sc->framework)
		return json_null();
	json_t *out = json_pack("{s:s}", "uid", scene_uid(sc->framework));
	scene_show_deletion(sc->framework, out, false, false);
	JSON_AUTO *plain = symbols_plain(json_object_get(sc->framework, "status"));
	json_object_set_new(out, "status",
	                    plain ? symbols_shown(&sc->symbols, plain) : json_null());
	return out;
}

static void scene_show_text(json_t *out, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(out, key, json_string(text));
}

static int scene_by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static json_t *scene_show_all(json_t *objects, bool pods)
{
	size_t n = 0;
	const char **names = xcalloc(json_object_size(objects) + 1, sizeof(*names));
	JSON_AUTO *copy = json_incref(objects);
	const char *name;
	json_t *object;
	json_object_foreach (copy, name, object)
		names[n++] = name;
	qsort(names, n, sizeof(*names), scene_by_name);
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		object = json_object_get(objects, names[i]);
		json_t *out = json_pack("{s:s, s:s}", "name", names[i], "uid", scene_uid(object));
		scene_show_deletion(object, out, true, pods);
		if (pods) {
			const json_t *status = json_object_get(object, "status");
			scene_show_text(out, "phase", reply_text(status, "phase"));
			scene_show_text(out, "reason", reply_text(status, "reason"));
			scene_show_text(out, "node", scene_node(object));
			scene_show_text(out, "ip", reply_text(status, "podIP"));
			scene_show_text(out, "hostIP", reply_text(status, "hostIP"));
		}
		json_array_append_new(list, out);
	}
	free(names);
	return list;
}

json_t *scene_after(const struct scene *sc)
{
	return json_pack("{s:o, s:o, s:o}", "framework", scene_show_framework(sc), "configMaps",
	                 scene_show_all(sc->configmaps, false), "pods",
	                 scene_show_all(sc->pods, true));
}

void scene_begin(struct scene *sc, const json_t *trace)
{
	*sc = (struct scene){
		.trace = trace,
		.configmaps = json_object(),
		.pods = json_object(),
		.refusals = json_object(),
		.transitions = json_array(),
		.requests = json_array(),
		.now_s = FIRST_S,
	};
	symbols_begin(&sc->symbols);
}

void scene_end(struct scene *sc)
{
	symbols_end(&sc->symbols);
	json_decref(sc->framework);
	json_decref(sc->configmaps);
	json_decref(sc->pods);
	json_decref(sc->refusals);
	json_decref(sc->transitions);
	json_decref(sc->requests);
}
