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
enum { TASK_FILE_MAX = 64 << 10 };

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

/* Nodes, mounts and variables of the pod's GPUs, and what all tasks see. */
static void start_files(const struct engine_pod *p, struct arena *a, struct task_settings *set)
{
	const struct engine *e = p->e;
	const struct gpu **gpus = ARENA_NEW(a, const struct gpu *, e->inventory.gpus_n + 1);
	size_t n = 0;
	size_t files = e->set.n_mounts + 1;
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		if (e->gpu[i].grant != p->grant)
			continue;
		gpus[n++] = e->gpu[i].gpu;
		files += e->gpu[i].gpu->files_n;
	}
	struct sandbox_mount *mount = ARENA_NEW(a, struct sandbox_mount, files);
	struct sandbox_device *device = ARENA_NEW(a, struct sandbox_device, files);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < gpus[i]->files_n; j++) {
			const struct gpu_file *f = &gpus[i]->files[j];
			if (f->device)
				device[set->n_devices++] =
				    (struct sandbox_device){ f->host, f->path };
			else
				mount[set->n_mounts++] =
				    (struct sandbox_mount){ f->host, f->path, f->writable, 0 };
		}
	}
	if (e->shows_cwd)
		mount[set->n_mounts++] = (struct sandbox_mount){ e->set.cwd, e->set.cwd, false, 0 };
	for (size_t i = 0; i < e->set.n_mounts; i++)
		mount[set->n_mounts++] = e->set.mounts[i];
	set->mount = mount;
	set->device = device;
	set->env = gpu_env(gpus, n, e->sandbox, a);
}

/* The locks that the shim inherits. */
static size_t start_locks(const struct engine_pod *p, struct arena *a, int **out)
{
	const struct engine *e = p->e;
	size_t n = 0;
	int *keep = ARENA_NEW(a, int, e->inventory.gpus_n + (size_t)p->need.ports + 1);
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		if (e->gpu[i].grant == p->grant)
			keep[n++] = e->gpu[i].fd;
	}
	for (int64_t i = 0; i < p->need.ports; i++)
		keep[n++] = p->port_fd[i];
	if (p->image)
		keep[n++] = images_lock_fd(p->image);
	*out = keep;
	return n;
}

/* *procs: for task_settings, to be freed; NULL without cgroups. */
static int start_cgroup(const struct engine_pod *p, char **procs, struct err *err)
{
	const struct cgroup_limits limits = { .memory = p->need.memory, .cpus = p->need.cpus };
	return p->e->cgroup ? cgroup_make(p->e->cgroup, p->uid, &limits, procs, err) : 0;
}

int pod_write_file(const struct engine_pod *p)
{
	STR_AUTO text = STR_INIT(TASK_FILE_MAX);
	str_puts(&text, "{\"gpus\":[");
	grant_nodes(p->e, p->grant, &text);
	str_puts(&text, "]}\n");
	FREE_AUTO char *path = xasprintf("%s/task.json", p->dir);
	FD_AUTO fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 || text.full ? -1 : fd_write_all(fd, str_view(&text));
}

/* Writes the directory of the task. */
static int start_prepare(struct engine_pod *p, const char *procs, struct arena *a, struct err *err)
{
	struct engine *e = p->e;
	const struct images_status *image = p->image ? images_status(p->image) : NULL;
	const struct pod_objects objects = { start_get, e };
	const struct pod *spec = pod_spec(p, err);
	struct local_answer framework;
	if (!spec) {
		err->http = 503; /* a storage was there when the pod was made */
		return -1;
	}
	struct task_settings set = {
		.dir = p->dir,
		.runtime = e->runtime,
		.sandbox = e->sandbox,
		.image = image ? image->rootfs : NULL,
		.hide = e->hide,
		.n_hide = e->n_hide,
		.start_directory = e->set.cwd ? e->set.cwd
		                   : image    ? image->directory
		                              : NULL,
		.cgroup_procs = procs,
		.image_env = image ? image->env : NULL,
		.objects = &objects,
	};
	start_files(p, a, &set);
	bool found = engine_get(e, KIND_FRAMEWORK, p->job->name, &framework) == STORE_OK;
	set.framework = str_view(&framework.body);
	int bad = found ? task_prepare(spec, &set, err)
	                : err_set(err, UNAVAILABLE, "%s", framework.message);
	local_answer_done(&framework);
	/* Also if this process is killed now. */
	if (!bad && pod_write_file(p) < 0)
		bad = err_set(err, UNKNOWN_ERROR, "%s/task.json cannot be written", p->dir);
	if (!bad && image && image->note)
		task_log(p->dir, image->note);
	return bad;
}

int pod_start(struct engine_pod *p, struct err *err)
{
	ARENA_SECRET a = { 0 };
	FREE_AUTO char *procs = NULL;
	FREE_AUTO char *file = xasprintf("%s/task.json", p->dir);
	int *keep;
	size_t n = start_locks(p, &a, &keep);
	if (start_cgroup(p, &procs, err) == 0 && start_prepare(p, procs, &a, err) == 0)
		p->pidfd = task_start(p->dir, p->e->runtime, p->e->tether[0], keep, n, err);
	if (p->pidfd < 0) {
		(void)unlink(file); /* else a restart takes it as started */
		return -1;
	}
	grant_unlock(p->e, p->grant); /* the shim has the locks */
	pod_drop_ports(p);
	return 0;
}

void pod_limit(struct engine_pod *p)
{
	FREE_AUTO char *procs = NULL;
	ERR_AUTO err = { 0 };
	if (start_cgroup(p, &procs, &err) < 0)
		engine_notice(p->e, ENGINE_WARNING, "limits of a running task: %s", err_msg(&err));
}
