/*
 * Time limits and eviction of connections.  MHD restarts its own timeout with each byte, and only
 * stops listening at its limit of connections.  All connections of one activity have the same time
 * limit, so each list is in order of deadlines.
 */
#include "server/http/http_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/posix/clock.h"
#include "jobs/store/store.h"
#include "server/config/options.h"
#include "server/http/rate_limit.h"
#include "server/http/tls.h"
#include "server/state/server.h"

/* The minimal time of a connection before eviction, and the interval of checks for clients that
 * have closed their side. */
enum { GRACE_MS = 1000, LOOK_MS = 1000 };

/* Eviction order. Suspended connections are never evicted: MHD cannot close them. */
static const enum activity GIVE_WAY[] = { IDLE, READING, ANSWERING };
enum { N_GIVE_WAY = ARRAY_SIZE(GIVE_WAY) };

/* ---- lists ---- */

static void link_last(struct connection *c)
{
	struct connection_list *list = &c->all->lists[c->activity];
	c->next = NULL;
	c->prev = list->last;
	*(c->prev ? &c->prev->next : &list->first) = c;
	list->last = c;
}

static void unlink_one(struct connection *c)
{
	struct connection_list *list = &c->all->lists[c->activity];
	*(c->next ? &c->next->prev : &list->last) = c->prev;
	*(c->prev ? &c->prev->next : &list->first) = c->next;
}

bool connection_left(const struct connection *c)
{
	/* A TLS connection may have data left to read. */
	struct pollfd p = { .fd = http_socket(c->library), .events = POLLRDHUP };
	return c->cut || poll(&p, 1, 0) > 0;
}

void connection_cut(struct connection *c)
{
	if (c->cut)
		return;
	unlink_one(c);
	c->cut = true;
	c->all->n--;
	http_shutdown(c->library);
}

/* ---- eviction ---- */

static void make_room(struct connections *all, int64_t now_ms)
{
	for (size_t i = 0; i < N_GIVE_WAY && all->n >= all->places;) {
		struct connection *c = all->lists[GIVE_WAY[i]].first;
		if (c && now_ms - c->since_ms >= GRACE_MS)
			connection_cut(c);
		else
			i++;
	}
}

/* ---- a connection ---- */

bool connection_from(struct loop *l, const struct sockaddr *from, int fd,
                     struct client_address *out)
{
	if (l->of_accounts)
		return fd >= 0 && client_address_peer(fd, out);
	if (!client_address_of(from, out))
		return false;
	if (!l->server->options->no_auth) /* then there are no limits */
		client_address_local(out, from, l->listen_fd);
	return true;
}

struct connection *connection_begin(struct connections *all, const struct sockaddr *from,
                                    struct MHD_Connection *m)
{
	struct connection *c = xcalloc(1, sizeof(*c));
	c->all = all;
	c->library = m;
	c->activity = READING;
	c->since_ms = clock_ms();
	c->counted = connection_from(all->loop, from, http_socket(m), &c->from);
	bool over = c->counted && !rate_limit_count(all->loop->server->rate_limits, &c->from, 1);
	if (all->loop->tls)
		c->chain = tls_hold(all->loop->tls);
	make_room(all, c->since_ms);
	all->n++;
	link_last(c);
	make_room(all, c->since_ms);
	if (over) /* another loop has admitted one between http_admit and this */
		connection_cut(c);
	return c;
}

void connection_end(struct connection *c)
{
	if (!c->cut) {
		unlink_one(c);
		c->all->n--;
	}
	if (c->counted)
		(void)rate_limit_count(c->all->loop->server->rate_limits, &c->from, -1);
	tls_drop(c->chain);
	free(c);
}

void connection_exempt(struct connection *c)
{
	if (c->counted)
		(void)rate_limit_count(c->all->loop->server->rate_limits, &c->from, -1);
	c->counted = false;
}

void connection_set_activity(struct connection *c, enum activity activity)
{
	if (c->cut)
		return;
	unlink_one(c);
	c->activity = activity;
	c->since_ms = clock_ms();
	c->looked = false;
	link_last(c);
}

/* ---- time ---- */

static void cut_who_left(struct connections *all, int64_t now_ms)
{
	struct connection *other;
	char byte;
	all->look_ms = now_ms + LOOK_MS;
	/* Each idle connection once, GRACE_MS after its last answer: by then MHD has begun
	 * pipelined requests, and MHD itself notices a client that leaves later.  The newest are
	 * last. */
	for (struct connection *c = all->lists[IDLE].last; c && !c->looked; c = other) {
		other = c->prev;
		if (now_ms - c->since_ms < GRACE_MS)
			continue;
		c->looked = true;
		if (connection_left(c))
			connection_cut(c);
	}
	for (struct connection *c = all->lists[READING].first; c; c = other) {
		other = c->next;
		if (now_ms - c->since_ms < GRACE_MS)
			return;
		if (recv(http_socket(c->library), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
			connection_cut(c);
	}
}

void connections_cut(struct connections *all)
{
	int64_t now_ms = clock_ms();
	if (now_ms >= all->look_ms)
		cut_who_left(all, now_ms);
	for (struct connection_list *list = all->lists; list < all->lists + ACTIVITY_MAX; list++)
		while (list->limit_ms && list->first &&
		       now_ms - list->first->since_ms >= list->limit_ms)
			connection_cut(list->first);
	make_room(all, now_ms);
}

int64_t connections_next_ms(const struct connections *all)
{
	int64_t next = INT64_MAX;
	for (enum activity a = 0; a < ACTIVITY_MAX; a++) {
		int64_t limit = all->lists[a].limit_ms;
		const struct connection *c = all->lists[a].first;
		if (limit && all->n >= all->places)
			limit = GRACE_MS;
		if (c && limit && c->since_ms + limit < next)
			next = c->since_ms + limit;
	}
	/* The next check for clients that have left. */
	const struct connection *reading = all->lists[READING].first;
	const struct connection *idle = all->lists[IDLE].last;
	int64_t look_ms = reading ? reading->since_ms + GRACE_MS : INT64_MAX;
	if (idle && !idle->looked && idle->since_ms + GRACE_MS < look_ms)
		look_ms = idle->since_ms + GRACE_MS;
	look_ms = look_ms < all->look_ms ? all->look_ms : look_ms;
	return look_ms < next ? look_ms : next;
}
