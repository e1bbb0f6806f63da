#include "k8s/framework/framework_internal.h"

/* The facts that the controller passes to the pod of a task as annotations and as variables.  The
 * first FC_PLACEHOLDERS may be in templates as {{NAME}}; the members that the controller adds may
 * contain all of them. */
enum { FC_PLACEHOLDERS = 6, FC_TOLD = 13 };
enum { TEMPLATE_TEXT_MAX = 16 << 20 };

struct template_value {
	const char *name, *value;
};

struct template_filling {
	const struct template_value *told;
	size_t n; /* that are filled in */
	struct arena *a;
};

/* ---- templates ---- */

/* The text with its placeholders replaced; others are left as they are. */
static const char *objects_fill(struct span text, const struct template_filling *with)
{
	STR_AUTO out = STR_INIT(TEMPLATE_TEXT_MAX);
	size_t at = 0;
	for (size_t open; (open = span_find(text, at, "{{")) != SIZE_MAX;) {
		size_t close = span_find(text, open, "}}");
		if (close == SIZE_MAX)
			break;
		struct span name = { text.p + open + 2, close - open - 2 };
		size_t i = 0;
		while (i < with->n && !span_is(name, with->told[i].name))
			i++;
		str_put(&out, text.p + at, open - at);
		if (i < with->n) {
			str_puts(&out, with->told[i].value);
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
	return arena_dup(with->a, str_view(&out));
}

static struct node objects_make(const struct node *from, const struct node *more,
                                const struct template_filling *with);

/* more: items that come first, or what is added to each item. */
static void objects_make_list(struct node *list, const struct node *more,
                              const struct template_filling *with)
{
	uint32_t n = node_is(more, NODE_LIST) ? more->n : 0;
	struct node *all = ARENA_NEW(with->a, struct node, n + list->n);
	for (uint32_t i = 0; i < n; i++)
		all[i] = more->item[i];
	for (uint32_t i = 0; i < list->n; i++) {
		const struct node *item = &list->item[i];
		const struct node *policy = node_get(item, "terminationMessagePolicy");
		bool adds = node_is(more, NODE_MAP) && node_is(item, NODE_MAP);
		struct node own = adds ? *more : *item;
		own.n -= adds && node_is(policy, NODE_TEXT) && policy->n > 0;
		all[n + i] = objects_make(item, adds ? &own : NULL, with);
	}
	list->item = all;
	list->n += n;
}

static void objects_make_map(struct node *map, const struct node *more,
                             const struct template_filling *with)
{
	uint32_t n = more ? more->n : 0;
	uint32_t k = 0;
	struct member *all = ARENA_NEW(with->a, struct member, map->n + n);
	for (uint32_t i = 0; i < map->n; i++) {
		const struct member *x = &map->member[i];
		all[k] = *x;
		all[k].value = objects_make(&x->value, node_get(more, x->key), with);
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
                                const struct template_filling *with)
{
	struct node to = *from;
	bool containers = from->type == NODE_LIST && node_get(more, "env");
	if (more && !containers && (more->type != from->type || from->type == NODE_TEXT))
		return *more;
	if (from->type == NODE_TEXT) {
		to.text = objects_fill(node_span(from), with);
		to.n = (uint32_t)strlen(to.text);
	} else if (from->type == NODE_LIST) {
		objects_make_list(&to, more, with);
	} else if (from->type == NODE_MAP) {
		objects_make_map(&to, more, with);
	}
	return to;
}

/* Returns the members that the controller adds to the template of a pod.  Each list of containers
 * gets an object, whose last member is the default for containers without one. */
static struct node objects_added(const struct node *template, const struct template_filling *with)
{
	static const char *const LISTS[] = { "containers", "initContainers" };
	STR_AUTO text = STR_INIT(TEMPLATE_TEXT_MAX);
	str_puts(&text, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{"
	                "\"name\":\"{{FC_POD_NAME}}\",\"namespace\":\"{{FC_FRAMEWORK_NAMESPACE}}\","
	                "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
	                "\"name\":\"{{FC_CONFIGMAP_NAME}}\",\"uid\":\"{{FC_CONFIGMAP_UID}}\","
	                "\"controller\":true,\"blockOwnerDeletion\":true}],"
	                "\"labels\":{\"FC_FRAMEWORK_NAME\":\"{{FC_FRAMEWORK_NAME}}\","
	                "\"FC_TASKROLE_NAME\":\"{{FC_TASKROLE_NAME}}\","
	                "\"FC_TASK_INDEX\":\"{{FC_TASK_INDEX}}\"},\"annotations\":{");
	for (const struct template_value *t = with->told; t < with->told + FC_TOLD; t++)
		str_printf(&text, "%s\"%s\":\"{{%s}}\"", t > with->told ? "," : "", t->name,
		           t->name);
	str_puts(&text, "}},\"spec\":{");
	for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++) {
		if (!node_is(node_get(node_get(template, "spec"), LISTS[i]), NODE_LIST))
			continue;
		json_put_open(&text, LISTS[i], '{');
		str_puts(&text, "\"env\":[");
		for (const struct template_value *t = with->told; t < with->told + FC_TOLD; t++)
			str_printf(&text, "{\"name\":\"%s\",\"value\":\"{{%s}}\"},", t->name,
			           t->name);
		str_puts(&text, "{\"name\":\"FC_POD_UID\",\"valueFrom\":{\"fieldRef\":{"
		                "\"apiVersion\":\"v1\",\"fieldPath\":\"metadata.uid\"}}},"
		                "{\"name\":\"FC_TASK_ATTEMPT_INSTANCE_UID\","
		                "\"value\":\"{{FC_TASK_ATTEMPT_ID}}_$(FC_POD_UID)\"}],"
		                "\"terminationMessagePolicy\":\"FallbackToLogsOnError\"}");
	}
	str_puts(&text, "}}");
	return objects_make(doc_quiet(str_view(&text), &FW_BUDGET, with->a), NULL, with);
}

const struct node *framework_template(const struct framework *f, const char *role, struct arena *a)
{
	const json_t *place = json_object_get(f->spec.places, role); /* else it is at its end */
	struct span text = place ? f->spec.roles[json_integer_value(place)].pod : SPAN("{}");
	return doc_quiet(text, &FW_BUDGET, a); /* was read with the Framework */
}

static const struct node *objects_pod(const struct framework *f, const struct fw_role *r,
                                      size_t index, struct arena *a)
{
	char configmap[FW_NAME_MAX];
	char name[FW_NAME_MAX];
	const char *uid = f->life.uid ? f->life.uid : "";
	const char *attempt = arena_printf(a, "%d", f->life.id);
	const struct fw_task *task = &r->tasks[index];
	const struct template_value told[FC_TOLD] = {
		{ "FC_FRAMEWORK_NAMESPACE", f->spec.namespace_name },
		{ "FC_FRAMEWORK_NAME", f->spec.name },
		{ "FC_TASKROLE_NAME", r->name },
		{ "FC_TASK_INDEX", arena_printf(a, "%zu", index) },
		{ "FC_CONFIGMAP_NAME", fw_configmap_name(f, configmap) },
		{ "FC_POD_NAME", fw_pod_name(f, r, index, name) },
		{ "FC_FRAMEWORK_UID", f->spec.uid },
		{ "FC_FRAMEWORK_ATTEMPT_ID", attempt },
		{ "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", arena_printf(a, "%s_%s", attempt, uid) },
		{ "FC_CONFIGMAP_UID", uid },
		{ "FC_TASKROLE_UID", r->uid },
		{ "FC_TASK_UID", task->uid },
		{ "FC_TASK_ATTEMPT_ID", arena_printf(a, "%d", task->life.id) },
	};
	struct template_filling with = { told, FC_TOLD, a };
	const struct node *template = framework_template(f, r->name, a);
	struct node *pod = ARENA_NEW(a, struct node, 2);
	pod[1] = objects_added(template, &with);
	with.n = FC_PLACEHOLDERS;
	*pod = objects_make(template ?: pod, &pod[1], &with);
	return pod;
}

const struct node *framework_object(const struct framework *f, const struct framework_object *o,
                                    struct arena *a)
{
	const struct fw_role *r = fw_role_find(f, o->role);
	return r && (size_t)o->index < r->n ? objects_pod(f, r, (size_t)o->index, a) : NULL;
}
