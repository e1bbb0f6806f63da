/*
 * The store backend for an API server: a pool of libcurl handles on one curl_loop.
 *
 * libcurl does not report what it has sent, and it repeats a POST by itself when a kept connection
 * turns out to be dead.  So api_before_sending, which libcurl calls when it has a connection, notes
 * that the request may be sent from now on, and refuses a second time.  jobs/store/reply.c decides
 * what an answer means.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"
#include "jobs/store/store_backend.h"
#include "k8s/http/endpoint.h"
#include "k8s/transport/backoff.h"
#include "k8s/transport/login.h"

enum {
	LATE_MS = 250,         /* after a deadline; libcurl keeps it earlier */
	RETRY_AFTER_MAX_S = 2, /* an outage may end earlier, and undoing has 5 s */
	MESSAGE_MAX = 2048,
	URL_MAX = 4096,
	PRECONDITION_MAX = 1024, /* without the uid, which may be what people have written */
	ESCAPED_MAX = 6,         /* "\u0000" */
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

static struct api_store *api_store_of(struct store *s)
{
	return (struct api_store *)s;
}

/* ---- a transfer: callbacks of libcurl ------------------------------------------------ */

/* libcurl prescribes the parameters. NOLINTNEXTLINE(readability-function-size) */
static int api_before_sending(void *arg, char *to, char *from, int to_port, int from_port)
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

static void transfer_clear(struct transfer *t)
{
	CURL_SET(t->easy, CURLOPT_HTTPHEADER, NULL);
	CURL_SET(t->easy, CURLOPT_POSTFIELDS, NULL);
	curl_free_headers(&t->headers);
	str_wipe(&t->answer);
	str_wipe(&t->body);
}

/* ---- a request --------------------------------------------------------------------- */

static int transfer_set_url(const struct api_store *a, struct transfer *t,
                            const struct store_request *r)
{
	STR_AUTO url = STR_INIT(URL_MAX);
	bool collection = r->verb == STORE_CREATE || r->verb == STORE_LIST;
	struct span query = span_of(r->query ? r->query : "");
	const char *namespace_name = r->namespace_name ? r->namespace_name : a->s.namespace_name;
	if (!collection && r->name == NULL)
		return -1;
	if (r->verb == STORE_CREATE && r->name != NULL && !segment_ok(r->name))
		return -1;
	/* No characters that end the request line or the query. */
	if (!login_is_visible(query) || span_chr(query, '#') < query.n)
		return -1;
	str_puts(&url, a->login->url);
	if (path_write(&url, r->kind, namespace_name, collection ? NULL : r->name) != 0)
		return -1;
	if (r->of_status)
		str_puts(&url, "/status");
	if (r->dry_run)
		str_puts(&url, "?dryRun=All");
	if (query.n > 0)
		str_printf(&url, "%c%s", r->dry_run ? '&' : '?', query.p);
	if (url.full)
		return -1;
	CURL_SET(t->easy, CURLOPT_URL, str_c(&url));
	return 0;
}

/* Returns the body in one piece, because libcurl then sends it in one call with the headers. */
static struct span transfer_body(struct transfer *t, const struct store_request *r)
{
	size_t rest = r->body[1].n + r->body[2].n;
	if (r->verb == STORE_DELETE) {
		t->body = STR_INIT(PRECONDITION_MAX + ESCAPED_MAX * (r->uid ? strlen(r->uid) : 0));
		str_puts(&t->body, "{\"preconditions\":{");
		if (r->uid)
			json_put_word(&t->body, "uid", r->uid);
		if (r->resource_version)
			json_put_word(&t->body, "resourceVersion", r->resource_version);
		str_char(&t->body, '}');
		/* With options in the body, API servers ignore those in the query. */
		if (r->dry_run)
			str_puts(&t->body, ",\"dryRun\":[\"All\"]");
		if (r->force)
			json_put_int(&t->body, "gracePeriodSeconds", 0);
		if (r->foreground)
			json_put_word(&t->body, "propagationPolicy", "Foreground");
		str_char(&t->body, '}');
		assert(!t->body.full); /* a resourceVersion is short */
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

/* Sets URL, body, headers and limits.  -1: a name, the namespace or the query is not valid. */
static int transfer_prepare(struct api_store *a, struct transfer *t, const struct store_request *r)
{
	size_t answer_max = r->verb == STORE_LIST ? 4 * a->s.limits.body : a->s.limits.body;
	bool whole = r->whole || a->whole_objects || r->verb == STORE_DELETE;
	int64_t left = r->deadline_ms - clock_ms();
	if (transfer_set_url(a, t, r) != 0)
		return -1;
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
	CURL_SET(t->easy, CURLOPT_CUSTOMREQUEST,
	         r->verb == STORE_PATCH    ? "PATCH"
	         : r->verb == STORE_DELETE ? "DELETE"
	                                   : NULL); /* POST or GET, as set above */
	curl_add_header(&t->headers, whole                   ? "Accept: application/json"
	                             : r->verb == STORE_LIST ? "Accept: " METADATA_LIST_TYPE
	                                                     : "Accept: " METADATA_TYPE);
	curl_add_header(&t->headers, r->verb != STORE_PATCH ? "Content-Type: application/json"
	                             : r->json_patch
	                                 ? "Content-Type: application/json-patch+json"
	                                 : "Content-Type: application/merge-patch+json");
	curl_add_header(&t->headers, "Expect:");
	login_set_headers(t->easy, &t->headers, a->login, &a->authorization);
	CURL_SET(t->easy, CURLOPT_TIMEOUT_MS, (long)(left > 0 ? left : 1));
	CURL_SET(t->easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)answer_max); /* a hint only */
	t->answer = STR_SECRET(answer_max);
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

static struct api_exchange result_exchange(const struct transfer *t, CURLcode result)
{
	struct span answer = str_view(&t->answer);
	long connects = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &connects); /* stays 0 */
	return (struct api_exchange){
		.complete = result == CURLE_OK,
		.begun = t->begun,
		.permanent = curl_is_permanent(result),
		.too_large = t->answer.full || result == CURLE_FILESIZE_EXCEEDED,
		.just_connected = connects > 0,
		.status = curl_status(t->easy),
		.answer = reply_valid(answer) ? answer : (struct span){ NULL, 0 },
	};
}

static void result_message(struct str *out, const struct transfer *t, CURLcode result,
                           const struct api_exchange *x)
{
	if (x->too_large)
		str_printf(out, "its answer is larger than %zu bytes", t->answer.max);
	else if (result != CURLE_OK)
		str_puts(out, t->error[0] ? t->error : curl_easy_strerror(result));
	else
		str_printf(out, "HTTP status %d%s", x->status, x->answer.p ? " " : "");
	if (result == CURLE_OK)
		reply_digest(out, x->answer);
}

static enum api_health result_api_health(const struct transfer *t, CURLcode result,
                                         const struct api_exchange *x)
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

static int64_t api_late_ms(const struct pending *p)
{
	return p->r.deadline_ms < NEVER - LATE_MS ? p->r.deadline_ms + LATE_MS : NEVER;
}

static void api_begin(struct store *s, struct pending *p)
{
	struct api_store *a = api_store_of(s);
	if (p->r.verb == STORE_READY) {
		p->r.kind = KIND_FRAMEWORK;
		p->r.name = READINESS;
	}
	struct transfer *t = a->idle;
	assert(t != NULL); /* there are limits.in_flight transfers */
	if (transfer_prepare(a, t, &p->r) != 0) {
		pending_append(&a->broken, p);
		return;
	}
	a->idle = t->next;
	t->item = p;
	if (api_late_ms(p) < a->late_ms)
		a->late_ms = api_late_ms(p);
	curl_loop_start(&a->curl, t->easy, a->s.in_flight);
}

/* ---- answers ----------------------------------------------------------------------- */

static void api_answer(struct store *s, struct transfer *t, struct store_reply *reply,
                       struct span object)
{
	enum { UID, VERSION, N };
	static const char *const KEYS[N] = { "uid", "resourceVersion" };
	ARENA_AUTO a = { 0 };
	struct span v[N];
	struct pending *p = t->item;
	reply->body = str_view(&t->answer);
	if (reply->outcome == STORE_BUSY && p->maybe_executed)
		reply->outcome = STORE_AMBIGUOUS;
	scan_members(reply->outcome == STORE_OK ? scan_inside(object, "metadata") : SPAN(""), KEYS,
	             v, N);
	reply->uid = scan_text(v[UID], &a);
	reply->resource_version = scan_text(v[VERSION], &a);
	store_finish(s, p, reply);
}

/* Tries again if that is safe, useful and in time. */
static bool api_try_again(struct api_store *a, struct transfer *t, struct reply_class v,
                          const struct api_exchange *x, const struct store_reply *reply)
{
	struct pending *p = t->item;
	int64_t when = clock_ms();
	if (x->complete && x->status == 406 && !a->whole_objects) {
		a->whole_objects = true; /* not executed: Accept is checked first */
	} else if (v.again && !a->s.closing) {
		int wait_s = reply->retry_after_s < RETRY_AFTER_MAX_S ? reply->retry_after_s
		                                                      : RETRY_AFTER_MAX_S;
		int64_t pause_ms = backoff_ms(p->tries - 1);
		when += pause_ms > wait_s * INT64_C(1000) ? pause_ms : wait_s * INT64_C(1000);
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

static void api_complete(struct api_store *a, struct transfer *t, CURLcode result)
{
	struct pending *p = t->item;
	if (t->stale && !a->s.closing) {
		/* Each aborted transfer closes its connection (HTTP/1.1), so this ends. */
		t->stale = false;
		t->error[0] = '\0';
		(void)curl_multi_remove_handle(a->curl.multi, t->easy); /* api_begin added it */
		curl_loop_start(&a->curl, t->easy, a->s.in_flight);
		return;
	}
	if (t->repeated) { /* the connection was closed without an answer */
		result = CURLE_GOT_NOTHING;
		t->error[0] = '\0';
	}
	STR_AUTO message = STR_INIT(MESSAGE_MAX);
	struct api_exchange x = result_exchange(t, result);
	bool connected = x.complete && x.just_connected;
	x.just_connected |= backoff_is_settling(&a->backoff, clock_ms());
	struct reply_class v = reply_classify(&p->r, &x);
	if (v.outcome == STORE_REFUSED) {
		explain_action(&message, &p->r);
		str_puts(&message, ": ");
	}
	result_message(&message, t, result, &x);
	struct store_reply reply = { v.outcome, x.status, .message = str_view(&message) };
	curl_off_t retry_after_s = 0;
	(void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
	reply.retry_after_s = retry_after_s < 0 || retry_after_s > 3600 ? 3600 : (int)retry_after_s;
	struct curl_header *date = NULL;
	int64_t ms = 0;
	if (curl_easy_header(t->easy, "Date", 0, CURLH_HEADER, -1, &date) == CURLHE_OK &&
	    date->amount == 1)
		(void)http_date_read(span_of(date->value), &ms);
	reply.date_s = ms / 1000;
	p->why = result_reason(result, x.status);
	backoff_note(&a->backoff, result_api_health(t, result, &x), connected, clock_ms());
	store_slow(&a->s, a->backoff.at_once, a->backoff.until_ms);
	if (!api_try_again(a, t, v, &x, &reply))
		api_answer(&a->s, t, &reply, x.answer);
	(void)curl_multi_remove_handle(a->curl.multi, t->easy); /* api_begin added it */
	transfer_clear(t);
	t->item = NULL;
	t->next = a->idle;
	a->idle = t;
}

static void api_finish_broken(struct api_store *a)
{
	struct pending *p;
	while ((p = pending_take(&a->broken)) != NULL)
		store_fail(&a->s, p, STORE_REFUSED,
		           "the name of the object, its namespace or the query is not valid");
}

static void api_poll(struct store *s)
{
	struct api_store *a = api_store_of(s);
	CURLcode result;
	curl_loop_run_once(&a->curl);
	for (struct transfer *t; (t = curl_loop_finished(&a->curl, &result)) != NULL;)
		api_complete(a, t, result);
	api_finish_broken(a);
	/* A second check of the deadlines, in case libcurl loses a timer. */
	int64_t now = clock_ms();
	if (now < a->late_ms && a->s.in_flight > 0)
		return;
	a->late_ms = NEVER;
	for (size_t i = 0; i < a->s.limits.in_flight; i++) {
		struct transfer *t = &a->transfers[i];
		if (t->item == NULL)
			continue;
		if (api_late_ms(t->item) <= now)
			api_complete(a, t, CURLE_OPERATION_TIMEDOUT);
		else if (api_late_ms(t->item) < a->late_ms)
			a->late_ms = api_late_ms(t->item);
	}
}

static int api_epoll_fd(const struct store *s)
{
	return ((const struct api_store *)s)->curl.epoll;
}

static int api_timeout_ms(const struct store *s)
{
	const struct api_store *a = (const struct api_store *)s;
	int64_t wake = a->curl.wake_ms < a->late_ms ? a->curl.wake_ms : a->late_ms;
	return a->broken.head != NULL ? 0 : curl_timeout_ms(wake);
}

/* ---- life -------------------------------------------------------------------------- */

static void api_abort_all(struct store *s)
{
	struct api_store *a = api_store_of(s);
	api_finish_broken(a);
	for (size_t i = 0; i < s->limits.in_flight; i++) {
		struct transfer *t = &a->transfers[i];
		if (t->item != NULL)
			api_complete(a, t, CURLE_ABORTED_BY_CALLBACK);
	}
}

static void api_free(struct store *s)
{
	struct api_store *a = api_store_of(s);
	for (size_t i = 0; i < s->limits.in_flight; i++) {
		if (a->transfers[i].easy != NULL)
			transfer_clear(&a->transfers[i]);
		curl_easy_cleanup(a->transfers[i].easy); /* NULL: no effect */
	}
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
		*t = (struct transfer){ .easy = login_curl(a->login, e), .curl = &a->curl };
		if (t->easy == NULL)
			return -1;
		CURL_SET(t->easy, CURLOPT_PREREQFUNCTION, api_before_sending);
		CURL_SET(t->easy, CURLOPT_PREREQDATA, t);
		curl_receive(t->easy, write_answer, t, t->error);
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
		.poll = api_poll,
		.fd = api_epoll_fd,
		.timeout_ms = api_timeout_ms,
		.abort = api_abort_all,
		.free = api_free,
	};
	if (!segment_ok(namespace_name)) {
		err_set(e, UNKNOWN_ERROR, "\"%s\" is not a valid name of a namespace",
		        namespace_name);
		return NULL;
	}
	struct api_store *a = xcalloc(1, sizeof(*a));
	store_init(&a->s, &OPS, namespace_name, limits);
	a->login = l;
	a->backoff = BACKOFF_INIT(limits->in_flight);
	a->late_ms = NEVER;
	a->transfers = xcalloc(limits->in_flight, sizeof(*a->transfers));
	if (api_set_up(a, e) == 0)
		return &a->s;
	api_free(&a->s);
	return NULL;
}
