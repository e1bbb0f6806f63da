/* Which states are the same: all that decides about what follows, but no times and no numbers of
 * versions, only their order. */
#include "tests/controller/explore/explore.h"

#include <stdlib.h>

#include "jobs/framework/framework_internal.h"

static uint64_t sum;

static void add(uint64_t v)
{
	sum = (sum ^ v) * 0x9FB21C651E98DF25;
	sum ^= sum >> 32;
}

static void add_text(const char *t)
{
	uint64_t h = 0xCBF29CE484222325;
	for (; t && *t; t++)
		h = (h ^ (unsigned char)*t) * 0x100000001B3;
	add(h);
}

/* ---- versions and times by their order ---------------------------------------------------------
 */

enum { NUMBERS_MOST = 128 };
struct numbers {
	int64_t v[NUMBERS_MOST];
	int n;
};

static void numbers_add(struct numbers *s, int64_t v)
{
	for (int i = 0; i < s->n; i++)
		if (s->v[i] == v)
			return;
	if (s->n == NUMBERS_MOST)
		abort();
	s->v[s->n++] = v;
}

static int number_place(const struct numbers *s, int64_t v)
{
	int place = 0;
	for (int i = 0; i < s->n; i++)
		place += s->v[i] < v;
	return place;
}

/* Versions of the Framework, the ConfigMap, and each pod; times that are still to come. */
enum { OF_WORKLOAD = 2 + TASKS_MOST };
static struct numbers versions[3 + TASKS_MOST], times;

static void time_note(int64_t ms)
{
	if (ms > world->now.ms && ms != INT64_MAX)
		numbers_add(&times, ms);
}

static void add_time(int64_t ms)
{
	add(ms == INT64_MAX       ? 1000
	    : ms <= world->now.ms ? 1001
	                          : (uint64_t)number_place(&times, ms));
}

/* ---- the rules ---------------------------------------------------------------------------------
 */

static int cap(unsigned n)
{
	return n < 3 ? (int)n : 3;
}

static void add_outcome(const struct fw_outcome *o)
{
	add(o ? (uint64_t)(o->code + 1000) : 1);
	add_text(o ? o->more : "");
}

static void add_life(const struct fw_life *l)
{
	add((uint64_t)l->state | (uint64_t)l->id << 8 | (uint64_t)l->retried << 16 |
	    (uint64_t)l->accountable << 24 | (uint64_t)(l->retry_delay_s >= 0) << 32 |
	    (uint64_t)(l->run_s != FW_NO_TIME) << 33 |
	    (uint64_t)(l->attempt_run_s != FW_NO_TIME) << 34);
	add_text(l->uid);
	add_outcome(l->outcome);
}

static void add_machine(const struct framework *f)
{
	add(f != NULL);
	if (!f)
		return;
	add(f->has_status | f->spec.dying << 1 | (uint64_t)f->spec.execution << 2 |
	    (uint64_t)f->spec.wanted << 8);
	if (!f->has_status)
		return;
	add_life(&f->life);
	for (size_t r = 0; r < f->n_roles; r++) {
		add(f->roles[r].n);
		for (size_t i = 0; i < f->roles[r].n; i++) {
			const struct fw_task *t = &f->roles[r].tasks[i];
			add_life(&t->life);
			add(t->removing);
			add_text(t->uid);
		}
	}
}

static void add_known(const struct rules_object *o, int kind, const struct numbers *v)
{
	const struct rules *r = o->job->r;
	add(o->state | o->alien << 4 | o->unwatched << 5 | (o->list == r->lists[kind]) << 6 |
	    (uint64_t)cap(o->removals) << 8);
	add((uint64_t)number_place(v, o->version));
	add_time(o->retry_ms);
	add_time(o->remove_ms);
	add_text(o->gone);
	if (o->state == OBJECT_NONE)
		return;
	add_text(o->view.uid);
	add_text(o->view.owner_uid);
	add_text(o->view.phase);
	add(o->view.dying);
}

static int request_place(const void *arg)
{
	for (int i = 0; i < world->n_open; i++)
		if (world->open[i].arg == arg)
			return i;
	return -1;
}

static void add_op(const struct rules_op *op)
{
	add((uint64_t)op->kind | (uint64_t)op->verb << 4 | (uint64_t)op->stage << 8 |
	    (uint64_t)op->state << 12 | (uint64_t)op->force << 16 | (uint64_t)op->confirm << 17 |
	    (uint64_t)op->stray << 18 | (uint64_t)op->takes << 19 | (uint64_t)op->deleted << 20 |
	    (uint64_t)op->answer << 24 | (uint64_t)cap(op->tries) << 28 |
	    (uint64_t)(op->list == op->job->r->lists[op->kind]) << 32 | (uint64_t)op->step << 36);
	add_text(op->told);
	add_text(op->name);
	add_text(op->uid);
	add_text(op->task_uid);
	add_text(op->made);
	add((uint64_t)op->object.retry | (uint64_t)op->object.attempt << 8);
	if (op->state == OP_WAITING)
		add_time(op->due_ms);
	if (op->verb == OP_STORE || (op->verb == OP_READ && op->made))
		add((uint64_t)number_place(&versions[0], op->version));
	if (op->state == OP_SENT)
		add((uint64_t)request_place(op));
}

/* The object that waits, without times and versions: what it says is in the digest of its text. */
static void add_unread(const struct rules_read *read)
{
	static const char VERSION[] = "resourceVersion\":\"";
	add(read->unread);
	if (read->unread == UNREAD_NOTHING)
		return;
	const char *p = str_c(&read->next.text);
	uint64_t h = 0xCBF29CE484222325;
	for (; *p; p++) {
		h = (h ^ (unsigned char)*p) * 0x100000001B3;
		if (*p == 'r' && strncmp(p, VERSION, sizeof(VERSION) - 1) == 0)
			p = strchr(p + sizeof(VERSION) - 1, '"');
		else if (*p == '"' && p[1] == '2' && p[2] == '0' && p[5] == '-' && p[11] == 'T')
			p += sizeof("2020-09-13T12:26:40Z");
	}
	add(h);
}

static int64_t pace_ms(const struct rules_job *job)
{
	return job->write.begun_ms ? job->write.begun_ms + RULES_PACE_MS : 0;
}

static int64_t told_ms(const struct rules_job *job)
{
	return job->admission->told_ms ? job->admission->told_ms + RULES_TOLD_MS : 0;
}

static void add_admission(const struct rules_job *job)
{
	const struct rules_admission *of = job->admission;
	add(of != NULL);
	if (!of)
		return;
	add_known(&of->workload, KIND_WORKLOAD, &versions[OF_WORKLOAD]);
	add((uint64_t)number_place(&versions[OF_WORKLOAD], of->fresh));
	add((uint64_t)of->look | (uint64_t)of->absent << 1 | (uint64_t)of->starts << 2 |
	    (uint64_t)of->exceeds << 3 | (uint64_t)of->checked << 4 |
	    (uint64_t)of->priority.known << 5 | (uint64_t)of->succeeded << 6 |
	    (uint64_t)cap(of->failures) << 8);
	add_text(of->told);
	add_text(of->why);
	add_time(of->retry_ms);
	add_time(of->progress_ms);
	add_time(told_ms(job));
}

static void job_note_numbers(struct rules_job *job)
{
	struct rules_object *o;
	struct rules_op *op;
	numbers_add(&versions[0], job->read.version);
	numbers_add(&versions[1], job->configmap.version);
	time_note(job->configmap.remove_ms);
	time_note(job->configmap.retry_ms);
	LIST_FOREACH(o, &job->pods, siblings)
	{
		int i = o->name[sizeof("job-w-") - 1] - '0';
		numbers_add(&versions[2 + i], o->version);
		time_note(o->retry_ms);
		time_note(o->remove_ms);
	}
	TAILQ_FOREACH(op, &job->ops, next)
	{
		numbers_add(&versions[0], op->version);
		if (op->state == OP_WAITING)
			time_note(op->due_ms);
	}
	if (job->admission) {
		numbers_add(&versions[OF_WORKLOAD], job->admission->workload.version);
		numbers_add(&versions[OF_WORKLOAD], job->admission->fresh);
		time_note(job->admission->retry_ms);
		time_note(job->admission->progress_ms);
		time_note(told_ms(job));
	}
	time_note(job->write.hold_ms);
	time_note(pace_ms(job));
	time_note(job->step.sync_ms);
	time_note(job->step.unwatched_ms);
	time_note(job->due.place ? job->due.at_ms : INT64_MAX);
}

static void add_job(struct rules_job *job)
{
	const struct rules *r = job->r;
	struct rules_object *o;
	struct rules_op *op;
	add((uint64_t)job->state | (uint64_t)job->over_quota << 4 |
	    (uint64_t)job->write.fence << 5 | (uint64_t)job->write.packs << 8 |
	    (uint64_t)job->step.asks << 9 | (uint64_t)job->step.current << 12 |
	    (uint64_t)job->step.sweep << 13 | (uint64_t)(job->uid != NULL) << 14 |
	    (uint64_t)job->read.stops << 15 |
	    (uint64_t)(job->read.list < r->listed[KIND_FRAMEWORK]) << 16 |
	    (uint64_t)(job->step.window == RULES_WINDOW) << 17 |
	    (uint64_t)cap(job->step.sync_failures) << 20 |
	    (uint64_t)cap(job->write.store_failures) << 24 |
	    (uint64_t)cap(job->write.take_failures) << 28 |
	    (uint64_t)cap(job->write.foreign) << 32);
	add(job->read.spec_hash);
	add((uint64_t)number_place(&versions[0], job->read.version));
	add_time(job->write.hold_ms);
	add_time(pace_ms(job));
	add_time(job->step.sync_ms);
	add_time(job->step.unwatched_ms);
	add_time(job->due.place ? job->due.at_ms : INT64_MAX);
	add_unread(&job->read);
	add_machine(job->framework);
	add_known(&job->configmap, KIND_CONFIGMAP, &versions[1]);
	/* Pods in the order of their names. */
	for (int i = 0; i < TASKS_MOST; i++)
		LIST_FOREACH(o, &job->pods, siblings)
	if (o->name[sizeof("job-w-") - 1] - '0' == i) {
		add((uint64_t)i);
		add_known(o, KIND_POD, &versions[2 + i]);
	}
	add_admission(job);
	TAILQ_FOREACH(op, &job->ops, next)
	add_op(op);
}

/* ---- the world ---------------------------------------------------------------------------------
 */

static void add_framework(const struct shown_framework *f)
{
	add((uint64_t)f->there | (uint64_t)f->dying << 1 | (uint64_t)f->stop << 2 |
	    (uint64_t)(f->leader + 1) << 8 | (uint64_t)f->number << 16);
	add((uint64_t)f->waits);
	add(status_of(f->status)->shape);
	add((uint64_t)number_place(&versions[0], f->version));
}

static void add_workload(const struct shown_workload *w)
{
	add((uint64_t)w->there | (uint64_t)w->dying << 1 | (uint64_t)w->guarded << 2 |
	    (uint64_t)w->admission << 3 | (uint64_t)(w->reserved + 2) << 4 |
	    (uint64_t)(w->admitted + 2) << 8 | (uint64_t)(w->evicted + 2) << 12 |
	    (uint64_t)(w->finished + 2) << 16 | (uint64_t)(w->ready + 2) << 20 |
	    (uint64_t)w->made << 24);
	add((uint64_t)number_place(&versions[OF_WORKLOAD], w->version));
}

static void add_configmap(const struct shown_configmap *c)
{
	add((uint64_t)c->there | (uint64_t)c->dying << 1 | (uint64_t)c->made << 8 |
	    (uint64_t)c->attempt << 16);
	add((uint64_t)number_place(&versions[1], c->version));
}

static void add_pod(const struct shown_pod *p)
{
	add((uint64_t)p->there | (uint64_t)p->dying << 1 | (uint64_t)p->asked << 2 |
	    (uint64_t)p->phase << 4 | (uint64_t)p->made << 8 | (uint64_t)p->configmap << 16 |
	    (uint64_t)p->attempt << 24 | (uint64_t)p->index << 32 | (uint64_t)p->lost << 40);
	add_text(p->task_uid);
	add((uint64_t)number_place(&versions[2 + p->index], p->version));
}

static void event_note(int watch, const struct event *e)
{
	if (watch == FRAMEWORKS)
		numbers_add(&versions[0], e->framework.version);
	else if (watch == CONFIGMAPS)
		numbers_add(&versions[1], e->configmap.version);
	else if (watch == WORKLOADS)
		numbers_add(&versions[OF_WORKLOAD], e->workload.version);
	else
		numbers_add(&versions[2 + e->pod.index], e->pod.version);
}

static void add_event(int watch, const struct event *e)
{
	add((uint64_t)e->gone | (uint64_t)watch << 4);
	if (watch == FRAMEWORKS)
		add_framework(&e->framework);
	else if (watch == CONFIGMAPS)
		add_configmap(&e->configmap);
	else if (watch == WORKLOADS)
		add_workload(&e->workload);
	else
		add_pod(&e->pod);
}

static bool request_shows(const struct request *q)
{
	return q->executed && q->outcome == STORE_OK && q->verb != STORE_DELETE &&
	       q->kind != KIND_PRIORITYCLASS;
}

static void answer_note(const struct request *q)
{
	int watch = kind_watch(q->kind);
	if (watch == FRAMEWORKS)
		numbers_add(&versions[0], q->framework.version);
	else if (watch == CONFIGMAPS)
		numbers_add(&versions[1], q->configmap.version);
	else if (watch == WORKLOADS)
		numbers_add(&versions[OF_WORKLOAD], q->workload.version);
	else
		numbers_add(&versions[2 + q->pod.index], q->pod.version);
}

static void add_answer(const struct request *q)
{
	int watch = kind_watch(q->kind);
	add(100 + (uint64_t)q->outcome);
	if (!request_shows(q))
		return;
	if (watch == FRAMEWORKS)
		add_framework(&q->framework);
	else if (watch == CONFIGMAPS)
		add_configmap(&q->configmap);
	else if (watch == WORKLOADS)
		add_workload(&q->workload);
	else
		add_pod(&q->pod);
}

static void add_request(const struct request *q)
{
	add((uint64_t)q->leader | (uint64_t)q->verb << 4 | (uint64_t)q->kind << 8 |
	    (uint64_t)q->index << 16 | (uint64_t)q->force << 24 | (uint64_t)q->takes << 25 |
	    (uint64_t)q->writes << 26);
	add_text(q->uid);
	if (q->verb == STORE_CREATE && q->kind == KIND_POD)
		add((uint64_t)q->pod.attempt | (uint64_t)q->pod.configmap << 8);
	else if (q->verb == STORE_CREATE)
		add((uint64_t)q->configmap.attempt);
	if (q->kind == KIND_WORKLOAD) {
		add((uint64_t)q->of_status);
		if (q->verb == STORE_PATCH && !q->executed) {
			add((uint64_t)number_place(&versions[OF_WORKLOAD], q->tests_version));
			add_workload(&q->workload);
		}
	} else if (q->verb == STORE_PATCH) {
		add((uint64_t)(q->waits + 1));
		add(status_of(q->status)->shape);
		add((uint64_t)number_place(&versions[0], q->tests_version));
	}
	if (q->executed)
		add_answer(q);
}

/* A version that only a request tests is never that of the Framework again: all such are one. */
static void world_note_numbers(void)
{
	for (int i = 0; i < 3 + TASKS_MOST; i++)
		versions[i].n = 0;
	times.n = 0;
	numbers_add(&versions[0], world->framework.version);
	numbers_add(&versions[1], world->configmap.version);
	numbers_add(&versions[OF_WORKLOAD], world->workload.version);
	for (int i = 0; i < TASKS_MOST; i++)
		numbers_add(&versions[2 + i], world->pod[i].version);
	for (int l = 0; l < LEADERS; l++)
		for (int w = 0; w < WATCHES; w++)
			for (int i = 0; i < world->n_events[l][w]; i++)
				event_note(w, &world->events[l][w][i]);
	for (int i = 0; i < world->n_open; i++) {
		const struct request *q = &world->open[i];
		numbers_add(&versions[q->kind == KIND_WORKLOAD ? OF_WORKLOAD : 0],
		            q->tests_version);
		if (request_shows(q))
			answer_note(q);
	}
	for (int i = 0; i < world->n_late; i++)
		numbers_add(&versions[world->late[i].kind == KIND_WORKLOAD ? OF_WORKLOAD : 0],
		            world->late[i].tests_version);
}

uint64_t world_digest(void)
{
	struct rules_job *jobs[LEADERS] = { NULL };
	sum = 0;
	world_note_numbers();
	for (int l = 0; l < LEADERS; l++) {
		if (world->rules[l])
			jobs[l] =
			    job_of_name(world->rules[l], SPAN("ns"), span_of(world->name), false);
		if (jobs[l])
			job_note_numbers(jobs[l]);
	}
	add((uint64_t)world->leaders);
	for (size_t i = 0; i < sizeof(world->left); i++)
		add(((const unsigned char *)&world->left)[i]);
	add_framework(&world->framework);
	add_configmap(&world->configmap);
	add_workload(&world->workload);
	for (int i = 0; i < TASKS_MOST; i++)
		add_pod(&world->pod[i]);
	for (int l = 0; l < LEADERS; l++) {
		add(world->rules[l] != NULL);
		for (int w = 0; w < WATCHES; w++)
			for (int i = 0; i < world->n_events[l][w]; i++)
				add_event(w, &world->events[l][w][i]);
		if (jobs[l])
			add_job(jobs[l]);
	}
	for (int i = 0; i < world->n_open; i++)
		add_request(&world->open[i]);
	add(77);
	for (int i = 0; i < world->n_late; i++)
		add_request(&world->late[i]);
	for (int l = 0; l < LEADERS; l++)
		add((uint64_t)world->told[l].stop | (uint64_t)world->told[l].dying << 1 |
		    (uint64_t)world->told[l].number << 2);
	add(world->took[0] | world->took[1] << 1 | world->replaced << 2);
	if (world->left.foreign)
		add(status_of(world->before)->shape);
	return sum;
}
