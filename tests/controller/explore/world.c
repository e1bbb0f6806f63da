/* The API server: objects of one Framework, watches, lists, and requests. */
#include "tests/controller/explore/explore.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/time.h"

enum { START_S = 1600000000, TEXT_MAX = 1 << 16 };
enum { NAME_OF_POD = sizeof("job-w-") - 1 };

const enum object_kind KINDS[WATCHES] = { KIND_FRAMEWORK, KIND_CONFIGMAP, KIND_POD, KIND_WORKLOAD };
static const char *const PHASES[] = { "Pending", "Running", "Succeeded", "Failed" };

struct world *worlds;
struct world *world;
int n_worlds;
const struct space *space;
static const struct framework_config *config;
static char text[TEXT_MAX]; /* the last object */

/* ---- objects as JSON ---------------------------------------------------------------------------
 */

/* The rules borrow it. */
static const char *leader_name(int identity)
{
	static char names[BY_ANOTHER][16];
	if (identity == BY_ANOTHER)
		return "another";
	if (!names[identity][0])
		(void)snprintf(names[identity], sizeof(names[identity]), "leader-%d", identity);
	return names[identity];
}

int number_at(const char *digits)
{
	int n = 0;
	for (; *digits >= '0' && *digits <= '9'; digits++)
		n = 10 * n + (*digits - '0');
	return n;
}

static void text_check(int n)
{
	if (n < 0 || n >= TEXT_MAX)
		abort();
}

/* Texts of RULES_WAITING by number. */
enum { WAITS_MOST = 32, WAIT_TEXT = 256 };
static char waits[WAITS_MOST][WAIT_TEXT];
#define QUEUED ",\"labels\":{\"" ADMISSION_QUEUE "\":\"q\"}"

static int8_t waits_number(struct span of)
{
	int8_t i = 1;
	while (i < WAITS_MOST && waits[i][0] && !span_is(of, waits[i]))
		i++;
	if (i == WAITS_MOST || of.n >= WAIT_TEXT)
		abort();
	memcpy(waits[i], of.p, of.n);
	return i;
}

static struct span framework_text(const struct shown_framework *f)
{
	char annotations[128] = "";
	char waiting[WAIT_TEXT + 64] = "";
	if (f->waits)
		(void)snprintf(waiting, sizeof(waiting), ",\"" RULES_WAITING "\":\"%s\"",
		               waits[f->waits % WAITS_MOST]);
	if (f->leader != BY_NOBODY)
		(void)snprintf(annotations, sizeof(annotations), ",\"annotations\":{\"%s\":\"%s\"",
		               RULES_ANNOTATION, leader_name(f->leader));
	text_check(snprintf(
	    text, TEXT_MAX,
	    "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"uid\":\"fw\","
	    "\"resourceVersion\":\"%d\"%s%s%s%s%s},\"spec\":{\"executionType\":\"%s\","
	    "\"retryPolicy\":{\"fancyRetryPolicy\":false,\"maxRetryCount\":%d},\"taskRoles\":[{"
	    "\"name\":\"w\",\"taskNumber\":%d,\"frameworkAttemptCompletionPolicy\":{"
	    "\"minFailedTaskCount\":1,\"minSucceededTaskCount\":-1},\"task\":{\"retryPolicy\":{"
	    "\"fancyRetryPolicy\":false,\"maxRetryCount\":%d},\"podGracefulDeletionTimeoutSec\":%d,"
	    "\"pod\":{\"spec\":{\"containers\":[{\"name\":\"main\"}]}}}}]},\"status\":%s}",
	    world->name, f->version, annotations, waiting, f->leader != BY_NOBODY ? "}" : "",
	    space->queue ? QUEUED : "",
	    f->dying ? ",\"deletionTimestamp\":\"2020-09-13T12:26:40Z\"" : "",
	    f->stop ? "Stop" : "Start", space->retries, f->number, space->task_retries,
	    space->grace_s, status_of(f->status)->text));
	return span_of(text);
}

static struct span configmap_text(const struct shown_configmap *c)
{
	text_check(
	    snprintf(text, TEXT_MAX,
	             "{\"metadata\":{\"name\":\"%s-attempt\",\"namespace\":\"ns\",\"uid\":\"c%d\","
	             "\"resourceVersion\":\"%d\",\"labels\":{\"FC_FRAMEWORK_NAME\":\"%s\"},"
	             "\"annotations\":{\"FC_FRAMEWORK_ATTEMPT_ID\":\"%d\"}%s,\"ownerReferences\":[{"
	             "\"controller\":true,\"uid\":\"fw\"}]}}",
	             world->name, c->made, c->version, world->name, c->attempt,
	             c->dying ? ",\"deletionTimestamp\":\"2020-09-13T12:26:40Z\"" : ""));
	return span_of(text);
}

static struct span pod_text_of(const struct shown_pod *p)
{
	const char *added = space->wild ? ",\"added\":\"by admission\"" : "";
	char dying[128] = "";
	char time[RFC3339_MAX];
	if (p->dying)
		(void)snprintf(dying, sizeof(dying),
		               ",\"deletionTimestamp\":\"%s\",\"deletionGracePeriodSeconds\":0",
		               rfc3339_put(time, p->deletion_ms, 0));
	text_check(
	    snprintf(text, TEXT_MAX,
	             "{\"metadata\":{\"name\":\"%s-w-%d\",\"namespace\":\"ns\",\"uid\":\"p%d.%d\","
	             "\"resourceVersion\":\"%d\",\"labels\":{\"FC_FRAMEWORK_NAME\":\"%s\"%s},"
	             "\"annotations\":{\"FC_TASK_UID\":\"%s\",\"FC_TASK_ATTEMPT_ID\":\"%d\"%s}%s,"
	             "\"ownerReferences\":[{\"controller\":true,\"uid\":\"c%d\"}]},\"status\":{"
	             "\"phase\":\"%s\""
	             "%s}}",
	             world->name, p->index, p->index, p->made, p->version, world->name, added,
	             p->task_uid, p->attempt, added, dying, p->configmap, PHASES[p->phase],
	             p->phase == FAILED ? ",\"containerStatuses\":[{\"name\":\"main\",\"state\":{"
	                                  "\"terminated\":{\"exitCode\":1}}}]"
	                                : ""));
	return span_of(text);
}

static int condition_put(char *to, size_t room, const char *type, int8_t is, bool first)
{
	return is < 0 ? 0
	              : snprintf(to, room,
	                         "%s{\"type\":\"%s\",\"status\":\"%s\",\"reason\":\"Why\","
	                         "\"message\":\"why\"}",
	                         first ? "" : ",", type, is ? "True" : "False");
}

static struct span workload_text(const struct shown_workload *w)
{
	const struct {
		const char *type;
		int8_t is;
	} ALL[] = { { "QuotaReserved", w->reserved },
		    { "Admitted", w->admitted },
		    { "Evicted", w->evicted },
		    { "Finished", w->finished },
		    { "PodsReady", w->ready } };
	char conditions[1024] = "";
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(ALL); i++)
		n += (size_t)condition_put(conditions + n, sizeof(conditions) - n, ALL[i].type,
		                           ALL[i].is, n == 0);
	text_check(snprintf(
	    text, TEXT_MAX,
	    "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"uid\":\"w%d\","
	    "\"resourceVersion\":\"%d\",\"labels\":{\"FC_FRAMEWORK_NAME\":\"%s\"},"
	    "\"finalizers\":[%s]%s,\"ownerReferences\":[{\"controller\":true,\"uid\":\"fw\"}"
	    "]},\"spec\":{\"queueName\":\"q\",\"podSets\":[{\"name\":\"w\",\"count\":%d}]},"
	    "\"status\":{%s\"conditions\":[%s]}}",
	    world->name, w->made, w->version, world->name,
	    w->guarded ? "\"" ADMISSION_GUARD "\"" : "",
	    w->dying ? ",\"deletionTimestamp\":\"2020-09-13T12:26:40Z\"" : "", space->tasks,
	    w->admission ? "\"admission\":{\"clusterQueue\":\"c\"}," : "", conditions));
	return span_of(text);
}

int kind_watch(enum object_kind kind)
{
	return kind == KIND_FRAMEWORK   ? FRAMEWORKS
	       : kind == KIND_CONFIGMAP ? CONFIGMAPS
	       : kind == KIND_WORKLOAD  ? WORKLOADS
	                                : PODS;
}

int watches(void)
{
	return space->queue ? WATCHES : WATCHES - 1;
}

/* An object as it is now. */
static bool object_there(int watch, int index)
{
	return watch == FRAMEWORKS   ? world->framework.there
	       : watch == CONFIGMAPS ? world->configmap.there
	       : watch == WORKLOADS  ? world->workload.there
	                             : world->pod[index].there;
}

static struct span object_text(int watch, int index)
{
	return watch == FRAMEWORKS   ? framework_text(&world->framework)
	       : watch == CONFIGMAPS ? configmap_text(&world->configmap)
	       : watch == WORKLOADS  ? workload_text(&world->workload)
	                             : pod_text_of(&world->pod[index]);
}

struct span event_text(int watch, const struct event *e)
{
	return watch == FRAMEWORKS   ? framework_text(&e->framework)
	       : watch == CONFIGMAPS ? configmap_text(&e->configmap)
	       : watch == WORKLOADS  ? workload_text(&e->workload)
	                             : pod_text_of(&e->pod);
}

/* ---- watches -----------------------------------------------------------------------------------
 */

static void watches_note(int watch, const struct event *e)
{
	for (int l = 0; l < LEADERS; l++) {
		int8_t *n = &world->n_events[l][watch];
		if (!world->rules[l] || watch >= watches())
			continue;
		if (*n == EVENTS_MOST)
			abort();
		world->events[l][watch][(*n)++] = *e;
	}
}

void framework_show(void)
{
	world->framework.version = ++world->version;
	watches_note(FRAMEWORKS,
	             &(struct event){ !world->framework.there, .framework = world->framework });
}

static void configmap_show(void)
{
	world->configmap.version = ++world->version;
	watches_note(CONFIGMAPS,
	             &(struct event){ !world->configmap.there, .configmap = world->configmap });
}

void pod_show(struct shown_pod *p)
{
	p->version = ++world->version;
	watches_note(PODS, &(struct event){ !p->there, .pod = *p });
}

void workload_show(void)
{
	world->workload.version = ++world->version;
	watches_note(WORKLOADS,
	             &(struct event){ !world->workload.there, .workload = world->workload });
}

bool workload_holds(void)
{
	const struct shown_workload *w = &world->workload;
	return w->there && w->finished != 1 && (w->admission || w->reserved == 1);
}

/* It stays while it is guarded. */
void workload_delete(void)
{
	if (!world->workload.guarded && workload_holds())
		release_check();
	world->workload.there = world->workload.guarded;
	world->workload.dying = true;
	workload_show();
}

static int newest_of(int watch)
{
	int newest = 0;
	for (int i = 1; watch == PODS && i < TASKS_MOST; i++)
		if (world->pod[i].version > world->pod[newest].version)
			newest = i;
	return newest;
}

static void world_list(int leader, int watch, bool old)
{
	struct event *events = world->events[leader][watch];
	int8_t *n = &world->n_events[leader][watch];
	int newest = old ? newest_of(watch) : -1;
	memset(events, 0, (size_t)*n * sizeof(*events));
	*n = 0;
	for (int k = 0; k < TASKS_MOST; k++)
		if (object_there(watch, k) && (watch == PODS || k == 0) && k != newest)
			rules_put(world->rules[leader], &world->now, KINDS[watch],
			          object_text(watch, k));
	if (watch == FRAMEWORKS)
		world->told[leader] = world->framework;
	if (newest >= 0 && object_there(watch, newest))
		events[(*n)++] =
		    watch == PODS ? (struct event){ .gone = false, .pod = world->pod[newest] }
		    : watch == WORKLOADS
			? (struct event){ .gone = false, .workload = world->workload }
			: (struct event){ .gone = false, .configmap = world->configmap };
}

/* A list of one kind.  Events that did not come are lost.  An old list has not the newest object,
 * which comes as an event. */
void leader_list(int leader, int watch, bool old)
{
	struct world *present = world;
	struct rules *r = world->rules[leader];
	rules_list_begin(r, KINDS[watch]);
	for (world = worlds; world < worlds + n_worlds; world++)
		world_list(leader, watch, old);
	world = present;
	rules_list_end(r, &world->now, KINDS[watch]);
}

static uint64_t world_random(void *arg)
{
	(void)arg;
	return 12345;
}

/* Of what does not happen here. */
static void world_notice(void *arg, const struct rules_notice *n)
{
	(void)arg;
	if (strcmp(n->reason, "ForeignWriter") == 0 && !space->budget.foreign)
		blame("another writer is blamed, and there is none");
	else if (strcmp(n->reason, "Unstorable") == 0 || strcmp(n->reason, "Unreadable") == 0) {
		fprintf(stderr, "%s: %s\n", n->reason, n->message);
		blame("a Framework that is valid is said not to be");
	}
}

/* old: a watch whose first list is old; 0: none. */
void leader_begin(int old)
{
	int l = worlds->rules[0] != NULL;
	int identity = worlds->leaders++;
	struct rules *r = rules_new(&(struct rules_settings){ .config = config,
	                                                      .identity = leader_name(identity),
	                                                      .counts = &worlds->counts[l],
	                                                      .random = world_random,
	                                                      .notice = world_notice });
	for (int i = 0; i < n_worlds; i++) {
		worlds[i].rules[l] = r;
		worlds[i].identity[l] = identity;
		worlds[i].took[l] = false;
	}
	for (int i = 0; i < watches(); i++)
		leader_list(l, i, old == i && old != FRAMEWORKS);
}

/* The process ends; what it has sent may be executed still. */
static void world_forget_leader(int leader)
{
	for (int i = 0; i < world->n_open;) {
		if (world->open[i].leader != leader) {
			i++;
			continue;
		}
		struct request q = request_remove(world->open, &world->n_open, i);
		if (world->n_late < LATE_MOST && q.verb != STORE_GET && !q.executed)
			world->late[world->n_late++] = q;
		q.outcome = STORE_AMBIGUOUS;
		request_answer(&q);
	}
	memset(world->events[leader], 0, sizeof(world->events[leader]));
	memset(world->n_events[leader], 0, sizeof(world->n_events[leader]));
}

void leader_end(int leader)
{
	struct world *present = world;
	struct rules *r = world->rules[leader];
	for (world = worlds; world < worlds + n_worlds; world++)
		world_forget_leader(leader);
	for (world = worlds; world < worlds + n_worlds; world++)
		world->rules[leader] = NULL;
	worlds->lapsed[leader] = false;
	rules_free(r);
	world = present;
}

void worlds_wait(int64_t ms)
{
	for (int i = 0; i < n_worlds; i++) {
		worlds[i].now.ms += ms;
		worlds[i].now.wall_ms += ms;
	}
}

void worlds_set_clock(int64_t off_ms)
{
	for (int i = 0; i < n_worlds; i++)
		worlds[i].now.wall_ms = START_S * 1000LL + worlds[i].now.ms + off_ms;
}

/* ---- requests ----------------------------------------------------------------------------------
 */

/* The annotation after a `remove` or an `add`. */
static int8_t waits_after(struct span op, struct span value)
{
	if (span_is(op, "remove"))
		return 0;
	return waits_number(value);
}

static void request_read_patch(struct request *q, struct span body)
{
	struct span item;
	ARENA_AUTO a = { 0 };
	for (struct scan all = scan_begin(body); scan_item(&all, &item);) {
		struct span path = scan_text(scan_get(item, "path"), &a);
		struct span value = scan_get(item, "value");
		bool test = span_is(scan_text(scan_get(item, "op"), &a), "test");
		if (span_is(path, "/metadata/resourceVersion"))
			q->tests_version = number_at(arena_dup(&a, scan_text(value, &a)));
		else if (span_find(path, 0, "waiting") < path.n)
			q->waits =
			    waits_after(scan_text(scan_get(item, "op"), &a), scan_text(value, &a));
		else if (span_find(path, 0, "controller") < path.n)
			*(test ? &q->tests_leader : &q->takes) = true;
		else if (span_is(path, "/status"))
			q->status = status_number(value), q->writes = true;
	}
}

static void request_read_object(struct request *q, struct span body)
{
	ARENA_AUTO a = { 0 };
	struct span metadata = scan_get(body, "metadata");
	struct span annotations = scan_get(metadata, "annotations");
	struct scan owners = scan_begin(scan_get(metadata, "ownerReferences"));
	struct span owner;
	if (q->kind == KIND_CONFIGMAP) {
		q->configmap.attempt = (int8_t)number_at(
		    arena_dup(&a, scan_text(scan_get(annotations, "FC_FRAMEWORK_ATTEMPT_ID"), &a)));
		return;
	}
	const char *name = arena_dup(&a, scan_text(scan_get(metadata, "name"), &a));
	q->index = (int8_t)number_at(name + NAME_OF_POD);
	struct shown_pod *p = &q->pod;
	p->index = q->index;
	p->attempt = (int8_t)number_at(
	    arena_dup(&a, scan_text(scan_get(annotations, "FC_TASK_ATTEMPT_ID"), &a)));
	(void)snprintf(p->task_uid, sizeof(p->task_uid), "%s",
	               arena_dup(&a, scan_text(scan_get(annotations, "FC_TASK_UID"), &a)));
	if (scan_item(&owners, &owner))
		p->configmap =
		    (int8_t)number_at(arena_dup(&a, scan_text(scan_get(owner, "uid"), &a)) + 1);
}

/* A merge patch of a Workload, or of its status. */
static void request_read_workload(struct request *q, struct span body)
{
	static const char *const TYPES[] = { "QuotaReserved", "Admitted", "Finished", "PodsReady" };
	ARENA_AUTO a = { 0 };
	struct span item;
	struct shown_workload *w = &q->workload;
	int8_t *const is[] = { &w->reserved, &w->admitted, &w->finished, &w->ready };
	*w = (struct shown_workload){ .guarded = true, .admission = true };
	w->reserved = w->admitted = w->finished = w->ready = -2;
	q->tests_version =
	    number_at(arena_dup(&a, scan_text(scan_path(body, "metadata", "resourceVersion"), &a)));
	w->guarded = scan_type(scan_path(body, "metadata", "finalizers")) != SCAN_ARRAY;
	w->admission = !span_is(scan_path(body, "status", "admission"), "null");
	for (struct scan all = scan_begin(scan_path(body, "status", "conditions"));
	     scan_item(&all, &item);)
		for (size_t i = 0; i < ARRAY_SIZE(TYPES); i++)
			if (span_is(scan_text(scan_get(item, "type"), &a), TYPES[i]))
				*is[i] = (int8_t)span_is(scan_text(scan_get(item, "status"), &a),
				                         "True");
}

static void request_take(int leader, const struct store_request *r)
{
	struct request *q = &world->open[world->n_open++];
	*q = (struct request){ .arg = r->arg,
		               .leader = (int8_t)leader,
		               .identity = (int8_t)world->identity[leader],
		               .verb = r->verb,
		               .kind = r->kind,
		               .waits = -1,
		               .of_status = r->of_status,
		               .force = r->force };
	(void)snprintf(q->uid, sizeof(q->uid), "%s", r->uid ? r->uid : "");
	if (r->kind == KIND_POD && r->name)
		q->index = (int8_t)number_at(r->name + NAME_OF_POD);
	if (r->verb == STORE_PATCH && r->kind == KIND_WORKLOAD)
		request_read_workload(q, r->body[0]);
	else if (r->verb == STORE_PATCH)
		request_read_patch(q, r->body[0]);
	else if (r->verb == STORE_CREATE && r->kind != KIND_ACCESS_REVIEW &&
	         r->kind != KIND_WORKLOAD)
		request_read_object(q, r->body[0]);
	world->requests++;
	request_check(q);
}

/* No more requests than one world has room for. */
static bool worlds_have_room(void)
{
	for (int i = 0; i < n_worlds; i++)
		if (worlds[i].n_open == OPEN_MOST)
			return false;
	return true;
}

/* Takes all that the rules want to send now. */
void world_pull(void)
{
	struct world *present = world;
	struct store_request r;
	for (int l = 0; l < LEADERS; l++)
		while (worlds->rules[l] && !worlds->lapsed[l] && worlds_have_room() &&
		       rules_next(worlds->rules[l], &worlds->now, &r)) {
			const struct rules_op *op = r.arg; /* a review has no name */
			world = worlds;
			while (strcmp(world->name, op->job->name) != 0)
				world++;
			request_take(l, &r);
		}
	world = present;
}

struct request request_remove(struct request *list, int8_t *n, int i)
{
	struct request q = list[i];
	memmove(list + i, list + i + 1, (size_t)(--*n - i) * sizeof(*list));
	memset(list + *n, 0, sizeof(*list));
	return q;
}

/* ---- execution ---------------------------------------------------------------------------------
 */

/* Admission comes first. */
static enum store_outcome create(struct request *q)
{
	int watch = kind_watch(q->kind);
	if (q->kind == KIND_ACCESS_REVIEW) {
		world->refused = true; /* so it was not for the lack of a right */
		return STORE_OK;
	}
	if (world->full) {
		q->refusal = REFUSED_QUOTA;
		return STORE_REFUSED;
	}
	if (object_there(watch, q->index))
		return STORE_EXISTS;
	int8_t made = ++world->made[watch][q->index];
	if (made == MADE_MOST)
		abort();
	if (watch == CONFIGMAPS) {
		world->configmap = (struct shown_configmap){ .there = true,
			                                     .made = made,
			                                     .attempt = q->configmap.attempt };
		configmap_show();
	} else if (watch == WORKLOADS) {
		world->workload = (struct shown_workload){ .there = true, .guarded = true };
		world->workload.made = made;
		world->workload.reserved = world->workload.admitted = world->workload.evicted = -1;
		world->workload.finished = world->workload.ready = -1;
		workload_show();
	} else {
		struct shown_pod *p = &world->pod[q->index];
		*p = q->pod;
		p->there = true;
		p->made = made;
		world->ended[q->index][made] = 0;
		world->attempts[q->index][made] = p->attempt;
		quota_check(p);
		pod_show(p);
	}
	return STORE_OK;
}

/* A pod that runs needs time to end; others go at once. */
void pod_delete(struct shown_pod *p, bool force)
{
	bool was = p->dying;
	p->asked = true;
	p->dying = true;
	p->there = !force && (p->phase == RUNNING || p->lost);
	p->deletion_ms = was ? p->deletion_ms : START_S * 1000LL + world->now.ms;
	if (!was || !p->there)
		pod_show(p);
}

void configmap_delete(void)
{
	world->configmap.dying = true;
	world->configmap.there = false;
	configmap_show();
}

static enum store_outcome delete (const struct request *q) {
	char uid[12] = "fw"; int watch = kind_watch(q->kind);
	struct shown_pod *p = &world->pod[q->index];
	if (!object_there(watch, q->index)) return STORE_NOT_FOUND;
	if (watch == CONFIGMAPS)(void) snprintf(uid, sizeof(uid), "c%d", world->configmap.made);
	else if (watch == WORKLOADS)(void) snprintf(uid, sizeof(uid), "w%d", world->workload.made);
	else if (watch == PODS)(void) snprintf(uid, sizeof(uid), "p%d.%d", p->index, p->made);
	if (strcmp(uid, q->uid) != 0) return STORE_CONFLICT;
	if (watch == CONFIGMAPS) configmap_delete();
	else if (watch == WORKLOADS) workload_delete();
	else if (watch == PODS) pod_delete(p, q->force);
	return STORE_OK;
}

static enum store_outcome patch_workload(const struct request *q)
{
	struct shown_workload *w = &world->workload;
	const struct shown_workload *to = &q->workload;
	bool held = workload_holds();
	if (!w->there)
		return STORE_NOT_FOUND;
	if (q->tests_version != w->version)
		return STORE_CONFLICT;
	w->reserved = (int8_t)(to->reserved == -2 ? w->reserved : to->reserved);
	w->admitted = (int8_t)(to->admitted == -2 ? w->admitted : to->admitted);
	w->finished = (int8_t)(to->finished == -2 ? w->finished : to->finished);
	w->ready = (int8_t)(to->ready == -2 ? w->ready : to->ready);
	w->admission = w->admission && to->admission;
	w->guarded = w->guarded && to->guarded;
	w->there = w->guarded || !w->dying;
	if (held && !workload_holds())
		release_check();
	workload_show();
	return STORE_OK;
}

static enum store_outcome patch(const struct request *q)
{
	if (q->kind == KIND_WORKLOAD)
		return patch_workload(q);
	struct shown_framework *f = &world->framework;
	bool fits = (!q->tests_version || q->tests_version == f->version) &&
	            (!q->tests_leader || f->leader == q->identity);
	if (!f->there)
		return STORE_NOT_FOUND;
	if (!fits)
		return STORE_REFUSED;
	if (q->writes) {
		status_check(world->replaced ? q->status : f->status, q->status);
		world->replaced = false;
		world->before = f->status;
		f->status = q->status;
	}
	if (q->waits >= 0)
		f->waits = q->waits;
	if (q->takes) {
		f->leader = q->identity;
		if (world->identity[q->leader] == q->identity)
			world->took[q->leader] = true;
	}
	framework_show();
	return STORE_OK;
}

void execute(struct request *q)
{
	int watch = kind_watch(q->kind);
	if (q->executed)
		return;
	q->executed = true;
	if (q->kind == KIND_PRIORITYCLASS) {
		q->outcome = STORE_OK;
		return;
	}
	q->outcome = q->verb == STORE_CREATE         ? create(q)
	             : q->verb == STORE_DELETE       ? delete (q)
	             : q->verb == STORE_PATCH        ? patch(q)
	             : object_there(watch, q->index) ? STORE_OK
	                                             : STORE_NOT_FOUND;
	if (q->outcome != STORE_OK || q->verb == STORE_DELETE || q->kind == KIND_ACCESS_REVIEW)
		return;
	if (watch == FRAMEWORKS)
		q->framework = world->framework;
	else if (watch == CONFIGMAPS)
		q->configmap = world->configmap;
	else if (watch == WORKLOADS)
		q->workload = world->workload;
	else
		q->pod = world->pod[q->index];
}

static struct span answer_text(const struct request *q, const char *message)
{
	int watch = kind_watch(q->kind);
	if (q->kind == KIND_ACCESS_REVIEW)
		return q->denied ? SPAN("{\"status\":{\"allowed\":false}}")
		                 : SPAN("{\"status\":{\"allowed\":true}}");
	if (q->outcome == STORE_OK && q->kind == KIND_PRIORITYCLASS)
		return SPAN("{\"items\":[]}");
	if (q->outcome == STORE_OK && q->verb == STORE_DELETE)
		return SPAN("{}");
	if (q->outcome == STORE_OK)
		return watch == FRAMEWORKS   ? framework_text(&q->framework)
		       : watch == CONFIGMAPS ? configmap_text(&q->configmap)
		       : watch == WORKLOADS  ? workload_text(&q->workload)
		                             : pod_text_of(&q->pod);
	text_check(snprintf(text, TEXT_MAX, "{\"kind\":\"Status\",\"message\":\"%s\"}", message));
	return span_of(text);
}

void request_answer(const struct request *q)
{
	static const int HTTP[STORE_OUTCOME_MAX] = { [STORE_OK] = 200,
		                                     [STORE_NOT_FOUND] = 404,
		                                     [STORE_EXISTS] = 409,
		                                     [STORE_CONFLICT] = 409,
		                                     [STORE_BUSY] = 429 };
	static const struct {
		int http;
		const char *message;
	} WHY[REFUSALS] = { [REFUSED_TEST] = { 422, "why" },
		            [REFUSED_FORBIDDEN] = { 403, "forbidden: by a policy" },
		            [REFUSED_INVALID] = { 422, "invalid: by a webhook" },
		            [REFUSED_TOKEN] = { 401, "Unauthorized" },
		            [REFUSED_QUOTA] = { 403, "forbidden: exceeded quota: q" } };
	ARENA_AUTO arena = { 0 };
	bool refused = q->outcome == STORE_REFUSED;
	struct store_reply reply = { .outcome = q->outcome,
		                     .status = refused ? WHY[q->refusal].http : HTTP[q->outcome],
		                     .body = answer_text(q, WHY[q->refusal].message),
		                     .message = span_of(WHY[q->refusal].message) };
	reply.uid = scan_text(scan_path(reply.body, "metadata", "uid"), &arena);
	if (q->verb == STORE_GET && q->kind == KIND_FRAMEWORK && q->outcome == STORE_OK)
		world->told[q->leader] = q->framework;
	rules_answer(world->rules[q->leader], &world->now, q->arg, &reply);
}

static void world_fill(void)
{
	world->left = space->budget;
	world->version = 10;
	world->now = (struct rules_time){ 1000, START_S * 1000LL + 1000 };
	world->framework = (struct shown_framework){
		.there = true, .leader = BY_NOBODY, .number = (int8_t)space->tasks, .version = 10
	};
	memcpy(world->name, "job", sizeof("job"));
}

void world_begin(const struct space *of, const struct framework_config *with)
{
	space = of;
	config = with;
	world = worlds = area_alloc_root(sizeof(*world));
	n_worlds = 1;
	world_fill();
	leader_begin(0);
	world_pull();
}

void worlds_begin(int n, const struct space *of, const struct framework_config *with)
{
	space = of;
	config = with;
	worlds = xcalloc((size_t)n, sizeof(*worlds));
	n_worlds = n;
	for (int i = 0; i < n; i++) {
		world = &worlds[i];
		world_fill();
		world->name[1] = (char)('a' + i / 10);
		world->name[2] = (char)('0' + i % 10);
	}
	world = worlds;
	leader_begin(0);
	world_pull();
}

void worlds_end(void)
{
	for (int l = 0; l < LEADERS; l++)
		if (worlds->rules[l])
			leader_end(l);
	free(worlds);
	worlds = world = NULL;
}
