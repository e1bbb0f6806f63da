/* The checks of controllers: rest-lit controller, FrameworkController, both, or none; and whether
 * FrameworkController knows the exit codes of pai-runtime. */
#include <time.h>

#include "base/doc/yaml.h"
#include "base/json/scan.h"
#include "jobs/cache/job_entry.h"
#include "server/check/check_internal.h"
#include "server/config/exit_spec.h"

#define LEADER_LEASE "rest-lit-controller"
#define CONTROLLER_LOOK                                                                            \
	"kubectl -n rest-lit-controller get pods (FrameworkController: -n frameworkcontroller), "  \
	"and their logs; to install one: k8s/deploy/controller"
#define OLD_MANAGER "frameworkcontroller" /* in managedFields */

enum { RECENT_MS = 600000, TEXT_MAX = 1024 };
enum { RUNTIME_FIRST = 220, RUNTIME_LAST = 255 }; /* codes of pai-runtime */

int64_t check_now_ms(const struct check_session *c)
{
	return ((int64_t)time(NULL) - (c->date ? c->skew_s : 0)) * 1000;
}

/* ---- our controller ---- */

const struct check_leader *check_leader(struct check_session *c)
{
	int64_t renewed_ms = 0;
	int64_t lasts_s = 0;
	if (c->leader)
		return c->leader;
	struct check_leader *l = ARENA_NEW(&c->arena, struct check_leader, 1);
	c->leader = l;
	const struct store_reply *r = check_get(c, KIND_LEASE, LEADER_LEASE, NULL);
	if (r->outcome != STORE_OK || !scan_valid(r->body, SCAN_DEPTH_MAX))
		return l;
	struct span spec = scan_get(r->body, "spec");
	(void)scan_int(scan_get(spec, "leaseDurationSeconds"), 0, INT32_MAX, &lasts_s);
	(void)scan_time_ms(scan_get(spec, "renewTime"), &renewed_ms);
	(void)scan_time_ms(scan_get(spec, "acquireTime"), &l->acquired_ms);
	l->holder = arena_dup(&c->arena, scan_text(scan_get(spec, "holderIdentity"), &c->arena));
	int64_t age_ms = check_now_ms(c) - renewed_ms;
	l->renewed_s = age_ms / 1000;
	l->state = l->holder[0] && age_ms <= lasts_s * 1000 ? LEASE_HELD : LEASE_OLD;
	return l;
}

/* ---- Frameworks as signs of life ---- */

/* `stuck` has no status; `moved` has changed last; `old` was written by FrameworkController, and
 * after the present leader took the Lease. */
struct signs {
	const char *stuck, *moved, *old;
	int64_t stuck_ms, moved_ms; /* since when */
};

static bool signs_of_old(struct check_session *c, struct span framework)
{
	int64_t after_ms = check_now_ms(c) - RECENT_MS;
	struct span entry;
	struct scan s = scan_begin(scan_path(framework, "metadata", "managedFields"));
	if (c->leader->state == LEASE_HELD && c->leader->acquired_ms > after_ms)
		after_ms = c->leader->acquired_ms;
	while (scan_item(&s, &entry)) {
		int64_t written_ms = 0;
		if (span_is(scan_text(scan_get(entry, "manager"), &c->arena), OLD_MANAGER) &&
		    scan_time_ms(scan_get(entry, "time"), &written_ms) && written_ms > after_ms)
			return true;
	}
	return false;
}

static void signs_read(struct check_session *c, struct span list, struct signs *out)
{
	struct scan s = scan_begin(scan_get(list, "items"));
	struct span item;
	while (scan_item(&s, &item)) {
		struct job_entry *job = job_entry_new(item);
		if (!job)
			continue;
		int64_t made_ms = job->created_ms;
		if (!out->old && signs_of_old(c, item))
			out->old = arena_dup(&c->arena, span_of(job->name));
		if (job->untouched && !job->creating && !job->held && made_ms != JOB_ENTRY_NONE &&
		    (!out->stuck || made_ms < out->stuck_ms)) {
			out->stuck = arena_dup(&c->arena, span_of(job->name));
			out->stuck_ms = made_ms;
		} else if (!job->untouched && job->transition_ms > out->moved_ms) {
			out->moved = arena_dup(&c->arena, span_of(job->name));
			out->moved_ms = job->transition_ms;
		}
		job_entry_drop(job);
	}
}

/* ---- FrameworkController ---- */

/* The ready pods of its StatefulSet; -1: this account cannot see one. */
static int64_t old_ready(struct check_session *c)
{
	const struct store_reply *r =
	    check_get(c, KIND_STATEFULSET, CONTROLLER_CONFIGMAP, CONTROLLER_NAMESPACE);
	int64_t ready = 0;
	if (r->outcome != STORE_OK)
		return -1;
	(void)scan_int(scan_path(r->body, "status", "readyReplicas"), 0, INT32_MAX, &ready);
	return ready;
}

/* No Framework tells, but the Lease and the StatefulSet may. */
static void controller_objects(struct check_session *c, const struct check_leader *ours)
{
	int64_t ready = old_ready(c);
	if (ready > 0)
		SAY(c, CHECK_OK, NULL, "FrameworkController: its StatefulSet has %lld ready pods",
		    (long long)ready);
	else if (ours->state == LEASE_OLD)
		SAY(c, CHECK_FAILED, CONTROLLER_LOOK,
		    "nobody holds the Lease " LEADER_LEASE ", last renewed %lld s ago: no job runs",
		    (long long)ours->renewed_s);
	else if (ready == 0)
		check_report(c, CHECK_FAILED,
		             "FrameworkController: its StatefulSet has no ready pod: no job runs",
		             "kubectl -n " CONTROLLER_NAMESPACE " get pods, and their logs");
	else
		check_report(c, CHECK_SKIPPED,
		             "no Framework has changed in the last 10 minutes, and this account "
		             "can read neither the Lease " LEADER_LEASE
		             " nor a StatefulSet " CONTROLLER_CONFIGMAP
		             " in namespace " CONTROLLER_NAMESPACE,
		             "submit a job, and check again; " CONTROLLER_LOOK);
}

/* ---- who drives the Frameworks ---- */

struct check_line check_neglect(struct arena *a, const char *framework, int64_t ms)
{
	return (struct check_line){
		CHECK_FAILED, "controller",
		arena_printf(
		    a, "Framework %s has had no status for %lld s: no controller processes jobs",
		    framework, (long long)ms / 1000),
		CONTROLLER_LOOK
	};
}

static void controller_ours(struct check_session *c, const struct check_leader *ours,
                            const struct signs *found)
{
	int64_t ready = old_ready(c);
	if (found->old || ready > 0)
		SAY(c, CHECK_FAILED,
		    "stop one of the two: kubectl -n " CONTROLLER_NAMESPACE
		    " scale statefulset/" CONTROLLER_CONFIGMAP
		    " --replicas=0, or kubectl -n rest-lit-controller scale "
		    "deployment/rest-lit-controller --replicas=0; " REST_LIT_DOCS "/CONTROLLER.md",
		    "two controllers: %s holds the Lease " LEADER_LEASE
		    ", and FrameworkController %s%s",
		    ours->holder, found->old ? "writes Framework " : "has a ready pod",
		    found->old ?: "");
	else
		SAY(c, CHECK_OK, NULL,
		    "rest-lit controller: %s leads, and renewed its Lease %lld s ago", ours->holder,
		    (long long)(ours->renewed_s > 0 ? ours->renewed_s : 0));
}

void check_controller(struct check_session *c)
{
	struct signs found = { 0 };
	const struct check_leader *ours = check_leader(c);
	const struct store_reply *r =
	    check_ask(c, (struct store_request){
			     .verb = STORE_LIST, .kind = KIND_FRAMEWORK, .query = "limit=100" });
	if (r->outcome == STORE_OK && scan_valid(r->body, SCAN_DEPTH_MAX))
		signs_read(c, r->body, &found);
	int64_t now_ms = check_now_ms(c);
	if (found.stuck && now_ms - found.stuck_ms >= NEGLECT_MS &&
	    found.moved_ms < found.stuck_ms) {
		struct check_line line =
		    check_neglect(&c->arena, found.stuck, now_ms - found.stuck_ms);
		SAY(c, line.state, line.mend, "%s%s%s", line.found,
		    ours->state == LEASE_HELD ? ", although this one holds the Lease: " : "",
		    ours->state == LEASE_HELD ? ours->holder : "");
	} else if (ours->state == LEASE_HELD) {
		controller_ours(c, ours, &found);
	} else if (found.old || (found.moved && now_ms - found.moved_ms < RECENT_MS &&
	                         ours->state != LEASE_OLD)) {
		SAY(c, CHECK_OK, NULL, "%s changed Framework %s in the last 10 minutes",
		    found.old ? "FrameworkController" : "a controller", found.old ?: found.moved);
	} else {
		controller_objects(c, ours);
	}
}

/* ---- exit codes ---- */

bool check_is_runtime_code(const struct exit_spec *s, int64_t code)
{
	return code >= RUNTIME_FIRST && code <= RUNTIME_LAST && exit_spec_find(s, code);
}

/* Appends the codes that the podFailureSpec in this ConfigMap (valid JSON) lacks; nothing if it
 * cannot be read. */
static void codes_lacking(struct str *out, struct span configmap, const struct exit_spec *s)
{
	static const struct node NONE = { .type = NODE_LIST };
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	struct span text = scan_text(scan_path(configmap, "data", "frameworkcontroller.yaml"), &a);
	if (text.n == 0 || yaml_read(text, &BUDGET_DEFAULT, &a, &doc, NULL, &e) < 0)
		return;
	const struct node *entries = node_get(&doc.root, "podFailureSpec");
	if (!node_is(entries, NODE_LIST))
		entries = &NONE; /* the controller has its own codes only */
	for (int64_t code = RUNTIME_FIRST; code <= RUNTIME_LAST; code++) {
		bool lacks = check_is_runtime_code(s, code);
		for (uint32_t i = 0; lacks && i < entries->n; i++) {
			const struct node *value = node_get(&entries->item[i], "code");
			lacks = !(node_is(value, NODE_INT) && value->integer == code);
		}
		if (!lacks)
			continue;
		str_puts(out, out->n ? ", " : "");
		str_int(out, code);
	}
}

struct check_line check_unknown_codes(struct arena *a, const char *codes)
{
	return (struct check_line){
		CHECK_WARNING, "controller's codes",
		arena_printf(a,
		             "FrameworkController does not know exit codes of pai-runtime (%s): "
		             "their retry rules have no effect",
		             codes),
		"kubectl apply -f k8s/deploy/options/frameworkcontroller/config.yaml, then kubectl "
		"-n " CONTROLLER_NAMESPACE " rollout restart statefulset/" CONTROLLER_CONFIGMAP
	};
}

void check_controller_codes(struct check_session *c)
{
	STR_AUTO codes = STR_INIT(TEXT_MAX);
	if (check_leader(c)->state == LEASE_HELD) {
		check_report(c, CHECK_OK,
		             "rest-lit controller knows those of pai-runtime, unless "
		             "--controller-config replaces them",
		             NULL);
		return;
	}
	const struct store_reply *r =
	    check_get(c, KIND_CONFIGMAP, CONTROLLER_CONFIGMAP, CONTROLLER_NAMESPACE);
	if (!c->server->exit_spec || r->outcome != STORE_OK ||
	    !scan_valid(r->body, SCAN_DEPTH_MAX)) {
		check_report(c, CHECK_SKIPPED,
		             "this account can read no ConfigMap " CONTROLLER_CONFIGMAP
		             " in namespace " CONTROLLER_NAMESPACE,
		             NULL);
		return;
	}
	codes_lacking(&codes, r->body, c->server->exit_spec);
	if (codes.n) {
		struct check_line line = check_unknown_codes(&c->arena, str_c(&codes));
		c->take(c->arg, &line);
	} else {
		check_report(c, CHECK_OK, "FrameworkController knows those of pai-runtime", NULL);
	}
}
