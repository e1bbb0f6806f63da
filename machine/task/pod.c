#include "machine/task/pod.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/quantity.h"
#include "k8s/transport/reply.h"
#include "machine/task/pod_internal.h"

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

const char *pod_shown(struct pod_reader *r, const char *text)
{
	return quote(r->quoted, span_of(text));
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
	for (size_t i = 0; i < ARRAY_SIZE(MAPS); i++) {
		struct span start = span_of(arena_printf(r->a, "metadata.%s['", MAPS[i]));
		struct span key = span_of(path);
		if (!span_starts(key, start.p) || key.n < start.n + 2 ||
		    strcmp(path + key.n - 2, "']") != 0)
			continue;
		key = span_from(span_to(key, key.n - 2), start.n);
		json_t *map = json_object_get(json_object_get(r->root, "metadata"), MAPS[i]);
		return reply_text(map, arena_dup(r->a, key));
	}
	return NULL;
}

/* The value of a fieldRef. */
static int pod_field(struct pod_reader *r, const json_t *ref, const char **value)
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
	const char *found = pod_field_entry(r, path);
	for (size_t i = 0; !found && i < ARRAY_SIZE(FIELDS); i++) {
		if (strcmp(FIELDS[i].path, path) == 0)
			found = FIELDS[i].value ? FIELDS[i].value : "";
	}
	if (!found)
		return pod_refuse(r, "the field `%s` is not known here", pod_shown(r, path));
	*value = arena_dup(r->a, span_of(found));
	return 0;
}

/* ---- paths ----------------------------------------------------------------------------------- */

int pod_path(struct pod_reader *r, const char *text, bool absolute, const char **out)
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
		return pod_refuse(r, "the path `%s` is not %s and without `..`", pod_shown(r, text),
		                  absolute ? "absolute" : "relative");
	*out = arena_dup(r->a, str_view(&path));
	return 0;
}

/* ---- containers ------------------------------------------------------------------------------ */

static int pod_words(struct pod_reader *r, const json_t *list, const char ***out)
{
	size_t n = json_array_size(list);
	*out = ARENA_NEW(r->a, const char *, n + 1);
	for (size_t i = 0; i < n; i++) {
		const char *word = json_string_value(json_array_get(list, i));
		if (!word)
			return pod_refuse(r, "a word of a command is no text");
		(*out)[i] = arena_dup(r->a, span_of(word));
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int pod_source_read(struct pod_reader *r, const json_t *object, const char *key, bool secret,
                    const char *needs, struct pod_source *s)
{
	s->name = pod_text(r, object, key);
	s->secret = secret;
	s->optional = json_is_true(json_object_get(object, "optional"));
	return *s->name ? 0 : pod_refuse(r, "%s names no Secret or ConfigMap", needs);
}

static int pod_env_entry(struct pod_reader *r, const json_t *entry, struct pod_env *v)
{
	const json_t *from = json_object_get(entry, "valueFrom");
	const json_t *field = json_object_get(from, "fieldRef");
	v->name = pod_text(r, entry, "name");
	if (!*v->name || strchr(v->name, '='))
		return pod_refuse(r, "a variable has no valid name");
	if (field)
		return pod_field(r, field, &v->value);
	if (json_is_object(from))
		return pod_refuse(r, "the value of variable %s has a source that is not known here",
		                  v->name);
	v->value = pod_text(r, entry, "value");
	v->expand = true;
	return 0;
}

static int pod_env_from(struct pod_reader *r, const json_t *entry, struct pod_env *v)
{
	const json_t *secret = json_object_get(entry, "secretRef");
	const json_t *from = secret ? secret : json_object_get(entry, "configMapRef");
	v->name = pod_text(r, entry, "prefix");
	return pod_source_read(r, from, "name", secret != NULL, "an entry of envFrom", &v->from);
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
	for (; c->n_env < n_from + n; c->n_env++) {
		struct pod_env *v = &c->env[c->n_env];
		if (c->n_env < n_from
		        ? pod_env_from(r, json_array_get(from, c->n_env), v)
		        : pod_env_entry(r, json_array_get(list, c->n_env - n_from), v))
			return -1;
	}
	return 0;
}

/* Resources of Kubernetes and of the templates that are no devices for computing. */
static bool pod_is_device(const char *name)
{
	static const char *const NOT[] = { "github.com/fuse", "rdma/hca",
		                           "hivedscheduler.microsoft.com/pod-scheduling-enable" };
	for (size_t i = 0; i < ARRAY_SIZE(NOT); i++) {
		if (strcmp(NOT[i], name) == 0)
			return false;
	}
	return strchr(name, '/') != NULL;
}

static int pod_quantity(struct pod_reader *r, const char *name, const json_t *value, int64_t *milli)
{
	const char *text = json_string_value(value);
	if (json_is_integer(value))
		text = arena_printf(r->a, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		text = arena_printf(r->a, "%.9f", json_real_value(value));
	*milli = quantity_milli(span_of(text ? text : ""));
	if (*milli >= 0)
		return 0;
	return pod_refuse(r, "the limit `%s` is no quantity, but `%s`", name,
	                  pod_shown(r, text ? text : ""));
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
		                     .image = pod_text(r, object, "image") };
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
		                  "it has %zu init containers, with that of pai-runtime, and %zu "
		                  "containers; one of each is possible: move the commands of "
		                  "the others into that of the first container",
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
	p->uid = pod_text(r, metadata, "uid");
	if (!pod_name_ok(p->name) || !pod_name_ok(p->uid))
		return pod_refuse(r, "it has no valid name and uid");
	p->grace_s = json_is_integer(grace) ? json_integer_value(grace) : GRACE_DEFAULT_S;
	if (p->grace_s < 0 || p->grace_s > GRACE_MAX_S)
		return pod_refuse(r, "terminationGracePeriodSeconds is not 0 to %d", GRACE_MAX_S);
	pod_pull_secrets(r, spec);
	return pod_volumes_read(r, spec) || pod_containers(r, spec) ? -1 : 0;
}

struct pod *pod_read(struct span object, const struct pod_settings *s, struct arena *a,
                     struct err *e)
{
	JSON_AUTO *root = object.n <= POD_OBJECT_MAX ? reply_parse(object) : NULL;
	struct pod_reader r = { s, root, ARENA_NEW(a, struct pod, 1), a, e, "" };
	if (!root) {
		(void)pod_refuse(&r, "it is no JSON object of at most %d MiB",
		                 POD_OBJECT_MAX >> 20);
		return NULL;
	}
	return pod_read_all(&r) ? NULL : r.pod;
}
