/* Runs transfers of libcurl for one thread, and polls a document on a thread of its own. */
#include "k8s/http/http_client.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/posix/clock.h"
#include "k8s/http/curl.h"
#include "k8s/http/endpoint.h"

enum { HEADER_MAX = 16 * 1024, RECEIVE = 64 << 10, TURN_MS_MAX = 60000 };

struct client_exchange {
	struct client *client;
	LIST_ENTRY(client_exchange) link;
	CURL *easy;
	struct curl_slist *headers;
	struct client_call call;
	struct str body;
	bool unwanted; /* `piece` has returned false */
	char error[CURL_ERROR_SIZE];
};

struct client {
	CURLM *multi;
	char *url;
	const char *ca_file, *socket;
	bool own;                 /* see client_settings */
	struct str authorization; /* "": none */
	int64_t arrived; /* bytes at the other end of the last connection that was closed */
	bool hints;      /* problems come with those for users of a rest-lit server */
	LIST_HEAD(client_exchanges, client_exchange) exchanges;
};

/* ---- answers --------------------------------------------------------------------------------- */

static size_t client_take_body(char *from, size_t size, size_t count, void *arg)
{
	struct client_exchange *x = arg;
	size_t n = size * count;
	if (x->call.piece && curl_status(x->easy) / 100 == 2)
		x->unwanted = !x->call.piece(x->call.arg, (struct span){ from, n });
	else
		str_put(&x->body, from, n);
	return x->unwanted || x->body.full ? 0 : n; /* 0 ends the transfer */
}

static size_t client_read_body(char *to, size_t size, size_t count, void *arg)
{
	const struct client_exchange *x = arg;
	size_t n = x->call.more(x->call.arg, to, size * count);
	return n ? n : CURL_READFUNC_PAUSE;
}

void client_pause(struct client_exchange *x, bool pause)
{
	/* A failure shows in the transfer. */
	(void)curl_easy_pause(x->easy, pause ? CURLPAUSE_RECV : CURLPAUSE_CONT);
}

static const char *client_problem_of(struct client_exchange *x, CURLcode result)
{
	bool hints = x->client->hints;
	size_t n = strlen(x->error);
	if (x->body.full && hints)
		return "the answer is too long";
	if (x->body.full)
		(void)snprintf(x->error, sizeof(x->error), "it answers with more than %zu bytes",
		               x->call.max);
	else if (result == CURLE_OK || x->unwanted)
		return NULL;
	else if (result == CURLE_OPERATION_TIMEDOUT)
		return "it takes too long to answer";
	else if (result == CURLE_COULDNT_CONNECT && hints)
		return "cannot connect: is the server running (rest-lit serve), and is this "
		       "its address (--server)?";
	else if (result == CURLE_SSL_CONNECT_ERROR && hints)
		(void)snprintf(x->error + n, sizeof(x->error) - n,
		               "%sthe server ended, or does not speak TLS on this port",
		               n ? "; " : "");
	return x->error[0] ? x->error : curl_easy_strerror(result);
}

static int client_closes(void *arg, curl_socket_t fd)
{
	struct client *c = arg;
	struct tcp_info info = { .tcpi_bytes_acked = 0 };
	socklen_t n = sizeof(info);
	(void)getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n); /* a Unix socket: stays 0 */
	c->arrived = (int64_t)info.tcpi_bytes_acked;
	return close(fd);
}

/* Returns true if the server has closed the connection because the body came too slowly; then
 * x->error says so. */
static bool client_was_slow(struct client_exchange *x, CURLcode result)
{
	enum { MS = 1000, WINDOW_MS = 2 * MS, KIB = 1024 };
	curl_off_t us = 0;
	(void)curl_easy_getinfo(x->easy, CURLINFO_TOTAL_TIME_T, &us); /* stays 0 */
	int64_t ms = us / MS;
	int64_t arrived = x->client->arrived;
	bool cut =
	    result == CURLE_GOT_NOTHING || result == CURLE_SEND_ERROR || result == CURLE_RECV_ERROR;
	if (!cut || ms < WINDOW_MS || arrived >= (int64_t)x->call.body.n ||
	    arrived * MS / ms >= x->call.least)
		return false;
	(void)snprintf(x->error, sizeof(x->error),
	               "the server has closed the connection, because the data came too slowly: "
	               "%lld of %zu KiB in %lld s, %lld KiB/s; it needs %lld KiB/s",
	               (long long)arrived / KIB, x->call.body.n / KIB, (long long)ms / MS,
	               (long long)(arrived * MS / ms / KIB),
	               (long long)(x->call.least + KIB - 1) / KIB);
	return true;
}

void client_stop(struct client_exchange *x)
{
	LIST_REMOVE(x, link);
	(void)curl_multi_remove_handle(x->client->multi, x->easy); /* it was added */
	curl_easy_cleanup(x->easy);
	curl_free_headers(&x->headers);
	str_wipe(&x->body);
	free(x);
}

const char *client_header(const struct client_exchange *x, const char *name)
{
	struct curl_header *h = NULL;
	CURLHcode missing = curl_easy_header(x->easy, name, 0, CURLH_HEADER, -1, &h);
	return missing == CURLHE_OK ? h->value : NULL;
}

static void client_answered(struct client_exchange *x, CURLcode result)
{
	struct client_answer a = { .status = curl_status(x->easy), .body = str_view(&x->body) };
	curl_off_t seconds = 0;
	(void)curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &seconds); /* stays 0 */
	a.retry_after_s = seconds;
	a.location = client_header(x, "Location");
	a.replayed = client_header(x, "Idempotency-Replayed") != NULL;
	/* Not CURLE_SSL_CONNECT_ERROR: a server that ends during the handshake causes it, as a port
	 * without TLS does. */
	bool hopeless = curl_is_permanent(result) || result == CURLE_WEIRD_SERVER_REPLY;
	bool slow = client_was_slow(x, result);
	a.problem = client_problem_of(x, result);
	a.hopeless = a.problem && (x->body.full || hopeless || slow);
	x->call.ended(x->call.arg, &a);
	client_stop(x);
}

void client_run_once(struct client *c, int64_t timeout_ms, int fd)
{
	struct curl_waitfd extra = { .fd = fd, .events = CURL_WAIT_POLLIN };
	int ms = timeout_ms < 0 ? 0 : timeout_ms < TURN_MS_MAX ? (int)timeout_ms : TURN_MS_MAX;
	int n;
	/* A transfer that has begun does not wait: libcurl's own timers are due then. */
	(void)curl_multi_poll(c->multi, &extra, fd >= 0, ms, NULL);
	(void)curl_multi_perform(c->multi, &n); /* errors show in the transfers */
	for (const CURLMsg *m; (m = curl_multi_info_read(c->multi, &n));) {
		struct client_exchange *x = NULL;
		CURLcode result = m->data.result;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x); /* set */
		client_answered(x, result);
	}
}

/* ---- requests -------------------------------------------------------------------------------- */

static void client_add_header(struct client_exchange *x, const char *name, const char *value)
{
	STR_AUTO line = STR_SECRET(HEADER_MAX);
	str_puts(&line, name);
	str_puts(&line, value);
	curl_add_header(&x->headers, str_c(&line));
}

struct client_exchange *client_start(struct client *c, const struct client_call *call,
                                     struct err *e)
{
	FREE_AUTO char *target = xasprintf("%s%s", c->url, call->path);
	CURL *easy = curl_new(target, &(struct curl_pem){ .ca = c->ca_file }, e);
	if (!easy)
		return NULL;
	struct client_exchange *x = xcalloc(1, sizeof(*x));
	*x = (struct client_exchange){
		.client = c, .easy = easy, .call = *call, .body = STR_INIT(call->max)
	};
	LIST_INSERT_HEAD(&c->exchanges, x, link);
	curl_receive(easy, client_take_body, x, x->error);
	CURL_SET(easy, CURLOPT_CLOSESOCKETFUNCTION, client_closes);
	CURL_SET(easy, CURLOPT_CLOSESOCKETDATA, c);
	if (c->socket)
		CURL_SET(easy, CURLOPT_UNIX_SOCKET_PATH, c->socket);
	CURL_SET(easy, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	CURL_SET(easy, CURLOPT_TIMEOUT_MS, c->own ? 0L : (long)call->timeout_ms);
	CURL_SET(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	CURL_SET(easy, CURLOPT_LOW_SPEED_TIME, c->own ? 0L : (long)call->silence_s);
	if (call->more) {
		CURL_SET(easy, CURLOPT_UPLOAD, 1L);
		CURL_SET(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)RECEIVE);
		CURL_SET(easy, CURLOPT_READFUNCTION, client_read_body);
		CURL_SET(easy, CURLOPT_READDATA, x);
		client_add_header(x, "Content-Type: ", call->type);
		client_add_header(x, "Expect:", "");
	} else if (call->type) {
		CURL_SET(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
		CURL_SET(easy, CURLOPT_POSTFIELDS, call->body.p);
		client_add_header(x, "Content-Type: ", call->type);
		client_add_header(x, "Expect:", "");
	}
	CURL_SET(easy, CURLOPT_CUSTOMREQUEST, call->method);
	if (c->authorization.n)
		client_add_header(x, "Authorization: Bearer ", str_c(&c->authorization));
	if (call->key)
		client_add_header(x, "Idempotency-Key: ", call->key);
	CURL_SET(easy, CURLOPT_HTTPHEADER, x->headers);
	CURLMcode bad = curl_multi_add_handle(c->multi, easy);
	if (!bad)
		return x;
	(void)err_set(e, UNKNOWN_ERROR, "libcurl: %s", curl_multi_strerror(bad));
	client_stop(x);
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* ca_file is borrowed; c->url is set. */
static int client_connect(struct client *c, const char *ca_file, struct err *e)
{
	c->ca_file = ca_file;
	/* A missing certificate would make every request fail. */
	FREE_AUTO char *text = ca_file[0] ? config_file_text(ca_file, e) : NULL;
	if (ca_file[0] && !text)
		return -1;
	if (text && !strstr(text, "-----BEGIN CERTIFICATE-----"))
		return err_set(e, 400, NULL, "%s: contains no certificate (PEM)", ca_file);
	if (curl_start(e) < 0)
		return -1;
	c->multi = curl_multi_init();
	return c->multi ? 0 : err_set(e, UNKNOWN_ERROR, "libcurl: no memory for a multi handle");
}

struct client *client_new(const struct client_settings *s, struct err *e)
{
	const char *fault;
	struct client *c = xcalloc(1, sizeof(*c));
	c->hints = true;
	c->socket = s->socket;
	c->own = s->own;
	c->authorization = (struct str)STR_SECRET(HEADER_MAX / 2);
	str_span(&c->authorization, s->token);
	c->url = address_read(s->url, true, &fault);
	if (!c->url) /* the URL can have a password */
		(void)err_set(e, 400, NULL, "--server: %s", fault);
	else if (!login_is_visible(s->token))
		(void)err_set(e, 400, NULL, "--token-file does not contain a valid token");
	else if (c->authorization.full)
		(void)err_set(e, 400, NULL, "--token-file contains a token that is too long");
	else if (client_connect(c, s->ca_file, e) == 0)
		return c;
	client_free(c);
	return NULL;
}

void client_free(struct client *c)
{
	if (!c)
		return;
	struct client_exchange *x;
	while ((x = LIST_FIRST(&c->exchanges)) != NULL)
		client_stop(x); /* NOLINT(clang-analyzer-unix.Malloc): it takes it off the list */
	if (c->multi)
		(void)curl_multi_cleanup(c->multi); /* no handle is left in it */
	str_wipe(&c->authorization);
	free(c->url);
	free(c);
}

/* ---- one document, again and again ----------------------------------------------------------- */

enum { DOUBLINGS_MAX = 16 };

struct fetch {
	struct fetch_settings settings;
	struct arena arena; /* of the settings */
	pthread_t thread;
	atomic_bool stop;
	struct client *client;
	/* Only the thread uses the rest. */
	const struct client_exchange *asking; /* NULL: none */
	int64_t begun_ms, next_ms;            /* the start of this attempt, and of the next one */
	unsigned failures;                    /* in a row */
};

int64_t fetch_pause_ms(int64_t interval_ms, unsigned failures)
{
	int64_t most = interval_ms > FETCH_PAUSE_MS ? interval_ms : FETCH_PAUSE_MS;
	unsigned doublings = failures > FETCH_PATIENCE ? failures - FETCH_PATIENCE : 0;
	if (doublings > DOUBLINGS_MAX)
		doublings = DOUBLINGS_MAX;
	int64_t ms = interval_ms << doublings;
	return ms < most ? ms : most;
}

static void fetch_ended(void *arg, const struct client_answer *a)
{
	struct fetch *f = arg;
	const struct fetch_settings *s = &f->settings;
	ERR_AUTO e = { 0 };
	int bad;
	if (a->problem)
		bad = err_set(&e, UNKNOWN_ERROR, "%s", a->problem);
	else if (a->status != 200)
		bad = err_set(&e, UNKNOWN_ERROR, "it answers %d", a->status);
	else
		bad = s->take(s->arg, a->body, &e);
	f->failures = bad ? f->failures + 1 : 0;
	if (bad)
		s->failed(s->arg, f->failures, &e);
	f->asking = NULL;
	f->next_ms = f->begun_ms + fetch_pause_ms(s->interval_ms, f->failures);
}

static void *fetch_main(void *arg)
{
	struct fetch *f = arg;
	const struct fetch_settings *s = &f->settings;
	const struct client_call call = {
		.method = "GET",
		.path = s->path,
		.max = s->max,
		.timeout_ms = s->interval_ms < FETCH_TIMEOUT_MS ? s->interval_ms : FETCH_TIMEOUT_MS,
		.ended = fetch_ended,
		.arg = f,
	};
	while (!atomic_load(&f->stop)) {
		ERR_AUTO e = { 0 };
		if (!f->asking && clock_ms() >= f->next_ms) {
			f->begun_ms = clock_ms();
			f->next_ms = f->begun_ms + fetch_pause_ms(s->interval_ms, f->failures);
			f->asking = client_start(f->client, &call, &e); /* else the next time */
		}
		/* Returns earlier on curl_multi_wakeup. */
		client_run_once(f->client, f->asking ? TURN_MS_MAX : f->next_ms - clock_ms(), -1);
	}
	return NULL;
}

struct fetch *fetch_new(const struct fetch_settings *s, struct err *e)
{
	const char *fault;
	struct fetch *f = xcalloc(1, sizeof(*f));
	f->settings = *s;
	f->settings.path = arena_dup(&f->arena, span_of(s->path));
	f->client = xcalloc(1, sizeof(*f->client));
	f->client->url = address_read(s->url, false, &fault);
	if (!f->client->url) /* the URL can have a password */
		(void)err_set(e, 400, NULL, "%s", fault);
	else if (client_connect(f->client, arena_dup(&f->arena, span_of(s->ca_file)), e) == 0) {
		if (pthread_create(&f->thread, NULL, fetch_main, f) == 0)
			return f;
		(void)err_set(e, UNKNOWN_ERROR, "pthread_create failed");
	}
	client_free(f->client);
	arena_done(&f->arena);
	free(f);
	return NULL;
}

void fetch_free(struct fetch *f)
{
	if (!f)
		return;
	atomic_store(&f->stop, true);
	(void)curl_multi_wakeup(f->client->multi);
	(void)pthread_join(f->thread, NULL); /* our own thread, joined once */
	client_free(f->client);
	arena_done(&f->arena);
	free(f);
}
