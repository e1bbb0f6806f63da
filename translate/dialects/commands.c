/*
 * v2: the command of a role.  The lines of the deployment that is on, before and
 * behind the role's own, each trimmed, joined by newlines, then rendered as one text.
 */
#include <stdlib.h>

#include "translate/dialects/hint.h"
#include "translate/dialects/warnings.h"

enum { PARAMETERS, SCRIPT, OUTPUT, DATA, SECRETS, ROOTS };

struct commands {
	struct reading *r;
	struct root roots[ROOTS];
	struct render render; /* without the secrets */
	struct render later;  /* the secrets, which the runtime fills in */
	struct render all;    /* to see what exists */
	const struct node *deployments;
	bool missed[ROOTS]; /* the role names one that does not exist */
};

/* Up to three lists of lines, with the paths that lead to them. */
struct lines {
	const struct node *list[3];
	struct path path[3];
	size_t n;
};

/* A line of the command, and how far into it. */
struct location {
	struct path path;
	const struct node *node;
	size_t offset;
};

struct commands *commands_new(struct reading *r)
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
	c->deployments = node_get(r->root, "deployments");
	return c;
}

static void add_lines(struct lines *l, const struct node *map, const struct path *up,
                      const char *key)
{
	const struct node *list = node_get(map, key);
	if (!node_is(list, NODE_LIST))
		return;
	l->list[l->n] = list;
	l->path[l->n++] = PATH_KEY(up, span_of(key));
}

static struct span line_text(const struct node *n)
{
	return node_is(n, NODE_TEXT) ? span_trim(node_span(n)) : (struct span){ "", 0 };
}

static struct span join(struct arena *a, const struct lines *l)
{
	size_t size = 0;
	for (size_t i = 0; i < l->n; i++) {
		for (uint32_t k = 0; k < l->list[i]->n; k++)
			size += line_text(l->list[i]->item + k).n + 1;
	}
	char *out = arena_alloc(a, size + 1);
	char *w = out;
	for (size_t i = 0; i < l->n; i++) {
		for (uint32_t k = 0; k < l->list[i]->n; k++) {
			struct span t = line_text(l->list[i]->item + k);
			memcpy(w, t.p, t.n);
			w += t.n;
			*w++ = '\n';
		}
	}
	*w = '\0';
	return (struct span){ out, size ? size - 1 : 0 };
}

/* Back from an offset into the joined text to a line. */
static struct location find_location(const struct lines *l, size_t offset)
{
	for (size_t i = 0; i < l->n; i++) {
		for (uint32_t k = 0; k < l->list[i]->n; k++) {
			const struct node *n = l->list[i]->item + k;
			size_t size = line_text(n).n;
			if (offset <= size)
				return (struct location){ PATH_INDEX(&l->path[i], k), n, offset };
			offset -= size + 1;
		}
	}
	return (struct location){ PATH_KEY(NULL, SPAN("taskRoles")), NULL,
		                  0 }; /* there are no lines */
}

static void say_problem(struct commands *c, const struct lines *l)
{
	struct location s = find_location(l, c->render.problem_at);
	reading_refuse(c->r, &s.path, s.node, "%s, at character %zu",
	               render_problem_text(c->render.problem), s.offset + 1);
}

/* The root of the name is not there, for a mistake that has been named. */
static bool is_said_already(const struct commands *c, struct span name)
{
	for (size_t i = 0; i < ROOTS; i++) {
		const struct root *root = &c->roots[i];
		size_t n = strlen(root->name);
		bool fits =
		    span_starts(name, root->name) && (name.n == n || strchr(".[", name.p[n]));
		if (fits && root->value == NULL)
			return i == PARAMETERS || i == SECRETS ? hint_misspelt(c->r, root->name + 1)
			                                       : c->missed[i];
	}
	return false;
}

/* What becomes of a placeholder that leads to nothing. */
static void say_nothing(struct commands *c, const struct location *s, const struct unresolved *u)
{
	char tag[4 * QUOTE_MAX] NOT_ZEROED;
	char meant[4 * QUOTE_MAX] NOT_ZEROED;
	const struct node *n = render_find(&c->all, u->name);
	bool secret = span_starts(u->name, "$secrets.");
	const char *fate =
	    secret && c->roots[SECRETS].value ? "nothing is put there" : "it is left as it is";
	struct span hint =
	    n ? (struct span){ NULL, 0 } : hint_placeholder(&c->all, c->r->a, u->name);
	quote(tag, u->tag);
	if (n)
		reading_warn(c->r, &s->path, s->node, WARN_NULL, tag, fate);
	else if (hint.p)
		reading_warn(c->r, &s->path, s->node, WARN_UNRESOLVED_HINT, tag, fate,
		             quote(meant, hint));
	else
		reading_warn(c->r, &s->path, s->node, WARN_UNRESOLVED, tag, fate);
}

static void say_tag(struct commands *c, const struct lines *l, size_t offset, struct span tag,
                    bool inner)
{
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	struct location s = find_location(l, offset);
	if (tag.n && inner)
		reading_warn(c->r, &s.path, s.node, WARN_INNER, quote(buf, tag));
	else if (tag.n)
		reading_warn(c->r, &s.path, s.node, WARN_TAKEN_OUT, quote(buf, tag));
}

static void say_unresolved(struct commands *c, const struct lines *l, struct span text)
{
	const struct render *r = &c->render;
	for (size_t i = 0; i < r->n_unresolved && i < UNRESOLVED_MAX; i++) {
		if (is_said_already(c, r->unresolved[i].name))
			continue;
		struct location s = find_location(l, (size_t)(r->unresolved[i].tag.p - text.p));
		say_nothing(c, &s, &r->unresolved[i]);
	}
	if (r->n_unresolved > UNRESOLVED_MAX)
		c->r->warnings->dropped += r->n_unresolved - UNRESOLVED_MAX;
	say_tag(c, l, (size_t)(r->taken_out.p - text.p), r->taken_out, false);
	say_tag(c, l, (size_t)(r->inner.p - text.p), r->inner, true);
}

/* The whole command with its placeholders filled in. */
static struct span render(struct commands *c, const struct lines *l, struct span text,
                          const struct command_source *source)
{
	struct reading *r = c->r;
	if (span_find(text, 0, "<%") == SIZE_MAX)
		return text;
	static const char *const FIELDS[] = { "script", "output", "data" };
	for (size_t i = 0; i < 3; i++) {
		c->roots[SCRIPT + i].value = source->values[i];
		c->missed[SCRIPT + i] = node_get(source->role, FIELDS[i]) && !source->values[i];
	}
	size_t room = r->rendered < r->set->max_rendered ? r->set->max_rendered - r->rendered : 0;
	STR_AUTO out = STR_INIT(room);
	if (render_text(&c->render, text, &out)) {
		say_problem(c, l);
		return text;
	}
	if (out.full) {
		struct path p = PATH_KEY(source->path, SPAN("commands"));
		const struct node *n = node_get(source->role, "commands");
		if (room > r->set->max_command)
			reading_refuse(r, &p, n, "the command is longer than %zu bytes",
			               r->set->max_command);
		else
			reading_refuse(r, &p, n, "all commands together are longer than %zu bytes",
			               r->set->max_rendered);
		return (struct span){ "", 0 };
	}
	say_unresolved(c, l, text);
	return arena_span(r->a, str_view(&out));
}

void commands_read(struct commands *c, const struct command_source *source, struct role *role)
{
	const struct member *m =
	    source->deployment.roles ? node_member(source->deployment.roles, source->name) : NULL;
	struct path deployments = PATH_KEY(NULL, SPAN("deployments"));
	struct path deployment = PATH_INDEX(&deployments, source->deployment.index);
	struct path roles = PATH_KEY(&deployment, SPAN("taskRoles"));
	struct path mine = PATH_KEY(&roles, source->name);
	struct lines l = { .n = 0 };
	if (m)
		add_lines(&l, &m->value, &mine, "preCommands");
	add_lines(&l, source->role, source->path, "commands");
	if (m)
		add_lines(&l, &m->value, &mine, "postCommands");
	role->command = span_trim(render(c, &l, join(c->r->a, &l), source));
	struct path p = PATH_KEY(source->path, SPAN("commands"));
	reading_command(c->r, role, &p, node_get(source->role, "commands"));
}

/* ---- deployments
 * ------------------------------------------------------------------------------------ */

/* The name of a deployment, and which one it is. */
struct named {
	struct span name;
	uint32_t index;
};

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a;
	const struct named *y = b;
	size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
	int c = n ? memcmp(x->name.p, y->name.p, n) : 0;
	c = c ? c : (x->name.n > y->name.n) - (x->name.n < y->name.n);
	return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* By sorting, since there may be thousands. */
static void check_repeated(struct reading *r, const struct path *list, const struct node *all)
{
	uint32_t n = node_is(all, NODE_LIST) ? all->n : 0;
	struct named *v = ARENA_NEW(r->a, struct named, n);
	for (uint32_t i = 0; i < n; i++)
		v[i] = (struct named){ reading_text(all->item + i, "name"), i };
	qsort(v, n, sizeof(*v), compare_named);
	for (uint32_t i = 1; i < n; i++) {
		if (v[i].name.n == 0 || !span_eq(v[i].name, v[i - 1].name))
			continue;
		struct path p = PATH_INDEX(list, v[i].index);
		char buf[4 * QUOTE_MAX] NOT_ZEROED;
		reading_refuse(r, &p, all->item + v[i].index, "repeats deployment %s",
		               quote(buf, v[i].name));
	}
}

struct deployment deployments_read(struct reading *r)
{
	struct deployment on = { NULL, 0 };
	struct path p = PATH_KEY(NULL, SPAN("deployments"));
	const struct node *all = node_get(r->root, "deployments");
	const struct node *wanted = node_get(node_get(r->root, "defaults"), "deployment");
	bool found = false;
	check_repeated(r, &p, all);
	for (uint32_t i = 0; node_is(all, NODE_LIST) && i < all->n; i++) {
		const struct node *n = all->item + i;
		const struct node *roles = node_get(n, "taskRoles");
		struct path one = PATH_INDEX(&p, i);
		if (!node_is(roles, NODE_MAP))
			continue;
		struct path at = PATH_KEY(&one, SPAN("taskRoles"));
		hint_roles(r, &at, roles);
		if (found || !node_is(wanted, NODE_TEXT) ||
		    !span_eq(node_span(wanted), reading_text(n, "name")))
			continue;
		found = true;
		on = (struct deployment){ roles, i };
	}
	if (wanted == NULL && node_is(all, NODE_LIST))
		reading_warn(r, &p, all, WARN_NO_DEPLOYMENT);
	if (node_is(wanted, NODE_TEXT) && !found && !hint_misspelt(r, "deployments")) {
		struct path defaults = PATH_KEY(NULL, SPAN("defaults"));
		struct path at = PATH_KEY(&defaults, SPAN("deployment"));
		char buf[4 * QUOTE_MAX] NOT_ZEROED;
		char meant[4 * QUOTE_MAX] NOT_ZEROED;
		struct span hint = hint_name(r, all, NULL, node_span(wanted));
		reading_refuse(r, &at, wanted, "there is no deployment \"%s\"%s%s%s",
		               quote(buf, node_span(wanted)), hint.n ? "; did you mean `" : "",
		               hint.n ? quote(meant, hint) : "", hint.n ? "`?" : "");
	}
	return on;
}
