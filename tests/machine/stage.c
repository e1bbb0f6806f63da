#include "tests/machine/replay.h"

#include <stdlib.h>

#include "base/time.h"

enum { ROUNDS_MAX = 500 };

/* ---- what the machine asks ---- */

static enum framework_presence stage_see_configmap(void *arg, const char *name, const char *uid,
                                                   struct framework_configmap *out)
{
	struct stage *st = arg;
	const json_t *cm = json_object_get(st->scene.configmaps, name);
	(void)uid;
	if (!cm)
		return FRAMEWORK_ABSENT;
	*out = (struct framework_configmap){ scene_uid(cm), scene_owner(cm), scene_dying(cm) };
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
	const json_t *pod = json_object_get(st->scene.pods, name);
	const json_t *metadata = scene_metadata(pod);
	const json_t *status = json_object_get(pod, "status");
	size_t n = 0;
	(void)uid;
	if (!pod)
		return FRAMEWORK_ABSENT;
	stage_see_containers(st, json_object_get(status, "initContainerStatuses"), &n);
	stage_see_containers(st, json_object_get(status, "containerStatuses"), &n);
	*out = (struct framework_pod){
		.uid = scene_uid(pod),
		.owner_uid = scene_owner(pod),
		.dying = scene_dying(pod),
		.deletion_s = json_integer_value(json_object_get(metadata, "deletionTimestamp")),
		.grace_s =
		    json_integer_value(json_object_get(metadata, "deletionGracePeriodSeconds")),
		.phase = scene_phase(pod),
		.reason = reply_text(status, "reason"),
		.message = reply_text(status, "message"),
		.node = scene_node(pod),
		.ip = reply_text(status, "podIP"),
		.host_ip = reply_text(status, "hostIP"),
		.containers = st->containers,
		.n_containers = n,
	};
	return FRAMEWORK_THERE;
}

static enum framework_answer stage_create(void *arg, const struct framework_object *object,
                                          struct framework_created *out)
{
	static json_t *status; /* borrowed by the machine until the next call */
	struct stage *st = arg;
	const char *name = object->name;
	bool pod = object->kind == FRAMEWORK_POD;
	JSON_AUTO *refusal = pod ? scene_refusal(&st->scene, name) : NULL;
	json_decref(TAKE(status));
	if (refusal) {
		enum { TOO_MANY = 429 };
		int code = (int)json_integer_value(json_object_get(refusal, "code"));
		status = scene_status(json_object_get(refusal, "error"), name, code);
		out->http = code;
		out->status = status;
		return code >= 500 || code == TOO_MANY ? FRAMEWORK_FAILED : FRAMEWORK_REFUSED;
	}
	if (json_object_get(scene_kind(&st->scene, pod), name))
		return FRAMEWORK_FAILED;
	STR_AUTO text = STR_INIT(FRAMEWORK_OBJECT_MAX);
	framework_object_write(st->machine, object, &text);
	json_t *made = reply_parse(str_view(&text));
	out->uid = scene_take_create(&st->scene, pod, name, made);
	return FRAMEWORK_DONE;
}

static enum framework_answer stage_remove(void *arg, const struct framework_delete *what)
{
	struct stage *st = arg;
	bool pod = what->kind == FRAMEWORK_POD;
	const json_t *object = json_object_get(scene_kind(&st->scene, pod), what->name);
	FREE_AUTO char *uid = xstrdup(what->uid);
	if (!object)
		return FRAMEWORK_DONE;
	if (strcmp(scene_uid(object), uid) != 0)
		return FRAMEWORK_FAILED;
	scene_take_delete(&st->scene, pod, what->name, what->force);
	object = json_object_get(scene_kind(&st->scene, pod), what->name);
	return what->confirm && object && strcmp(scene_uid(object), uid) == 0 ? FRAMEWORK_FAILED
	                                                                      : FRAMEWORK_DONE;
}

static void stage_transition(void *arg, const char *role, int index, const char *from,
                             const char *to)
{
	struct stage *st = arg;
	FREE_AUTO char *who = role ? xasprintf("%s/%d", role, index) : xstrdup("framework");
	json_array_append_new(st->scene.transitions, json_pack("[s, s, s]", who, from, to));
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
	if (st->scene.down || !st->scene.framework) {
		stage_stop(st);
		return 0;
	}
	if (!st->machine)
		st->machine = framework_new(st->config);
	FREE_AUTO char *text = json_dumps(st->scene.framework, JSON_COMPACT);
	return framework_put(st->machine, span_of(text), e);
}

/* The machine's summary is that of its text. */
static void stage_check_summary(const struct stage *st, struct span status)
{
	ARENA_AUTO a = { 0 };
	struct fw_view f;
	struct fw_summary of;
	struct fw_summary is;
	fw_view_read(status, &a, &f);
	bool good = fw_view_summary(&f, &a, &of) && !f.odd;
	framework_summary(st->machine, &is);
	good = good && span_eq(of.state, is.state) && of.run_ms == is.run_ms &&
	       of.completion_ms == is.completion_ms && of.transition_ms == is.transition_ms &&
	       of.retried == is.retried && of.accountable == is.accountable &&
	       of.retry_delay_s == is.retry_delay_s && of.attempt == is.attempt &&
	       of.has_code == is.has_code && of.has_last == is.has_last && of.code == is.code &&
	       of.last_code == is.last_code;
	if (!good) {
		(void)fprintf(stderr, "another summary than that of %.*s\n", (int)status.n,
		              status.p);
		abort();
	}
}

/* PUT of the status. */
static void stage_store(struct stage *st)
{
	STR_AUTO text = STR_INIT(FRAMEWORK_OBJECT_MAX);
	framework_status_write(st->machine, &text);
	stage_check_summary(st, str_view(&text));
	JSON_AUTO *next = json_copy(st->scene.framework);
	json_object_set_new(next, "status",
	                    json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL));
	st->unsaved = !scene_store(&st->scene, next);
}

static const struct framework_client STAGE_WORLD = {
	.configmap = stage_see_configmap,
	.pod = stage_see_pod,
	.create = stage_create,
	.remove = stage_remove,
	.transition = stage_transition,
};

/* Syncs until nothing changes. */
static int stage_settle(struct stage *st, struct err *e)
{
	struct framework_client w = STAGE_WORLD;
	w.arg = st;
	for (int round = 0; st->machine; round++) {
		struct framework_result r;
		if (round == ROUNDS_MAX)
			return err_set(e, UNKNOWN_ERROR, "the machine does not settle");
		if (st->unsaved)
			stage_store(st);
		if (st->unsaved)
			return 0;
		st->scene.changed = false;
		framework_sync(st->machine, &w, st->scene.now_s,
		               (uint64_t)round + ((uint64_t)st->scene.now_s << 20), &r);
		st->wake_s = r.wake_s;
		if (r.status_changed)
			stage_store(st);
		if (r.delete_framework) {
			scene_delete_framework(&st->scene, "Foreground");
			if (st->scene.changed && stage_put(st, e) < 0)
				return -1;
		}
		if (st->scene.stale) {
			st->scene.stale = false;
			if (stage_put(st, e) < 0)
				return -1;
			continue;
		}
		if (st->unsaved || !(r.status_changed || r.again || st->scene.changed))
			return 0;
	}
	return 0;
}

int stage_play(struct stage *st, const json_t *step, struct err *e)
{
	struct scene *sc = &st->scene;
	if (scene_play(sc, step, e) < 0)
		return -1;
	if (strcmp(reply_text(json_object_get(step, "stimulus"), "op"), "wait") == 0) {
		if (st->wake_s == INT64_MAX)
			return err_set(e, UNKNOWN_ERROR, "the machine has no timer to wait for");
		if (st->wake_s > sc->now_s)
			scene_set_time(sc, st->wake_s);
	}
	if (sc->down || sc->started)
		stage_stop(st);
	if (sc->put && stage_put(st, e) < 0)
		return -1;
	return stage_settle(st, e);
}

void stage_begin(struct stage *st, const struct framework_config *config, const json_t *trace)
{
	*st = (struct stage){ .config = config, .wake_s = INT64_MAX };
	scene_begin(&st->scene, trace);
}

void stage_end(struct stage *st)
{
	stage_stop(st);
	scene_end(&st->scene);
}
