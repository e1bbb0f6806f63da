#include "k8s/local/pod.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "k8s/local/pod_internal.h"
#include "k8s/transport/reply.h"

enum { GRACE_DEFAULT_S = 30, GRACE_MAX_S = 7 * 86400, PATH_LIMIT = 4000 };

int pod_refuse(struct pod_reader *r, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return err_set(r->e, NOT_IMPLEMENTED, "this pod cannot run on one machine: %s", text);
}

char *pod_text(struct pod_reader *r, const json_t *object, const char *key)
{
	return arena_dup(r->a, span_of(reply_text(object, key)));
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Labels and annotations: metadata.labels['KEY']. */
static const char *pod_field_entry(struct pod_reader *r, const char *path)
{
	static const char *const MAPS[] = { "labels", "annotations" };
	for (size_t i = 0; i < sizeof(MAPS) / sizeof(*MAPS); i++) {
		char start[64];
		int n = snprintf(start, sizeof(start), "metadata.%s['", MAPS[i]);
		size_t length = strlen(path);
		if (strncmp(path, start, (size_t)n) != 0 || length < (size_t)n + 2 ||
		    strcmp(path + length - 2, "']") != 0)
			continue;
		struct span key = { path + n, length - (size_t)n - 2 };
		json_t *map = json_object_get(json_object_get(r->root, "metadata"), MAPS[i]);
		return reply_text(map, arena_dup(r->a, key));
	}
	return NULL;
}

int pod_field(struct pod_reader *r, const json_t *ref, const char **value)
{
	const char *path = reply_text(ref, "fieldPath");
	const json_t *metadata = json_object_get(r->root, "metadata");
	const json_t *spec = json_object_get(r->root, "spec");
	const struct {
		const char *path, *value;
	} FIELDS[] = {
		{ "metadata.name", reply_text(metadata, "name") },
		{ "metadata.namespace", reply_text(metadata, "namespace") },
		{ "metadata.uid", reply_text(metadata, "uid") },
		{ "spec.nodeName", r->s->node_name },
		{ "spec.serviceAccountName", reply_text(spec, "serviceAccountName") },
		{ "status.hostIP", r->s->ip },
		{ "status.podIP", r->s->ip },
		{ "status.podIPs", r->s->ip },
	};
	*value = pod_field_entry(r, path);
	for (size_t i = 0; !*value && i < sizeof(FIELDS) / sizeof(*FIELDS); i++) {
		if (strcmp(FIELDS[i].path, path) == 0)
			*value = FIELDS[i].value ? FIELDS[i].value : "";
	}
	char quoted[4 * QUOTE_MAX];
	if (!*value)
		return pod_refuse(r, "the field `%s` is not known here",
		                  quote(quoted, span_of(path)));
	*value = arena_dup(r->a, span_of(*value));
	return 0;
}

/* ---- paths ----------------------------------------------------------------------------------- */

int pod_path(struct pod_reader *r, const char *text, bool absolute, const char **out)
{
	char quoted[4 * QUOTE_MAX];
	struct span rest = span_of(text);
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	bool good = rest.n > 0 && (*text == '/') == absolute && rest.n < PATH_LIMIT;
	while (good && rest.n > 0) {
		size_t n = span_chr(rest, '/');
		struct span part = span_to(rest, n);
		rest = span_from(rest, n < rest.n ? n + 1 : n);
		if (part.n == 0 || span_is(part, "."))
			continue;
		good = !span_is(part, "..") && part.n <= 255;
		if (absolute || path.n)
			str_char(&path, '/');
		str_span(&path, part);
	}
	if (!good || path.n == 0)
		return pod_refuse(r, "the path `%s` is not %s", quote(quoted, span_of(text)),
		                  absolute ? "absolute and without `..`"
		                           : "relative and without `..`");
	*out = arena_dup(r->a, str_view(&path));
	return 0;
}

/* ---- containers ------------------------------------------------------------------------------ */

static int pod_words(struct pod_reader *r, const json_t *list, char ***out)
{
	size_t n = json_array_size(list);
	*out = ARENA_NEW(r->a, char *, n + 1);
	for (size_t i = 0; i < n; i++) {
		const char *word = json_string_value(json_array_get(list, i));
		if (!word)
			return pod_refuse(r, "a word of a command is no text");
		(*out)[i] = arena_dup(r->a, span_of(word));
	}
	return 0;
}

static int pod_env_from_object(struct pod_reader *r, const json_t *ref, bool secret,
                               struct pod_env *v)
{
	v->secret = secret;
	v->object = pod_text(r, ref, "name");
	v->key = pod_text(r, ref, "key");
	v->optional = json_is_true(json_object_get(ref, "optional"));
	return *v->object ? 0 : pod_refuse(r, "variable %s names no object", v->name);
}

static int pod_env_entry(struct pod_reader *r, const json_t *entry, struct pod_env *v)
{
	const json_t *from = json_object_get(entry, "valueFrom");
	const json_t *ref;
	*v = (struct pod_env){ .name = pod_text(r, entry, "name") };
	if (!*v->name || strchr(v->name, '='))
		return pod_refuse(r, "a variable has no valid name");
	if (!json_is_object(from)) {
		v->value = pod_text(r, entry, "value");
		v->expand = true;
		return 0;
	}
	if ((ref = json_object_get(from, "fieldRef")))
		return pod_field(r, ref, &v->value);
	if ((ref = json_object_get(from, "secretKeyRef")))
		return pod_env_from_object(r, ref, true, v);
	if ((ref = json_object_get(from, "configMapKeyRef")))
		return pod_env_from_object(r, ref, false, v);
	return pod_refuse(r, "the value of variable %s has a source that is not known here",
	                  v->name);
}

static int pod_env_from_entry(struct pod_reader *r, const json_t *entry, struct pod_env *v)
{
	const json_t *secret = json_object_get(entry, "secretRef");
	*v = (struct pod_env){ .name = pod_text(r, entry, "prefix"), .all = true };
	return pod_env_from_object(r, secret ? secret : json_object_get(entry, "configMapRef"),
	                           secret != NULL, v);
}

static int pod_env_read(struct pod_reader *r, const json_t *object, struct pod_container *c)
{
	const json_t *from = json_object_get(object, "envFrom");
	const json_t *list = json_object_get(object, "env");
	size_t n_from = json_array_size(from);
	size_t n = json_array_size(list);
	if (n_from > POD_ENV_MAX || n > POD_ENV_MAX - n_from)
		return pod_refuse(r, "container %s has more than %d variables", c->name,
		                  POD_ENV_MAX);
	c->env = ARENA_NEW(r->a, struct pod_env, n_from + n);
	for (size_t i = 0; i < n_from; i++) {
		if (pod_env_from_entry(r, json_array_get(from, i), &c->env[c->n_env++]))
			return -1;
	}
	for (size_t i = 0; i < n; i++) {
		if (pod_env_entry(r, json_array_get(list, i), &c->env[c->n_env++]))
			return -1;
	}
	return 0;
}

/* Resources of Kubernetes and of the templates that are no devices for computing. */
static bool pod_is_device(const char *name)
{
	static const char *const NOT[] = { "github.com/fuse", "rdma/hca",
		                           "hivedscheduler.microsoft.com/pod-scheduling-enable" };
	for (size_t i = 0; i < sizeof(NOT) / sizeof(*NOT); i++) {
		if (strcmp(NOT[i], name) == 0)
			return false;
	}
	return strchr(name, '/') != NULL;
}

static int pod_quantity(struct pod_reader *r, const char *name, const json_t *value, int64_t *milli)
{
	char text[64];
	char quoted[4 * QUOTE_MAX];
	const char *shown = json_string_value(value);
	if (json_is_integer(value))
		(void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
		               json_integer_value(value));
	else if (json_is_real(value))
		(void)snprintf(text, sizeof(text), "%.9f", json_real_value(value));
	if (!shown)
		shown = json_is_number(value) ? text : "";
	*milli = pod_quantity_milli(span_of(shown));
	return *milli < 0 ? pod_refuse(r, "the limit `%s` is no quantity, but `%s`", name,
	                               quote(quoted, span_of(shown)))
	                  : 0;
}

static int pod_limits(struct pod_reader *r, json_t *map, struct pod_container *c)
{
	const char *name;
	json_t *value;
	json_object_foreach (map, name, value) {
		int64_t milli;
		if (pod_quantity(r, name, value, &milli))
			return -1;
		if (strcmp(name, "cpu") == 0)
			c->cpu_milli = milli;
		else if (strcmp(name, "memory") == 0)
			c->memory = milli / 1000;
		else if (pod_is_device(name) && milli / 1000 <= INT32_MAX)
			c->gpus += milli / 1000;
	}
	return 0;
}

static int pod_resources(struct pod_reader *r, const json_t *object, struct pod_container *c)
{
	const json_t *resources = json_object_get(object, "resources");
	struct pod_container wanted = { 0 };
	if (pod_limits(r, json_object_get(resources, "requests"), &wanted) ||
	    pod_limits(r, json_object_get(resources, "limits"), c))
		return -1;
	if (!c->cpu_milli)
		c->cpu_milli = wanted.cpu_milli;
	if (!c->memory)
		c->memory = wanted.memory;
	return 0;
}

static int pod_container_read(struct pod_reader *r, const json_t *object, struct pod_container *c)
{
	*c = (struct pod_container){ .name = pod_text(r, object, "name"),
		                     .image = pod_text(r, object, "image"),
		                     .pull_policy = pod_text(r, object, "imagePullPolicy") };
	const char *message = reply_text(object, "terminationMessagePath");
	const char *directory = reply_text(object, "workingDir");
	if (pod_path(r, *message ? message : "/dev/termination-log", true, &c->message_path) ||
	    (*directory && pod_path(r, directory, true, &c->directory)))
		return -1;
	if (pod_words(r, json_object_get(object, "command"), &c->command) ||
	    pod_words(r, json_object_get(object, "args"), &c->args) || pod_env_read(r, object, c) ||
	    pod_mounts_read(r, object, c) || pod_resources(r, object, c))
		return -1;
	return 0;
}

/* ---- the pod --------------------------------------------------------------------------------- */

static int pod_containers(struct pod_reader *r, const json_t *spec)
{
	const json_t *init = json_object_get(spec, "initContainers");
	const json_t *app = json_object_get(spec, "containers");
	if (json_array_size(init) > 1 || json_array_size(app) != 1)
		return pod_refuse(r,
		                  "it has %zu init containers and %zu containers; at most one "
		                  "and exactly one are allowed",
		                  json_array_size(init), json_array_size(app));
	r->pod->has_init = json_array_size(init) == 1;
	if (r->pod->has_init && pod_container_read(r, json_array_get(init, 0), &r->pod->init))
		return -1;
	return pod_container_read(r, json_array_get(app, 0), &r->pod->app);
}

static void pod_pull_secrets(struct pod_reader *r, const json_t *spec)
{
	const json_t *list = json_object_get(spec, "imagePullSecrets");
	r->pod->pull_secret = ARENA_NEW(r->a, const char *, json_array_size(list) + 1);
	for (size_t i = 0; i < json_array_size(list); i++)
		r->pod->pull_secret[r->pod->n_pull_secrets++] =
		    pod_text(r, json_array_get(list, i), "name");
}

/* A name that is a file name, too. */
static bool pod_name_ok(const char *name)
{
	return *name && *name != '.' && strlen(name) <= 253 && span_only(span_of(name), ".-_");
}

static int pod_read_all(struct pod_reader *r)
{
	const json_t *metadata = json_object_get(r->root, "metadata");
	const json_t *spec = json_object_get(r->root, "spec");
	const json_t *grace = json_object_get(spec, "terminationGracePeriodSeconds");
	struct pod *p = r->pod;
	p->name = pod_text(r, metadata, "name");
	p->namespace_name = pod_text(r, metadata, "namespace");
	p->uid = pod_text(r, metadata, "uid");
	if (!pod_name_ok(p->name) || !pod_name_ok(p->uid))
		return pod_refuse(r, "it has no valid name and uid");
	p->grace_s = json_is_integer(grace) ? json_integer_value(grace) : GRACE_DEFAULT_S;
	if (p->grace_s < 0 || p->grace_s > GRACE_MAX_S)
		return pod_refuse(r, "terminationGracePeriodSeconds is not 0 to %d", GRACE_MAX_S);
	p->host_network = json_is_true(json_object_get(spec, "hostNetwork"));
	pod_pull_secrets(r, spec);
	return pod_volumes_read(r, spec) || pod_containers(r, spec) ? -1 : 0;
}

struct pod *pod_read(struct span object, const struct pod_settings *s, struct arena *a,
                     struct err *e)
{
	JSON_AUTO *root = object.n <= POD_OBJECT_MAX ? reply_parse(object) : NULL;
	struct pod_reader r = { s, root, ARENA_NEW(a, struct pod, 1), a, e };
	if (!root) {
		(void)pod_refuse(&r, "it is no JSON object of at most %d MiB",
		                 POD_OBJECT_MAX >> 20);
		return NULL;
	}
	return pod_read_all(&r) ? NULL : r.pod;
}
