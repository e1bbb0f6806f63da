/* What the start of a pod needs: Secrets, ConfigMaps and the Framework from the store; devices and
 * mounts; the shim. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/enc.h"
#include "base/fd.h"
#include "base/json/scan.h"
#include "k8s/local/engine_internal.h"
#include "k8s/transport/reply.h"

enum { FETCHES_MAX = 8, FETCH_DEADLINE_MS = 30000, FETCH_AGAIN_MS = 20, LOGINS_MAX = 1 << 20 };

/* For clusters without this ConfigMap of OpenPAI. */
EMBED(exit_patterns, "runtime-assets/runtime-exit-spec.yaml");
static const char EXIT_PATTERNS[] = "runtime-exit-spec-configuration";

/* ---- objects of the store -------------------------------------------------------------------- */

static void fetch_free(struct engine_fetch *f)
{
	for (size_t i = 0; i < f->n; i++)
		str_wipe(&f->item[i].text);
	free(f->item);
	arena_wipe(&f->arena);
	free(f);
}

void fetch_drop(struct engine_pod *p)
{
	struct engine_fetch *f = TAKE(p->fetch);
	if (!f)
		return;
	f->pod = NULL;
	if (f->left == 0)
		fetch_free(f);
}

static void fetch_done(void *arg, const struct store_reply *reply)
{
	struct engine_item *i = arg;
	struct engine_fetch *f = i->fetch;
	i->outcome = reply->outcome;
	str_span(&i->text, reply->outcome == STORE_OK ? reply->body : reply->message);
	if (--f->left > 0)
		return;
	f->e->fetches--;
	if (f->pod)
		engine_due(f->pod->job, 0);
	else
		fetch_free(f);
}

static void fetch_want(struct engine_fetch *f, enum object_kind kind, const char *name,
                       bool optional)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->item[i].kind == kind && strcmp(f->item[i].name, name) == 0) {
			f->item[i].optional = f->item[i].optional && optional;
			return;
		}
	}
	if (f->n == f->room) {
		f->room = f->room ? 2 * f->room : 8;
		f->item = xrealloc(f->item, f->room * sizeof(*f->item));
	}
	f->item[f->n++] = (struct engine_item){
		.kind = kind,
		.name = name,
		.optional = optional,
		.text = STR_SECRET(POD_OBJECT_MAX),
	};
}

static enum object_kind fetch_kind(bool secret)
{
	return secret ? KIND_SECRET : KIND_CONFIGMAP;
}

static void fetch_want_source(struct engine_fetch *f, const struct pod_source *s)
{
	if (s->name)
		fetch_want(f, fetch_kind(s->secret), s->name, s->optional);
}

static void fetch_want_env(struct engine_fetch *f, const struct pod_container *c)
{
	for (size_t i = 0; i < c->n_env; i++)
		fetch_want_source(f, &c->env[i].from);
}

static void fetch_want_all(struct engine_fetch *f, const struct pod *spec)
{
	/* Copied, since the job can be freed before the answer comes. */
	fetch_want(f, KIND_FRAMEWORK, arena_dup(&f->arena, span_of(f->pod->job->name)), false);
	fetch_want_env(f, &spec->init);
	fetch_want_env(f, &spec->app);
	for (size_t i = 0; i < spec->n_volumes; i++)
		fetch_want_source(f, &spec->volume[i].from);
}

static void fetch_send(struct engine_fetch *f)
{
	f->left = f->n;
	f->e->fetches += f->n > 0;
	for (size_t i = 0; i < f->n; i++) {
		f->item[i].fetch = f;
		store_request(f->e->store, &(struct store_request){
					       .verb = STORE_GET,
					       .kind = f->item[i].kind,
					       .name = f->item[i].name,
					       .whole = true,
					       .deadline_ms = clock_ms() + FETCH_DEADLINE_MS,
					       .done = fetch_done,
					       .arg = &f->item[i],
					   });
	}
}

static const struct pod *fetch_read_pod(struct engine_fetch *f, struct err *err)
{
	struct engine_pod *p = f->pod;
	STR_AUTO text = STR_INIT(POD_OBJECT_MAX);
	const char *path = arena_printf(&f->arena, "%s/pod.json", p->dir);
	if (fd_read_str(AT_FDCWD, path, &text) != 0) {
		err_set(err, UNKNOWN_ERROR, "%s is not readable", path);
		return NULL;
	}
	struct span object = arena_span(&f->arena, str_view(&text));
	return world_read_pod(p->e, object, p->ip, &f->arena, err);
}

void fetch_begin(struct engine_pod *p, enum engine_fetch_what what)
{
	ERR_AUTO err = { 0 };
	if (p->e->fetches >= FETCHES_MAX) {
		p->state = p->image ? POD_PULLING : POD_BOUND;
		engine_due(p->job, clock_ms() + FETCH_AGAIN_MS);
		return;
	}
	struct engine_fetch *f = p->fetch = xcalloc(1, sizeof(*f));
	f->e = p->e;
	f->pod = p;
	f->what = what;
	f->spec = fetch_read_pod(f, &err);
	p->state = POD_FETCHING;
	if (!f->spec)
		f->trouble = arena_dup(&f->arena, span_of(err_msg(&err)));
	else if (what == FETCH_ALL)
		fetch_want_all(f, f->spec);
	for (size_t i = 0; f->spec && what == FETCH_LOGINS && i < f->spec->n_pull_secrets; i++)
		fetch_want(f, KIND_SECRET, f->spec->pull_secret[i], true);
	fetch_send(f);
	if (f->left == 0)
		engine_due(p->job, 0);
}

static bool fetch_built_in(const struct engine_item *i)
{
	return i->kind == KIND_CONFIGMAP && strcmp(i->name, EXIT_PATTERNS) == 0;
}

const char *fetch_missing(struct engine_fetch *f)
{
	static const char *const KINDS[] = { [KIND_FRAMEWORK] = "Framework",
		                             [KIND_SECRET] = "Secret",
		                             [KIND_CONFIGMAP] = "ConfigMap" };
	if (f->trouble)
		return f->trouble;
	for (size_t j = 0; j < f->n; j++) {
		const struct engine_item *i = &f->item[j];
		bool absent = i->outcome == STORE_NOT_FOUND;
		if (i->outcome == STORE_OK || (absent && (i->optional || fetch_built_in(i))))
			continue;
		return arena_printf(&f->arena, "%s %s %s", KINDS[i->kind], i->name,
		                    absent ? "does not exist" : str_c(&i->text));
	}
	return NULL;
}

static const struct engine_item *fetch_item(const struct engine_fetch *f, enum object_kind kind,
                                            const char *name)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->item[i].kind == kind && strcmp(f->item[i].name, name) == 0)
			return &f->item[i];
	}
	return NULL;
}

/* struct pod_objects. */
static int fetch_get(void *arg, const struct pod_source *s, struct arena *a, struct pod_data *out,
                     struct err *e)
{
	const struct engine_item *i = fetch_item(arg, fetch_kind(s->secret), s->name);
	if (i && i->outcome == STORE_OK)
		return pod_data_read(str_view(&i->text), s->secret, a, out, e);
	if (!i || !fetch_built_in(i))
		return 1;
	out->v = ARENA_NEW(a, struct pod_pair, 1);
	out->v[0] = (struct pod_pair){ SPAN("runtime-exit-spec.yaml"), EMBEDDED(exit_patterns) };
	out->n = 1;
	return 0;
}

int fetch_logins(struct engine_fetch *f, struct str *out)
{
	JSON_AUTO *all = json_object();
	ARENA_AUTO a = { 0 };
	ERR_AUTO err = { 0 };
	for (size_t i = 0; i < f->n; i++) {
		struct pod_data data;
		if (f->item[i].outcome != STORE_OK)
			continue;
		if (pod_data_read(str_view(&f->item[i].text), true, &a, &data, &err) != 0)
			return -1;
		for (size_t j = 0; j < data.n; j++) {
			JSON_AUTO *one = span_is(data.v[j].key, ".dockerconfigjson")
			                     ? reply_parse(data.v[j].value)
			                     : NULL;
			json_t *auths = json_object_get(one, "auths");
			if (json_is_object(auths))
				(void)json_object_update(all, auths); /* memory only */
		}
	}
	arena_wipe(&a);
	char *text = json_dumps(all, JSON_COMPACT);
	if (text && json_object_size(all) > 0)
		str_printf(out, "{\"auths\":%s}", text);
	free_wiped(text);
	return 0;
}

/* ---- the shim -------------------------------------------------------------------------------- */

struct start {
	struct engine_pod *p;
	struct arena a;
	struct sandbox_mount *mount;
	size_t n_mounts;
	struct sandbox_device *device;
	size_t n_devices;
	const char *const *env;
	int keep[256];
	size_t n_keep;
	char *procs;
};

static void start_add_file(struct start *s, const struct gpu_file *f)
{
	if (f->device)
		s->device[s->n_devices++] = (struct sandbox_device){ f->host, f->path };
	else
		s->mount[s->n_mounts++] =
		    (struct sandbox_mount){ f->host, f->path, f->writable, 0, NULL };
}

/* The GPUs of the pod: nodes, mounts, variables and locks. */
static void start_gpus(struct start *s)
{
	struct engine *e = s->p->e;
	const struct gpu **gpus = ARENA_NEW(&s->a, const struct gpu *, e->inventory.gpus_n + 1);
	size_t n = 0;
	size_t files = e->set.n_mounts + 2;
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		if (e->gpu[i].grant != s->p->grant)
			continue;
		gpus[n++] = e->gpu[i].gpu;
		files += e->gpu[i].gpu->files_n;
		if (s->n_keep + 1 < sizeof(s->keep) / sizeof(s->keep[0]))
			s->keep[s->n_keep++] = e->gpu[i].fd;
	}
	s->mount = ARENA_NEW(&s->a, struct sandbox_mount, files);
	s->device = ARENA_NEW(&s->a, struct sandbox_device, files);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < gpus[i]->files_n; j++)
			start_add_file(s, &gpus[i]->files[j]);
	}
	s->env = gpu_env(gpus, n, e->sandbox, &s->a);
}

static void start_mounts(struct start *s)
{
	const struct engine_settings *set = &s->p->e->set;
	if (s->p->e->shows_cwd)
		s->mount[s->n_mounts++] =
		    (struct sandbox_mount){ set->cwd, set->cwd, false, 0, NULL };
	for (size_t i = 0; i < set->n_mounts; i++) {
		const struct engine_mount *m = &set->mounts[i];
		s->mount[s->n_mounts++] =
		    (struct sandbox_mount){ m->source, m->path, m->writable, 0, NULL };
	}
}

static int start_cgroup(struct start *s, const struct pod *spec, struct err *err)
{
	const struct cgroup_limits limits = { .memory = spec->app.memory,
		                              .cpus = spec->app.cpu_milli };
	if (!s->p->e->cgroup)
		return 0;
	return cgroup_make(s->p->e->cgroup, s->p->uid, &limits, &s->procs, err);
}

static int start_write(struct start *s, const struct images_status *image, struct err *err)
{
	struct engine_pod *p = s->p;
	struct engine *e = p->e;
	const struct pod_objects objects = { fetch_get, p->fetch };
	const struct task_settings set = {
		.dir = p->dir,
		.runtime = e->runtime,
		.sandbox = e->sandbox,
		.image = image ? image->rootfs : NULL,
		.hide = e->hide,
		.n_hide = e->n_hide,
		.start_directory = e->set.cwd ? e->set.cwd
		                   : image    ? image->directory
		                              : NULL,
		.mount = s->mount,
		.n_mounts = s->n_mounts,
		.device = s->device,
		.n_devices = s->n_devices,
		.env = s->env,
		.cgroup_procs = s->procs,
		.image_env = image ? image->env : NULL,
		.objects = &objects,
	};
	const struct engine_item *f = fetch_item(p->fetch, KIND_FRAMEWORK, p->job->name);
	if (task_prepare(p->fetch->spec, &set, err) < 0 ||
	    task_put_framework(p->dir, str_view(&f->text), err) < 0)
		return -1;
	p->starting = true;
	return pod_note(p) < 0 ? err_set(err, UNKNOWN_ERROR, "%s cannot be written", p->dir) : 0;
}

static int start_all(struct start *s, struct err *err)
{
	struct engine_pod *p = s->p;
	struct engine *e = p->e;
	const struct images_status *image = p->image ? images_status(p->image) : NULL;
	start_gpus(s);
	start_mounts(s);
	if (p->image)
		s->keep[s->n_keep++] = images_lock_fd(p->image);
	if (start_cgroup(s, p->fetch->spec, err) < 0 || start_write(s, image, err) < 0)
		return -1;
	p->pidfd = task_start(p->dir, e->runtime, e->tether[0], s->keep, s->n_keep, err);
	return p->pidfd < 0 ? -1 : 0;
}

int pod_start(struct engine_pod *p, struct err *err)
{
	struct start s = { .p = p };
	pod_watch_state(p);
	int bad = start_all(&s, err);
	p->starting = !bad;
	if (bad)
		(void)pod_note(p); /* else a restart takes it as lost */
	else
		grant_unlock(p->e, p->grant); /* the shim has the locks */
	arena_done(&s.a);
	free(s.procs);
	return bad;
}
