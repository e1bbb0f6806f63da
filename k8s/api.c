/*
 * The store that is an API server: libcurl's multi interface on an epoll of its own,
 * which the loop watches as one descriptor.  What an answer means stands in verdict.c.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "k8s/backend.h"
#include "k8s/curl.h"
#include "k8s/paths.h"
#include "k8s/reply.h"
#include "k8s/transfer.h"
#include "k8s/verdict.h"

enum {
	BACKOFF_MS = 100,
	BACKOFF_MAX_MS = 1000,
	SETTLING_MS = 1000, /* so long after connecting, a refusal may be of a server that starts */
	EVENTS = 64,
	MESSAGE_MAX = 2048,
	HEADER_MAX = 20000,
};

static const int64_t NEVER = INT64_MAX;
static const char READINESS[] = "rest-lit-readiness";

struct api_store {
	struct store s; /* first */
	struct login *login;
	CURLM *multi;
	int epoll;
	int64_t curl_wake_ms;       /* when libcurl wants to be called; NEVER */
	struct transfer *transfers; /* limits.in_flight of them */
	struct transfer *idle;
	struct pending_list broken; /* cannot be sent at all */
	struct str authorization;   /* the header line */
	unsigned token_version;     /* of that line */
	int64_t connected_ms;       /* when a connection was last made */
	unsigned unreachable;       /* tries in a row that could not be sent */
	bool whole_objects;         /* this API server does not send metadata alone */
};

static struct api_store *api_of(struct store *s)
{
	return (struct api_store *)s;
}

/* 100, 200, 400 ... 1000 ms, give or take a quarter. */
static int64_t backoff_ms(unsigned tries)
{
	int64_t ms = tries < 4 ? (int64_t)BACKOFF_MS << tries : BACKOFF_MAX_MS;
	uint16_t noise = 0;
	ssize_t n = getrandom(&noise, sizeof(noise), GRND_NONBLOCK);
	(void)n; /* without noise it is a back-off all the same */
	return ms - ms / 4 + noise % (ms / 2);
}

/* ---- what libcurl calls ------------------------------------------------------------ */

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct api_store *a = arg;
	struct epoll_event ev = { .data.fd = fd };
	(void)easy;
	(void)unused;
	if (what == CURL_POLL_REMOVE) {
		(void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, fd, NULL); /* may be closed already */
		return 0;
	}
	if (what & CURL_POLL_IN)
		ev.events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		ev.events |= EPOLLOUT;
	if (epoll_ctl(a->epoll, EPOLL_CTL_MOD, fd, &ev) == 0)
		return 0;
	return errno == ENOENT ? epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &ev) : -1;
}

static int set_timer(CURLM *multi, long ms, void *arg)
{
	struct api_store *a = arg;
	(void)multi;
	a->curl_wake_ms = ms < 0 ? NEVER : store_now_ms() + ms;
	return 0;
}

/* ---- sending ----------------------------------------------------------------------- */

static void refresh_authorization(struct api_store *a)
{
	struct str line = STR_INIT(HEADER_MAX);
	if (login_header(a->login, &a->token_version, &line)) {
		str_wipe(&a->authorization);
		a->authorization = line;
	}
}

static void begin(struct store *s, struct pending *p)
{
	struct api_store *a = api_of(s);
	if (p->r.verb == STORE_READY) {
		p->r.kind = KIND_FRAMEWORK;
		p->r.name = READINESS;
	}
	refresh_authorization(a);
	struct transfer_common common = {
		.url = a->login->url,
		.namespace_name = s->namespace_name,
		.authorization = str_view(&a->authorization),
		.answer_max = s->limits.body,
		.whole_objects = a->whole_objects,
	};
	struct transfer *t = a->idle;
	assert(t != NULL); /* there are as many as may be in flight */
	if (transfer_prepare(t, &p->r, &common) != 0) {
		p->next = a->broken.head;
		a->broken.head = p;
		return;
	}
	a->idle = t->next;
	t->item = p;
	CURLMcode bad = curl_multi_add_handle(a->multi, t->easy);
	assert(bad == CURLM_OK);
}

/* ---- answers ----------------------------------------------------------------------- */

/* Sentences that live on while a request waits to be tried again. */
static const char *static_reason(CURLcode result, int status)
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

/* Errors that the next try will meet again. */
static bool is_permanent(CURLcode result)
{
	switch ((int)result) {
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
		return true;
	default:
		return false;
	}
}

static long info_of(CURL *easy, CURLINFO what)
{
	long value = 0;
	(void)curl_easy_getinfo(easy, what, &value); /* stays 0 if it is not known */
	return value;
}

static int retry_after_s(CURL *easy)
{
	curl_off_t s = 0;
	(void)curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &s);
	return s < 0 || s > 3600 ? 3600 : (int)s;
}

static struct exchange exchange_of(struct api_store *a, const struct transfer *t, CURLcode result,
                                   const json_t *answer)
{
	int64_t now = store_now_ms();
	if (info_of(t->easy, CURLINFO_NUM_CONNECTS) > 0)
		a->connected_ms = now;
	return (struct exchange){
		.complete = result == CURLE_OK,
		.handed_over = transfer_handed_over(t),
		.permanent = is_permanent(result),
		.too_large = t->answer.full || result == CURLE_FILESIZE_EXCEEDED,
		.just_connected = now - a->connected_ms < SETTLING_MS,
		.status = (int)info_of(t->easy, CURLINFO_RESPONSE_CODE),
		.answer = answer,
	};
}

static void put_message(struct str *out, const struct transfer *t, CURLcode result,
                        const struct exchange *x)
{
	if (x->too_large)
		str_printf(out, "its answer is larger than %zu bytes", t->answer.max);
	else if (result != CURLE_OK)
		str_puts(out, t->error[0] ? t->error : curl_easy_strerror(result));
	else
		str_printf(out, "HTTP status %d ", x->status);
	if (result == CURLE_OK)
		reply_digest(out, x->answer);
}

/* When to try again; the time given by the server counts. */
static int64_t next_try_ms(struct api_store *a, const struct pending *p, const struct exchange *x,
                           int wait_s)
{
	int64_t now = store_now_ms();
	bool unreachable = !x->complete && !x->handed_over;
	a->unreachable = unreachable ? a->unreachable + 1 : 0;
	/* When it is not there or has too much to do, that is so for everybody. */
	if (unreachable || x->status == 429)
		store_pause(&a->s, now + backoff_ms(unreachable ? a->unreachable / 8 : p->tries));
	int64_t pause = backoff_ms(p->tries - 1);
	return now + (wait_s * (int64_t)1000 > pause ? wait_s * (int64_t)1000 : pause);
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

static void release(struct api_store *a, struct transfer *t)
{
	(void)curl_multi_remove_handle(a->multi, t->easy); /* it was added by begin */
	transfer_clear(t);
	t->item = NULL;
	t->next = a->idle;
	a->idle = t;
}

/* Try again if that is safe, worth it and in time. */
static bool try_again(struct api_store *a, struct transfer *t, struct verdict v,
                      const struct exchange *x, const struct store_reply *reply)
{
	struct pending *p = t->item;
	int64_t when = store_now_ms();
	if (x->complete && x->status == 406 && !a->whole_objects) {
		a->whole_objects = true; /* not executed: the form of the answer comes first */
	} else if (v.again && !a->s.closing) {
		when = next_try_ms(a, p, x, reply->retry_after_s);
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

static void complete(struct api_store *a, struct transfer *t, CURLcode result)
{
	struct pending *p = t->item;
	STR_AUTO message = STR_INIT(MESSAGE_MAX);
	JSON_AUTO *object = reply_parse(str_view(&t->answer));
	struct exchange x = exchange_of(a, t, result, object);
	struct verdict v = verdict_of(&p->r, &x);
	put_message(&message, t, result, &x);
	struct store_reply reply = {
		.outcome = v.outcome,
		.status = x.status,
		.message = str_view(&message),
		.retry_after_s = retry_after_s(t->easy),
	};
	p->why = static_reason(result, x.status);
	if (x.complete)
		a->unreachable = 0;
	if (!try_again(a, t, v, &x, &reply))
		answer(&a->s, t, &reply, object);
	release(a, t);
}

static void finish_broken(struct api_store *a)
{
	while (a->broken.head != NULL) {
		struct pending *p = a->broken.head;
		a->broken.head = p->next;
		store_fail(&a->s, p, STORE_REFUSED, "this is no name of an object");
	}
}

static void finish_done(struct api_store *a)
{
	CURLMsg *m;
	int left;
	while ((m = curl_multi_info_read(a->multi, &left)) != NULL) {
		char *t = NULL;
		CURLcode result = m->data.result; /* m is gone once the handle is removed */
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
		complete(a, (struct transfer *)(void *)t, result);
	}
}

static void poll_curl(struct store *s)
{
	struct api_store *a = api_of(s);
	struct epoll_event events[EVENTS];
	int running;
	int n = epoll_wait(a->epoll, events, EVENTS, 0);
	for (int i = 0; i < n; i++) {
		uint32_t e = events[i].events;
		int what = (e & EPOLLIN ? CURL_CSELECT_IN : 0) |
		           (e & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		           (e & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
		(void)curl_multi_socket_action(a->multi, events[i].data.fd, what, &running);
	}
	if (store_now_ms() >= a->curl_wake_ms) {
		a->curl_wake_ms = NEVER;
		(void)curl_multi_socket_action(a->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	finish_done(a);
	finish_broken(a);
}

static int epoll_fd(const struct store *s)
{
	return ((const struct api_store *)s)->epoll;
}

static int timeout_ms(const struct store *s)
{
	const struct api_store *a = (const struct api_store *)s;
	int64_t now = store_now_ms();
	if (a->broken.head != NULL || a->curl_wake_ms <= now)
		return 0;
	if (a->curl_wake_ms == NEVER)
		return -1;
	return a->curl_wake_ms - now > INT32_MAX ? INT32_MAX : (int)(a->curl_wake_ms - now);
}

/* ---- life -------------------------------------------------------------------------- */

static void abort_all(struct store *s)
{
	struct api_store *a = api_of(s);
	finish_broken(a);
	for (size_t i = 0; i < s->limits.in_flight; i++) {
		struct transfer *t = &a->transfers[i];
		if (t->item != NULL)
			complete(a, t, CURLE_ABORTED_BY_CALLBACK);
	}
}

static void free_api(struct store *s)
{
	struct api_store *a = api_of(s);
	for (size_t i = 0; i < s->limits.in_flight; i++)
		transfer_done(&a->transfers[i]);
	free(a->transfers);
	if (a->multi != NULL)
		(void)curl_multi_cleanup(a->multi); /* no handle is left in it */
	if (a->epoll >= 0)
		(void)close(a->epoll);
	str_wipe(&a->authorization);
	store_done(s);
	free(a);
}

static int set_up_multi(struct api_store *a, struct err *e)
{
	long n = (long)a->s.limits.in_flight;
	a->multi = curl_multi_init();
	bool bad = a->multi == NULL;
	bad = bad || curl_multi_setopt(a->multi, CURLMOPT_SOCKETFUNCTION, watch_socket) ||
	      curl_multi_setopt(a->multi, CURLMOPT_SOCKETDATA, a) ||
	      curl_multi_setopt(a->multi, CURLMOPT_TIMERFUNCTION, set_timer) ||
	      curl_multi_setopt(a->multi, CURLMOPT_TIMERDATA, a) ||
	      curl_multi_setopt(a->multi, CURLMOPT_MAXCONNECTS, n) ||
	      curl_multi_setopt(a->multi, CURLMOPT_MAX_HOST_CONNECTIONS, n) ||
	      curl_multi_setopt(a->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, n);
	if (bad)
		return err_set(e, UNKNOWN_ERROR, "libcurl: a multi handle cannot be set up");
	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (a->epoll < 0)
		return err_set(e, UNKNOWN_ERROR, "epoll: %s", strerrordesc_np(errno));
	return 0;
}

static int set_up(struct api_store *a, struct err *e)
{
	if (curl_start(e) != 0 || set_up_multi(a, e) != 0)
		return -1;
	for (size_t i = 0; i < a->s.limits.in_flight; i++) {
		struct transfer *t = &a->transfers[i];
		if (transfer_init(t, a->login, e) != 0)
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
		.begin = begin,
		.poll = poll_curl,
		.fd = epoll_fd,
		.timeout_ms = timeout_ms,
		.abort = abort_all,
		.free = free_api,
	};
	if (!segment_ok(namespace_name)) {
		err_set(e, UNKNOWN_ERROR, "\"%s\" is no name of a namespace", namespace_name);
		return NULL;
	}
	struct api_store *a = xcalloc(1, sizeof(*a));
	store_init(&a->s, &OPS, namespace_name, limits);
	a->login = l;
	a->epoll = -1;
	a->curl_wake_ms = NEVER;
	a->transfers = xcalloc(limits->in_flight, sizeof(*a->transfers));
	if (set_up(a, e) == 0)
		return &a->s;
	free_api(&a->s);
	return NULL;
}
