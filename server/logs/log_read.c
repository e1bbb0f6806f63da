/*
 * Reads the log of a task: GET of the pod, to check it, GET of the first line of its log, which
 * tells the offsets, then GET of the log, forwarded at the client's pace.  A reading belongs to the
 * request until its log begins, then to the stream.  The end of a log (l->tail) is collected and
 * answered as a whole.  If the pod is gone, or the kubelet has no log, the answer
 * is the kept output, if there is one.  Logs of jobs on this machine are files, found by the
 * engine.
 */

#include <stdlib.h>
#include <sys/stat.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/pod/first_line.h"
#include "base/posix/clock.h"
#include "base/str.h"
#include "jobs/store/store.h"
#include "k8s/logs/log_stream.h"
#include "machine/engine/engine.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/request.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"
#include "server/logs/logs_internal.h"
#include "server/state/server.h"

#define NO_SUCH_RANGE 416, "RangeNotSatisfiableError"

enum {
	DEPTH = 64,
	TAIL_LINES = 2000, /* for so many bytes: */
	TAIL_PART = 16 << 10,
	ROLE_MAX = 63,
	RANGES_MAX = 1 << 20 /* bytes of files; ranges of longer logs are not answered */
};

static const char TYPE[] = "text/plain; charset=utf-8";

struct log_reading {
	struct request *r; /* until r is answered */
	struct log_link link;
	struct output_id id;
	unsigned streams; /* OUTPUT_...; 0: the log of the init container */
	bool follow;
	int refused;                 /* status of the API server instead of the log; 0: none yet */
	log_looked *looked;          /* NULL: the log itself is wanted */
	const char *pod, *container; /* NULL: the log is in files */
	const char *container_id;    /* "" if unknown */
	struct engine_task task;     /* of a job on this machine */
	struct str whole;            /* collects a short file, for ranges, or ... */
	size_t end;                  /* ... the last bytes; of both 0: not used */
	struct log_stream *log;      /* NULL: not begun, or ended */
	struct stream *stream;       /* NULL: not yet */
	int64_t offset;              /* of the answer in the log; -1: not known */
	int64_t skip;                /* bytes of text that the client does not want */
	struct str time;             /* with times, of the line that is skipped, and a blank ... */
	bool in_text;                /* ... is complete */
	const char *start;           /* X-Log-Start; NULL: none */
	struct str first;            /* the first line of the log of a pod, with its time */
	struct span expected;        /* the text of it that has not come yet */
	struct str held;             /* a last line that may be a message of the kubelet */
	bool within;                 /* the forwarded bytes end within a line */
};

static void reading_free(struct log_reading *g)
{
	str_done(&g->time);
	str_wipe(&g->held);
	str_wipe(&g->first);
	str_wipe(&g->whole);
	free(g);
}

/* The bytes of the end of a log. */
static size_t reading_end(const struct log_reading *g)
{
	return (size_t)(g->link.tail_bytes ?: g->r->loop->server->options->log_tail);
}

/* ---- answers ---- */

/* Ends the reading. */
static void reading_refuse(struct log_reading *g, int status, const char *code, const char *message)
{
	answer_refuse(g->r, status, code, message);
	reading_free(g);
}

/* "what: why", in the arena. */
static const char *reading_message(struct log_reading *g, const char *what, struct span why)
{
	return arena_printf(&g->r->arena, "%s: %.*s", what, (int)why.n, why.p);
}

#define RIGHTS                                                                                     \
	UNKNOWN_ERROR, "the API server answered 403 Forbidden: this server's account needs the "   \
		       "RBAC verb \"get\" on pods and on pods/log in the namespace of the jobs"

/* ranges: "bytes", or "none" if the length is not yet known.  offset: of the first byte; -1: not
 * known. */
static void reading_set_headers(struct request *r, const char *ranges, int64_t offset)
{
	if (offset >= 0)
		answer_header(r, "X-Log-Offset",
		              arena_printf(&r->arena, "%lld", (long long)offset));
	answer_header(r, "Content-Security-Policy", "sandbox");
	answer_header(r, "Content-Disposition", "inline");
	answer_header(r, "Accept-Ranges", ranges);
}

static void refuse_log(struct log_reading *g)
{
	static const struct {
		int refused, status;
		const char *code, *message;
	} ANSWERS[] = {
		{ 400, NO_TASK_LOG, "there is no log yet: the container has not started" },
		{ 403, RIGHTS },
		{ 404, LOG_GONE },
		{ 429, UNAVAILABLE, "the API server is overloaded; try again" },
		{ 503, UNAVAILABLE, "the API server is overloaded; try again" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ANSWERS); i++)
		if (ANSWERS[i].refused == g->refused) {
			reading_refuse(g, ANSWERS[i].status, ANSWERS[i].code, ANSWERS[i].message);
			return;
		}
	reading_refuse(g, UNKNOWN_ERROR,
	               arena_printf(&g->r->arena,
	                            "the API server answered %d instead of the log: it may not "
	                            "reach the kubelet of the task's node",
	                            g->refused));
}

/* ---- kept output ---- */

/* false: no output can have such a name. */
static bool reading_output_id(const struct log_link *l, struct output_id *id)
{
	*id = (struct output_id){ .framework = l->framework,
		                  .framework_uid = l->framework_uid,
		                  .role = l->role,
		                  .pod_uid = l->pod_uid };
	for (size_t i = 0; i < l->role.n; i++)
		if (!is_lower_alnum(l->role.p[i]))
			return false;
	return l->role.n > 0 && l->role.n <= ROLE_MAX &&
	       parse_i64(l->index, 0, INT32_MAX, &id->index) == 0 &&
	       parse_i64(l->attempt, 0, INT32_MAX, &id->attempt) == 0 &&
	       parse_i64(l->retry, 0, INT32_MAX, &id->retry) == 0;
}

static void reading_looked(struct log_reading *g, enum log_there there, int64_t dropped)
{
	struct request *r = g->r;
	struct log_link l = g->link;
	log_looked *done = g->looked;
	reading_free(g);
	done(r, &l, there, dropped);
}

/* Answers with the whole text, or with the requested range, if there are ranges.  offset: of the
 * text in the log; -1: not known. */
static void answer_bytes(struct request *r, struct span all, bool ranges, int64_t offset)
{
	size_t from = 0;
	size_t n = all.n;
	/* Ranges are for GET.  There is no ETag, so no If-Range is true. */
	bool may = ranges && strcmp(r->method, "GET") == 0 && !request_header(r, "If-Range");
	enum range_result range = range_read(may ? request_header(r, "Range") : NULL, n, &from, &n);
	reading_set_headers(r, ranges ? "bytes" : "none",
	                    offset < 0 ? offset : offset + (int64_t)from);
	if (range == RANGE_NONE) {
		answer_header(r, "Content-Range", arena_printf(&r->arena, "bytes */%zu", all.n));
		answer_refuse(r, NO_SUCH_RANGE, "the log ends before this range");
		return;
	}
	if (range == RANGE_PART)
		answer_header(
		    r, "Content-Range",
		    arena_printf(&r->arena, "bytes %zu-%zu/%zu", from, from + n - 1, all.n));
	r->reply.body = STR_SECRET(n);
	str_put(&r->reply.body, all.p + from, n);
	r->reply.status = range == RANGE_PART ? 206 : 200;
	r->reply.type = TYPE;
	answer_send(r);
}

static void reading_take_output(struct output_call *c, enum output_outcome o, struct span why)
{
	struct log_reading *g = c->arg;
	if (o == OUTPUT_BUSY) {
		reading_refuse(g, UNAVAILABLE,
		               reading_message(g, "the API server does not answer", why));
	} else if (g->looked) {
		reading_looked(g, o == OUTPUT_DONE ? LOG_KEPT : LOG_NONE, c->facts.dropped);
	} else if (o == OUTPUT_DONE) {
		size_t most = reading_end(g);
		STR_AUTO text = STR_SECRET(OUTPUT_CONTENT_MAX);
		output_put(&text, c->frames, g->streams);
		answer_header(g->r, "X-Log-Dropped",
		              arena_printf(&g->r->arena, "%lld", (long long)c->facts.dropped));
		int64_t at = g->streams == OUTPUT_BOTH ? c->facts.dropped : -1;
		int64_t known = at < 0 || g->link.from < at ? 0 : g->link.from - at;
		size_t first = known < (int64_t)text.n ? (size_t)known : text.n;
		if (g->link.tail && !g->follow && text.n - first > most)
			first = text.n - most;
		answer_bytes(g->r, span_from(str_view(&text), first), true,
		             at < 0 ? at : at + (int64_t)first);
		reading_free(g);
	} else if (g->refused) {
		refuse_log(g);
	} else {
		reading_refuse(g, LOG_GONE);
	}
}

/* The pod is gone: looks for a kept output. */
static void reading_ask_output(struct log_reading *g)
{
	struct loop *loop = g->r->loop;
	if (!g->streams && g->refused) {
		refuse_log(g);
	} else if (!g->streams) {
		reading_refuse(
		    g, NO_TASK_LOG,
		    "the pod of this task is gone, and with it the log of its init container");
	} else if (!loop->store) {
		reading_refuse(g, UNAVAILABLE, "this server is shutting down");
	} else {
		struct output_call *c = ARENA_NEW(&g->r->arena, struct output_call, 1);
		*c = (struct output_call){
			.store = loop->store,
			.a = &g->r->arena,
			.user = g->link.user,
			.deadline_ms = clock_ms() + loop->server->options->deadline_s * 1000,
			.id = g->id,
			.done = reading_take_output,
			.arg = g,
		};
		request_wait(g->r);
		output_get(c);
	}
}

void log_refuse_gone_here(struct request *r, const struct log_link *l)
{
	const struct engine *e = r->loop->server->engine;
	answer_refuse(r, NO_TASK_LOG,
	              engine_log_absence(e, span_of(l->framework_uid), l->job, &r->arena));
}

/* The pod may have been removed just now, after its output was kept. */
static void reading_log_refused(struct log_reading *g, int status)
{
	bool here = g->r->loop->server->engine;
	g->refused = status;
	if (here && status == 404) {
		log_refuse_gone_here(g->r, &g->link);
		reading_free(g);
	} else if (here)
		reading_refuse(g, NO_TASK_LOG,
		               "there is no log yet: the container has not started");
	else if (status == 403 || status == 429 || status == 503)
		refuse_log(g);
	else
		reading_ask_output(g);
}

/* ---- callbacks of the stream ---- */

static void reading_more(struct stream *s, void *arg)
{
	const struct log_reading *g = arg;
	(void)s;
	if (g->log)
		log_stream_go_on(g->log);
}

static void reading_last(struct stream *s, void *arg)
{
	struct log_reading *g = arg;
	(void)s;
	if (g->log)
		log_stream_cancel(TAKE(g->log));
}

static void reading_release(void *arg)
{
	reading_last(NULL, arg);
	reading_free(arg);
}

static const struct stream_calls WHOLE = { .more = reading_more, .gone = reading_release };
static const struct stream_calls FOLLOWED = {
	.more = reading_more, .last = reading_last, .gone = reading_release, .long_lived = true
};

/* ---- callbacks of the log stream ---- */

static void reading_tell_times(struct log_reading *g)
{
	if (g->link.times)
		answer_header(g->r, "X-Log-Times", "true");
}

/* false: r is answered, and g is freed. */
static bool reading_open_stream(struct log_reading *g)
{
	reading_set_headers(g->r, "none", g->offset);
	reading_tell_times(g);
	if (g->start)
		answer_header(g->r, "X-Log-Start", g->start);
	g->stream = stream_open(g->r, 200, TYPE, g->follow ? &FOLLOWED : &WHOLE, g);
	if (g->stream)
		return true;
	if (g->log)
		log_stream_cancel(TAKE(g->log));
	reading_free(g);
	return false;
}

/* Returns the bytes that are wanted.  If they are the rest of a line, g->time has its time. */
static struct span reading_skip(struct log_reading *g, struct span bytes)
{
	while (bytes.n && g->skip) {
		bool is_time = g->link.times && !g->in_text;
		size_t n = g->link.times ? span_chr(bytes, is_time ? ' ' : '\n') : bytes.n;
		bool ends = n < bytes.n;
		n += ends;
		if (is_time) {
			str_span(&g->time, span_to(bytes, n));
		} else {
			ends = ends && (int64_t)n <= g->skip;
			n = (int64_t)n < g->skip ? n : (size_t)g->skip;
			g->skip -= (int64_t)n;
			g->time.n = ends ? 0 : g->time.n;
		}
		g->in_text = is_time == ends;
		bytes = span_from(bytes, n);
	}
	return bytes;
}

/* Forwards output.  false: r is answered, and g is freed. */
static bool reading_forward(struct log_reading *g, struct span bytes)
{
	bytes = reading_skip(g, bytes);
	if (g->whole.max) {
		if (g->end && g->whole.n + bytes.n > g->whole.max) { /* more than the end */
			memmove(g->whole.p, g->whole.p + g->whole.n - g->end, g->end);
			g->whole.n = g->end;
		}
		str_span(&g->whole, bytes);
		return true;
	}
	if (!g->stream && !reading_open_stream(g))
		return false;
	if (bytes.n && g->time.n) {
		(void)stream_put(g->stream, str_view(&g->time)); /* the first bytes of the stream */
		g->time.n = 0;
	}
	if (bytes.n)
		(void)stream_put(g->stream, bytes); /* reading_take_bytes has checked the room */
	return true;
}

/* The first bytes may be a message of the kubelet, so the stream is opened after them, unless the
 * log stays silent. */
static bool reading_began(void *arg, bool silent, int64_t offset)
{
	struct log_reading *g = arg;
	if (!g->container)
		g->offset = offset;
	return !silent || reading_open_stream(arg);
}

/* Bytes of a file, which the kubelet does not write to. */
static bool reading_took(void *arg, struct span bytes)
{
	struct log_reading *g = arg;
	if (g->stream && stream_room(g->stream) < bytes.n)
		return false;
	(void)reading_forward(g, bytes); /* false: the stream of bytes is cancelled */
	return true;
}

/* This is not the file whose first line was read. */
static bool reading_rotated(struct log_reading *g)
{
	log_stream_cancel(TAKE(g->log));
	if (g->stream)
		stream_cut(g->stream);
	else
		reading_refuse(g, UNAVAILABLE, "the log was rotated just now; try again");
	return true;
}

/* Keeps room in the stream for the held line. */
static bool reading_take_bytes(void *arg, struct span bytes)
{
	struct log_reading *g = arg;
	if (g->stream && stream_room(g->stream) < bytes.n + KUBELET_TEXT_MAX)
		return false;
	size_t known = g->expected.n < bytes.n ? g->expected.n : bytes.n;
	if (!span_eq(span_to(g->expected, known), span_to(bytes, known)))
		return reading_rotated(g);
	g->expected = span_from(g->expected, known);
	str_span(&g->held, bytes);
	size_t n = kubelet_text_begins(str_view(&g->held), g->within);
	if (n == 0)
		return true;
	g->within = g->held.p[n - 1] != '\n';
	if (reading_forward(g, (struct span){ g->held.p, n })) {
		g->held.n -= n;
		memmove(g->held.p, g->held.p + n, g->held.n);
	}
	return true;
}

/* The log has ended.  A kubelet message in place of a log counts as 404. */
static void reading_log_complete(struct log_reading *g)
{
	struct span held = str_view(&g->held);
	bool message = kubelet_text_is(held, g->link.pod_uid, g->container_id);
	if (message && !g->stream && g->whole.n == 0)
		reading_log_refused(g, 404);
	else if (message || reading_forward(g, held)) {
		if (g->stream) {
			stream_end(g->stream);
		} else {
			struct span all = str_view(&g->whole);
			if (g->end && all.n > g->end)
				all = span_from(all, all.n - g->end);
			reading_tell_times(g);
			answer_bytes(g->r, all, !g->end, g->end ? -1 : g->offset);
			reading_free(g);
		}
	}
}

static void reading_ended(void *arg, const struct log_stream_end *end)
{
	struct log_reading *g = arg;
	g->log = NULL;
	if (end->outcome == LOG_STREAM_WHOLE)
		reading_log_complete(g);
	else if (g->stream)
		stream_cut(g->stream);
	else if (end->outcome == LOG_STREAM_REFUSED)
		reading_log_refused(g, end->status);
	else
		reading_refuse(
		    g, UNAVAILABLE,
		    reading_message(g, "the log could not be read", span_of(end->message)));
}

static bool reading_files(void *arg, struct arena *a, struct log_files *out)
{
	const struct log_reading *g = arg;
	return engine_log_find(g->r->loop->server->engine, &g->task, a, out) || !out->ended;
}

/*
 * The kubelet gives the newest file of a log, from its beginning or a time on.  It is the first
 * file, and its offsets are those of the log, if it begins with the line that pai-runtime writes
 * first, and once.  Else the time of the first line tells what it begins with.
 */
static void reading_place(struct log_reading *g)
{
	static const char RUNTIME[] = "] " RUNTIME_NAME RUNTIME_FIRST_LINE;
	size_t n = strlen(RUNTIME);
	const struct span first = str_view(&g->first);
	struct span text = first;
	struct span time = span_next(&text, ' ');
	struct span line = span_to(text, span_chr(text, '\n'));
	char *start = arena_dup(&g->r->arena, time);
	bool good = time.n > 10 && is_digit(time.p[0]) && time.p[4] == '-' && time.p[10] == 'T';
	g->offset =
	    good || !g->first.n ? 0 : -1; /* it has no line yet, or is a text of the kubelet */
	if (!good)
		return;
	g->expected = g->link.times ? span_to(first, span_chr(first, '\n')) : line;
	size_t digits = 0;
	for (size_t i = 0; i < time.n; i++)
		if (is_digit(time.p[i]))
			start[digits++] = time.p[i];
	start[digits] = '\0';
	if (line.n < n || !span_is(span_from(line, line.n - n), RUNTIME))
		g->start = start;
	if (span_is(g->link.start, g->start ?: ""))
		g->offset = g->skip = g->link.from;
}

static bool reading_take_first(void *arg, struct span bytes)
{
	struct log_reading *g = arg;
	str_span(&g->first, bytes);
	return true;
}

static void reading_open_log(struct log_reading *g, bool first);

static void reading_first_ended(void *arg, const struct log_stream_end *end)
{
	struct log_reading *g = arg;
	if (end->outcome != LOG_STREAM_WHOLE) {
		reading_ended(g, end);
		return;
	}
	reading_place(g);
	reading_open_log(g, false);
}

/* first: its first line only. */
static void reading_open_log(struct log_reading *g, bool first)
{
	ERR_AUTO e = { 0 };
	const struct options *o = g->r->loop->server->options;
	int64_t parts = g->follow ? 1 : (int64_t)(reading_end(g) / TAIL_PART) ?: 1;
	if (g->link.tail && !g->follow) {
		g->end = reading_end(g);
		g->whole = STR_SECRET(2 * g->end + LOG_STREAM_PIECE + KUBELET_TEXT_MAX);
	}
	g->first.max = g->time.max = LOG_STREAM_FIRST;
	g->held = STR_SECRET(KUBELET_TEXT_MAX + LOG_STREAM_PIECE);
	g->log = log_stream_open(g->r->loop->has->log_streams,
	                         &(struct log_stream_request){
				     .pod = g->pod,
				     .container = g->container,
				     .files = g->container ? NULL : reading_files,
				     .streams = g->streams ?: OUTPUT_BOTH,
				     .user = g->link.user,
				     .lines = g->link.tail ? TAIL_LINES * parts : 0,
				     .since_ms = g->link.since_ms,
				     .from = g->link.from,
				     .times = g->link.times,
				     .follow = g->follow && !first,
				     .first = first,
				     .patience_ms = o->deadline_s * 1000,
				     .began = reading_began,
				     .came = first          ? reading_take_first
	                                     : g->container ? reading_take_bytes
	                                                    : reading_took,
				     .ended = first ? reading_first_ended : reading_ended,
				     .arg = g,
				 },
	                         &e);
	if (g->log) {
		request_wait(g->r); /* of a long file, no answer follows at once */
		return;
	}
	answer_error(g->r, &e);
	reading_free(g);
}

/* ---- the pod ---- */

static bool pod_has_text(struct span object, const char *key, struct span wanted, struct arena *a)
{
	struct span text;
	return scan_string(scan_get(object, key), a, &text) && span_eq(text, wanted);
}

/* Returns true if the pod has the uid and the labels of the task, and its owner is the ConfigMap of
 * an attempt of this Framework. */
static bool pod_is_of_task(const struct log_link *l, struct span pod, struct arena *a)
{
	struct span meta = scan_get(pod, "metadata");
	struct span labels = scan_get(meta, "labels");
	struct span wanted = span_of(arena_printf(a, "%s-attempt", l->framework));
	struct scan owners = scan_begin(scan_get(meta, "ownerReferences"));
	bool owned = false;
	for (struct span owner; !owned && scan_item(&owners, &owner);)
		owned = pod_has_text(owner, "kind", SPAN("ConfigMap"), a) &&
		        pod_has_text(owner, "name", wanted, a);
	return owned && pod_has_text(meta, "uid", span_of(l->pod_uid), a) &&
	       pod_has_text(labels, "FC_FRAMEWORK_NAME", span_of(l->framework), a) &&
	       pod_has_text(labels, "FC_TASKROLE_NAME", l->role, a) &&
	       pod_has_text(labels, "FC_TASK_INDEX", l->index, a);
}

/* The container of the log: "app" in pods of OpenPAI and rest-lit, in foreign pods the first one;
 * of `runtime` "init".  And the part of its id after "containerd://".  false: there is none. */
static bool reading_find_container(struct log_reading *g, struct span pod, struct arena *a)
{
	bool app = g->streams;
	struct span wanted = app ? SPAN("app") : SPAN("init");
	struct scan s = scan_begin(scan_path(pod, "spec", app ? "containers" : "initContainers"));
	for (struct span one, name; scan_item(&s, &one);) {
		if (!scan_string(scan_get(one, "name"), a, &name))
			continue;
		if (span_eq(name, wanted) || (!g->container && app))
			g->container = arena_dup(a, name);
		if (span_eq(name, wanted))
			break;
	}
	s = scan_begin(
	    scan_path(pod, "status", app ? "containerStatuses" : "initContainerStatuses"));
	for (struct span one, id; g->container && scan_item(&s, &one);) {
		if (!pod_has_text(one, "name", span_of(g->container), a) ||
		    !scan_string(scan_get(one, "containerID"), a, &id))
			continue;
		size_t scheme = span_find(id, 0, "://");
		g->container_id = arena_dup(a, span_from(id, scheme == SIZE_MAX ? 0 : scheme + 3));
		break;
	}
	return g->container;
}

static void reading_take_pod(struct log_reading *g, struct span pod)
{
	struct arena *a = &g->r->arena;
	if (!scan_valid(pod, DEPTH) || !pod_is_of_task(&g->link, pod, a)) {
		reading_ask_output(g);
		return;
	}
	if (g->looked) {
		reading_looked(g, LOG_OF_POD, 0);
		return;
	}
	if (reading_find_container(g, pod, a))
		reading_open_log(g, !g->link.tail);
	else
		reading_refuse(g, NO_TASK_LOG, "the pod of this task has no such container");
}

static void pod_answered(void *arg, const struct store_reply *reply)
{
	struct log_reading *g = arg;
	if (reply->outcome == STORE_OK)
		reading_take_pod(g, reply->body);
	else if (reply->outcome == STORE_NOT_FOUND)
		reading_ask_output(g);
	else if (reply->outcome == STORE_REFUSED && reply->status == 403)
		reading_refuse(g, RIGHTS);
	else if (reply->outcome == STORE_REFUSED)
		reading_refuse(g, UNKNOWN_ERROR, arena_dup(&g->r->arena, reply->message));
	else
		reading_refuse(
		    g, UNAVAILABLE,
		    reading_message(g, "the API server does not answer", reply->message));
}

static void reading_begin_here(struct log_reading *g)
{
	const struct output_id *id = &g->id;
	struct log_files found = { .n = 0 };
	g->task = (struct engine_task){
		span_of(id->framework_uid), id->role, id->index, id->attempt, id->retry, !g->streams
	};
	struct engine *engine = g->r->loop->server->engine;
	bool there = engine_log_find(engine, &g->task, &g->r->arena, &found);
	if (g->looked) {
		reading_looked(g, there || !found.ended ? LOG_OF_POD : LOG_NONE,
		               log_file_before(&found, OUTPUT_BOTH));
		return;
	}
	int64_t bytes = 0;
	for (size_t i = 0; i < found.n; i++) {
		struct stat st;
		bytes += lstat(found.path[i], &st) == 0 ? st.st_size : 0;
	}
	/* A short log of an ended task is answered as a whole, with ranges. */
	if (!g->link.tail && !g->link.times && found.ended && bytes <= RANGES_MAX)
		g->whole = STR_SECRET(RANGES_MAX);
	reading_open_log(g, false);
}

void log_read(struct request *r, const struct log_link *l, bool follow, log_looked *looked)
{
	struct loop *loop = r->loop;
	struct output_id id;
	unsigned streams = looked || span_is(l->file, "all") ? OUTPUT_BOTH
	                   : span_is(l->file, "stdout")      ? OUTPUT_STDOUT
	                   : span_is(l->file, "stderr")      ? OUTPUT_STDERR
	                                                     : 0;
	if (!loop->has->log_streams) {
		answer_refuse(r, LOG_NO_PODS);
		return;
	}
	if (!reading_output_id(l, &id)) {
		answer_refuse(r, NO_TASK_LOG, "there is no such task");
		return;
	}
	struct log_reading *g = xcalloc(1, sizeof(*g));
	*g = (struct log_reading){ .r = r,
		                   .link = *l,
		                   .id = id,
		                   .streams = streams,
		                   .follow = follow,
		                   .looked = looked,
		                   .container_id = "",
		                   .offset = -1 };
	/* As FrameworkController does. */
	g->pod = arena_printf(&r->arena, "%s-%.*s-%lld", l->framework, (int)l->role.n, l->role.p,
	                      (long long)id.index);
	if (loop->server->engine)
		reading_begin_here(g);
	else if (!g->link.pod_uid[0])
		reading_ask_output(g);
	else
		job_store_get(r, KIND_POD, g->pod, pod_answered, g);
}

/* Kubernetes 1.20 to 1.36.  "rpc error": the container was removed. */
static const char *const BEGINNINGS[] = {
	"unable to retrieve container logs for ",
	"failed to try resolving symlinks in path \"",
	"failed to open log file \"",
	"rpc error: code = ",
};
enum { N_BEGINNINGS = ARRAY_SIZE(BEGINNINGS) };

size_t kubelet_text_begins(struct span text, bool within)
{
	const char *newline = text.n ? memrchr(text.p, '\n', text.n) : NULL;
	struct span line = span_from(text, newline ? (size_t)(newline - text.p) + 1 : 0);
	if (line.n == 0 || (within && !newline) || line.n > KUBELET_TEXT_MAX)
		return text.n;
	for (size_t i = 0; i < N_BEGINNINGS; i++) {
		size_t n = strlen(BEGINNINGS[i]);
		if (memcmp(line.p, BEGINNINGS[i], line.n < n ? line.n : n) == 0)
			return text.n - line.n;
	}
	return text.n;
}

bool kubelet_text_is(struct span line, const char *pod_uid, const char *container_id)
{
	const char *const ids[] = { pod_uid, container_id };
	bool begins = false;
	bool named = false;
	for (size_t i = 0; i < N_BEGINNINGS; i++)
		begins = begins || span_starts(line, BEGINNINGS[i]);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		named = named || (ids[i][0] && span_find(line, 0, ids[i]) != SIZE_MAX);
	return begins && named;
}
