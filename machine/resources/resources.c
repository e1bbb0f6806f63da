/* The inventory of this machine; see resources.h. */
#include "machine/resources/resources.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "machine/resources/cgroup.h"

enum { TAKE_TRIES = 4, TAKE_PAUSE_MS = 2, PROC_TEXT = 4096 };

/* ---- CPUs and memory --------------------------------------------------------------- */

/* "MemTotal:  16316412 kB"; 0 if it cannot be read. */
static int64_t machine_memory(const char *proc)
{
	char text[PROC_TEXT];
	FREE_AUTO char *path = xasprintf("%s/meminfo", proc);
	struct span kib = { 0 };
	if (fd_read_at(AT_FDCWD, path, text, sizeof(text)) > 0 &&
	    span_starts(span_of(text), "MemTotal:"))
		kib = span_trim(span_from(span_of(text), 9));
	int64_t n = 0;
	(void)parse_i64(span_to(kib, span_chr(kib, ' ')), 0, INT64_MAX >> 10, &n);
	return n << 10;
}

static void machine_count(const struct inventory_settings *s, struct inventory *out)
{
	const char *proc = s->roots.proc ? s->roots.proc : "/proc";
	cpu_set_t set;
	int64_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
	                                                            : sysconf(_SC_NPROCESSORS_ONLN);
	int64_t own_cpus;
	int64_t own_memory;
	cgroup_own_limits(proc, s->roots.cgroup, &own_cpus, &own_memory);
	int64_t memory = machine_memory(proc);
	cpus = 1000 * (cpus > 0 ? cpus : 1);
	cpus = own_cpus > 0 && own_cpus < cpus ? own_cpus : cpus;
	memory = own_memory > 0 && (own_memory < memory || memory == 0) ? own_memory : memory;
	out->total.cpus = s->cpus ? s->cpus : cpus;
	out->total.memory = s->memory ? s->memory : memory;
}

/* ---- GPUs -------------------------------------------------------------------------- */

/* The N of .../nvidiaN, or -1. */
static int64_t nvidia_minor(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct span name = span_of(slash ? slash + 1 : path);
	int64_t n = -1;
	if (span_starts(name, "nvidia"))
		(void)parse_i64(span_from(name, 6), 0, GPUS_MAX, &n);
	return n;
}

/* The value of "Key: \t value\n". */
static struct span nvidia_field(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	if (at == NULL)
		return SPAN("");
	struct span value = span_of(at + strlen(key));
	return span_trim(span_to(value, span_chr(value, '\n')));
}

/* UUIDs as the driver has them in /proc/driver/nvidia/gpus/PCI/information. */
static void nvidia_uuids(const char *proc, struct inventory *out)
{
	FREE_AUTO char *pattern = xasprintf("%s/driver/nvidia/gpus/*/information", proc);
	glob_t found = { 0 };
	(void)glob(pattern, 0, NULL, &found); /* NOLINT(concurrency-mt-unsafe): no ~ */
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char text[PROC_TEXT];
		int64_t minor = -1;
		if (fd_read_at(AT_FDCWD, found.gl_pathv[i], text, sizeof(text)) < 0)
			continue;
		struct span uuid = nvidia_field(text, "GPU UUID:");
		(void)parse_i64(nvidia_field(text, "Device Minor:"), 0, GPUS_MAX, &minor);
		for (size_t k = 0; k < out->gpus_n && minor >= 0; k++) {
			struct gpu *g = &out->gpus[k];
			bool whole = nvidia_minor(g->node) == minor && strchr(g->name, ':') == NULL;
			if (whole && g->uuid == NULL && span_starts(uuid, "GPU-") &&
			    span_only(uuid, "-"))
				g->uuid = arena_dup(&out->arena, uuid);
		}
	}
	globfree(&found);
}

/* What every NVIDIA GPU needs besides its own node, as far as it is there. */
static size_t nvidia_control(const char *dev, struct gpu_file *out, struct arena *a)
{
	static const char *const NAMES[] = { "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools",
		                             "nvidia-caps" };
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
		const char *path = arena_printf(a, "%s/%s", dev, NAMES[i]);
		if (access(path, F_OK) == 0)
			out[n++] = (struct gpu_file){ path, path, true, true };
	}
	return n;
}

static void gpu_add_node(const char *path, const char *dev, struct inventory *out)
{
	struct stat st;
	bool nvidia = span_starts(span_of(path), dev) && nvidia_minor(path) >= 0;
	if (lstat(path, &st) != 0 || (!S_ISCHR(st.st_mode) && !S_ISREG(st.st_mode))) {
		notes_add(&out->notes, NOWHERE,
		          "%s is no GPU: it is neither a character device nor a regular file",
		          path);
		return;
	}
	const char *node = arena_printf(&out->arena, "%s", path);
	struct gpu_file *files = ARENA_NEW(&out->arena, struct gpu_file, 8);
	bool device = S_ISCHR(st.st_mode);
	files[0] = (struct gpu_file){ node, node, device, device };
	out->gpus[out->gpus_n++] = (struct gpu){
		.name = node,
		.node = node,
		.env = ARENA_NEW(&out->arena, const char *, 1),
		.own_n = 1,
		.files_n = 1 + (nvidia ? nvidia_control(dev, files + 1, &out->arena) : 0),
		.files = files,
	};
}

static int gpu_path_order(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* A GPU for each file; of /dev/nvidia* only those that end with a number. */
static void gpu_glob(const char *pattern, bool numbered, const char *dev, struct inventory *out)
{
	glob_t found = { 0 };
	(void)glob(pattern, GLOB_NOSORT, NULL, &found); /* NOLINT(concurrency-mt-unsafe): no ~ */
	if (found.gl_pathc)
		qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), gpu_path_order);
	for (size_t i = 0; i < found.gl_pathc && out->gpus_n < GPUS_MAX; i++) {
		if (!numbered || nvidia_minor(found.gl_pathv[i]) >= 0)
			gpu_add_node(found.gl_pathv[i], dev, out);
	}
	globfree(&found);
}

/* The node whose lock stands for the GPU: one that no other GPU has (parts of a GPU share one). */
static void gpu_choose_node(struct inventory *v, struct gpu *g)
{
	for (size_t i = g->own_n; i-- > 0;) {
		const struct gpu_file *file = &g->files[i];
		bool shared = false;
		for (size_t k = 0; k < v->gpus_n; k++) {
			const struct gpu *other = &v->gpus[k];
			for (size_t f = 0; other != g && f < other->own_n; f++)
				shared = shared || strcmp(other->files[f].host, file->host) == 0;
		}
		if (file->device && (!shared || g->node == NULL))
			g->node = file->host;
	}
}

static void gpu_find(const struct inventory_settings *s, struct inventory *out)
{
	const char *dev = s->roots.dev ? s->roots.dev : "/dev";
	if (s->gpu_devices) {
		gpu_glob(s->gpu_devices, false, dev, out);
	} else {
		cdi_read(s->roots.cdi[0] ? s->roots.cdi[0] : "/var/run/cdi", out);
		cdi_read(s->roots.cdi[1] ? s->roots.cdi[1] : "/etc/cdi", out);
		for (size_t i = 0; i < out->gpus_n; i++)
			gpu_choose_node(out, &out->gpus[i]);
	}
	if (s->gpu_devices == NULL && out->gpus_n == 0) {
		FREE_AUTO char *pattern = xasprintf("%s/nvidia[0-9]*", dev);
		gpu_glob(pattern, true, dev, out);
	}
	for (size_t i = 0; i < out->gpus_n; i++) {
		int64_t minor = nvidia_minor(out->gpus[i].node);
		out->gpus[i].index = minor >= 0 ? (unsigned)minor : (unsigned)i;
		out->gpus[i].fd = -1;
	}
	nvidia_uuids(s->roots.proc ? s->roots.proc : "/proc", out);
}

int inventory_read(const struct inventory_settings *s, struct inventory *out, struct err *e)
{
	*out = (struct inventory){ 0 };
	if (s->memory && s->memory < 1 << 20)
		return err_set(e, INVALID_PARAMETERS, "--memory must be 0 or at least 1MiB");
	machine_count(s, out);
	const char *want = s->gpus ? s->gpus : "auto";
	int64_t most = GPUS_MAX;
	bool all = strcmp(want, "auto") == 0;
	if (strcmp(want, "none") == 0)
		most = 0;
	else if (!all && parse_i64(span_of(want), 0, GPUS_MAX, &most) != 0)
		return err_set(e, INVALID_PARAMETERS,
		               "--gpus must be a number from 0 to %d, auto or none, is \"%s\"",
		               GPUS_MAX, want);
	if (most == 0)
		return 0;
	out->gpus = ARENA_NEW(&out->arena, struct gpu, GPUS_MAX);
	gpu_find(s, out);
	if (!all && (int64_t)out->gpus_n < most)
		return err_set(e, INVALID_PARAMETERS,
		               "--gpus %s: only %zu GPUs were found in %s; use --gpus auto, or "
		               "--gpu-devices with a pattern of device files",
		               want, out->gpus_n,
		               s->gpu_devices ? s->gpu_devices : "CDI files and /dev/nvidia*");
	if (s->gpu_devices && out->gpus_n == 0)
		return err_set(e, INVALID_PARAMETERS,
		               "--gpu-devices %s: no device or file has such a name",
		               s->gpu_devices);
	if ((int64_t)out->gpus_n > most)
		out->gpus_n = (size_t)most;
	out->total.gpus = (int64_t)out->gpus_n;
	return 0;
}

void inventory_done(struct inventory *v)
{
	notes_done(&v->notes);
	arena_done(&v->arena);
	*v = (struct inventory){ 0 };
}

/* ---- locks ------------------------------------------------------------------------- */

int gpu_take(const struct gpu *g, struct err *e)
{
	struct stat st = { 0 };
	int fd = open(g->node, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	int fault = fd < 0 || fstat(fd, &st) != 0 ? errno : 0;
	if (fault == 0 && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		fault = ENODEV;
	/* gpu_is_free of another process has the lock for a moment. */
	for (int i = 0; fault == 0 || fault == EWOULDBLOCK; i++) {
		fault = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
		if (fault == 0)
			return fd;
		if (i == TAKE_TRIES)
			break;
		clock_sleep(TAKE_PAUSE_MS);
	}
	if (fd >= 0)
		(void)close(fd);
	if (fault == EWOULDBLOCK)
		return -1;
	(void)err_set(e, UNKNOWN_ERROR, "the GPU %s cannot be used: %s: %s", g->name, g->node,
	              strerrordesc_np(fault));
	return -2;
}

bool gpu_is_free(const struct gpu *g)
{
	ERR_AUTO e = { 0 };
	int fd = gpu_take(g, &e);
	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

/* ---- environment ------------------------------------------------------------------- */

/* NAME of NAME=value is set already. */
static bool gpu_env_has(const char *const *env, size_t n, const char *variable)
{
	size_t name = strcspn(variable, "=") + 1;
	for (size_t i = 0; i < n; i++) {
		if (strncmp(env[i], variable, name) == 0)
			return true;
	}
	return false;
}

enum gpu_naming { BY_UUID, BY_INDEX, BY_POSITION };

/* "NAME=a,b". */
static const char *gpu_env_list(const char *name, const struct gpu *const *gpus, size_t n,
                                enum gpu_naming by, struct arena *a)
{
	STR_AUTO out = STR_INIT(1 << 20);
	str_printf(&out, "%s=", name);
	for (size_t i = 0; i < n; i++) {
		if (i)
			str_char(&out, ',');
		if (by == BY_UUID)
			str_puts(&out, gpus[i]->uuid);
		else
			str_int(&out, by == BY_INDEX ? gpus[i]->index : (int64_t)i);
	}
	return arena_dup(a, str_view(&out));
}

const char *const *gpu_env(const struct gpu *const *gpus, size_t n, bool alone, struct arena *a)
{
	size_t most = 4;
	bool uuids = true;
	for (size_t i = 0; i < n; i++) {
		uuids = uuids && gpus[i]->uuid;
		for (size_t k = 0; gpus[i]->env[k]; k++)
			most++;
	}
	const char **env = ARENA_NEW(a, const char *, most);
	size_t out = 0;
	enum gpu_naming by = uuids ? BY_UUID : BY_INDEX;
	env[out++] = n ? gpu_env_list("NVIDIA_VISIBLE_DEVICES", gpus, n, by, a)
	               : "NVIDIA_VISIBLE_DEVICES=void";
	by = by == BY_INDEX && alone ? BY_POSITION : by;
	env[out++] = gpu_env_list("CUDA_VISIBLE_DEVICES", gpus, n, by, a);
	if (n && !uuids)
		env[out++] = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; gpus[i]->env[k]; k++) {
			if (!gpu_env_has(env, out, gpus[i]->env[k]))
				env[out++] = gpus[i]->env[k];
		}
	}
	return env;
}
