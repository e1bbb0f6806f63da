/* What can happen next, and what it does: answers, kubelets, the garbage collector, users, leaders.
 */
#include "tests/controller/explore/explore.h"

#include <stdio.h>
#include <stdlib.h>

enum { TIME_MOST_MS = 2000000 };
enum { OLD_LIST = 8 }; /* added to a watch */
static const char *const VERBS[] = { "POST", "GET", "LIST", "PATCH", "DELETE", "READY" };

static bool phase_is_end(enum phase p)
{
	return p == SUCCEEDED || p == FAILED;
}

static void add(struct move **to, enum move_kind kind, int a, int b)
{
	*(*to)++ = (struct move){ (uint8_t)kind, (uint8_t)a, (uint8_t)b };
}

static bool pod_event_waits(int index)
{
	for (int l = 0; l < LEADERS; l++)
		for (int i = 0; i < world->n_events[l][PODS]; i++)
			if (world->events[l][PODS][i].pod.index == index)
				return true;
	return false;
}

static bool framework_event_waits(void)
{
	return world->n_events[0][FRAMEWORKS] || world->n_events[1][FRAMEWORKS];
}

static bool pod_is_orphan(const struct shown_pod *p)
{
	return p->there && !p->dying &&
	       !(world->configmap.there && world->configmap.made == p->configmap);
}

/* Of kubelets and the garbage collector.  A pod goes on when the events of it have come: what two
 * events in a row can do, one that replaces both does, too. */
static void moves_of_pods(struct move **to)
{
	for (int i = 0; i < TASKS_MOST; i++) {
		const struct shown_pod *p = &world->pod[i];
		if (!p->there)
			continue;
		bool calm = !pod_event_waits(i) && !p->lost;
		if (calm && !phase_is_end(p->phase) && !p->dying)
			add(to, MOVE_PHASE, i, 0);
		if (calm && p->phase == RUNNING && !p->dying && world->left.failures)
			add(to, MOVE_FAIL, i, 0);
		if (calm && p->dying)
			add(to, MOVE_REMOVE, i, 0);
		if (pod_is_orphan(p))
			add(to, MOVE_COLLECT, i, 0);
		if (!p->dying && ((calm && world->left.pod_deletions) || p->lost))
			add(to, MOVE_DELETE_POD, i, 0);
		if (calm && p->phase != PENDING && world->left.nodes)
			add(to, MOVE_NODE, i, 0);
	}
	/* The rules make another one until they know that the Framework is being deleted. */
	if (world->workload.there && !world->workload.dying && !framework_event_waits() &&
	    (!world->framework.there || world->framework.dying))
		add(to, MOVE_COLLECT, TASKS_MOST + 2, 0);
	if (world->configmap.there && (!world->framework.there || world->framework.dying))
		add(to, MOVE_COLLECT, TASKS_MOST, 0);
	if (world->framework.there && world->framework.dying && !world->configmap.there &&
	    !world->workload.there)
		add(to, MOVE_COLLECT, TASKS_MOST + 1, 0);
}

static void moves_of_requests(struct move **to)
{
	for (int i = 0; i < world->n_open; i++) {
		const struct request *q = &world->open[i];
		bool get = q->verb == STORE_GET;
		add(to, MOVE_ANSWER, i, 0);
		if (!q->executed && (space->wild || (space->split && q->verb == STORE_DELETE)))
			add(to, MOVE_EXECUTE, i, 0);
		if (world->left.refusals && !q->executed)
			add(to, MOVE_REFUSE, i, REFUSED_FORBIDDEN);
		for (int why = REFUSED_INVALID; why < REFUSED_QUOTA; why++)
			if (world->left.refusals && !q->executed && q->verb == STORE_CREATE)
				add(to, MOVE_REFUSE, i, why);
		if (!world->left.faults || (get && !space->wild))
			continue;
		add(to, MOVE_LOST, i, 0);
		if (q->executed)
			continue;
		add(to, MOVE_BUSY, i, 0);
		if (world->n_late < LATE_MOST && !get)
			add(to, MOVE_LATE, i, 0);
		if (q->verb == STORE_DELETE)
			add(to, MOVE_CONFLICT, i, 0);
		if (q->verb == STORE_DELETE || space->wild)
			add(to, MOVE_VOID, i, 0);
	}
	for (int i = 0; i < world->n_late; i++)
		add(to, MOVE_LATER, i, 0);
}

/* Of Kueue. */
static void moves_of_kueue(struct move **to)
{
	const struct shown_workload *w = &world->workload;
	if (!w->there || w->finished == 1)
		return;
	if (w->reserved != 1 && w->admitted != 1 && !w->dying)
		add(to, MOVE_ADMIT, 0, 0);
	if (w->admitted == 1 && w->reserved == 1 && w->evicted != 1 && world->left.evictions)
		add(to, MOVE_EVICT, 0, 0);
}

static void moves_of_users(struct move **to)
{
	const struct allowance *left = &world->left;
	const struct shown_framework *f = &world->framework;
	if (!f->there)
		return;
	if (left->stops && !f->stop)
		add(to, MOVE_STOP, 0, 0);
	if (left->scales && !f->stop && space->tasks > 1) /* without tasks there is no end */
		add(to, MOVE_SCALE, 0, 0);
	if (left->deletions && !f->dying)
		add(to, MOVE_DELETE, 0, 0);
	if (left->quotas)
		add(to, MOVE_QUOTA, 0, 0);
	if (left->foreign && world->before)
		add(to, MOVE_FOREIGN, 0, 0);
	if (left->foreign && f->leader >= 0)
		add(to, MOVE_FOREIGN, 1, 0);
}

int64_t world_wake_ms(void)
{
	int64_t wake = INT64_MAX;
	for (int l = 0; l < LEADERS; l++) {
		bool sends = world->rules[l] && !worlds->lapsed[l];
		int64_t of = sends ? rules_wake_ms(world->rules[l]) : INT64_MAX;
		wake = of < wake ? of : wake;
	}
	return wake;
}

bool world_has_events(void)
{
	int n = 0;
	for (int l = 0; l < LEADERS; l++)
		for (int i = 0; i < WATCHES; i++)
			n += world->n_events[l][i];
	return n > 0;
}

size_t world_moves(struct move *out)
{
	struct move *to = out;
	int running = 0;
	for (int l = 0; l < LEADERS; l++) {
		running += world->rules[l] != NULL;
		for (int i = 0; i < watches(); i++)
			if (world->n_events[l][i])
				add(&to, MOVE_EVENT, l, i);
		for (int i = 0; i < watches() && world->rules[l] && world->left.relists; i++)
			add(&to, MOVE_RELIST, l, i);
		for (int i = CONFIGMAPS; i < watches() && world->rules[l] && world->left.old_lists;
		     i++)
			add(&to, MOVE_RELIST, l, OLD_LIST + i);
	}
	moves_of_requests(&to);
	moves_of_pods(&to);
	moves_of_users(&to);
	moves_of_kueue(&to);
	bool more = world->left.leaders && running < LEADERS;
	for (int old = 0; old < (world->left.old_lists ? watches() : 1); old++) {
		if (more && !world->left.kills)
			add(&to, MOVE_LEAD, old, 0);
		if ((running > 1 && !old) || (running && more))
			add(&to, MOVE_KILL, world->rules[0] ? 0 : 1, old);
	}
	int64_t wake = world_wake_ms();
	bool waits = world->n_open || (!space->stale && world_has_events());
	if (!waits && wake > world->now.ms && wake < world->now.ms + TIME_MOST_MS)
		add(&to, MOVE_TIME, 0, 0);
	if ((size_t)(to - out) > MOVES_MOST)
		abort();
	return (size_t)(to - out);
}

static void move_event(int leader, int watch)
{
	struct event *list = world->events[leader][watch];
	struct event e = list[0];
	int8_t *n = &world->n_events[leader][watch];
	memmove(list, list + 1, (size_t)-- * n * sizeof(*list));
	memset(list + *n, 0, sizeof(*list));
	if (watch == FRAMEWORKS)
		world->told[leader] = e.framework;
	(e.gone ? rules_gone : rules_put)(world->rules[leader], &world->now, KINDS[watch],
	                                  event_text(watch, &e));
}

static void request_refuse(struct request *q, int why)
{
	world->left.refusals--;
	q->denied = true;
	q->refusal = (int8_t)why;
	q->outcome = q->kind == KIND_ACCESS_REVIEW ? STORE_OK : STORE_REFUSED;
	world->refused |= why == REFUSED_INVALID && q->kind == KIND_POD;
}

static void move_request(enum move_kind kind, int i, int why)
{
	struct request q = request_remove(world->open, &world->n_open, i);
	bool late = kind == MOVE_LATE;
	if (kind != MOVE_ANSWER && kind != MOVE_REFUSE)
		world->left.faults--;
	if (late)
		world->late[world->n_late++] = q;
	if (kind == MOVE_ANSWER || kind == MOVE_LOST)
		execute(&q);
	if (kind == MOVE_REFUSE)
		request_refuse(&q, why);
	else if (kind == MOVE_BUSY)
		q.outcome = STORE_BUSY;
	else if (kind == MOVE_CONFLICT)
		q.outcome = STORE_CONFLICT;
	else if (kind == MOVE_VOID && q.verb == STORE_DELETE) /* whatever the body is */
		q.outcome = STORE_OK;
	else if (kind != MOVE_ANSWER)
		q.outcome = STORE_AMBIGUOUS;
	request_answer(&q);
}

static void move_pod(enum move_kind kind, int i)
{
	struct shown_pod *p = &world->pod[i];
	if (kind == MOVE_REMOVE) {
		p->there = false;
	} else {
		p->phase = kind == MOVE_FAIL ? FAILED : p->phase == PENDING ? RUNNING : SUCCEEDED;
		if (kind == MOVE_FAIL)
			world->left.failures--;
	}
	if (phase_is_end(p->phase))
		world->ended[i][p->made % MADE_MOST] |= (uint8_t)(1 << p->phase);
	pod_show(p);
}

static void move_collect(int i)
{
	if (i < TASKS_MOST) {
		pod_delete(&world->pod[i], false);
	} else if (i == TASKS_MOST) {
		configmap_delete();
	} else if (i == TASKS_MOST + 2) {
		workload_delete();
	} else {
		world->framework.there = false;
		framework_show();
	}
}

static void move_kill(int leader, int old)
{
	leader_end(leader);
	if (world->left.leaders && !world->rules[1 - leader]) {
		world->left.leaders--;
		leader_begin(old);
	}
}

/* Somebody puts an older status back, or another name into the annotation. */
static void move_foreign(int what)
{
	world->left.foreign--;
	if (what == 0)
		world->framework.status = world->before, world->replaced = true;
	else
		world->framework.leader = BY_ANOTHER;
	framework_show();
}

static void move_user(enum move_kind kind)
{
	struct shown_framework *f = &world->framework;
	if (kind == MOVE_STOP) {
		world->left.stops--;
		f->stop = true;
	} else if (kind == MOVE_SCALE) {
		world->left.scales--;
		f->number = (int8_t)(f->number == space->tasks ? f->number - 1 : space->tasks);
	} else {
		world->left.deletions--;
		f->dying = true;
	}
	framework_show();
}

static void move_relist(int leader, int of)
{
	bool old = of >= OLD_LIST;
	--*(old ? &world->left.old_lists : &world->left.relists);
	leader_list(leader, of % OLD_LIST, old);
}

/* The node of this pod is lost: it does not change any more, also if Kubernetes deletes it. */
static void move_node(int i)
{
	world->left.nodes--;
	world->pod[i].lost = true;
}

/* The rules know it already, by the answer of a request: such an event changes nothing, whenever it
 * comes. */
static bool event_is_known(int leader, int watch)
{
	const struct event *e = &world->events[leader][watch][0];
	struct rules_job *job =
	    job_of_name(world->rules[leader], SPAN("ns"), span_of(world->name), false);
	char name[16];
	const struct shown_framework *told = &world->told[leader];
	if (!job || !job->uid || e->gone)
		return false;
	if (watch == FRAMEWORKS)
		return e->framework.version <= job->read.version &&
		       e->framework.stop == told->stop && e->framework.dying == told->dying &&
		       e->framework.number == told->number;
	(void)snprintf(name, sizeof(name), "%s-w-%d", world->name,
	               watch == PODS ? e->pod.index : 0);
	const struct rules_object *o = object_find_known(job, KINDS[watch], name, false);
	return o && o->state == OBJECT_LIVE &&
	       o->version == (watch == PODS        ? e->pod.version
	                      : watch == WORKLOADS ? e->workload.version
	                                           : e->configmap.version);
}

static bool world_deliver_known(void)
{
	for (int l = 0; l < LEADERS; l++)
		for (int i = 0; i < WATCHES; i++)
			if (world->rules[l] && world->n_events[l][i] && event_is_known(l, i)) {
				move_event(l, i);
				return true;
			}
	return false;
}

static void move_kueue(enum move_kind kind)
{
	struct shown_workload *w = &world->workload;
	if (kind == MOVE_EVICT) {
		world->left.evictions--;
		w->evicted = 1;
	} else {
		w->reserved = w->admitted = 1;
		w->admission = true;
		w->evicted = (int8_t)(w->evicted < 0 ? w->evicted : 0);
	}
	workload_show();
}

/* Time, leaders, users and others. */
static void move_other(struct move m)
{
	switch ((enum move_kind)m.kind) {
	case MOVE_TIME:
		worlds_wait(world_wake_ms() - world->now.ms);
		break;
	case MOVE_LEAD:
		world->left.leaders--;
		leader_begin(m.a);
		break;
	case MOVE_KILL:
		move_kill(m.a, m.b);
		break;
	case MOVE_FOREIGN:
		move_foreign(m.a);
		break;
	case MOVE_RELIST:
		move_relist(m.a, m.b);
		break;
	case MOVE_NODE:
		move_node(m.a);
		break;
	case MOVE_ADMIT:
	case MOVE_EVICT:
		move_kueue((enum move_kind)m.kind);
		break;
	case MOVE_QUOTA:
		world->left.quotas--;
		world->full = !world->full;
		break;
	default:
		move_user((enum move_kind)m.kind);
	}
}

/* Watches, requests and pods; or the others. */
static void move_one(struct move m)
{
	struct request q;
	switch ((enum move_kind)m.kind) {
	case MOVE_EVENT:
		move_event(m.a, m.b);
		break;
	case MOVE_EXECUTE:
		execute(&world->open[m.a]);
		break;
	case MOVE_ANSWER:
	case MOVE_LOST:
	case MOVE_LATE:
	case MOVE_BUSY:
	case MOVE_CONFLICT:
	case MOVE_REFUSE:
	case MOVE_VOID:
		move_request((enum move_kind)m.kind, m.a, m.b);
		break;
	case MOVE_LATER:
		q = request_remove(world->late, &world->n_late, m.a);
		execute(&q);
		break;
	case MOVE_PHASE:
	case MOVE_FAIL:
	case MOVE_REMOVE:
		move_pod((enum move_kind)m.kind, m.a);
		break;
	case MOVE_DELETE_POD:
		if (!world->pod[m.a].lost)
			world->left.pod_deletions--;
		pod_delete(&world->pod[m.a], false);
		break;
	case MOVE_COLLECT:
		move_collect(m.a);
		break;
	default:
		move_other(m);
	}
}

void world_move(struct move m)
{
	move_one(m);
	do
		world_pull();
	while (world_deliver_known());
}

bool move_is_fault(struct move m)
{
	return (m.kind >= MOVE_LOST && m.kind <= MOVE_VOID) || m.kind == MOVE_FOREIGN;
}

void move_tell(struct move m, char *out, size_t size)
{
	static const char *const NAMES[MOVES] = {
		"event",
		"executed, answered",
		"executed, not yet answered",
		"executed, answer lost",
		"not yet executed, no answer",
		"503",
		"409, not executed",
		"refused",
		"answered 200, not executed",
		"late, executed",
		"next phase",
		"fails",
		"is gone",
		"garbage collector",
		"time",
		"user stops",
		"user scales",
		"user deletes",
		"user deletes pod",
		"another leads",
		"killed",
		"another writes",
		"list",
		"node is lost",
		"quota",
		"Kueue admits",
		"Kueue evicts",
	};
	static const char *const WHAT[] = { "Framework", "ConfigMap", "pod", "Workload" };
	const struct request *q = m.kind == MOVE_LATER ? &world->late[m.a] : &world->open[m.a];
	if (m.kind == MOVE_EVENT || m.kind == MOVE_RELIST)
		(void)snprintf(out, size, "leader %d: %s of %s", m.a, NAMES[m.kind],
		               WHAT[m.b % OLD_LIST]);
	else if (m.kind >= MOVE_ANSWER && m.kind <= MOVE_LATER)
		(void)snprintf(out, size, "leader %d: %s %s %d %s: %s", q->leader, VERBS[q->verb],
		               WHAT[kind_watch(q->kind)], q->index,
		               q->writes ? FW_STATES[status_of(q->status)->framework.state]
		                         : q->uid,
		               NAMES[m.kind]);
	else
		(void)snprintf(out, size, "%s %d", NAMES[m.kind], m.a);
}

bool world_is_stopped(void)
{
	return world->framework.stop;
}

bool world_is_done(void)
{
	bool pods = false;
	for (int i = 0; i < TASKS_MOST; i++)
		pods |= world->pod[i].there && !world->pod[i].lost;
	bool ended =
	    status_of(world->framework.status)->framework.state == FRAMEWORK_STATE_COMPLETED;
	const struct shown_workload *w = &world->workload;
	bool let_go = !w->there || (w->finished == 1 && !w->guarded);
	return !world->n_open && !world_has_events() && !pods && !world->configmap.there &&
	       let_go && (ended || !world->framework.there);
}

bool move_is_progress(struct move m)
{
	static const bool OPTIONAL[MOVES] = {
		[MOVE_LOST] = true,       [MOVE_LATE] = true,     [MOVE_BUSY] = true,
		[MOVE_VOID] = true,       [MOVE_CONFLICT] = true, [MOVE_LATER] = true,
		[MOVE_STOP] = true,       [MOVE_SCALE] = true,    [MOVE_DELETE] = true,
		[MOVE_DELETE_POD] = true, [MOVE_LEAD] = true,     [MOVE_KILL] = true,
		[MOVE_FOREIGN] = true,    [MOVE_RELIST] = true,   [MOVE_NODE] = true,
		[MOVE_REFUSE] = true,     [MOVE_QUOTA] = true,    [MOVE_EVICT] = true,
	};
	return !OPTIONAL[m.kind];
}

void world_check_rest(const struct move *moves, size_t n)
{
	if (!world->n_open && !world_has_events())
		stored_check();
	for (size_t i = 0; i < n; i++)
		if (move_is_progress(moves[i]))
			return;
	rest_check();
}
