/*
 * Logs by libcurl's multi interface.  If the write function pauses, libcurl stops reading from the
 * socket, and the TCP window makes the API server wait.  Logs in files are read in each round; a
 * followed one sleeps at its end, until inotify or LOG_STREAM_LOOK_MS wakes it.
 */
#include "k8s/logs/log_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/store/paths.h"
#include "k8s/transport/login.h"

enum { URL_MAX = 4096, KEPT_CONNECTIONS = 4, PIECES_MAX = 16 /* of a file, per round */ };

static const int64_t NEVER = INT64_MAX;

struct log_stream {
	struct log_stream *next, **link;
	struct log_streams *all;
	struct log_stream_request r; /* without its names */
	char *user;
	CURL *easy; /* NULL: from files */
	struct log_file *file;
	int64_t burst_ms;  /* the begin of the current LOG_STREAM_BURST_MS */
	unsigned sleeps;   /* since then */
	int64_t look_ms;   /* the pause before the next look, which grows until the file does */
	struct span piece; /* of the file, not yet delivered */
	struct curl_slist *headers;
	int64_t due_ms; /* deadline for the next data, or NEVER */
	bool begun, paused;
	size_t taken; /* bytes of the paused buffer that were delivered */
	bool inside;  /* a callback is under way */
	bool unwanted;
	bool failed; /* ends in the next run */
	char error[CURL_ERROR_SIZE];
};

struct log_streams {
	struct login *login;
	char *namespace_name;
	int inotify; /* of files; -1: none */
	size_t max, per_user, n;
	struct log_stream *first;
	struct curl_loop curl;
	struct login_header authorization;
};

/* ---- one log ----------------------------------------------------------------------- */

/* It does not count any more. */
static void log_stream_unlink(struct log_stream *t)
{
	if (!t->link)
		return;
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	t->link = NULL;
	t->all->n--;
}

static void log_stream_free(struct log_stream *t)
{
	log_stream_unlink(t);
	if (t->easy)
		(void)curl_multi_remove_handle(t->all->curl.multi,
		                               t->easy); /* it was added by log_stream_open */
	curl_easy_cleanup(t->easy);
	curl_free_headers(&t->headers);
	log_file_free(t->file);
	free(t->user);
	free(t);
}

/* A paused stream waits for its reader, without a deadline. */
static void log_stream_set_due(struct log_stream *t)
{
	bool endless = t->paused || (t->r.follow && t->begun);
	if (t->failed)
		return;
	int64_t patience_ms = t->r.follow ? LOG_STREAM_SILENCE_MS : t->r.patience_ms;
	t->due_ms = endless ? NEVER : clock_ms() + patience_ms;
}

static bool log_stream_begin(struct log_stream *t, bool silent)
{
	if (t->begun)
		return true;
	t->begun = true;
	t->inside = true;
	bool wanted = t->r.began(t->r.arg, silent, t->file ? log_file_offset(t->file) : -1);
	t->inside = false;
	t->unwanted = t->unwanted || !wanted;
	return !t->unwanted;
}

/* libcurl's write callback: delivers pieces. */
static size_t log_stream_take_piece(char *from, size_t size, size_t count, void *arg)
{
	struct log_stream *t = arg;
	struct span all = { from, size * count };
	if (curl_status(t->easy) != 200)
		return all.n; /* the bodies of errors are ignored */
	if (t->unwanted || !log_stream_begin(t, false))
		return CURL_WRITEFUNC_ERROR;
	/* After a pause libcurl passes the same buffer again, from its start. */
	while (t->taken < all.n && !t->paused && !t->unwanted) {
		struct span piece = span_from(all, t->taken);
		if (piece.n > LOG_STREAM_PIECE)
			piece.n = LOG_STREAM_PIECE;
		t->inside = true;
		t->paused = !t->r.came(t->r.arg, piece);
		t->inside = false;
		if (!t->paused)
			t->taken += piece.n;
	}
	if (!t->paused)
		t->taken = 0;
	log_stream_set_due(t);
	if (t->unwanted)
		return CURL_WRITEFUNC_ERROR;
	return t->paused ? CURL_WRITEFUNC_PAUSE : all.n;
}

static void log_stream_end(struct log_stream *t, enum log_stream_outcome outcome, int status,
                           const char *message)
{
	const struct log_stream_end end = { outcome, status, message };
	if (outcome == LOG_STREAM_WHOLE && !log_stream_begin(t, false)) {
		log_stream_free(t);
		return;
	}
	t->inside = true;
	log_stream_unlink(t); /* `ended` may open another one */
	if (!t->unwanted)
		t->r.ended(t->r.arg, &end);
	log_stream_free(t);
}

static void log_stream_finish(struct log_stream *t, CURLcode result,
                              enum log_stream_outcome outcome)
{
	log_stream_end(t, outcome, t->easy ? curl_status(t->easy) : 0,
	               t->error[0] ? t->error : curl_easy_strerror(result));
}

void log_stream_go_on(struct log_stream *t)
{
	if (!t->paused || t->inside)
		return;
	t->paused = false;
	log_stream_set_due(t);
	if (!t->easy)
		t->due_ms = 0;
	else if (curl_easy_pause(t->easy, CURLPAUSE_CONT) != CURLE_OK)
		t->failed = true;
	if (t->failed)
		t->due_ms = 0;
}

void log_stream_cancel(struct log_stream *t)
{
	t->unwanted = true;
	t->failed = true;
	t->due_ms = 0;
	if (!t->inside)
		log_stream_free(t);
}

/* ---- files ------------------------------------------------------------------------- */

/* false: the stream is freed. */
static bool log_stream_give(struct log_stream *t)
{
	if (t->piece.n && !log_stream_begin(t, false)) {
		log_stream_free(t);
		return false;
	}
	t->inside = true;
	t->paused = t->piece.n && !t->r.came(t->r.arg, t->piece);
	t->inside = false;
	if (!t->paused)
		t->piece.n = 0;
	t->due_ms = t->paused ? NEVER : 0;
	if (!t->unwanted)
		return true;
	log_stream_free(t);
	return false;
}

/* The end of a followed file: waits for more. */
static void log_stream_sleep(struct log_stream *t, int64_t now)
{
	if (now - t->burst_ms >= LOG_STREAM_BURST_MS) {
		t->burst_ms = now;
		t->sleeps = 0;
	}
	bool burst = ++t->sleeps > LOG_STREAM_BURST;
	if (!log_stream_begin(t, true)) {
		log_stream_free(t);
		return;
	}
	/* It looks again soon: a change may have come before the watch, and no change tells that
	 * the container has ended. */
	t->due_ms = now + (burst ? LOG_STREAM_BURST_MS : t->look_ms);
	t->look_ms = t->look_ms < LOG_STREAM_LOOK_MS / 2 ? 2 * t->look_ms : LOG_STREAM_LOOK_MS;
	if (!burst)
		(void)log_file_watch(t->file, t->all->inotify); /* else the timer is enough */
}

static void log_stream_read(struct log_stream *t, int64_t now)
{
	const struct log_file_request r = { t->r.files,  t->r.arg,      t->r.streams, t->r.lines,
		                            t->r.follow, t->r.since_ms, t->r.from,    t->r.times };
	int status = 0;
	if (!t->file && !(t->file = log_file_open(&r, &status))) {
		log_stream_end(t, LOG_STREAM_REFUSED, status, "there is no such log");
		return;
	}
	for (int i = 0; i < PIECES_MAX && !t->paused; i++) {
		enum log_file_state state =
		    t->piece.n ? LOG_FILE_PIECE : log_file_next(t->file, &t->piece);
		if (state == LOG_FILE_QUIET)
			log_stream_sleep(t, now);
		else if (state == LOG_FILE_BROKEN)
			log_stream_end(t, LOG_STREAM_CUT, 0, "its files cannot be read");
		else if (state == LOG_FILE_END)
			log_stream_end(t, LOG_STREAM_WHOLE, 200, "");
		if (state != LOG_FILE_PIECE)
			return;
		t->look_ms = LOG_STREAM_BURST_MS / 2;
		if (!log_stream_give(t))
			return;
	}
}

/* ---- requests ---------------------------------------------------------------------- */

static int log_stream_put_url(struct str *url, const struct log_streams *all,
                              const struct log_stream_request *r)
{
	str_puts(url, all->login->url);
	if (!segment_ok(r->container) ||
	    path_write(url, KIND_POD, all->namespace_name, r->pod) != 0)
		return -1;
	str_printf(url, "/log?container=%s", r->container);
	if (r->lines > 0)
		str_printf(url, "&tailLines=%lld", (long long)r->lines);
	char since[RFC3339_MAX];
	if (r->since_ms)
		str_printf(url, "&sinceTime=%s", rfc3339_put(since, r->since_ms, 0));
	if (r->follow)
		str_puts(url, "&follow=true");
	if (r->first || r->times)
		str_puts(url, "&timestamps=true");
	if (r->first)
		str_printf(url, "&limitBytes=%d", LOG_STREAM_FIRST);
	return url->full ? -1 : 0;
}

static int log_streams_check_room(const struct log_streams *all, const char *user, struct err *e)
{
	size_t his = 0;
	for (const struct log_stream *t = all->first; t; t = t->next)
		his += strcmp(t->user, user) == 0;
	if (his >= all->per_user)
		return err_set(
		    e, 429, "TooManyRequestsError",
		    "you are reading %zu logs at the moment, the maximum for a user; end one", his);
	if (all->n >= all->max)
		return err_set(e, UNAVAILABLE,
		               "%zu logs are being read, the maximum of this server", all->n);
	return 0;
}

struct log_stream *log_stream_open(struct log_streams *all, const struct log_stream_request *r,
                                   struct err *e)
{
	STR_AUTO url = STR_INIT(URL_MAX);
	if (log_streams_check_room(all, r->user, e) < 0)
		return NULL;
	if (!r->files && log_stream_put_url(&url, all, r) < 0) {
		(void)err_set(e, UNKNOWN_ERROR,
		              "the name of the pod or the container is not valid");
		return NULL;
	}
	CURL *easy = r->files ? NULL : login_curl(all->login, e);
	if (!easy && !r->files)
		return NULL;
	struct log_stream *t = xcalloc(1, sizeof(*t));
	t->all = all;
	t->look_ms = LOG_STREAM_BURST_MS / 2;
	t->r = *r;
	t->r.pod = t->r.container = t->r.user = NULL;
	t->user = xstrdup(r->user);
	t->easy = easy;
	if (easy) {
		curl_add_header(&t->headers, "Accept: text/plain, application/json");
		login_set_headers(easy, &t->headers, all->login, &all->authorization);
		curl_receive(easy, log_stream_take_piece, t, t->error);
		CURL_SET(easy, CURLOPT_URL, str_c(&url));
		CURL_SET(easy, CURLOPT_BUFFERSIZE, (long)LOG_STREAM_PIECE);
		log_stream_set_due(t);
	}
	t->next = all->first;
	t->link = &all->first;
	if (t->next)
		t->next->link = &t->next;
	all->first = t;
	all->n++;
	CURLMcode bad = easy ? curl_multi_add_handle(all->curl.multi, easy) : CURLM_OK;
	assert(bad == CURLM_OK);
	return t;
}

/* ---- the loop ---------------------------------------------------------------------- */

/* The API server does not answer before the first line of a followed log. */
static void log_stream_come_due(struct log_stream *t, int64_t now)
{
	curl_off_t connected_us = 0;
	if (t->easy) /* stays 0 until there is a connection */
		(void)curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
	if (!t->easy && !t->failed)
		log_stream_read(t, now);
	else if (t->failed || !t->r.follow)
		log_stream_finish(t, CURLE_OPERATION_TIMEDOUT,
		                  t->begun ? LOG_STREAM_CUT : LOG_STREAM_AWAY);
	else if (connected_us == 0)
		log_stream_set_due(t); /* libcurl limits the time to connect */
	else if (log_stream_begin(t, true))
		t->due_ms = NEVER;
	else
		log_stream_free(t);
}

/* Logs from the API server. */
static void log_streams_run_transfers(struct log_streams *all)
{
	CURLcode result;
	struct log_stream *t;
	curl_loop_run_once(&all->curl);
	int64_t now = clock_ms();
	while ((t = curl_loop_finished(&all->curl, &result)) != NULL) {
		int status = curl_status(t->easy);
		bool whole = result == CURLE_OK && status == 200;
		log_stream_finish(t, result,
		                  whole                          ? LOG_STREAM_WHOLE
		                  : t->begun                     ? LOG_STREAM_CUT
		                  : status != 0 && status != 200 ? LOG_STREAM_REFUSED
		                                                 : LOG_STREAM_AWAY);
	}
	do { /* callbacks can change the list */
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): log_stream_free unlinks it */
		for (t = all->first; t && t->due_ms > now;)
			t = t->next;
		if (t)
			log_stream_come_due(t, now);
	} while (t);
}

void log_streams_run_once(struct log_streams *all)
{
	char events[4096] __attribute__((aligned(8)));
	bool woken = false;
	int64_t now = clock_ms();
	if (all->login) {
		log_streams_run_transfers(all);
		return;
	}
	while (read(all->inotify, events, sizeof(events)) > 0)
		woken = true; /* an event may be about any file */
	for (struct log_stream *t = all->first; t && woken; t = t->next)
		if (t->due_ms != NEVER)
			t->due_ms = 0;
	for (struct log_stream *t = all->first, *next; t; t = next) {
		next = t->next;
		if (t->due_ms <= now)
			log_stream_come_due(t, now);
	}
}

/* The next timer of libcurl or of a stream. */
int log_streams_timeout_ms(const struct log_streams *all)
{
	int64_t wake = all->login ? all->curl.wake_ms : NEVER;
	for (const struct log_stream *t = all->first; t; t = t->next)
		wake = t->due_ms < wake ? t->due_ms : wake;
	return curl_timeout_ms(wake);
}

/* An epoll or an inotify descriptor. */
int log_streams_fd(const struct log_streams *all)
{
	return all->login ? all->curl.epoll : all->inotify;
}

/* Returns the number of streams, for metrics. */
size_t log_streams_count(const struct log_streams *all)
{
	return all->n;
}

/* ---- life -------------------------------------------------------------------------- */

struct log_streams *log_streams_new(struct login *l, const char *namespace_name, size_t max,
                                    size_t per_user, struct err *e)
{
	struct log_streams *all = xcalloc(1, sizeof(*all));
	all->login = l;
	all->namespace_name = xstrdup(namespace_name);
	all->max = max;
	all->per_user = per_user;
	all->inotify = -1;
	if (l && curl_loop_init(&all->curl, KEPT_CONNECTIONS, e) == 0)
		return all;
	if (!l && (all->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) >= 0)
		return all;
	if (!l)
		(void)err_set(e, UNKNOWN_ERROR, "inotify: %s", strerrordesc_np(errno));
	log_streams_free(all);
	return NULL;
}

void log_streams_free(struct log_streams *all)
{
	if (!all)
		return;
	for (struct log_stream *t = all->first, *next; t; t = next) {
		next = t->next;
		log_stream_finish(t, CURLE_ABORTED_BY_CALLBACK, LOG_STREAM_CLOSING);
	}
	if (all->login)
		curl_loop_done(&all->curl);
	if (all->inotify >= 0)
		(void)close(all->inotify);
	str_wipe(&all->authorization.line);
	free(all->namespace_name);
	free(all);
}
