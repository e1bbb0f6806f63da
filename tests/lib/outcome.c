#include "tests/lib/outcome.h"

#include <assert.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/object.h"

enum { JSON_TEXT_MAX = 64 << 20 };

json_t *node_to_json(const struct node *n)
{
	STR_AUTO text = STR_INIT(JSON_TEXT_MAX);
	node_json(&text, n);
	return json_loadb(str_c(&text), text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

/* YAML or JSON as a value, anything else as its text. */
static json_t *parse(struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc = { 0 };
	if (doc_read(text, &BUDGET_DEFAULT, &a, &doc, NULL, &e))
		return json_stringn(text.p, text.n);
	return node_to_json(&doc.root);
}

static void decode_secret(json_t *secret)
{
	const char *key;
	void *next;
	json_t *value;
	json_t *data = json_object_get(secret, "data");
	json_object_foreach_safe(data, next, key, value)
	{
		ARENA_AUTO a = { 0 };
		struct span bytes;
		struct span text = { json_string_value(value), json_string_length(value) };
		if (base64_decode(&a, text, &bytes) == 0)
			(void)json_object_set_new(data, key, parse(bytes));
	}
}

/* YAML in an annotation of the pods. */
static void decode_roles(json_t *framework)
{
	static const char SPEC[] = "hivedscheduler.microsoft.com/pod-scheduling-spec";
	size_t i;
	json_t *role;
	json_array_foreach (json_object_get(json_object_get(framework, "spec"), "taskRoles"), i,
	                    role) {
		json_t *annotations = NULL;
		(void)json_unpack(role, "{s:{s:{s:{s:o}}}}", "task", "pod", "metadata",
		                  "annotations", &annotations);
		const json_t *spec = json_object_get(annotations, SPEC);
		struct span text = { json_string_value(spec), json_string_length(spec) };
		if (spec)
			(void)json_object_set_new(annotations, SPEC, parse(text));
	}
}

void outcome_decode(json_t *outcome)
{
	const char *key;
	json_t *secret;
	decode_roles(json_object_get(outcome, "framework"));
	json_object_foreach (json_object_get(outcome, "secrets"), key, secret)
		decode_secret(secret);
}

/* "0b61...-regcred" -> "regcred" */
static const char *role_of(const struct object *o)
{
	const char *dash = strchr(o->name, '-');
	return dash ? dash + 1 : o->name;
}

static json_t *collect(const struct objects *objects)
{
	json_t *out = json_pack("{s:b,s:{},s:{},s:n}", "accepted", 1, "secrets", "configmaps",
	                        "priorityClass");
	for (size_t i = 0; i < objects->n; i++) {
		const struct object *o = &objects->v[i];
		json_t *v = json_loadb(o->body.p, o->body.n, JSON_REJECT_DUPLICATES, NULL);
		assert(v);
		switch (o->kind) {
		case KIND_FRAMEWORK:
			(void)json_object_set_new(out, "framework", v);
			break;
		case KIND_SECRET:
			(void)json_object_set_new(json_object_get(out, "secrets"), role_of(o), v);
			break;
		case KIND_CONFIGMAP:
			(void)json_object_set_new(json_object_get(out, "configmaps"), role_of(o),
			                          v);
			break;
		case KIND_PRIORITYCLASS:
			(void)json_object_set_new(out, "priorityClass", v);
			break;
		case KIND_SERVICEACCOUNT:
		case KIND_TOKENREVIEW:
		case KIND_PODTEMPLATE:
		case KIND_CLAIM:
		case KIND_VOLUME:
		case KIND_NODE:
		case KIND_NAMESPACE:
		case KIND_POD:
		case KIND_EVENT:
		case KIND_LEASE:
		case KIND_STATEFULSET:
		case KIND_ACCESS_REVIEW:
		case KIND_VERSION:
		case KIND_API_GROUP:
		case KIND_WORKLOAD:
		case KIND_FLAVOR:
		case KIND_WORKLOAD_PRIORITY:
		case KIND_LOCAL_QUEUE:
		case KIND_MAX:
			break;
		}
	}
	return out;
}

static json_t *list_of(const struct notes *all)
{
	json_t *notes = json_array();
	for (size_t i = 0; i < all->n; i++) {
		const struct note *n = &all->v[i];
		json_t *note = json_pack("{s:s?,s:i,s:i,s:s}", "at", n->at, "line", (int)n->line,
		                         "column", (int)n->column, "message", n->msg);
		assert(note); /* the message is UTF-8 */
		(void)json_array_append_new(notes, note);
	}
	return notes;
}

static json_t *refusal(const struct err *e)
{
	return json_pack("{s:b,s:i,s:s?,s:o}", "accepted", 0, "status", e->http, "code", e->code,
	                 "notes", list_of(&e->notes));
}

static json_t *outcome_warned_of(const struct setting *s, unsigned d, struct span text,
                                 const struct submission_mark *mark, struct notes *warnings)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct objects objects = { 0 };
	struct job *job = job_read(s->translator, d, text, TEST_USER, &a, warnings, &e);
	if (!job || job_build(s->translator, job, &s->facts, mark, &a, &objects, &e))
		return refusal(&e);
	json_t *out = collect(&objects);
	outcome_decode(out);
	return out;
}

json_t *outcome_of(const struct setting *s, unsigned d, struct span text,
                   const struct submission_mark *mark)
{
	NOTES_AUTO warnings = { 0 };
	return outcome_warned_of(s, d, text, mark, &warnings);
}

json_t *outcome_warned(const struct setting *s, struct span text)
{
	NOTES_AUTO warnings = { 0 };
	json_t *out = outcome_warned_of(s, DIALECTS_ALL, text, NULL, &warnings);
	(void)json_object_set_new(out, "warnings", list_of(&warnings));
	return out;
}

json_t *outcome_objects(const struct setting *s, struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct objects objects = { 0 };
	struct job *job = job_read(s->translator, DIALECTS_ALL, text, TEST_USER, &a, &warnings, &e);
	if (!job || job_build(s->translator, job, &s->facts, NULL, &a, &objects, &e))
		return NULL;
	json_t *out = json_array();
	for (size_t i = 0; i < objects.n; i++) {
		struct span body = objects.v[i].body;
		json_t *v = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
		assert(v);
		(void)json_array_append_new(out, v);
	}
	return out;
}
