/*
 * CDI files (Container Device Interface): YAML or JSON in which the driver's tools say what a
 * container with a GPU needs.  Hooks, which need a container runtime, are ignored.
 * https://github.com/cncf-tags/container-device-interface, version 0.8.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/tree.h"
#include "machine/resources/resources.h"
#include "machine/words.h"

enum { CDI_FILE_MAX = 4 << 20, CDI_FILES_MAX = 256, CDI_EDITS_MAX = 4096 };

/* What a container gets: containerEdits. */
struct cdi_edits {
	struct gpu_file *file;
	size_t n;
	struct words env;
};

struct cdi_file {
	const char *name, *kind;
	struct inventory *out;
	const struct node *all; /* containerEdits that every device of the file needs */
	bool hooks;
};

/* A note with the place of a node.  Returns -1. */
__attribute__((format(printf, 3, 4))) static int cdi_fault(struct cdi_file *f, const struct node *n,
                                                           const char *fmt, ...)
{
	FREE_AUTO char *what = NULL;
	va_list args;
	va_start(args, fmt);
	int bytes = vasprintf(&what, fmt, args);
	va_end(args);
	notes_add(&f->out->notes, NOWHERE, "%s, line %u, column %u: %s", f->name, n->line,
	          n->column, bytes < 0 ? "is wrong" : what);
	return -1;
}

/* An absolute path; NULL if there is none, or, with a note, if it is something else. */
static const char *cdi_path(struct cdi_file *f, const struct node *map, const char *key)
{
	char q[4 * QUOTE_MAX];
	const struct node *n = node_get(map, key);
	if (n == NULL)
		return NULL;
	if (n->type != NODE_TEXT)
		cdi_fault(f, n, "%s must be text, is %s", key, node_type_name(n));
	else if (n->text[0] != '/' || strstr(n->text, "/../"))
		cdi_fault(f, n, "%s must be an absolute path, is \"%s\"", key,
		          quote(q, node_span(n)));
	else
		return n->text;
	return NULL;
}

/* A list, empty if there is none; NULL and a note if it is something else. */
static const struct node *cdi_list(struct cdi_file *f, const struct node *map, const char *key)
{
	static const struct node EMPTY = { .type = NODE_LIST };
	const struct node *list = node_get(map, key);
	if (list == NULL || list->type == NODE_NULL)
		return &EMPTY;
	if (list->type == NODE_LIST && list->n <= CDI_EDITS_MAX)
		return list;
	cdi_fault(f, list, "%s must be a list of at most %d items", key, CDI_EDITS_MAX);
	return NULL;
}

/* deviceNodes: {path, hostPath}; mounts: {containerPath, hostPath, options}. */
static int cdi_read_file(struct cdi_file *f, const struct node *n, bool device,
                         struct gpu_file *out)
{
	out->device = device;
	out->writable = true;
	out->path = cdi_path(f, n, device ? "path" : "containerPath");
	out->host = device && !node_get(n, "hostPath") ? out->path : cdi_path(f, n, "hostPath");
	if (out->path == NULL || out->host == NULL)
		return cdi_fault(f, n, "%s",
		                 device ? "a device node needs `path`"
		                        : "a mount needs `hostPath` and `containerPath`");
	const struct node *options = cdi_list(f, n, "options");
	for (size_t i = 0; options && i < options->n; i++) {
		const struct node *o = &options->item[i];
		if (o->type == NODE_TEXT && strcmp(o->text, "ro") == 0)
			out->writable = false;
	}
	return options ? 0 : -1;
}

/* Adds to *out. */
static int cdi_read_edits(struct cdi_file *f, const struct node *map, struct cdi_edits *out)
{
	if (map && map->type != NODE_MAP)
		return cdi_fault(f, map, "containerEdits must be a mapping");
	f->hooks = f->hooks || node_get(map, "hooks");
	const struct node *devices = cdi_list(f, map, "deviceNodes");
	const struct node *mounts = cdi_list(f, map, "mounts");
	const struct node *env = cdi_list(f, map, "env");
	if (!devices || !mounts || !env)
		return -1;
	size_t n = devices->n + mounts->n;
	struct gpu_file *file = ARENA_NEW(&f->out->arena, struct gpu_file, out->n + n + 1);
	if (out->n)
		memcpy(file, out->file, out->n * sizeof(*file));
	out->file = file;
	for (size_t i = 0; i < n; i++, out->n++) {
		bool device = i < devices->n;
		const struct node *item =
		    device ? &devices->item[i] : &mounts->item[i - devices->n];
		if (cdi_read_file(f, item, device, &file[out->n]) != 0)
			return -1;
	}
	for (size_t i = 0; i < env->n; i++) {
		const struct node *item = &env->item[i];
		if (item->type != NODE_TEXT || !strchr(item->text, '='))
			return cdi_fault(f, item, "a variable must be NAME=value");
		words_add(&out->env, item->text);
	}
	return 0;
}

/* ---- devices ----------------------------------------------------------------------- */

static bool cdi_shows(const struct gpu_file *file, size_t n, const char *host)
{
	for (size_t i = 0; i < n; i++) {
		if (file[i].device && strcmp(file[i].host, host) == 0)
			return true;
	}
	return false;
}

/* The same device nodes, apart from those of all devices of the file, which are at the end. */
static bool cdi_same(const struct gpu *a, const struct gpu *b)
{
	for (size_t i = 0; i < a->own_n; i++) {
		if (a->files[i].device && !cdi_shows(b->files, b->own_n, a->files[i].host))
			return false;
	}
	return true;
}

static void cdi_add(struct inventory *out, const struct gpu *gpu)
{
	for (size_t i = 0; i < out->gpus_n; i++) {
		struct gpu *g = &out->gpus[i];
		bool same = cdi_same(g, gpu) && cdi_same(gpu, g);
		bool name = strcmp(g->name, gpu->name) == 0;
		if (same && !name && g->uuid == NULL)
			g->uuid = gpu->uuid;
		if (same || name)
			return;
	}
	out->gpus[out->gpus_n++] = *gpu;
}

static void cdi_read_device(struct cdi_file *f, const struct node *n)
{
	static const char *const NO_ENV[] = { NULL };
	struct arena *a = &f->out->arena;
	const struct node *id = node_get(n, "name");
	const char *name = NULL;
	if (node_is(id, NODE_TEXT))
		name = id->text;
	else if (node_is(id, NODE_INT)) /* without quotes */
		name = arena_printf(a, "%lld", (long long)id->integer);
	struct cdi_edits edits = { .env.a = a };
	if (name == NULL) {
		cdi_fault(f, n, "a device needs a `name`");
		return;
	}
	if (strcmp(name, "all") == 0 || f->out->gpus_n >= GPUS_MAX ||
	    cdi_read_edits(f, node_get(n, "containerEdits"), &edits) != 0)
		return;
	struct gpu gpu = { .name = arena_printf(a, "%s=%s", f->kind, name), .own_n = edits.n };
	bool devices = false;
	for (size_t i = 0; i < edits.n; i++)
		devices = devices || edits.file[i].device;
	if (!devices) {
		cdi_fault(f, n, "the device has no device node of its own");
		return;
	}
	if (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0)
		gpu.uuid = name;
	if (cdi_read_edits(f, f->all, &edits) != 0)
		return;
	gpu.files = edits.file;
	gpu.files_n = edits.n;
	gpu.env = edits.env.v ? edits.env.v : NO_ENV;
	cdi_add(f->out, &gpu);
}

static void cdi_read_spec(struct cdi_file *f, const struct node *root)
{
	const struct node *kind = node_get(root, "kind");
	if (!node_is(kind, NODE_TEXT)) {
		cdi_fault(f, root,
		          "a CDI file is a mapping with `kind`, for instance nvidia.com/gpu");
		return;
	}
	const char *class = strchr(kind->text, '/');
	if (class == NULL || strcmp(class, "/gpu") != 0)
		return;
	f->kind = kind->text;
	f->all = node_get(root, "containerEdits");
	struct cdi_edits all = { .env.a = &f->out->arena };
	if (cdi_read_edits(f, f->all, &all) != 0)
		return;
	const struct node *devices = cdi_list(f, root, "devices");
	for (size_t i = 0; devices && i < devices->n; i++)
		cdi_read_device(f, &devices->item[i]);
	if (f->hooks)
		notes_add(
		    &f->out->notes, NOWHERE,
		    "%s: hooks are not executed; images need the libraries of the driver under "
		    "their sonames",
		    f->name);
}

/* ---- files ------------------------------------------------------------------------- */

static void cdi_read_path(const char *path, struct inventory *out)
{
	struct cdi_file f = { .name = arena_printf(&out->arena, "%s", path), .out = out };
	STR_AUTO text = STR_INIT(CDI_FILE_MAX);
	FREE_AUTO char *real = realpath(path, NULL); /* it may be a link */
	struct doc doc = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	if (!real || fd_read_str(AT_FDCWD, real, &text) != 0)
		notes_add(&out->notes, NOWHERE, "%s: %s", path,
		          errno == EINVAL || errno == EFBIG ? "is not a file of at most 4 MiB"
		                                            : strerrordesc_np(errno));
	else if (doc_read(str_view(&text), &BUDGET_DEFAULT, &out->arena, &doc, &warnings, &e) == 0)
		cdi_read_spec(&f, &doc.root);
	else if (e.notes.n)
		notes_add(&out->notes, NOWHERE, "%s, line %u, column %u: %s", path,
		          e.notes.v[0].line, e.notes.v[0].column, e.notes.v[0].msg);
}

static int cdi_select(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');
	return dot && d->d_name[0] != '.' && (!strcmp(dot, ".yaml") || !strcmp(dot, ".json"));
}

void cdi_read(const char *dir, struct inventory *out)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, cdi_select, alphasort);
	for (int i = 0; i < n; i++) {
		FREE_AUTO char *path = xasprintf("%s/%s", dir, names[i]->d_name);
		if (i < CDI_FILES_MAX)
			cdi_read_path(path, out);
		free(names[i]);
	}
	free(names);
}
