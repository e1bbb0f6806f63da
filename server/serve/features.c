/* The hooks by which a loop calls the features; see loop.h. */
#include "server/http/loop.h"

#include <stdlib.h>

#include "jobs/store/store.h"
#include "k8s/logs/log_stream.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/config/options.h"
#include "server/http/worker.h"
#include "server/jobs/jobs.h"
#include "server/logs/logs.h"
#include "server/serve/routes.h"
#include "server/serve/start.h"
#include "server/state/counts.h"
#include "server/state/server.h"

/* ---- sources of a loop ---- */

static void run_followers(void *arg)
{
	followers_run_once(arg);
}

static void run_tails(void *arg)
{
	const struct loop *l = arg;
	log_streams_run_once(l->has->log_streams);
}

/* Called in each round: the count is that of the last round. */
static int wait_tails(const void *arg)
{
	const struct loop *l = arg;
	counter_set(&l->counts->log_streams, log_streams_count(l->has->log_streams));
	return log_streams_timeout_ms(l->has->log_streams);
}

/* ---- hooks ---- */

static int open_features(struct loop *l, struct err *e)
{
	const struct server *s = l->server;
	const struct options *o = s->options;
	struct features *f = l->has = xcalloc(1, sizeof(*l->has));
	struct loop_source source;
	f->accounts = accounts_new(s->accounts, l->store);
	f->auth = auth_new(l);
	f->edits = worker_inbox_new(s->edits, e);
	if (!f->edits)
		return -1;
	source =
	    (struct loop_source){ f->edits->box.fd, worker_inbox_run_once, NULL, f->edits, false };
	if (loop_add(l, &source, e) < 0)
		return -1;
	if (s->cache) {
		int fd;
		f->followers = followers_new(s->cache, &fd, e);
		if (!f->followers)
			return -1;
		source = (struct loop_source){ fd, run_followers, NULL, f->followers, false };
		if (loop_add(l, &source, e) < 0)
			return -1;
	}
	if (!s->login && !s->engine)
		return 0;
	f->log_streams = log_streams_new(s->login, s->namespace_name, (size_t)o->log_streams,
	                                 (size_t)o->streams_per_user, e);
	if (!f->log_streams)
		return -1;
	source =
	    (struct loop_source){ log_streams_fd(f->log_streams), run_tails, wait_tails, l, false };
	return loop_add(l, &source, e);
}

static void stop_features(struct loop *l)
{
	struct features *f = l->has;
	worker_inbox_free(TAKE(f->edits));
	log_streams_free(TAKE(f->log_streams));
	store_free(l->store); /* answers the requests that wait for it */
	l->store = NULL;
	auth_free(TAKE(f->auth));
	accounts_free(TAKE(f->accounts));
}

static void close_features(struct loop *l)
{
	if (!l->has)
		return;
	stop_features(l);
	free(l->has->readiness);
	followers_free(l->has->followers);
	uploads_free(l->has->uploads);
	free(TAKE(l->has));
}

static bool features_identify(struct request *r)
{
	return r->route->auth == AUTH_POD ? uploads_begin(r) : auth_begin(r);
}

const struct loop_hooks FEATURES = {
	.open = open_features,
	.stop = stop_features,
	.close = close_features,
	.identify = features_identify,
	.mark = auth_mark,
	.holds = auth_holds,
};
