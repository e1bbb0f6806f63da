#include "runtime-assets/run/oom.h"

#include "base/arena.h"
#include "base/err.h"
#include "runtime-assets/files.h"

enum { CGROUP_FILE_MAX = 64 << 10, MIB = 1 << 20 };
#define MEMORY_UNLIMITED (INT64_C(1) << 60) /* what version 1 says is beyond this */

/* A number in a file; the one behind a key at the beginning of a line, if there is a key. */
struct cgroup_number {
	const char *file, *key;
};

static const struct cgroup_kind {
	const char *mount;
	const char *line; /* in /proc/self/cgroup, before the path */
	struct cgroup_number kills, hits, limit, peak;
} CGROUP_KINDS[] = {
	{ "/sys/fs/cgroup",
	  "0::",
	  { "memory.events", "oom_kill " },
	  { "memory.events", "oom " },
	  { "memory.max", NULL },
	  { "memory.peak", NULL } },
	{ "/sys/fs/cgroup/memory",
	  ":memory:",
	  { "memory.oom_control", "oom_kill " },
	  { "memory.failcnt", NULL },
	  { "memory.limit_in_bytes", NULL },
	  { "memory.max_usage_in_bytes", NULL } },
};

static struct span cgroup_text(const char *path, struct arena *a)
{
	ERR_AUTO ignored = { 0 };
	struct span text = SPAN("");
	return file_read(path, FILE_MOUNTED, CGROUP_FILE_MAX, a, &text, &ignored) ? SPAN("") : text;
}

static struct span cgroup_line(struct span *text)
{
	size_t end = span_find(*text, 0, "\n");
	size_t n = end == SIZE_MAX ? text->n : end;
	struct span line = { text->p, n };
	n += end != SIZE_MAX;
	*text = (struct span){ text->p + n, text->n - n };
	return line;
}

static int64_t cgroup_number(const char *dir, const struct cgroup_number *which, struct arena *a)
{
	struct span text = cgroup_text(arena_printf(a, "%s/%s", dir, which->file), a);
	const char *key = which->key ? which->key : "";
	while (text.n > 0) {
		struct span line = cgroup_line(&text);
		int64_t n;
		if (!span_starts(line, key))
			continue;
		line = (struct span){ line.p + strlen(key), line.n - strlen(key) };
		return parse_i64(line, 0, INT64_MAX, &n) == 0 ? n : -1;
	}
	return -1;
}

/* The path of this process's cgroup; in a container it is usually "/". */
static const char *cgroup_path(const struct cgroup_kind *k, const char *root, struct arena *a)
{
	struct span text = cgroup_text(arena_printf(a, "%s/proc/self/cgroup", root), a);
	while (text.n > 0) {
		struct span line = cgroup_line(&text);
		size_t at = span_find(line, 0, k->line);
		if (at == SIZE_MAX || (k->line[0] != ':' && at != 0))
			continue;
		at += strlen(k->line);
		return arena_dup(a, (struct span){ line.p + at, line.n - at });
	}
	return "";
}

static bool memory_use_take(struct memory_use *m, const struct cgroup_kind *k, const char *dir,
                            struct arena *a)
{
	m->kills = cgroup_number(dir, &k->kills, a);
	if (m->kills < 0)
		return false;
	m->hits = cgroup_number(dir, &k->hits, a);
	m->limit = cgroup_number(dir, &k->limit, a);
	m->peak = cgroup_number(dir, &k->peak, a);
	if (m->limit >= MEMORY_UNLIMITED)
		m->limit = -1;
	return true;
}

void memory_use_read(struct memory_use *m, const char *root)
{
	ARENA_AUTO a = { 0 };
	*m = (struct memory_use){ -1, -1, -1, -1 };
	for (size_t i = 0; i < sizeof(CGROUP_KINDS) / sizeof(*CGROUP_KINDS); i++) {
		const struct cgroup_kind *k = &CGROUP_KINDS[i];
		const char *mount = arena_printf(&a, "%s%s", root, k->mount);
		/* A container that sees the whole tree; then one that sees its own cgroup there. */
		const char *own = arena_printf(&a, "%s%s", mount, cgroup_path(k, root, &a));
		if (memory_use_take(m, k, own, &a) || memory_use_take(m, k, mount, &a))
			return;
	}
}

static void put_memory(struct str *out, const char *name, int64_t bytes)
{
	if (bytes < 0)
		str_printf(out, "%s not known", name);
	else if (bytes < MIB)
		str_printf(out, "%s %lld KiB", name, (long long)bytes / 1024);
	else
		str_printf(out, "%s %lld MiB", name, (long long)bytes / MIB);
}

bool memory_use_explain(const struct memory_use *before, const struct memory_use *after,
                        struct str *out)
{
	int64_t kills = after->kills - before->kills;
	if (before->kills < 0 || kills <= 0)
		return false;
	bool own = after->limit >= 0 && after->hits > before->hits;
	str_puts(out,
	         own ? "killed for memory: "
	             : "killed for memory of the node or pod, not by the container's own limit: ");
	put_memory(out, "limit", after->limit);
	put_memory(out, ", peak", after->peak);
	str_printf(out, " (%lld process%s)", (long long)kills, kills == 1 ? "" : "es");
	return true;
}
