/*
 * The store that is an API server: libcurl's multi interface on an epoll of its own,
 * which the loop watches as one descriptor.  What an answer means stands in reply.c.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "k8s/transport/backend.h"
#include "k8s/transport/curl.h"
#include "k8s/transport/explain.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"
#include "k8s/transport/transfer.h"

enum {
	LATE_MS = 250, /* after a deadline, by which time libcurl has always kept it itself */
	RETRY_AFTER_MAX_S = 2, /* however long it says: an outage may be over before, and what is
	                        * to be undone has 5 s */
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
	int64_t late_ms;            /* no transfer may go on beyond its own; the earliest; NEVER */
	struct transfer *transfers; /* limits.in_flight of them */
	struct transfer *idle;
	struct pending_list broken; /* cannot be sent at all */
	struct str authorization;   /* the header line */
	unsigned token_version;     /* of that line */
	struct backoff backoff;
	bool whole_objects; /* this API server does not send metadata alone */
};

static struct api_store *api_of(struct store *s)
{
	return (struct api_store *)s;
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
	a->curl_wake_ms = ms < 0 ? NEVER : clock_ms() + ms;
	return 0;
}

/* ---- sending ----------------------------------------------------------------------- */

static int64_t late_ms(const struct pending *p)
{
	return p->r.deadline_ms < NEVER - LATE_MS ? p->r.deadline_ms + LATE_MS : NEVER;
}

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
		.answer_max = p->r.verb == STORE_LIST ? 4 * s->limits.body : s->limits.body,
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
	if (late_ms(p) < a->late_ms)
		a->late_ms = late_ms(p);
	CURLMcode bad = curl_multi_add_handle(a->multi, t->easy);
	assert(bad == CURLM_OK);
}

/* ---- answers ----------------------------------------------------------------------- */

static void note(struct api_store *a, const struct transfer *t, CURLcode result,
                 const struct exchange *x)
{
	bool connected = x->complete && result_connected(t);
	backoff_note(&a->backoff, result_api_health(t, result, x), connected, clock_ms());
	store_throttle(&a->s, a->backoff.at_once);
	store_pause(&a->s, a->backoff.until_ms);
}

/* When to try again; the time given by the server counts, within reason. */
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

static void release(struct api_store *a, struct transfer *t)
{
	(void)curl_multi_remove_handle(a->multi, t->easy); /* it was added by begin */
	transfer_clear(t);
	t->item = NULL;
	t->next = a->idle;
	a->idle = t;
}

/* Try again if that is safe, worth it and in time. */
static bool try_again(struct api_store *a, struct transfer *t, struct reply_class v,
                      const struct exchange *x, const struct store_reply *reply)
{
	struct pending *p = t->item;
	int64_t when = clock_ms();
	if (x->complete && x->status == 406 && !a->whole_objects) {
		a->whole_objects = true; /* not executed: the form of the answer comes first */
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

static void complete(struct api_store *a, struct transfer *t, CURLcode result)
{
	struct pending *p = t->item;
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
	note(a, t, result, &x);
	if (!try_again(a, t, v, &x, &reply))
		answer(&a->s, t, &reply, object);
	release(a, t);
}

static void finish_broken(struct api_store *a)
{
	while (a->broken.head != NULL) {
		struct pending *p = a->broken.head;
		a->broken.head = p->next;
		store_fail(&a->s, p, STORE_REFUSED, "this is no name of an object or a namespace");
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

/* Deadlines are ours: should libcurl ever lose one of its timers, nobody waits for ever. */
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
			complete(a, t, CURLE_OPERATION_TIMEDOUT);
		else if (late_ms(t->item) < a->late_ms)
			a->late_ms = late_ms(t->item);
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
	if (clock_ms() >= a->curl_wake_ms) {
		a->curl_wake_ms = NEVER;
		(void)curl_multi_socket_action(a->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
	finish_done(a);
	finish_late(a, clock_ms());
	finish_broken(a);
}

static int epoll_fd(const struct store *s)
{
	return ((const struct api_store *)s)->epoll;
}

static int timeout_ms(const struct store *s)
{
	const struct api_store *a = (const struct api_store *)s;
	int64_t now = clock_ms();
	int64_t wake = a->curl_wake_ms < a->late_ms ? a->curl_wake_ms : a->late_ms;
	if (a->broken.head != NULL || wake <= now)
		return 0;
	if (wake == NEVER)
		return -1;
	return wake - now > INT32_MAX ? INT32_MAX : (int)(wake - now);
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
	backoff_init(&a->backoff, limits->in_flight);
	a->epoll = -1;
	a->curl_wake_ms = NEVER;
	a->late_ms = NEVER;
	a->transfers = xcalloc(limits->in_flight, sizeof(*a->transfers));
	if (set_up(a, e) == 0)
		return &a->s;
	free_api(&a->s);
	return NULL;
}
