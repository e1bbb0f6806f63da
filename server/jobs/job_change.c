/* See job_change.h; and to stop a job, and to remove it. */
#include "server/jobs/job_change.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json/scan.h"
#include "k8s/cache/cache.h"
#include "k8s/transport/store.h"
#include "server/accounts/account.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/routes.h"
#include "server/jobs/job_find.h"

enum { TRIES = 6, WAIT_MS = 40, MESSAGE_MAX = 2048 };

/* ---- answers --------------------------------------------------------------------------------- */

static bool is_v1(const struct request *r)
{
	return span_starts(span_of(r->route->path), "/api/v1/");
}

void change_answer(struct request *r, int status, const char *more, const char *fmt, ...)
{
	char message[MESSAGE_MAX];
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args); /* ids and tags are short */
	va_end(args);
	struct str *out = &r->reply.body;
	str_char(out, '{');
	if (!is_v1(r))
		str_printf(out, "\"status\":%d,", status);
	str_puts(out, "\"message\":");
	str_json(out, span_of(message));
	str_printf(out, "%s}\n", more);
	answer_json(r, status);
}

const char *change_id(const struct change *c)
{
	STR_AUTO out = STR_INIT(MESSAGE_MAX);
	job_id_text(&out, c->job);
	return arena_dup(&c->r->arena, str_view(&out));
}

static void gone(struct request *r)
{
	answer_refuse(r, 404, "NoJobError", "there is no such job any more");
}

/* ---- asking the store ------------------------------------------------------------------------ */

static void send(struct change *c, struct store_request q)
{
	q.kind = KIND_FRAMEWORK;
	q.name = c->job->name;
	q.user = c->r->principal->name;
	q.deadline_ms = c->deadline_ms;
	q.arg = c;
	store_request(c->r->loop->store, &q);
	request_wait(c->r);
}

/* What came back is how the job is now. */
static struct job_entry *read_reply(const struct store_reply *reply)
{
	return scan_valid(reply->body, SCAN_DEPTH_MAX) ? job_entry_new(reply->body) : NULL;
}

static void note(struct change *c, const struct store_reply *reply)
{
	struct job_entry *now = read_reply(reply);
	struct cache *cache = c->r->loop->server->cache;
	if (now && cache)
		cache_note(cache, now);
	else
		job_entry_drop(now);
}

static void go(struct change *c);

static void read_again(void *arg, const struct store_reply *reply)
{
	struct change *c = arg;
	struct request *r = c->r;
	if (reply->outcome != STORE_OK) {
		job_store_failed(r, STORE_GET, reply);
		return;
	}
	struct job_entry *now = read_reply(reply);
	if (!now || strcmp(now->uid, c->uid) != 0) {
		job_entry_drop(now);
		gone(r);
		return;
	}
	job_keep(r, now);
	c->job = now;
	if (c->reads)
		c->doc = arena_span(&r->arena, reply->body);
	if (job_may(r, now, JOB_OWN))
		go(c);
	else
		answer_refuse(r, FORBIDDEN, "this job has another owner now");
}

/* Those who have met each other do not meet again. */
static int64_t later_ms(const struct change *c)
{
	if (c->tries == 0)
		return 0;
	uint64_t random = hash_key_new().v[0];
	return clock_ms() + 1 + (int64_t)(random % ((uint64_t)WAIT_MS * c->tries));
}

static void read_job(struct change *c)
{
	send(c, (struct store_request){ .verb = STORE_GET,
	                                .whole = true,
	                                .not_before_ms = later_ms(c),
	                                .done = read_again });
}

/* A patch that is made anew and is the same is refused for what it is. */
static bool worth_trying(struct change *c, const struct store_reply *reply)
{
	bool conflict = reply->outcome == STORE_CONFLICT;
	bool failed_test = reply->outcome == STORE_REFUSED && reply->status == 422 &&
	                   !span_eq(c->patch, c->refused);
	if (failed_test)
		c->refused = c->patch;
	return (conflict || failed_test) && ++c->tries < TRIES;
}

static void patched(void *arg, const struct store_reply *reply)
{
	struct change *c = arg;
	if (reply->outcome == STORE_OK) {
		note(c, reply);
		c->done(c);
	} else if (worth_trying(c, reply)) {
		read_job(c);
	} else {
		job_store_failed(c->r, STORE_PATCH, reply);
	}
}

static void go(struct change *c)
{
	if (!c->plan(c))
		return;
	send(c, (struct store_request){ .verb = STORE_PATCH,
	                                .whole = true,
	                                .json_patch = c->json_patch,
	                                .body = { c->patch },
	                                .done = patched });
}

static void found(struct request *r, const struct job_entry *job)
{
	struct change *c = r->state;
	c->job = job;
	c->uid = arena_dup(&r->arena, span_of(job->uid));
	c->deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000;
	if (c->reads)
		read_job(c);
	else
		go(c);
}

struct change *change_new(struct request *r)
{
	struct change *c = ARENA_NEW(&r->arena, struct change, 1);
	c->r = r;
	r->state = c;
	return c;
}

struct change *change_read(struct request *r, const char *key)
{
	struct fields fields;
	ERR_AUTO e = { 0 };
	if (fields_read(r, &fields, &e) < 0) {
		answer_error(r, &e);
		return NULL;
	}
	struct change *c = change_new(r);
	c->value = fields_get(&fields, key);
	return c;
}

void change_start(struct change *c)
{
	job_find(c->r, found);
}

/* ---- stop ------------------------------------------------------------------------------------ */

static void stopped(struct change *c)
{
	if (is_v1(c->r))
		change_answer(c->r, 202, "", "execute job %s successfully", c->job->job);
	else
		change_answer(c->r, 202, "", "Execute job %s successfully.", change_id(c));
}

/* FrameworkController starts nothing again that was stopped, and stops nothing that has ended. */
static bool plan_stop(struct change *c)
{
	const struct job_entry *job = c->job;
	if (span_is(c->value, "START") || job_state_final(job->state) ||
	    strcmp(job->execution, "STOP") == 0) {
		stopped(c);
		return false;
	}
	STR_AUTO body = STR_INIT(MESSAGE_MAX);
	str_puts(&body, "{\"metadata\":{\"uid\":");
	str_json(&body, span_of(c->uid));
	str_puts(&body, "},\"spec\":{\"executionType\":\"Stop\"}}");
	c->patch = arena_span(&c->r->arena, str_view(&body));
	return true;
}

void execution_put(struct request *r)
{
	struct change *c = change_read(r, "value");
	if (!c)
		return;
	c->plan = plan_stop;
	c->done = stopped;
	if (c->value.p && (span_is(c->value, "START") || span_is(c->value, "STOP")))
		change_start(c);
	else
		answer_bad(r, "value: must be START or STOP", c->value);
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* That it is gone already is what was wanted. */
static void removed(void *arg, const struct store_reply *reply)
{
	struct change *c = arg;
	struct cache *cache = c->r->loop->server->cache;
	if (reply->outcome == STORE_CONFLICT) { /* another one has its name now */
		gone(c->r);
		return;
	}
	if (reply->outcome != STORE_OK && reply->outcome != STORE_NOT_FOUND) {
		job_store_failed(c->r, STORE_DELETE, reply);
		return;
	}
	if (cache)
		cache_note_gone(cache, span_of(c->job->name), span_of(c->uid));
	change_answer(c->r, 202, "", "deleted job %s successfully", c->job->job);
}

static void remove_it(struct request *r, const struct job_entry *job)
{
	struct change *c = r->state;
	c->job = job;
	c->uid = job->uid;
	c->deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000;
	send(c, (struct store_request){ .verb = STORE_DELETE, .uid = c->uid, .done = removed });
}

void job_delete(struct request *r)
{
	(void)change_new(r);
	job_find(r, remove_it);
}
