#include "k8s/transport/http_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/enc.h"
#include "k8s/transport/curl.h"
#include "k8s/transport/store.h"

enum { HEADER_MAX = 16 * 1024, RECEIVE = 64 << 10, TURN_MS_MAX = 60000 };

struct exchange {
	struct client *client;
	struct exchange *next, **at;
	CURL *easy;
	struct curl_slist *headers;
	char *target;
	struct client_call call;
	struct str body;
	bool unwanted; /* `piece` has returned false */
	char error[CURL_ERROR_SIZE];
};

struct client {
	CURLM *multi;
	char *url;
	size_t origin; /* bytes of url: scheme, host and port */
	const char *ca_file;
	struct str authorization; /* "": none */
	struct exchange *first;
};

/* ---- answers --------------------------------------------------------------------------------- */

static int client_status_of(const struct exchange *x)
{
	long status = 0;
	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 */
	return (int)status;
}

static size_t client_take_body(char *from, size_t size, size_t count, void *arg)
{
	struct exchange *x = arg;
	size_t n = size * count;
	if (x->call.piece && client_status_of(x) / 100 == 2)
		x->unwanted = !x->call.piece(x->call.arg, (struct span){ from, n });
	else
		str_put(&x->body, from, n);
	return x->unwanted || x->body.full ? 0 : n; /* 0 ends the transfer */
}

/* A repetition would fail, too.  CURLE_SSL_CONNECT_ERROR is not of these: a server that ends during
 * the handshake causes it, as a port without TLS does. */
static bool is_hopeless(CURLcode result)
{
	return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE ||
	       result == CURLE_SSL_ISSUER_ERROR || result == CURLE_UNSUPPORTED_PROTOCOL ||
	       result == CURLE_URL_MALFORMAT || result == CURLE_WEIRD_SERVER_REPLY;
}

static const char *problem_of(struct exchange *x, CURLcode result)
{
	if (x->body.full)
		return "the answer is too long";
	if (result == CURLE_OK || x->unwanted)
		return NULL;
	if (result == CURLE_COULDNT_CONNECT)
		return "cannot connect: is the server running (rest-lit serve), and is this "
		       "its address (--server)?";
	if (result == CURLE_OPERATION_TIMEDOUT)
		return "it takes too long to answer";
	size_t n = strlen(x->error);
	if (result == CURLE_SSL_CONNECT_ERROR)
		(void)snprintf(x->error + n, sizeof(x->error) - n,
		               "%sthe server ended, or does not speak TLS on this port",
		               n ? "; " : "");
	return x->error[0] ? x->error : curl_easy_strerror(result);
}

static void client_drop(struct exchange *x)
{
	*x->at = x->next;
	if (x->next)
		x->next->at = x->at;
	(void)curl_multi_remove_handle(x->client->multi, x->easy); /* it was added */
	curl_easy_cleanup(x->easy);
	curl_slist_free_all(x->headers);
	str_wipe(&x->body);
	free(x->target);
	free(x);
}

static void client_answered(struct exchange *x, CURLcode result)
{
	struct client_answer a = { .status = client_status_of(x), .body = str_view(&x->body) };
	struct curl_header *location = NULL;
	curl_off_t seconds = 0;
	(void)curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &seconds); /* stays 0 */
	a.retry_after_s = seconds;
	if (curl_easy_header(x->easy, "Location", 0, CURLH_HEADER, -1, &location) == CURLHE_OK)
		a.location = location->value;
	a.problem = problem_of(x, result);
	a.hopeless = a.problem && (x->body.full || is_hopeless(result));
	x->call.ended(x->call.arg, &a);
	client_drop(x);
}

void client_run_once(struct client *c, int64_t timeout_ms, int fd)
{
	struct curl_waitfd extra = { .fd = fd, .events = CURL_WAIT_POLLIN };
	int ms = timeout_ms < 0 ? 0 : timeout_ms < TURN_MS_MAX ? (int)timeout_ms : TURN_MS_MAX;
	int n;
	(void)curl_multi_perform(c->multi, &n); /* errors show in the transfers */
	bool any = false;
	for (const CURLMsg *m; (m = curl_multi_info_read(c->multi, &n)); any = true) {
		struct exchange *x = NULL;
		CURLcode result = m->data.result;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x); /* set */
		client_answered(x, result);
	}
	if (!any)
		(void)curl_multi_poll(c->multi, &extra, fd >= 0, ms, NULL);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void client_add_header(struct exchange *x, const char *name, const char *value)
{
	STR_AUTO line = STR_SECRET(HEADER_MAX);
	str_puts(&line, name);
	str_puts(&line, value);
	x->headers = curl_slist_append(x->headers, str_c(&line));
}

static CURLcode set_body(struct exchange *x)
{
	const struct client_call *call = &x->call;
	if (!call->type)
		return CURLE_OK;
	CURLcode bad =
	    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
	bad = bad ?: curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, call->body.p);
	client_add_header(x, "Content-Type: ", call->type);
	client_add_header(x, "Expect:", "");
	return bad;
}

static CURLcode set_times(struct exchange *x)
{
	CURL *h = x->easy;
	CURLcode bad = curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)x->call.timeout_ms);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
	return bad ?: curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (long)x->call.silence_s);
}

static CURLcode client_set_up(struct exchange *x)
{
	const struct client *c = x->client;
	CURL *h = x->easy;
	bool plain = span_starts(span_of(c->url), "http://");
	CURLcode bad = curl_set_ca_bundle(h, c->ca_file[0] ? c->ca_file : NULL);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
	bad = bad ?: curl_easy_setopt(h, CURLOPT_URL, x->target);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, client_take_body);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_PRIVATE, x);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_ERRORBUFFER, x->error);
	bad = bad ?: set_times(x);
	bad = bad ?: set_body(x);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, x->call.method);
	if (c->authorization.n && !x->call.link)
		client_add_header(x, "Authorization: Bearer ", str_c(&c->authorization));
	if (x->call.key)
		client_add_header(x, "Idempotency-Key: ", x->call.key);
	return bad ?: curl_easy_setopt(h, CURLOPT_HTTPHEADER, x->headers);
}

static void enlist(struct client *c, struct exchange *x)
{
	x->next = c->first;
	x->at = &c->first;
	if (x->next)
		x->next->at = &x->next;
	c->first = x;
}

struct exchange *client_start(struct client *c, const struct client_call *call, struct err *e)
{
	CURL *easy = curl_bare(e);
	if (!easy)
		return NULL;
	struct exchange *x = xcalloc(1, sizeof(*x));
	int n = call->link ? (int)c->origin : (int)strlen(c->url);
	*x = (struct exchange){ .client = c, .easy = easy, .call = *call };
	x->body = (struct str)STR_INIT(call->max);
	x->target = xasprintf("%.*s%s", n, c->url, call->path);
	enlist(c, x);
	CURLcode bad = client_set_up(x);
	CURLMcode worse = bad ? CURLM_OK : curl_multi_add_handle(c->multi, easy);
	if (!bad && !worse)
		return x;
	(void)err_set(e, UNKNOWN_ERROR, "libcurl: %s",
	              bad ? curl_easy_strerror(bad) : curl_multi_strerror(worse));
	client_drop(x);
	return NULL;
}

void client_stop(struct exchange *x)
{
	client_drop(x);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Valid in a header line. */
static bool token_fits(struct span t)
{
	for (size_t i = 0; i < t.n; i++)
		if (t.p[i] <= ' ' || t.p[i] > '~')
			return false;
	return true;
}

static int connect_to(struct client *c, const struct client_settings *s, struct err *e)
{
	const char *fault;
	c->url = address_read(s->url, true, &fault);
	if (!c->url)
		return err_set(e, 400, NULL, "--server: %s",
		               fault); /* the URL can have a password */
	const char *path = strchr(strstr(c->url, "://") + 3, '/');
	c->origin = path ? (size_t)(path - c->url) : strlen(c->url);
	if (!token_fits(s->token))
		return err_set(e, 400, NULL, "--token-file does not contain a valid token");
	str_span(&c->authorization, s->token);
	if (c->authorization.full)
		return err_set(e, 400, NULL, "--token-file contains a token that is too long");
	if (curl_ca_check(s->ca_file, e) < 0 || curl_start(e) < 0)
		return -1;
	c->multi = curl_multi_init();
	return c->multi ? 0 : err_set(e, UNKNOWN_ERROR, "libcurl: no memory for a multi handle");
}

struct client *client_new(const struct client_settings *s, struct err *e)
{
	struct client *c = xcalloc(1, sizeof(*c));
	c->authorization = (struct str)STR_SECRET(HEADER_MAX / 2);
	c->ca_file = s->ca_file;
	if (connect_to(c, s, e) == 0)
		return c;
	client_free(c);
	return NULL;
}

void client_free(struct client *c)
{
	if (!c)
		return;
	for (struct exchange *x = c->first, *next; x; x = next) {
		next = x->next;
		client_drop(x);
	}
	if (c->multi)
		(void)curl_multi_cleanup(c->multi); /* no handle is left in it */
	str_wipe(&c->authorization);
	free(c->url);
	free(c);
}

enum { POLL_MS = 60000, FETCH_RECEIVE = 64 << 10, DOUBLINGS_MAX = 16 };

struct fetch {
	struct fetch_settings settings;
	struct arena arena; /* of the settings */
	pthread_t thread;
	atomic_bool stop;
	/* Only the thread uses the rest. */
	CURLM *multi;
	CURL *easy;
	bool asking;
	int64_t next_ms; /* start of the next request, while not asking */
	int64_t begun_ms;
	unsigned failures; /* in a row */
	struct str body;
	char error[CURL_ERROR_SIZE];
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

static size_t fetch_take_body(char *from, size_t size, size_t count, void *arg)
{
	struct str *body = arg;
	str_put(body, from, size * count);
	return body->full ? 0 : size * count; /* 0 ends the transfer */
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void fetch_begin(struct fetch *f)
{
	f->begun_ms = clock_ms();
	f->error[0] = '\0';
	f->asking = curl_multi_add_handle(f->multi, f->easy) == CURLM_OK;
	if (!f->asking)
		f->next_ms = f->begun_ms + fetch_pause_ms(f->settings.interval_ms, f->failures);
}

/* Checks the answer.  -1 and *e. */
static int fetch_judge(const struct fetch *f, CURLcode result, struct err *e)
{
	long status = 0;
	(void)curl_easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 */
	if (f->body.full)
		return err_set(e, UNKNOWN_ERROR, "it answers with more than %zu bytes",
		               f->settings.max);
	if (result == CURLE_OPERATION_TIMEDOUT)
		return err_set(e, UNKNOWN_ERROR, "it takes too long to answer");
	if (result != CURLE_OK)
		return err_set(e, UNKNOWN_ERROR, "%s",
		               f->error[0] ? f->error : curl_easy_strerror(result));
	if (status != 200)
		return err_set(e, UNKNOWN_ERROR, "it answers %ld", status);
	return f->settings.take(f->settings.arg, str_view(&f->body), e);
}

static void fetch_answered(struct fetch *f, CURLcode result)
{
	ERR_AUTO e = { 0 };
	f->failures = fetch_judge(f, result, &e) < 0 ? f->failures + 1 : 0;
	if (f->failures)
		f->settings.failed(f->settings.arg, f->failures, &e);
	str_done(&f->body);
	f->body = (struct str)STR_INIT(f->settings.max);
	(void)curl_multi_remove_handle(f->multi, f->easy); /* it was added */
	f->asking = false;
	f->next_ms = f->begun_ms + fetch_pause_ms(f->settings.interval_ms, f->failures);
}

static void read_answer(struct fetch *f)
{
	int left;
	const CURLMsg *m = curl_multi_info_read(f->multi, &left);
	if (m)
		fetch_answered(f, m->data.result);
}

static int fetch_time_to_wait(const struct fetch *f)
{
	int64_t ms = f->asking ? POLL_MS : f->next_ms - clock_ms();
	return ms < 0 ? 0 : ms < POLL_MS ? (int)ms : POLL_MS;
}

static void *fetch_main(void *arg)
{
	struct fetch *f = arg;
	int running;
	while (!atomic_load(&f->stop)) {
		if (!f->asking && clock_ms() >= f->next_ms)
			fetch_begin(f);
		(void)curl_multi_perform(f->multi, &running); /* errors show in the transfer */
		read_answer(f);
		/* Returns earlier if libcurl has work, or on curl_multi_wakeup. */
		(void)curl_multi_poll(f->multi, NULL, 0, fetch_time_to_wait(f), NULL);
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int fetch_set_up_handle(struct fetch *f, const char *url, struct err *e)
{
	const struct fetch_settings *s = &f->settings;
	bool plain = span_starts(span_of(url), "http://");
	FREE_AUTO char *target = xasprintf("%s%s", url, s->path);
	long timeout = s->interval_ms < FETCH_TIMEOUT_MS ? (long)s->interval_ms : FETCH_TIMEOUT_MS;
	f->easy = curl_bare(e);
	if (!f->easy)
		return -1;
	CURL *h = f->easy;
	CURLcode bad = curl_set_ca_bundle(h, s->ca_file[0] ? s->ca_file : NULL);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
	bad = bad ?: curl_easy_setopt(h, CURLOPT_URL, target);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, timeout);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)FETCH_RECEIVE);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, fetch_take_body);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEDATA, &f->body);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_ERRORBUFFER, f->error);
	return bad ? err_set(e, UNKNOWN_ERROR, "libcurl: %s", curl_easy_strerror(bad)) : 0;
}

static int fetch_set_up(struct fetch *f, struct err *e)
{
	const struct fetch_settings *s = &f->settings;
	const char *fault;
	FREE_AUTO char *url = address_read(s->url, false, &fault);
	if (!url)
		return err_set(e, 400, NULL, "%s", fault); /* the URL can have a password */
	if (curl_ca_check(s->ca_file, e) < 0 || curl_start(e) < 0)
		return -1;
	f->multi = curl_multi_init();
	if (!f->multi)
		return err_set(e, UNKNOWN_ERROR, "libcurl: a multi handle cannot be set up");
	if (fetch_set_up_handle(f, url, e) < 0)
		return -1;
	return pthread_create(&f->thread, NULL, fetch_main, f)
	           ? err_set(e, UNKNOWN_ERROR, "pthread_create failed")
	           : 0;
}

static void fetch_done(struct fetch *f)
{
	if (f->asking)
		(void)curl_multi_remove_handle(f->multi, f->easy); /* it was added */
	curl_easy_cleanup(f->easy);
	if (f->multi)
		(void)curl_multi_cleanup(f->multi); /* no handle is left in it */
	str_done(&f->body);
	arena_done(&f->arena);
	free(f);
}

struct fetch *fetch_new(const struct fetch_settings *s, struct err *e)
{
	struct fetch *f = xcalloc(1, sizeof(*f));
	f->settings = *s;
	f->settings.url = arena_dup(&f->arena, span_of(s->url));
	f->settings.path = arena_dup(&f->arena, span_of(s->path));
	f->settings.ca_file = arena_dup(&f->arena, span_of(s->ca_file));
	f->body = (struct str)STR_INIT(s->max);
	if (fetch_set_up(f, e) == 0)
		return f;
	fetch_done(f);
	return NULL;
}

void fetch_free(struct fetch *f)
{
	if (!f)
		return;
	atomic_store(&f->stop, true);
	(void)curl_multi_wakeup(f->multi);
	(void)pthread_join(f->thread, NULL); /* our own thread, joined once */
	fetch_done(f);
}
