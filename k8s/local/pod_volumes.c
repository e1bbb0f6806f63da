/* Volumes of a pod, and the mounts of its containers. */
#include "k8s/local/pod_internal.h"

#include <stdlib.h>

#include "k8s/transport/reply.h"

enum { MODE_DEFAULT = 0644, SOURCES_MAX = 64, ITEMS_MAX = 1024 };

/* ---- files from objects ---------------------------------------------------------------------- */

static int pod_mode(struct pod_reader *r, const json_t *object, const char *key, int absent,
                    int *mode)
{
	const json_t *value = json_object_get(object, key);
	*mode = absent;
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > 0777)
		return pod_refuse(r, "%s is not 0 to 0777", key);
	*mode = (int)json_integer_value(value);
	return 0;
}

static int pod_item_read(struct pod_reader *r, const json_t *object, const struct pod_source *from,
                         struct pod_item *item)
{
	if (pod_mode(r, object, "mode", -1, &item->mode) ||
	    pod_path(r, reply_text(object, "path"), false, &item->path))
		return -1;
	if (!from->name)
		return pod_field(r, json_object_get(object, "fieldRef"), &item->key);
	item->key = pod_text(r, object, "key");
	return 0;
}

static int pod_items(struct pod_reader *r, const json_t *object, struct pod_source *from)
{
	const json_t *list = json_object_get(object, "items");
	size_t n = json_array_size(list);
	if (n == 0 && from->name)
		return 0;
	if (n > ITEMS_MAX)
		return pod_refuse(r, "a volume has more than %d items", ITEMS_MAX);
	struct pod_item *item = ARENA_NEW(r->a, struct pod_item, n + 1);
	for (size_t i = 0; i < n; i++) {
		if (pod_item_read(r, json_array_get(list, i), from, &item[i]))
			return -1;
	}
	from->item = item;
	from->n_items = n;
	return 0;
}

/* kind: secret, configMap or downwardAPI. */
static int pod_source_read(struct pod_reader *r, const json_t *object, const char *kind,
                           struct pod_source *from)
{
	*from =
	    (struct pod_source){ .secret = strcmp(kind, "secret") == 0,
		                 .optional = json_is_true(json_object_get(object, "optional")) };
	if (strcmp(kind, "downwardAPI") != 0) {
		from->name = pod_text(r, object, "secretName");
		if (!*from->name)
			from->name = pod_text(r, object, "name");
		if (!*from->name)
			return pod_refuse(r, "a volume of kind %s names no object", kind);
	}
	return pod_items(r, object, from);
}

static const char *pod_source_kind(const json_t *object)
{
	static const char *const KINDS[] = { "secret", "configMap", "downwardAPI" };
	for (size_t i = 0; i < sizeof(KINDS) / sizeof(*KINDS); i++) {
		if (json_is_object(json_object_get(object, KINDS[i])))
			return KINDS[i];
	}
	return NULL;
}

static int pod_volume_sources(struct pod_reader *r, const json_t *list, struct pod_volume *v)
{
	size_t n = json_array_size(list);
	struct pod_source *from = ARENA_NEW(r->a, struct pod_source, n + 1);
	if (n > SOURCES_MAX)
		return pod_refuse(r, "volume %s has more than %d sources", v->name, SOURCES_MAX);
	v->source = from;
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_array_get(list, i);
		const char *kind = pod_source_kind(one);
		if (json_object_get(one, "serviceAccountToken")) {
			v->n_sources = 0; /* there is no API server */
			return 0;
		}
		if (!kind)
			return pod_refuse(r, "a source of volume %s is not known here", v->name);
		if (pod_source_read(r, json_object_get(one, kind), kind, &from[v->n_sources++]))
			return -1;
	}
	return 0;
}

static int pod_volume_files(struct pod_reader *r, const json_t *object, const char *kind,
                            struct pod_volume *v)
{
	struct pod_source *from = ARENA_NEW(r->a, struct pod_source, 1);
	v->kind = strcmp(kind, "secret") == 0 ? POD_SECRET : POD_CONFIGMAP;
	v->source = from;
	v->n_sources = 1;
	return pod_mode(r, object, "defaultMode", MODE_DEFAULT, &v->mode) ||
	               pod_source_read(r, object, kind, from)
	           ? -1
	           : 0;
}

/* ---- other volumes --------------------------------------------------------------------------- */

static int pod_volume_empty(struct pod_reader *r, const json_t *object, struct pod_volume *v)
{
	const char *medium = reply_text(object, "medium");
	const char *size = reply_text(object, "sizeLimit");
	int64_t milli = *size ? pod_quantity_milli(span_of(size)) : 0;
	if (*medium && strcmp(medium, "Memory") != 0)
		return pod_refuse(r, "volume %s has a medium that is not Memory", v->name);
	if (milli < 0)
		return pod_refuse(r, "the sizeLimit of volume %s is no quantity", v->name);
	v->kind = *medium ? POD_MEMORY : POD_EMPTY;
	v->size = milli / 1000;
	return 0;
}

/* Only what the templates use, and never the machine's own directory. */
static int pod_volume_host(struct pod_reader *r, const json_t *object, struct pod_volume *v)
{
	static const struct {
		const char *path;
		enum pod_volume_kind kind;
	} HARMLESS[] = { { "/dev/shm", POD_MEMORY }, { "/var/log/pai", POD_EMPTY } };
	char quoted[4 * QUOTE_MAX];
	const char *path = reply_text(object, "path");
	for (size_t i = 0; i < sizeof(HARMLESS) / sizeof(*HARMLESS); i++) {
		if (strcmp(path, HARMLESS[i].path) == 0) {
			v->kind = HARMLESS[i].kind;
			return 0;
		}
	}
	return pod_refuse(r, "volume %s is the directory `%s` of the machine (hostPath)", v->name,
	                  quote(quoted, span_of(path)));
}

static const char *pod_storage_find(const struct pod_settings *s, const char *name)
{
	for (size_t i = 0; i < s->n_storages; i++) {
		if (strcmp(s->storage[i].name, name) == 0)
			return s->storage[i].dir;
	}
	return NULL;
}

/* A claim, or a volume of a kind that only a cluster has: a directory of that name. */
static int pod_volume_storage(struct pod_reader *r, const char *kind, const json_t *object,
                              struct pod_volume *v)
{
	char quoted[4 * QUOTE_MAX];
	const char *claim = reply_text(object, "claimName");
	const char *name = *claim ? claim : v->name;
	const char *dir = pod_storage_find(r->s, name);
	if (!dir)
		return pod_refuse(r,
		                  "volume %s (%s) needs a directory of this machine for the "
		                  "storage `%s`, and there is none in the facts file",
		                  v->name, kind, quote(quoted, span_of(name)));
	v->kind = POD_STORAGE;
	v->dir = arena_dup(r->a, span_of(dir));
	v->read_only = json_is_true(json_object_get(object, "readOnly"));
	return 0;
}

static int pod_volume_kind(struct pod_reader *r, const char *kind, const json_t *object,
                           struct pod_volume *v)
{
	if (strcmp(kind, "emptyDir") == 0)
		return pod_volume_empty(r, object, v);
	if (strcmp(kind, "secret") == 0 || strcmp(kind, "configMap") == 0 ||
	    strcmp(kind, "downwardAPI") == 0)
		return pod_volume_files(r, object, kind, v);
	if (strcmp(kind, "hostPath") == 0)
		return pod_volume_host(r, object, v);
	if (strcmp(kind, "projected") != 0)
		return pod_volume_storage(r, kind, object, v);
	v->kind = POD_PROJECTED;
	return pod_mode(r, object, "defaultMode", MODE_DEFAULT, &v->mode) ||
	               pod_volume_sources(r, json_object_get(object, "sources"), v)
	           ? -1
	           : 0;
}

static bool pod_volume_name_ok(const char *name)
{
	return *name && strlen(name) <= 63 && span_only(span_of(name), "-");
}

static int pod_volume_read(struct pod_reader *r, json_t *object, struct pod_volume *v)
{
	const char *kind;
	json_t *value;
	char quoted[4 * QUOTE_MAX];
	v->name = pod_text(r, object, "name");
	if (!pod_volume_name_ok(v->name))
		return pod_refuse(r, "a volume has the name `%s`, which is not valid",
		                  quote(quoted, span_of(v->name)));
	json_object_foreach (object, kind, value) {
		if (strcmp(kind, "name") != 0)
			return pod_volume_kind(r, kind, value, v);
	}
	v->kind = POD_EMPTY;
	return 0;
}

static struct pod_volume *pod_volume_find(const struct pod *p, const char *name)
{
	for (size_t i = 0; i < p->n_volumes; i++) {
		if (strcmp(p->volume[i].name, name) == 0)
			return &p->volume[i];
	}
	return NULL;
}

int pod_volumes_read(struct pod_reader *r, const json_t *spec)
{
	const json_t *list = json_object_get(spec, "volumes");
	size_t n = json_array_size(list);
	if (n > POD_VOLUMES_MAX)
		return pod_refuse(r, "it has more than %d volumes", POD_VOLUMES_MAX);
	r->pod->volume = ARENA_NEW(r->a, struct pod_volume, n + 1);
	for (size_t i = 0; i < n; i++) {
		struct pod_volume *v = &r->pod->volume[i];
		if (pod_volume_read(r, json_array_get(list, i), v))
			return -1;
		if (pod_volume_find(r->pod, v->name))
			return pod_refuse(r, "two volumes have the name %s", v->name);
		r->pod->n_volumes++;
	}
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static int pod_mount_compare(const void *a, const void *b)
{
	return strcmp(((const struct pod_mount *)a)->path, ((const struct pod_mount *)b)->path);
}

static int pod_mount_read(struct pod_reader *r, const json_t *object, struct pod_mount *m)
{
	char quoted[4 * QUOTE_MAX];
	const char *name = reply_text(object, "name");
	const char *sub_path = reply_text(object, "subPath");
	*m = (struct pod_mount){ .volume = pod_volume_find(r->pod, name), .sub_path = "" };
	if (!m->volume)
		return pod_refuse(r, "a mount names the volume `%s`, which is not there",
		                  quote(quoted, span_of(name)));
	if (*reply_text(object, "subPathExpr"))
		return pod_refuse(r, "a mount of volume %s has a subPathExpr", m->volume->name);
	if (pod_path(r, reply_text(object, "mountPath"), true, &m->path) ||
	    (*sub_path && pod_path(r, sub_path, false, &m->sub_path)))
		return -1;
	m->read_only = m->volume->read_only || json_is_true(json_object_get(object, "readOnly"));
	return 0;
}

int pod_mounts_read(struct pod_reader *r, const json_t *object, struct pod_container *c)
{
	const json_t *list = json_object_get(object, "volumeMounts");
	size_t n = json_array_size(list);
	if (n > POD_MOUNTS_MAX)
		return pod_refuse(r, "container %s has more than %d mounts", c->name,
		                  POD_MOUNTS_MAX);
	c->mount = ARENA_NEW(r->a, struct pod_mount, n + 1);
	for (size_t i = 0; i < n; i++) {
		if (pod_mount_read(r, json_array_get(list, i), &c->mount[c->n_mounts++]))
			return -1;
	}
	qsort(c->mount, n, sizeof(*c->mount), pod_mount_compare);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(c->mount[i - 1].path, c->mount[i].path) == 0)
			return pod_refuse(r, "two volumes are mounted at %s", c->mount[i].path);
	}
	return 0;
}
