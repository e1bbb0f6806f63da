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
#include "k8s/transport/reply.h"
#include "machine/engine/engine_internal.h"

/* For clusters without this ConfigMap of OpenPAI. */
EMBED(exit_patterns, "runtime-assets/runtime-exit-spec.yaml");
static const char EXIT_PATTERNS[] = "runtime-exit-spec-configuration";

/* ---- objects of the store -------------------------------------------------------------------- */

/* struct pod_objects: an object that is needed and does not exist may do so later. */
static int start_get(void *arg, const struct pod_source *s, struct arena *a, struct pod_data *out,
                     struct err *err)
{
	struct local_answer answer;
	enum object_kind kind = s->secret ? KIND_SECRET : KIND_CONFIGMAP;
	bool built_in = !s->secret && strcmp(s->name, EXIT_PATTERNS) == 0;
	enum store_outcome got = engine_get(arg, kind, s->name, &answer);
	int result = got == STORE_NOT_FOUND ? 1 : -1;
	if (got == STORE_OK) {
		result = pod_data_read(str_view(&answer.body), s->secret, a, out, err);
	} else if (result == 1 && built_in) {
		out->v = ARENA_NEW(a, struct pod_pair, 1);
		out->v[0] =
		    (struct pod_pair){ SPAN("runtime-exit-spec.yaml"), EMBEDDED(exit_patterns) };
		out->n = 1;
		result = 0;
	} else if (result < 0) {
		err_set(err, UNAVAILABLE, "%s", answer.message);
	}
	local_answer_done(&answer);
	return result;
}

int pod_logins(struct engine_pod *p, struct str *out, struct arena *a,
               const struct pod_container **app, struct err *err)
{
	const struct pod_objects objects = { start_get, p->e };
	const struct pod *spec = pod_spec(p, err);
	JSON_AUTO *all = json_object();
	for (size_t i = 0; spec && i < spec->n_pull_secrets; i++) {
		const struct pod_source s = { spec->pull_secret[i], true, true };
		struct pod_data data;
		if (pod_source_get(&s, &objects, a, &data, err) < 0)
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
	char *text = json_dumps(all, JSON_COMPACT);
	if (text && json_object_size(all) > 0)
		str_printf(out, "{\"auths\":%s}", text);
	free_wiped(text);
	*app = spec ? &spec->app : NULL;
	return spec ? 0 : -1;
}

/* ---- the shim -------------------------------------------------------------------------------- */

struct start {
	struct engine_pod *p;
	struct arena a;
	struct sandbox_mount *mount;
	size_t n_mounts;
	const char *const *env;
	int *keep;
	size_t n_keep;
	char *procs;
};

/* The GPUs of the pod: nodes, mounts, variables and locks. */
static void start_gpus(struct start *s)
{
	struct engine *e = s->p->e;
	const struct gpu **gpus = ARENA_NEW(&s->a, const struct gpu *, e->inventory.gpus_n + 1);
	size_t n = 0;
	size_t files = e->set.n_mounts + 2;
	s->keep = ARENA_NEW(&s->a, int, e->inventory.gpus_n + (size_t)s->p->need.ports + 1);
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		const struct gpu *gpu = &e->inventory.gpus[i];
		if (gpu->holder != s->p->grant)
			continue;
		gpus[n++] = gpu;
		files += gpu->files_n;
		s->keep[s->n_keep++] = gpu->fd;
	}
	for (int64_t i = 0; i < s->p->need.ports; i++)
		s->keep[s->n_keep++] = s->p->port_fd[i];
	s->mount = ARENA_NEW(&s->a, struct sandbox_mount, files);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < gpus[i]->files_n; j++) {
			const struct gpu_file *f = &gpus[i]->files[j];
			s->mount[s->n_mounts++] =
			    (struct sandbox_mount){ f->host, f->path, f->writable, 0, f->device };
		}
	}
	s->env = gpu_env(gpus, n, e->sandbox, &s->a);
}

static void start_mounts(struct start *s)
{
	const struct engine_settings *set = &s->p->e->set;
	if (s->p->e->shows_cwd)
		s->mount[s->n_mounts++] =
		    (struct sandbox_mount){ .source = set->cwd, .path = set->cwd };
	for (size_t i = 0; i < set->n_mounts; i++)
		s->mount[s->n_mounts++] = set->mounts[i];
}

static int start_cgroup(struct start *s, struct err *err)
{
	const char *group = s->p->e->cgroup;
	return group ? cgroup_make(group, s->p->uid, &s->p->need, &s->procs, err) : 0;
}

static int start_write(struct start *s, const struct pod *spec, const struct images_status *image,
                       struct err *err)
{
	struct engine_pod *p = s->p;
	struct engine *e = p->e;
	const struct pod_objects objects = { start_get, e };
	struct local_answer framework;
	bool found = engine_get(e, KIND_FRAMEWORK, p->job->name, &framework) == STORE_OK;
	const struct task_settings set = {
		.dir = p->dir,
		.sandbox = e->sandbox,
		.box = { .runtime = e->runtime,
		         .rootfs = image ? image->rootfs : NULL,
		         .mounts = s->mount,
		         .mounts_n = s->n_mounts,
		         .hide = e->hide.v,
		         .hide_n = e->hide.n },
		.start_directory = e->set.cwd ? e->set.cwd
		                   : image    ? image->directory
		                              : NULL,
		.env = s->env,
		.cgroup_procs = s->procs,
		.image_env = image ? image->env : NULL,
		.note = image ? image->note : NULL,
		.objects = &objects,
		.framework = str_view(&framework.body),
	};
	int bad = found ? task_prepare(spec, &set, err)
	                : err_set(err, UNAVAILABLE, "%s", framework.message);
	local_answer_done(&framework);
	if (bad)
		return -1;
	pod_watch_state(p);
	/* Also if this process is killed now. */
	return pod_write_file(p) < 0
	           ? err_set(err, UNKNOWN_ERROR, "%s/task.json cannot be written", p->dir)
	           : 0;
}

static int start_all(struct start *s, struct err *err)
{
	struct engine_pod *p = s->p;
	struct engine *e = p->e;
	const struct images_status *image = p->image ? images_status(p->image) : NULL;
	const struct pod *spec = pod_spec(p, err);
	if (!spec) {
		err->http = 503; /* a storage was there when the pod was made */
		return -1;
	}
	start_gpus(s);
	start_mounts(s);
	if (p->image)
		s->keep[s->n_keep++] = image->lock;
	if (start_cgroup(s, err) < 0 || start_write(s, spec, image, err) < 0)
		return -1;
	p->pidfd = task_start(p->dir, e->runtime, e->tether[0], s->keep, s->n_keep, err);
	return p->pidfd < 0 ? -1 : 0;
}

int pod_start(struct engine_pod *p, struct err *err)
{
	struct start s = { .p = p };
	int bad = start_all(&s, err);
	if (bad) {
		FREE_AUTO char *file = xasprintf("%s/task.json", p->dir);
		(void)unlink(file); /* else a restart takes it as started */
	} else {
		grant_unlock(p->e, p->grant, true); /* the shim has the locks */
		pod_drop_ports(p);
	}
	arena_wipe(&s.a);
	free(s.procs);
	return bad;
}

void pod_limit(struct engine_pod *p)
{
	struct start s = { .p = p };
	ERR_AUTO err = { 0 };
	if (start_cgroup(&s, &err) < 0)
		engine_notice(p->e, ENGINE_WARNING, "limits of a running task: %s", err_msg(&err));
	free(s.procs);
}
