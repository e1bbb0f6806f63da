/* Requests of the stand-in.  The store of the product has no sub-resources, and GETs an answer for
 * each class of failure; here one look at the next event decides. */
#include <stdlib.h>

#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/store/paths.h"
#include "tests/controller/stand.h"

enum {
	URL_BYTES = 4096,
	BODY_BYTES = 1 << 20,
	ANSWER_BYTES = 8 << 20,
	TIMEOUT_MS = 20000,
	HOSTS = 40
};

struct sending {
	struct sending *next; /* of the idle ones */
	struct thing *thing;
	CURL *easy;
	struct curl_slist *headers;
	struct str url, body, answer;
	char error[CURL_ERROR_SIZE];
};

struct sender {
	struct stand *stand;
	struct curl_loop curl;
	struct login_header authorization;
	struct sending all[SEND_AT_ONCE], *idle;
	size_t busy;
};

/* ---- bodies ---- */

static void body_state(struct str *out, const struct thing *t, const char *now, bool ended)
{
	json_put_open(out, "state", '{');
	json_put_open(out, ended ? "terminated" : "running", '{');
	json_put_word(out, "startedAt", now);
	if (ended) {
		json_put_word(out, "finishedAt", now);
		json_put_int(out, "exitCode", t->exit_code);
		json_put_word(out, "reason", t->exit_code ? "Error" : "Completed");
	}
	str_puts(out, "}}");
}

static void body_containers(struct str *out, const struct thing *t, const char *now, bool ended)
{
	struct span name;
	struct scan names = scan_begin(span_of(t->containers));
	json_put_open(out, "containerStatuses", '[');
	while (scan_item(&names, &name)) {
		json_put_open(out, NULL, '{');
		json_put_raw(out, "name", name);
		json_put_word(out, "image", "stand");
		json_put_word(out, "imageID", "");
		json_put_bool(out, "ready", !ended);
		json_put_int(out, "restartCount", 0);
		body_state(out, t, now, ended);
		str_char(out, '}');
	}
	str_char(out, ']');
}

/* The uid in the body is a precondition. */
static void body_status(struct str *out, struct stand *s, const struct thing *t)
{
	char now[RFC3339_MAX];
	bool ended = t->action == STAND_END;
	unsigned n = s->addresses++;
	(void)rfc3339_put(now, clock_wall_ms(), 0);
	str_printf(out, "{\"metadata\":{\"uid\":\"%s\"},\"status\":{", t->uid);
	json_put_word(out, "phase",
	              !ended                              ? "Running"
	              : t->exit_code != 0 || t->reason[0] ? "Failed"
	                                                  : "Succeeded");
	if (t->reason[0] && ended) {
		json_put_word(out, "reason", t->reason);
		json_put_word(out, "message", "The stand-in says so.");
	} else {
		body_containers(out, t, now, ended);
	}
	if (!ended) {
		json_put_word(out, "startTime", now);
		str_printf(out, ",\"hostIP\":\"10.1.0.%u\",\"podIP\":\"10.%u.%u.%u\"", n % HOSTS,
		           2 + n / 62500 % 250, n / 250 % 250, 1 + n % 250);
	}
	str_puts(out, "}}");
}

static void body_write(struct str *out, struct stand *s, const struct thing *t)
{
	switch (t->action) {
	case STAND_BIND:
		str_printf(
		    out,
		    "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"%s\","
		    "\"uid\":\"%s\"},\"target\":{\"kind\":\"Node\",\"name\":\"",
		    t->name, t->uid);
		if (t->node[0] && !s->lost)
			str_printf(out, "%s\"}}", t->node);
		else
			str_printf(out, "node%u\"}}", s->lost + s->addresses % (HOSTS - 1));
		break;
	case STAND_RUN:
	case STAND_END:
		body_status(out, s, t);
		break;
	case STAND_REMOVE:
		str_printf(out, "{\"gracePeriodSeconds\":0,\"preconditions\":{\"uid\":\"%s\"}}",
		           t->uid);
		break;
	case STAND_DELETE:
		str_printf(out, "{\"propagationPolicy\":\"%s\",\"preconditions\":{\"uid\":\"%s\"}}",
		           t->foreground ? "Foreground" : "Background", t->uid);
		break;
	case STAND_RELEASE:
		str_printf(
		    out,
		    "{\"metadata\":{\"uid\":\"%s\",\"resourceVersion\":\"%s\",\"finalizers\":%s}}",
		    t->uid, t->version, t->finalizers);
		break;
	case STAND_NOTHING:
	case STAND_ASK:
	case STAND_ACTIONS:
		break;
	}
}

/* ---- sending ---- */

static const char *send_method(enum stand_action action)
{
	switch (action) {
	case STAND_RUN:
	case STAND_END:
	case STAND_RELEASE:
		return "PATCH";
	case STAND_REMOVE:
	case STAND_DELETE:
		return "DELETE";
	default:
		return NULL; /* POST or GET, by the body */
	}
}

static void send_url(struct str *out, const struct stand *s, const struct thing *t)
{
	bool ask = t->action == STAND_ASK;
	enum object_kind kind = !ask                  ? t->kind
	                        : t->kind == KIND_POD ? KIND_CONFIGMAP
	                                              : KIND_FRAMEWORK;
	str_puts(out, s->login->url);
	if (path_write(out, kind, s->namespace_name, ask ? t->owner_name : t->name) < 0)
		str_puts(out, "/no-such-path");
	if (t->action == STAND_BIND)
		str_puts(out, "/binding");
	else if (t->action == STAND_RUN || t->action == STAND_END)
		str_puts(out, "/status");
}

void sender_send(struct sender *q, struct thing *t)
{
	struct sending *x = q->idle;
	const char *method = send_method(t->action);
	q->idle = x->next;
	q->busy++;
	x->thing = t;
	x->url = STR_INIT(URL_BYTES);
	x->body = STR_INIT(BODY_BYTES);
	x->answer = STR_INIT(ANSWER_BYTES);
	send_url(&x->url, q->stand, t);
	body_write(&x->body, q->stand, t);
	CURL_SET(x->easy, CURLOPT_URL, str_c(&x->url));
	if (x->body.n) {
		CURL_SET(x->easy, CURLOPT_POST, 1L);
		CURL_SET(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body.n);
		CURL_SET(x->easy, CURLOPT_POSTFIELDS, str_c(&x->body));
	} else {
		CURL_SET(x->easy, CURLOPT_HTTPGET, 1L);
	}
	CURL_SET(x->easy, CURLOPT_CUSTOMREQUEST, method);
	curl_add_header(&x->headers, method && method[0] == 'P'
	                                 ? "Content-Type: application/merge-patch+json"
	                                 : "Content-Type: application/json");
	curl_add_header(&x->headers,
	                "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
	                "application/json");
	curl_add_header(&x->headers, "Expect:");
	login_set_headers(x->easy, &x->headers, q->stand->login, &q->authorization);
	CURL_SET(x->easy, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
	curl_loop_start(&q->curl, x->easy, q->busy);
}

static void sender_finish(struct sender *q, struct sending *x, CURLcode result)
{
	struct thing *t = x->thing;
	int status = result == CURLE_OK ? curl_status(x->easy) : 0;
	(void)curl_multi_remove_handle(q->curl.multi, x->easy); /* sender_send added it */
	CURL_SET(x->easy, CURLOPT_HTTPHEADER, NULL);
	curl_free_headers(&x->headers);
	x->next = q->idle;
	q->idle = x;
	q->busy--;
	x->thing = NULL;
	world_answer(q->stand, t, status, str_view(&x->answer));
	str_done(&x->url);
	str_done(&x->body);
	str_done(&x->answer);
}

void sender_run_once(struct sender *q)
{
	CURLcode result;
	curl_loop_run_once(&q->curl);
	for (struct sending *x; (x = curl_loop_finished(&q->curl, &result)) != NULL;)
		sender_finish(q, x, result);
}

static size_t sender_receive(char *from, size_t size, size_t count, void *arg)
{
	struct sending *x = arg;
	str_put(&x->answer, from, size * count);
	return x->answer.full ? 0 : size * count;
}

struct sender *sender_new(struct stand *s, struct err *e)
{
	struct sender *q = xcalloc(1, sizeof(*q));
	q->stand = s;
	if (curl_start(e) != 0 || curl_loop_init(&q->curl, SEND_AT_ONCE, e) != 0) {
		sender_free(q);
		return NULL;
	}
	for (size_t i = 0; i < SEND_AT_ONCE; i++) {
		struct sending *x = &q->all[i];
		x->easy = login_curl(s->login, e);
		if (!x->easy) {
			sender_free(q);
			return NULL;
		}
		curl_receive(x->easy, sender_receive, x, x->error);
		x->next = q->idle;
		q->idle = x;
	}
	return q;
}

void sender_free(struct sender *q)
{
	for (size_t i = 0; q && i < SEND_AT_ONCE; i++)
		curl_easy_cleanup(q->all[i].easy); /* NULL: no effect */
	if (q)
		curl_loop_done(&q->curl);
	free(q);
}

bool sender_is_free(const struct sender *q)
{
	return q->idle != NULL;
}

int sender_fd(const struct sender *q)
{
	return q->curl.epoll;
}

int sender_timeout_ms(const struct sender *q)
{
	return curl_timeout_ms(q->curl.wake_ms);
}
