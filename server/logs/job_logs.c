/*
 * Gives signed links to the logs of tasks, and opens logs.  Web portals request the locations of
 * logs with a token and open them without one, so each location is a signed link.
 */
#include "server/logs/logs_internal.h"

#include <gnutls/crypto.h>
#include <stdlib.h>
#include <time.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/str.h"
#include "base/time.h"
#include "jobs/framework/view.h"
#include "jobs/store/paths.h"
#include "machine/store/aside.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/mac.h"
#include "server/auth/token.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/jobs/jobs.h"
#include "server/logs/logs.h"
#include "server/state/server.h"

enum { ARG_JOB, ARG_ATTEMPT, ARG_ROLE, ARG_INDEX, ARG_RETRY, ARG_FILE };

/* Logs of a task; if its pod is gone, all but the last. */
static const char *const FILES[] = { "stdout", "stderr", "all", "runtime" };
enum { N_FILES = ARRAY_SIZE(FILES), N_KEPT = N_FILES - 1 };

/* ---- the task ---- */

/* The uid of the pod of this task attempt, by the status, which also says if it runs; "" for an
 * earlier attempt.  NULL and *e: 404. */
static const char *find_pod(struct log_link *l, struct span doc, struct arena *a, struct err *e)
{
	struct task_attempt task;
	int64_t attempt = -1; /* not a number: later than none, and not the latest */
	int64_t retry = -1;
	if (!logs_find_task(doc, l->role, l->index, a, &task)) {
		(void)err_set(e, NO_TASK_LOG, "there is no such task, or none yet");
		return NULL;
	}
	(void)parse_i64(l->attempt, 0, INT32_MAX, &attempt);
	(void)parse_i64(l->retry, 0, INT32_MAX, &retry);
	bool latest = attempt == task.attempt;
	if ((attempt >= 0 && attempt < task.attempt) ||
	    (latest && retry >= 0 && retry < task.retry))
		return "";
	if (!latest || retry != task.retry) {
		(void)err_set(e, NO_TASK_LOG, "there is no such attempt of the task");
		return NULL;
	}
	if (!task.pod_uid[0])
		(void)err_set(e, NO_TASK_LOG, "the task has no pod yet");
	l->runs = task.runs;
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

enum { LOG_TAIL, LOG_BYTES, LOG_FOLLOW, LOG_FROM, LOG_START, LOG_SINCE, LOG_TIMES, LOG_TOKEN };
/* clang-format off */
#define TAIL_MODE                                                                                  \
	{ .name = "tail-mode", .values = "true|false",                                             \
	  .doc = "`true`: the last 16 KiB, of the last 2000 lines. Of links: they lead to these." }
const struct parameter LOG_LINKS[] = { TAIL_MODE, { .name = NULL } };
const struct parameter LOG_CONTENT[] = {
	[LOG_TAIL] = TAIL_MODE,
	[LOG_BYTES] = { .name = "tail-bytes", .max = LOG_TAIL_MAX, .absent = "16384",
	  .doc = "With `tail-mode`: the last so many bytes, of proportionally more lines." },
	[LOG_FOLLOW] = { .name = "follow", .values = "true|false",
	  .doc = "`true`: the log so far (with `tail-mode` the last 2000 lines), then new output until the task ends, at most 300 seconds; continue with a new link." },
	[LOG_FROM] = { .name = "from", .max = (INT64_C(1) << 53) - 1, .absent = "0",
	  .doc = "The offset in bytes to begin at, to continue a log: the header `X-Log-Offset` of an answer, the offset of its first byte, and the number of bytes received since. The header of the new answer is the same, or larger if bytes between are gone. If it is smaller or absent, the answer does not continue, and may repeat bytes. It is absent with `tail-mode`, and of `stdout` and `stderr` of a kept output." },
	[LOG_START] = { .name = "start", .example = "20260131120000123456789",
	  .doc = "With `from`: the header `X-Log-Start` of the answer, if it has one. Then offsets count from a line of the kubelet's, the first of a file or since a time, which it names." },
	[LOG_SINCE] = { .name = "since", .example = "2026-01-31T12:00:00Z",
	  .must = "a time as in 2026-01-31T12:00:00Z",
	  .doc = "Only what was written then or later. A kept output has no times; it is answered as a whole." },
	[LOG_TIMES] = { .name = "times", .values = "true|false",
	  .doc = "`true`: before each line, also before the rest of one at the beginning of the answer, its time, as in `2026-01-31T12:00:00.123456789Z`, and a blank. Offsets do not count them. The header `X-Log-Times: true` is in the answer; it is absent, and so are the times, of a kept output, which has none." },
	[LOG_TOKEN] = { .name = LINK_PARAMETER,
	  .doc = "Part of a link. A request with it needs no other token." },
	{ .name = "Range", .header = true,
	  .doc = "One range of bytes of a log that is kept, as in `bytes=-1000`. Ignored for the log of a pod." },
	{ .name = NULL },
};
/* clang-format on */

static bool log_is_on(struct request *r, const struct parameter *p)
{
	struct span value;
	return parameter_find(r, p, &value) && (!value.p || span_is(value, "true"));
}

/* Returns the key of links.  If there is no token secret, they are valid in this process only. */
static struct log_signing log_link_signing(const struct request *r)
{
	struct log_signing by = { .now_s = (int64_t)time(NULL) };
	const struct keyring *keys = r->loop->server->keyring ? keyring_of(r->loop) : NULL;
	if (!keys || !keyring_derive(keys, "log-link", by.key))
		memcpy(by.key, r->loop->server->link_key, LOG_LINK_KEY);
	return by;
}

/* Fills in *l from the document of the job; false: r is answered. */
static bool take_task(struct request *r, struct log_link *l, const struct job_entry *job,
                      struct span doc)
{
	ERR_AUTO e = { 0 };
	l->framework = job->name;
	l->framework_uid = job->uid;
	l->user = r->principal->name;
	l->tail = log_is_on(r, &LOG_CONTENT[LOG_TAIL]);
	l->expires_s = (int64_t)time(NULL) + r->loop->server->options->log_link_lifetime_s;
	l->pod_uid = find_pod(l, doc, &r->arena, &e);
	/* The status of a job that was damaged does not have its tasks. */
	if (!l->pod_uid && r->loop->server->engine &&
	    aside_has(r->loop->server->options->local, l->job))
		log_refuse_gone_here(r, l);
	else if (!l->pod_uid)
		answer_error(r, &e);
	return l->pod_uid;
}

/* ---- locations ---- */

static void answer_locations(struct request *r, const struct log_link *task, size_t n,
                             int64_t dropped)
{
	struct log_link l = *task;
	struct str *out = &r->reply.body;
	struct log_signing by = log_link_signing(r);
	str_puts(out, "{\"locations\":[");
	for (size_t i = 0; i < n; i++) {
		l.file = span_of(FILES[i]);
		json_put_open(out, NULL, '{');
		json_put_word(out, "name", FILES[i]);
		str_puts(out, ",\"uri\":\"");
		log_link_write(out, &by, &l);
		str_puts(out, "\"}");
	}
	str_char(out, ']');
	if (n == N_KEPT || dropped)
		str_printf(out, ",\"dropped\":%lld", (long long)dropped);
	str_puts(out, "}\n");
	memory_wipe(&by, sizeof(by));
	answer_json(r, 200);
}

static void locations_looked(struct request *r, const struct log_link *l, enum log_there there,
                             int64_t dropped)
{
	if (there == LOG_OF_POD || l->runs) /* it may not have written anything yet */
		answer_locations(r, l, N_FILES, dropped);
	else if (there == LOG_KEPT)
		answer_locations(r, l, N_KEPT, dropped);
	else if (r->loop->server->engine)
		log_refuse_gone_here(r, l);
	else
		answer_refuse(r, LOG_GONE);
}

/* If the pod seems to be gone, checks that there is a log. */
static void link_job_read(struct request *r, const struct job_entry *job, struct span doc)
{
	struct log_link l = link_of_path(r);
	if (!take_task(r, &l, job, doc))
		return;
	if (l.runs && !r->loop->server->engine)
		answer_locations(r, &l, N_FILES, 0);
	else
		log_read(r, &l, false, locations_looked);
}

void logs_get(struct request *r)
{
	if (r->loop->has->log_streams)
		job_find_doc(r, link_job_read);
	else
		answer_refuse(r, LOG_NO_PODS);
}

/* ---- one log ---- */

/* Reads the log as the query asks for it. */
static void log_read_asked(struct request *r, struct log_link *l)
{
	ERR_AUTO e = { 0 };
	struct span value;
	const struct parameter *p = &LOG_CONTENT[LOG_SINCE];
	int bad = 0;
	l->times = log_is_on(r, &LOG_CONTENT[LOG_TIMES]);
	if (parameter_find(r, p, &value) && !rfc3339_read(value, &l->since_ms))
		bad = parameter_refuse(p, value, &e);
	p = &LOG_CONTENT[LOG_BYTES];
	if (!bad && parameter_find(r, p, &value))
		bad = parameter_number(p, value, &l->tail_bytes, &e);
	p = &LOG_CONTENT[LOG_FROM];
	if (!bad && parameter_find(r, p, &value))
		bad = parameter_number(p, value, &l->from, &e);
	if (!parameter_find(r, &LOG_CONTENT[LOG_START], &l->start))
		l->start = SPAN("");
	if (bad)
		answer_error(r, &e);
	else
		log_read(r, l, log_is_on(r, &LOG_CONTENT[LOG_FOLLOW]), NULL);
}

static void log_job_read(struct request *r, const struct job_entry *job, struct span doc)
{
	struct log_link l = link_of_path(r);
	bool known = false;
	for (size_t i = 0; i < N_FILES; i++)
		known = known || span_is(l.file, FILES[i]);
	if (!known)
		answer_refuse(r, NO_TASK_LOG, "logs are called stdout, stderr, all and runtime");
	else if (take_task(r, &l, job, doc))
		log_read_asked(r, &l);
}

static void log_get_by_link(struct request *r, struct span token)
{
	ERR_AUTO e = { 0 };
	struct log_link l = link_of_path(r);
	struct log_signing by = log_link_signing(r);
	int bad = log_link_read(&l, token, &by, &r->arena, &e);
	memory_wipe(&by, sizeof(by));
	if (bad) {
		answer_error(r, &e);
		return;
	}
	r->user = l.user; /* streams_per_user counts by user: addresses of clients may be shared */
	log_read_asked(r, &l);
}

void log_get(struct request *r)
{
	struct span token;
	if (!parameter_find(r, &LOG_CONTENT[LOG_TOKEN], &token))
		job_find_doc(r, log_job_read);
	else
		log_get_by_link(r, token.p ? token : SPAN(""));
}

/*
 * ---- links ----
 *
 * A token is base64url of: HMAC-SHA256, framework, its uid, uid of the pod, user, "tail" or "all",
 * time of expiry, separated by NUL.  The MAC covers these and the path.
 */

enum { SAID = 6, TOKEN_MAX_BYTES = 2048 };

static void link_sign(const unsigned char *key, const struct log_link *l, struct span said,
                      unsigned char out[static MAC_BYTES])
{
	const struct span parts[] = {
		l->job, l->attempt, l->role, l->index, l->retry, l->file, said
	};
	mac_of(key, parts, ARRAY_SIZE(parts), out);
}

/* ---- writing ---- */

static void link_put_segment(struct str *out, const char *before, struct span text)
{
	str_puts(out, before);
	query_encode(out, text);
}

void log_link_write(struct str *out, const struct log_signing *by, const struct log_link *l)
{
	STR_AUTO said = STR_INIT(TOKEN_MAX_BYTES - MAC_BYTES);
	STR_AUTO bytes = STR_INIT(TOKEN_MAX_BYTES);
	STR_AUTO token = STR_INIT((size_t)2 * TOKEN_MAX_BYTES);
	const char *const texts[] = { l->framework, l->framework_uid, l->pod_uid, l->user,
		                      l->tail ? "tail" : "all" };
	unsigned char mac[MAC_BYTES];
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		str_put(&said, texts[i], strlen(texts[i]) + 1);
	str_int(&said, l->expires_s);
	link_sign(by->key, l, str_view(&said), mac);
	str_put(&bytes, (const char *)mac, MAC_BYTES);
	str_span(&bytes, str_view(&said));
	link_put_segment(out, "/rest-server/api/v2/jobs/", l->job);
	link_put_segment(out, "/attempts/", l->attempt);
	link_put_segment(out, "/taskRoles/", l->role);
	link_put_segment(out, "/taskIndex/", l->index);
	link_put_segment(out, "/attempts/", l->retry);
	link_put_segment(out, "/logs/", l->file);
	str_puts(out, "?token=");
	str_base64(&token, str_view(&bytes)); /* as base64url, without padding */
	for (size_t i = 0; i < token.n && token.p[i] != '='; i++)
		str_put(out, token.p[i] == '+' ? "-" : token.p[i] == '/' ? "_" : token.p + i, 1);
}

/* ---- reading ---- */

/* A signed text is well-formed. */
static bool log_link_take_signed(struct log_link *l, struct span said, struct arena *a)
{
	const char *texts[SAID] = { 0 };
	const char *p = arena_dup(a, said);
	const char *end = p + said.n;
	for (size_t i = 0; i < SAID; i++) {
		if (p > end)
			return false;
		texts[i] = p;
		p += strlen(p) + 1;
	}
	l->framework = texts[0];
	l->framework_uid = texts[1];
	l->pod_uid = texts[2];
	l->user = texts[3];
	l->tail = strcmp(texts[4], "tail") == 0;
	return parse_i64(span_of(texts[5]), 0, INT64_MAX, &l->expires_s) == 0;
}

int log_link_read(struct log_link *l, struct span token, const struct log_signing *by,
                  struct arena *a, struct err *e)
{
	unsigned char mac[MAC_BYTES];
	struct span bytes;
	bool good = token.n <= (size_t)2 * TOKEN_MAX_BYTES &&
	            base64url_decode(a, token, &bytes) == 0 && bytes.n >= MAC_BYTES;
	if (good) {
		struct span said = span_from(bytes, MAC_BYTES);
		link_sign(by->key, l, said, mac);
		good =
		    gnutls_memcmp(mac, bytes.p, MAC_BYTES) == 0 && log_link_take_signed(l, said, a);
	}
	if (!good)
		return err_set(e, FORBIDDEN,
		               "this link is not valid for this log: request its locations again");
	if (by->now_s >= l->expires_s)
		return err_set(e, FORBIDDEN,
		               "this link has expired: request the locations of the log again");
	return 0;
}

enum { UID_MAX = 64 };

bool logs_find_task(struct span doc, struct span role, struct span index, struct arena *a,
                    struct task_attempt *out)
{
	struct fw_view job;
	struct fw_view task;
	int64_t i;
	fw_view_read(scan_get(doc, "status"), a, &job);
	if (parse_i64(index, 0, INT32_MAX, &i) < 0 || (index.p[0] == '0' && index.n > 1) ||
	    job.attempt < 0 || !fw_view_task(&job, role, i, a, &task) || task.attempt < 0)
		return false;
	bool good_uid =
	    task.uid.n > 0 && task.uid.n <= UID_MAX && span_only_alnum_or(task.uid, "-");
	*out = (struct task_attempt){
		.attempt = job.attempt,
		.retry = task.attempt,
		.pod_uid = good_uid ? arena_dup(a, task.uid) : "",
		/* FrameworkController has a pod in these states. */
		.runs = span_is(task.state, "AttemptCreationRequested") ||
		        span_is(task.state, "AttemptPreparing") ||
		        span_is(task.state, "AttemptRunning"),
	};
	return true;
}
