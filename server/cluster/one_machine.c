/* Runs jobs on this machine: settings of the engine (machine/engine/engine.h) from options and
 * facts, its events and notices. */
#include "server/cluster/one_machine.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "jobs/cache/events.h"
#include "machine/engine/engine.h"
#include "machine/images/images.h"
#include "server/accounts/account.h"
#include "server/check/check.h"
#include "server/config/setup.h"
#include "server/state/log.h"
#include "translate/facts.h"

enum { MIB_BYTES = 1 << 20 };

/* ---- callbacks, on the engine's thread ---- */

static void machine_event(void *arg, const struct event *event)
{
	const struct server *s = arg;
	events_add(s->events, event);
}

static void machine_notice(void *arg, enum engine_level level, const char *text)
{
	const struct server *s = arg;
	if (s->foreground)
		s->foreground->notice(s->foreground->arg, level, text);
	else if (level != ENGINE_NO_IMAGE)
		log_event(level == ENGINE_WARNING ? LOG_WARN : LOG_INFO, "jobs on this machine",
		          "notice", text);
}

/* ---- settings ---- */

static int64_t machine_scaled(int64_t n, int64_t unit)
{
	return n < 0 ? INT64_MAX : n * unit;
}

/* A missing directory of a storage is an error of the job that mounts it: it may be mounted later.
 */
static void machine_read_facts(const struct facts_file *f, struct engine_settings *out,
                               struct arena *a)
{
	struct span name;
	struct facts_capacity has;
	struct facts_directory storage;
	while (facts_file_quota(f, out->n_quotas, &name, &has))
		out->n_quotas++;
	while (facts_file_directory(f, out->n_storages, &storage))
		out->n_storages++;
	struct engine_quota *quotas = ARENA_NEW(a, struct engine_quota, out->n_quotas + 1);
	struct pod_storage *storages = ARENA_NEW(a, struct pod_storage, out->n_storages + 1);
	for (size_t i = 0; facts_file_quota(f, i, &name, &has); i++)
		quotas[i] =
		    (struct engine_quota){ arena_dup(a, name),
			                   { .gpus = machine_scaled(has.gpu, 1),
			                     .cpus = machine_scaled(has.cpu, 1000),
			                     .memory = machine_scaled(has.memory_mb, MIB_BYTES),
			                     .ports = INT64_MAX } };
	for (size_t i = 0; facts_file_directory(f, i, &storage); i++)
		storages[i] = (struct pod_storage){ arena_dup(a, span_of(storage.name)),
			                            arena_dup(a, span_of(storage.path)) };
	out->quotas = quotas;
	out->storages = storages;
}

static struct amounts machine_most(const struct facts_limits *l)
{
	return (struct amounts){ .gpus = machine_scaled(l->gpu, 1),
		                 .cpus = machine_scaled(l->cpu, 1000),
		                 .memory = machine_scaled(l->memory_mb, MIB_BYTES),
		                 .ports = INT64_MAX };
}

static void machine_tell_limits(void *engine, const struct facts_file *f)
{
	ARENA_AUTO a = { 0 };
	struct facts_limits l = facts_file_limits(f);
	const struct amounts others = machine_most(&l);
	struct span user;
	size_t n = 0;
	while (facts_file_limited(f, n, &user, &l))
		n++;
	struct engine_limit *v = ARENA_NEW(&a, struct engine_limit, n + 1);
	for (size_t i = 0; facts_file_limited(f, i, &user, &l); i++)
		v[i] = (struct engine_limit){ arena_dup(&a, user), machine_most(&l) };
	engine_limit_users(engine, v, n, &others);
}

void machine_limit_users(struct server *s)
{
	account_source_use(s->accounts, machine_tell_limits, s->engine);
}

/* DIR[:PATH][:rw] */
static int machine_read_mount(struct span text, struct sandbox_mount *m, struct arena *a,
                              struct err *e)
{
	char real[PATH_MAX];
	m->writable = text.n > 3 && span_is(span_from(text, text.n - 3), ":rw");
	text.n -= m->writable ? 3 : 0;
	size_t n = span_chr(text, ':');
	const char *dir = arena_dup(a, span_to(text, n));
	if (!realpath(dir, real))
		return err_set(e, 400, NULL, "--mount: %s: %m", dir);
	m->source = arena_dup(a, span_of(real));
	m->path = n < text.n ? arena_dup(a, span_from(text, n + 1)) : m->source;
	if (m->path[0] == '/' && !strchr(m->path, ':'))
		return 0;
	return err_set(e, 400, NULL,
	               "--mount: must be DIR[:PATH][:rw] with an absolute PATH, is \"%.*s\"",
	               (int)text.n, text.p);
}

int machine_read_mounts(const struct option_list *list, struct sandbox_mount *m, size_t *n,
                        struct arena *a, struct err *e)
{
	size_t end = *n + MOUNTS_MAX;
	for (size_t i = 0; i < list->n; i++) {
		for (struct span rest = span_of(list->v[i]); rest.n;) {
			struct span one = span_next(&rest, ',');
			if (one.n && *n == end)
				return err_set(e, 400, NULL, "--mount: at most %d directories",
				               MOUNTS_MAX);
			if (one.n && machine_read_mount(one, &m[*n], a, e) < 0)
				return -1;
			*n += one.n > 0;
		}
	}
	return 0;
}

static const char *machine_path(const char *path, struct arena *a, struct err *e)
{
	FREE_AUTO char *real = realpath(path, NULL);
	if (real)
		return arena_dup(a, span_of(real));
	(void)err_set(e, 400, NULL, "%s: %s", path, strerrordesc_np(errno));
	return NULL;
}

/* Images are used by default if possible, which needs a sandbox. */
static int machine_choose_images(const struct options *o, struct engine_settings *out,
                                 struct err *e)
{
	ERR_AUTO none = { 0 };
	out->only_images = strcmp(o->images, "oci") == 0;
	if (strcmp(o->images, "host") == 0)
		return 0;
	if (o->images[0] ? images_probe(&none) == 0
	                 : check_can_use_images(out->runtime, out->dir, &none) == 0) {
		out->own_images = true;
		return 0;
	}
	if (o->images[0])
		return err_set(e, 400, NULL, "--images=oci: %s", err_msg(&none));
	log_event(LOG_WARN, CHECK_HOST_FILES, "why", err_msg(&none));
	return 0;
}

static int machine_settings(struct server *s, struct engine_settings *out, struct arena *a,
                            struct err *e)
{
	const struct options *o = s->options;
	ARENA_AUTO read = { 0 };
	static const struct engine_settings SERVE = { .n_secrets = 0 };
	const struct engine_settings *run = s->foreground ?: &SERVE;
	*out = *run;
	out->store = s->local;
	out->ports = (struct port_range){ translator_settings(s->translator)->port_start,
		                          translator_settings(s->translator)->port_end };
	/* A job of a single user may do everything that the user may. */
	out->needs_sandbox = !o->no_auth;
	out->foreground = s->foreground;
	out->gpu_idle_ms = s->foreground ? 0 : o->gpu_idle_s * 1000;
	out->ignore_foreign = strcmp(o->foreign_gpus, "ignore") == 0;
	out->keep_logs = o->keep_logs;
	out->keep_results = options_keep_results(o) ?: INT64_MAX; /* none: of earlier jobs */
	out->arg = s;
	out->event = machine_event;
	out->notice = machine_notice;
	check_inventory(o, &out->machine);
	const char *program = runtime_program_path(o, a, e);
	const struct facts_file *facts = program ? setup_facts_file(o, &read, e) : NULL;
	if (!facts)
		return -1;
	machine_read_facts(facts, out, a);
	if (!s->foreground) {
		struct sandbox_mount *mounts = ARENA_NEW(a, struct sandbox_mount, MOUNTS_MAX);
		out->mounts = mounts;
		if (machine_read_mounts(&o->mount, mounts, &out->n_mounts, a, e) < 0)
			return -1;
	}
	out->runtime = machine_path(program, a, e);
	out->dir = machine_path(o->local, a, e);
	const char **secrets = ARENA_NEW(a, const char *, 5 + run->n_secrets);
	for (size_t i = 0; i < run->n_secrets; i++)
		secrets[i] = run->secrets[i];
	out->secrets = secrets;
	secrets[out->n_secrets++] = o->jwt_secret_file;
	secrets[out->n_secrets++] = o->tls_key;
	secrets[out->n_secrets++] = o->issuers;
	secrets[out->n_secrets++] = o->webhook_secret_file;
	secrets[out->n_secrets++] = o->config;
	return out->runtime && out->dir ? machine_choose_images(o, out, e) : -1;
}

int machine_start(struct server *s, struct arena *a, struct err *e)
{
	struct engine_settings *set = ARENA_NEW(a, struct engine_settings, 1);
	if (machine_settings(s, set, a, e) < 0)
		return -1;
	s->host_files = !set->own_images;
	s->host_commands = !set->only_images;
	s->engine = engine_start(set, e);
	if (s->engine)
		machine_limit_users(s);
	return s->engine ? 0 : -1;
}

int machine_start_jobs(struct server *s, struct err *e)
{
	STR_AUTO offers = STR_INIT(1024);
	struct engine_shares all;
	if (engine_begin(s->engine, e) < 0)
		return -1;
	engine_shares(s->engine, NULL, &all);
	amounts_text(&offers, &all.total);
	log_event(LOG_INFO, "jobs run on this machine", "resources", str_c(&offers));
	return 0;
}
