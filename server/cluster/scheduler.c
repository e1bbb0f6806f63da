/* Exchanges configuration and status of HiveD under a lock, and counts who holds the old ones. */
#include "server/cluster/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/posix/fd.h"
#include "k8s/http/http_client.h"
#include "server/config/options.h"
#include "server/config/system.h"
#include "server/state/log.h"

/* A route of HiveD's web service. */
#define STATUS_PATH "/v1/inspect/clusterstatus/virtualclusters/"

enum { CONFIG_MAX = 16 << 20 };

/* Either hived or status is set. */
struct scheduler_part {
	atomic_size_t refs;
	const struct hived *hived;
	const struct hived_status *status;
	struct arena arena;
};

struct scheduler {
	const struct options *options;
	struct fetch *fetch;  /* NULL: there is no web service to ask */
	pthread_mutex_t lock; /* protects config and status */
	struct scheduler_part *config;
	struct scheduler_part *status; /* NULL: not known */
	bool lost;                     /* the failure is logged; used by the fetch thread only */
};

/* ---- parts ----------------------------------------------------------------------------------- */

static struct scheduler_part *facts_part_new(void)
{
	struct scheduler_part *p = xcalloc(1, sizeof(*p));
	atomic_init(&p->refs, 1);
	return p;
}

static struct scheduler_part *facts_part_hold(struct scheduler_part *p)
{
	if (p)
		atomic_fetch_add(&p->refs, 1);
	return p;
}

static void facts_part_drop(struct scheduler_part *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	arena_done(&p->arena);
	free(p);
}

/* Takes over the reference to `new`. */
static void scheduler_replace(struct scheduler *s, struct scheduler_part **place,
                              struct scheduler_part *new)
{
	(void)pthread_mutex_lock(&s->lock); /* cannot fail */
	struct scheduler_part *old = *place;
	*place = new;
	(void)pthread_mutex_unlock(&s->lock);
	facts_part_drop(old);
}

/* ---- views ----------------------------------------------------------------------------------- */

struct scheduler_view scheduler_hold(struct scheduler *s)
{
	struct scheduler_view v = { 0 };
	if (!s)
		return v;
	(void)pthread_mutex_lock(&s->lock); /* likewise */
	v.parts[0] = facts_part_hold(s->config);
	v.parts[1] = facts_part_hold(s->status);
	(void)pthread_mutex_unlock(&s->lock);
	v.hived = v.parts[0]->hived;
	v.status = v.parts[1] ? v.parts[1]->status : NULL;
	return v;
}

void scheduler_drop(struct scheduler_view *v)
{
	facts_part_drop(v->parts[0]);
	facts_part_drop(v->parts[1]);
	*v = (struct scheduler_view){ 0 };
}

void scheduler_facts(const struct scheduler_view *v, struct arena *a, struct facts *f)
{
	f->hived = v->hived;
	f->hived_status = v->status;
	if (!v->hived || !f->any_virtual_cluster)
		return;
	struct span *names;
	f->n_virtual_clusters = hived_virtual_clusters(v->hived, v->status, a, &names);
	f->virtual_clusters = names;
	f->any_virtual_cluster = false;
}

/* ---- the configuration ----------------------------------------------------------------------- */

int scheduler_reload(struct scheduler *s, struct err *e)
{
	STR_AUTO text = STR_INIT(CONFIG_MAX);
	struct stat st;
	if (file_read_regular(s->options->hived_config, &text, &st, e) < 0)
		return -1;
	struct scheduler_part *p = facts_part_new();
	p->hived = hived_read(str_view(&text), &p->arena, e);
	if (!p->hived) {
		facts_part_drop(p);
		return -1;
	}
	const char *warning = file_warning(&st, false);
	if (warning)
		log_event(LOG_WARN, "the file of --hived-config is not safe", "why", warning);
	scheduler_replace(s, &s->config, p);
	return 0;
}

/* ---- the status: called by the fetch thread -------------------------------------------------- */

static int scheduler_take_status(void *arg, struct span body, struct err *e)
{
	struct scheduler *s = arg;
	struct scheduler_part *p = facts_part_new();
	p->status = hived_status_read(body, &p->arena, e);
	if (!p->status) {
		facts_part_drop(p);
		return -1;
	}
	bool is_new = !s->status; /* only this thread writes it */
	scheduler_replace(s, &s->status, p);
	s->lost = false;
	if (is_new)
		log_event(LOG_INFO, "HiveD's web service reports the virtual clusters", "url",
		          s->options->hived_webservice);
	return 0;
}

/* The last status is discarded after several failures only. */
static void scheduler_miss_status(void *arg, unsigned attempts, const struct err *e)
{
	struct scheduler *s = arg;
	if (s->lost || (s->status && attempts < FETCH_PATIENCE))
		return;
	s->lost = true;
	scheduler_replace(s, &s->status, NULL);
	struct line line = log_begin(LOG_WARN, "HiveD's web service cannot be used: only "
	                                       "--hived-config describes the virtual clusters");
	log_text(&line, "url", span_of(s->options->hived_webservice));
	log_text(&line, "why", span_of(err_msg(e)));
	log_end(&line);
}

static int scheduler_start_asking(struct scheduler *s, struct err *e)
{
	const struct options *o = s->options;
	const struct fetch_settings settings = {
		.url = o->hived_webservice,
		.path = STATUS_PATH,
		.ca_file = o->hived_webservice_ca,
		.interval_ms = o->hived_interval_s * 1000,
		.max = (size_t)o->hived_max_answer,
		.take = scheduler_take_status,
		.failed = scheduler_miss_status,
		.arg = s,
	};
	if (!o->hived_webservice[0])
		return 0;
	s->fetch = fetch_new(&settings, e);
	return s->fetch ? 0 : err_wrap(e, "--hived-webservice");
}

/* ---- life ------------------------------------------------------------------------------------ */

struct scheduler *scheduler_new(const struct options *o, struct err *e)
{
	struct scheduler *s = xcalloc(1, sizeof(*s));
	s->options = o;
	(void)pthread_mutex_init(&s->lock, NULL); /* cannot fail */
	if (scheduler_reload(s, e) == 0 && scheduler_start_asking(s, e) == 0)
		return s;
	scheduler_free(s);
	return NULL;
}

void scheduler_free(struct scheduler *s)
{
	if (!s)
		return;
	fetch_free(s->fetch);
	facts_part_drop(s->config);
	facts_part_drop(s->status);
	(void)pthread_mutex_destroy(&s->lock); /* not locked */
	free(s);
}
