/* POST /api/v2/jobs/{job}/exec, and the two sides of a session, GET and PUT /api/v2/sessions/{id}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/pod/session.h"
#include "base/posix/fd.h"
#include "machine/engine/engine.h"
#include "server/exec/exec_internal.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"

enum { WORDS_MAX = 1000, REQUEST_MAX = 64 << 10, ROWS_MAX = 10000, NAME_MAX_BYTES = 63 };

/* A session that is asked for; lives in the arena of the request. */
struct exec_asked {
	struct engine_task task;
	const char **command;
	const char *how[SESSION_HOWS + 1];
	struct session_facts facts;
	struct str request;
	char id[SESSION_ID + 1];
};

/* ---- the request ----------------------------------------------------------------------------- */

static int exec_bad(struct err *e, const char *must)
{
	return err_set(e, INVALID_PARAMETERS, "%s", must);
}

/* The words of the command: strings without NUL, as arguments are. */
static int exec_read_command(struct span list, struct exec_asked *x, struct arena *a, struct err *e)
{
	struct span word;
	size_t n = 0;
	if (list.p && scan_type(list) != SCAN_ARRAY)
		return exec_bad(e, "command: must be a list of texts");
	x->command = ARENA_NEW(a, const char *, WORDS_MAX + 1);
	for (struct scan walk = scan_begin(list.p ? list : SPAN("[]")); scan_item(&walk, &word);) {
		struct span text;
		if (!scan_string(word, a, &text) || memchr(text.p, '\0', text.n))
			return exec_bad(e, "command: must be a list of texts without NUL");
		if (n == WORDS_MAX)
			return exec_bad(e, "command: must have at most 1000 words");
		x->command[n++] = arena_dup(a, text);
	}
	return n && !x->command[0][0] ? exec_bad(e, "command: the first word is empty") : 0;
}

/* A member that is a number; without it *out stays. */
static int exec_read_number(struct span body, const char *key, int64_t max, int64_t *out,
                            struct err *e)
{
	struct span value = scan_get(body, key);
	if (!value.p || scan_int(value, 0, max, out))
		return 0;
	return err_set(e, INVALID_PARAMETERS, "%s: must be a whole number from 0 to %lld", key,
	               (long long)max);
}

/* {"role", "index", "command": [], "terminal": "xterm", "rows", "columns", "connect": PORT} */
static int exec_read(struct request *r, struct exec_asked *x, struct err *e)
{
	static const char *const MEMBERS[] = { "role", "index",   "command", "terminal",
		                               "rows", "columns", "connect", NULL };
	struct arena *a = &r->arena;
	struct span body = span_trim(str_view(&r->body));
	struct span key;
	struct span value;
	int64_t rows = 24;
	int64_t columns = 80;
	int64_t port = -1;
	if (!scan_valid(body, SCAN_DEPTH_MAX) || scan_type(body) != SCAN_OBJECT)
		return exec_bad(e, "the body must be a JSON object");
	for (struct scan walk = scan_begin(body); scan_member(&walk, &key, &value);)
		if (!span_among(key, MEMBERS))
			return err_set(e, INVALID_PARAMETERS,
			               "%.*s is no member: there are role, index, command, "
			               "terminal, rows, columns, connect",
			               (int)(key.n < QUOTE_MAX ? key.n : QUOTE_MAX), key.p);
	if (exec_read_command(scan_get(body, "command"), x, a, e) ||
	    exec_read_number(body, "index", INT32_MAX, &x->task.index, e) ||
	    exec_read_number(body, "rows", ROWS_MAX, &rows, e) ||
	    exec_read_number(body, "columns", ROWS_MAX, &columns, e) ||
	    exec_read_number(body, "connect", UINT16_MAX, &port, e))
		return -1;
	struct span term = scan_text(scan_get(body, "terminal"), a);
	x->task.role = arena_span(a, scan_text(scan_get(body, "role"), a));
	if (term.n > NAME_MAX_BYTES || !span_only_alnum_or(term, "-+._"))
		return exec_bad(e, "terminal: must be a name as in TERM, of at most 63 bytes");
	if (port >= 0 && (x->command[0] || term.n))
		return exec_bad(e, "connect: goes without command and terminal");
	x->how[SESSION_TERM] = arena_dup(a, term);
	x->how[SESSION_SIZE_AT] = arena_printf(a, "%lld %lld", (long long)rows, (long long)columns);
	x->how[SESSION_PORT] = port < 0 ? "" : arena_printf(a, "%lld", (long long)port);
	return 0;
}

/* ---- POST ------------------------------------------------------------------------------------ */

static void exec_start(struct edit *t)
{
	struct exec_asked *x = t->arg;
	(void)session_start(t->r->loop->server, &x->facts, x->id, &t->e);
}

static void exec_started(struct edit *t)
{
	const struct exec_asked *x = t->arg;
	struct request *r = t->r;
	json_put_open(&r->reply.body, NULL, '{');
	json_put_word(&r->reply.body, "id", x->id);
	str_puts(&r->reply.body, "}\n");
	answer_json(r, 201);
}

static void exec_wipe(void *arg)
{
	str_wipe(arg);
}

static void exec_found(struct request *r, const struct job_entry *job)
{
	struct exec_asked *x = r->state;
	ERR_AUTO e = { 0 };
	x->task.framework_uid = span_of(job->uid);
	if (exec_read(r, x, &e) < 0 ||
	    engine_task_find(r->loop->server->engine, &x->task, &r->arena, &x->facts.at, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	const char *const *lists[SESSION_LISTS] = {
		[SESSION_COMMAND] = x->command, [SESSION_HOW] = x->how
	};
	x->request = (struct str)STR_SECRET(REQUEST_MAX);
	request_on_end(r, exec_wipe, &x->request);
	lists_put(&x->request, lists, SESSION_LISTS);
	x->facts = (struct session_facts){
		.at = x->facts.at,
		.request = str_view(&x->request),
		.user = r->user,
		.job = arena_dup(&r->arena, r->args[0]),
		.framework = job->name,
		.uid = job->uid,
		.task =
		    arena_printf(&r->arena, "%s[%lld]", x->facts.at.role, (long long)x->task.index),
		.peer = r->client_text,
		.connection = *x->how[SESSION_PORT],
	};
	edit_start(r, exec_start, exec_started, x);
}

/* Sessions are for one machine: on a cluster they would need a right that is root in all pods.  The
 * person may have it. */
static void exec_elsewhere(struct request *r, const struct job_entry *job, struct span doc)
{
	struct exec_asked *x = r->state;
	struct arena *a = &r->arena;
	struct span first;
	ERR_AUTO e = { 0 };
	if (exec_read(r, x, &e) < 0) {
		answer_error(r, &e);
		return;
	}
	struct span role = x->task.role;
	struct scan roles = scan_begin(scan_path(doc, "spec", "taskRoles"));
	if (!role.n && scan_item(&roles, &first))
		role = scan_text(scan_get(first, "name"), a);
	const char *pod = arena_printf(a, "%s-%.*s-%lld", job->name, (int)role.n, role.p,
	                               (long long)x->task.index);
	const char *space = r->loop->server->namespace_name;
	const char *port = x->how[SESSION_PORT];
	const char *line = *port ? arena_printf(a, "kubectl -n %s port-forward pod/%s %s:%s", space,
	                                        pod, strcmp(port, "0") == 0 ? "PORT" : port,
	                                        strcmp(port, "0") == 0 ? "PORT" : port)
	                         : arena_printf(a, "kubectl -n %s exec -it %s -c app -- %s", space,
	                                        pod, x->command[0] ? "COMMAND" : "sh");
	answer_refuse(r, 404, "NoSessionsError",
	              arena_printf(a, "this server does not run the jobs itself, so: %s", line));
}

void exec_post(struct request *r)
{
	struct exec_asked *x = ARENA_NEW(&r->arena, struct exec_asked, 1);
	r->state = x;
	r->secret = true; /* the command can have secrets */
	if (r->loop->server->engine)
		job_find(r, exec_found);
	else
		job_find_doc(r, exec_elsewhere);
}

/* ---- GET and PUT ----------------------------------------------------------------------------- */

static void exec_close(void *arg)
{
	fd_cleanup(arg);
}

/* The descriptor of this side, which is closed when r ends; -1: r is answered. */
static int exec_claim(struct request *r, enum session_side side)
{
	ERR_AUTO e = { 0 };
	struct sessions *all = r->loop->server->sessions;
	const struct session_key key = { r->args[0], r->user };
	int fd = all ? session_claim(all, &key, side, &e)
	             : err_set(&e, 404, "NoSessionError", "this server has no sessions");
	if (fd < 0) {
		answer_error(r, &e);
		return -1;
	}
	int *own = ARENA_NEW(&r->arena, int, 1);
	*own = fd;
	request_on_end(r, exec_close, own);
	return fd;
}

void exec_get(struct request *r)
{
	static const struct stream_calls CALLS = { .long_lived = true, .unlimited = true };
	if (strcmp(r->method, "HEAD") == 0) {
		answer_refuse(r, 404, "NoSessionError", "a session is read with GET");
		return;
	}
	int fd = exec_claim(r, SIDE_OUTPUT);
	if (fd < 0)
		return;
	answer_header(r, "X-Accel-Buffering", "no");
	struct stream *s = stream_open(r, 200, "application/octet-stream", &CALLS, NULL);
	if (s)
		stream_from(s, fd);
}

void exec_put_begin(struct request *r)
{
	int fd = exec_claim(r, SIDE_INPUT);
	if (fd >= 0)
		(void)body_to_fd(r, fd); /* else r is answered */
}

void exec_put(struct request *r)
{
	r->reply.status = 204;
	answer_send(r);
}
