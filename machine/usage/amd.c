/* Figures of a card from amdgpu, its processes from kfd: files with names and units as Linux has
 * them. */
#include "machine/usage/amd.h"

#include <fcntl.h>

#include "base/posix/fd.h"

/* The text of a file, in the arena; "" if it cannot be read. */
#define AMD_TEXT(a, ...) amd_read(arena_printf((a), __VA_ARGS__), (a))
#define KFD              "/sys/class/kfd/kfd"
#define MEMORY_MOST      (INT64_C(16) << 40)

static const char *amd_read(const char *path, struct arena *a)
{
	enum { ROOM = 4096 };
	char *text = arena_alloc(a, ROOM);
	(void)fd_read_at(AT_FDCWD, path, text, ROOM); /* else it is empty */
	return text;
}

/* The number at the begin of a text that has no other line, or of its line after `key`; -1. */
static int64_t amd_number(const char *text, const char *key, int64_t most)
{
	const char *at = strstr(text, key);
	int64_t n = -1;
	struct span rest = span_of(at ? at + strlen(key) : "");
	(void)parse_i64(span_trim(span_next(&rest, '\n')), 0, most, &n);
	return n;
}

/* The number behind the prefix in the first name of a directory that has it; -1. */
static int64_t amd_named(const char *dir, const char *prefix)
{
	int64_t n = -1;
	DIR_AUTO *d = dir_list(AT_FDCWD, dir);
	for (const char *name; n < 0 && (name = dir_next(d)) != NULL;)
		if (span_starts(span_of(name), prefix))
			(void)parse_i64(span_of(name + strlen(prefix)), 0, INT32_MAX, &n);
	return n;
}

int amd_card(const char *root, const struct gpu *g)
{
	ARENA_AUTO a = { 0 };
	for (size_t i = 0; i < g->own_n; i++) {
		const char *slash = strrchr(g->files[i].source, '/');
		const char *dir = arena_printf(&a, "%s/sys/class/drm/%s/device", root,
		                               slash ? slash + 1 : g->files[i].source);
		int64_t card = amd_named(arena_printf(&a, "%s/drm", dir), "card");
		if (card >= 0 && strcmp(AMD_TEXT(&a, "%s/vendor", dir), "0x1002\n") == 0)
			return (int)card;
	}
	return -1;
}

/* The number of kfd for the card; -1. */
static int64_t amd_gpu_id(const char *root, int card, struct arena *a)
{
	int64_t id = -1;
	int64_t minor =
	    amd_named(arena_printf(a, "%s/sys/class/drm/card%d/device/drm", root, card), "renderD");
	const char *nodes = arena_printf(a, "%s" KFD "/topology/nodes", root);
	DIR_AUTO *d = dir_list(AT_FDCWD, nodes);
	for (const char *name; minor >= 0 && id < 0 && (name = dir_next(d)) != NULL;)
		if (amd_number(AMD_TEXT(a, "%s/%s/properties", nodes, name), "drm_render_minor ",
		               INT32_MAX) == minor)
			id = amd_number(AMD_TEXT(a, "%s/%s/gpu_id", nodes, name), "", UINT32_MAX);
	return id;
}

void amd_take(const char *root, int card, struct smi_sample *out)
{
	ARENA_AUTO a = { 0 };
	const char *dir = arena_printf(&a, "%s/sys/class/drm/card%d/device", root, card);
	const char *hwmon = arena_printf(&a, "%s/hwmon", dir);
	hwmon = arena_printf(&a, "%s/hwmon%d", hwmon, (int)amd_named(hwmon, "hwmon"));
	int64_t power =
	    amd_number(AMD_TEXT(&a, "%s/power1_average", hwmon), "", INT64_C(10000000000));
	if (power < 0) /* newer GPUs have this one */
		power =
		    amd_number(AMD_TEXT(&a, "%s/power1_input", hwmon), "", INT64_C(10000000000));
	DIR_AUTO *processes = dir_list(AT_FDCWD, arena_printf(&a, "%s" KFD "/proc", root));
	*out = (struct smi_sample){
		.known = processes && amd_gpu_id(root, card, &a) >= 0,
		.busy = (double)amd_number(AMD_TEXT(&a, "%s/gpu_busy_percent", dir), "", 100),
		.memory = amd_number(AMD_TEXT(&a, "%s/mem_info_vram_used", dir), "", MEMORY_MOST),
		.total = amd_number(AMD_TEXT(&a, "%s/mem_info_vram_total", dir), "", MEMORY_MOST),
		.watts = power < 0 ? -1 : (double)power / 1e6,
	};
}

size_t amd_processes(const char *root, int card, struct smi_process *v, size_t room)
{
	ARENA_AUTO a = { 0 };
	size_t n = 0;
	int64_t id = amd_gpu_id(root, card, &a);
	const char *dir = arena_printf(&a, "%s" KFD "/proc", root);
	DIR_AUTO *d = dir_list(AT_FDCWD, dir);
	for (const char *name; id >= 0 && n < room && (name = dir_next(d)) != NULL;) {
		ARENA_AUTO own = { 0 };
		int64_t pid = amd_number(name, "", INT32_MAX);
		const char *text = AMD_TEXT(&own, "%s/%s/vram_%lld", dir, name, (long long)id);
		int64_t memory = amd_number(text, "", MEMORY_MOST);
		/* A process has a file for each GPU of the machine; 0: it does not use this one. */
		if (pid > 0 && memory > 0)
			v[n++] = (struct smi_process){ .pid = (pid_t)pid, .memory = memory };
	}
	return n;
}
