/*
 * The library asks for more of a body whenever it could send some.  While there is nothing, the
 * connection is suspended: it then has no deadline, and costs nothing.  It is woken once by what is
 * put, or by its end; only what sleeps is woken, and only the library's own question makes it
 * sleep.
 */
#include "server/http/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "k8s/transport/store.h"
#include "server/http/answer.h"
#include "server/http/connections.h"
#include "server/http/http_request.h"
#include "server/http/lasting.h"
#include "server/http/loop.h"

enum { BLOCK = 4096, KEPT = 4096 };

struct stream {
	struct stream *prev, *next; /* of the loop */
	struct request *r;
	const struct stream_calls *calls;
	void *arg;
	struct str out; /* out.p + taken: what waits for the client */
	size_t taken;
	int64_t beat_ms; /* when to show next that it lives */
	const char *why;
	bool asleep, asked, ended, cut;
};

static struct connection *connection_of(const struct stream *s)
{
	return http_connection_of(s->r->connection);
}

/* ---- what waits ---- */

static size_t waiting(const struct stream *s)
{
	return s->out.n - s->taken;
}

static void drop(struct stream *s)
{
	s->taken = 0;
	s->out.n = 0;
	if (s->out.cap > KEPT) {
		size_t max = s->out.max;
		str_done(&s->out);
		s->out = STR_INIT(max);
	}
}

static size_t take(struct stream *s, char *to, size_t max)
{
	size_t n = waiting(s) < max ? waiting(s) : max;
	if (!n)
		return 0;
	memcpy(to, s->out.p + s->taken, n);
	s->taken += n;
	s->r->reply.body.n += n; /* for the log */
	if (!waiting(s))
		drop(s);
	return n;
}

size_t stream_room(const struct stream *s)
{
	return s->ended ? 0 : s->out.max - waiting(s);
}

/* ---- sleeping and waking ---- */

static void wake(struct stream *s)
{
	if (!s->asleep)
		return;
	s->asleep = false;
	s->r->loop->woken = true;
	connection_run_once(connection_of(s), ANSWERING);
	MHD_resume_connection(s->r->connection);
}

static void sleep_now(struct stream *s)
{
	s->asleep = true;
	connection_run_once(connection_of(s), WAITING);
	MHD_suspend_connection(s->r->connection);
}

static void ask_for_more(struct stream *s)
{
	if (!s->calls->more || s->ended || waiting(s) > s->out.max / 2)
		return;
	s->asked = true;
	s->calls->more(s, s->arg);
	s->asked = false;
}

/* The library's: up to `max` bytes of the body; 0 is nothing for now. */
static ssize_t give(void *cls, uint64_t at, char *to, size_t max)
{
	(void)at;
	struct stream *s = cls;
	s->r->loop->fruitless = 0;
	connection_run_once(connection_of(s), ANSWERING);
	if (!s->cut)
		ask_for_more(s);
	if (s->cut)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	size_t n = take(s, to, max);
	if (n)
		return (ssize_t)n;
	if (s->ended)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (!s->r->loop->store) /* it stops: nothing may sleep any more */
		return MHD_CONTENT_READER_END_WITH_ERROR;
	sleep_now(s);
	return 0;
}

/* ---- writing ---- */

bool stream_put(struct stream *s, struct span bytes)
{
	if (bytes.n > stream_room(s))
		return false;
	if (s->taken && s->out.n + bytes.n > s->out.max) {
		memmove(s->out.p, s->out.p + s->taken, waiting(s));
		s->out.n -= s->taken;
		s->taken = 0;
	}
	str_span(&s->out, bytes);
	if (bytes.n)
		wake(s);
	return true;
}

void stream_end(struct stream *s)
{
	s->ended = true;
	wake(s);
}

void stream_cut(struct stream *s)
{
	if (s->cut)
		return;
	s->cut = s->ended = true;
	drop(s);
	/* A reset, so that nobody takes it for the end. */
	const struct linger none = { .l_onoff = 1 };
	int fd = MHD_get_connection_info(s->r->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
	             ->connect_fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)); /* else it just ends */
	if (s->asleep)
		wake(s);
	else if (!s->asked)
		connection_cut(connection_of(s));
}

const char *stream_why(const struct stream *s)
{
	return s->why;
}

/* ---- time ---- */

static void end_with_words(struct stream *s, const char *why)
{
	s->why = why;
	if (!s->ended && s->calls->last)
		s->calls->last(s, s->arg);
	stream_end(s);
}

static void beat(struct stream *s)
{
	int64_t now_ms = clock_ms();
	if (now_ms < s->beat_ms || s->ended)
		return;
	s->beat_ms = now_ms + s->r->loop->server->options->stream_heartbeat_s * 1000;
	if (s->calls->heartbeat)
		s->calls->heartbeat(s, s->arg);
}

static void told(void *arg, enum lasting_news news)
{
	const struct request *r = arg;
	switch (news) {
	case LASTING_TICK:
		beat(r->stream);
		break;
	case LASTING_OVER:
		end_with_words(r->stream, "lifetime");
		break;
	case LASTING_SHUTDOWN:
		if (!r->stream->calls->finishes)
			end_with_words(r->stream, "shutdown");
		break;
	case LASTING_REFUSED:
		end_with_words(r->stream, "token");
		break;
	case LASTING_LEFT:
		stream_cut(r->stream);
		break;
	}
}

/* ---- begin and end ---- */

/* The kernel keeps megabytes for a client that does not read, unless it is told not to. */
static void small_socket(struct request *r)
{
	int n = (int)r->loop->server->options->stream_buffer;
	int fd =
	    MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof(n)); /* then it is as it was */
}

static void answer_head(struct request *r)
{
	/* Never asked for a body. */
	answer_with(r,
	            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, give, NULL, NULL));
}

struct stream *stream_open(struct request *r, int status, const char *type,
                           const struct stream_calls *calls, void *arg)
{
	struct loop *l = r->loop;
	bool head = strcmp(r->method, "HEAD") == 0;
	assert(r->whole);
	if (!l->store) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return NULL;
	}
	if (!head && calls->lasting && !lasting_begin(r, INT32_MAX, told, r))
		return NULL;
	r->reply.status = status;
	r->reply.type = type;
	if (head) {
		answer_head(r);
		return NULL;
	}
	struct stream *s = xcalloc(1, sizeof(*s));
	*s = (struct stream){ .r = r, .calls = calls, .arg = arg, .next = l->streams };
	s->out = STR_INIT((size_t)l->server->options->stream_buffer);
	s->beat_ms = clock_ms() + l->server->options->stream_heartbeat_s * 1000;
	if (s->next)
		s->next->prev = s;
	l->streams = s;
	r->stream = s;
	if (calls->lasting)
		small_socket(r);
	answer_with(r, MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, give, s, NULL));
	return s;
}

void stream_gone(struct request *r, bool late)
{
	struct stream *s = TAKE(r->stream);
	if (!s)
		return;
	if ((late || s->cut || connection_of(s)->cut) && !r->why)
		r->why = "it was cut off before its end";
	if (s->next)
		s->next->prev = s->prev;
	if (s->prev)
		s->prev->next = s->next;
	else
		r->loop->streams = s->next;
	if (s->calls->gone)
		s->calls->gone(s->arg);
	str_wipe(&s->out);
	free(s);
}

void streams_cut(struct loop *l)
{
	for (struct stream *s = l->streams; s; s = s->next)
		stream_cut(s);
}

void streams_cut_ended(struct loop *l)
{
	for (struct stream *s = l->streams; s; s = s->next)
		if (s->ended && !s->cut && !s->calls->finishes) {
			stream_cut(s);
			connection_cut(connection_of(s)); /* it may be waiting for room only */
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

void sse_gone(struct str *out, const struct job_entry *job)
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
