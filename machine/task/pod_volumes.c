/* Volumes of a pod, and the mounts of its containers. */
#include "machine/task/pod_internal.h"

#include <stdlib.h>

#include "base/quantity.h"
#include "k8s/transport/reply.h"

enum { MODE_DEFAULT = 0644, MODE_MAX = 0777 };

/* ---- volumes --------------------------------------------------------------------------------- */

/* Files from a Secret or a ConfigMap, with the keys as names. */
static int pod_volume_files(struct pod_reader *r, const json_t *object, bool secret,
                            struct pod_volume *v)
{
	const json_t *given = json_object_get(object, "defaultMode");
	json_int_t mode = json_is_integer(given) ? json_integer_value(given) : MODE_DEFAULT;
	if (mode < 0 || mode > MODE_MAX)
		return pod_refuse(r, "the defaultMode of volume %s is not 0 to 0777", v->name);
	v->mode = (int)mode;
	if (json_array_size(json_object_get(object, "items")) > 0)
		return pod_refuse(r, "volume %s has items, which are not supported", v->name);
	return pod_source_read(r, object, secret ? "secretName" : "name", secret,
	                       arena_printf(r->a, "volume %s", v->name), &v->from);
}

/* Access to the API server, which is not here: an empty directory. */
static int pod_volume_projected(struct pod_reader *r, const json_t *object, struct pod_volume *v)
{
	const json_t *list = json_object_get(object, "sources");
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (json_object_get(json_array_get(list, i), "serviceAccountToken"))
			return 0;
	}
	return pod_refuse(r, "volume %s is projected, which is not supported", v->name);
}

static int pod_volume_empty(struct pod_reader *r, const json_t *object, struct pod_volume *v)
{
	const char *medium = reply_text(object, "medium");
	const char *size = reply_text(object, "sizeLimit");
	int64_t milli = *size ? quantity_milli(span_of(size)) : 0;
	if (*medium && strcmp(medium, "Memory") != 0)
		return pod_refuse(r, "volume %s has a medium that is not Memory", v->name);
	if (milli < 0)
		return pod_refuse(r, "the sizeLimit of volume %s is no quantity", v->name);
	v->kind = *medium ? POD_MEMORY : POD_DIRECTORY;
	v->size = milli / 1000;
	return 0;
}

/* Only what the templates use, and never the machine's own directory. */
static int pod_volume_host(struct pod_reader *r, const json_t *object, struct pod_volume *v)
{
	const char *path = reply_text(object, "path");
	v->kind = strcmp(path, "/dev/shm") == 0 ? POD_MEMORY : POD_DIRECTORY;
	if (v->kind == POD_MEMORY || strcmp(path, "/var/log/pai") == 0)
		return 0;
	return pod_refuse(r, "volume %s is the directory `%s` of the machine (hostPath)", v->name,
	                  pod_shown(r, path));
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
	const char *claim = reply_text(object, "claimName");
	const char *name = *claim ? claim : v->name;
	const char *dir = pod_storage_find(r->s, name);
	if (!dir)
		return pod_refuse(r,
		                  "volume %s (%s) needs a directory of this machine for the "
		                  "storage `%s`, and there is none in the facts file",
		                  v->name, kind, pod_shown(r, name));
	v->kind = POD_STORAGE;
	v->dir = arena_dup(r->a, span_of(dir));
	v->storage = arena_dup(r->a, span_of(name));
	v->read_only = json_is_true(json_object_get(object, "readOnly"));
	return 0;
}

static int pod_volume_kind(struct pod_reader *r, const char *kind, const json_t *object,
                           struct pod_volume *v)
{
	if (strcmp(kind, "emptyDir") == 0)
		return pod_volume_empty(r, object, v);
	if (strcmp(kind, "secret") == 0 || strcmp(kind, "configMap") == 0)
		return pod_volume_files(r, object, *kind == 's', v);
	if (strcmp(kind, "hostPath") == 0)
		return pod_volume_host(r, object, v);
	if (strcmp(kind, "projected") == 0)
		return pod_volume_projected(r, object, v);
	return pod_volume_storage(r, kind, object, v);
}

static int pod_volume_read(struct pod_reader *r, json_t *object, struct pod_volume *v)
{
	const char *kind;
	json_t *value;
	v->name = pod_text(r, object, "name");
	if (!*v->name || strlen(v->name) > 63 || !span_only(span_of(v->name), "-"))
		return pod_refuse(r, "a volume has the name `%s`, which is not valid",
		                  pod_shown(r, v->name));
	json_object_foreach (object, kind, value) {
		if (strcmp(kind, "name") != 0)
			return pod_volume_kind(r, kind, value, v);
	}
	return 0; /* POD_DIRECTORY */
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
	const char *name = reply_text(object, "name");
	const char *sub_path = reply_text(object, "subPath");
	*m = (struct pod_mount){ .volume = pod_volume_find(r->pod, name), .sub_path = "" };
	if (!m->volume)
		return pod_refuse(r, "a mount names the volume `%s`, which is not there",
		                  pod_shown(r, name));
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
