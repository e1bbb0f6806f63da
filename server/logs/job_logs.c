/*
 * Logs of tasks.  Portals ask where they are, with a token, and then open what they were told
 * without one; so each location is a link (log_link.h).
 */
#include <time.h>

#include "base/enc.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/jobs/job_find.h"
#include "server/logs/log_read.h"
#include "server/logs/task_find.h"

enum { ARG_JOB, ARG_ATTEMPT, ARG_ROLE, ARG_INDEX, ARG_RETRY, ARG_FILE };

/* What can be had of a task; of one whose pod is gone, not the last. */
static const char *const FILES[] = { "stdout", "stderr", "all", "runtime" };
enum { N_FILES = sizeof(FILES) / sizeof(FILES[0]), N_KEPT = N_FILES - 1 };

/* ---- the task ---- */

static bool number_is(struct span text, int64_t wanted)
{
	int64_t n;
	return parse_i64(text, 0, INT32_MAX, &n) == 0 && n == wanted;
}

static bool number_below(struct span text, int64_t most)
{
	int64_t n;
	return parse_i64(text, 0, INT32_MAX, &n) == 0 && n < most;
}

/* What the status says of this attempt of a task: the uid of its pod, "" of an earlier one; and
 * whether that is there, by what it says.  NULL and *e: 404. */
static const char *find_pod(const struct log_link *l, struct span doc, struct arena *a, bool *runs,
                            struct err *e)
{
	struct task_found task;
	*runs = false;
	if (!task_find(doc, l->role, l->index, a, &task)) {
		(void)err_set(e, NO_TASK_LOG, "there is no such task, or none yet");
		return NULL;
	}
	bool latest = number_is(l->attempt, task.attempt);
	if (number_below(l->attempt, task.attempt) ||
	    (latest && number_below(l->retry, task.retry)))
		return "";
	if (!latest || !number_is(l->retry, task.retry)) {
		(void)err_set(e, NO_TASK_LOG, "there is no such attempt of the task");
		return NULL;
	}
	if (!task.pod_uid[0])
		(void)err_set(e, NO_TASK_LOG, "the task has no pod yet");
	*runs = task.runs;
	return task.pod_uid[0] ? task.pod_uid : NULL;
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
static bool take_task(struct request *r, struct log_link *l, const struct job_entry *job,
                      struct span doc, bool *runs)
{
	ERR_AUTO e = { 0 };
	l->framework = job->name;
	l->framework_uid = job->uid;
	l->user = r->principal->name;
	l->tail = is_on(r, "tail-mode");
	l->expires_s = (int64_t)time(NULL) + r->loop->server->options->log_link_lifetime_s;
	l->pod_uid = find_pod(l, doc, &r->arena, runs, &e);
	if (!l->pod_uid)
		answer_error(r, &e);
	return l->pod_uid;
}

/* ---- where they are ---- */

static void answer_locations(struct request *r, const struct log_link *task, size_t n,
                             int64_t dropped)
{
	struct log_link l = *task;
	struct str *out = &r->reply.body;
	struct log_signing by = signing(r);
	str_puts(out, "{\"locations\":[");
	for (size_t i = 0; i < n; i++) {
		l.file = span_of(FILES[i]);
		str_printf(out, "%s{\"name\":\"%s\",\"uri\":\"", i ? "," : "", FILES[i]);
		log_link_write(out, &by, &l);
		str_puts(out, "\"}");
	}
	str_char(out, ']');
	if (n == N_KEPT)
		str_printf(out, ",\"dropped\":%lld", (long long)dropped);
	str_puts(out, "}\n");
	wipe(&by, sizeof(by));
	answer_json(r, 200);
}

static void locations_looked(struct request *r, const struct log_link *l, enum log_there there,
                             int64_t dropped)
{
	if (there == LOG_NONE)
		answer_refuse(r, LOG_GONE);
	else
		answer_locations(r, l, there == LOG_OF_POD ? N_FILES : N_KEPT, dropped);
}

/* No link is given out that is known to lead nowhere. */
static void doc_came(struct request *r, const struct job_entry *job, struct span doc)
{
	struct log_link l = link_of_path(r);
	bool runs;
	if (!take_task(r, &l, job, doc, &runs))
		return;
	if (runs)
		answer_locations(r, &l, N_FILES, 0);
	else
		log_look(r, &l, locations_looked);
}

static void found(struct request *r, const struct job_entry *job)
{
	job_doc(r, job, doc_came);
}

void logs_get(struct request *r)
{
	if (r->loop->has->log_streams)
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

static void log_doc_came(struct request *r, const struct job_entry *job, struct span doc)
{
	struct log_link l = link_of_path(r);
	bool runs;
	if (!file_known(l.file))
		answer_refuse(r, NO_TASK_LOG, "logs are called stdout, stderr, all and runtime");
	else if (take_task(r, &l, job, doc, &runs))
		log_read(r, &l, is_on(r, "follow"));
}

static void log_found(struct request *r, const struct job_entry *job)
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
