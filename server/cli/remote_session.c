/*
 * The client's end of a session: two requests, whose bodies are frames, and up to three
 * descriptors. What a descriptor cannot take is kept, and the answer pauses, so the memory is
 * bounded, and heartbeats go on while a reader stands still.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/posix/clock.h"
#include "server/cli/cli_internal.h"

enum {
	SECOND = 1000,
	OUT_MAX = 4 * SESSION_DATA,
	LEFT_MAX = 1 << 20, /* more than a piece of libcurl */
	EVENTS = 64,
	ID_MAX = 64
};

/* ---- the descriptors ------------------------------------------------------------------------- */

static void remote_session_watch(struct remote_session_fd *f, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = f };
	int op = !f->watched ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
	if (f->fd < 0 || f->file || events == f->events)
		return;
	if (epoll_ctl(f->session->epoll, op, f->fd, &event) == 0) {
		f->watched = events != 0;
		f->events = events;
	} else {
		f->file = true; /* EPERM */
	}
}

static void remote_session_close(struct remote_session_fd *f)
{
	remote_session_watch(f, 0);
	f->fd = -1;
	f->left.n = 0;
}

/* Writes what was left; a reader that has gone gets no more. */
static void remote_session_write_left(struct remote_session_fd *f)
{
	size_t done = 0;
	while (f->fd >= 0 && done < f->left.n) {
		ssize_t n = write(f->fd, f->left.p + done, f->left.n - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			remote_session_close(f);
		if (n < 0)
			break;
		done += (size_t)n;
	}
	if (f->fd < 0)
		return;
	memmove(f->left.p, f->left.p + done, f->left.n - done);
	f->left.n -= done;
	remote_session_watch(f, f->left.n ? EPOLLOUT : 0);
}

static bool remote_session_waits(const struct remote_session *x)
{
	return x->fd[SESSION_OUT].left.n > 0 || x->fd[SESSION_ERR].left.n > 0;
}

bool remote_session_over(const struct remote_session *x)
{
	return x->ended && !remote_session_waits(x);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The end, unless there was another one before. */
static void remote_session_note_end(struct remote_session *x, int code, struct span why)
{
	ARENA_AUTO a = { 0 };
	if (x->ended)
		return;
	x->ended = true;
	x->code = code;
	(void)snprintf(x->why, sizeof(x->why), "%s", visible_line(&a, why)); /* may be cut */
}

/* "0" begins it; else it is the end: "CODE", or "CODE TEXT". */
static void remote_session_take_status(struct remote_session *x, struct span text)
{
	int64_t code;
	if (parse_i64(span_next(&text, ' '), 0, 599, &code) != 0)
		remote_session_note_end(x, EXIT_NO_COMMAND,
		                        SPAN("the server has sent no exit status"));
	else if (!x->begun && code == 0)
		x->begun = true;
	else
		remote_session_note_end(x, (int)code, text);
}

static bool remote_session_take(void *arg, struct span bytes)
{
	struct remote_session *x = arg;
	enum session_channel channel = SESSION_OUT;
	struct span part;
	for (;;) {
		enum session_got got = session_read(&x->reader, &bytes, &channel, &part);
		if (got == SESSION_MORE)
			break;
		if (got == SESSION_BAD) {
			remote_session_note_end(
			    x, EXIT_NO_COMMAND,
			    SPAN("the server has sent something else than frames"));
			return false;
		}
		if (got == SESSION_WHOLE && channel == SESSION_STATUS)
			remote_session_take_status(x, part);
		if (got != SESSION_PART || channel == SESSION_IN || x->fd[channel].fd < 0)
			continue;
		/* Bytes that wait are written by their event only, which lets more come. */
		bool waits = x->fd[channel].left.n > 0;
		str_span(&x->fd[channel].left, part);
		if (!waits)
			remote_session_write_left(&x->fd[channel]);
	}
	if (remote_session_waits(x))
		client_pause(x->output, true);
	return true;
}

/* The bytes of the next frames. */
static size_t remote_session_more(void *arg, char *to, size_t max)
{
	struct remote_session *x = arg;
	size_t n = x->out.n - x->sent;
	n = n < max ? n : max;
	memcpy(to, x->out.p + x->sent, n);
	x->sent += n;
	if (x->sent == x->out.n)
		x->out.n = x->sent = 0;
	return n;
}

static void remote_session_say(struct remote_session *x, enum session_channel channel,
                               struct span text)
{
	if (x->ended || !x->input)
		return;
	session_put(&x->out, channel, text);
	x->said_ms = clock_ms();
	client_pause(x->input, false);
}

/* A frame of the terminal's size. */
void remote_session_resize(struct remote_session *x, unsigned rows, unsigned columns)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%u %u", rows, columns);
	remote_session_say(x, SESSION_SIZE, span_of(text));
}

/* Reads the input while there is room for it. */
static void remote_session_read_input(struct remote_session *x)
{
	char bytes[SESSION_DATA] NOT_ZEROED;
	struct remote_session_fd *f = &x->fd[SESSION_IN];
	if (f->fd < 0 || x->out.n > 0)
		return;
	ssize_t n = read(f->fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		remote_session_say(x, SESSION_IN, (struct span){ bytes, (size_t)n });
		return;
	}
	remote_session_close(f);
	remote_session_say(x, SESSION_CLOSE, SPAN("\0"));
}

/* ---- the requests ---------------------------------------------------------------------------- */

static void remote_session_output_ended(void *arg, const struct client_answer *a)
{
	struct remote_session *x = arg;
	ERR_AUTO e = { 0 };
	x->output = NULL;
	if (a->status / 100 != 2)
		remote_error(x->remote, a, &e);
	remote_session_note_end(
	    x, EXIT_NO_COMMAND,
	    e.http ? span_of(err_msg(&e))
		   : SPAN("the connection to the server has ended; the task goes on"));
}

/* The other request tells the end; this one is cut then. */
static void remote_session_input_ended(void *arg, const struct client_answer *a)
{
	struct remote_session *x = arg;
	ERR_AUTO e = { 0 };
	x->input = NULL;
	if (a->status < 400)
		return;
	remote_error(x->remote, a, &e);
	remote_session_note_end(x, EXIT_NO_COMMAND, span_of(err_msg(&e)));
}

int remote_session_begin(struct remote_session *x, const char *job, struct span body,
                         const int fd[SESSION_FDS], struct err *e)
{
	ARENA_AUTO a = { 0 };
	REPLY_AUTO reply = { 0 };
	struct remote *r = x->remote;
	int epoll = x->epoll;
	*x = (struct remote_session){ .remote = r, .epoll = epoll, .out = STR_SECRET(OUT_MAX) };
	for (int i = 0; i < SESSION_FDS; i++)
		x->fd[i] = (struct remote_session_fd){
			.session = x, .fd = fd[i], .which = i, .left = STR_SECRET(LEFT_MAX)
		};
	const struct client_call start = { .method = "POST",
		                           .path = remote_path(job, "/exec", &a),
		                           .type = "application/json",
		                           .body = body,
		                           .max = SESSION_TEXT };
	if (remote_ask(r, &start, 201, &reply, e) < 0)
		return remote_no_job(r, job, e);
	struct span id = SPAN("");
	if (scan_valid(str_view(&reply.body), 2))
		id = scan_text(scan_get(str_view(&reply.body), "id"), &a);
	if (id.n == 0 || id.n > ID_MAX || !span_only_alnum_or(id, ""))
		return err_set(e, UNKNOWN_ERROR, "%s: the answer has no session", r->o->server);
	(void)snprintf(x->path, sizeof(x->path), "/api/v2/sessions/%.*s", (int)id.n, id.p);
	const struct client_call get = { .method = "GET",
		                         .path = x->path,
		                         .max = SESSION_TEXT,
		                         .silence_s = SESSION_SILENCE_MS / SECOND,
		                         .piece = remote_session_take,
		                         .ended = remote_session_output_ended,
		                         .arg = x };
	const struct client_call put = { .method = "PUT",
		                         .path = x->path,
		                         .type = "application/octet-stream",
		                         .max = SESSION_TEXT,
		                         .more = remote_session_more,
		                         .ended = remote_session_input_ended,
		                         .arg = x };
	session_put(&x->out, SESSION_IN, SPAN("")); /* the server waits for a first frame */
	x->said_ms = clock_ms();
	x->output = client_start(r->client, &get, e);
	x->input = x->output ? client_start(r->client, &put, e) : NULL;
	return x->input ? 0 : -1;
}

void remote_session_end(struct remote_session *x)
{
	if (x->input)
		client_stop(x->input);
	if (x->output)
		client_stop(x->output);
	x->input = x->output = NULL;
	for (int i = 0; i < SESSION_FDS; i++) {
		remote_session_close(&x->fd[i]);
		str_wipe(&x->fd[i].left);
	}
	str_wipe(&x->out);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void remote_session_event(struct remote_session_fd *f)
{
	struct remote_session *x = f->session;
	if (f->which == SESSION_IN) {
		remote_session_read_input(x);
		return;
	}
	remote_session_write_left(f);
	if (!remote_session_waits(x) && x->output)
		client_pause(x->output, false);
}

/* Before it waits: input is read while frames are sent away; a file is read at once. */
static void remote_session_prepare(struct remote_session *x, int64_t *ms)
{
	struct remote_session_fd *in = &x->fd[SESSION_IN];
	bool reads = x->begun && !x->ended && x->out.n == 0;
	int64_t beat_ms = x->said_ms + SESSION_BEAT_MS - clock_ms();
	remote_session_watch(in, reads ? EPOLLIN : 0);
	if (reads && in->file)
		remote_session_read_input(x);
	if (beat_ms <= 0)
		remote_session_say(x, SESSION_IN, SPAN(""));
	*ms = x->ended || (in->fd >= 0 && in->file) ? 0 : beat_ms < *ms ? beat_ms : *ms;
}

void remote_session_turn(struct remote_session *const *v, size_t n, int64_t ms,
                         void (*other)(void *arg, void *ptr), void *arg)
{
	struct epoll_event events[EVENTS];
	for (size_t i = 0; i < n; i++)
		remote_session_prepare(v[i], &ms);
	client_run_once(v[0]->remote->client, ms, v[0]->epoll);
	int got = epoll_wait(v[0]->epoll, events, EVENTS, 0);
	for (int i = 0; i < got; i++) {
		struct remote_session_fd *f = events[i].data.ptr;
		bool ours = false;
		for (size_t k = 0; k < n; k++)
			ours |= f >= v[k]->fd && f < v[k]->fd + SESSION_FDS;
		if (ours)
			remote_session_event(f);
		else
			other(arg, f);
	}
}

int session_target_read(struct remote *r, const char *text, struct arena *a,
                        struct session_target *out, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	struct span rest = span_of(text);
	struct span job = span_next(&rest, '/');
	*out = (struct session_target){ .role = span_next(&rest, '/') };
	if (rest.n && parse_i64(rest, 0, INT32_MAX, &out->index) != 0)
		return err_set(e, 400, NULL, "\"%s\" is no task, which is JOB/ROLE/INDEX",
		               quote(shown, span_of(text)));
	out->job = remote_job_name(r, arena_dup(a, job), a, e);
	return out->job ? 0 : -1;
}

void session_body(struct str *out, const struct session_target *t)
{
	json_put_open(out, NULL, '{');
	json_put_int(out, "index", t->index);
	if (t->role.n)
		json_put_text(out, "role", t->role);
}
