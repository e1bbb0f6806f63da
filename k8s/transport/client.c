#include "k8s/transport/client.h"

#include <stdlib.h>

#include "base/enc.h"
#include "k8s/transport/curl.h"

enum { HEADER_MAX = 16 * 1024, RECEIVE = 64 << 10, TURN_MS_MAX = 60000 };

struct exchange {
	struct client *client;
	struct exchange *next, **at;
	CURL *easy;
	struct curl_slist *headers;
	char *target;
	struct client_call call;
	struct str body;
	bool unwanted; /* `piece` has had enough */
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

static int status_of(const struct exchange *x)
{
	long status = 0;
	(void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status); /* stays 0 */
	return (int)status;
}

static size_t take_body(char *from, size_t size, size_t count, void *arg)
{
	struct exchange *x = arg;
	size_t n = size * count;
	if (x->call.piece && status_of(x) / 100 == 2)
		x->unwanted = !x->call.piece(x->call.arg, (struct span){ from, n });
	else
		str_put(&x->body, from, n);
	return x->unwanted || x->body.full ? 0 : n; /* 0 ends the transfer */
}

/* What no second attempt will mend. */
static bool is_hopeless(CURLcode result)
{
	return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CONNECT_ERROR ||
	       result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_ISSUER_ERROR ||
	       result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_URL_MALFORMAT ||
	       result == CURLE_WEIRD_SERVER_REPLY;
}

static const char *problem_of(const struct exchange *x, CURLcode result)
{
	if (x->body.full)
		return "the answer is too long";
	if (result == CURLE_OK || x->unwanted)
		return NULL;
	if (result == CURLE_COULDNT_CONNECT)
		return "nobody listens there: is the server running (rest-lit serve), and is this "
		       "its address (--server)?";
	if (result == CURLE_OPERATION_TIMEDOUT)
		return "it takes too long to answer";
	return x->error[0] ? x->error : curl_easy_strerror(result);
}

static void drop(struct exchange *x)
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

static void answered(struct exchange *x, CURLcode result)
{
	struct client_answer a = { .status = status_of(x), .body = str_view(&x->body) };
	struct curl_header *location = NULL;
	curl_off_t seconds = 0;
	(void)curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &seconds); /* stays 0 */
	a.retry_after_s = seconds;
	if (curl_easy_header(x->easy, "Location", 0, CURLH_HEADER, -1, &location) == CURLHE_OK)
		a.location = location->value;
	a.problem = problem_of(x, result);
	a.hopeless = a.problem && (x->body.full || is_hopeless(result));
	x->call.ended(x->call.arg, &a);
	drop(x);
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
		answered(x, result);
	}
	if (!any)
		(void)curl_multi_poll(c->multi, &extra, fd >= 0, ms, NULL);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void add_header(struct exchange *x, const char *name, const char *value)
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
	add_header(x, "Content-Type: ", call->type);
	add_header(x, "Expect:", "");
	return bad;
}

static CURLcode set_times(struct exchange *x)
{
	CURL *h = x->easy;
	CURLcode bad = curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)x->call.timeout_ms);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
	return bad ?: curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (long)x->call.silence_s);
}

static CURLcode set_up(struct exchange *x)
{
	const struct client *c = x->client;
	CURL *h = x->easy;
	bool plain = span_starts(span_of(c->url), "http://");
	CURLcode bad = curl_set_ca_bundle(h, c->ca_file[0] ? c->ca_file : NULL);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, plain ? "http" : "https");
	bad = bad ?: curl_easy_setopt(h, CURLOPT_URL, x->target);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)RECEIVE);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_PRIVATE, x);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_ERRORBUFFER, x->error);
	bad = bad ?: set_times(x);
	bad = bad ?: set_body(x);
	bad = bad ?: curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, x->call.method);
	if (c->authorization.n && !x->call.link)
		add_header(x, "Authorization: Bearer ", str_c(&c->authorization));
	if (x->call.key)
		add_header(x, "Idempotency-Key: ", x->call.key);
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
	CURLcode bad = set_up(x);
	CURLMcode worse = bad ? CURLM_OK : curl_multi_add_handle(c->multi, easy);
	if (!bad && !worse)
		return x;
	(void)err_set(e, UNKNOWN_ERROR, "libcurl: %s",
	              bad ? curl_easy_strerror(bad) : curl_multi_strerror(worse));
	drop(x);
	return NULL;
}

void client_stop(struct exchange *x)
{
	drop(x);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A header can be made of it. */
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
		return err_set(e, 400, NULL, "--server: %s", fault); /* a password may be in it */
	const char *path = strchr(strstr(c->url, "://") + 3, '/');
	c->origin = path ? (size_t)(path - c->url) : strlen(c->url);
	if (!token_fits(s->token))
		return err_set(e, 400, NULL, "what is in --token-file is no token");
	str_span(&c->authorization, s->token);
	if (c->authorization.full)
		return err_set(e, 400, NULL, "what is in --token-file is too long for a token");
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
		drop(x);
	}
	if (c->multi)
		(void)curl_multi_cleanup(c->multi); /* no handle is left in it */
	str_wipe(&c->authorization);
	free(c->url);
	free(c);
}
