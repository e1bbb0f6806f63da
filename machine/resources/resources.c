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

#include "base/posix/fd.h"

enum { PROC_TEXT = 4096 };

static void machine_count(const struct inventory_settings *s, struct inventory *out)
{
	struct amounts *total = &out->total;
	cpu_set_t set;
	int64_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
	                                                            : sysconf(_SC_NPROCESSORS_ONLN);
	total->cpus = 1000 * (cpus > 0 ? cpus : 1);
	total->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	cgroup_limit(out->root, total);
	total->cpus = s->cpus ? s->cpus : total->cpus;
	total->memory = s->memory ? s->memory : total->memory;
}

/* ---- GPUs -------------------------------------------------------------------------- */

/* The N of .../nvidiaN, or -1. */
static int64_t nvidia_minor(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct span name = span_of(slash ? slash + 1 : path);
	int64_t n = -1;
	if (span_starts(name, "nvidia"))
		(void)parse_i64(span_from(name, 6), 0, INVENTORY_GPUS, &n);
	return n;
}

/* The value of "Key: \t value\n". */
static struct span nvidia_field(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	struct span value = span_of(at ? at + strlen(key) : "");
	return span_trim(span_to(value, span_chr(value, '\n')));
}

/* The UUID as the driver has it in /proc/driver/nvidia/gpus/PCI/information. */
static void nvidia_read_uuid(const char *path, struct inventory *out)
{
	char text[PROC_TEXT];
	int64_t minor = -1;
	(void)fd_read_at(AT_FDCWD, path, text, sizeof(text)); /* else it is empty */
	(void)parse_i64(nvidia_field(text, "Device Minor:"), 0, INVENTORY_GPUS, &minor);
	struct span uuid = nvidia_field(text, "GPU UUID:");
	bool known = minor >= 0 && span_starts(uuid, "GPU-") && span_only_alnum_or(uuid, "-");
	for (size_t i = 0; i < out->gpus_n && known; i++) {
		struct gpu *g = &out->gpus[i];
		if (nvidia_minor(g->node) == minor && !g->uuid && !strchr(g->name, ':'))
			g->uuid = arena_dup(&out->arena, uuid);
		for (size_t k = 0; k < g->own_n && !g->board; k++)
			if (nvidia_minor(g->files[k].source) == minor)
				g->board = arena_dup(&out->arena, uuid);
	}
}

static void gpu_add_node(const char *path, struct inventory *out)
{
	/* The device nodes that every NVIDIA GPU needs besides its own, if they exist. */
	static const char *const CONTROL[] = { "ctl", "-uvm", "-uvm-tools", "-caps" };
	struct arena *a = &out->arena;
	struct sandbox_mount *files = ARENA_NEW(a, struct sandbox_mount, 1 + ARRAY_SIZE(CONTROL));
	const char *driver = arena_printf(a, "%s/dev/nvidia", out->root);
	bool nvidia = span_starts(span_of(path), driver);
	struct stat st;
	if (out->gpus_n == INVENTORY_GPUS || (nvidia && nvidia_minor(path) < 0))
		return;
	if (lstat(path, &st) != 0 || (!S_ISCHR(st.st_mode) && !S_ISREG(st.st_mode))) {
		notes_add(&out->notes, NOWHERE,
		          "%s is no GPU: it is neither a character device nor a regular file",
		          path);
		return;
	}
	struct gpu *g = &out->gpus[out->gpus_n++];
	path = arena_printf(a, "%s", path);
	files[0] = (struct sandbox_mount){ .source = path,
		                           .path = path,
		                           .writable = S_ISCHR(st.st_mode),
		                           .device = S_ISCHR(st.st_mode) };
	*g = (struct gpu){ .name = path, .node = path, .files = files, .files_n = 1, .own_n = 1 };
	for (size_t i = 0; i < ARRAY_SIZE(CONTROL) && nvidia; i++) {
		path = arena_printf(a, "%s%s", driver, CONTROL[i]);
		if (access(path, F_OK) == 0)
			files[g->files_n++] = (struct sandbox_mount){
				.source = path, .path = path, .writable = true, .device = true
			};
	}
}

static int path_order(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

void inventory_glob(struct inventory *out, const char *pattern,
                    void (*each)(const char *path, struct inventory *out))
{
	FREE_AUTO char *below = xasprintf("%s%s", out->root, pattern);
	glob_t found = { 0 };
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): without GLOB_TILDE */
	(void)glob(below, GLOB_NOSORT | GLOB_BRACE, NULL, &found);
	if (found.gl_pathc)
		qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), path_order);
	for (size_t i = 0; i < found.gl_pathc && i < INVENTORY_GPUS; i++)
		each(found.gl_pathv[i], out);
	globfree(&found);
}

static void gpu_find(const char *pattern, struct inventory *out)
{
	if (!pattern)
		cdi_read(out);
	if (pattern || out->gpus_n == 0)
		inventory_glob(out, pattern ? pattern : "/dev/nvidia[0-9]*", gpu_add_node);
	for (size_t i = 0; i < out->gpus_n; i++) {
		int64_t minor = nvidia_minor(out->gpus[i].node);
		out->gpus[i].index = minor >= 0 ? (unsigned)minor : (unsigned)i;
		out->gpus[i].fd = -1;
	}
	inventory_glob(out, "/proc/driver/nvidia/gpus/*/information", nvidia_read_uuid);
}

int inventory_read(const struct inventory_settings *s, struct inventory *out, struct err *e)
{
	const char *want = s->gpus ? s->gpus : "auto";
	bool all = strcmp(want, "auto") == 0;
	int64_t most = INVENTORY_GPUS;
	*out = (struct inventory){ .root = s->root ? s->root : "" };
	if (s->memory && s->memory < 1 << 20)
		return err_set(e, INVALID_PARAMETERS, "--memory must be 0 or at least 1MiB");
	machine_count(s, out);
	if (strcmp(want, "none") == 0)
		most = 0;
	else if (!all && parse_i64(span_of(want), 0, INVENTORY_GPUS, &most) != 0)
		return err_set(e, INVALID_PARAMETERS,
		               "--gpus must be a number from 0 to %d, auto or none, is \"%s\"",
		               INVENTORY_GPUS, want);
	if (most == 0)
		return 0;
	out->gpus = ARENA_NEW(&out->arena, struct gpu, INVENTORY_GPUS);
	gpu_find(s->gpu_devices, out);
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
	if (fault == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	fault = fault ? fault : errno;
	if (fd >= 0)
		(void)close(fd);
	if (fault == EWOULDBLOCK)
		return -1;
	(void)err_set(e, UNKNOWN_ERROR, "the GPU %s cannot be used: %s: %s", g->name, g->node,
	              strerrordesc_np(fault));
	return -2;
}

/* ---- environment ------------------------------------------------------------------- */

const char *const *gpu_env(const struct gpu *const *gpus, size_t n, bool alone, struct arena *a)
{
	struct words env = { .a = a };
	STR_AUTO nvidia = STR_INIT(1 << 20);
	STR_AUTO cuda = STR_INIT(1 << 20);
	bool uuids = true;
	for (size_t i = n; i-- > 0;) { /* if two have a variable, the first one's counts */
		words_set_all(&env, gpus[i]->env.v);
		uuids = uuids && gpus[i]->uuid;
	}
	str_puts(&nvidia, n ? "NVIDIA_VISIBLE_DEVICES=" : "NVIDIA_VISIBLE_DEVICES=void");
	str_puts(&cuda, "CUDA_VISIBLE_DEVICES=");
	for (size_t i = 0; i < n; i++) {
		const char *comma = i ? "," : "";
		const char *name = uuids ? gpus[i]->uuid : arena_printf(a, "%u", gpus[i]->index);
		str_printf(&nvidia, "%s%s", comma, name);
		name = alone && !uuids ? arena_printf(a, "%zu", i) : name;
		str_printf(&cuda, "%s%s", comma, name);
	}
	words_set(&env, arena_dup(a, str_view(&nvidia)));
	words_set(&env, arena_dup(a, str_view(&cuda)));
	if (n && !uuids)
		words_set(&env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
	return env.v;
}
