/* Reads Workloads of Kueue and writes what a Framework wants of them. */
#include "k8s/controller/rules/workload.h"

#include "base/json/put.h"
#include "base/time.h"
#include "jobs/store/paths.h"

enum { MESSAGE_MOST = 1024, PAIRS_MOST = 64 };

static const char *const TYPES[ADMISSION_CONDITIONS] = { "QuotaReserved", "Admitted",  "Evicted",
	                                                 "Finished",      "PodsReady", "Requeued" };

/* ---- reading --------------------------------------------------------------------------------- */

void admission_reduce(struct span workload, struct str *out)
{
	static const char *const OF_METADATA[] = { "name", "resourceVersion", "generation",
		                                   "finalizers", "deletionTimestamp" };
	static const char *const OF_SPEC[] = { "queueName", "active" };
	struct span metadata = scan_get(workload, "metadata");
	struct span spec = scan_get(workload, "spec");
	struct span set;
	json_put_open(out, NULL, '{');
	json_put_open(out, "metadata", '{');
	for (size_t i = 0; i < ARRAY_SIZE(OF_METADATA); i++)
		json_put_raw(out, OF_METADATA[i], scan_get(metadata, OF_METADATA[i]));
	str_char(out, '}');
	json_put_open(out, "spec", '{');
	for (size_t i = 0; i < ARRAY_SIZE(OF_SPEC); i++)
		json_put_raw(out, OF_SPEC[i], scan_get(spec, OF_SPEC[i]));
	json_put_open(out, "podSets", '[');
	for (struct scan sets = scan_begin(scan_get(spec, "podSets")); scan_item(&sets, &set);) {
		json_put_open(out, NULL, '{');
		json_put_raw(out, "name", scan_get(set, "name"));
		json_put_raw(out, "count", scan_get(set, "count"));
		str_char(out, '}');
	}
	str_puts(out, "]}");
	json_put_raw(out, "status", scan_get(workload, "status"));
	str_char(out, '}');
}

/* Texts only. */
static bool list_has(struct span list, const char *text, struct arena *a)
{
	struct span item;
	for (struct scan all = scan_begin(list); scan_item(&all, &item);)
		if (span_is(scan_text(item, a), text))
			return true;
	return false;
}

void admission_read(struct span workload, struct arena *a, struct admission *out)
{
	struct span metadata = scan_get(workload, "metadata");
	struct span spec = scan_get(workload, "spec");
	struct span item;
	*out = (struct admission){
		.inactive = span_is(scan_get(spec, "active"), "false"),
		.dying = scan_type(scan_get(metadata, "deletionTimestamp")) == SCAN_STRING,
		.name = scan_text(scan_get(metadata, "name"), a),
		.queue = scan_text(scan_get(spec, "queueName"), a),
		.version = scan_text(scan_get(metadata, "resourceVersion"), a),
		.finalizers = scan_get(metadata, "finalizers"),
		.pod_sets = scan_get(spec, "podSets"),
		.status = scan_get(workload, "status"),
	};
	out->guarded = list_has(out->finalizers, ADMISSION_GUARD, a);
	(void)scan_int(scan_get(metadata, "generation"), 0, INT64_MAX, &out->generation);
	for (struct scan all = scan_begin(scan_get(out->status, "conditions"));
	     scan_item(&all, &item);) {
		struct span type = scan_text(scan_get(item, "type"), a);
		for (size_t i = 0; i < ADMISSION_CONDITIONS; i++)
			if (span_is(type, TYPES[i]))
				out->is[i] = (struct admission_condition){
					span_is(scan_text(scan_get(item, "status"), a), "True"),
					scan_text(scan_get(item, "reason"), a),
					scan_text(scan_get(item, "message"), a), item
				};
	}
	out->holds = out->is[QUOTA_RESERVED].is_true || out->is[ADMITTED].is_true ||
	             scan_type(scan_get(out->status, "admission")) == SCAN_OBJECT;
}

/* The count of the podSet in a list of its names and counts; absent: none. */
static int64_t set_count(struct span list, struct span name, int64_t absent, struct arena *a)
{
	struct span item;
	int64_t n = absent;
	for (struct scan all = scan_begin(list); scan_item(&all, &item);)
		if (span_eq(scan_text(scan_get(item, "name"), a), name))
			(void)scan_int(scan_get(item, "count"), 0, INT32_MAX, &n);
	return n;
}

static int64_t set_reclaimed(const struct admission *w, struct span name, struct arena *a)
{
	return set_count(scan_get(w->status, "reclaimablePods"), name, 0, a);
}

/* ---- what is next ---------------------------------------------------------------------------- */

enum admission_step admission_decide(const struct admission *w, const struct admission_wish *wish)
{
	if (!w)
		return wish->ended    ? ADMISSION_REST
		       : wish->lives  ? ADMISSION_EVICT
		       : wish->starts ? ADMISSION_MAKE
		                      : ADMISSION_REST;
	const struct admission_condition *is = w->is;
	bool may = is[QUOTA_RESERVED].is_true && is[ADMITTED].is_true && !is[EVICTED].is_true &&
	           !is[FINISHED].is_true && !w->inactive && !w->dying;
	/* Of an attempt before this one: what was given back cannot be taken again. */
	bool smaller = scan_count(scan_get(w->status, "reclaimablePods")) > 0;
	if (wish->lives)
		return wish->ended ? ADMISSION_REST : may ? ADMISSION_GO : ADMISSION_EVICT;
	if (w->dying || (is[FINISHED].is_true && wish->ended))
		return w->guarded ? ADMISSION_UNGUARD : ADMISSION_REST;
	if (wish->ended)
		return ADMISSION_FINISH;
	if (is[FINISHED].is_true)
		return ADMISSION_DELETE;
	if (may && !smaller)
		return ADMISSION_GO;
	bool lost = is[EVICTED].is_true || w->inactive || (may && wish->starts);
	return w->holds && lost ? ADMISSION_RELEASE : ADMISSION_REST;
}

/* The first admission check that is not ready. */
static const char *reason_of_check(const struct admission *w, struct arena *a)
{
	struct span item;
	for (struct scan all = scan_begin(scan_get(w->status, "admissionChecks"));
	     scan_item(&all, &item);) {
		struct span state = scan_text(scan_get(item, "state"), a);
		struct span name = scan_text(scan_get(item, "name"), a);
		struct span message =
		    span_cut(scan_text(scan_get(item, "message"), a), MESSAGE_MOST);
		if (!span_is(state, "Ready"))
			return arena_printf(a, "the admission check %.*s is %.*s%s%.*s",
			                    (int)name.n, name.p, (int)state.n, state.p,
			                    message.n ? ": " : "", (int)message.n, message.p);
	}
	return "quota is reserved; Kueue has not admitted it yet";
}

const char *admission_reason(const struct admission *w, struct arena *a)
{
	const struct admission_condition *is = w->is;
	const struct admission_condition *why =
	    is[QUOTA_RESERVED].reason.p && !is[QUOTA_RESERVED].is_true ? &is[QUOTA_RESERVED] : NULL;
	if (w->dying)
		return "its Workload was deleted";
	if (is[FINISHED].is_true)
		return "its Workload was finished by something else";
	if (is[EVICTED].is_true && (w->holds || w->inactive || !why))
		why = &is[EVICTED];
	if (!why && w->inactive)
		return "its Workload is not active (spec.active)";
	if (!why && is[QUOTA_RESERVED].is_true)
		return reason_of_check(w, a);
	if (!why)
		return "Kueue has not looked at it yet";
	return arena_dup(a, span_cut(why->message.n ? why->message : why->reason, MESSAGE_MOST));
}

/* ---- the Workload ---------------------------------------------------------------------------- */

static void workload_put_priority(struct str *out, const struct admission_priority *p)
{
	json_put_int(out, "priority", p->value);
	if (!p->name)
		return;
	const struct resource *class =
	    resource_of(p->of_kueue ? KIND_WORKLOAD_PRIORITY : KIND_PRIORITYCLASS);
	json_put_open(out, "priorityClassRef", '{');
	json_put_word(out, "group", class->group);
	json_put_word(out, "kind", class->kind);
	json_put_word(out, "name", p->name);
	str_char(out, '}');
}

static void workload_put_set(struct str *out, const struct framework_role *role)
{
	static const char *const KEPT[] = { "labels", "annotations" };
	struct span metadata = scan_get(role->pod, "metadata");
	json_put_open(out, NULL, '{');
	json_put_word(out, "name", role->name);
	json_put_int(out, "count", role->number);
	json_put_open(out, "template", '{');
	json_put_open(out, "metadata", '{');
	for (size_t i = 0; i < ARRAY_SIZE(KEPT); i++)
		if (scan_type(scan_get(metadata, KEPT[i])) == SCAN_OBJECT)
			json_put_raw(out, KEPT[i], scan_get(metadata, KEPT[i]));
	str_char(out, '}');
	json_put_raw(out, "spec", scan_get(role->pod, "spec"));
	str_puts(out, "}}");
}

void admission_put_workload(struct str *out, const struct framework *f,
                            const struct admission_job *job)
{
	struct framework_role role;
	json_put_open(out, NULL, '{');
	json_put_word(out, "apiVersion", KUEUE_GROUP "/" KUEUE_VERSION);
	json_put_word(out, "kind", "Workload");
	json_put_open(out, "metadata", '{');
	json_put_word(out, "name", job->name);
	json_put_word(out, "namespace", job->namespace_name);
	json_put_open(out, "labels", '{');
	json_put_word(out, "FC_FRAMEWORK_NAME", job->name);
	json_put_word(out, "kueue.x-k8s.io/job-uid", job->uid);
	str_puts(out, "},\"finalizers\":[\"" ADMISSION_GUARD "\"]");
	json_put_open(out, "ownerReferences", '[');
	json_put_open(out, NULL, '{');
	json_put_word(out, "apiVersion", "frameworkcontroller.microsoft.com/v1");
	json_put_word(out, "kind", "Framework");
	json_put_word(out, "name", job->name);
	json_put_word(out, "uid", job->uid);
	json_put_bool(out, "controller", true);
	json_put_bool(out, "blockOwnerDeletion", true);
	str_puts(out, "}]}");
	json_put_open(out, "spec", '{');
	json_put_word(out, "queueName", job->queue);
	workload_put_priority(out, &job->priority);
	json_put_open(out, "podSets", '[');
	for (size_t i = 0; framework_role_at(f, i, &role); i++)
		workload_put_set(out, &role);
	str_puts(out, "]}}");
}

/* ---- patches of its status ------------------------------------------------------------------- */

/* A condition as it is to be. */
struct change {
	enum admission_condition_type type;
	bool is_true;
	const char *reason, *message;
};

/* The status stays open. */
static void patch_open(struct str *out, const struct admission *w)
{
	json_put_open(out, NULL, '{');
	json_put_open(out, "metadata", '{');
	json_put_text(out, "resourceVersion", w->version);
	str_char(out, '}');
	json_put_open(out, "status", '{');
}

static void change_put(struct str *out, const struct admission *w, const struct change *c,
                       int64_t wall_ms)
{
	char time[RFC3339_MAX];
	const struct admission_condition *was = &w->is[c->type];
	bool kept = was->raw.p && was->is_true == c->is_true;
	json_put_open(out, NULL, '{');
	json_put_word(out, "type", TYPES[c->type]);
	json_put_word(out, "status", c->is_true ? "True" : "False");
	json_put_word(out, "reason", c->reason);
	json_put_word(out, "message", c->message);
	if (kept)
		json_put_raw(out, "lastTransitionTime", scan_get(was->raw, "lastTransitionTime"));
	else
		json_put_word(out, "lastTransitionTime", rfc3339_put(time, wall_ms, 0));
	json_put_int(out, "observedGeneration", w->generation);
	str_char(out, '}');
}

/* The whole list, since a merge patch replaces it. */
static void patch_put_conditions(struct str *out, const struct admission *w,
                                 const struct change *changes, size_t n, int64_t wall_ms)
{
	ARENA_AUTO a = { 0 };
	struct span item;
	json_put_open(out, "conditions", '[');
	for (struct scan all = scan_begin(scan_get(w->status, "conditions"));
	     scan_item(&all, &item);) {
		struct span type = scan_text(scan_get(item, "type"), &a);
		size_t i = 0;
		while (i < n && !span_is(type, TYPES[changes[i].type]))
			i++;
		if (i == n)
			json_put_raw(out, NULL, item);
	}
	for (size_t i = 0; i < n; i++)
		change_put(out, w, &changes[i], wall_ms);
	str_char(out, ']');
}

void admission_put_release(struct str *out, const struct admission *w, int64_t wall_ms)
{
	ARENA_AUTO a = { 0 };
	const struct admission_condition *evicted = &w->is[EVICTED];
	const char *why = evicted->is_true ? arena_dup(&a, evicted->reason) : "Retried";
	/* Kueue reactivates only what was deactivated with this very word. */
	if (span_starts(span_of(why), "Deactivated"))
		why = "Deactivated";
	bool again = strcmp(why, "Preempted") == 0 || strcmp(why, "NodeFailures") == 0;
	struct change changes[4] = {
		{ QUOTA_RESERVED, false, "Pending", "all pods of the attempt are gone" },
		{ ADMITTED, false, "NoReservation", "The workload has no reservation" },
	};
	size_t n = 2;
	if (evicted->is_true)
		changes[n++] =
		    (struct change){ REQUEUED, again, why,
			             arena_dup(&a, span_cut(evicted->message, MESSAGE_MOST)) };
	if (w->is[PODS_READY].raw.p)
		changes[n++] =
		    (struct change){ PODS_READY, false, "WaitForStart", "it waits to be admitted" };
	patch_open(out, w);
	json_put_null(out, "admission");
	json_put_null(out, "reclaimablePods");
	patch_put_conditions(out, w, changes, n, wall_ms);
	str_puts(out, "}}");
}

void admission_put_finish(struct str *out, const struct admission *w, const char *reason,
                          int64_t wall_ms)
{
	const struct change end = { FINISHED, true, reason, "the Framework has come to its end" };
	patch_open(out, w);
	patch_put_conditions(out, w, &end, 1, wall_ms);
	str_puts(out, "}}");
}

/* The sets of which fewer pods are needed than before.  false: there is none. */
static bool progress_put_reclaimable(struct str *out, const struct admission *w,
                                     const struct framework *f)
{
	ARENA_AUTO a = { 0 };
	struct framework_role role;
	bool more = false;
	int64_t left = 0;
	json_put_open(out, "reclaimablePods", '[');
	for (size_t i = 0; framework_role_at(f, i, &role); i++) {
		struct span name = span_of(role.name);
		int64_t before = set_reclaimed(w, name, &a);
		int64_t now = set_count(w->pod_sets, name, 0, &a) - role.left;
		left += role.left;
		more = more || now > before;
		now = now > before ? now : before;
		if (now <= 0)
			continue;
		json_put_open(out, NULL, '{');
		json_put_word(out, "name", role.name);
		json_put_int(out, "count", now);
		str_char(out, '}');
	}
	str_char(out, ']');
	return more && left > 0; /* the end frees the rest */
}

bool admission_put_progress(struct str *out, const struct admission *w, const struct framework *f,
                            int64_t wall_ms)
{
	const struct admission_condition *was = &w->is[PODS_READY];
	struct framework_role role;
	bool runs = true;
	for (size_t i = 0; framework_role_at(f, i, &role); i++)
		runs = runs && role.runs;
	bool again = span_is(was->reason, "WaitForRecovery");
	const struct change ready = { PODS_READY, runs,
		                      !runs   ? "WaitForRecovery"
		                      : again ? "Recovered"
		                              : "Started",
		                      runs ? "all pods run" : "not all pods run any more" };
	STR_AUTO reclaimable = STR_INIT(out->max);
	bool less = progress_put_reclaimable(&reclaimable, w, f);
	/* Pods that have never run are not told: Kueue counts from its admission. */
	bool changes = runs != was->is_true;
	if (!less && !changes)
		return false;
	patch_open(out, w);
	if (less) {
		str_span(out, str_view(&reclaimable));
	}
	if (changes)
		patch_put_conditions(out, w, &ready, 1, wall_ms);
	str_puts(out, "}}");
	return true;
}

void admission_put_unguarded(struct str *out, const struct admission *w)
{
	ARENA_AUTO a = { 0 };
	struct span item;
	json_put_open(out, NULL, '{');
	json_put_open(out, "metadata", '{');
	json_put_text(out, "resourceVersion", w->version);
	json_put_open(out, "finalizers", '[');
	for (struct scan all = scan_begin(w->finalizers); scan_item(&all, &item);)
		if (!span_is(scan_text(item, &a), ADMISSION_GUARD))
			json_put_raw(out, NULL, item);
	str_puts(out, "]}}");
}

/* ---- pods ------------------------------------------------------------------------------------ */

int64_t admission_allows(const struct admission *w, const char *role)
{
	ARENA_AUTO a = { 0 };
	int64_t n = set_count(w->pod_sets, span_of(role), -1, &a);
	return n < 0 ? n : n - set_reclaimed(w, span_of(role), &a);
}

struct span admission_missing_flavor(const struct admission *w, struct span flavors,
                                     struct arena *a)
{
	struct span set;
	struct span key;
	struct span value;
	for (struct scan all = scan_begin(scan_path(w->status, "admission", "podSetAssignments"));
	     scan_item(&all, &set);)
		for (struct scan of = scan_begin(scan_get(set, "flavors"));
		     scan_member(&of, &key, &value);) {
			struct span name = scan_text(value, a);
			if (name.n && !scan_get(flavors, arena_dup(a, name)).p)
				return name;
		}
	return (struct span){ NULL, 0 };
}

/* Members of an object of texts, each once.  Key without quotes, value as it is written. */
struct pairs {
	const char *what;  /* for people */
	struct span there; /* the same of the template */
	size_t n;
	struct pair {
		struct span key, value;
	} v[PAIRS_MOST];
};

/* The value of this key; p NULL: there is none. */
static struct span pairs_value(const struct pairs *p, struct span key)
{
	struct span k;
	struct span v;
	for (struct scan s = scan_begin(p->there); scan_member(&s, &k, &v);)
		if (span_eq(k, key))
			return v;
	for (size_t i = 0; i < p->n; i++)
		if (span_eq(p->v[i].key, key))
			return p->v[i].value;
	return (struct span){ NULL, 0 };
}

static void pairs_add(struct pairs *p, struct span key, struct span value, struct str *conflict)
{
	struct span known = pairs_value(p, key);
	if (!known.p && p->n < PAIRS_MOST)
		p->v[p->n++] = (struct pair){ key, value };
	else if (!known.p || !span_eq(known, value))
		str_printf(conflict, "%s%s %.*s would have %s", conflict->n ? "; " : "", p->what,
		           (int)key.n, key.p, known.p ? "two values" : "no place");
}

static void pairs_add_all(struct pairs *p, struct span object, struct str *conflict)
{
	struct span key;
	struct span value;
	for (struct scan s = scan_begin(object); scan_member(&s, &key, &value);)
		pairs_add(p, key, value, conflict);
}

static void pairs_put(struct str *out, const char *key, const struct pairs *p)
{
	if (!p->n)
		return;
	json_put_open(out, key, '{');
	for (size_t i = 0; i < p->n; i++) {
		json_put_key(out, NULL);
		str_printf(out, "\"%.*s\":", (int)p->v[i].key.n, p->v[i].key.p);
		str_span(out, p->v[i].value);
	}
	str_char(out, '}');
}

/* The additions to the pods of a role. */
struct additions {
	struct pairs labels, annotations, nodes;
	struct str tolerations;
};

static struct span assignment_of(const struct admission *w, const char *role, struct arena *a)
{
	struct span set;
	for (struct scan all = scan_begin(scan_path(w->status, "admission", "podSetAssignments"));
	     scan_item(&all, &set);)
		if (span_is(scan_text(scan_get(set, "name"), a), role))
			return set;
	return (struct span){ NULL, 0 };
}

static void additions_take_tolerations(struct additions *all, struct span list)
{
	struct span item;
	for (struct scan s = scan_begin(list); scan_item(&s, &item);)
		json_put_raw(&all->tolerations, NULL, item);
}

static void additions_take_flavors(struct additions *all, struct span assignment,
                                   struct span flavors, struct arena *a, struct str *conflict)
{
	struct span key;
	struct span value;
	struct span seen[PAIRS_MOST];
	size_t n = 0;
	for (struct scan of = scan_begin(scan_get(assignment, "flavors"));
	     scan_member(&of, &key, &value) && n < PAIRS_MOST;) {
		size_t i = 0;
		while (i < n && !span_eq(seen[i], value))
			i++;
		if (i < n)
			continue;
		seen[n++] = value;
		struct span spec = scan_get(flavors, arena_dup(a, scan_text(value, a)));
		pairs_add_all(&all->nodes, scan_get(spec, "nodeLabels"), conflict);
		additions_take_tolerations(all, scan_get(spec, "tolerations"));
	}
}

static void additions_take_checks(struct additions *all, const struct admission *w,
                                  const char *role, struct arena *a, struct str *conflict)
{
	struct span check;
	struct span update;
	for (struct scan checks = scan_begin(scan_get(w->status, "admissionChecks"));
	     scan_item(&checks, &check);)
		for (struct scan of = scan_begin(scan_get(check, "podSetUpdates"));
		     scan_item(&of, &update);) {
			if (!span_is(scan_text(scan_get(update, "name"), a), role))
				continue;
			pairs_add_all(&all->labels, scan_get(update, "labels"), conflict);
			pairs_add_all(&all->annotations, scan_get(update, "annotations"), conflict);
			pairs_add_all(&all->nodes, scan_get(update, "nodeSelector"), conflict);
			additions_take_tolerations(all, scan_get(update, "tolerations"));
		}
}

/* Kueue finds the pods by these, chooses their nodes, and removes the gate. */
static void additions_take_topology(struct additions *all, const struct admission *w,
                                    const char *role, struct arena *a, struct str *conflict)
{
	struct span workload = span_of(arena_printf(a, "\"%.*s\"", (int)w->name.n, w->name.p));
	struct span set = span_of(arena_printf(a, "\"%s\"", role));
	pairs_add(&all->annotations, SPAN("kueue.x-k8s.io/workload"), workload, conflict);
	pairs_add(&all->labels, SPAN("kueue.x-k8s.io/podset"), set, conflict);
	pairs_add(&all->labels, SPAN("kueue.x-k8s.io/tas"), SPAN("\"true\""), conflict);
}

static struct span additions_text(const struct additions *all, bool gated, struct arena *a)
{
	STR_AUTO out = STR_INIT(ADMISSION_TEXT_MAX);
	bool metadata = all->labels.n || all->annotations.n;
	bool spec = all->nodes.n || all->tolerations.n || gated;
	if (!metadata && !spec)
		return (struct span){ NULL, 0 };
	json_put_open(&out, NULL, '{');
	json_put_open(&out, "metadata", '{');
	pairs_put(&out, "labels", &all->labels);
	pairs_put(&out, "annotations", &all->annotations);
	str_char(&out, '}');
	json_put_open(&out, "spec", '{');
	pairs_put(&out, "nodeSelector", &all->nodes);
	if (all->tolerations.n) {
		json_put_open(&out, "tolerations", '[');
		str_span(&out, str_view(&all->tolerations));
		str_char(&out, ']');
	}
	if (gated)
		json_put_raw(&out, "schedulingGates",
		             SPAN("[{\"name\":\"kueue.x-k8s.io/topology\"}]"));
	str_puts(&out, "}}");
	return span_of(arena_dup(a, str_view(&out)));
}

struct span admission_additions(const struct admission *w, struct span flavors,
                                const struct framework_role *role, struct arena *a,
                                struct str *conflict)
{
	struct span assignment = assignment_of(w, role->name, a);
	struct span metadata = scan_get(role->pod, "metadata");
	struct additions all = {
		.labels = { .what = "the label", .there = scan_get(metadata, "labels") },
		.annotations = { .what = "the annotation",
		                 .there = scan_get(metadata, "annotations") },
		.nodes = { .what = "the node label",
		           .there = scan_path(role->pod, "spec", "nodeSelector") },
		.tolerations = STR_INIT(ADMISSION_TEXT_MAX),
	};
	bool gated = scan_type(scan_get(assignment, "topologyAssignment")) == SCAN_OBJECT;
	additions_take_flavors(&all, assignment, flavors, a, conflict);
	additions_take_checks(&all, w, role->name, a, conflict);
	if (gated)
		additions_take_topology(&all, w, role->name, a, conflict);
	struct span text = additions_text(&all, gated, a);
	str_done(&all.tolerations);
	return text;
}
