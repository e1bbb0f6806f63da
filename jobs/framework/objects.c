/* Writes ConfigMaps and pods: it copies templates as they are written, and merges the facts of the
 * task into them. */
#include <assert.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "jobs/framework/framework_internal.h"

/* The facts that the controller passes to the pod of a task as annotations and as variables; three
 * of them are its labels.  The first FC_PLACEHOLDERS may be in templates as {{NAME}}. */
enum { FC_PLACEHOLDERS = 6, FC_LABELS_AT = 1, FC_LABELS = 3, FC_TOLD = 13 };

struct object_fact {
	const char *name, *value;
};

/* ---- templates: what is added is merged into the text, which is copied as it is written ---- */

/* Writes the text with its placeholders replaced; others are left as they are.  false: there are
 * none. */
static bool objects_fill(struct str *out, struct span text, const struct object_fact *told)
{
	bool filled = false;
	size_t at = 0;
	for (size_t open; (open = span_find(text, at, "{{")) != SIZE_MAX;) {
		struct span rest = span_from(text, open + 2);
		size_t i = 0;
		while (i < FC_PLACEHOLDERS &&
		       !(span_starts(rest, told[i].name) &&
		         span_starts(span_from(rest, strlen(told[i].name)), "}}")))
			i++;
		str_put(out, text.p + at, open - at);
		if (i < FC_PLACEHOLDERS) {
			str_puts(out, told[i].value);
			at = open + 2 + strlen(told[i].name) + 2;
			filled = true;
		} else {
			/* The next placeholder may begin at the second brace. */
			str_char(out, '{');
			at = open + 1;
		}
	}
	str_span(out, span_from(text, at));
	return filled;
}

/* text: with its quotes. */
static void objects_copy_text(struct str *out, struct span text, const struct object_fact *told)
{
	ARENA_SECRET a = { 0 };
	STR_AUTO filled = STR_SECRET(out->max);
	bool plain = span_chr(text, '\\') == text.n && span_find(text, 0, "{{") == SIZE_MAX;
	if (!plain && objects_fill(&filled, scan_text(text, &a), told))
		str_json(out, str_view(&filled));
	else
		str_span(out, text);
	out->full |= filled.full;
}

/* The value as it is written, but with the placeholders of its texts replaced; not those of keys.
 */
static void objects_copy(struct str *out, struct span json, const struct object_fact *told)
{
	size_t at = 0;
	while (at < json.n) {
		struct scan_tail tail = { 0 };
		size_t quote = at + span_chr(span_from(json, at), '"');
		struct span rest = span_from(json, quote);
		struct span text = span_to(rest, scan_tail(&tail, rest));
		str_put(out, json.p + at, quote - at);
		at = quote + text.n;
		size_t next = span_skip_class(json, at, " \t\r\n");
		if (next < json.n && json.p[next] == ':')
			str_span(out, text);
		else
			objects_copy_text(out, text, told);
	}
}

static void objects_merge(struct str *out, struct span from, struct span more,
                          const struct object_fact *told);

/* The member with this key, as it is written; p NULL: there is none. */
static struct span objects_member(struct span object, struct span wanted)
{
	struct span key;
	struct span value;
	for (struct scan s = scan_begin(object); scan_member(&s, &key, &value);)
		if (span_eq(key, wanted))
			return value;
	return (struct span){ NULL, 0 };
}

/* Items that are added come first. */
static void objects_merge_list(struct str *out, struct span from, struct span more,
                               const struct object_fact *told)
{
	struct span item;
	str_char(out, '[');
	for (struct scan s = scan_begin(more); scan_item(&s, &item);)
		json_put_raw(out, NULL, item);
	for (struct scan s = scan_begin(from); scan_item(&s, &item);) {
		json_put_key(out, NULL);
		objects_copy(out, item, told);
	}
	str_char(out, ']');
}

/* more: for each container; those that have a policy of their own get the variables only. */
static void objects_merge_containers(struct str *out, struct span from, struct span more,
                                     const struct object_fact *told)
{
	ARENA_AUTO a = { 0 };
	struct span env = scan_get(more, "env");
	struct span only = span_of(arena_printf(&a, "{\"env\":%.*s}", (int)env.n, env.p));
	struct span item;
	str_char(out, '[');
	for (struct scan s = scan_begin(from); scan_item(&s, &item);) {
		bool object = scan_type(item) == SCAN_OBJECT;
		bool has = scan_text(scan_get(item, "terminationMessagePolicy"), &a).n > 0;
		json_put_key(out, NULL);
		objects_merge(out, item,
		              has      ? only
		              : object ? more
		                       : (struct span){ NULL, 0 },
		              told);
	}
	str_char(out, ']');
}

static void objects_merge_map(struct str *out, struct span from, struct span more,
                              const struct object_fact *told)
{
	struct span key;
	struct span value;
	str_char(out, '{');
	for (struct scan s = scan_begin(from); scan_member(&s, &key, &value);) {
		json_put_key(out, NULL);
		str_printf(out, "\"%.*s\":", (int)key.n, key.p);
		objects_merge(out, value, objects_member(more, key), told);
	}
	for (struct scan s = scan_begin(more); scan_member(&s, &key, &value);) {
		const char *quote = key.p - 1;
		if (!objects_member(from, key).p)
			json_put_raw(out, NULL,
			             (struct span){ quote, (size_t)(value.p + value.n - quote) });
	}
	str_char(out, '}');
}

/* Writes a value of the template with what `more` has, which wins if the types differ; p NULL:
 * nothing. */
static void objects_merge(struct str *out, struct span from, struct span more,
                          const struct object_fact *told)
{
	enum scan_type type = scan_type(from);
	if (!more.p)
		objects_copy(out, from, told);
	else if (type == SCAN_ARRAY && scan_get(more, "env").p)
		objects_merge_containers(out, from, more, told);
	else if (type == SCAN_ARRAY && scan_type(more) == SCAN_ARRAY)
		objects_merge_list(out, from, more, told);
	else if (type == SCAN_OBJECT && scan_type(more) == SCAN_OBJECT)
		objects_merge_map(out, from, more, told);
	else
		str_span(out, more);
}

/* ---- what the controller adds ---- */

struct object_owner {
	const char *api, *kind, *name, *uid;
};

/* The metadata stays open. */
static void objects_put_head(struct str *out, const struct framework *f, const char *kind,
                             const char *name, const struct object_owner *owner)
{
	json_put_open(out, NULL, '{');
	json_put_word(out, "apiVersion", "v1");
	json_put_word(out, "kind", kind);
	json_put_open(out, "metadata", '{');
	json_put_word(out, "name", name);
	json_put_word(out, "namespace", f->spec.namespace_name);
	json_put_open(out, "ownerReferences", '[');
	json_put_open(out, NULL, '{');
	json_put_word(out, "apiVersion", owner->api);
	json_put_word(out, "kind", owner->kind);
	json_put_word(out, "name", owner->name);
	json_put_word(out, "uid", owner->uid);
	json_put_bool(out, "controller", true);
	json_put_bool(out, "blockOwnerDeletion", true);
	str_puts(out, "}]");
}

static void objects_put_facts(struct str *out, const char *key, const struct object_fact *facts,
                              size_t n)
{
	json_put_open(out, key, '{');
	for (const struct object_fact *t = facts; t < facts + n; t++)
		json_put_word(out, t->name, t->value);
	str_char(out, '}');
}

/* Variables and policy that each container gets. */
static void objects_put_container(struct str *out, const struct object_fact *told,
                                  const struct fw_task *task)
{
	json_put_open(out, "env", '[');
	for (const struct object_fact *t = told; t < told + FC_TOLD; t++) {
		json_put_open(out, NULL, '{');
		json_put_word(out, "name", t->name);
		json_put_word(out, "value", t->value);
		str_char(out, '}');
	}
	str_printf(out,
	           ",{\"name\":\"FC_POD_UID\",\"valueFrom\":{\"fieldRef\":{"
	           "\"apiVersion\":\"v1\",\"fieldPath\":\"metadata.uid\"}}},"
	           "{\"name\":\"FC_TASK_ATTEMPT_INSTANCE_UID\","
	           "\"value\":\"%d_$(FC_POD_UID)\"}],"
	           "\"terminationMessagePolicy\":\"FallbackToLogsOnError\"",
	           task->life.id);
}

static void objects_write_pod(struct str *out, const struct framework *f, const struct fw_role *r,
                              const struct framework_object *o)
{
	size_t index = (size_t)o->index;
	static const char *const LISTS[] = { "containers", "initContainers" };
	char configmap[FW_NAME_MAX];
	char name[FW_NAME_MAX];
	ARENA_AUTO a = { 0 };
	STR_AUTO added = STR_INIT(out->max);
	const char *uid = f->life.uid ? f->life.uid : "";
	const char *attempt = arena_printf(&a, "%d", f->life.id);
	const struct fw_task *task = &r->tasks[index];
	const struct object_fact told[FC_TOLD] = {
		{ "FC_FRAMEWORK_NAMESPACE", f->spec.namespace_name },
		{ "FC_FRAMEWORK_NAME", f->spec.name },
		{ "FC_TASKROLE_NAME", r->name },
		{ "FC_TASK_INDEX", arena_printf(&a, "%zu", index) },
		{ "FC_CONFIGMAP_NAME", fw_configmap_name(f, configmap) },
		{ "FC_POD_NAME", fw_pod_name(f, r, index, name) },
		{ "FC_FRAMEWORK_UID", f->spec.uid },
		{ "FC_FRAMEWORK_ATTEMPT_ID", attempt },
		{ "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID", arena_printf(&a, "%s_%s", attempt, uid) },
		{ "FC_CONFIGMAP_UID", uid },
		{ "FC_TASKROLE_UID", r->uid },
		{ "FC_TASK_UID", task->uid },
		{ "FC_TASK_ATTEMPT_ID", arena_printf(&a, "%d", task->life.id) },
	};
	const json_t *place = json_object_get(f->spec.places, r->name); /* else it is at its end */
	struct span template = place ? f->spec.roles[json_integer_value(place)].pod : SPAN("{}");
	STR_AUTO merged = STR_INIT(out->max);
	assert(template.p); /* framework_slim has forgotten it */
	if (o->more.p) {
		objects_merge(&merged, template, o->more, told);
		template = str_view(&merged);
	}
	objects_put_head(&added, f, "Pod", name,
	                 &(struct object_owner){ "v1", "ConfigMap", configmap, uid });
	objects_put_facts(&added, "labels", told + FC_LABELS_AT, FC_LABELS);
	objects_put_facts(&added, "annotations", told, FC_TOLD);
	str_char(&added, '}');
	json_put_open(&added, "spec", '{');
	for (size_t i = 0; i < ARRAY_SIZE(LISTS); i++) {
		if (scan_type(scan_path(template, "spec", LISTS[i])) != SCAN_ARRAY)
			continue;
		json_put_open(&added, LISTS[i], '{');
		objects_put_container(&added, told, task);
		str_char(&added, '}');
	}
	str_puts(&added, "}}");
	objects_merge(out, template, str_view(&added), told);
	out->full |= added.full || merged.full;
}

static void objects_write_configmap(struct str *out, const struct framework *f)
{
	enum { TOLD = 5 };
	char name[FW_NAME_MAX];
	FREE_AUTO char *attempt = xasprintf("%d", f->life.id);
	const struct object_fact told[TOLD] = {
		{ "FC_FRAMEWORK_NAMESPACE", f->spec.namespace_name },
		{ "FC_FRAMEWORK_NAME", f->spec.name },
		{ "FC_FRAMEWORK_UID", f->spec.uid },
		{ "FC_FRAMEWORK_ATTEMPT_ID", attempt },
		{ "FC_CONFIGMAP_NAME", fw_configmap_name(f, name) },
	};
	objects_put_head(out, f, "ConfigMap", name,
	                 &(struct object_owner){ "frameworkcontroller.microsoft.com/v1",
	                                         "Framework", f->spec.name, f->spec.uid });
	objects_put_facts(out, "labels", told + 1, 1);
	objects_put_facts(out, "annotations", told, TOLD);
	str_puts(out, ",\"finalizers\":[\"foregroundDeletion\"]}}");
}

void framework_object_write(const struct framework *f, const struct framework_object *o,
                            struct str *out)
{
	const struct fw_role *r = o->kind == FRAMEWORK_POD ? fw_role_find(f, o->role) : NULL;
	if (o->kind == FRAMEWORK_CONFIGMAP)
		objects_write_configmap(out, f);
	else if (r && (size_t)o->index < r->n)
		objects_write_pod(out, f, r, o);
}

const struct node *framework_object(const struct framework *f, const struct framework_object *o,
                                    struct arena *a)
{
	STR_AUTO text = STR_SECRET(FRAMEWORK_OBJECT_MAX);
	framework_object_write(f, o, &text);
	return text.n ? doc_quiet(str_view(&text), &FW_BUDGET, a) : NULL;
}
