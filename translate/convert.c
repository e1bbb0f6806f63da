/*
 * A job of any dialect as a document of protocol 2. A copy of the job is reduced to what v2 can
 * say, and what this changes is noted. v2 has no variables for containers: the commands export
 * those of the job, and of the others those that they mention. Then the copy is written, and read
 * again, so that no text is returned that would be refused.
 */
#include <inttypes.h>

#include "base/enc.h"
#include "base/yaml/yaml.h"
#include "translate/dialect.h"
#include "translate/dialects/parse_context.h"
#include "translate/names.h"
#include "translate/render/bindings.h"

enum { CONVERTED_MAX = 64 << 20, NAMES_SHOWN = 24, COMMENT_COLUMNS = 80, NO_MEMORY_MB = 4096 };

struct convert {
	const struct translator *t;
	struct arena *a;
	const struct job *job;
	struct job v2;
	struct notes *lost;
	struct str json;  /* the document */
	struct str names; /* of variables that v2 does not have, for a note */
	size_t n_names;
	const struct node **env; /* those of all containers */
	size_t n_env;
	bool renamed; /* a role */
	bool escaped; /* a command has a parameter in place of `<` */
};

/* ---- what v2 can say ---- */

struct convert_policy {
	bool fancy;
	int64_t max;
};

static void convert_retries(const struct convert *c, struct place where, const char *whose,
                            struct convert_policy is, struct convert_policy becomes)
{
	if (is.fancy != becomes.fancy || is.max != becomes.max)
		notes_add(c->lost, where,
		          "%s cannot have the retry policy {fancyRetryPolicy: %s, maxRetryCount: "
		          "%" PRId64 "} in v2; it becomes {fancyRetryPolicy: %s, maxRetryCount: "
		          "%" PRId64 "}",
		          whose, is.fancy ? "true" : "false", is.max,
		          becomes.fancy ? "true" : "false", becomes.max);
}

/* The name, or one that v2 takes. */
static const char *convert_name(const struct convert *c, struct span name, bool good,
                                struct place where)
{
	const char *v2 = names_variable(c->a, name);
	if (good)
		return arena_dup(c->a, name);
	if (is_digit(v2[0]))
		v2 = arena_printf(c->a, "_%s", v2);
	notes_add(c->lost, where, "v2 does not take this name; it becomes %s", v2);
	return v2;
}

static void convert_reduce_role(struct convert *c, struct role *role)
{
	const struct scope s = { .job = c->job, .role = role };
	const struct convert_policy is = { role->task_fancy_retry, role->task_retry_max };
	const struct convert_policy v2 = { !c->v2.gang, c->v2.gang ? 0 : is.max };
	struct span command = span_trim(role->command);
	bool good = names_identifier_ok(role->name);
	role->variable = convert_name(c, role->name, good, role->where);
	c->renamed |= !good;
	role->name = span_of(role->variable);
	convert_retries(c, role->where, "a task", is, v2);
	role->task_retry_max = v2.max;
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
	const struct convert_policy is = { job->fancy_retry, job->retry_max };
	const struct convert_policy v2 = { true, is.max < 0 ? INT32_MAX : is.max };
	convert_retries(c, job->retry_where, "a job", is, v2);
	if (job->gpu_type.n && translator_uses_gpu_type(c->t))
		notes_add(c->lost, (struct place){ "/gpuType", 0, 0 }, "v2 jobs have no gpuType");
	c->v2 = *job;
	c->v2.dialect = dialect_get(DIALECT_V2);
	c->v2.name =
	    span_of(convert_name(c, job->name, span_only(job->name, "_-"), job->name_where));
	c->v2.retry_max = v2.max;
	c->v2.roles = ARENA_NEW(c->a, struct role, job->n_roles);
	for (size_t i = 0; i < job->n_roles; i++) {
		c->v2.roles[i] = job->roles[i];
		convert_reduce_role(c, &c->v2.roles[i]);
	}
}

/* ---- commands ---- */

static const struct node *convert_tree(const struct convert *c, struct span json)
{
	const struct budget any = { 1000, SIZE_MAX, SIZE_MAX, SIZE_MAX };
	struct doc *doc = ARENA_NEW(c->a, struct doc, 1);
	bool syntax;
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	(void)json_read(json, &any, c->a, doc, &warnings, &syntax, &e); /* it is ours: valid */
	return &doc->root;
}

/* What all containers have in their environment, or with a role what its containers have besides:
 * a list of {name, value or valueFrom}, with a null at its end. */
static const struct node *convert_env(const struct convert *c, const struct job *job,
                                      const struct role *role)
{
	static const struct facts NONE = { 0 };
	struct scope s = { .t = c->t, .job = job, .facts = &NONE, .a = c->a, .role = role };
	enum template_id list = role ? TEMPLATE_ENV_ROLE : TEMPLATE_ENV_JOB;
	struct span items = { "", 0 };
	s.set = translator_settings(c->t);
	(void)template_write_within(&s, list, 1 << 16, CONVERTED_MAX, &items);
	return convert_tree(c, span_of(arena_printf(c->a, "[%.*snull]", (int)items.n, items.p)));
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

static bool convert_differs(const struct node *list, const struct node *variable)
{
	const struct node *v2 = convert_find(list, variable, "name");
	return node_is(node_get(variable, "name"), NODE_TEXT) && (!v2 || !node_equal(v2, variable));
}

static bool convert_is_word(struct span t, size_t i)
{
	return i < t.n && (is_alnum(t.p[i]) || t.p[i] == '_');
}

static bool convert_mentions(struct span command, struct span name)
{
	for (size_t i = 0; (i = span_find(command, i, name.p)) != SIZE_MAX; i++)
		if (!(i && convert_is_word(command, i - 1)) &&
		    !convert_is_word(command, i + name.n))
			return true;
	return false;
}

/* Adds a line. v2 fills in placeholders, which other dialects do not have: their `<` becomes one
 * itself. */
static void convert_line(struct convert *c, struct span line)
{
	STR_AUTO out = STR_INIT(CONVERTED_MAX);
	size_t from = 0;
	for (size_t i; (i = span_find(line, from, "<%")) != SIZE_MAX; from = i + 1) {
		str_put(&out, line.p + from, i - from);
		str_puts(&out, "<% $parameters.less %>");
		c->escaped = true;
	}
	str_span(&out, span_from(line, from));
	str_json(&c->json, str_view(&out));
	str_char(&c->json, ',');
}

/* Adds a line of literal text and a value in quotes. */
static void convert_quoted(struct convert *c, const char *before, struct span value)
{
	STR_AUTO out = STR_INIT(CONVERTED_MAX);
	str_printf(&out, "%s'", before);
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] == '\'')
			str_puts(&out, "'\\'");
		str_char(&out, value.p[i]);
	}
	str_char(&out, '\'');
	convert_line(c, str_view(&out));
}

static void convert_export(struct convert *c, struct span name, struct span value)
{
	convert_quoted(c, arena_printf(c->a, "export %.*s=", (int)name.n, name.p), value);
}

/* These members of v1 jobs are exported also if no command mentions them; "" for others. */
static struct span convert_directory(const struct job *job, struct span name)
{
	return span_is(name, "PAI_DATA_DIR")     ? job->data_dir
	       : span_is(name, "PAI_OUTPUT_DIR") ? job->output_dir
	       : span_is(name, "PAI_CODE_DIR")   ? job->code_dir
	                                         : (struct span){ "", 0 };
}

/* A variable that is not the same in v2; `role_env` is the environment of the role there. */
static void convert_variable(struct convert *c, size_t role, const struct node *variable,
                             const struct node *role_env)
{
	struct span name = node_span(node_get(variable, "name"));
	struct span directory = convert_directory(c->job, name);
	const struct node *value = node_get(variable, "value");
	const struct node *same = convert_find(role_env, variable, "valueFrom");
	if (directory.n) {
		convert_export(c, name, directory);
		return;
	}
	if (role == 0 && c->n_names++ < NAMES_SHOWN)
		str_printf(&c->names, "%s%s", c->names.n ? ", " : "", name.p);
	if (!convert_mentions(c->v2.roles[role].command, name))
		return;
	if (node_is(value, NODE_TEXT))
		convert_export(c, name, node_span(value));
	else if (same)
		convert_line(c, span_of(arena_printf(c->a, "export %s=\"$%s\"", name.p,
		                                     node_get(same, "name")->text)));
}

/* Notes the members of a map that the names do not list. */
static void convert_lose(const struct convert *c, const struct role *role, const struct node *map,
                         const char *const *names)
{
	for (uint32_t i = 0; node_is(map, NODE_MAP) && i < map->n; i++) {
		const struct node *n = &map->member[i].value;
		struct place where = { role->where.at, n->line, n->column };
		if (!names_listed(names, member_key(&map->member[i])))
			notes_add(c->lost, n->line ? where : role->where,
			          "`%s` of the pod cannot be said in v2", map->member[i].key);
	}
}

/* The variables and the directory of a pod of Kubernetes. */
static void convert_pod(struct convert *c, const struct role *role)
{
	static const char *const SPEC[] = { "containers", NULL };
	static const char *const APP[] = { "env", "name", "resources", "workingDir", NULL };
	static const char *const NONE[] = { NULL };
	const struct node *spec = node_get(role->pod->tree, "spec");
	const struct node *list = node_get(spec, "containers");
	const struct node *app = node_is(list, NODE_LIST) && list->n ? list->item : NULL;
	const struct node *env = node_get(app, "env");
	const struct node *directory = node_get(app, "workingDir");
	convert_lose(c, role, node_get(role->pod->tree, "metadata"), NONE);
	convert_lose(c, role, spec, SPEC);
	convert_lose(c, role, app, APP);
	if (node_is(list, NODE_LIST) && list->n > 1)
		notes_add(c->lost, role->where, "a v2 role has no other containers");
	if (node_is(directory, NODE_TEXT))
		convert_quoted(c, "cd ", node_span(directory));
	for (uint32_t i = 0; env && i < env->n; i++) {
		struct span value = parse_text(&env->item[i], "value");
		struct span name = parse_text(&env->item[i], "name");
		bool source = node_get(&env->item[i], "valueFrom") != NULL;
		/* Kubernetes would take these as its own */
		bool own =
		    span_find(value, 0, "$(") != SIZE_MAX || span_find(value, 0, "$$") != SIZE_MAX;
		if (source || own || !names_identifier_ok(name))
			notes_add(c->lost, role->where, "variable %s cannot be said in v2",
			          quoted(c->a, name));
		else
			convert_export(c, name, value);
	}
}

static void convert_commands(struct convert *c, size_t i)
{
	const struct role *role = &c->job->roles[i];
	const struct node *env = convert_env(c, c->job, role);
	const struct node *v2_env = convert_env(c, &c->v2, &c->v2.roles[i]);
	if (role->pod)
		convert_pod(c, role);
	for (size_t k = 0; k < role->n_env; k++)
		convert_export(c, role->env[k].name, role->env[k].value);
	for (uint32_t k = 0; k + 1 < env->n; k++)
		if (convert_differs(v2_env, &env->item[k]))
			convert_variable(c, i, &env->item[k], v2_env);
	for (size_t k = 0; k < c->n_env; k++)
		convert_variable(c, i, c->env[k], v2_env);
	convert_line(c, c->v2.roles[i].command);
	c->json.n--; /* the comma */
}

/* Sets c->env. */
static void convert_common(struct convert *c)
{
	const struct node *env = convert_env(c, c->job, NULL);
	const struct node *v2_env = convert_env(c, &c->v2, NULL);
	c->env = ARENA_NEW(c->a, const struct node *, env->n);
	for (uint32_t i = 0; i + 1 < env->n; i++)
		if (convert_differs(v2_env, &env->item[i]))
			c->env[c->n_env++] = &env->item[i];
}

/* ---- the document ---- */

/* The first role with the image of this one. */
static size_t convert_image(const struct job *v2, size_t i)
{
	size_t first = 0;
	while (!span_eq(v2->roles[first].image, v2->roles[i].image))
		first++;
	return first;
}

/* Writes the prerequisites; an image is called as its first role. */
static void convert_images(struct convert *c)
{
	const struct job *v2 = &c->v2;
	const char *comma = "";
	str_puts(&c->json, ",\"prerequisites\":[");
	for (size_t i = 0; i < v2->n_roles; i++) {
		if (convert_image(v2, i) != i)
			continue;
		str_printf(&c->json, "%s{\"name\":\"%s\",\"type\":\"dockerimage\",\"uri\":", comma,
		           v2->roles[i].variable);
		str_json(&c->json, v2->roles[i].image);
		str_char(&c->json, '}');
		comma = ",";
	}
	str_char(&c->json, ']');
}

static void convert_resources(struct convert *c, const struct role *r)
{
	str_printf(&c->json,
	           ",\"resourcePerInstance\":{\"cpu\":%" PRId64 ",\"memoryMB\":%" PRId64
	           ",\"gpu\":%" PRId64,
	           r->cpu, r->memory_mb, r->gpu);
	for (size_t i = 0; i < r->n_ports; i++) {
		str_puts(&c->json, i ? "," : ",\"ports\":{");
		str_json(&c->json, r->ports[i].label);
		str_printf(&c->json, ":%" PRId64, r->ports[i].count);
	}
	str_printf(&c->json, "}},\"extraContainerOptions\":{\"shmMB\":%" PRId64, r->shm_mb);
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (r->wants >> bit & 1)
			str_printf(&c->json, ",\"%s\":true", GRANT_NAMES[bit]);
	str_char(&c->json, '}');
}

static void convert_role(struct convert *c, size_t i)
{
	const struct role *r = &c->v2.roles[i];
	str_printf(&c->json,
	           "%s\"%s\":{\"instances\":%" PRId64
	           ",\"completion\":{\"minFailedInstances\":%" PRId64
	           ",\"minSucceededInstances\":%" PRId64 "}",
	           i ? "," : "", r->variable, r->instances, r->min_failed, r->min_succeeded);
	if (r->task_retry_max)
		str_printf(&c->json, ",\"taskRetryCount\":%" PRId64, r->task_retry_max);
	str_printf(&c->json, ",\"dockerImage\":\"%s\"",
	           c->v2.roles[convert_image(&c->v2, i)].variable);
	convert_resources(c, r);
	str_puts(&c->json, ",\"commands\":[");
	convert_commands(c, i);
	str_puts(&c->json, "]}");
}

/* The document as JSON. */
static void convert_document(struct convert *c)
{
	convert_reduce(c);
	convert_common(c);
	str_puts(&c->json, "{\"protocolVersion\":2,\"name\":");
	str_json(&c->json, c->v2.name);
	str_puts(&c->json, ",\"type\":\"job\"");
	if (c->v2.retry_max)
		str_printf(&c->json, ",\"jobRetryCount\":%" PRId64, c->v2.retry_max);
	convert_images(c);
	str_puts(&c->json, ",\"taskRoles\":{");
	for (size_t i = 0; i < c->v2.n_roles; i++)
		convert_role(c, i);
	str_char(&c->json, '}');
	if (c->escaped)
		str_puts(&c->json, ",\"parameters\":{\"less\":\"<\"}");
	if (!span_is(c->v2.virtual_cluster, "default")) {
		str_puts(&c->json, ",\"defaults\":{\"virtualCluster\":");
		str_json(&c->json, c->v2.virtual_cluster);
		str_char(&c->json, '}');
	}
	if (node_is(c->v2.extras, NODE_MAP) && c->v2.extras->n) {
		str_puts(&c->json, ",\"extras\":");
		node_json(&c->json, c->v2.extras);
		if (c->renamed)
			notes_add(c->lost, (struct place){ "/extras", 0, 0 },
			          "if it names task roles, their names have changed");
	}
	str_char(&c->json, '}');
	if (c->n_names > NAMES_SHOWN)
		str_printf(&c->names, " and %zu more", c->n_names - NAMES_SHOWN);
	if (c->n_names)
		notes_add(c->lost, (struct place){ "", 0, 0 },
		          "variables that v2 jobs do not have, or have with another value, are set "
		          "only by commands that mention them: %s",
		          str_c(&c->names));
}

/* A comment of at most some 100 columns; no character of the text ends it. */
static void convert_comment(struct str *out, const struct note *note)
{
	STR_AUTO text = STR_INIT(CONVERTED_MAX);
	size_t line = out->n;
	unsigned n = 0;
	str_puts(out, "# - ");
	if (note->line)
		str_printf(out, "line %u: ", note->line);
	note_text(&text, note);
	for (size_t i = 0; i < text.n; i += n) {
		uint32_t c = utf8_decode((const unsigned char *)text.p + i, text.n - i, &n);
		bool wrap = c == ' ' && out->n - line > COMMENT_COLUMNS;
		if (wrap)
			line = out->n;
		if (wrap || utf8_acts(c))
			str_puts(out, wrap ? "\n#   " : "?");
		else
			str_put(out, text.p + i, n);
	}
	str_char(out, '\n');
}

static void convert_comments(struct str *out, const struct notes *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		convert_comment(out, &notes->v[i]);
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
	c.json = c.names = STR_INIT(CONVERTED_MAX);
	if (!document) {
		convert_document(&c);
		document = convert_tree(&c, str_view(&c.json));
		notes_sort(lost);
		str_printf(out, "# Written by `rest-lit convert` from a %s job.",
		           job->dialect->name);
		str_puts(out, lost->n + warnings->n ? " Lost or changed:\n" : "\n");
		convert_comments(out, lost);
		convert_comments(out, warnings);
	}
	yaml_write(out, document);
	const struct job *v2 = job_read(t, DIALECT_V2, str_view(out), job->user, &arena, &again, e);
	for (size_t i = 0; !v2 && i < e->notes.n; i++) /* positions in `out` */
		e->notes.v[i].line = e->notes.v[i].column = 0;
	str_done(&c.json);
	str_done(&c.names);
	arena_wipe(&arena); /* a v2 job may have secrets */
	return v2 ? 0 : err_wrap(e, "cannot be said in a v2 job");
}
