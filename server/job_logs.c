/*
 * Logs of tasks.  Portals ask where they are, with a token, and then open what they were told
 * without one; so each location is a link (log_link.h).
 */
#include <time.h>

#include "base/chars.h"
#include "base/enc.h"
#include "base/scan.h"
#include "server/account.h"
#include "server/answer.h"
#include "server/auth.h"
#include "server/handlers.h"
#include "server/job_find.h"
#include "server/log_read.h"
#include "server/loop.h"
#include "server/query.h"
#include "server/token.h"

enum { ARG_JOB, ARG_ATTEMPT, ARG_ROLE, ARG_INDEX, ARG_RETRY, ARG_FILE, UID_MAX = 64 };

/* What can be had of a task; output of both streams comes as one from an API server. */
static const char *const FILES[] = { "all", "runtime" };
enum { N_FILES = sizeof(FILES) / sizeof(FILES[0]) };

/* ---- the task ---- */

static bool has_id(struct span attempt_status, struct span wanted)
{
	int64_t id;
	int64_t number;
	return parse_i64(wanted, 0, INT32_MAX, &number) == 0 &&
	       scan_int(scan_get(attempt_status, "id"), 0, INT32_MAX, &id) && id == number;
}

/* Of a list, the object whose member is this text or number; p is NULL if there is none. */
static struct span find_item(struct span list, const char *key, struct span wanted, struct arena *a)
{
	struct scan s = scan_begin(list);
	for (struct span item, text; scan_item(&s, &item);) {
		struct span value = scan_get(item, key);
		if (span_eq(value, wanted) ||
		    (scan_string(value, a, &text) && span_eq(text, wanted)))
			return item;
	}
	return (struct span){ NULL, 0 };
}

static bool uid_ok(struct span uid)
{
	for (size_t i = 0; i < uid.n; i++)
		if (!is_alnum(uid.p[i]) && uid.p[i] != '-')
			return false;
	return uid.n > 0 && uid.n <= UID_MAX;
}

/* The uid of the pod of this attempt of a task, in the arena.  NULL and *e: 404. */
static const char *find_pod(const struct log_link *l, struct span doc, struct arena *a,
                            struct err *e)
{
	struct span roles;
	struct span uid;
	struct span attempt = scan_path(doc, "status", "attemptStatus", NULL);
	bool known = cached_roles(attempt, a, &roles);
	struct span role = known ? find_item(roles, "name", l->role, a) : (struct span){ NULL, 0 };
	struct span task = find_item(scan_get(role, "taskStatuses"), "index", l->index, a);
	struct span latest = scan_get(task, "attemptStatus");
	if (!task.p)
		(void)err_set(e, NO_TASK_LOG, "there is no such task, or none yet");
	else if (!has_id(attempt, l->attempt) || !has_id(latest, l->retry))
		(void)err_set(e, NO_TASK_LOG,
		              "logs are there of the latest attempt only: those of others went "
		              "with their pods");
	else if (!scan_string(scan_get(latest, "podUID"), a, &uid) || !uid_ok(uid))
		(void)err_set(e, NO_TASK_LOG, "the task has no pod yet");
	else
		return arena_dup(a, uid);
	return NULL;
}

/* ---- links ---- */

static struct log_link link_of_path(const struct request *r)
{
	return (struct log_link){ .job = r->args[ARG_JOB],
		                  .attempt = r->args[ARG_ATTEMPT],
		                  .role = r->args[ARG_ROLE],
		                  .index = r->args[ARG_INDEX],
		                  .retry = r->args[ARG_RETRY],
		                  .file = r->args[ARG_FILE] };
}

static bool is_on(struct request *r, const char *parameter)
{
	struct span value;
	return query_find(span_of(r->query), parameter, &r->arena, &value) &&
	       (!value.p || span_is(value, "true"));
}

/* Without a secret of tokens, links are good for this process. */
static struct log_signing signing(const struct request *r)
{
	struct log_signing by = { .now_s = (int64_t)time(NULL) };
	const struct keyring *keys = r->loop->server->keyring ? keyring_of(r->loop) : NULL;
	if (!keys || !keyring_derive(keys, "log-link", by.key))
		memcpy(by.key, r->loop->server->link_key, LOG_LINK_KEY);
	return by;
}

/* What a job's document says of the task in the path; false: answered. */
static bool take_task(struct request *r, struct log_link *l, const struct cached *job,
                      struct span doc)
{
	ERR_AUTO e = { 0 };
	l->framework = job->name;
	l->framework_uid = job->uid;
	l->user = r->who->name;
	l->tail = is_on(r, "tail-mode");
	l->expires_s = (int64_t)time(NULL) + r->loop->server->options->log_link_lifetime_s;
	l->pod_uid = find_pod(l, doc, &r->arena, &e);
	if (!l->pod_uid)
		answer_error(r, &e);
	return l->pod_uid;
}

/* ---- where they are ---- */

static void doc_came(struct request *r, const struct cached *job, struct span doc)
{
	struct log_link l = link_of_path(r);
	struct str *out = &r->reply.body;
	if (!take_task(r, &l, job, doc))
		return;
	struct log_signing by = signing(r);
	str_puts(out, "{\"locations\":[");
	for (size_t i = 0; i < N_FILES; i++) {
		l.file = span_of(FILES[i]);
		str_printf(out, "%s{\"name\":\"%s\",\"uri\":\"", i ? "," : "", FILES[i]);
		log_link_write(out, &by, &l);
		str_puts(out, "\"}");
	}
	str_puts(out, "]}\n");
	wipe(&by, sizeof(by));
	answer_json(r, 200);
}

static void found(struct request *r, const struct cached *job)
{
	job_doc(r, job, doc_came);
}

void logs_get(struct request *r)
{
	if (r->loop->tails)
		job_find(r, found);
	else
		answer_refuse(
		    r, NO_TASK_LOG,
		    "this server keeps jobs in a directory: there are no pods, and no logs");
}

/* ---- one of them ---- */

static bool file_known(struct span file)
{
	for (size_t i = 0; i < N_FILES; i++)
		if (span_is(file, FILES[i]))
			return true;
	return false;
}

static void log_doc_came(struct request *r, const struct cached *job, struct span doc)
{
	struct log_link l = link_of_path(r);
	if (!file_known(l.file))
		answer_refuse(r, NO_TASK_LOG, "logs are called all and runtime");
	else if (take_task(r, &l, job, doc))
		log_read(r, &l, is_on(r, "follow"));
}

static void log_found(struct request *r, const struct cached *job)
{
	job_doc(r, job, log_doc_came);
}

static void by_link(struct request *r, struct span token)
{
	ERR_AUTO e = { 0 };
	struct log_link l = link_of_path(r);
	struct log_signing by = signing(r);
	int bad = log_link_read(&l, token, &by, &r->arena, &e);
	wipe(&by, sizeof(by));
	if (bad)
		answer_error(r, &e);
	else
		log_read(r, &l, is_on(r, "follow"));
}

void log_get(struct request *r)
{
	struct span token;
	if (!query_find(span_of(r->query), "token", &r->arena, &token))
		job_find(r, log_found);
	else
		by_link(r, token.p ? token : SPAN(""));
}
