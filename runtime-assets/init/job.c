/* The job as its author wrote it: a document read once, and the few questions asked of it. */
#include "runtime-assets/init/job.h"

#include "base/err.h"
#include "base/str.h"

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/* Is `kubernetes` what the submission made of this name: lower case, [a-z0-9] only? */
static bool converts_to(struct span name, const char *kubernetes)
{
	for (size_t i = 0; i < name.n; i++) {
		if (!is_alnum(name.p[i]))
			continue;
		if (*kubernetes != lower(name.p[i]))
			return false;
		kubernetes++;
	}
	return *kubernetes == '\0';
}

/* A role of the document, in both forms: v2 has a map by name, v1 a list of roles with `name`. */
struct role {
	struct span name;
	const struct node *value;
};

static bool role_at(const struct node *roles, size_t i, struct role *r)
{
	if (node_is(roles, NODE_MAP)) {
		*r = (struct role){ member_key(&roles->member[i]), &roles->member[i].value };
		return true;
	}
	const struct node *name = node_get(&roles->item[i], "name");
	if (!node_is(name, NODE_TEXT))
		return false;
	*r = (struct role){ node_span(name), &roles->item[i] };
	return true;
}

static const struct node *roles_of(const struct job *j)
{
	const struct node *roles = node_get(&j->doc.root, "taskRoles");
	return node_is(roles, NODE_MAP) || node_is(roles, NODE_LIST) ? roles : NULL;
}

static const struct node *find_role(const struct job *j)
{
	const struct node *roles = roles_of(j);
	struct role r;
	for (size_t i = 0; roles && j->role_name && i < roles->n; i++) {
		if (role_at(roles, i, &r) && span_is(r.name, j->role_name))
			return r.value;
	}
	return NULL;
}

static void no_config(struct job *j, struct str *problem, const char *why)
{
	j->doc = (struct doc){ .root = { .type = NODE_NULL } };
	str_puts(problem, why);
}

void job_read(struct job *j, struct span config, struct arena *a, struct str *problem)
{
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	j->role = NULL;
	if (span_trim(config).n == 0) {
		no_config(j, problem, "there is no job configuration");
		return;
	}
	if (doc_read(config, &BUDGET_DEFAULT, a, &j->doc, &warnings, &e)) {
		STR_AUTO text = STR_INIT(1000);
		str_printf(&text, "line %u of the job configuration: ", e.notes.v[0].line);
		note_text(&text, &e.notes.v[0]);
		no_config(j, problem, str_c(&text));
		return;
	}
	if (j->doc.root.type != NODE_MAP) {
		no_config(j, problem, "the job configuration is no mapping");
		return;
	}
	j->role = find_role(j);
}

const char *job_role_spelling(const struct job *j, const char *kubernetes_name, struct arena *a)
{
	const struct node *roles = roles_of(j);
	struct role r;
	for (size_t i = 0; roles && *kubernetes_name && i < roles->n; i++) {
		if (!role_at(roles, i, &r) || !converts_to(r.name, kubernetes_name))
			continue;
		char *spelling = arena_dup(a, r.name);
		for (char *c = spelling; *c; c++) {
			if (!is_alnum(*c))
				*c = '_';
		}
		return spelling;
	}
	return NULL;
}

const struct node *job_prerequisite(const struct job *j, const char *type, struct span name)
{
	const struct node *list = node_get(&j->doc.root, "prerequisites");
	const struct node *found = NULL;
	for (size_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *p = &list->item[i];
		const struct node *its_name = node_get(p, "name");
		const struct node *its_type = node_get(p, "type");
		if (!node_is(its_name, NODE_TEXT) || !span_eq(node_span(its_name), name))
			continue;
		if (type && !(node_is(its_type, NODE_TEXT) && span_is(node_span(its_type), type)))
			continue;
		if (found)
			return NULL;
		found = p;
	}
	return found;
}
