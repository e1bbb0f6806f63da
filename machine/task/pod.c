/* Reads volumes, mounts, variables and containers of a pod object, and refuses what one machine
 * cannot do. */
#include "machine/task/pod.h"

#include <stdlib.h>

#include "base/code/code.h"
#include "base/pod/portspec.h"
#include "base/pod/results.h"
#include "base/quantity.h"
#include "machine/task/sandbox.h"

enum {
	GRACE_DEFAULT_S = 30,
	GRACE_MAX_S = 7 * 86400,
	PATH_LIMIT = 4000,
	MODE_DEFAULT = 0644,
	MODE_MAX = 0777,
};

struct pod_reader {
	const struct pod_settings *s;
	const struct node *metadata, *spec;
	struct pod *pod;
	struct arena *a;
	struct err *e;
	char quoted[4 * QUOTE_MAX]; /* of the text that an error shows */
};

/* pod_read says before it that the pod cannot run here.  Returns -1. */
#define POD_REFUSE(r, ...) err_set((r)->e, NOT_IMPLEMENTED, __VA_ARGS__)

/* An integer; true. */
static int64_t pod_int(const struct node *of, const char *key, int64_t absent)
{
	const struct node *n = node_get(of, key);
	return node_is(n, NODE_INT) ? n->integer : absent;
}

static bool pod_bool(const struct node *of, const char *key)
{
	const struct node *n = node_get(of, key);
	return node_is(n, NODE_BOOL) && n->boolean;
}

/* Returns the list; one without items if it is absent or no list. */
static const struct node *pod_list(const struct node *of, const char *key)
{
	static const struct node NONE = { .type = NODE_LIST };
	const struct node *n = node_get(of, key);
	return node_is(n, NODE_LIST) ? n : &NONE;
}

/* A path in its normal form, without `.`, `..` and empty parts. */
static int pod_path(struct pod_reader *r, const char *text, bool absolute, const char **out)
{
	struct span rest = span_of(text);
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	bool good = rest.n > 0 && (*text == '/') == absolute && rest.n < PATH_LIMIT;
	while (good && rest.n > 0) {
		struct span part = span_next(&rest, '/');
		if (part.n == 0 || span_is(part, "."))
			continue;
		good = !span_is(part, "..") && part.n <= 255;
		if (absolute || path.n)
			str_char(&path, '/');
		str_span(&path, part);
	}
	if (!good || path.n == 0)
		return POD_REFUSE(r, "the path `%s` is not %s and without `..`",
		                  quote(r->quoted, span_of(text)),
		                  absolute ? "absolute" : "relative");
	*out = arena_dup(r->a, str_view(&path));
	return 0;
}

/* The Secret or ConfigMap that has the member `key` with its name. */
static int pod_source_read(struct pod_reader *r, const struct node *object, const char *key,
                           const char *needs, struct pod_source *s)
{
	s->name = node_text(object, key);
	s->optional = pod_bool(object, "optional");
	return *s->name ? 0 : POD_REFUSE(r, "%s names no Secret or ConfigMap", needs);
}

/* ---- volumes --------------------------------------------------------------------------------- */

/* The ConfigMap code-H-0 of code-volume.yaml is the whole archive here.  Only this template makes
 * such a volume: pods of users have no ConfigMaps, and H is of user and archive. */
static void pod_volume_code(const struct pod_reader *r, struct pod_volume *v)
{
	struct span name = span_of(v->from.name);
	if (name.n != CODE_OBJECT + 2 || !span_starts(name, "code-") ||
	    !span_only_alnum_or(name, "-") || !span_is(span_from(name, CODE_OBJECT), "-0"))
		return;
	*v = (struct pod_volume){
		.name = v->name,
		.kind = POD_STORAGE,
		.dir = arena_printf(r->a, "%s/%.*s", r->s->code_dir, CODE_OBJECT, name.p),
		.read_only = true,
	};
}

/* Files from a Secret or a ConfigMap, with the keys as names. */
static int pod_volume_files(struct pod_reader *r, const struct node *object, struct pod_volume *v)
{
	int64_t mode = pod_int(object, "defaultMode", MODE_DEFAULT);
	if (mode < 0 || mode > MODE_MAX)
		return POD_REFUSE(r, "the defaultMode of volume %s is not 0 to 0777", v->name);
	v->mode = (int)mode;
	if (pod_list(object, "items")->n > 0)
		return POD_REFUSE(r, "volume %s has items, which are not supported", v->name);
	if (pod_source_read(r, object, v->from.secret ? "secretName" : "name",
	                    arena_printf(r->a, "volume %s", v->name), &v->from))
		return -1;
	if (!v->from.secret && r->s->code_dir)
		pod_volume_code(r, v);
	return 0;
}

static int pod_volume_empty(struct pod_reader *r, const struct node *object, struct pod_volume *v)
{
	const char *medium = node_text(object, "medium");
	const char *size = node_text(object, "sizeLimit");
	int64_t milli = *size ? quantity_milli(span_of(size)) : 0;
	if (*medium && strcmp(medium, "Memory") != 0)
		return POD_REFUSE(r, "volume %s has a medium that is not Memory", v->name);
	if (milli < 0)
		return POD_REFUSE(r, "the sizeLimit of volume %s is no quantity", v->name);
	v->kind = *medium ? POD_MEMORY : POD_DIRECTORY;
	v->size = milli / 1000;
	return 0;
}

/* A claim, or a volume of a kind that only a cluster has: a directory of that name; that of the
 * job's results. */
static int pod_volume_storage(struct pod_reader *r, const char *kind, const struct node *object,
                              struct pod_volume *v)
{
	const char *claim = node_text(object, "claimName");
	v->kind = POD_STORAGE;
	v->storage = *claim ? claim : v->name;
	v->read_only = pod_bool(object, "readOnly");
	if (strcmp(v->storage, RESULTS_CLAIM) == 0) {
		v->dir = r->s->results ?: "";
		return 0;
	}
	for (size_t i = 0; i < r->s->n_storages; i++) {
		v->dir = r->s->storage[i].dir;
		if (strcmp(r->s->storage[i].name, v->storage) == 0)
			return 0;
	}
	return POD_REFUSE(r,
	                  "volume %s (%s) needs a directory of this machine for the storage `%s`, "
	                  "and there is none in the facts file",
	                  v->name, kind, quote(r->quoted, span_of(v->storage)));
}

static int pod_volume_kind(struct pod_reader *r, const char *kind, const struct node *object,
                           struct pod_volume *v)
{
	const char *path = node_text(object, "path");
	const struct node *sources = pod_list(object, "sources");
	v->from.secret = strcmp(kind, "secret") == 0;
	if (v->from.secret || strcmp(kind, "configMap") == 0)
		return pod_volume_files(r, object, v);
	if (strcmp(kind, "emptyDir") == 0)
		return pod_volume_empty(r, object, v);
	if (strcmp(kind, "hostPath") == 0) {
		/* Only what the templates use, and never the machine's own directory. */
		v->kind = strcmp(path, "/dev/shm") == 0 ? POD_MEMORY : POD_DIRECTORY;
		if (v->kind == POD_MEMORY || strcmp(path, "/var/log/pai") == 0)
			return 0;
		return POD_REFUSE(r, "volume %s is the directory `%s` of the machine (hostPath)",
		                  v->name, quote(r->quoted, span_of(path)));
	}
	if (strcmp(kind, "projected") != 0)
		return pod_volume_storage(r, kind, object, v);
	/* Access to the API server, which is not here: an empty directory. */
	for (size_t i = 0; i < sources->n; i++) {
		if (node_get(&sources->item[i], "serviceAccountToken"))
			return 0;
	}
	return POD_REFUSE(r, "volume %s is projected, which is not supported", v->name);
}

static struct pod_volume *pod_volume_find(const struct pod *p, const char *name)
{
	for (size_t i = 0; i < p->n_volumes; i++) {
		if (strcmp(p->volume[i].name, name) == 0)
			return &p->volume[i];
	}
	return NULL;
}

static int pod_volumes_read(struct pod_reader *r)
{
	const struct node *list = pod_list(r->spec, "volumes");
	struct pod *p = r->pod;
	if (list->n > POD_VOLUMES_MAX)
		return POD_REFUSE(r, "it has more than %d volumes", POD_VOLUMES_MAX);
	p->volume = ARENA_NEW(r->a, struct pod_volume, list->n + 1);
	for (size_t i = 0; i < list->n; i++) {
		const struct node *object = &list->item[i];
		struct pod_volume *v = &p->volume[i];
		v->name = node_text(object, "name");
		if (!*v->name || strlen(v->name) > 63 || !span_only_alnum_or(span_of(v->name), "-"))
			return POD_REFUSE(r, "a volume has the name `%s`, which is not valid",
			                  quote(r->quoted, span_of(v->name)));
		for (size_t k = 0; k < object->n; k++) { /* without another member: POD_DIRECTORY */
			const struct member *m = &object->member[k];
			if (strcmp(m->key, "name") == 0)
				continue;
			if (pod_volume_kind(r, m->key, &m->value, v))
				return -1;
			break;
		}
		if (pod_volume_find(p, v->name))
			return POD_REFUSE(r, "two volumes have the name %s", v->name);
		p->n_volumes++;
	}
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static int pod_mount_compare(const void *a, const void *b)
{
	return strcmp(((const struct pod_mount *)a)->path, ((const struct pod_mount *)b)->path);
}

static int pod_mounts_read(struct pod_reader *r, const struct node *object, struct pod_container *c)
{
	const struct node *list = pod_list(object, "volumeMounts");
	if (list->n > POD_MOUNTS_MAX)
		return POD_REFUSE(r, "container %s has more than %d mounts", c->name,
		                  POD_MOUNTS_MAX);
	c->mount = ARENA_NEW(r->a, struct pod_mount, list->n + 1);
	for (const struct node *mount = list->item; mount < list->item + list->n; mount++) {
		struct pod_mount *m = &c->mount[c->n_mounts++];
		const char *name = node_text(mount, "name");
		const char *sub_path = node_text(mount, "subPath");
		*m = (struct pod_mount){ .volume = pod_volume_find(r->pod, name), .sub_path = "" };
		if (!m->volume)
			return POD_REFUSE(r, "a mount names the volume `%s`, which is not there",
			                  quote(r->quoted, span_of(name)));
		if (*node_text(mount, "subPathExpr"))
			return POD_REFUSE(r, "a mount of volume %s has a subPathExpr", name);
		if (pod_path(r, node_text(mount, "mountPath"), true, &m->path) ||
		    (*sub_path && pod_path(r, sub_path, false, &m->sub_path)))
			return -1;
		m->read_only = m->volume->read_only || pod_bool(mount, "readOnly");
	}
	qsort(c->mount, c->n_mounts, sizeof(*c->mount), pod_mount_compare);
	for (size_t i = 1; i < c->n_mounts; i++) {
		if (strcmp(c->mount[i - 1].path, c->mount[i].path) == 0)
			return POD_REFUSE(r, "two volumes are mounted at %s", c->mount[i].path);
	}
	for (const struct pod_mount *in = c->mount; in < c->mount + c->n_mounts; in++) {
		for (size_t i = 0; in->volume->kind == POD_STORAGE && i < c->n_mounts; i++) {
			const char *path = c->mount[i].path;
			if (path != in->path && path_within(path, in->path))
				return POD_REFUSE(r,
				                  "%s cannot be a mount point: it would be in the "
				                  "storage at %s, where other tasks can change it",
				                  path, in->path);
		}
	}
	return 0;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* The value of a fieldRef: one of these, or metadata.labels['KEY'], or an annotation. */
static int pod_field(struct pod_reader *r, const struct node *ref, const char **value)
{
	const char *path = node_text(ref, "fieldPath");
	const struct {
		const char *path, *value;
	} FIELDS[] = {
		{ "metadata.name", node_text(r->metadata, "name") },
		{ "metadata.namespace", node_text(r->metadata, "namespace") },
		{ "metadata.uid", r->s->uid },
		{ "spec.nodeName", r->s->node_name },
		{ "spec.serviceAccountName", node_text(r->spec, "serviceAccountName") },
		{ "status.hostIP", r->s->ip },
		{ "status.podIP", r->s->ip },
		{ "status.podIPs", r->s->ip },
	};
	for (size_t i = 0; i < ARRAY_SIZE(FIELDS); i++) {
		*value = FIELDS[i].value ?: "";
		if (strcmp(FIELDS[i].path, path) == 0)
			return 0;
	}
	struct span rest = span_of(path);
	struct span head = span_next(&rest, '\'');
	const char *key = arena_dup(r->a, span_next(&rest, '\''));
	const char *map = span_is(head, "metadata.labels[")        ? "labels"
	                  : span_is(head, "metadata.annotations[") ? "annotations"
	                                                           : "";
	*value = node_text(node_get(r->metadata, map), key);
	if (*map && *key && span_is(rest, "]"))
		return 0;
	return POD_REFUSE(r, "the field `%s` is not known here", quote(r->quoted, span_of(path)));
}

static int pod_env_entry(struct pod_reader *r, const struct node *entry, struct pod_env *v)
{
	const struct node *from = node_get(entry, "valueFrom");
	const struct node *field = node_get(from, "fieldRef");
	v->name = node_text(entry, "name");
	if (!*v->name || strchr(v->name, '='))
		return POD_REFUSE(r, "a variable has no valid name");
	if (field)
		return pod_field(r, field, &v->value);
	if (node_is(from, NODE_MAP))
		return POD_REFUSE(r, "the value of variable %s has a source that is not known here",
		                  v->name);
	v->value = node_text(entry, "value");
	v->expand = true;
	return 0;
}

/* Reads the variables; those of envFrom come first. */
static int pod_env_read(struct pod_reader *r, const struct node *object, struct pod_container *c)
{
	const struct node *from = pod_list(object, "envFrom");
	const struct node *list = pod_list(object, "env");
	if (from->n > POD_ENV_MAX || list->n > POD_ENV_MAX - from->n)
		return POD_REFUSE(r, "container %s has more than %d variables", c->name,
		                  POD_ENV_MAX);
	c->env = ARENA_NEW(r->a, struct pod_env, from->n + list->n);
	for (; c->n_env < from->n; c->n_env++) {
		struct pod_env *v = &c->env[c->n_env];
		const struct node *entry = &from->item[c->n_env];
		const struct node *secret = node_get(entry, "secretRef");
		v->name = node_text(entry, "prefix");
		v->from.secret = secret != NULL;
		if (pod_source_read(r, secret ?: node_get(entry, "configMapRef"), "name",
		                    "an entry of envFrom", &v->from))
			return -1;
	}
	for (size_t i = 0; i < list->n; i++) {
		if (pod_env_entry(r, &list->item[i], &c->env[c->n_env++]))
			return -1;
	}
	return 0;
}

/* ---- containers ------------------------------------------------------------------------------ */

static int pod_words(struct pod_reader *r, const struct node *list, const char ***out)
{
	*out = ARENA_NEW(r->a, const char *, list->n + 1);
	for (size_t i = 0; i < list->n; i++) {
		if (!node_is(&list->item[i], NODE_TEXT))
			return POD_REFUSE(r, "a word of a command is no text");
		(*out)[i] = list->item[i].text;
	}
	return 0;
}

/* Reads the limits; a resource without a limit has its request as the limit. */
static int pod_resources(struct pod_reader *r, const struct node *app)
{
	const struct node *resources = node_get(app, "resources");
	struct amounts *need = &r->pod->need;
	static const char *const LISTS[] = { "requests", "limits" };
	/* These are no devices for computing. */
	static const char *const NOT[] = { "github.com/fuse", "rdma/hca",
		                           "hivedscheduler.microsoft.com/pod-scheduling-enable",
		                           NULL };
	for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++) {
		const struct node *list = node_get(resources, LISTS[i]);
		for (size_t k = 0; node_is(list, NODE_MAP) && k < list->n; k++) {
			const struct node *value = &list->member[k].value;
			const char *name = list->member[k].key;
			struct span text = node_is_number(value) || node_is(value, NODE_TEXT)
			                       ? node_scalar(r->a, value)
			                       : SPAN("");
			int64_t milli = quantity_milli(text);
			if (milli < 0)
				return POD_REFUSE(r, "the limit `%s` is no quantity, but `%s`",
				                  name, quote(r->quoted, text));
			if (strcmp(name, "cpu") == 0)
				need->cpus = milli ?: need->cpus;
			else if (strcmp(name, "memory") == 0)
				need->memory = milli / 1000 ?: need->memory;
			else if (i == 1 && strchr(name, '/') && !span_among(span_of(name), NOT) &&
			         milli / 1000 <= INT32_MAX)
				need->gpus += milli / 1000;
		}
	}
	return 0;
}

static int pod_container_read(struct pod_reader *r, const struct node *object,
                              struct pod_container *c)
{
	const char *message = node_text(object, "terminationMessagePath");
	const char *directory = node_text(object, "workingDir");
	c->name = node_text(object, "name");
	c->image = node_text(object, "image");
	return pod_path(r, *message ? message : "/dev/termination-log", true, &c->message_path) ||
	               (*directory && pod_path(r, directory, true, &c->directory)) ||
	               pod_words(r, pod_list(object, "command"), &c->command) ||
	               pod_words(r, pod_list(object, "args"), &c->args) ||
	               pod_env_read(r, object, c) || pod_mounts_read(r, object, c)
	           ? -1
	           : 0;
}

/* ---- the pod --------------------------------------------------------------------------------- */

static int pod_containers(struct pod_reader *r)
{
	const struct node *init = pod_list(r->spec, "initContainers");
	const struct node *app = pod_list(r->spec, "containers");
	r->pod->has_init = init->n == 1;
	if (init->n > 1 || app->n != 1)
		return POD_REFUSE(r,
		                  "it has %u init containers, with that of pai-runtime, and %u "
		                  "containers; one of each is possible: move the commands of "
		                  "the others into that of the first container",
		                  init->n, app->n);
	if (r->pod->has_init && pod_container_read(r, init->item, &r->pod->init))
		return -1;
	return pod_container_read(r, app->item, &r->pod->app) || pod_resources(r, app->item) ? -1
	                                                                                     : 0;
}

struct pod *pod_read(const struct node *object, const struct pod_settings *s, struct arena *a,
                     struct err *e)
{
	struct pod *p = ARENA_NEW(a, struct pod, 1);
	struct pod_reader r = { .s = s,
		                .metadata = node_get(object, "metadata"),
		                .spec = node_get(object, "spec"),
		                .pod = p,
		                .a = a,
		                .e = e };
	const struct node *secrets = pod_list(r.spec, "imagePullSecrets");
	struct portspec ports = { .total = 0 };
	ERR_AUTO wrong = { 0 };
	p->uid = s->uid;
	p->grace_s = pod_int(r.spec, "terminationGracePeriodSeconds", GRACE_DEFAULT_S);
	p->pull_secret = ARENA_NEW(a, const char *, secrets->n + 1);
	for (; p->n_pull_secrets < secrets->n; p->n_pull_secrets++)
		p->pull_secret[p->n_pull_secrets] =
		    node_text(&secrets->item[p->n_pull_secrets], "name");
	bool grace = p->grace_s >= 0 && p->grace_s <= GRACE_MAX_S;
	if (!grace)
		(void)POD_REFUSE(&r, "terminationGracePeriodSeconds is not 0 to %d", GRACE_MAX_S);
	if (!grace || pod_volumes_read(&r) || pod_containers(&r)) {
		(void)err_wrap(e, "this pod cannot run on one machine");
		return NULL;
	}
	const char *text =
	    node_text(node_get(r.metadata, "annotations"), "rest-server/port-scheduling-spec");
	if (*text) /* with mistakes it has the labels that are right */
		(void)portspec_read(span_of(text), -1, a, &ports, &wrong);
	p->need.ports = ports.sequential ? 0 : ports.total;
	for (size_t i = 0; i < p->init.n_env; i++) {
		const struct pod_env *v = &p->init.env[i];
		if (strcmp(v->name, "GANG_ALLOCATION") == 0)
			p->gang = v->value && strcmp(v->value, "true") == 0;
	}
	return p;
}
