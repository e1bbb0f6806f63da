#include "runtime-assets/run/upload.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/enc.h"
#include "runtime-assets/files.h"
#include "runtime-assets/net/address.h"
#include "runtime-assets/net/http.h"
#include "runtime-assets/net/kube.h"
#include "runtime-assets/net/token.h"

enum {
	UPLOAD_FIRST_MS = 100, /* pause after the first attempt; it doubles */
	UPLOAD_REPLY_MAX = 4096,
	UPLOAD_REASON_MAX = 1024
};

/* What an attempt came to. */
enum upload_result { UPLOAD_STORED, UPLOAD_AGAIN, UPLOAD_REFUSED };

struct upload_state {
	const struct upload *u;
	struct address to;
	struct ca_bundle *ca_bundle;
	struct str frames;
	const char *target;
	struct str why; /* of the last attempt */
};

bool upload_pause(int64_t until_ms)
{
	sigset_t term;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	for (;;) {
		int64_t left = until_ms - clock_ms();
		struct timespec t = { left > 0 ? left / 1000 : 0,
			              left > 0 ? left % 1000 * 1000000 : 0 };
		if (sigtimedwait(&term, NULL, &t) == SIGTERM)
			return true;
		if (errno != EINTR)
			return false;
	}
}

/* Half to all of it, so that the tasks of a job do not all come at the same time. */
static int64_t upload_jitter(int64_t ms)
{
	uint8_t random;
	random_bytes(&random, sizeof(random));
	return ms / 2 + ms * random / 512;
}

static enum upload_result upload_judge(struct upload_state *s, const struct http_reply *r)
{
	if (r->status >= 200 && r->status < 300)
		return UPLOAD_STORED;
	str_puts(&s->why, "it answers ");
	kube_answer(r, &s->why);
	return r->status == 429 || r->status >= 500 ? UPLOAD_AGAIN : UPLOAD_REFUSED;
}

static enum upload_result upload_try(struct upload_state *s)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	STR_AUTO bearer = STR_SECRET(TOKEN_MAX + 32);
	struct http_reply r = { 0 };
	s->why.n = 0;
	str_puts(&bearer, "Authorization: Bearer ");
	int64_t end = clock_ms() + s->u->attempt_ms;
	int trouble = HTTP_BAD_REQUEST;
	if (token_append(path_join(&a, s->u->at->output, "token"), &bearer, &e) == 0) {
		const char *const headers[] = { "Content-Type: application/octet-stream",
			                        "User-Agent: pai-runtime", str_c(&bearer), NULL };
		const struct http_request q = {
			.method = "PUT",
			.host = s->to.host,
			.port = s->to.port,
			.ca_bundle = s->ca_bundle,
			.target = s->target,
			.headers = headers,
			.body = str_view(&s->frames),
			.headers_max = UPLOAD_REPLY_MAX,
			.body_max = UPLOAD_REPLY_MAX,
			.deadline_ms = end < s->u->until_ms ? end : s->u->until_ms,
		};
		trouble = http_exchange(&q, &a, &r, &e);
	}
	if (trouble == 0)
		return upload_judge(s, &r);
	str_puts(&s->why, err_msg(&e));
	return trouble == HTTP_BAD_REQUEST ? UPLOAD_REFUSED : UPLOAD_AGAIN;
}

static bool upload_loop(struct upload_state *s)
{
	for (int64_t pause_ms = UPLOAD_FIRST_MS;; pause_ms *= 2) {
		enum upload_result result = upload_try(s);
		if (result != UPLOAD_AGAIN)
			return result == UPLOAD_STORED;
		int64_t next = clock_ms() + upload_jitter(pause_ms);
		if (next >= s->u->until_ms || upload_pause(next))
			return false;
	}
}

/* Where to, and how to know that it is the right server. */
static int upload_open(struct upload_state *s, struct arena *a, struct err *e)
{
	const struct upload *u = s->u;
	if (address_read(&s->to, span_of(u->url)) != 0)
		return err_set(e, FAILED, "it must be https://HOST or https://HOST:PORT");
	if (!s->to.tls && !address_is_loopback(&s->to))
		return err_set(e, FAILED, "it must be https, since a token is sent");
	if (!s->to.tls)
		return 0;
	s->ca_bundle = ca_bundle_load(path_join(a, u->at->output, "ca.crt"), e);
	return s->ca_bundle ? 0 : -1;
}

bool upload_output(const struct upload *u)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct upload_state s = { .u = u,
		                  .frames = STR_INIT(TAIL_TEXT_MAX),
		                  .why = STR_INIT(UPLOAD_REASON_MAX) };
	uint64_t dropped = tail_frames(u->logs->tail, &s.frames);
	s.target = arena_printf(&a, "/api/v2/task-output?exitCode=%d&dropped=%llu", u->code,
	                        (unsigned long long)dropped);
	bool stored = false;
	if (upload_open(&s, &a, &e))
		logs_say(u->logs, "warning: PAI_OUTPUT_URL is of no use: %s", err_msg(&e));
	else if (!(stored = upload_loop(&s)))
		logs_say(u->logs, "warning: the end of the output was not handed over to %s: %s",
		         u->url, str_c(&s.why));
	str_done(&s.frames);
	str_done(&s.why);
	if (s.ca_bundle)
		ca_bundle_free(s.ca_bundle);
	address_done(&s.to);
	return stored;
}
