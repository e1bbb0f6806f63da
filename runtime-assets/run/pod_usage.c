/* Sums up the use of a task: its memory and CPUs by the cgroup of the container, its GPUs by
 * nvidia-smi. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "runtime-assets/exit/exit.h"
#include "runtime-assets/run/run_internal.h"

enum {
	CGROUP_FILE_MAX = 64 << 10,
	CGROUP_NUMBERS = 4,
	MIB = 1 << 20,
	GIB = 1 << 30,
	NEAR_LIMIT = 2 * MIB, /* memory that the kernel takes in batches */
	KILLED = 128 + SIGKILL
};
#define MEMORY_UNLIMITED (INT64_C(1) << 60) /* version 1 has larger numbers for this */

/* ---- the cgroup ------------------------------------------------------------------------------ */

/* A word of a line: of the first one, or of the rest of that with this key. */
struct cgroup_number {
	const char *file, *key;
	size_t word;
};

static const struct cgroup_kind {
	const char *mount;
	const char *line; /* in /proc/self/cgroup, before the path */
	struct cgroup_number number[CGROUP_NUMBERS];
} MEMORY_KINDS[2] = { /* kills, hits, limit, peak */
	{ "/sys/fs/cgroup",
	  "0::",
	  { { "memory.events", "oom_kill ", 0 },
	    { "memory.events", "oom ", 0 },
	    { "memory.max", "", 0 },
	    { "memory.peak", "", 0 } } },
	{ "/sys/fs/cgroup/memory",
	  ":memory:",
	  { { "memory.oom_control", "oom_kill ", 0 },
	    { "memory.failcnt", "", 0 },
	    { "memory.limit_in_bytes", "", 0 },
	    { "memory.max_usage_in_bytes", "", 0 } } },
}, CPU_KINDS[2] = { /* time (us, version 1: ns), then the limit: time in a period */
	{ "/sys/fs/cgroup",
	  "0::",
	  { { "cpu.stat", "usage_usec ", 0 }, { "cpu.max", "", 0 }, { "cpu.max", "", 1 } } },
	{ "/sys/fs/cgroup/cpu",
	  ":cpu,cpuacct:",
	  { { "cpuacct.usage", "", 0 },
	    { "cpu.cfs_quota_us", "", 0 },
	    { "cpu.cfs_period_us", "", 0 } } },
};

/* -1: not known. */
static int64_t cgroup_number(const char *dir, const struct cgroup_number *which, struct arena *a)
{
	struct span text = SPAN("");
	if (which->file)
		text = file_text(path_join(a, dir, which->file), FILE_MOUNTED, CGROUP_FILE_MAX, a);
	while (text.n > 0) {
		struct span line = span_next(&text, '\n');
		int64_t n = -1;
		if (!span_starts(line, which->key))
			continue;
		line = span_from(line, strlen(which->key));
		for (size_t i = 0; i < which->word; i++)
			(void)span_next(&line, ' ');
		(void)parse_i64(span_next(&line, ' '), 0, INT64_MAX, &n);
		return n;
	}
	return -1;
}

/* Returns the path of this cgroup, which is usually "/" in a container. */
static const char *cgroup_path(const struct cgroup_kind *k, const char *root, struct arena *a)
{
	struct span text =
	    file_text(path_join(a, root, "proc/self/cgroup"), FILE_MOUNTED, CGROUP_FILE_MAX, a);
	while (text.n > 0) {
		struct span line = span_next(&text, '\n');
		size_t at = span_find(line, 0, k->line);
		if (at == SIZE_MAX || (k->line[0] != ':' && at != 0))
			continue;
		return arena_dup(a, span_from(line, at + strlen(k->line)));
	}
	return "";
}

/* Some kernels lack one of the first two: Linux before 4.13 counts no kills. */
static bool cgroup_take(const struct cgroup_kind *k, const char *dir, int64_t *v, struct arena *a)
{
	for (size_t i = 0; i < CGROUP_NUMBERS; i++)
		v[i] = cgroup_number(dir, &k->number[i], a);
	return v[0] >= 0 || v[1] >= 0;
}

/* Reads the numbers of one of two kinds below `root`.  The index of the kind; -1: all numbers are.
 */
static int cgroup_read(const struct cgroup_kind *kinds, const char *root, int64_t *v)
{
	ARENA_AUTO a = { 0 };
	for (int i = 0; i < 2; i++) {
		const struct cgroup_kind *k = &kinds[i];
		const char *mount = arena_printf(&a, "%s%s", root, k->mount);
		/* A container sees the whole tree, or its own cgroup as the root. */
		const char *own = arena_printf(&a, "%s%s", mount, cgroup_path(k, root, &a));
		if (cgroup_take(k, own, v, &a) || cgroup_take(k, mount, v, &a))
			return i;
	}
	return -1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void memory_use_read(struct memory_use *m, const char *root)
{
	int64_t v[CGROUP_NUMBERS];
	(void)cgroup_read(MEMORY_KINDS, root, v);
	*m = (struct memory_use){ v[0], v[1], v[2], v[3] };
	if (m->limit >= MEMORY_UNLIMITED)
		m->limit = -1;
}

static void memory_use_put(struct str *out, const char *name, int64_t bytes)
{
	if (bytes < 0)
		str_printf(out, "%s not known", name);
	else if (bytes < MIB)
		str_printf(out, "%s %lld KiB", name, (long long)bytes / 1024);
	else
		str_printf(out, "%s %lld MiB", name, (long long)bytes / MIB);
}

bool memory_use_explain(const struct memory_use *before, const struct memory_use *after, int code,
                        struct str *out)
{
	bool near = after->limit >= 0 && after->peak >= after->limit - NEAR_LIMIT;
	int64_t kills = after->kills - before->kills;
	if (before->kills < 0) /* not counted */
		kills = near && code == KILLED;
	if (kills <= 0)
		return false;
	bool own = near || (after->limit >= 0 && after->hits > before->hits);
	str_puts(out,
	         own ? "killed for memory: "
	             : "killed for memory of the node or pod, not by the container's own limit: ");
	memory_use_put(out, "limit", after->limit);
	memory_use_put(out, ", peak", after->peak);
	str_printf(out, " (%lld process%s)", (long long)kills, kills == 1 ? "" : "es");
	return true;
}

/* ---- GPUs: lines of nvidia-smi --------------------------------------------------------------- */

enum {
	SMI_BYTES = 64 << 10,
	SMI_BYTES_MS = 4, /* more in each; 32 lines are about 2 KiB */
	PIECE = 4096,
	GPU_MIB_MAX = 16 << 20,
	GPU_MIB_UNUSED = 64 /* below the memory of every program of a GPU */
};

/* Splits NVIDIA_VISIBLE_DEVICES.  0 if something in it is no UUID of a GPU. */
static size_t pod_gpu_list(struct span list, struct span *v)
{
	size_t n = 0;
	while (list.n > 0) {
		if (n == USAGE_GPUS || !span_starts(list, "GPU-"))
			return 0;
		v[n++] = span_next(&list, ',');
	}
	return n;
}

/* INDEX, UUID, BUSY, MEMORY, TOTAL.  Other lines, for instance about an XID error, are left out. */
static void pod_usage_line(struct pod_usage *u, struct span line)
{
	enum { INDEX, UUID, BUSY, MEMORY, TOTAL, FIELDS };
	struct span field[FIELDS];
	int64_t index;
	int64_t busy;
	int64_t memory;
	int64_t total;
	bool ours = false;
	for (int i = 0; i < FIELDS; i++)
		field[i] = span_trim(span_next(&line, ','));
	for (size_t i = 0; i < u->uuids; i++)
		ours = ours || span_eq(field[UUID], u->uuid[i]);
	if (!ours || line.n > 0 || parse_i64(field[INDEX], 0, USAGE_GPUS - 1, &index) ||
	    parse_i64(field[BUSY], 0, 100, &busy))
		return;
	struct pod_gpu *g = &u->gpu[index];
	g->samples++;
	g->busy += busy;
	if (parse_i64(field[TOTAL], 1, GPU_MIB_MAX, &total) ||
	    parse_i64(field[MEMORY], 0, total, &memory))
		return;
	g->total = total;
	g->memory = memory > g->memory ? memory : g->memory;
}

void pod_usage_take(struct pod_usage *u)
{
	char piece[PIECE];
	ssize_t n = read(u->out, piece, sizeof(piece));
	for (ssize_t i = 0; i < n; i++) {
		if (piece[i] != '\n') {
			if (u->line_n < USAGE_LINE_MAX)
				u->line[u->line_n++] = piece[i];
			continue;
		}
		if (u->line_n < USAGE_LINE_MAX)
			pod_usage_line(u, (struct span){ u->line, u->line_n });
		u->line_n = 0;
	}
	u->bytes += n > 0 ? n : 0;
	bool flood = u->bytes > SMI_BYTES + (clock_ms() - u->begin_ms) * SMI_BYTES_MS;
	if (flood)
		memset(u->gpu, 0, sizeof(u->gpu)); /* this is not nvidia-smi */
	if (n <= 0 || flood) {
		usage_line_end(u);
		u->end_ms = 0; /* the end comes later */
	}
}

/* ---- from the begin to the end --------------------------------------------------------------- */

static int64_t pod_cpu_us(const char *root, int64_t *limit_milli)
{
	int64_t v[CGROUP_NUMBERS];
	int kind = cgroup_read(CPU_KINDS, root, v);
	*limit_milli = v[1] > 0 && v[1] < INT64_MAX / 1000 && v[2] > 0 ? v[1] * 1000 / v[2] : -1;
	return kind == 1 && v[0] >= 0 ? v[0] / 1000 : v[0];
}

void usage_line_begin(struct pod_usage *u, const char *root, struct arena *a)
{
	const char *argv[] = { NULL,
		               "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total",
		               "--format=csv,noheader,nounits",
		               "-l",
		               "5",
		               NULL };
	int64_t limit;
	int ends[2];
	*u = (struct pod_usage){ .root = root, .begin_ms = clock_ms(), .out = -1 };
	u->cpu_us = pod_cpu_us(root, &limit);
	const char *devices = getenv("NVIDIA_VISIBLE_DEVICES");
	u->uuids = pod_gpu_list(span_of(devices ? devices : ""), u->uuid);
	if (u->uuids == 0 || pipe2(ends, O_CLOEXEC) != 0)
		return;
	pid_t pid = nvidia_smi_spawn(root, argv, ends[1], a);
	(void)close(ends[1]);
	u->smi = pid > 0 ? pid : 0;
	u->out = ends[0]; /* without a program: at its end */
}

void usage_line_end(struct pod_usage *u)
{
	if (u->smi > 0)
		(void)kill(-u->smi, SIGKILL);
	if (u->out >= 0)
		(void)close(u->out);
	u->out = -1;
	u->end_ms = u->end_ms ? u->end_ms : clock_ms();
}

/* Appends "3.2 of 4"; both are in this unit, and rounded. */
static void pod_usage_amount(struct str *out, int64_t used, int64_t limit, int64_t unit)
{
	const int64_t amount[2] = { used, limit };
	for (int i = 0; i < 2; i++) {
		int64_t tenths =
		    (amount[i] / unit) * 10 + ((amount[i] % unit) * 10 + unit / 2) / unit;
		str_printf(out, "%s%lld", i ? " of " : "", (long long)tenths / 10);
		if (tenths % 10)
			str_printf(out, ".%lld", (long long)tenths % 10);
	}
}

static void pod_gpu_put(const struct pod_gpu *g, struct str *out)
{
	if (g->busy == 0 && g->total > 0 && g->memory < GPU_MIB_UNUSED) {
		str_puts(out, "not used");
		return;
	}
	str_printf(out, "%lld %% busy", (long long)((g->busy + g->samples / 2) / g->samples));
	if (g->total == 0)
		return;
	str_puts(out, " (");
	pod_usage_amount(out, g->memory, g->total, 1024);
	str_puts(out, " GiB)");
}

bool pod_usage_put(const struct pod_usage *u, const struct memory_use *m, struct str *out)
{
	if (!u->root)
		return false;
	int64_t limit;
	int64_t ms = clock_ms() - u->begin_ms;
	int64_t us = pod_cpu_us(u->root, &limit) - u->cpu_us;
	int64_t seen_ms = u->end_ms - u->begin_ms;
	const char *const begin = "used: ";
	const char *comma = begin;
	/* A cgroup without a limit could be that of the machine. */
	if (u->cpu_us >= 0 && us >= 0 && ms > 0 && limit > 0) {
		str_puts(out, comma);
		pod_usage_amount(out, us / ms, limit, 1000);
		str_puts(out, " CPUs");
		comma = ", ";
	}
	if (m->limit > 0 && m->peak >= 0) {
		str_printf(out, "%smemory at most ", comma);
		pod_usage_amount(out, m->peak, m->limit, m->limit < GIB ? MIB : GIB);
		str_puts(out, m->limit < GIB ? " MiB" : " GiB");
		comma = ", ";
	}
	for (int i = 0; i < USAGE_GPUS; i++) {
		const struct pod_gpu *g = &u->gpu[i];
		/* nvidia-smi has answered for three quarters of the time at least. */
		if (g->samples < USAGE_SAMPLES_MIN || u->end_ms == 0 ||
		    g->samples * USAGE_PERIOD_S * 4 * 1000 < seen_ms * 3)
			continue;
		str_printf(out, "%sGPU %d: ", comma, i);
		pod_gpu_put(g, out);
		comma = ", ";
	}
	return comma != begin;
}
