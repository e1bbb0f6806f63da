/* The thread that creates the ConfigMaps that pods need, makes the checks of a server, and counts
 * GPUs of nodes. */
#include "server/cluster/upkeep.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "server/check/check.h"
#include "server/cluster/cluster.h"
#include "server/cluster/nodes.h"
#include "server/cluster/output_ca.h"
#include "server/cluster/runtime_configmap.h"
#include "server/state/log.h"

enum {
	LOOK_MS = 600000, /* for checks, until an API server is up */
	WAIT_MS = 10000,  /* for each of their answers */
	AGAIN_MS = 2000   /* between attempts */
};

enum look_stage { STAGE_CHECKS, STAGE_RESTS, STAGE_WANTED };

struct upkeep {
	struct caller caller;
	struct server *server;
	struct arena arena;
	struct pod_needs needs;
	struct runtime_configmap programs;
	struct output_ca ca;
	struct nodes *nodes; /* NULL: pods ask for no label */
	atomic_int stage;    /* any thread */
	int wanted_fd;       /* readable after a change to STAGE_WANTED */
};

/* ---- checks ---- */

/* The lines of one check. */
struct look {
	struct check_session c;
	bool last, quiet; /* a missing answer counts as one; nothing is logged */
};

static void look_take(void *arg, const struct check_line *line)
{
	const struct look *l = arg;
	if (!l->quiet && !l->c.caller->stopped && (l->last || !l->c.unanswered))
		check_log(NULL, line);
}

/* false: there is no answer yet; another check is next. */
static bool look_at(struct upkeep *d, const struct check *check, int64_t end_ms, bool quiet)
{
	struct look l = { .c = { .server = d->server,
		                 .o = d->server->options,
		                 .needs = &d->needs,
		                 .caller = &d->caller,
		                 .wait_ms = WAIT_MS,
		                 .take = look_take,
		                 .item = check->item },
		          .last = clock_ms() >= end_ms,
		          .quiet = quiet };
	l.c.arg = &l;
	check->run(&l.c);
	/* A missing right to list nodes is not an error.  After other failures the last list
	 * counts. */
	const struct store_reply *r = &l.c.reply;
	bool nodes = d->nodes && check->run == check_nodes;
	if (nodes && r->outcome == STORE_REFUSED)
		nodes_list(d->nodes, SPAN(""));
	else if (nodes && r->outcome == STORE_OK && scan_valid(r->body, SCAN_DEPTH_MAX))
		nodes_list(d->nodes, r->body);
	arena_done(&l.c.arena);
	return !d->caller.stopped && (l.last || !l.c.unanswered);
}

/* ---- the thread ---- */

/* Repeats until all is done, or the thread shall end. */
static void upkeep_check(struct upkeep *d)
{
	bool done[N_CHECKS] = { false };
	int64_t end_ms = clock_ms() + LOOK_MS;
	size_t left = 1;
	for (bool first = true; left > 0; first = false) {
		if (!first && !caller_wait(&d->caller, -1, AGAIN_MS))
			return;
		left = runtime_configmap_publish(&d->programs, first);
		left += !output_ca_publish(&d->ca);
		for (size_t i = 0; i < N_CHECKS; i++) {
			done[i] = done[i] || d->server->local || !CHECKS[i].serve ||
			          look_at(d, &CHECKS[i], end_ms, false);
			left += !done[i];
		}
	}
}

static void *upkeep_thread(void *arg)
{
	enum { COUNT_MS = 1000 };
	static const struct check NODES = { .item = "pods", .run = check_nodes };
	struct upkeep *d = arg;
	for (;;) {
		upkeep_check(d);
		atomic_store(&d->stage, STAGE_RESTS);
		while (atomic_load(&d->stage) == STAGE_RESTS) {
			if (!caller_wait(&d->caller, d->wanted_fd, d->nodes ? COUNT_MS : -1))
				return NULL;
			if (d->nodes)
				nodes_run_once(d->nodes);
			if (d->nodes && nodes_wanted(d->nodes))
				(void)look_at(d, &NODES, 0, true); /* the next list is soon */
		}
		(void)eventfd_read(d->wanted_fd, &(eventfd_t){ 0 });
		atomic_store(&d->stage, STAGE_CHECKS);
		ERR_AUTO e = { 0 };
		if (output_ca_read(&d->ca, &e) < 0)
			log_event(LOG_WARN, "the certificates for uploads are not replaced", "why",
			          err_msg(&e));
	}
}

struct upkeep *upkeep_start(struct server *s, struct err *e)
{
	struct upkeep *d = xcalloc(1, sizeof(*d));
	d->server = s;
	d->ca = (struct output_ca){ .server = s, .caller = &d->caller };
	d->wanted_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!s->local) /* a directory has no pods */
		pod_needs_read(s->translator, &d->arena, &d->needs);
	if (d->needs.node_query)
		s->nodes = d->nodes = nodes_new(s);
	runtime_configmap_begin(&d->programs, s, &d->caller, &d->arena);
	struct store *store = NULL;
	if (output_ca_read(&d->ca, e) == 0)
		store = cluster_store(s, &STORE_LIMITS_DEFAULT, e);
	if (store && caller_start(&d->caller, store, upkeep_thread, d, e) == 0) {
		s->threads[s->n_threads++] = &d->caller;
		return d;
	}
	upkeep_free(d);
	return NULL;
}

/* A check under way is not begun again, as its thread may have looked already or not. */
bool upkeep_check_again(struct upkeep *d)
{
	int rests = STAGE_RESTS;
	if (!atomic_compare_exchange_strong(&d->stage, &rests, STAGE_WANTED))
		return false;
	(void)eventfd_write(d->wanted_fd, 1);
	return true;
}

void upkeep_free(struct upkeep *d)
{
	if (!d)
		return;
	caller_end(&d->caller);
	nodes_free(d->nodes);
	str_done(&d->ca.object);
	if (d->wanted_fd >= 0)
		(void)close(d->wanted_fd);
	arena_done(&d->arena);
	free(d);
}
