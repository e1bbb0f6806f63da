/*
 * MHD calls stream_read whenever it can send.  If nothing is buffered, stream_read suspends the
 * connection, which then has no deadline; stream_put and stream_end resume it.
 */
#include "server/http/stream.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "jobs/store/store.h"
#include "server/config/options.h"
#include "server/http/http_internal.h"

enum { BLOCK = 4096, KEPT = 4096, PIPE_BLOCK = 32 << 10 };

struct stream {
	struct pipe_end pipe;       /* where the bytes come from; fd -1: `out` */
	struct stream *prev, *next; /* of the loop */
	struct request *r;
	const struct stream_calls *calls;
	void *arg;
	struct str out; /* out.p + taken: not yet sent */
	size_t taken;
	int64_t beat_ms; /* the next heartbeat */
	const char *why;
	bool asleep, asked, ended, cut;
};

static struct connection *stream_connection(const struct stream *s)
{
	return http_connection_of(s->r->connection);
}

/* ---- the buffer ---- */

static size_t stream_waiting(const struct stream *s)
{
	return s->out.n - s->taken;
}

static void stream_drop(struct stream *s)
{
	s->taken = 0;
	s->out.n = 0;
	if (s->out.cap > KEPT) {
		size_t max = s->out.max;
		str_done(&s->out);
		s->out = STR_INIT(max);
	}
}

size_t stream_room(const struct stream *s)
{
	return s->ended ? 0 : s->out.max - stream_waiting(s);
}

void stream_put_file(struct stream *s, int fd)
{
	enum { FILE_PIECE = 16 << 10 };
	char bytes[FILE_PIECE] NOT_ZEROED;
	size_t room = stream_room(s);
	ssize_t n = read(fd, bytes, room < sizeof(bytes) ? room : sizeof(bytes));
	if (n > 0)
		(void)stream_put(s, (struct span){ bytes, (size_t)n }); /* there is room */
	else if (n == 0)
		stream_end(s);
	else
		stream_cut(s);
}

/* ---- sleeping and waking ---- */

static void stream_wake(struct stream *s)
{
	if (!s->asleep)
		return;
	s->asleep = false;
	http_resume(s->r, ANSWERING);
}

/* ---- descriptors ---- */

int pipe_end_watch(const struct loop *l, int op, struct pipe_end *p, uint32_t events)
{
	struct epoll_event event = { .events = events | EPOLLONESHOT, .data.ptr = p };
	return epoll_ctl(l->pipes_fd, op, p->fd, &event);
}

void pipe_ends_run_once(void *loop)
{
	const struct loop *l = loop;
	struct epoll_event events[8];
	int n = epoll_wait(l->pipes_fd, events, ARRAY_SIZE(events), 0);
	for (int i = 0; i < n; i++) {
		struct pipe_end *p = events[i].data.ptr;
		p->ready(p, events[i].events);
	}
}

static void stream_pipe_ready(struct pipe_end *p, uint32_t events)
{
	(void)events;
	stream_wake((struct stream *)p);
}

void stream_from(struct stream *s, int fd)
{
	s->pipe.fd = fd;
	if (pipe_end_watch(s->r->loop, EPOLL_CTL_ADD, &s->pipe, EPOLLIN) < 0)
		stream_cut(s);
}

/* The next bytes of the descriptor; 0: none for now, then its next ones wake the stream. */
static ssize_t stream_read_fd(struct stream *s, char *to, size_t max)
{
	ssize_t n = read(s->pipe.fd, to, max);
	if (n > 0)
		s->r->reply.body.n += (size_t)n; /* for the log */
	if (n == 0)
		s->ended = true;
	if (n >= 0 || errno != EAGAIN)
		return n;
	return pipe_end_watch(s->r->loop, EPOLL_CTL_MOD, &s->pipe, EPOLLIN);
}

/* The callback of MHD: up to `max` bytes of the body; 0: none for now. */
static ssize_t stream_read(void *cls, uint64_t at, char *to, size_t max)
{
	(void)at;
	struct stream *s = cls;
	s->r->loop->fruitless = 0;
	connection_set_activity(stream_connection(s), ANSWERING);
	if (s->calls->more && !s->ended && stream_waiting(s) <= s->out.max / 2) {
		s->asked = true;
		s->calls->more(s, s->arg);
		s->asked = false;
	}
	if (s->cut)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	/* One that is ended from outside does not wait for the end of the descriptor. */
	ssize_t got = s->pipe.fd < 0 || s->ended ? 0 : stream_read_fd(s, to, max);
	if (got)
		return got < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : got;
	size_t n = stream_waiting(s) < max ? stream_waiting(s) : max;
	if (n) {
		memcpy(to, s->out.p + s->taken, n);
		s->taken += n;
		s->r->reply.body.n += n; /* for the log */
		if (!stream_waiting(s))
			stream_drop(s);
		return (ssize_t)n;
	}
	if (s->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!s->r->loop->store) /* the loop stops: no suspension any more */
		return MHD_CONTENT_READER_END_WITH_ERROR;
	s->asleep = true;
	connection_set_activity(stream_connection(s), WAITING);
	MHD_suspend_connection(s->r->connection);
	return 0;
}

/* ---- writing ---- */

bool stream_put(struct stream *s, struct span bytes)
{
	if (bytes.n > stream_room(s))
		return false;
	if (s->taken && s->out.n + bytes.n > s->out.max) {
		memmove(s->out.p, s->out.p + s->taken, stream_waiting(s));
		s->out.n -= s->taken;
		s->taken = 0;
	}
	str_span(&s->out, bytes);
	if (bytes.n)
		stream_wake(s);
	return true;
}

void stream_end(struct stream *s)
{
	s->ended = true;
	stream_wake(s);
}

void stream_cut(struct stream *s)
{
	if (s->cut)
		return;
	s->cut = s->ended = true;
	stream_drop(s);
	/* A reset shows the client that the answer is incomplete. */
	const struct linger none = { .l_onoff = 1 };
	(void)setsockopt(http_socket(s->r->connection), SOL_SOCKET, SO_LINGER, &none,
	                 sizeof(none)); /* without it the client sees a normal end */
	if (s->asleep)
		stream_wake(s);
	else if (!s->asked)
		connection_cut(stream_connection(s));
}

const char *stream_end_reason(const struct stream *s)
{
	return s->why;
}

/* ---- time ---- */

static void stream_end_with_reason(struct stream *s, const char *why)
{
	s->why = why;
	if (!s->ended && s->calls->last)
		s->calls->last(s, s->arg);
	stream_end(s);
}

static void stream_event(void *arg, enum long_lived_event event)
{
	const struct request *r = arg;
	struct stream *s = r->stream;
	int64_t now_ms = clock_ms();
	switch (event) {
	case LONG_LIVED_TICK:
		if (now_ms < s->beat_ms || s->ended)
			break;
		s->beat_ms = now_ms + r->loop->server->options->stream_heartbeat_s * 1000;
		if (s->calls->heartbeat)
			s->calls->heartbeat(s, s->arg);
		break;
	case LONG_LIVED_OVER:
		stream_end_with_reason(s, "lifetime");
		break;
	case LONG_LIVED_SHUTDOWN:
		if (!s->calls->finishes)
			stream_end_with_reason(s, "shutdown");
		break;
	case LONG_LIVED_REFUSED:
		stream_end_with_reason(s, "token");
		break;
	case LONG_LIVED_LEFT:
		stream_cut(s);
		break;
	}
}

/* ---- begin and end ---- */

struct stream *stream_open(struct request *r, int status, const char *type,
                           const struct stream_calls *calls, void *arg)
{
	struct loop *l = r->loop;
	bool head = strcmp(r->method, "HEAD") == 0;
	assert(r->phase >= REQUEST_WHOLE);
	if (!l->store) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return NULL;
	}
	int64_t seconds = calls->unlimited ? LONG_LIVED_UNLIMITED : INT32_MAX;
	if (!head && calls->long_lived && !long_lived_begin(r, seconds, stream_event, r))
		return NULL;
	r->reply.status = status;
	r->reply.type = type;
	uint64_t length = r->reply.length ? (uint64_t)r->reply.length : MHD_SIZE_UNKNOWN;
	size_t block = r->reply.length ? PIPE_BLOCK : BLOCK; /* chunks use the pool instead */
	if (head) {                                          /* MHD never calls stream_read */
		answer_with(
		    r, MHD_create_response_from_callback(length, block, stream_read, NULL, NULL));
		return NULL;
	}
	struct stream *s = xcalloc(1, sizeof(*s));
	*s = (struct stream){ .r = r, .calls = calls, .arg = arg, .next = l->streams };
	s->pipe = (struct pipe_end){ stream_pipe_ready, -1 };
	int room = (int)l->server->options->stream_buffer;
	s->out = STR_INIT((size_t)room);
	s->beat_ms = clock_ms() + l->server->options->stream_heartbeat_s * 1000;
	if (s->next)
		s->next->prev = s;
	l->streams = s;
	r->stream = s;
	/* The kernel's send buffer grows to megabytes for a slow client by default. */
	if (calls->long_lived)
		(void)setsockopt(http_socket(s->r->connection), SOL_SOCKET, SO_SNDBUF, &room,
		                 sizeof(room)); /* otherwise the default size stays */
	answer_with(r, MHD_create_response_from_callback(length, block, stream_read, s, NULL));
	return s;
}

void stream_client_left(struct request *r, bool late)
{
	struct stream *s = TAKE(r->stream);
	if (!s)
		return;
	if ((late || s->cut || stream_connection(s)->cut) && !r->why)
		r->why = "it was cut off before its end";
	if (s->next)
		s->next->prev = s->prev;
	*(s->prev ? &s->prev->next : &r->loop->streams) = s->next;
	if (s->calls->gone)
		s->calls->gone(s->arg);
	if (s->pipe.fd >= 0) /* fails if it was not added */
		(void)pipe_end_watch(r->loop, EPOLL_CTL_DEL, &s->pipe, 0);
	str_wipe(&s->out);
	free(s);
}

void streams_cut(struct loop *l, bool ended)
{
	for (struct stream *s = l->streams; s; s = s->next) {
		if (ended && (!s->ended || s->cut || s->calls->finishes))
			continue;
		stream_cut(s);
		if (ended) /* it may wait only for the client to read */
			connection_cut(stream_connection(s));
	}
}

void sse_event(struct str *out, const char *event, int64_t id, struct span data)
{
	assert(!data.n || (!memchr(data.p, '\n', data.n) && !memchr(data.p, '\r', data.n)));
	if (id)
		str_printf(out, "id: %ld\n", (long)id);
	str_puts(out, "event: ");
	str_puts(out, event);
	str_puts(out, "\ndata: ");
	str_span(out, data);
	str_puts(out, "\n\n");
}

void sse_put_deleted(struct str *out, const struct job_entry *job)
{
	STR_AUTO data = STR_INIT(out->max);
	str_puts(&data, "{\"name\":");
	str_json(&data, span_of(job->job));
	str_puts(&data, ",\"username\":");
	str_json(&data, span_of(job_entry_shown_user(job)));
	str_char(&data, '}');
	sse_event(out, "gone", 0, str_view(&data));
	out->full = out->full || data.full;
}

void sse_end(struct str *out, const char *reason)
{
	str_printf(out, "event: end\ndata: {\"reason\":\"%s\"}\n\n", reason);
}

enum { LOOK_MS = 1000, SHARE = 4 };

#define RETRY_S "5"

struct long_lived {
	struct long_lived *prev, *next;
	struct request *r;
	long_lived_callback *callback;
	void *arg;
	int64_t until_ms, check_ms; /* the end; the next check of the token */
	uint64_t revoked;           /* the mark for hooks->holds */
	bool ending;                /* after it only LONG_LIVED_LEFT is delivered */
};

/* ---- limits ---- */

/* unlimited: the user has another limit for these. */
static bool stream_admit(struct request *r, bool unlimited)
{
	const struct loop *l = r->loop;
	const struct options *o = l->server->options;
	size_t places = (size_t)(o->connections + SHARE - 1) / SHARE;
	int64_t own = 0;
	const char *user = r->user ?: r->client_text;
	for (const struct long_lived *w = l->long_lived; w; w = w->next)
		own += strcmp(w->r->user ?: w->r->client_text, user) == 0;
	if (atomic_load(&l->server->phase) == PHASE_STOP) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return false;
	}
	if (!unlimited && own >= o->streams_per_user) {
		answer_header(r, "Retry-After", RETRY_S);
		answer_refuse(r, 429, "TooManyRequestsError",
		              arena_printf(&r->arena,
		                           "too many streams and long polls of this user; the "
		                           "limit is %ld",
		                           (long)o->streams_per_user));
		return false;
	}
	if (l->n_long_lived >= places) {
		answer_refuse(r, UNAVAILABLE,
		              arena_printf(&r->arena,
		                           "too many streams and long polls; the limit is %zu",
		                           places));
		return false;
	}
	return true;
}

/* ---- a long-lived request ---- */

static void long_lived_next_at(struct loop *l, int64_t ms)
{
	if (ms < l->long_lived_next_ms)
		l->long_lived_next_ms = ms;
}

bool long_lived_begin(struct request *r, int64_t seconds, long_lived_callback *callback, void *arg)
{
	struct loop *l = r->loop;
	int64_t now_ms = clock_ms();
	int64_t lifetime = l->server->options->stream_lifetime_s;
	if (!stream_admit(r, seconds == LONG_LIVED_UNLIMITED))
		return false;
	if (seconds == LONG_LIVED_UNLIMITED)
		connection_exempt(http_connection_of(r->connection));
	if (seconds == LONG_LIVED_UNLIMITED) /* its parties have their own limit of silence */
		(void)MHD_set_connection_option(r->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
	struct long_lived *w = ARENA_NEW(&r->arena, struct long_lived, 1);
	w->r = r;
	w->callback = callback;
	w->arg = arg;
	w->until_ms = seconds == LONG_LIVED_UNLIMITED
	                  ? INT64_MAX
	                  : now_ms + 1000 * (seconds < lifetime ? seconds : lifetime);
	w->revoked = l->server->hooks->mark(l);
	w->next = l->long_lived;
	if (w->next)
		w->next->prev = w;
	else
		l->long_lived_next_ms = now_ms + LOOK_MS;
	long_lived_next_at(l, w->until_ms);
	l->long_lived = w;
	l->n_long_lived++;
	r->long_lived = w;
	r->untimed = true;
	return true;
}

void long_lived_end(struct request *r)
{
	struct long_lived *w = TAKE(r->long_lived);
	if (!w)
		return;
	if (w->next)
		w->next->prev = w->prev;
	*(w->prev ? &w->prev->next : &r->loop->long_lived) = w->next;
	r->loop->n_long_lived--;
}

/* ---- events ---- */

void long_lived_run_once(struct loop *l, bool stopping)
{
	int64_t now_ms = clock_ms();
	if (!stopping && (!l->long_lived || now_ms < l->long_lived_next_ms))
		return;
	l->long_lived_next_ms = now_ms + LOOK_MS;
	struct long_lived *next;
	for (struct long_lived *w = l->long_lived; w; w = next) {
		const struct connection *c = http_connection_of(w->r->connection);
		enum long_lived_event event = LONG_LIVED_TICK;
		next = w->next;
		if (!w->ending)
			long_lived_next_at(l,
			                   w->until_ms > now_ms ? w->until_ms : now_ms + LOOK_MS);
		if (stopping) {
			event = LONG_LIVED_SHUTDOWN;
		} else if (connection_left(c)) {
			event = LONG_LIVED_LEFT;
		} else if (now_ms >= w->until_ms) {
			event = LONG_LIVED_OVER;
		} else if (now_ms >= w->check_ms) {
			w->check_ms = now_ms + 1000 * l->server->options->stream_heartbeat_s;
			if (!l->server->hooks->holds(w->r, w->revoked))
				event = LONG_LIVED_REFUSED;
		}
		if (w->ending && event != LONG_LIVED_LEFT)
			continue;
		w->ending = event != LONG_LIVED_TICK;
		/* The callback may end its own request, and no other. */
		w->callback(w->arg, event);
	}
}
