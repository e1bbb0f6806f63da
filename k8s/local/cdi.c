/* CDI files; see cdi.h.  https://github.com/cncf-tags/container-device-interface, version 0.8. */
#include "k8s/local/cdi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tree.h"

enum { CDI_FILE_MAX = 4 << 20, CDI_FILES_MAX = 256, CDI_GPUS_MAX = 1024, CDI_EDITS_MAX = 4096 };

/* What a container gets: containerEdits. */
struct cdi_edits {
	struct gpu_file *file;
	size_t n;
	const char **env;
	size_t env_n;
};

struct cdi_file {
	const char *name, *kind;
	struct inventory *out;
	struct gpu_list *list;
	struct cdi_edits all; /* what every device of the file needs */
	bool hooks;
};

/* A note with the place of a node.  Returns -1. */
static int cdi_fault(struct cdi_file *f, const struct node *n, const char *what)
{
	notes_add(&f->out->notes, NOWHERE, "%s, line %u, column %u: %s", f->name, n->line,
	          n->column, what);
	return -1;
}

/* A text, else NULL and a note; NULL without a note if there is none. */
static const char *cdi_text(struct cdi_file *f, const struct node *map, const char *key, bool path)
{
	const struct node *n = node_get(map, key);
	if (n == NULL)
		return NULL;
	ARENA_AUTO a = { 0 };
	if (n->type != NODE_TEXT) {
		cdi_fault(f, n, arena_printf(&a, "%s must be text, is %s", key, node_type_name(n)));
		return NULL;
	}
	if (path && (n->text[0] != '/' || strstr(n->text, "/../"))) {
		char q[4 * QUOTE_MAX];
		cdi_fault(f, n,
		          arena_printf(&a, "%s must be an absolute path, is \"%s\"", key,
		                       quote(q, node_span(n))));
		return NULL;
	}
	return n->text;
}

/* A list, NULL if there is none; -1 and a note if it is something else. */
static int cdi_list(struct cdi_file *f, const struct node *map, const char *key,
                    const struct node **list)
{
	*list = node_get(map, key);
	if (*list == NULL || (*list)->type == NODE_NULL) {
		*list = NULL;
		return 0;
	}
	if ((*list)->type == NODE_LIST && (*list)->n <= CDI_EDITS_MAX)
		return 0;
	ARENA_AUTO a = { 0 };
	return cdi_fault(
	    f, *list,
	    arena_printf(&a, "%s must be a list of at most %d items", key, CDI_EDITS_MAX));
}

/* deviceNodes: {path, hostPath}; mounts: {containerPath, hostPath, options}. */
static int cdi_read_file(struct cdi_file *f, const struct node *n, bool device,
                         struct gpu_file *out)
{
	const char *key = device ? "path" : "containerPath";
	out->path = cdi_text(f, n, key, true);
	out->host = cdi_text(f, n, "hostPath", true);
	if (out->host == NULL && device && node_get(n, "hostPath") == NULL)
		out->host = out->path;
	if (out->path == NULL || out->host == NULL)
		return cdi_fault(f, n,
		                 device ? "a device node needs `path`"
		                        : "a mount needs `hostPath` and `containerPath`");
	out->device = device;
	out->writable = true;
	const struct node *options = NULL;
	if (cdi_list(f, n, "options", &options) != 0)
		return -1;
	for (size_t i = 0; options && i < options->n; i++) {
		const struct node *o = &options->item[i];
		if (o->type == NODE_TEXT && strcmp(o->text, "ro") == 0)
			out->writable = false;
	}
	return 0;
}

static int cdi_read_edits(struct cdi_file *f, const struct node *map, struct cdi_edits *out)
{
	static const char *const KEYS[] = { "deviceNodes", "mounts" };
	const struct node *lists[2];
	const struct node *env = NULL;
	*out = (struct cdi_edits){ 0 };
	if (map == NULL)
		return 0;
	if (map->type != NODE_MAP)
		return cdi_fault(f, map, "containerEdits must be a mapping");
	f->hooks = f->hooks || node_get(map, "hooks");
	size_t n = 0;
	for (size_t k = 0; k < 2; k++) {
		if (cdi_list(f, map, KEYS[k], &lists[k]) != 0)
			return -1;
		n += lists[k] ? lists[k]->n : 0;
	}
	if (cdi_list(f, map, "env", &env) != 0)
		return -1;
	struct arena *a = &f->out->arena;
	out->file = ARENA_NEW(a, struct gpu_file, n);
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; lists[k] && i < lists[k]->n; i++) {
			if (cdi_read_file(f, &lists[k]->item[i], k == 0, &out->file[out->n++]) != 0)
				return -1;
		}
	}
	out->env = ARENA_NEW(a, const char *, env ? env->n : 0);
	for (size_t i = 0; env && i < env->n; i++) {
		if (env->item[i].type != NODE_TEXT || !strchr(env->item[i].text, '='))
			return cdi_fault(f, &env->item[i], "a variable must be NAME=value");
		out->env[out->env_n++] = env->item[i].text;
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
static bool cdi_same(const struct gpu *g, const struct cdi_edits *own)
{
	size_t nodes = 0;
	for (size_t i = 0; i < own->n; i++) {
		if (own->file[i].device && !cdi_shows(g->files, g->own_n, own->file[i].host))
			return false;
		nodes += own->file[i].device;
	}
	for (size_t i = 0; i < g->own_n; i++)
		nodes -= g->files[i].device;
	return nodes == 0;
}

static bool cdi_is_uuid(const char *name)
{
	return strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0;
}

static void cdi_add(struct cdi_file *f, const char *name, const struct cdi_edits *own)
{
	const struct cdi_edits *all = &f->all;
	struct gpu_list *l = f->list;
	struct arena *a = &f->out->arena;
	const char *full = arena_printf(a, "%s=%s", f->kind, name);
	for (size_t i = 0; i < l->n; i++) {
		struct gpu *g = &l->v[i];
		if (strcmp(g->name, full) == 0)
			return;
		if (cdi_same(g, own)) {
			g->uuid = g->uuid == NULL && cdi_is_uuid(name) ? name : g->uuid;
			return;
		}
	}
	struct gpu *g = gpu_list_add(l);
	g->name = full;
	g->uuid = cdi_is_uuid(name) ? name : NULL;
	g->own_n = own->n;
	g->files_n = own->n + all->n;
	struct gpu_file *files = ARENA_NEW(a, struct gpu_file, g->files_n);
	memcpy(files, own->file, own->n * sizeof(*files));
	if (all->n)
		memcpy(files + own->n, all->file, all->n * sizeof(*files));
	g->files = files;
	const char **env = ARENA_NEW(a, const char *, own->env_n + all->env_n + 1);
	for (size_t i = 0; i < own->env_n; i++)
		env[i] = own->env[i];
	for (size_t i = 0; i < all->env_n; i++)
		env[own->env_n + i] = all->env[i];
	g->env = env;
}

static void cdi_read_device(struct cdi_file *f, const struct node *n)
{
	const struct node *id = node_get(n, "name");
	const char *name = NULL;
	if (node_is(id, NODE_TEXT))
		name = id->text;
	else if (node_is(id, NODE_INT)) /* without quotes */
		name = arena_printf(&f->out->arena, "%lld", (long long)id->integer);
	struct cdi_edits own;
	if (name == NULL) {
		cdi_fault(f, n, "a device needs a `name`");
		return;
	}
	if (strcmp(name, "all") == 0 || f->list->n >= CDI_GPUS_MAX)
		return;
	if (cdi_read_edits(f, node_get(n, "containerEdits"), &own) != 0)
		return;
	bool device = false;
	for (size_t i = 0; i < own.n; i++)
		device = device || own.file[i].device;
	if (device)
		cdi_add(f, name, &own);
	else
		cdi_fault(f, n, "the device has no device node of its own");
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
	const struct node *devices = NULL;
	if (cdi_read_edits(f, node_get(root, "containerEdits"), &f->all) != 0 ||
	    cdi_list(f, root, "devices", &devices) != 0)
		return;
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

/* The text of a regular file; false, and why, if it cannot be read. */
static bool cdi_load(const char *path, struct str *text, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	*why = NULL;
	if (fd < 0 || fstat(fd, &st) != 0)
		*why = strerrordesc_np(errno);
	else if (!S_ISREG(st.st_mode) || st.st_size > CDI_FILE_MAX)
		*why = "is not a file of at most 4 MiB";
	while (*why == NULL && str_reserve(text, 65536)) {
		ssize_t n = read(fd, text->p + text->n, 65536);
		if (n < 0)
			*why = strerrordesc_np(errno);
		if (n <= 0)
			break;
		text->n += (size_t)n;
		text->p[text->n] = '\0';
	}
	if (fd >= 0)
		(void)close(fd);
	if (*why == NULL && text->full)
		*why = "is not a file of at most 4 MiB";
	return *why == NULL;
}

static void cdi_read_path(const char *path, struct gpu_list *l, struct inventory *out)
{
	struct cdi_file f = { .name = arena_printf(&out->arena, "%s", path),
		              .out = out,
		              .list = l };
	STR_AUTO text = STR_INIT(CDI_FILE_MAX + 65536);
	const char *why;
	if (!cdi_load(path, &text, &why)) {
		notes_add(&out->notes, NOWHERE, "%s: %s", path, why);
		return;
	}
	struct doc doc = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	if (doc_read(str_view(&text), &BUDGET_DEFAULT, &out->arena, &doc, &warnings, &e) == 0) {
		cdi_read_spec(&f, &doc.root);
		return;
	}
	const struct note *n = &e.notes.v[0];
	if (e.notes.n)
		notes_add(&out->notes, NOWHERE, "%s, line %u, column %u: %s", path, n->line,
		          n->column, n->msg);
}

static int cdi_select(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');
	return dot && d->d_name[0] != '.' && (!strcmp(dot, ".yaml") || !strcmp(dot, ".json"));
}

void cdi_read(const char *dir, struct gpu_list *l, struct inventory *out)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, cdi_select, alphasort);
	for (int i = 0; i < n; i++) {
		FREE_AUTO char *path = xasprintf("%s/%s", dir, names[i]->d_name);
		if (i < CDI_FILES_MAX)
			cdi_read_path(path, l, out);
		free(names[i]);
	}
	free(names);
}
