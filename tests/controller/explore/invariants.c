/* What may never happen. */
#include "tests/controller/explore/explore.h"

#include <stdio.h>
#include <stdlib.h>

void blame(const char *why)
{
	if (!world->bad)
		world->bad = why;
}

/* A part of the status, before and after a write. */
static void part_check(const struct part *was, const struct part *is)
{
	bool same = was->attempt == is->attempt;
	if (was->attempt < 0 || was->state < 0 || strcmp(was->instance, is->instance) != 0)
		return; /* it is another task, of this place */
	if (is->attempt > was->attempt + 1 || (is->attempt > was->attempt && was->state != 7))
		blame("an attempt begins before the end of the one before is stored");
	if (is->attempt >= 0 && is->attempt < was->attempt)
		blame("an attempt is taken back");
	else if (same && is->state < was->state &&
	         !(was->state == 3 && is->state == 2) /* Running, and its pod is Pending again */)
		blame("a state is taken back");
	else if (same && was->ended && !(is->ended && is->code == was->code))
		blame("an outcome is taken back");
	else if (is->retried < was->retried)
		blame("a number of retries is taken back");
}

/* What the status says of the end of a task, and what its pod did. */
static void outcome_check(const struct part *t, int index)
{
	const struct shown_pod *p = &world->pod[index];
	int made = number_at(t->uid[0] ? t->uid + 3 : "0");
	bool here = p->there && p->made == made;
	uint8_t ended = world->ended[index][made % MADE_MOST];
	if (t->uid[0] && t->attempt != world->attempts[index][made % MADE_MOST])
		blame("a pod of another attempt is taken");
	if (t->ended && (t->code == -200 || t->code == -310) && !world->refused)
		blame("a pod is called refused that was not");
	if (!t->ended || !t->uid[0])
		return;
	if (t->code == 0 && !(ended & (1 << SUCCEEDED)))
		blame("a task has succeeded whose pod has not");
	if (t->code == 1 && !(ended & (1 << FAILED)))
		blame("a task has failed whose pod has not");
	if (t->code == -101 && here && !p->dying && !p->asked)
		blame("a live pod is called gone");
}

void status_check(int before, int after)
{
	const struct status *was = status_of(before);
	const struct status *is = status_of(after);
	bool same = was->framework.attempt == is->framework.attempt;
	if (before && !after)
		blame("a status is lost");
	if (was->framework.state == FRAMEWORK_STATE_COMPLETED &&
	    is->framework.state != FRAMEWORK_STATE_COMPLETED)
		blame("an end is taken back");
	bool ends = is->framework.state == FRAMEWORK_STATE_COMPLETED;
	if (ends && was->framework.state != FRAMEWORK_STATE_COMPLETED && world->configmap.there &&
	    number_at(is->framework.uid + (is->framework.uid[0] != 0)) == world->configmap.made)
		blame("it ends before its ConfigMap is gone");
	part_check(&was->framework, &is->framework);
	for (int i = 0; i < TASKS_MOST; i++) {
		if (same && is->task[i].attempt >= 0)
			part_check(&was->task[i], &is->task[i]);
		outcome_check(&is->task[i], i);
		if (ends && is->task[i].attempt >= 0 && is->task[i].state != is->framework.state)
			blame("it has ended, and a task has not");
	}
}

/* The status that is stored now, of which the leader knows, announces this creation. */
static bool creation_is_announced(const struct request *q)
{
	const struct status *s = status_of(world->framework.status);
	const struct rules_job *job =
	    job_of_name(world->rules[q->leader], SPAN("ns"), span_of(world->name), false);
	if (q->kind == KIND_WORKLOAD)
		return job->read.version != world->framework.version || s->framework.state == 0;
	const struct part *p = q->kind == KIND_POD ? &s->task[q->index] : &s->framework;
	int attempt = q->kind == KIND_POD ? q->pod.attempt : q->configmap.attempt;
	if (job->read.version != world->framework.version)
		return true; /* another has written */
	return p->state == 0 && p->attempt == attempt;
}

void request_check(const struct request *q)
{
	const struct rules_job *job =
	    job_of_name(world->rules[q->leader], SPAN("ns"), span_of(world->name), false);
	bool review = q->kind == KIND_ACCESS_REVIEW;
	bool acts = q->verb == STORE_CREATE || (q->verb == STORE_DELETE && job->state != JOB_ENDED);
	if (acts && !world->took[q->leader])
		blame("a request comes before the take-over");
	if (q->verb == STORE_CREATE && !review && !creation_is_announced(q))
		blame("an object is created that the stored status does not announce");
	if (q->verb == STORE_DELETE && !q->uid[0])
		blame("a DELETE has no uid");
}

void release_check(void)
{
	for (int i = 0; i < TASKS_MOST; i++)
		if (world->pod[i].there && !world->pod[i].dying && !world->pod[i].lost &&
		    world->configmap.there)
			blame("quota is given back, and a pod runs");
}

void quota_check(const struct shown_pod *p)
{
	if (space->queue && world->configmap.there && !world->configmap.dying &&
	    world->configmap.made == p->configmap && !workload_holds())
		blame("a pod is made without quota");
}

void stored_check(void)
{
	for (int l = 0; l < LEADERS; l++) {
		const struct rules_job *job =
		    world->rules[l]
			? job_of_name(world->rules[l], SPAN("ns"), span_of(world->name), false)
			: NULL;
		if (!job || job->state != JOB_STORED || job->write.fence != FENCE_OURS)
			continue;
		STR_AUTO text = STR_INIT(RULES_OBJECT_MAX);
		framework_status_write(job->framework, &text);
		if (!span_is(str_view(&text), status_of(world->framework.status)->text))
			blame("the status that is stored is not that of the leader");
	}
}

/* When nothing is under way: what is left over. */
void rest_check(void)
{
	const struct status *s = status_of(world->framework.status);
	bool ended = s->framework.state == FRAMEWORK_STATE_COMPLETED;
	if (workload_holds() && (ended || world->workload.evicted == 1))
		blame("quota is held that nobody uses");
	for (int i = 0; i < TASKS_MOST; i++) {
		const struct shown_pod *p = &world->pod[i];
		char uid[12];
		(void)snprintf(uid, sizeof(uid), "p%d.%d", p->index, p->made);
		if (p->there && ended && !p->lost)
			blame("a pod is left after the end");
		else if (p->there && !p->lost && strcmp(uid, s->task[i].uid) != 0)
			blame("a pod is in no task");
	}
}
