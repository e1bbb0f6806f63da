/*
 * The store backend for an API server: a pool of libcurl handles on one curl_loop.
 *
 * libcurl does not report what it has sent, and it repeats a POST by itself when a kept connection
 * turns out to be dead.  So before_sending, which libcurl calls when it has a connection, notes
 * that the request may be sent from now on, and refuses a second time.  reply.c decides what an
 * answer means.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/time.h"
#include "k8s/transport/curl.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"
#include "k8s/transport/store_internal.h"

enum {
	LATE_MS = 250,         /* after a deadline; libcurl keeps it earlier */
	RETRY_AFTER_MAX_S = 2, /* an outage may end earlier, and undoing has 5 s */
	MESSAGE_MAX = 2048,
	URL_MAX = 4096,
	PRECONDITION_MAX = 1024,
};

static const int64_t NEVER = INT64_MAX;
static const char READINESS[] = "rest-lit-readiness";

struct transfer {
	struct transfer *next; /* in the list of idle ones */
	void *item;            /* its struct pending; NULL if idle */
	CURL *easy;
	struct str answer; /* the body of the answer; may hold secrets */
	struct str body;   /* of the request, if it had to be put together */
	bool has_body;
	bool begun;    /* it may have been sent */
	bool repeated; /* libcurl wanted to send it again */
	bool stale;    /* it was not sent, because the peer had closed the connection */
	struct curl_loop *curl;
	struct curl_slist *headers;
	char error[CURL_ERROR_SIZE];
};

/* Common to all requests of a store. */
struct transfer_common {
	const char *url, *namespace_name;
	struct span authorization; /* the header line, or empty */
	size_t answer_max;
	bool whole_objects; /* this API server does not send metadata alone */
};

struct api_store {
	struct store s; /* first */
	struct login *login;
	struct curl_loop curl;
	int64_t late_ms;            /* the earliest deadline of a transfer plus LATE_MS; NEVER */
	struct transfer *transfers; /* limits.in_flight of them */
	struct transfer *idle;
	struct pending_list broken; /* requests with invalid names */
	struct login_header authorization;
	struct backoff backoff;
	bool whole_objects; /* this API server does not send metadata alone */
};

static struct api_store *api_of(struct store *s)
{
	return (struct api_store *)s;
}

/* ---- a transfer: callbacks of libcurl ------------------------------------------------ */

/* libcurl prescribes the parameters. NOLINTNEXTLINE(readability-function-size) */
static int before_sending(void *arg, char *to, char *from, int to_port, int from_port)
{
	struct transfer *t = arg;
	(void)to;
	(void)from;
	(void)to_port;
	t->repeated = t->begun && t->has_body;
	t->stale = !t->begun && curl_loop_is_over(t->curl, from_port);
	t->begun = t->begun || !t->stale;
	return t->repeated || t->stale ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static size_t write_answer(char *from, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t n = size * count;
	str_put(&t->answer, from, n);
	return t->answer.full ? 0 : n; /* 0 ends the transfer */
}

/* ---- a handle ---------------------------------------------------------------------- */

static int transfer_init(struct transfer *t, struct api_store *a, struct err *e)
{
	*t = (struct transfer){ .easy = curl_handle(a->login, e), .curl = &a->curl };
	if (t->easy == NULL)
		return -1;
	curl_loop_keep_sockets(&a->curl, t->easy);
	CURL_SET(t->easy, CURLOPT_PREREQFUNCTION, before_sending);
	CURL_SET(t->easy, CURLOPT_PREREQDATA, t);
	CURL_SET(t->easy, CURLOPT_WRITEFUNCTION, write_answer);
	CURL_SET(t->easy, CURLOPT_WRITEDATA, t);
	CURL_SET(t->easy, CURLOPT_PRIVATE, t);
	CURL_SET(t->easy, CURLOPT_ERRORBUFFER, t->error);
	CURL_SET(t->easy, CURLOPT_USERAGENT, "rest-lit/" REST_LIT_VERSION);
	return 0;
}

static void transfer_clear(struct transfer *t)
{
	CURL_SET(t->easy, CURLOPT_HTTPHEADER, NULL);
	CURL_SET(t->easy, CURLOPT_POSTFIELDS, NULL);
	curl_free_headers(&t->headers);
	str_wipe(&t->answer);
	str_wipe(&t->body);
}

static void transfer_done(struct transfer *t)
{
	if (t->easy == NULL)
		return;
	transfer_clear(t);
	curl_easy_cleanup(t->easy);
	t->easy = NULL;
}

/* ---- a request --------------------------------------------------------------------- */

/* No characters that end the request line or the query. */
static bool query_ok(const char *query)
{
	for (const char *p = query; *p != '\0'; p++) {
		if (*p <= ' ' || *p > '~' || *p == '#')
			return false;
	}
	return true;
}

/* A collection, or one object of it. */
static int api_put_path(struct str *url, const struct store_request *r, const char *namespace_name)
{
	bool collection = r->verb == STORE_CREATE || r->verb == STORE_LIST;
	if (!collection && r->name == NULL)
		return -1;
	if (r->verb == STORE_CREATE && r->name != NULL && !segment_ok(r->name))
		return -1;
	return path_write(url, r->kind, namespace_name, collection ? NULL : r->name);
}

static int set_url(struct transfer *t, const struct store_request *r,
                   const struct transfer_common *c)
{
	STR_AUTO url = STR_INIT(URL_MAX);
	str_puts(&url, c->url);
	if (api_put_path(&url, r, r->namespace_name ? r->namespace_name : c->namespace_name) != 0)
		return -1;
	if (r->dry_run)
		str_puts(&url, "?dryRun=All");
	if (r->verb == STORE_LIST && r->query != NULL) {
		if (!query_ok(r->query))
			return -1;
		str_printf(&url, "?%s", r->query);
	}
	if (url.full)
		return -1;
	CURL_SET(t->easy, CURLOPT_URL, str_c(&url));
	return 0;
}

#define ACCEPT_METADATA "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#define ACCEPT_METADATA_LIST                                                                       \
	"Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

static void api_set_headers(struct transfer *t, const struct store_request *r,
                            const struct transfer_common *c)
{
	bool whole = r->whole || c->whole_objects || r->verb == STORE_DELETE;
	curl_add_header(&t->headers, whole                   ? "Accept: application/json"
	                             : r->verb == STORE_LIST ? ACCEPT_METADATA_LIST
	                                                     : ACCEPT_METADATA);
	curl_add_header(&t->headers, r->verb != STORE_PATCH ? "Content-Type: application/json"
	                             : r->json_patch
	                                 ? "Content-Type: application/json-patch+json"
	                                 : "Content-Type: application/merge-patch+json");
	curl_add_header(&t->headers, "Expect:");
	if (c->authorization.n > 0)
		curl_add_header(&t->headers, c->authorization.p); /* of a str: it ends in NUL */
	CURL_SET(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static void put_condition(struct str *out, const char *key, const char *value)
{
	if (value == NULL)
		return;
	str_puts(out, out->p[out->n - 1] == '{' ? "\"" : ",\"");
	str_printf(out, "%s\":", key);
	str_json(out, span_of(value));
}

static void write_precondition(struct str *out, const struct store_request *r)
{
	*out = STR_INIT(PRECONDITION_MAX);
	str_puts(out, "{\"preconditions\":{");
	put_condition(out, "uid", r->uid);
	put_condition(out, "resourceVersion", r->resource_version);
	/* With options in the body, API servers ignore those in the query. */
	str_puts(out, r->dry_run ? "},\"dryRun\":[\"All\"]}" : "}}");
	assert(!out->full); /* both texts are short */
}

/* In one piece, because libcurl sends it in one call with the headers then. */
static struct span transfer_body(struct transfer *t, const struct store_request *r)
{
	size_t rest = r->body[1].n + r->body[2].n;
	if (r->verb == STORE_DELETE) {
		write_precondition(&t->body, r);
		return str_view(&t->body);
	}
	if (r->verb != STORE_CREATE && r->verb != STORE_PATCH)
		return SPAN("");
	if (rest == 0)
		return r->body[0];
	t->body = STR_SECRET(r->body[0].n + rest);
	for (size_t i = 0; i < 3; i++)
		str_span(&t->body, r->body[i]);
	return str_view(&t->body);
}

static void set_method(struct transfer *t, const struct store_request *r)
{
	static const char *const METHODS[] = {
		[STORE_CREATE] = NULL, /* CURLOPT_POST sets it */
		[STORE_GET] = NULL,        [STORE_LIST] = NULL,  [STORE_PATCH] = "PATCH",
		[STORE_DELETE] = "DELETE", [STORE_READY] = NULL,
	};
	struct span body = transfer_body(t, r);
	t->has_body = body.n > 0;
	t->begun = t->repeated = t->stale = false;
	if (t->has_body) {
		CURL_SET(t->easy, CURLOPT_POST, 1L);
		CURL_SET(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
		CURL_SET(t->easy, CURLOPT_POSTFIELDS, body.p);
	} else {
		CURL_SET(t->easy, CURLOPT_HTTPGET, 1L);
	}
	CURL_SET(t->easy, CURLOPT_CUSTOMREQUEST, METHODS[r->verb]);
}

static int transfer_prepare(struct transfer *t, const struct store_request *r,
                            const struct transfer_common *c)
{
	if (set_url(t, r, c) != 0)
		return -1;
	set_method(t, r);
	api_set_headers(t, r, c);
	int64_t left = r->deadline_ms - clock_ms();
	CURL_SET(t->easy, CURLOPT_TIMEOUT_MS, (long)(left > 0 ? left : 1));
	CURL_SET(t->easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)c->answer_max); /* a hint only */
	t->answer = STR_SECRET(c->answer_max);
	t->error[0] = '\0';
	return 0;
}

/* ---- results ----------------------------------------------------------------------- */

static const char *result_reason(CURLcode result, int status)
{
	if (result != CURLE_OK)
		return curl_easy_strerror(result);
	switch (status) {
	case 403:
		return "it answered 403 Forbidden";
	case 429:
		return "it answered 429 Too Many Requests";
	case 500:
		return "it answered 500 Internal Server Error";
	case 503:
		return "it answered 503 Service Unavailable";
	default:
		return "its answer could not be understood";
	}
}

/* A repetition would fail, too. */
static bool is_permanent(CURLcode result)
{
	switch ((int)result) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
		return true;
	default:
		return false;
	}
}

static int result_retry_after_s(const struct transfer *t)
{
	curl_off_t s = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &s);
	return s < 0 || s > 3600 ? 3600 : (int)s;
}

static bool result_connected(const struct transfer *t)
{
	long n = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &n); /* stays 0 */
	return n > 0;
}

static struct exchange result_exchange(const struct transfer *t, CURLcode result,
                                       const json_t *answer)
{
	return (struct exchange){
		.complete = result == CURLE_OK,
		.begun = t->begun,
		.permanent = is_permanent(result),
		.too_large = t->answer.full || result == CURLE_FILESIZE_EXCEEDED,
		.just_connected = result_connected(t),
		.status = curl_status(t->easy),
		.answer = answer,
	};
}

static int64_t result_date_s(const struct transfer *t)
{
	struct curl_header *h = NULL;
	int64_t ms = 0;
	if (curl_easy_header(t->easy, "Date", 0, CURLH_HEADER, -1, &h) == CURLHE_OK &&
	    h->amount == 1)
		(void)http_date_read(span_of(h->value), &ms);
	return ms / 1000;
}

static void result_message(struct str *out, const struct transfer *t, CURLcode result,
                           const struct exchange *x)
{
	if (x->too_large)
		str_printf(out, "its answer is larger than %zu bytes", t->answer.max);
	else if (result != CURLE_OK)
		str_puts(out, t->error[0] ? t->error : curl_easy_strerror(result));
	else
		str_printf(out, "HTTP status %d%s", x->status, x->answer ? " " : "");
	if (result == CURLE_OK)
		reply_digest(out, x->answer);
}

static enum api_health result_api_health(const struct transfer *t, CURLcode result,
                                         const struct exchange *x)
{
	if (x->complete)
		return x->status == 429 || x->status == 503 ? API_BUSY : API_ANSWERS;
	curl_off_t ready_us = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
	if (x->too_large || x->permanent || result == CURLE_ABORTED_BY_CALLBACK ||
	    (result == CURLE_OPERATION_TIMEDOUT && ready_us > 0))
		return API_UNKNOWN;
	return API_AWAY;
}

/* ---- sending ----------------------------------------------------------------------- */

static int64_t late_ms(const struct pending *p)
{
	return p->r.deadline_ms < NEVER - LATE_MS ? p->r.deadline_ms + LATE_MS : NEVER;
}

static void api_send(struct api_store *a, struct transfer *t)
{
	CURLMcode bad = curl_multi_add_handle(a->curl.multi, t->easy);
	assert(bad == CURLM_OK);
	curl_loop_start(&a->curl, a->s.in_flight);
}

static void api_begin(struct store *s, struct pending *p)
{
	struct api_store *a = api_of(s);
	if (p->r.verb == STORE_READY) {
		p->r.kind = KIND_FRAMEWORK;
		p->r.name = READINESS;
	}
	login_header_refresh(a->login, &a->authorization);
	struct transfer_common common = {
		.url = a->login->url,
		.namespace_name = s->namespace_name,
		.authorization = str_view(&a->authorization.line),
		.answer_max = p->r.verb == STORE_LIST ? 4 * s->limits.body : s->limits.body,
		.whole_objects = a->whole_objects,
	};
	struct transfer *t = a->idle;
	assert(t != NULL); /* there are limits.in_flight transfers */
	if (transfer_prepare(t, &p->r, &common) != 0) {
		p->next = a->broken.head;
		a->broken.head = p;
		return;
	}
	a->idle = t->next;
	t->item = p;
	if (late_ms(p) < a->late_ms)
		a->late_ms = late_ms(p);
	api_send(a, t);
}

/* ---- answers ----------------------------------------------------------------------- */

static void api_note(struct api_store *a, const struct transfer *t, CURLcode result,
                     const struct exchange *x)
{
	bool connected = x->complete && result_connected(t);
	backoff_note(&a->backoff, result_api_health(t, result, x), connected, clock_ms());
	store_throttle(&a->s, a->backoff.at_once);
	store_pause(&a->s, a->backoff.until_ms);
}

/* The time of the next try; obeys Retry-After up to RETRY_AFTER_MAX_S. */
static int64_t next_try_ms(const struct pending *p, int wait_s)
{
	int64_t wait_ms = (int64_t)(wait_s < RETRY_AFTER_MAX_S ? wait_s : RETRY_AFTER_MAX_S) * 1000;
	int64_t pause_ms = backoff_ms(p->tries - 1);
	return clock_ms() + (wait_ms > pause_ms ? wait_ms : pause_ms);
}

static void answer(struct store *s, struct transfer *t, struct store_reply *reply,
                   const json_t *object)
{
	const json_t *meta = json_object_get(object, "metadata");
	struct pending *p = t->item;
	reply->body = str_view(&t->answer);
	if (reply->outcome == STORE_BUSY && p->maybe_executed)
		reply->outcome = STORE_AMBIGUOUS;
	bool is_object = reply->outcome == STORE_OK;
	reply->uid = span_of(is_object ? reply_text(meta, "uid") : "");
	reply->resource_version = span_of(is_object ? reply_text(meta, "resourceVersion") : "");
	store_finish(s, p, reply);
}

static void api_release(struct api_store *a, struct transfer *t)
{
	(void)curl_multi_remove_handle(a->curl.multi, t->easy); /* api_send has added it */
	transfer_clear(t);
	t->item = NULL;
	t->next = a->idle;
	a->idle = t;
}

/* Try again if that is safe, worth it and in time. */
static bool api_try_again(struct api_store *a, struct transfer *t, struct reply_class v,
                          const struct exchange *x, const struct store_reply *reply)
{
	struct pending *p = t->item;
	int64_t when = clock_ms();
	if (x->complete && x->status == 406 && !a->whole_objects) {
		a->whole_objects = true; /* not executed: Accept is checked first */
	} else if (v.again && !a->s.closing) {
		when = next_try_ms(p, reply->retry_after_s);
		if (when >= p->r.deadline_ms)
			return false;
	} else {
		return false;
	}
	if (v.outcome == STORE_AMBIGUOUS)
		p->maybe_executed = true;
	store_later(&a->s, p, when);
	return true;
}

/* Each aborted transfer closes its connection (HTTP/1.1), so this ends. */
static void api_send_again(struct api_store *a, struct transfer *t)
{
	t->stale = false;
	t->error[0] = '\0';
	(void)curl_multi_remove_handle(a->curl.multi, t->easy); /* api_send has added it */
	api_send(a, t);
}

static void api_complete(struct api_store *a, struct transfer *t, CURLcode result)
{
	struct pending *p = t->item;
	if (t->stale && !a->s.closing) {
		api_send_again(a, t);
		return;
	}
	if (t->repeated) { /* the connection was closed without an answer */
		result = CURLE_GOT_NOTHING;
		t->error[0] = '\0';
	}
	STR_AUTO message = STR_INIT(MESSAGE_MAX);
	JSON_AUTO *object = reply_parse(str_view(&t->answer));
	struct exchange x = result_exchange(t, result, object);
	x.just_connected |= backoff_is_settling(&a->backoff, clock_ms());
	struct reply_class v = reply_classify(&p->r, &x);
	if (v.outcome == STORE_REFUSED) {
		explain_action(&message, &p->r);
		str_puts(&message, ": ");
	}
	result_message(&message, t, result, &x);
	struct store_reply reply = {
		.outcome = v.outcome,
		.status = x.status,
		.message = str_view(&message),
		.date_s = result_date_s(t),
		.retry_after_s = result_retry_after_s(t),
	};
	p->why = result_reason(result, x.status);
	api_note(a, t, result, &x);
	if (!api_try_again(a, t, v, &x, &reply))
		answer(&a->s, t, &reply, object);
	api_release(a, t);
}

static void finish_broken(struct api_store *a)
{
	while (a->broken.head != NULL) {
		struct pending *p = a->broken.head;
		a->broken.head = p->next;
		store_fail(&a->s, p, STORE_REFUSED,
		           "the name of the object, its namespace or the query is not valid");
	}
}

static void api_finish_done(struct api_store *a)
{
	CURLcode result;
	for (struct transfer *t; (t = curl_loop_finished(&a->curl, &result)) != NULL;)
		api_complete(a, t, result);
}

/* A second check of the deadlines, in case libcurl loses a timer. */
static void finish_late(struct api_store *a, int64_t now)
{
	if (now < a->late_ms && a->s.in_flight > 0)
		return;
	a->late_ms = NEVER;
	for (size_t i = 0; i < a->s.limits.in_flight; i++) {
		struct transfer *t = &a->transfers[i];
		if (t->item == NULL)
			continue;
		if (late_ms(t->item) <= now)
			api_complete(a, t, CURLE_OPERATION_TIMEDOUT);
		else if (late_ms(t->item) < a->late_ms)
			a->late_ms = late_ms(t->item);
	}
}

static void poll_curl(struct store *s)
{
	struct api_store *a = api_of(s);
	curl_loop_run_once(&a->curl);
	api_finish_done(a);
	finish_late(a, clock_ms());
	finish_broken(a);
}

static int epoll_fd(const struct store *s)
{
	return ((const struct api_store *)s)->curl.epoll;
}

static int timeout_ms(const struct store *s)
{
	const struct api_store *a = (const struct api_store *)s;
	int64_t wake = a->curl.wake_ms < a->late_ms ? a->curl.wake_ms : a->late_ms;
	return a->broken.head != NULL ? 0 : curl_timeout_ms(wake);
}

/* ---- life -------------------------------------------------------------------------- */

static void abort_all(struct store *s)
{
	struct api_store *a = api_of(s);
	finish_broken(a);
	for (size_t i = 0; i < s->limits.in_flight; i++) {
		struct transfer *t = &a->transfers[i];
		if (t->item != NULL)
			api_complete(a, t, CURLE_ABORTED_BY_CALLBACK);
	}
}

static void free_api(struct store *s)
{
	struct api_store *a = api_of(s);
	for (size_t i = 0; i < s->limits.in_flight; i++)
		transfer_done(&a->transfers[i]);
	free(a->transfers);
	curl_loop_done(&a->curl);
	str_wipe(&a->authorization.line);
	store_done(s);
	free(a);
}

static int api_set_up(struct api_store *a, struct err *e)
{
	long n = (long)a->s.limits.in_flight;
	if (curl_start(e) != 0 || curl_loop_init(&a->curl, n, e) != 0)
		return -1;
	if (curl_multi_setopt(a->curl.multi, CURLMOPT_MAX_HOST_CONNECTIONS, n) ||
	    curl_multi_setopt(a->curl.multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, n))
		return err_set(e, UNKNOWN_ERROR, "libcurl: a multi handle cannot be set up");
	for (size_t i = 0; i < a->s.limits.in_flight; i++) {
		struct transfer *t = &a->transfers[i];
		if (transfer_init(t, a, e) != 0)
			return -1;
		t->next = a->idle;
		a->idle = t;
	}
	return 0;
}

struct store *store_api_new(struct login *l, const char *namespace_name,
                            const struct store_limits *limits, struct err *e)
{
	static const struct store_ops OPS = {
		.begin = api_begin,
		.poll = poll_curl,
		.fd = epoll_fd,
		.timeout_ms = timeout_ms,
		.abort = abort_all,
		.free = free_api,
	};
	if (!segment_ok(namespace_name)) {
		err_set(e, UNKNOWN_ERROR, "\"%s\" is not a valid name of a namespace",
		        namespace_name);
		return NULL;
	}
	struct api_store *a = xcalloc(1, sizeof(*a));
	store_init(&a->s, &OPS, namespace_name, limits);
	a->login = l;
	backoff_init(&a->backoff, limits->in_flight);
	a->late_ms = NEVER;
	a->transfers = xcalloc(limits->in_flight, sizeof(*a->transfers));
	if (api_set_up(a, e) == 0)
		return &a->s;
	free_api(&a->s);
	return NULL;
}
