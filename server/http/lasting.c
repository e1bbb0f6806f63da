#include "server/http/lasting.h"

#include <stdlib.h>

#include "base/clock.h"
#include "k8s/transport/store.h"
#include "server/http/answer.h"
#include "server/http/connections.h"
#include "server/http/http_request.h"
#include "server/http/loop.h"

enum { LOOK_MS = 1000, RETRY_S = 5, SHARE = 4 };

struct lasting {
	struct lasting *prev, *next;
	struct request *r;
	lasting_told *told;
	void *arg;
	int64_t until_ms, check_ms; /* when it is over; when its token is looked at next */
	uint64_t revoked;           /* how many revocations there were when it began */
	bool ending;                /* was told so: only the client's leaving is news */
};

/* ---- limits ---- */

static const char *user_of(const struct request *r)
{
	return r->user ? r->user : r->peer;
}

static size_t count_of(const struct loop *l, const char *user)
{
	size_t n = 0;
	for (const struct lasting *w = l->lasting; w; w = w->next)
		n += strcmp(user_of(w->r), user) == 0;
	return n;
}

static bool refuse(struct request *r, int status, const char *code, const char *what, size_t n)
{
	ERR_AUTO e = { 0 };
	(void)err_set(&e, status, code, "%s %zu", what, n);
	if (status == 429)
		answer_header(r, "Retry-After", arena_printf(&r->arena, "%d", RETRY_S));
	answer_error(r, &e);
	return false;
}

static bool admit(struct request *r)
{
	const struct loop *l = r->loop;
	const struct options *o = l->server->options;
	size_t places = (size_t)(o->connections + SHARE - 1) / SHARE;
	if (atomic_load(&l->server->phase) == PHASE_STOP) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return false;
	}
	if (count_of(l, user_of(r)) >= (size_t)o->streams_per_user)
		return refuse(r, 429, "TooManyRequestsError",
		              "too many requests of this user wait for things to happen; at once "
		              "there may be",
		              (size_t)o->streams_per_user);
	if (l->n_lasting >= places)
		return refuse(r, UNAVAILABLE,
		              "too many requests wait for things to happen; at once there may be",
		              places);
	return true;
}

/* ---- one of them ---- */

static void next_at(struct loop *l, int64_t ms)
{
	if (ms < l->lasting_next_ms)
		l->lasting_next_ms = ms;
}

bool lasting_begin(struct request *r, int64_t seconds, lasting_told *told, void *arg)
{
	struct loop *l = r->loop;
	int64_t now_ms = clock_ms();
	int64_t lifetime = l->server->options->stream_lifetime_s;
	if (!admit(r))
		return false;
	struct lasting *w = ARENA_NEW(&r->arena, struct lasting, 1);
	w->r = r;
	w->told = told;
	w->arg = arg;
	w->until_ms = now_ms + 1000 * (seconds < lifetime ? seconds : lifetime);
	w->revoked = l->server->hooks->mark(l);
	w->next = l->lasting;
	if (w->next)
		w->next->prev = w;
	else
		l->lasting_next_ms = now_ms + LOOK_MS;
	next_at(l, w->until_ms);
	l->lasting = w;
	l->n_lasting++;
	r->lasting = w;
	return true;
}

void lasting_end(struct request *r)
{
	struct lasting *w = TAKE(r->lasting);
	if (!w)
		return;
	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		r->loop->lasting = w->next;
	r->loop->n_lasting--;
}

/* ---- news ---- */

static bool is_refused(struct lasting *w, int64_t now_ms)
{
	if (now_ms < w->check_ms)
		return false;
	w->check_ms = now_ms + 1000 * w->r->loop->server->options->stream_heartbeat_s;
	return !w->r->loop->server->hooks->holds(w->r, w->revoked);
}

static enum lasting_news news_of(struct lasting *w, int64_t now_ms)
{
	if (connection_left(http_connection_of(w->r->connection)))
		return LASTING_LEFT;
	if (now_ms >= w->until_ms)
		return LASTING_OVER;
	return is_refused(w, now_ms) ? LASTING_REFUSED : LASTING_TICK;
}

/* What is told may end itself, and no other. */
static void tell(struct lasting *w, enum lasting_news news)
{
	if (w->ending && news != LASTING_LEFT)
		return;
	w->ending = news != LASTING_TICK;
	w->told(w->arg, news);
}

void lasting_run_once(struct loop *l)
{
	int64_t now_ms = clock_ms();
	if (!l->lasting || now_ms < l->lasting_next_ms)
		return;
	l->lasting_next_ms = now_ms + LOOK_MS;
	struct lasting *next;
	for (struct lasting *w = l->lasting; w; w = next) {
		next = w->next;
		if (!w->ending)
			next_at(l, w->until_ms > now_ms ? w->until_ms : now_ms + LOOK_MS);
		tell(w, news_of(w, now_ms));
	}
}

int lasting_timeout_ms(const struct loop *l)
{
	if (!l->lasting)
		return -1;
	int64_t left = l->lasting_next_ms - clock_ms();
	return left > 0 ? (int)left : 0;
}

void lasting_stop(struct loop *l)
{
	struct lasting *next;
	for (struct lasting *w = l->lasting; w; w = next) {
		next = w->next;
		tell(w, LASTING_SHUTDOWN);
	}
}
