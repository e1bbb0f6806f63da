/* The end of the output of a task: kept in memory while it runs, then sent to the server. */
#include "runtime-assets/run/run_internal.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "base/enc.h"
#include "base/gzip.h"
#include "runtime-assets/net/kube.h"

/* ---- the end of the output ------------------------------------------------------------------- */

/* Consecutive bytes of one stream. */
struct tail_piece {
	uint32_t n;
	enum tail_stream stream;
};

/* Two rings: the bytes and their pieces. */
struct tail {
	uint64_t dropped;
	bool mid_line; /* the line of the first byte began before it */
	size_t first, n;
	size_t first_piece, n_pieces;
	struct tail_piece piece[TAIL_FRAMES];
	char bytes[TAIL_BYTES];
};

/* The struct is known here only. */
struct tail *tail_new(void)
{
	return xcalloc(1, sizeof(struct tail));
}

static struct tail_piece *tail_piece_at(struct tail *t, size_t i)
{
	return &t->piece[(t->first_piece + i) % TAIL_FRAMES];
}

static void tail_drop(struct tail *t, size_t n)
{
	if (n == 0)
		return;
	t->first = (t->first + n) % TAIL_BYTES;
	t->n -= n;
	t->dropped += n;
	t->mid_line = t->bytes[(t->first + TAIL_BYTES - 1) % TAIL_BYTES] != '\n';
	while (n > 0) {
		struct tail_piece *p = tail_piece_at(t, 0);
		size_t part = n < p->n ? n : p->n;
		p->n -= (uint32_t)part;
		n -= part;
		if (p->n > 0)
			continue;
		t->first_piece = (t->first_piece + 1) % TAIL_FRAMES;
		t->n_pieces--;
	}
}

void tail_add(struct tail *t, enum tail_stream stream, struct span text)
{
	if (text.n == 0)
		return;
	if (text.n > TAIL_BYTES) {
		size_t excess = text.n - TAIL_BYTES;
		tail_drop(t, t->n);
		t->dropped += excess;
		t->mid_line = text.p[excess - 1] != '\n';
		text = (struct span){ text.p + excess, TAIL_BYTES };
	}
	if (t->n + text.n > TAIL_BYTES)
		tail_drop(t, t->n + text.n - TAIL_BYTES);
	struct tail_piece *last = t->n_pieces ? tail_piece_at(t, t->n_pieces - 1) : NULL;
	if (!last || last->stream != stream) {
		if (t->n_pieces == TAIL_FRAMES)
			tail_drop(t, tail_piece_at(t, 0)->n);
		last = tail_piece_at(t, t->n_pieces++);
		*last = (struct tail_piece){ 0, stream };
	}
	last->n += (uint32_t)text.n;
	size_t at = (t->first + t->n) % TAIL_BYTES;
	size_t n = text.n < TAIL_BYTES - at ? text.n : TAIL_BYTES - at;
	memcpy(t->bytes + at, text.p, n);
	memcpy(t->bytes, text.p + n, text.n - n);
	t->n += text.n;
}

uint64_t tail_frames(const struct tail *t, struct str *out)
{
	/* Skips the text of the first piece before its first complete line, if it has one. */
	size_t skip = 0;
	size_t first = t->mid_line && t->n_pieces ? t->piece[t->first_piece].n : 0;
	for (size_t i = 0; skip == 0 && i + 1 < first; i++) {
		if (t->bytes[(t->first + i) % TAIL_BYTES] == '\n')
			skip = i + 1;
	}
	size_t at = skip;
	for (size_t i = 0; i < t->n_pieces; i++) {
		const struct tail_piece *p = &t->piece[(t->first_piece + i) % TAIL_FRAMES];
		uint32_t n = p->n - (i == 0 ? (uint32_t)skip : 0);
		const char header[TAIL_HEADER] = {
			(char)p->stream, 0,      0, 0, (char)(n >> 24), (char)(n >> 16),
			(char)(n >> 8),  (char)n
		};
		str_put(out, header, sizeof(header));
		size_t from = (t->first + at) % TAIL_BYTES;
		size_t part = n < TAIL_BYTES - from ? n : TAIL_BYTES - from;
		str_put(out, t->bytes + from, part);
		str_put(out, t->bytes, n - part);
		at += n;
	}
	return t->dropped + skip;
}

/* The frames as gzip, at most TAIL_PACKED_MAX bytes, in the arena; drops the oldest output that
 * does not fit.  Returns the same. */
static uint64_t tail_pack(struct tail *t, struct arena *a, struct span *packed)
{
	STR_AUTO text = STR_INIT(TAIL_TEXT_MAX);
	for (;; tail_drop(t, t->n / 8 + 1)) {
		text.n = 0;
		uint64_t dropped = tail_frames(t, &text);
		if (gzip_pack(str_view(&text), TAIL_PACKED_MAX, a, packed))
			return dropped;
	}
}

/* ---- upload ---------------------------------------------------------------------------------- */

enum {
	UPLOAD_FIRST_MS = 100, /* pause after the first attempt; it doubles */
	UPLOAD_REPLY_MAX = 4096,
	UPLOAD_REASON_MAX = 1024
};

enum upload_result { UPLOAD_STORED, UPLOAD_AGAIN, UPLOAD_REFUSED };

struct upload_state {
	const struct output_upload *u;
	struct url_address to;
	struct ca_bundle *ca_bundle;
	struct span packed;
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

static enum upload_result upload_try(struct upload_state *s)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct http_reply r = { 0 };
	s->why.n = 0;
	int64_t end = clock_ms() + s->u->attempt_ms;
	const struct http_request q = {
		.method = "PUT",
		.host = s->to.host,
		.port = s->to.port,
		.ca_bundle = s->ca_bundle,
		.target = s->target,
		.headers = "Content-Type: application/octet-stream\r\n"
			   "User-Agent: pai-runtime\r\n",
		.token_file = path_join(&a, s->u->at->output, "token"),
		.body = s->packed,
		.headers_max = UPLOAD_REPLY_MAX,
		.body_max = UPLOAD_REPLY_MAX,
		.deadline_ms = end < s->u->until_ms ? end : s->u->until_ms,
	};
	int trouble = http_exchange(&q, &a, &r, &e);
	if (trouble != 0) {
		str_puts(&s->why, err_msg(&e));
		return trouble == HTTP_BAD_REQUEST ? UPLOAD_REFUSED : UPLOAD_AGAIN;
	}
	if (r.status >= 200 && r.status < 300)
		return UPLOAD_STORED;
	str_puts(&s->why, "it answers ");
	kube_answer(&r, &s->why);
	return r.status == 429 || r.status >= 500 ? UPLOAD_AGAIN : UPLOAD_REFUSED;
}

bool upload_output(const struct output_upload *u)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct upload_state s = { .u = u, .why = STR_INIT(UPLOAD_REASON_MAX) };
	uint64_t dropped = tail_pack(u->logs->tail, &a, &s.packed);
	s.target = arena_printf(&a, "/api/v2/task-output?exitCode=%d&dropped=%llu", u->code,
	                        (unsigned long long)dropped);
	enum upload_result result = UPLOAD_REFUSED;
	int bad = 0;
	if (http_address_read(&s.to, span_of(u->url), &a) != 0)
		bad = err_set(&e, FAILED, "it must be https://HOST or https://HOST:PORT");
	else if (!s.to.tls && !http_address_is_loopback(&s.to))
		bad = err_set(&e, FAILED, "it must be https, since a token is sent");
	else if (s.to.tls)
		s.ca_bundle = ca_bundle_load(path_join(&a, u->at->output, "ca.crt"), &e);
	if (bad || (s.to.tls && !s.ca_bundle)) {
		logs_message(u->logs, "warning: PAI_OUTPUT_URL cannot be used: %s", err_msg(&e));
	} else {
		result = upload_try(&s);
		for (int64_t pause_ms = UPLOAD_FIRST_MS; result == UPLOAD_AGAIN; pause_ms *= 2) {
			uint8_t random;
			random_bytes(&random, sizeof(random));
			/* The pause is random, from half to all of it. */
			int64_t next = clock_ms() + pause_ms / 2 + pause_ms * random / 512;
			if (next >= u->until_ms || upload_pause(next))
				break;
			result = upload_try(&s);
		}
		if (result != UPLOAD_STORED)
			logs_message(u->logs,
			             "warning: the end of the output was not uploaded to %s: %s",
			             u->url, str_c(&s.why));
	}
	str_done(&s.why);
	ca_bundle_free(s.ca_bundle);
	return result == UPLOAD_STORED;
}
