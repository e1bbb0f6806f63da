/* Sends requests to a server, repeats those that got no answer, and turns answers into exit codes.
 * */
#include "server/cli/cli_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/time.h"
#include "jobs/store/store.h"
#include "k8s/http/endpoint.h"
#include "server/auth/token.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/login/logins.h"

enum {
	ATTEMPT_MS = 60000,  /* longer than the deadline of servers */
	GET_MAX = 256 << 20, /* bytes of an answer */
	PAUSES_MAX = 16,     /* the longest pause, in shortest ones */
	DEPTH = 64,
	SECOND = 1000,
	WATCH_MS = 2000
};

/* A server in this process answers at once. */
static const struct pace PACE_FAR = { 500, 5, 2000, 2000, 5000 };
static const struct pace PACE_NEAR = { 2, 1, 20, 100, 1000 };

/* ---- answers of servers ---------------------------------------------------------------------- */

void remote_notes(struct span body, const char *member, struct notes *out)
{
	ARENA_AUTO arena = { 0 };
	if (!scan_valid(body, DEPTH))
		return;
	struct scan walk = scan_begin(scan_get(body, member));
	for (struct span note; scan_item(&walk, &note);) {
		int64_t line = 0;
		int64_t column = 0;
		struct span at;
		(void)scan_int(scan_get(note, "line"), 1, INT32_MAX, &line);     /* else 0 */
		(void)scan_int(scan_get(note, "column"), 1, INT32_MAX, &column); /* likewise */
		struct place where = { NULL, (unsigned)line, (unsigned)column };
		if (scan_string(scan_get(note, "pointer"), &arena, &at))
			where.at = arena_dup(&arena, at);
		notes_add(out, where, "%s",
		          visible_line(&arena, scan_text(scan_get(note, "message"), &arena)));
	}
}

void remote_error(const struct remote *r, const struct client_answer *a, struct err *e)
{
	/* The codes that commands distinguish. */
	static const char *const CODES[] = { "NoJobError", "ConflictJobError" };
	ARENA_AUTO arena = { 0 };
	const char *url = r->o->server;
	const char *code = NULL;
	bool json = scan_valid(a->body, DEPTH);
	struct span message =
	    json ? scan_text(scan_get(a->body, "message"), &arena) : (struct span){ "", 0 };
	if (a->problem) {
		(void)err_set(e, UNAVAILABLE, "%s: %s", url,
		              visible_line(&arena, span_of(a->problem)));
		return;
	}
	NOTES_AUTO notes = { 0 };
	remote_notes(a->body, "errors", &notes);
	int status = a->status >= 400 ? a->status : 502;
	for (size_t i = 0; json && i < ARRAY_SIZE(CODES); i++)
		if (span_is(scan_text(scan_get(a->body, "code"), &arena), CODES[i]))
			code = CODES[i];
	if (message.n)
		(void)err_set(e, status, code, "%s (%d)", visible_line(&arena, message), a->status);
	else
		(void)err_set(e, status, NULL, "%s answers %d", url, a->status);
	if (status == 401 && !r->o->token_file[0] && !r->own)
		(void)err_set(e, status, code, "%s; rest-lit login --server %s", err_msg(e), url);
	if (notes.n == 0)
		return;
	notes_done(&e->notes);
	notes_move(&e->notes, &notes);
}

int remote_exit(const struct err *e)
{
	return e->http >= 400 && e->http < 500 && e->http != 408 && e->http != 429 ? EXIT_USAGE
	                                                                           : EXIT_SERVER;
}

int remote_print(struct span text)
{
	return command_print(text) == EXIT_OK ? EXIT_OK : EXIT_SERVER;
}

int remote_print_json(struct span value)
{
	int code = remote_print(value);
	return code == EXIT_OK ? remote_print(SPAN("\n")) : code;
}

/* 409 IdempotencyError: a request whose answer was lost is still in progress. */
bool remote_may_retry(const struct client_answer *a)
{
	ARENA_AUTO arena = { 0 };
	if (a->problem)
		return !a->hopeless;
	if (a->status == 409 && scan_valid(a->body, DEPTH))
		return span_is(scan_text(scan_get(a->body, "code"), &arena), "IdempotencyError");
	return a->status == 408 || a->status == 429 || (a->status >= 502 && a->status <= 504);
}

/* Half of it is random, so that clients do not retry at the same time. */
int64_t remote_pause_ms(const struct remote *r, const struct client_answer *a, unsigned failures)
{
	char hex[2 * 2 + 1];
	int64_t ms = r->pace->gap;
	random_hex(hex, 2);
	for (unsigned i = 1; i < failures && ms < PAUSES_MAX * r->pace->gap; i++)
		ms *= 2;
	ms = ms / 2 + ms / 2 * (hex[0] % 16) / 16;
	return a->retry_after_s > 0 ? a->retry_after_s * SECOND + ms : ms;
}

int remote_time(const char *option, const char *text, const char **time, struct arena *a,
                struct err *e)
{
	static const char UNITS[] = "smhd";
	static const int64_t SECONDS[] = { 1, 60, 3600, 86400 };
	char shown[4 * QUOTE_MAX];
	struct span all = span_of(text);
	int64_t n;
	const char *unit = all.n > 1 ? strchr(UNITS, text[all.n - 1]) : NULL;
	int64_t ms = clock_wall_ms();
	if (unit && parse_i64(span_to(all, all.n - 1), 0, INT32_MAX, &n) == 0)
		ms -= n * SECONDS[unit - UNITS] * SECOND;
	else if (!rfc3339_read(all, &ms) &&
	         !rfc3339_read(span_of(arena_printf(a, "%sT00:00:00Z", text)), &ms))
		return err_set(e, 400, NULL,
		               "--%s: must be a time as in 2026-01-31 or 2026-01-31T12:00:00Z, or "
		               "90s, 5m, 2h or 1d, is \"%s\"",
		               option, quote(shown, all));
	*time = rfc3339_put(arena_alloc(a, RFC3339_MAX), ms > 1 ? ms : 1, 3);
	return 0;
}

int remote_watch(struct remote *r, int64_t times,
                 int (*once)(struct remote *r, int64_t rows, struct err *e), struct err *e)
{
	bool terminal = isatty(STDOUT_FILENO);
	r->patient = times != 1;
	for (int code = EXIT_OK;;) {
		(void)fputs(terminal && times != 1 ? "\033[H\033[J" : "", stdout);
		code = once(r, terminal ? (int64_t)term_size().rows : INT64_MAX, e);
		times -= times > 0;
		if (code != EXIT_OK || times == 0 || r->end_ms - clock_ms() <= WATCH_MS)
			return code;
		(void)poll(NULL, 0, WATCH_MS);
		(void)fputs(terminal ? "" : "\n", stdout);
	}
}

/* ---- one request ----------------------------------------------------------------------------- */

struct remote_request {
	struct remote *remote;
	struct remote_reply *reply;
	struct err *e;
	bool ended, good, again;
	int64_t pause_ms;
	unsigned failures;
};

void remote_reply_done(struct remote_reply *r)
{
	str_wipe(&r->body);
	free(r->location);
	*r = (struct remote_reply){ 0 };
}

static bool remote_take_piece(void *arg, struct span bytes)
{
	struct remote_request *q = arg;
	const struct remote_file *file = q->reply->file;
	if (file->take)
		return file->take(file->arg, bytes, q->e) == 0;
	if (fd_write_all(file->fd, bytes) == 0)
		return true;
	return err_set(q->e, UNKNOWN_ERROR, "%s: %s", file->name, strerrordesc_np(errno)) == 0;
}

static void remote_answered(void *arg, const struct client_answer *a)
{
	struct remote_request *q = arg;
	q->ended = true;
	q->good = a->status / 100 == 2 && !a->problem && !q->e->http;
	q->again = !q->good && remote_may_retry(a);
	if (q->again)
		q->pause_ms = remote_pause_ms(q->remote, a, ++q->failures);
	str_wipe(&q->reply->body); /* of a failure before */
	q->reply->body = (struct str)STR_SECRET(a->body.n + 1);
	str_span(&q->reply->body, a->body);
	if (!q->good && !q->e->http)
		remote_error(q->remote, a, q->e);
	if (!q->good)
		return;
	q->reply->status = a->status;
	q->reply->replayed = a->replayed;
	q->reply->location = a->location ? xstrdup(a->location) : NULL;
}

/* Waits for I/O, or so long.  false: `run` is to end, by a signal that can still be read. */
static bool remote_turn(struct remote *r, int64_t ms)
{
	struct pollfd signals = { r->own ? r->own->signal_fd : -1, POLLIN, 0 };
	client_run_once(r->client, ms, signals.fd);
	return poll(&signals, 1, 0) <= 0;
}

int remote_ask(struct remote *r, const struct client_call *call, int status,
               struct remote_reply *out, struct err *e)
{
	struct remote_request q = { .remote = r, .reply = out, .e = e };
	struct client_call once = *call;
	int64_t attempt_ms = call->timeout_ms ?: ATTEMPT_MS;
	once.piece = out->file ? remote_take_piece : NULL;
	once.ended = remote_answered;
	once.arg = &q;
	int64_t end_ms = clock_ms() + (r->patient ? r->o->patience_s * SECOND : 0);
	end_ms = end_ms < r->end_ms ? end_ms : r->end_ms;
	for (bool more = true; more;) {
		int64_t most_ms = r->end_ms - clock_ms();
		once.timeout_ms = most_ms < 1 ? 1 : most_ms < attempt_ms ? most_ms : attempt_ms;
		q.ended = q.good = q.again = false;
		err_done(e);
		struct client_exchange *x = client_start(r->client, &once, e);
		while (x && !q.ended && more)
			more = remote_turn(r, ATTEMPT_MS);
		if (x && !q.ended) {
			client_stop(x);
			return err_set(e, UNAVAILABLE, "interrupted");
		}
		int64_t next_ms = clock_ms() + q.pause_ms;
		if (q.good || !q.again || next_ms >= end_ms)
			break;
		if (q.failures == 1)
			(void)fprintf(stderr, "rest-lit: %s\nrest-lit: trying again for %lld s\n",
			              err_msg(e),
			              (long long)((end_ms - clock_ms() + SECOND - 1) / SECOND));
		for (int64_t left; more && (left = next_ms - clock_ms()) > 0;)
			more = remote_turn(r, left);
	}
	if (q.good && status && out->status != status)
		return err_set(e, UNKNOWN_ERROR, "%s answers %d, not %d: is it rest-lit?",
		               r->o->server, out->status, status);
	if (q.good)
		return 0;
	if (clock_ms() >= r->end_ms)
		(void)err_wrap(e, "--timeout is over");
	return -1;
}

int remote_get(struct remote *r, const char *path, struct remote_reply *out, struct span *json,
               struct err *e)
{
	const struct client_call call = { .method = "GET", .path = path, .max = GET_MAX };
	if (remote_ask(r, &call, 0, out, e) < 0)
		return -1;
	*json = span_trim(str_view(&out->body));
	return scan_valid(*json, DEPTH)
	           ? 0
	           : err_set(e, UNKNOWN_ERROR, "%s: the answer is not JSON", r->o->server);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Completes --server.  The path of its Unix socket, or NULL: it has an address. */
static const char *remote_find(struct options *o)
{
	static const char UNIX[] = "unix:";
	const char *fault;
	/* The socket tells the server whose process this is; a token says it, too. */
	if (!o->server[0])
		o->server = !o->token_file[0] && access(SOCKET_PATH, F_OK) == 0
		                ? "unix:" SOCKET_PATH
		                : "http://127.0.0.1:9186";
	if (span_starts(span_of(o->server), UNIX))
		return o->server + strlen(UNIX);
	if (!strstr(o->server, "://")) { /* http:// is for this machine */
		const char *plain = arena_printf(&o->arena, "http://%s", o->server);
		FREE_AUTO char *here = address_read(plain, true, &fault);
		o->server = here ? plain : arena_printf(&o->arena, "https://%s", o->server);
	}
	return NULL;
}

/* logs_in: without the token of an earlier login. */
static int remote_begin(struct options *o, const struct own_server *own, bool logs_in,
                        remote_runner *run, const void *arg)
{
	ERR_AUTO e = { 0 };
	FREE_AUTO char *text = NULL;
	size_t n = 0;
	const char *socket = own ? own->socket : remote_find(o);
	struct remote r = { o, own, own ? &PACE_NEAR : &PACE_FAR, NULL, INT64_MAX, false };
	if (o->timeout_s)
		r.end_ms = clock_ms() + o->timeout_s * SECOND;
	ARENA_SECRET saved = { 0 };
	struct span login = SPAN("");
	bool stored = !o->token_file[0] && !socket && !logs_in;
	/* First: process_harden makes /dev/fd (<(command) in a shell) unreadable. */
	if (stored ? login_token(o->server, &saved, &login, &e) == 0
	           : !o->token_file[0] ||
	                 file_read_or_stdin(o->token_file, TOKEN_MAX, &text, &n, &e) == 0) {
		struct client_settings s = { .url = socket ? "http://localhost" : o->server,
			                     .ca_file = o->ca_file,
			                     .token = stored ? login
			                                     : span_trim((struct span){ text, n }),
			                     .socket = socket,
			                     .own = own };
		if (o->token_file[0] && s.token.n == 0)
			(void)err_set(&e, 400, NULL, "--token-file: the file is empty");
		else
			r.client = client_new(&s, &e);
	}
	if (text)
		memory_wipe(text, n);
	if (!own) {                    /* it has its own threads and does what it needs itself */
		(void)process_scrub(); /* the result matters to servers only */
		process_harden();
	}
	int code = r.client ? run(&r, arg, &e) : print_error_notes(&e, NULL, EXIT_USAGE);
	client_free(r.client);
	return code < 0 ? print_error_notes(&e, NULL, remote_exit(&e)) : code;
}

int remote_run(struct options *o, const struct own_server *own, remote_runner *run, const void *arg)
{
	return remote_begin(o, own, false, run, arg);
}

int remote_run_login(struct options *o, remote_runner *run)
{
	return remote_begin(o, NULL, true, run, NULL);
}
