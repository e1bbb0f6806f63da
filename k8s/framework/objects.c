#include <stdlib.h>

#include "k8s/framework/framework_internal.h"

/* What the controller tells the pod of a task, as annotations and as variables. */
struct told {
	const char *name;
	char *value;
};
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

static void objects_tell(const struct framework *f, const struct fw_role *r, size_t index,
                         struct told told[static FC_TOLD])
{
	char name[FW_NAME_MAX];
	const struct fw_task *t = &r->tasks[index];
	const char *uid = f->life.uid ? f->life.uid : "";
	told[FC_NAMESPACE] = (struct told){ "FC_FRAMEWORK_NAMESPACE", xstrdup(f->namespace_name) };
	told[FC_NAME] = (struct told){ "FC_FRAMEWORK_NAME", xstrdup(f->name) };
	told[FC_ROLE] = (struct told){ "FC_TASKROLE_NAME", xstrdup(r->name) };
	told[FC_INDEX] = (struct told){ "FC_TASK_INDEX", xasprintf("%zu", index) };
	told[FC_CONFIGMAP] =
	    (struct told){ "FC_CONFIGMAP_NAME", xstrdup(fw_configmap_name(f, name)) };
	told[FC_POD] = (struct told){ "FC_POD_NAME", xstrdup(fw_pod_name(f, r, index, name)) };
	told[FC_UID] = (struct told){ "FC_FRAMEWORK_UID", xstrdup(f->uid) };
	told[FC_ATTEMPT] = (struct told){ "FC_FRAMEWORK_ATTEMPT_ID", xasprintf("%d", f->life.id) };
	told[FC_ATTEMPT_UID] = (struct told){ "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
		                              xasprintf("%d_%s", f->life.id, uid) };
	told[FC_CONFIGMAP_UID] = (struct told){ "FC_CONFIGMAP_UID", xstrdup(uid) };
	told[FC_ROLE_UID] = (struct told){ "FC_TASKROLE_UID", xstrdup(r->uid) };
	told[FC_TASK_UID] = (struct told){ "FC_TASK_UID", xstrdup(t->uid) };
	told[FC_TASK_ATTEMPT] = (struct told){ "FC_TASK_ATTEMPT_ID", xasprintf("%d", t->life.id) };
}

/* ---- templates ---- */

/* The text with its placeholders replaced; others are left as they are. */
static json_t *objects_text(struct span text, const struct told *told)
{
	STR_AUTO out = STR_INIT(TEMPLATE_TEXT_MAX);
	size_t at = 0;
	while (at < text.n) {
		size_t open = span_find(text, at, "{{");
		size_t close = open == SIZE_MAX ? SIZE_MAX : span_find(text, open, "}}");
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
	str_span(&out, span_from(text, at));
	return json_stringn_nocheck(str_c(&out), out.n);
}

/* A copy without null members, as Go leaves them out. */
static json_t *objects_copy(json_t *from, const struct told *told)
{
	if (json_is_string(from)) {
		struct span text = { json_string_value(from), json_string_length(from) };
		return objects_text(text, told);
	}
	if (json_is_array(from)) {
		json_t *list = json_array();
		for (size_t i = 0; i < json_array_size(from); i++)
			json_array_append_new(list, objects_copy(json_array_get(from, i), told));
		return list;
	}
	if (!json_is_object(from))
		return json_incref(from);
	json_t *map = json_object();
	const char *key;
	json_t *v;
	json_object_foreach (from, key, v)
		if (!json_is_null(v))
			json_object_set_new_nocheck(map, key, objects_copy(v, told));
	return map;
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

static void objects_own(json_t *metadata, const char *version, const char *kind, const char *name,
                        const char *uid)
{
	json_t *owner = json_object();
	objects_set(owner, "apiVersion", version);
	objects_set(owner, "kind", kind);
	objects_set(owner, "name", name);
	objects_set(owner, "uid", uid);
	json_object_set_new(owner, "controller", json_true());
	json_object_set_new(owner, "blockOwnerDeletion", json_true());
	json_array_append_new(objects_member(metadata, "ownerReferences", true), owner);
}

static void objects_variable(json_t *env, const char *name, const char *value)
{
	json_t *v = json_object();
	objects_set(v, "name", name);
	objects_set(v, "value", value);
	json_array_append_new(env, v);
}

/* The controller's variables come first, so that the template's can use and replace them. */
static json_t *objects_env(const json_t *own, const struct told *told)
{
	json_t *env = json_array();
	for (size_t i = 0; i < FC_TOLD; i++)
		objects_variable(env, told[i].name, told[i].value);
	json_t *uid = json_pack("{s:s, s:{s:{s:s, s:s}}}", "name", "FC_POD_UID", "valueFrom",
	                        "fieldRef", "apiVersion", "v1", "fieldPath", "metadata.uid");
	json_array_append_new(env, uid);
	FREE_AUTO char *instance = xasprintf("%s_$(FC_POD_UID)", told[FC_TASK_ATTEMPT].value);
	objects_variable(env, "FC_TASK_ATTEMPT_INSTANCE_UID", instance);
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

static void objects_dump(const json_t *object, struct str *out)
{
	char *text = json_dumps(object, JSON_COMPACT);
	str_puts(out, text ? text : "{}");
	free(text);
}

void fw_pod_object(const struct framework *f, const struct fw_role *r, size_t index,
                   struct str *out)
{
	struct told told[FC_TOLD];
	objects_tell(f, r, index, told);
	json_t *template =
	    r->spec && r->spec->pod ? objects_copy(r->spec->pod, told) : json_object();
	JSON_AUTO *pod = json_object();
	objects_set(pod, "apiVersion", "v1");
	objects_set(pod, "kind", "Pod");
	json_object_set(pod, "metadata", objects_member(template, "metadata", false));
	json_object_set(pod, "spec", objects_member(template, "spec", false));
	json_decref(template);
	json_t *metadata = json_object_get(pod, "metadata");
	objects_set(metadata, "name", told[FC_POD].value);
	objects_set(metadata, "namespace", told[FC_NAMESPACE].value);
	objects_own(metadata, "v1", "ConfigMap", told[FC_CONFIGMAP].value,
	            told[FC_CONFIGMAP_UID].value);
	json_t *labels = objects_member(metadata, "labels", false);
	objects_set(labels, told[FC_NAME].name, told[FC_NAME].value);
	objects_set(labels, told[FC_ROLE].name, told[FC_ROLE].value);
	objects_set(labels, told[FC_INDEX].name, told[FC_INDEX].value);
	json_t *annotations = objects_member(metadata, "annotations", false);
	for (size_t i = 0; i < FC_TOLD; i++)
		objects_set(annotations, told[i].name, told[i].value);
	const json_t *spec = json_object_get(pod, "spec");
	objects_containers(json_object_get(spec, "initContainers"), told);
	objects_containers(json_object_get(spec, "containers"), told);
	objects_dump(pod, out);
	for (size_t i = 0; i < FC_TOLD; i++)
		free(told[i].value);
}

void fw_configmap_object(const struct framework *f, struct str *out)
{
	char name[FW_NAME_MAX];
	(void)fw_configmap_name(f, name);
	FREE_AUTO char *attempt = xasprintf("%d", f->life.id);
	JSON_AUTO *object = json_object();
	objects_set(object, "apiVersion", "v1");
	objects_set(object, "kind", "ConfigMap");
	json_t *metadata = objects_member(object, "metadata", false);
	objects_set(metadata, "name", name);
	objects_set(metadata, "namespace", f->namespace_name);
	objects_set(objects_member(metadata, "labels", false), "FC_FRAMEWORK_NAME", f->name);
	json_t *annotations = objects_member(metadata, "annotations", false);
	objects_set(annotations, "FC_FRAMEWORK_NAMESPACE", f->namespace_name);
	objects_set(annotations, "FC_FRAMEWORK_NAME", f->name);
	objects_set(annotations, "FC_FRAMEWORK_UID", f->uid);
	objects_set(annotations, "FC_FRAMEWORK_ATTEMPT_ID", attempt);
	objects_set(annotations, "FC_CONFIGMAP_NAME", name);
	objects_own(metadata, "frameworkcontroller.microsoft.com/v1", "Framework", f->name, f->uid);
	json_array_append_new(objects_member(metadata, "finalizers", true),
	                      json_string("foregroundDeletion"));
	objects_dump(object, out);
}
