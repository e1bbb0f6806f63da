/*
 * A job of any dialect as a document of protocol 2. A copy of the job is reduced to what v2 can
 * say, and what this changes is noted. v2 has no variables of one role: the commands export those
 * of the job, and those of older jobs that they mention. Then the copy is written, and read
 * again, so that no text is returned that would be refused.
 */
#include <inttypes.h>

#include "base/doc/yaml.h"
#include "base/enc.h"
#include "translate/job/dialect.h"
#include "translate/job/names.h"
#include "translate/objects/objects.h"
#include "translate/reader/parse_context.h"
#include "translate/render/bindings.h"
#include "translate/translate.h"

enum { CONVERTED_MAX = 64 << 20, NO_MEMORY_MB = 4096 };

struct convert {
	const struct translator *t;
	struct arena *a;
	const struct job *job;
	struct job v2;
	struct notes *lost;
	struct str json; /* the document */
	bool escaped;    /* a command has a parameter in place of `<` */
};

/* ---- what v2 can say ---- */

/* The name, or one that v2 takes. */
static const char *convert_name(const struct convert *c, struct span name, bool good,
                                struct place where)
{
	const char *v2 = names_variable(c->a, name);
	if (good)
		return arena_dup(c->a, name);
	if (is_digit(v2[0]))
		v2 = arena_printf(c->a, "_%s", v2);
	notes_add(c->lost, where, "v2 does not take this name; it becomes %s%s", v2,
	          c->job->extras ? ", but not in `extras`" : "");
	return v2;
}

static void convert_reduce_role(const struct convert *c, struct role *role)
{
	const struct scope s = { .job = c->job, .role = role };
	int64_t retries = c->v2.gang ? 0 : role->task_retry_max;
	struct span command = span_trim(role->command);
	role->variable = convert_name(c, role->name, names_identifier_ok(role->name), role->where);
	role->name = span_of(role->variable);
	if (role->task_fancy_retry == c->v2.gang || role->task_retry_max != retries)
		notes_add(c->lost, role->where,
		          "task.retryPolicy becomes {fancyRetryPolicy: %s, maxRetryCount: "
		          "%" PRId64 "} in v2",
		          c->v2.gang ? "false" : "true", retries);
	role->task_retry_max = retries;
	if (role_shm_mb(&s) != c->v2.dialect->shm_mb)
		role->shm_mb = role_shm_mb(&s);
	if (role->cpu == 0 || role->memory_mb == 0) {
		role->memory_mb = role->memory_mb ? role->memory_mb : NO_MEMORY_MB;
		notes_add(c->lost, role->where,
		          "v2 roles have numbers where the pod has no limit: cpu %" PRId64
		          ", memoryMB %" PRId64,
		          role->cpu, role->memory_mb);
	}
	if (command.n < role->command.n)
		notes_add(c->lost, role->where, "the command loses the blanks at its ends");
	role->command = command;
}

static void convert_reduce(struct convert *c)
{
	const struct job *job = c->job;
	bool good = span_only_alnum_or(job->name, "_-");
	c->v2 = *job;
	c->v2.dialect = dialect_get(DIALECT_V2);
	c->v2.name = span_of(convert_name(c, job->name, good, job->name_where));
	c->v2.retry_max = job->retry_max < 0 ? INT32_MAX : job->retry_max;
	if (!job->fancy_retry || job->retry_max < 0)
		notes_add(c->lost, job->retry_where,
		          "retryPolicy becomes {fancyRetryPolicy: true, maxRetryCount: %" PRId64
		          "} in v2",
		          c->v2.retry_max);
	if (job->gpu_type.n && translator_uses_gpu_type(c->t))
		notes_add(c->lost, (struct place){ "/gpuType", 0, 0 }, "v2 jobs have no gpuType");
	if (job->dialect->old_env)
		notes_add(c->lost, (struct place){ "", 0, 0 },
		          "variables that only %s jobs have are set in the commands that mention "
		          "them, and nowhere else",
		          job->dialect->name);
	c->v2.roles = ARENA_NEW(c->a, struct role, job->n_roles);
	for (size_t i = 0; i < job->n_roles; i++) {
		c->v2.roles[i] = job->roles[i];
		convert_reduce_role(c, &c->v2.roles[i]);
	}
}

/* ---- commands ---- */

/* Adds a command: `before`, and the text, between quotes if there are some. v2 fills in
 * placeholders, which other dialects do not have: their `<` becomes one itself. */
static void convert_line(struct convert *c, const char *before, struct span text, const char *quote)
{
	STR_AUTO out = STR_INIT(CONVERTED_MAX);
	str_printf(&out, "%s%s", before, quote);
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == quote[0])
			str_puts(&out, "'\\'");
		if (span_starts(span_from(text, i), "<%")) {
			str_puts(&out, "<% $parameters.less %>");
			c->escaped = true;
		} else {
			str_char(&out, text.p[i]);
		}
	}
	str_puts(&out, quote);
	str_json(&c->json, str_view(&out));
	str_char(&c->json, ',');
}

static void convert_export(struct convert *c, struct span name, struct span value)
{
	convert_line(c, arena_printf(c->a, "export %.*s=", (int)name.n, name.p), value, "'");
}

/* Returns the environment that rest-lit adds to the role's containers: a list of {name, value or
 * valueFrom}, with a null at its end. */
static const struct node *convert_env(const struct convert *c, const struct job *job, size_t role)
{
	static const struct facts NONE = { 0 };
	struct scope s = { .t = c->t, .job = job, .facts = &NONE, .a = c->a };
	struct span common = { "", 0 };
	struct span own = { "", 0 };
	s.set = translator_settings(c->t);
	s.role = &job->roles[role];
	(void)template_write_within(&s, TEMPLATE_ENV_JOB, 1 << 16, CONVERTED_MAX, &common);
	(void)template_write_within(&s, TEMPLATE_ENV_ROLE, 1 << 12, CONVERTED_MAX, &own);
	const char *json = arena_printf(c->a, "{\"env\":[%.*s%.*snull]}", (int)common.n, common.p,
	                                (int)own.n, own.p);
	return node_get(doc_quiet(span_of(json), &BUDGET_OWN, c->a), "env");
}

/* The variable of the list with the same name, or source in the pod; NULL if there is none. */
static const struct node *convert_find(const struct node *list, const struct node *variable,
                                       const char *same)
{
	const struct node *wanted = node_get(variable, same);
	for (uint32_t i = 0; wanted && i < list->n; i++) {
		const struct node *other = node_get(&list->item[i], same);
		if (other && node_equal(other, wanted))
			return &list->item[i];
	}
	return NULL;
}

/* Exports the directories of the job, and the variables that the command mentions and v2 has not,
 * or has with another value: also an empty one, because commands run with nounset. */
static void convert_variables(struct convert *c, size_t role)
{
	static const char *const DIRECTORIES[] = { "PAI_DATA_DIR", "PAI_OUTPUT_DIR", "PAI_CODE_DIR",
		                                   NULL };
	const struct span directory[] = { c->job->data_dir, c->job->output_dir, c->job->code_dir };
	struct span command = c->v2.roles[role].command;
	const struct node *env = convert_env(c, c->job, role);
	const struct node *v2 = convert_env(c, &c->v2, role);
	for (uint32_t i = 0; i < env->n; i++) {
		const struct node *variable = &env->item[i];
		struct span name = parse_text(variable, "name");
		const struct node *same = convert_find(v2, variable, "name");
		const struct node *source = convert_find(v2, variable, "valueFrom");
		if (name.n == 0 || (same && node_equal(same, variable)) ||
		    names_listed(DIRECTORIES, name) || span_find(command, 0, name.p) == SIZE_MAX)
			continue;
		if (source)
			convert_line(c,
			             arena_printf(c->a, "export %s=\"$%s\"", name.p,
			                          parse_text(source, "name").p),
			             SPAN(""), "");
		else
			convert_export(c, name, parse_text(variable, "value"));
	}
	for (size_t i = 0; DIRECTORIES[i]; i++)
		if (directory[i].n || span_find(command, 0, DIRECTORIES[i]) != SIZE_MAX)
			convert_export(c, span_of(DIRECTORIES[i]), directory[i]);
}

/* The variables and the directory of a pod of Kubernetes. */
static void convert_pod(struct convert *c, const struct role *role)
{
	static const char *const SAID[] = { "containers", "env",        "name",
		                            "resources",  "workingDir", NULL };
	const struct node *spec = node_get(role->pod->tree, "spec");
	const struct node *list = node_get(spec, "containers");
	const struct node *app = node_is(list, NODE_LIST) && list->n ? list->item : NULL;
	const struct node *parts[] = { node_get(role->pod->tree, "metadata"), spec, app };
	const struct node *env = node_get(app, "env");
	for (size_t k = 0; k < 3; k++)
		for (uint32_t i = 0; parts[k] && i < parts[k]->n; i++)
			if (!names_listed(SAID, member_key(&parts[k]->member[i])))
				notes_add(c->lost, role->where,
				          "`%s` of the pod cannot be said in v2",
				          parts[k]->member[i].key);
	if (node_get(app, "workingDir"))
		convert_line(c, "cd ", parse_text(app, "workingDir"), "'");
	for (uint32_t i = 0; env && i < env->n; i++) {
		struct span value = parse_text(&env->item[i], "value");
		struct span name = parse_text(&env->item[i], "name");
		/* $(NAME) and $$ have a meaning in Kubernetes */
		if (node_get(&env->item[i], "valueFrom") || !names_identifier_ok(name) ||
		    kubernetes_escaped_size(value) != value.n)
			notes_add(c->lost, role->where, "variable %s cannot be said in v2",
			          arena_quoted(c->a, name));
		else
			convert_export(c, name, value);
	}
}

/* ---- the document ---- */

static void convert_role(struct convert *c, size_t i)
{
	const struct role *was = &c->job->roles[i];
	const struct role *r = &c->v2.roles[i];
	bool other = !span_eq(r->image, c->v2.roles[0].image);
	str_printf(
	    &c->json,
	    "%s\"%s\":{\"instances\":%" PRId64 ",\"completion\":{\"minFailedInstances\":%" PRId64
	    ",\"minSucceededInstances\":%" PRId64 "},\"taskRetryCount\":%" PRId64
	    ",\"dockerImage\":\"%s\",\"resourcePerInstance\":{\"cpu\":%" PRId64
	    ",\"memoryMB\":%" PRId64 ",\"gpu\":%" PRId64,
	    i ? "," : "", r->variable, r->instances, r->min_failed, r->min_succeeded,
	    r->task_retry_max, c->v2.roles[other ? i : 0].variable, r->cpu, r->memory_mb, r->gpu);
	for (size_t k = 0; k < r->n_ports; k++) {
		str_puts(&c->json, k ? "," : ",\"ports\":{");
		str_json(&c->json, r->ports[k].label);
		str_printf(&c->json, ":%" PRId64, r->ports[k].count);
	}
	str_printf(&c->json, "}},\"extraContainerOptions\":{\"shmMB\":%" PRId64, r->shm_mb);
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (r->wants >> bit & 1)
			str_printf(&c->json, ",\"%s\":true", GRANT_NAMES[bit]);
	str_puts(&c->json, "},\"commands\":[");
	if (was->pod)
		convert_pod(c, was);
	for (size_t k = 0; k < was->n_env; k++)
		convert_export(c, was->env[k].name, was->env[k].value);
	if (c->job->dialect->old_env)
		convert_variables(c, i);
	convert_line(c, "", r->command, "");
	c->json.p[c->json.n - 1] = ']'; /* in place of the comma */
	str_char(&c->json, '}');
}

/* Writes one image for all roles that have that of the first, and one for each other role. */
static void convert_images(struct convert *c)
{
	const struct role *roles = c->v2.roles;
	for (size_t i = 0; i < c->v2.n_roles; i++) {
		if (i && span_eq(roles[i].image, roles[0].image))
			continue;
		str_printf(&c->json,
		           "%s{\"name\":\"%s\",\"type\":\"dockerimage\",\"uri\":", i ? "," : "",
		           roles[i].variable);
		str_json(&c->json, roles[i].image);
		str_char(&c->json, '}');
	}
}

static const struct node *convert_document(struct convert *c)
{
	convert_reduce(c);
	str_puts(&c->json, "{\"protocolVersion\":2,\"name\":");
	str_json(&c->json, c->v2.name);
	str_printf(&c->json, ",\"type\":\"job\",\"jobRetryCount\":%" PRId64 ",\"prerequisites\":[",
	           c->v2.retry_max);
	convert_images(c);
	str_puts(&c->json, "],\"taskRoles\":{");
	for (size_t i = 0; i < c->v2.n_roles; i++)
		convert_role(c, i);
	str_puts(&c->json, "},\"defaults\":{\"virtualCluster\":");
	str_json(&c->json, c->v2.virtual_cluster);
	str_puts(&c->json, c->escaped ? "},\"parameters\":{\"less\":\"<\"}" : "}");
	if (node_is(c->v2.extras, NODE_MAP) && c->v2.extras->n) {
		str_puts(&c->json, ",\"extras\":");
		node_json(&c->json, c->v2.extras);
	}
	str_char(&c->json, '}');
	return doc_quiet(str_view(&c->json), &BUDGET_OWN, c->a);
}

static void convert_comments(struct str *out, const struct notes *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		STR_AUTO text = STR_INIT(CONVERTED_MAX);
		unsigned n = 0;
		str_puts(&text, "# - ");
		if (notes->v[i].line)
			str_printf(&text, "line %u: ", notes->v[i].line);
		note_text(&text, &notes->v[i]);
		for (size_t k = 0; k < text.n; k += n) {
			const unsigned char *p = (const unsigned char *)text.p + k;
			bool ends_line = utf8_is_control(utf8_decode(p, text.n - k, &n));
			str_put(out, ends_line ? "?" : text.p + k, ends_line ? 1 : n);
		}
		str_char(out, '\n');
	}
	if (notes->dropped)
		str_printf(out, "# - and %zu more\n", notes->dropped);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int job_convert(const struct translator *t, const struct job *job, const struct notes *warnings,
                struct notes *lost, struct str *out, struct err *e)
{
	struct arena arena = { 0 };
	struct convert c = { .t = t, .a = &arena, .job = job, .lost = lost };
	NOTES_AUTO again = { 0 };
	const struct node *document = job->v2;
	c.json = STR_INIT(CONVERTED_MAX);
	if (!document) {
		document = convert_document(&c);
		notes_sort(lost);
		str_printf(out, "# Written by `rest-lit convert` from a %s job.%s\n",
		           job->dialect->name, lost->n + warnings->n ? " Lost or changed:" : "");
		convert_comments(out, lost);
		convert_comments(out, warnings);
	}
	yaml_write(out, document);
	const struct job *v2 = job_read(t, DIALECT_V2, str_view(out), job->user, &arena, &again, e);
	for (size_t i = 0; !v2 && i < e->notes.n; i++) /* positions in `out` */
		e->notes.v[i].line = e->notes.v[i].column = 0;
	str_done(&c.json);
	arena_wipe(&arena); /* a v2 job may have secrets */
	return v2 ? 0 : err_wrap(e, "cannot be said in a v2 job");
}
