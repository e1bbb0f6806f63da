/* Frameworks, ConfigMaps and pods as watches and answers of GETs show them.  Objects are
 * input like any other: a member of a wrong type is absent. */
#include <stdlib.h>

#include "base/enc.h"
#include "base/json/fields.h"
#include "base/json/put.h"
#include "jobs/cache/job_entry_pack.h"
#include "jobs/framework/view.h"
#include "k8s/controller/rules/rules_internal.h"

enum { CONTAINERS_MOST = 64, NAME_MOST = 253, UID_MOST = 128, TEXT_MOST = 4096 };

/* ---- metadata -------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct rules_metadata, member)
static const struct scan_field METADATA[] = {
	{ "uid", SCAN_TO_TEXT, AT(uid), NULL },
	{ "name", SCAN_TO_TEXT, AT(name), NULL },
	{ "namespace", SCAN_TO_TEXT, AT(namespace_name), NULL },
	{ "resourceVersion", SCAN_TO_TEXT, AT(version), NULL },
	{ "deletionTimestamp", SCAN_TO_TIME, AT(deletion_ms), NULL },
	{ "deletionGracePeriodSeconds", SCAN_TO_INT, AT(grace_s), NULL },
	{ "ownerReferences", SCAN_TO_RAW, AT(owners), NULL },
	{ "annotations", SCAN_TO_RAW, AT(annotations), NULL },
	{ "labels", SCAN_TO_RAW, AT(labels), NULL },
	{ "managedFields", SCAN_TO_RAW, AT(managers), NULL },
	{ 0 },
};
#undef AT

void rules_read_metadata(struct span object, struct arena *a, struct rules_metadata *out)
{
	*out = (struct rules_metadata){ 0 };
	(void)scan_fields(scan_get(object, "metadata"), METADATA, out, a); /* odd ones are absent */
}

struct span rules_read_owner(const struct rules_metadata *m, struct arena *a)
{
	struct span owner;
	for (struct scan owners = scan_begin(m->owners); scan_item(&owners, &owner);)
		if (span_is(scan_get(owner, "controller"), "true"))
			return scan_text(scan_get(owner, "uid"), a);
	return (struct span){ NULL, 0 };
}

int64_t rules_version(const struct rules_metadata *m)
{
	int64_t version = 0; /* of a server whose versions are no numbers: nothing is ignored */
	(void)parse_i64(m->version, 0, INT64_MAX, &version);
	return version;
}

static bool metadata_is_usable(const struct rules_metadata *m)
{
	return m->uid.n && m->uid.n <= UID_MOST && m->name.n && m->name.n <= NAME_MOST &&
	       m->namespace_name.n && m->namespace_name.n <= NAME_MOST;
}

/* ---- ConfigMaps and pods --------------------------------------------------------------------- */

struct pod_members {
	struct span node, phase, reason, message, ip, host_ip, containers, init_containers, gates;
};

#define AT(member) offsetof(struct pod_members, member)
static const struct scan_field POD_SPEC[] = { { "nodeName", SCAN_TO_TEXT, AT(node), NULL },
	                                      { "schedulingGates", SCAN_TO_RAW, AT(gates), NULL },
	                                      { 0 } };
static const struct scan_field POD_STATUS[] = {
	{ "phase", SCAN_TO_TEXT, AT(phase), NULL },
	{ "reason", SCAN_TO_TEXT, AT(reason), NULL },
	{ "message", SCAN_TO_TEXT, AT(message), NULL },
	{ "podIP", SCAN_TO_TEXT, AT(ip), NULL },
	{ "hostIP", SCAN_TO_TEXT, AT(host_ip), NULL },
	{ "initContainerStatuses", SCAN_TO_RAW, AT(init_containers), NULL },
	{ "containerStatuses", SCAN_TO_RAW, AT(containers), NULL },
	{ 0 },
};
static const struct scan_field POD_MEMBERS[] = {
	{ "spec", SCAN_TO_MEMBERS, 0, POD_SPEC },
	{ "status", SCAN_TO_MEMBERS, 0, POD_STATUS },
	{ 0 },
};
#undef AT

static const char *pod_text(struct span text, struct arena *a)
{
	return arena_dup(a, span_cut(text, TEXT_MOST));
}

static void pod_read_containers(struct span list, struct arena *a, struct framework_container *out,
                                size_t *n)
{
	struct span item;
	for (struct scan all = scan_begin(list); scan_item(&all, &item) && *n < CONTAINERS_MOST;) {
		struct framework_container *c = &out[(*n)++];
		struct span state = scan_get(item, "state");
		struct span ended = scan_get(state, "terminated");
		struct span of = ended.p ? ended : scan_get(state, "waiting");
		int64_t code = 0;
		int64_t signal = 0;
		int64_t finished_ms = 0;
		(void)scan_int(scan_get(ended, "exitCode"), INT32_MIN, INT32_MAX, &code);
		(void)scan_int(scan_get(ended, "signal"), INT32_MIN, INT32_MAX, &signal);
		(void)scan_time_ms(scan_get(ended, "finishedAt"), &finished_ms);
		*c = (struct framework_container){
			.name = pod_text(scan_text(scan_get(item, "name"), a), a),
			.reason = pod_text(scan_text(scan_get(of, "reason"), a), a),
			.message = pod_text(scan_text(scan_get(of, "message"), a), a),
			.terminated = scan_type(ended) == SCAN_OBJECT,
			.code = (int32_t)code,
			.signal = (int32_t)signal,
			.finished_s = finished_ms / 1000,
		};
	}
}

/* Kueue has not let it start. */
static bool pod_is_gated(struct span gates, struct arena *a)
{
	struct span gate;
	for (struct scan all = scan_begin(gates); scan_item(&all, &gate);)
		if (span_is(scan_text(scan_get(gate, "name"), a), ADMISSION_GATE))
			return true;
	return false;
}

/* Containers matter only when the pod has ended. */
static void pod_read_status(struct span object, struct arena *a, struct framework_pod *out,
                            bool *gated)
{
	struct pod_members m = { 0 };
	(void)scan_fields(object, POD_MEMBERS, &m, a); /* odd ones are absent */
	*gated = pod_is_gated(m.gates, a);
	out->phase = pod_text(m.phase, a);
	out->node = pod_text(m.node, a);
	out->ip = pod_text(m.ip, a);
	out->host_ip = pod_text(m.host_ip, a);
	if (!span_is(m.phase, "Failed") && !span_is(m.phase, "Succeeded"))
		return;
	struct framework_container *all = ARENA_NEW(a, struct framework_container, CONTAINERS_MOST);
	out->reason = pod_text(m.reason, a);
	out->message = pod_text(m.message, a);
	pod_read_containers(m.init_containers, a, all, &out->n_containers);
	pod_read_containers(m.containers, a, all, &out->n_containers);
	out->containers = all;
}

/* Copies a text to the place where the next one begins. */
static const char *texts_append(char **at, const char *text)
{
	size_t n = text ? strlen(text) + 1 : 0;
	char *to = *at;
	if (!n)
		return NULL;
	memcpy(to, text, n);
	*at += n;
	return to;
}

static size_t texts_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* A copy of the view with all its texts in one block of memory, since there are many pods. */
static void object_keep_view(struct rules_object *o, const struct framework_pod *from)
{
	const char *const *texts[] = {
		&from->uid, &from->owner_uid, &from->phase,  &from->node,
		&from->ip,  &from->host_ip,   &from->reason, &from->message
	};
	size_t size = from->n_containers * sizeof(struct framework_container);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		size += texts_size(*texts[i]);
	for (size_t i = 0; i < from->n_containers; i++) {
		const struct framework_container *c = &from->containers[i];
		size += texts_size(c->name) + texts_size(c->reason) + texts_size(c->message);
	}
	struct framework_container *containers = xmalloc(size + 1);
	char *at = (char *)(containers + from->n_containers);
	struct framework_pod *to = &o->view;
	free(o->texts);
	o->texts = containers;
	*to = *from;
	const char **copies[] = { &to->uid, &to->owner_uid, &to->phase,  &to->node,
		                  &to->ip,  &to->host_ip,   &to->reason, &to->message };
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		*copies[i] = texts_append(&at, *texts[i]);
	for (size_t i = 0; i < from->n_containers; i++) {
		containers[i] = from->containers[i];
		containers[i].name = texts_append(&at, from->containers[i].name);
		containers[i].reason = texts_append(&at, from->containers[i].reason);
		containers[i].message = texts_append(&at, from->containers[i].message);
	}
	to->containers = containers;
}

struct rules_object *object_find_known(struct rules_job *job, enum object_kind kind,
                                       const char *name, bool make)
{
	struct rules *r = job->r;
	struct rules_object *o;
	if (kind == KIND_CONFIGMAP)
		return &job->configmap;
	if (kind == KIND_WORKLOAD)
		return make             ? &job_admission(job)->workload
		       : job->admission ? &job->admission->workload
		                        : NULL;
	struct hash_key key = r->key; /* so that names of another job are elsewhere */
	key.v[0] ^= (uint64_t)(uintptr_t)job;
	size_t bucket = hash_bytes(&key, span_of(name)) % RULES_BUCKETS;
	LIST_FOREACH(o, &r->pods[bucket], same_hash)
	if (o->job == job && strcmp(o->name, name) == 0)
		return o;
	if (!make)
		return NULL;
	o = xcalloc(1, sizeof(*o));
	o->job = job;
	o->name = xstrdup(name);
	LIST_INSERT_HEAD(&r->pods[bucket], o, same_hash);
	LIST_INSERT_HEAD(&job->pods, o, siblings);
	counter_add(&r->set.counts->pods, 1);
	return o;
}

/* Of a ConfigMap, which is a member of its job: forgets all. */
void object_free_known(struct rules_object *o)
{
	free(o->texts);
	free(o->gone);
	if (!o->name) {
		*o = (struct rules_object){ .job = o->job };
		return;
	}
	LIST_REMOVE(o, same_hash);
	LIST_REMOVE(o, siblings);
	counter_subtract(&o->job->r->set.counts->pods);
	free(o->name);
	free(o);
}

/* The job has something to look at. */
static void job_wake(struct rules_job *job, const struct rules_time *now)
{
	job->step.sync_ms = RULES_AT_ONCE;
	if (job->framework || job->admission)
		job_step_at(job, now->ms);
}

/* A pod has ended: others of its namespace may be within the quota now. */
static void quota_retry(const struct rules_job *of, const struct rules_time *now)
{
	struct rules_job *job;
	LIST_FOREACH(job, &of->r->quota, quota)
	if (strcmp(job->namespace_name, of->namespace_name) == 0)
		job_wake(job, now);
}

bool pod_is_over(const struct framework_pod *pod)
{
	const char *phase = pod->phase ? pod->phase : "";
	return strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0;
}

void object_note(struct rules_object *o, const struct rules_time *now, struct span object,
                 enum object_kind kind)
{
	ARENA_AUTO a = { 0 };
	struct rules_metadata m;
	struct framework_pod view = { 0 };
	struct rules_job *job = o->job;
	rules_read_metadata(object, &a, &m);
	int64_t version = rules_version(&m);
	o->list = job->r->lists[kind];
	if (!m.uid.n || (version && version < o->version) || (o->gone && span_is(m.uid, o->gone)))
		return;
	view.uid = arena_dup(&a, m.uid);
	view.owner_uid = arena_dup(&a, rules_read_owner(&m, &a));
	view.dying = m.deletion_ms >= 0;
	view.deletion_s = view.dying ? m.deletion_ms / 1000 : 0;
	view.grace_s = m.grace_s > 0 ? m.grace_s : 0;
	if (kind == KIND_POD)
		pod_read_status(object, &a, &view, &o->gated);
	if (o->gated) {
		(void)job_admission(job);
		job_tell(job, "PodGated", RULES_GATED);
	}
	bool replaces = o->state != OBJECT_NONE && strcmp(o->view.uid, view.uid) != 0;
	if (replaces) { /* names are unique, so the other one is gone */
		free(o->gone);
		o->gone = xstrdup(o->view.uid);
		o->remove_ms = o->removals = 0;
	}
	o->alien = o->alien && o->state != OBJECT_NONE && !replaces;
	if (pod_is_over(&view) && (o->state == OBJECT_NONE || !pod_is_over(&o->view)))
		quota_retry(job, now);
	object_keep_view(o, &view);
	o->state = OBJECT_LIVE;
	o->version = version;
	if (kind == KIND_WORKLOAD) {
		workload_note(o, object);
		job_wake(job, now);
		return;
	}
	o->unwatched = scan_get(m.labels, "FC_FRAMEWORK_NAME").p == NULL;
	if (o->unwatched) {
		job->step.unwatched_ms = now->ms + RULES_UNWATCHED_MS;
		job_step_at(job, job->step.unwatched_ms);
	}
	job->step.sweep = true;
	job_wake(job, now);
}

void object_note_gone(struct rules_object *o, const struct rules_time *now, const char *uid)
{
	char *gone = xstrdup(uid); /* it may be that of the view */
	if (o->state != OBJECT_NONE && strcmp(o->view.uid, gone) == 0) {
		o->state = OBJECT_NONE;
		free(TAKE(o->texts));
		o->view = (struct framework_pod){ 0 };
	}
	free(o->gone);
	o->gone = gone;
	o->retry_ms = o->remove_ms = o->removals = 0; /* the name is free */
	quota_retry(o->job, now);
	job_wake(o->job, now);
}

/* The job of a Workload, JOB, of a ConfigMap, JOB-attempt, or of a pod, JOB-ROLE-INDEX. */
static struct rules_object *object_of_event(struct rules *r, enum object_kind kind,
                                            const struct rules_metadata *m, struct arena *a,
                                            bool make)
{
	struct span name = span_to(m->name, span_chr(m->name, '-'));
	bool configmap = kind == KIND_CONFIGMAP;
	bool workload = kind == KIND_WORKLOAD;
	if (!metadata_is_usable(m) || !name.n || (name.n == m->name.n) != workload ||
	    (configmap && !span_is(span_from(m->name, name.n), "-attempt")))
		return NULL;
	struct rules_job *job = job_of_name(r, m->namespace_name, name, make);
	if (!job || (job->state == JOB_ENDED && !workload))
		return NULL;
	return object_find_known(job, kind, arena_dup(a, m->name), make);
}

/* A ConfigMap that is there after the end of its Framework. */
static void configmap_note_late(struct rules *r, const struct rules_metadata *m, struct arena *a)
{
	struct span name = span_to(m->name, span_chr(m->name, '-'));
	struct rules_job *job = job_of_name(r, m->namespace_name, name, false);
	if (job && job->state == JOB_ENDED && span_is(rules_read_owner(m, a), job->uid))
		job_remove_late(job, arena_dup(a, m->uid));
}

/* ---- Frameworks ------------------------------------------------------------------------------ */

static void job_note_complete(struct rules_job *job, const struct rules_time *now,
                              struct span status)
{
	ARENA_AUTO a = { 0 };
	struct fw_view view;
	fw_view_read(status, &a, &view);
	if (!span_is(view.state, "Completed") || view.transition_ms < 0 || view.odd)
		return;
	const struct completion_status end = fw_view_completion(view.outcome, &a);
	if (job->admission)
		job->admission->succeeded = end.has_code && end.code == 0;
	job_end(job, now, view.transition_ms / 1000);
}

/* Canonical JSON: API servers sort members. */
static char *status_canonical(struct span status)
{
	json_t *tree = json_loadb(status.p, status.n, JSON_DECODE_ANY, NULL);
	char *text = json_dumps(tree, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	json_decref(tree);
	return text;
}

/* Three writes of FrameworkController within a minute: it runs beside this controller. */
static void rules_note_rival(struct rules *r, const struct rules_time *now, struct span managers,
                             struct arena *a)
{
	enum { MINUTE_MS = 60000 };
	struct span item;
	struct span last = { NULL, 0 };
	bool rival = false;
	for (struct scan all = scan_begin(managers); scan_item(&all, &item);) {
		struct span time = scan_text(scan_get(item, "time"), a);
		if (span_compare(time, last) < 0)
			continue;
		last = time; /* texts of times in UTC are in the order of the times */
		rival = span_is(scan_text(scan_get(item, "manager"), a), "frameworkcontroller");
	}
	if (!rival)
		return;
	int64_t third_ms = r->foreign_ms[1];
	r->foreign_ms[1] = r->foreign_ms[0];
	r->foreign_ms[0] = now->ms;
	if (now->ms - third_ms < MINUTE_MS)
		r->passive_ms = now->ms + RULES_PASSIVE_MS;
}

/* The stored status is not the one that was written last: ours is written again, later each time.
 */
static void job_check_status(struct rules_job *job, const struct rules_time *now,
                             struct span object, const struct rules_metadata *m, struct arena *a)
{
	STR_AUTO ours = STR_INIT(RULES_OBJECT_MAX);
	(job->write.packs ? framework_status_write_packed : framework_status_write)(job->framework,
	                                                                            &ours);
	FREE_AUTO char *mine = status_canonical(str_view(&ours));
	FREE_AUTO char *theirs = status_canonical(scan_get(object, "status"));
	if (ours.full || (mine && theirs && strcmp(mine, theirs) == 0))
		return;
	enum { SECOND = 8 /* rules_backoff: 1.28 s */ };
	counter_add(&job->r->set.counts->foreign, 1);
	job_tell(job, "ForeignWriter",
	         "Something else has changed the status of this Framework. The controller writes "
	         "its own status again.");
	rules_note_rival(job->r, now, m->managers, a);
	if (now->ms - job->write.foreign_ms > RULES_PASSIVE_MS)
		job->write.foreign = 0;
	job->write.foreign_ms = now->ms;
	job->write.hold_ms = now->ms + rules_backoff(job->r, SECOND + job->write.foreign++);
	job_move(job, ON_HURRY);
	job_step_at(job, job->write.hold_ms);
}

/* Keeps the object for the state machine. */
static void job_keep_unread(struct rules_job *job, const struct rules_time *now, struct span object,
                            enum rules_unread unread)
{
	static const char *const KEYS[] = { "metadata", "spec", "status" };
	struct span part[ARRAY_SIZE(KEYS)];
	scan_members(object, KEYS, part, ARRAY_SIZE(KEYS));
	STR_AUTO text = STR_INIT(RULES_TEXT_MAX);
	STR_AUTO packed = STR_INIT(RULES_TEXT_MAX);
	json_put_open(&text, NULL, '{');
	for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
		json_put_raw(&text, KEYS[i], part[i]);
	str_char(&text, '}');
	if (text.full || !job_entry_pack(&packed, str_view(&text))) {
		counter_add(&job->r->set.counts->unreadable, 1);
		job_tell(job, "Unreadable", "This Framework is too large for the controller.");
		return;
	}
	str_done(&job->read.next.text);
	job->read.next = (struct rules_packed){ STR_INIT(packed.n), text.n };
	str_span(&job->read.next.text, str_view(&packed));
	if (job->read.unread < unread)
		job->read.unread = unread;
	job_drop_ops(job, OP_UNSENT);
	job_step_at(job, now->ms);
}

/* The Framework of this job, as it is now. */
static void job_compare(struct rules_job *job, const struct rules_time *now, struct span object,
                        const struct rules_metadata *m)
{
	ARENA_AUTO a = { 0 };
	struct rules *r = job->r;
	struct span spec = scan_get(object, "spec");
	struct span leader = scan_text(scan_get(m->annotations, RULES_ANNOTATION), &a);
	bool ours = span_is(leader, r->set.identity);
	bool owned = job->write.fence == FENCE_OURS;
	uint64_t hash = hash_bytes(&r->key, spec) + (m->deletion_ms >= 0);
	bool changed = hash != job->read.spec_hash;
	job->read.spec_hash = hash;
	job->read.stops = span_is(scan_text(scan_get(spec, "executionType"), &a), "Stop");
	job_set_user(job, scan_text(scan_get(m->labels, "userName"), &a));
	job_note_queue(job, m);
	if (!job->framework && !job->n_ops)
		job_note_complete(job, now, scan_get(object, "status"));
	if (job->state == JOB_ENDED)
		return;
	bool writes = false;
	const struct rules_op *op;
	TAILQ_FOREACH(op, &job->ops, next)
	writes |= op->verb == OP_STORE && op->state == OP_SENT;
	if (!owned || !ours)
		job->write.fence =
		    scan_type(m->annotations) == SCAN_OBJECT ? FENCE_OTHERS : FENCE_NONE;
	if (owned && !ours) {
		/* Another leader has it, or somebody has changed the annotation. */
		job->write.hold_ms = now->ms + RULES_FENCED_MS;
		counter_add(&r->set.counts->fenced, 1);
	}
	if (!job->framework || !ours || !(owned || writes))
		job_keep_unread(job, now, object, UNREAD_WHOLE);
	else if (changed)
		job_keep_unread(job, now, object, UNREAD_SPEC);
	/* A write under way is compared when it is answered. */
	if (owned && ours && job->state == JOB_STORED && !writes)
		job_check_status(job, now, object, m, &a);
}

void job_note(struct rules *r, const struct rules_time *now, struct span object, bool asked)
{
	ARENA_AUTO a = { 0 };
	struct rules_metadata m;
	rules_read_metadata(object, &a, &m);
	if (!metadata_is_usable(&m))
		return;
	struct rules_job *job = job_of_name(r, m.namespace_name, m.name, true);
	int64_t version = rules_version(&m);
	job->read.list = r->lists[KIND_FRAMEWORK];
	if (version && job->uid && version < job->read.version + !asked)
		return; /* it has nothing new: each write of ours tests the version before it */
	if (job->uid && !span_is(m.uid, job->uid))
		job_forget(job);
	if (!job->uid) {
		job->uid = xstrndup(m.uid.p, m.uid.n);
		job_move(job, ON_SIGHT);
	}
	job->read.version = version;
	if (job->state == JOB_ENDED) {
		/* Somebody else has replaced the end: as after a restart, what is stored counts,
		 * and nothing is asked for before the take-over. */
		struct fw_view view;
		fw_view_read(scan_get(object, "status"), &a, &view);
		if (view.state.n && !span_is(view.state, "Completed")) {
			job_drop_all_ops(job);
			job_move(job, ON_SIGHT);
		}
	}
	if (job->state != JOB_ENDED)
		job_compare(job, now, object, &m);
}

void job_note_gone(struct rules_job *job)
{
	struct rules_object *o;
	struct rules_object *next;
	job_forget(job);
	for (o = LIST_FIRST(&job->pods); o; o = next) {
		next = LIST_NEXT(o, siblings);
		if (o->state == OBJECT_NONE)
			object_free_known(o);
	}
	job_free_unused(job);
}

/* ---- events ---------------------------------------------------------------------------------- */

void rules_put(struct rules *r, const struct rules_time *now, enum object_kind kind,
               struct span object)
{
	ARENA_AUTO a = { 0 };
	struct rules_metadata m;
	if (kind == KIND_FRAMEWORK) {
		job_note(r, now, object, false);
		return;
	}
	rules_read_metadata(object, &a, &m);
	if (kind == KIND_WORKLOAD) {
		/* Of a Framework that has ended, or was never seen, it matters while it is guarded.
		 */
		struct rules_job *job = job_of_name(r, m.namespace_name, m.name, false);
		if ((!job || (job->state == JOB_ENDED && !job->admission)) &&
		    workload_is_settled(object))
			return;
	}
	struct rules_object *o = object_of_event(r, kind, &m, &a, true);
	if (o)
		object_note(o, now, object, kind);
	else if (kind == KIND_CONFIGMAP && m.deletion_ms < 0)
		configmap_note_late(r, &m, &a);
}

void rules_gone(struct rules *r, const struct rules_time *now, enum object_kind kind,
                struct span object)
{
	ARENA_AUTO a = { 0 };
	struct rules_metadata m;
	rules_read_metadata(object, &a, &m);
	int64_t version = rules_version(&m);
	if (kind == KIND_FRAMEWORK) {
		struct rules_job *job = job_of_name(r, m.namespace_name, m.name, false);
		if (job && job->uid && span_is(m.uid, job->uid))
			job_note_gone(job);
		return;
	}
	struct rules_object *o = object_of_event(r, kind, &m, &a, false);
	if (!o || (version && version < o->version))
		return;
	o->version = version;
	bool known = o->state != OBJECT_NONE && span_is(m.uid, o->view.uid);
	if (known && m.deletion_ms < 0) { /* it may only have lost its label */
		o->state = OBJECT_DOUBTED;
		job_wake(o->job, now);
	} else {
		object_note_gone(o, now, arena_dup(&a, m.uid));
	}
	if (!o->job->uid && o->state == OBJECT_NONE) {
		struct rules_job *job = o->job;
		object_free_known(o);
		job_free_unused(job);
	}
}
