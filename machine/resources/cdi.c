/*
 * CDI files (Container Device Interface): YAML or JSON in which the driver's tools say what a
 * container with a GPU needs.  Hooks, which need a container runtime, are ignored.
 * https://github.com/cncf-tags/container-device-interface, version 0.8.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/doc/tree.h"
#include "base/posix/fd.h"
#include "machine/resources/resources.h"

enum { CDI_FILE_MAX = 4 << 20, CDI_EDITS_MAX = 4096 };

/* The place of a node in its file, for err_at. */
#define CDI_WRONG(node) 400, NULL, ((struct place){ NULL, (node)->line, (node)->column })

/* An absolute path; NULL if there is none, or, with *e, if it is something else. */
static const char *cdi_path(const struct node *map, const char *key, struct err *e)
{
	char q[4 * QUOTE_MAX];
	const struct node *n = node_get(map, key);
	if (node_is(n, NODE_TEXT) && n->text[0] == '/' && !strstr(n->text, "/../"))
		return n->text;
	if (n)
		(void)err_at(e, CDI_WRONG(n), "%s must be an absolute path, is \"%s\"", key,
		             n->type == NODE_TEXT ? quote(q, node_span(n)) : node_type_name(n));
	return NULL;
}

/* A list, which is empty if there is none, or, with *e, if it is something else. */
static const struct node *cdi_list(const struct node *map, const char *key, struct err *e)
{
	static const struct node EMPTY = { .type = NODE_LIST };
	const struct node *list = node_get(map, key);
	if (!list || list->type == NODE_NULL)
		return &EMPTY;
	if (list->type == NODE_LIST && list->n <= CDI_EDITS_MAX)
		return list;
	(void)err_at(e, CDI_WRONG(list), "%s must be a list of at most %d items", key,
	             CDI_EDITS_MAX);
	return &EMPTY;
}

/* deviceNodes: {path, hostPath}; mounts: {containerPath, hostPath, options}. */
static void cdi_read_file(const struct node *n, bool device, struct sandbox_mount *out,
                          struct err *e)
{
	const struct node *options = cdi_list(n, "options", e);
	out->path = cdi_path(n, device ? "path" : "containerPath", e);
	out->source = cdi_path(n, "hostPath", e);
	if (!out->source && device)
		out->source = out->path;
	if (!out->path || !out->source)
		(void)err_at(e, CDI_WRONG(n), "%s",
		             device ? "a device node needs `path`"
		                    : "a mount needs `hostPath` and `containerPath`");
	out->device = device;
	out->writable = true;
	for (size_t i = 0; i < options->n; i++)
		out->writable &= !node_is(&options->item[i], NODE_TEXT) ||
		                 strcmp(options->item[i].text, "ro") != 0;
}

/* Adds containerEdits to what a GPU needs. */
static int cdi_read_edits(const struct node *map, struct gpu *g, struct err *e)
{
	if (map && map->type != NODE_MAP)
		return err_at(e, CDI_WRONG(map), "containerEdits must be a mapping");
	const struct node *devices = cdi_list(map, "deviceNodes", e);
	const struct node *mounts = cdi_list(map, "mounts", e);
	const struct node *env = cdi_list(map, "env", e);
	struct sandbox_mount *files =
	    ARENA_NEW(g->env.a, struct sandbox_mount, g->files_n + devices->n + mounts->n + 1);
	if (g->files_n)
		memcpy(files, g->files, g->files_n * sizeof(*files));
	g->files = files;
	for (size_t i = 0; i < devices->n; i++)
		cdi_read_file(&devices->item[i], true, &files[g->files_n++], e);
	for (size_t i = 0; i < mounts->n; i++)
		cdi_read_file(&mounts->item[i], false, &files[g->files_n++], e);
	for (size_t i = 0; i < env->n; i++) {
		const struct node *item = &env->item[i];
		if (item->type == NODE_TEXT && strchr(item->text, '='))
			words_add(&g->env, item->text);
		else
			(void)err_at(e, CDI_WRONG(item), "a variable must be NAME=value");
	}
	return e->http ? -1 : 0;
}

/* ---- devices ----------------------------------------------------------------------- */

/* Returns the number of device nodes that both have, apart from those of all devices of a file. */
static size_t cdi_shared(const struct gpu *a, const struct gpu *b)
{
	size_t n = 0;
	for (size_t i = 0; i < a->own_n; i++)
		for (size_t k = 0; k < b->own_n; k++)
			n += a->files[i].device && b->files[k].device &&
			     strcmp(a->files[i].source, b->files[k].source) == 0;
	return n;
}

static void cdi_add(struct inventory *out, const struct gpu *gpu)
{
	for (size_t i = 0; i < out->gpus_n; i++) {
		struct gpu *g = &out->gpus[i];
		size_t shared = cdi_shared(g, gpu);
		bool same = shared == cdi_shared(g, g) && shared == cdi_shared(gpu, gpu);
		if (same && strcmp(g->name, gpu->name) != 0 && !g->uuid)
			g->uuid = gpu->uuid;
		if (same || strcmp(g->name, gpu->name) == 0)
			return;
	}
	out->gpus[out->gpus_n++] = *gpu;
}

/* The node whose lock stands for the GPU: one that no other GPU has (parts of a GPU share one). */
static void cdi_choose_node(const struct inventory *v, struct gpu *g)
{
	for (size_t i = g->own_n; i-- > 0;) {
		const struct gpu one = { .files = &g->files[i], .own_n = 1 };
		size_t have = 0;
		for (size_t k = 0; k < v->gpus_n; k++)
			have += cdi_shared(&one, &v->gpus[k]);
		if (have == 1 || (have > 1 && !g->node))
			g->node = g->files[i].source;
	}
}

/* all: containerEdits of the file. */
static int cdi_read_device(const struct node *n, const char *kind, const struct node *all,
                           struct inventory *out, struct err *e)
{
	const struct node *id = node_get(n, "name");
	const char *name = NULL;
	if (node_is(id, NODE_TEXT))
		name = id->text;
	else if (node_is(id, NODE_INT)) /* without quotes */
		name = arena_printf(&out->arena, "%lld", (long long)id->integer);
	else
		return err_at(e, CDI_WRONG(n), "a device needs a `name`");
	struct gpu gpu = { .name = arena_printf(&out->arena, "%s=%s", kind, name),
		           .env.a = &out->arena };
	if (strcmp(name, "all") == 0 || out->gpus_n >= INVENTORY_GPUS ||
	    cdi_read_edits(node_get(n, "containerEdits"), &gpu, e) != 0)
		return 0;
	gpu.own_n = gpu.files_n;
	if (cdi_shared(&gpu, &gpu) == 0)
		return err_at(e, CDI_WRONG(n), "the device has no device node of its own");
	if (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0)
		gpu.uuid = name;
	(void)cdi_read_edits(all, &gpu, e); /* was read before */
	cdi_add(out, &gpu);
	return 0;
}

/* ---- files ------------------------------------------------------------------------- */

static void cdi_note(const char *path, const struct err *e, struct inventory *out)
{
	const struct note *n = e->notes.v;
	if (e->notes.n)
		notes_add(&out->notes, NOWHERE, "%s, line %u, column %u: %s", path, n->line,
		          n->column, n->msg);
}

static int cdi_read_spec(const char *path, const struct node *root, struct inventory *out,
                         struct err *e)
{
	const struct node *kind = node_get(root, "kind");
	if (!node_is(kind, NODE_TEXT))
		return err_at(e, CDI_WRONG(root),
		              "a CDI file is a mapping with `kind`, for instance nvidia.com/gpu");
	const char *class = strchr(kind->text, '/');
	if (!class || strcmp(class, "/gpu") != 0)
		return 0;
	const struct node *edits = node_get(root, "containerEdits");
	const struct node *devices = cdi_list(root, "devices", e);
	struct gpu all = { .env.a = &out->arena };
	bool hooks = node_get(edits, "hooks") != NULL;
	if (cdi_read_edits(edits, &all, e) != 0)
		return -1;
	for (size_t i = 0; i < devices->n; i++) {
		ERR_AUTO wrong = { 0 };
		const struct node *device = &devices->item[i];
		(void)cdi_read_device(device, kind->text, edits, out, &wrong);
		cdi_note(path, &wrong, out);
		hooks = hooks || node_get(node_get(device, "containerEdits"), "hooks");
	}
	if (hooks)
		notes_add(&out->notes, NOWHERE,
		          "%s: hooks are not executed; images need the libraries of the driver "
		          "under their sonames",
		          path);
	return 0;
}

static void cdi_read_path(const char *path, struct inventory *out)
{
	STR_AUTO text = STR_INIT(CDI_FILE_MAX);
	FREE_AUTO char *real = realpath(path, NULL); /* it may be a link */
	struct doc doc = { 0 };
	ERR_AUTO e = { 0 };
	if (!real || fd_read_str(AT_FDCWD, real, &text) != 0)
		notes_add(&out->notes, NOWHERE, "%s: %s", path,
		          errno == EINVAL || errno == EFBIG ? "is not a file of at most 4 MiB"
		                                            : strerrordesc_np(errno));
	else if (doc_read(str_view(&text), &BUDGET_DEFAULT, &out->arena, &doc, NULL, &e) == 0)
		(void)cdi_read_spec(path, &doc.root, out, &e);
	cdi_note(path, &e, out);
}

void cdi_read(struct inventory *out)
{
	inventory_glob(out, "/var/run/cdi/*.{yaml,json}", cdi_read_path);
	inventory_glob(out, "/etc/cdi/*.{yaml,json}", cdi_read_path);
	for (size_t i = 0; i < out->gpus_n; i++)
		cdi_choose_node(out, &out->gpus[i]);
}
