/* The commands of the roles of a job of protocol 2, with those of its active deployment. */
#include "translate/dialects/pai_v2_internal.h"
#include "translate/job/names.h"
#include "translate/reader/placeholders.h"

enum { PARAMETERS, SCRIPT, OUTPUT, DATA, SECRETS, ROOTS };

struct commands {
	struct parse_context *r;
	struct root roots[ROOTS];
	struct render render;
	struct render later;     /* secrets are filled in by pai-runtime */
	struct render all;       /* for suggestions */
	struct field deployment; /* the active one, or absent */
	bool missed[ROOTS];
};

/* Up to three lists of lines. */
struct line_lists {
	struct field list[3];
	size_t n;
};

/* A position in a line of the command. */
struct line_location {
	struct field line;
	size_t offset;
};

struct commands *commands_new(struct parse_context *r)
{
	struct commands *c = ARENA_NEW(r->a, struct commands, 1);
	c->r = r;
	c->roots[PARAMETERS] = (struct root){ "$parameters", node_get(r->root, "parameters") };
	c->roots[SCRIPT].name = "$script";
	c->roots[OUTPUT].name = "$output";
	c->roots[DATA].name = "$data";
	c->render.roots = c->roots;
	c->render.n_roots = SECRETS;
	c->render.later = &c->later;
	c->roots[SECRETS] = (struct root){ "$secrets", node_get(r->root, "secrets") };
	c->later.roots = &c->roots[SECRETS];
	c->later.n_roots = 1;
	c->all.roots = c->roots;
	c->all.n_roots = ROOTS;
	return c;
}

static struct span line_text(const struct node *n)
{
	return node_is(n, NODE_TEXT) ? span_trim(node_span(n)) : (struct span){ "", 0 };
}

static struct span pai_v2_join(struct parse_context *r, const struct line_lists *l)
{
	STR_AUTO out = STR_INIT(r->set->budget.text + r->set->budget.nodes);
	for (size_t i = 0; i < l->n; i++)
		for (uint32_t k = 0; k < l->list[i].n->n; k++) {
			str_span(&out, line_text(&l->list[i].n->item[k]));
			str_char(&out, '\n');
		}
	return arena_span(r->a, span_to(str_view(&out), out.n ? out.n - 1 : 0));
}

/* The line at an offset of the joined text. */
static struct line_location find_location(const struct line_lists *l, size_t offset)
{
	for (size_t i = 0; i < l->n; i++) {
		for (uint32_t k = 0; k < l->list[i].n->n; k++) {
			struct field line = field_item(&l->list[i], k);
			size_t size = line_text(line.n).n;
			if (offset <= size)
				return (struct line_location){ line, offset };
			offset -= size + 1;
		}
	}
	return (struct line_location){ { .path = PATH_KEY(NULL, SPAN("taskRoles")) }, 0 };
}

/* Returns true if the root of the name is missing because of an error that is reported
 * elsewhere. */
static bool unresolved_is_reported(const struct commands *c, struct span name)
{
	for (size_t i = 0; i < ROOTS; i++) {
		const struct root *root = &c->roots[i];
		size_t n = strlen(root->name);
		bool fits =
		    span_starts(name, root->name) && (name.n == n || strchr(".[", name.p[n]));
		if (fits && root->value == NULL)
			return i == PARAMETERS || i == SECRETS
			           ? suggest_misspelt(c->r, root->name + 1)
			           : c->missed[i];
	}
	return false;
}

/* Warns of a placeholder without a value. */
static void unresolved_ignore(struct commands *c, const struct field *line,
                              const struct unresolved *u)
{
	const struct node *n = render_find(&c->all, u->name);
	bool secret = span_starts(u->name, "$secrets.");
	const char *fate =
	    secret && c->roots[SECRETS].value ? "nothing is put there" : "it is left as it is";
	const char *hint = n ? NULL : suggest_placeholder(&c->all, c->r->a, u->name);
	const char *tag = arena_quoted(c->r->a, u->tag);
	if (n)
		parse_warn(c->r, line, "%s is null, %s", tag, fate);
	else
		parse_warn(c->r, line, "%s leads to nothing, %s%s", tag, fate,
		           suggest_sentence(c->r->a, hint));
}

static void unresolved_report(struct commands *c, const struct line_lists *l, struct span text)
{
	const struct render *r = &c->render;
	for (size_t i = 0; i < r->n_unresolved && i < UNRESOLVED_MAX; i++) {
		if (unresolved_is_reported(c, r->unresolved[i].name))
			continue;
		struct line_location s =
		    find_location(l, (size_t)(r->unresolved[i].tag.p - text.p));
		unresolved_ignore(c, &s.line, &r->unresolved[i]);
	}
	if (r->n_unresolved > UNRESOLVED_MAX)
		c->r->warnings->dropped += r->n_unresolved - UNRESOLVED_MAX;
	if (r->taken_out.n) {
		struct line_location s = find_location(l, (size_t)(r->taken_out.p - text.p));
		parse_warn(c->r, &s.line,
		           "%s is taken out: only names are filled in, as in <%% $parameters.x %%>",
		           arena_quoted(c->r->a, r->taken_out));
	}
	if (r->inner.n) {
		struct line_location s = find_location(l, (size_t)(r->inner.p - text.p));
		parse_warn(c->r, &s.line,
		           "the value of %s has a placeholder, too, which is not filled in: values "
		           "are not searched for placeholders",
		           arena_quoted(c->r->a, r->inner));
	}
}

static struct span pai_v2_render(struct commands *c, const struct line_lists *l,
                                 const struct command_source *source)
{
	struct parse_context *r = c->r;
	struct span text = pai_v2_join(r, l);
	if (span_find(text, 0, "<%") == SIZE_MAX)
		return text;
	static const char *const FIELDS[] = { "script", "output", "data" };
	for (size_t i = 0; i < 3; i++) {
		c->roots[SCRIPT + i].value = source->values[i];
		c->missed[SCRIPT + i] = node_get(source->role->n, FIELDS[i]) && !source->values[i];
	}
	size_t room = r->rendered < r->set->max_rendered ? r->set->max_rendered - r->rendered : 0;
	STR_AUTO out = STR_INIT(room);
	if (render_text(&c->render, text, &out)) {
		struct line_location s = find_location(l, c->render.problem_at);
		parse_refuse(r, &s.line, "%s, at character %zu", c->render.problem, s.offset + 1);
		return text;
	}
	if (out.full) {
		struct field f = field_get(source->role, "commands");
		if (room > r->set->max_command)
			parse_refuse(r, &f, "the command is longer than %zu bytes",
			             r->set->max_command);
		else
			parse_refuse(r, &f, "all commands together are longer than %zu bytes",
			             r->set->max_rendered);
		return SPAN("");
	}
	unresolved_report(c, l, text);
	return arena_span(r->a, str_view(&out));
}

void commands_read(struct commands *c, const struct command_source *source, struct role *role)
{
	struct field roles = field_get(&c->deployment, "taskRoles");
	struct field its = field_get(&roles, source->name.p);
	struct field commands = field_get(source->role, "commands");
	const struct field parts[] = { field_get(&its, "preCommands"), commands,
		                       field_get(&its, "postCommands") };
	struct line_lists l = { .n = 0 };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (node_is(parts[i].n, NODE_LIST))
			l.list[l.n++] = parts[i];
	}
	role->command = span_trim(pai_v2_render(c, &l, source));
	parse_command(c->r, role, &commands);
}

/* ---- deployments ---- */

void deployments_read(struct commands *c, const struct field *all)
{
	struct parse_context *r = c->r;
	struct field defaults = field_get(TOP(r), "defaults");
	struct field wanted = field_get(&defaults, "deployment");
	uint32_t n = field_items(all);
	struct prerequisites names = { .list = *all };
	names.v = ARENA_NEW(r->a, struct prerequisite, n);
	for (uint32_t i = 0; i < n; i++) {
		struct span name = parse_text(&all->n->item[i], "name");
		if (name.n)
			names.v[names.n++] =
			    (struct prerequisite){ name, SPAN("deployment"), NULL, i, false };
	}
	prerequisites_sort(r, &names);
	for (uint32_t i = 0; i < n; i++) {
		struct field one = field_item(all, i);
		struct field roles = field_get(&one, "taskRoles");
		if (!node_is(roles.n, NODE_MAP))
			continue;
		suggest_roles(r, &roles);
		if (!c->deployment.n && node_is(wanted.n, NODE_TEXT) &&
		    span_eq(node_span(wanted.n), parse_text(one.n, "name")))
			c->deployment = one;
	}
	if (wanted.n == NULL && node_is(all->n, NODE_LIST))
		parse_warn(r, all,
		           "none of them is in force, since defaults.deployment names none");
	if (node_is(wanted.n, NODE_TEXT) && !c->deployment.n &&
	    !suggest_misspelt(r, "deployments")) {
		const char *hint = suggest_name(r, all->n, NULL, node_span(wanted.n));
		parse_refuse(r, &wanted, "there is no deployment \"%s\"%s",
		             arena_quoted(r->a, node_span(wanted.n)), suggest_sentence(r->a, hint));
	}
}
