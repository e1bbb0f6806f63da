#include "k8s/framework/framework_internal.h"

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

/* The texts live in the arena. */
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
		[FC_CONFIGMAP] = { "FC_CONFIGMAP_NAME", configmap },
		[FC_POD] = { "FC_POD_NAME", pod },
		[FC_UID] = { "FC_FRAMEWORK_UID", f->spec.uid },
		[FC_ATTEMPT] = { "FC_FRAMEWORK_ATTEMPT_ID", attempt },
		[FC_ATTEMPT_UID] = { "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID",
		                     arena_printf(a, "%s_%s", attempt, uid) },
		[FC_CONFIGMAP_UID] = { "FC_CONFIGMAP_UID", uid },
		[FC_ROLE_UID] = { "FC_TASKROLE_UID", r->uid },
		[FC_TASK_UID] = { "FC_TASK_UID", task->uid },
		[FC_TASK_ATTEMPT] = { "FC_TASK_ATTEMPT_ID", arena_printf(a, "%d", task->life.id) },
	};
	for (size_t i = 0; i < FC_TOLD; i++) /* f may change */
		t[i] = (struct told){ all[i].name, arena_dup(a, span_of(all[i].value)) };
}

/* ---- what is added ---- */

static void objects_put_owner(struct str *out, const char *version, const char *kind,
                              const char *name, const char *uid)
{
	json_put_open(out, "ownerReferences", '[');
	json_put_open(out, NULL, '{');
	json_put_word(out, "apiVersion", version);
	json_put_word(out, "kind", kind);
	json_put_word(out, "name", name);
	json_put_word(out, "uid", uid);
	str_puts(out, ",\"controller\":true,\"blockOwnerDeletion\":true}]");
}

/* Some of them as members of an object. */
static void objects_put_told(struct str *out, const char *key, const struct told *t, size_t n)
{
	json_put_open(out, key, '{');
	for (size_t i = 0; i < n; i++)
		json_put_word(out, t[i].name, t[i].value);
	str_char(out, '}');
}

static void objects_put_env(struct str *out, const char *name, const char *value)
{
	json_put_open(out, NULL, '{');
	json_put_word(out, "name", name);
	json_put_word(out, "value", value);
	str_char(out, '}');
}

/* The policy, which a container can have of its own, comes last. */
static void objects_put_container(struct str *out, const char *key, const struct told *t)
{
	STR_AUTO instance = STR_INIT(FW_NAME_MAX);
	json_put_open(out, key, '{');
	json_put_open(out, "env", '[');
	for (size_t i = 0; i < FC_TOLD; i++)
		objects_put_env(out, t[i].name, t[i].value);
	str_puts(out, ",{\"name\":\"FC_POD_UID\",\"valueFrom\":{\"fieldRef\":"
	              "{\"apiVersion\":\"v1\",\"fieldPath\":\"metadata.uid\"}}}");
	str_printf(&instance, "%s_$(FC_POD_UID)", t[FC_TASK_ATTEMPT].value);
	objects_put_env(out, "FC_TASK_ATTEMPT_INSTANCE_UID", str_c(&instance));
	str_puts(out, "],\"terminationMessagePolicy\":\"FallbackToLogsOnError\"}");
}

/* An object instead of a list of containers: to each of them. */
static void objects_put_pod(struct str *out, const struct node *template, const struct told *t)
{
	static const char *const LISTS[] = { "initContainers", "containers" };
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{");
	json_put_word(out, "name", t[FC_POD].value);
	json_put_word(out, "namespace", t[FC_NAMESPACE].value);
	objects_put_owner(out, "v1", "ConfigMap", t[FC_CONFIGMAP].value, t[FC_CONFIGMAP_UID].value);
	objects_put_told(out, "labels", &t[FC_NAME], 3); /* name, role, index */
	objects_put_told(out, "annotations", t, FC_TOLD);
	str_puts(out, "},\"spec\":{");
	for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++)
		if (node_is(node_get(node_get(template, "spec"), LISTS[i]), NODE_LIST))
			objects_put_container(out, LISTS[i], t);
	str_puts(out, "}}");
}

/* ---- templates ---- */

/* The text with its placeholders replaced; others are left as they are. */
static const char *objects_fill(struct span text, const struct told *told, struct arena *a)
{
	STR_AUTO out = STR_INIT(TEMPLATE_TEXT_MAX);
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
		return text.p;
	str_span(&out, span_from(text, at));
	return arena_dup(a, str_view(&out));
}

static struct node objects_make(const struct node *from, const struct node *more,
                                const struct told *told, struct arena *a);

/* more: items that come first, or what is added to each item. */
static void objects_make_list(struct node *list, const struct node *more, const struct told *told,
                              struct arena *a)
{
	uint32_t n = node_is(more, NODE_LIST) ? more->n : 0;
	struct node *all = ARENA_NEW(a, struct node, n + list->n);
	for (uint32_t i = 0; i < n; i++)
		all[i] = more->item[i];
	for (uint32_t i = 0; i < list->n; i++) {
		const struct node *item = &list->item[i];
		const struct node *policy = node_get(item, "terminationMessagePolicy");
		bool adds = node_is(more, NODE_MAP) && node_is(item, NODE_MAP);
		struct node own = adds ? *more : *item;
		own.n -= adds && node_is(policy, NODE_TEXT) && policy->n > 0;
		all[n + i] = objects_make(item, adds ? &own : NULL, told, a);
	}
	list->item = all;
	list->n += n;
}

static void objects_make_map(struct node *map, const struct node *more, const struct told *told,
                             struct arena *a)
{
	uint32_t n = more ? more->n : 0;
	uint32_t k = 0;
	struct member *all = ARENA_NEW(a, struct member, map->n + n);
	for (uint32_t i = 0; i < map->n; i++) {
		const struct member *x = &map->member[i];
		all[k] = *x;
		all[k].value = objects_make(&x->value, node_get(more, x->key), told, a);
		k += all[k].value.type != NODE_NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct node *there = node_get(map, more->member[i].key);
		if (!there || there->type == NODE_NULL)
			all[k++] = more->member[i];
	}
	map->member = all;
	map->n = k;
}

/* A copy with its texts filled in and without null members, as Go leaves them out, and with what
 * `more` has, which wins if the types differ; NULL: nothing. */
static struct node objects_make(const struct node *from, const struct node *more,
                                const struct told *told, struct arena *a)
{
	struct node to = *from;
	bool containers = from->type == NODE_LIST && node_get(more, "env");
	if (more && !containers && (more->type != from->type || from->type == NODE_TEXT))
		return *more;
	if (from->type == NODE_TEXT) {
		to.text = objects_fill(node_span(from), told, a);
		to.n = (uint32_t)strlen(to.text);
	} else if (from->type == NODE_LIST) {
		objects_make_list(&to, more, told, a);
	} else if (from->type == NODE_MAP) {
		objects_make_map(&to, more, told, a);
	}
	return to;
}

static const struct node *objects_pod(const struct framework *f, const struct fw_role *r,
                                      size_t index, struct arena *a)
{
	struct told t[FC_TOLD];
	STR_AUTO more = STR_INIT(TEMPLATE_TEXT_MAX);
	const json_t *place = json_object_get(f->spec.places, r->name); /* else it is at its end */
	struct span text = place ? f->spec.roles[json_integer_value(place)].pod : SPAN("{}");
	/* It was read with the Framework. */
	const struct node *template = doc_quiet(text, &FW_BUDGET, a);
	objects_tell(t, f, r, index, a);
	objects_put_pod(&more, template, t);
	struct node *pod = ARENA_NEW(a, struct node, 1);
	*pod = objects_make(template ?: pod, doc_quiet(str_view(&more), &FW_BUDGET, a), t, a);
	return pod;
}

static const struct node *objects_configmap(const struct framework *f, struct arena *a)
{
	char name[FW_NAME_MAX];
	STR_AUTO text = STR_INIT(TEMPLATE_TEXT_MAX);
	const struct told t[] = {
		{ "FC_FRAMEWORK_NAME", f->spec.name },
		{ "FC_FRAMEWORK_NAMESPACE", f->spec.namespace_name },
		{ "FC_FRAMEWORK_UID", f->spec.uid },
		{ "FC_FRAMEWORK_ATTEMPT_ID", arena_printf(a, "%d", f->life.id) },
		{ "FC_CONFIGMAP_NAME", fw_configmap_name(f, name) },
	};
	str_puts(&text, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{");
	json_put_word(&text, "name", name);
	json_put_word(&text, "namespace", f->spec.namespace_name);
	objects_put_owner(&text, "frameworkcontroller.microsoft.com/v1", "Framework", f->spec.name,
	                  f->spec.uid);
	objects_put_told(&text, "labels", t, 1);
	objects_put_told(&text, "annotations", t, ARRAY_SIZE(t));
	str_puts(&text, ",\"finalizers\":[\"foregroundDeletion\"]}}");
	return doc_quiet(str_view(&text), &FW_BUDGET, a);
}

const struct node *framework_object(const struct framework *f, const struct framework_object *o,
                                    struct arena *a)
{
	if (o->kind == FRAMEWORK_CONFIGMAP)
		return objects_configmap(f, a);
	for (const struct fw_role *r = f->roles; r < f->roles + f->n_roles; r++)
		if (strcmp(r->name, o->role) == 0 && (size_t)o->index < r->n)
			return objects_pod(f, r, (size_t)o->index, a);
	return NULL;
}
