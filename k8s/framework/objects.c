#include <jansson.h>
#include <stdlib.h>

#include "k8s/framework/framework_internal.h"
#include "k8s/transport/reply.h"

/* What the controller tells the pod of a task, as annotations and as variables. */
enum {
	FC_NAMESPACE,
	FC_NAME,
	FC_ROLE,
	FC_INDEX,
	FC_CONFIGMAP,
	FC_POD,
	FC_PLACEHOLDERS, /* those before may be in templates as {{NAME}} */
	FC_UID = FC_PLACEHOLDERS,
	FC_ATTEMPT,
	FC_ATTEMPT_UID,
	FC_CONFIGMAP_UID,
	FC_ROLE_UID,
	FC_TASK_UID,
	FC_TASK_ATTEMPT,
	FC_TOLD
};

enum { TEMPLATE_TEXT_MAX = 16 << 20 };

struct told {
	const char *name, *value;
};

/* The texts live in the arena and in f. */
static void objects_tell(struct told *t, const struct framework *f, const struct fw_role *r,
                         size_t index, struct arena *a)
{
	char configmap[FW_NAME_MAX];
	char pod[FW_NAME_MAX];
	const struct fw_task *task = &r->tasks[index];
	const char *uid = f->life.uid ? f->life.uid : "";
	const char *attempt = arena_printf(a, "%d", f->life.id);
	(void)fw_configmap_name(f, configmap);
	(void)fw_pod_name(f, r, index, pod);
	const struct told all[FC_TOLD] = {
		[FC_NAMESPACE] = { "FC_FRAMEWORK_NAMESPACE", f->spec.namespace_name },
		[FC_NAME] = { "FC_FRAMEWORK_NAME", f->spec.name },
		[FC_ROLE] = { "FC_TASKROLE_NAME", r->name },
		[FC_INDEX] = { "FC_TASK_INDEX", arena_printf(a, "%zu", index) },
		[FC_CONFIGMAP] = { "FC_CONFIGMAP_NAME", arena_dup(a, span_of(configmap)) },
		[FC_POD] = { "FC_POD_NAME", arena_dup(a, span_of(pod)) },
		[FC_UID] = { "FC_FRAMEWORK_UID", f->spec.uid },
		[FC_ATTEMPT] = { "FC_FRAMEWORK_ATTEMPT_ID", attempt },
		[FC_ATTEMPT_UID] = { "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
		                     arena_printf(a, "%s_%s", attempt, uid) },
		[FC_CONFIGMAP_UID] = { "FC_CONFIGMAP_UID", uid },
		[FC_ROLE_UID] = { "FC_TASKROLE_UID", r->uid },
		[FC_TASK_UID] = { "FC_TASK_UID", task->uid },
		[FC_TASK_ATTEMPT] = { "FC_TASK_ATTEMPT_ID", arena_printf(a, "%d", task->life.id) },
	};
	memcpy(t, all, sizeof(all));
}

/* ---- templates ---- */

/* Replaces the placeholders in a text; others are left as they are. */
static void objects_fill_text(json_t *value, const struct told *told)
{
	STR_AUTO out = STR_INIT(TEMPLATE_TEXT_MAX);
	struct span text = { json_string_value(value), json_string_length(value) };
	size_t at = 0;
	for (size_t open; (open = span_find(text, at, "{{")) != SIZE_MAX;) {
		size_t close = span_find(text, open, "}}");
		if (close == SIZE_MAX)
			break;
		struct span name = { text.p + open + 2, close - open - 2 };
		size_t i = 0;
		while (i < FC_PLACEHOLDERS && !span_is(name, told[i].name))
			i++;
		str_put(&out, text.p + at, open - at);
		if (i < FC_PLACEHOLDERS) {
			str_puts(&out, told[i].value);
			at = close + 2;
		} else {
			/* The next placeholder may begin at the second brace. */
			str_char(&out, '{');
			at = open + 1;
		}
	}
	if (at == 0)
		return;
	str_span(&out, span_from(text, at));
	json_string_setn_nocheck(value, str_c(&out), out.n);
}

/* In all texts of a template, which loses its null members, as Go leaves them out. */
static void objects_fill(json_t *value, const struct told *told)
{
	const char *key;
	json_t *member;
	void *next;
	size_t i;
	if (json_is_string(value))
		objects_fill_text(value, told);
	json_array_foreach (value, i, member)
		objects_fill(member, told);
	json_object_foreach_safe(value, next, key, member)
	{
		if (json_is_null(member))
			json_object_del(value, key);
		else
			objects_fill(member, told);
	}
}

/* The member, which becomes an object or a list if it is not one.  Borrowed. */
static json_t *objects_member(json_t *of, const char *key, bool list)
{
	json_t *v = json_object_get(of, key);
	if (list ? json_is_array(v) : json_is_object(v))
		return v;
	v = list ? json_array() : json_object();
	json_object_set_new(of, key, v);
	return v;
}

static void objects_set(json_t *of, const char *key, const char *text)
{
	json_object_set_new(of, key, json_string_nocheck(text));
}

static json_t *objects_owner(const char *version, const char *kind, const char *name,
                             const char *uid)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "apiVersion", version, "kind", kind,
	                 "name", name, "uid", uid, "controller", 1, "blockOwnerDeletion", 1);
}

/* The controller's variables come first, so that the template's can use and replace them. */
static json_t *objects_env(const json_t *own, const struct told *told)
{
	json_t *env = json_array();
	for (size_t i = 0; i < FC_TOLD; i++)
		json_array_append_new(
		    env, json_pack("{s:s, s:s}", "name", told[i].name, "value", told[i].value));
	json_t *uid = json_pack("{s:s, s:{s:{s:s, s:s}}}", "name", "FC_POD_UID", "valueFrom",
	                        "fieldRef", "apiVersion", "v1", "fieldPath", "metadata.uid");
	json_array_append_new(env, uid);
	json_array_append_new(env,
	                      json_pack("{s:s, s:s+}", "name", "FC_TASK_ATTEMPT_INSTANCE_UID",
	                                "value", told[FC_TASK_ATTEMPT].value, "_$(FC_POD_UID)"));
	for (size_t i = 0; i < json_array_size(own); i++)
		json_array_append(env, json_array_get(own, i));
	return env;
}

static void objects_containers(const json_t *list, const struct told *told)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *c = json_array_get(list, i);
		if (!json_is_object(c))
			continue;
		json_object_set_new(c, "env", objects_env(json_object_get(c, "env"), told));
		if (!reply_text(c, "terminationMessagePolicy")[0])
			objects_set(c, "terminationMessagePolicy", "FallbackToLogsOnError");
	}
}

static json_t *objects_pod(const struct framework *f, const struct fw_role *r, size_t index)
{
	ARENA_AUTO a = { 0 };
	struct told told[FC_TOLD];
	const json_t *place = json_object_get(f->spec.places, r->name); /* else it is at its end */
	struct span pod = place ? f->spec.roles[json_integer_value(place)].pod : SPAN("{}");
	objects_tell(told, f, r, index, &a);
	JSON_AUTO *template = json_loadb(pod.p, pod.n, JSON_ALLOW_NUL, NULL) ?: json_object();
	objects_fill(template, told);
	json_t *metadata = objects_member(template, "metadata", false);
	const json_t *spec = objects_member(template, "spec", false);
	objects_set(metadata, "name", told[FC_POD].value);
	objects_set(metadata, "namespace", told[FC_NAMESPACE].value);
	json_array_append_new(objects_member(metadata, "ownerReferences", true),
	                      objects_owner("v1", "ConfigMap", told[FC_CONFIGMAP].value,
	                                    told[FC_CONFIGMAP_UID].value));
	json_t *labels = objects_member(metadata, "labels", false);
	json_t *annotations = objects_member(metadata, "annotations", false);
	for (size_t i = 0; i < FC_TOLD; i++) {
		if (i == FC_NAME || i == FC_ROLE || i == FC_INDEX)
			objects_set(labels, told[i].name, told[i].value);
		objects_set(annotations, told[i].name, told[i].value);
	}
	objects_containers(json_object_get(spec, "initContainers"), told);
	objects_containers(json_object_get(spec, "containers"), told);
	return json_pack("{s:s, s:s, s:O, s:O}", "apiVersion", "v1", "kind", "Pod", "metadata",
	                 metadata, "spec", spec);
}

static json_t *objects_configmap(const struct framework *f)
{
	char name[FW_NAME_MAX];
	char attempt[FW_NAME_MAX];
	(void)fw_configmap_name(f, name);
	(void)snprintf(attempt, sizeof(attempt), "%d", f->life.id);
	return json_pack(
	    "{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s, s:s, s:s, s:s, s:s}, s:[o], s:[s]}}",
	    "apiVersion", "v1", "kind", "ConfigMap", "metadata", "name", name, "namespace",
	    f->spec.namespace_name, "labels", "FC_FRAMEWORK_NAME", f->spec.name, "annotations",
	    "FC_FRAMEWORK_NAMESPACE", f->spec.namespace_name, "FC_FRAMEWORK_NAME", f->spec.name,
	    "FC_FRAMEWORK_UID", f->spec.uid, "FC_FRAMEWORK_ATTEMPT_ID", attempt,
	    "FC_CONFIGMAP_NAME", name, "ownerReferences",
	    objects_owner("frameworkcontroller.microsoft.com/v1", "Framework", f->spec.name,
	                  f->spec.uid),
	    "finalizers", "foregroundDeletion");
}

json_t *framework_object(const struct framework *f, const struct framework_object *o)
{
	if (o->kind == FRAMEWORK_CONFIGMAP)
		return objects_configmap(f);
	for (size_t i = 0; i < f->n_roles; i++) {
		const struct fw_role *r = &f->roles[i];
		if (strcmp(r->name, o->role) == 0 && (size_t)o->index < r->n)
			return objects_pod(f, r, (size_t)o->index);
	}
	return NULL;
}
