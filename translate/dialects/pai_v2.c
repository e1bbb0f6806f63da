/* Jobs of protocol 2 (YAML or JSON): prerequisites, commands of deployments and roles, then the
 * roles and the job. The schema has checked the types; this file checks the rest. */
#include <stdlib.h>

#include "base/image/image.h"
#include "translate/dialects/render.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

/* ---- prerequisites ---- */

enum { LOGIN_MAX = 16384, LOGINS_MAX = 256 };

struct prerequisite {
	struct span name, type;
	const struct node *node;
	size_t index; /* in the document */
	bool used;    /* a role or another prerequisite names it */
};

/* Sorted by name, type and index. */
struct prerequisites {
	struct prerequisite *v;
	size_t n;
	const struct node *list;
	bool unsure; /* some have no valid name or type, which is reported elsewhere */
	bool missed; /* a role names one that does not exist */
};

static int compare_span(struct span a, struct span b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;
	return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int pai_v2_compare(const void *a, const void *b)
{
	const struct prerequisite *x = a;
	const struct prerequisite *y = b;
	int c = compare_span(x->name, y->name);
	c = c ? c : compare_span(x->type, y->type);
	return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* Binary search: the first entry that is not below (name, type). */
static size_t lower_bound(const struct prerequisites *all, struct span name, struct span type)
{
	struct prerequisite key = { .name = name, .type = type };
	size_t low = 0;
	for (size_t high = all->n; low < high;) {
		size_t mid = low + (high - low) / 2;
		if (pai_v2_compare(&all->v[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static const struct node *prerequisites_find(const struct prerequisites *all, struct span name,
                                             const char *type)
{
	size_t i = lower_bound(all, name, span_of(type));
	bool found = i < all->n && span_eq(all->v[i].name, name) && span_is(all->v[i].type, type);
	if (found)
		all->v[i].used = true;
	return found ? all->v[i].node : NULL;
}

static void prerequisites_refuse(struct parse_context *r, struct prerequisites *all,
                                 const struct path *p, const struct node *name, const char *type)
{
	all->missed = true;
	if (all->unsure)
		return;
	struct span hint = suggest_name(r, all->list, type, node_span(name));
	parse_refuse(r, p, name, "there is no %s%sprerequisite \"%s\"%s", type ? type : "",
	             type ? " " : "", quoted(r->a, node_span(name)), did_you_mean(r->a, hint));
}

static bool prerequisites_has(const struct prerequisites *all, struct span name)
{
	size_t from = lower_bound(all, name, (struct span){ "", 0 });
	size_t i = from;
	for (; i < all->n && span_eq(all->v[i].name, name); i++)
		all->v[i].used = true;
	return i > from;
}

static void check_repeated(struct parse_context *r, const struct path *list,
                           const struct prerequisites *all)
{
	for (size_t i = 1; i < all->n; i++) {
		const struct prerequisite *one = &all->v[i - 1];
		const struct prerequisite *two = &all->v[i];
		if (!span_eq(one->name, two->name) || !span_eq(one->type, two->type))
			continue;
		struct path p = PATH_INDEX(list, two->index);
		parse_refuse(r, &p, two->node, "repeats %.*s %s", (int)two->type.n, two->type.p,
		             quoted(r->a, two->name));
	}
}

/* ---- logins ---- */

struct login_reader {
	struct parse_context *r;
	struct render render;
	struct registry_login *v;
};

static void refuse_unresolved(struct login_reader *l, const struct path *p, const struct node *n)
{
	struct span name = l->render.unresolved[0].name;
	struct span hint = suggest_placeholder(&l->render, l->r->a, name);
	if (!suggest_misspelt(l->r, "secrets"))
		parse_refuse(l->r, p, n, "there is no %s to fill in%s", quoted(l->r->a, name),
		             did_you_mean(l->r->a, hint));
}

static struct span pai_v2_auth_text(struct login_reader *l, const struct path *auth,
                                    const struct member *m)
{
	struct parse_context *r = l->r;
	struct path p = PATH_KEY(auth, member_key(m));
	struct str out = STR_INIT(LOGIN_MAX);
	struct span none = { "", 0 };
	if (!node_is(&m->value, NODE_TEXT)) {
		parse_wrong_type(r, &p, &m->value, "text");
		return none;
	}
	if (span_is(node_span(&m->value), REDACTED)) {
		parse_refuse(r, &p, &m->value, "is masked; put the value in again");
		return none;
	}
	if (render_text(&l->render, node_span(&m->value), &out)) {
		parse_refuse(r, &p, &m->value, "%s", render_problem_text(l->render.problem));
	} else if (l->render.n_unresolved) {
		refuse_unresolved(l, &p, &m->value);
	} else if (out.full) {
		parse_refuse(r, &p, &m->value, "is longer than %d bytes", LOGIN_MAX);
	}
	bool literal = span_find(node_span(&m->value), 0, "<%") == SIZE_MAX;
	if (literal && m->value.n && span_is(member_key(m), "password"))
		parse_warn(r, &p, &m->value, WARN_PASSWORD);
	/* A secret that was read from a file ends in a line break. */
	struct span text = arena_span(r->a, span_trim(str_view(&out)));
	str_wipe(&out);
	return text;
}

/* A later login for the same registry replaces the earlier one. */
static void add_login(struct login_reader *l, const struct path *p, const struct node *auth,
                      struct registry_login login)
{
	struct job *job = l->r->job;
	size_t i = 0;
	while (i < job->n_logins && !span_eq(l->v[i].registry, login.registry))
		i++;
	if (i == LOGINS_MAX) {
		parse_refuse(l->r, p, auth, "is for one registry too many: at most %d are allowed",
		             LOGINS_MAX);
		return;
	}
	l->v[i] = login;
	job->n_logins += i == job->n_logins;
}

/* Without `registryuri` the login is for the registry of the image. */
static void read_auth(struct login_reader *l, const struct path *image, const struct node *auth,
                      struct span uri)
{
	struct registry_login login = { SPAN(""), SPAN(""), SPAN("") };
	struct path p = PATH_KEY(image, SPAN("auth"));
	for (uint32_t i = 0; i < auth->n; i++) {
		const struct member *m = &auth->member[i];
		struct path at = PATH_KEY(&p, member_key(m));
		struct span text = pai_v2_auth_text(l, &p, m);
		const char *problem = NULL;
		if (span_is(member_key(m), "registryuri")) {
			login.registry = text;
			problem = text.n ? names_registry_problem(text) : NULL;
		} else if (span_is(member_key(m), "username")) {
			login.username = text;
			problem =
			    span_find(text, 0, ":") != SIZE_MAX ? "must not contain a colon" : NULL;
		} else if (span_is(member_key(m), "password")) {
			login.password = text;
		}
		if (problem)
			parse_refuse(l->r, &at, &m->value, "%s", problem);
	}
	if (login.registry.n == 0)
		login.registry = image_default_registry(uri, l->r->a);
	add_login(l, &p, auth, login);
}

static void pai_v2_read_image(struct login_reader *l, const struct path *image,
                              const struct node *n)
{
	struct path p = PATH_KEY(image, SPAN("uri"));
	const struct node *uri = node_get(n, "uri");
	if (node_is(uri, NODE_TEXT)) {
		const char *problem = names_image_problem(node_span(uri));
		if (problem)
			parse_refuse(l->r, &p, uri, "%s%s%s%s", uri->n ? "\"" : "",
			             quoted(l->r->a, node_span(uri)), uri->n ? "\" " : "", problem);
	}
	const struct node *auth = node_get(n, "auth");
	if (node_is(auth, NODE_MAP)) {
		l->r->job->has_auth = true;
		read_auth(l, image, auth, parse_text(n, "uri"));
	}
}

/* ---- all prerequisites ---- */

/* Whether roles can refer to it. */
static bool is_prerequisite(const struct node *n, struct span type)
{
	static const char *const TYPES[] = { "script", "output", "data", "dockerimage", NULL };
	const char *const *t = TYPES;
	while (*t && !span_is(type, *t))
		t++;
	return *t && node_is(node_get(n, "name"), NODE_TEXT);
}

static struct prerequisites *prerequisites_read(struct parse_context *r)
{
	struct prerequisites *all = ARENA_NEW(r->a, struct prerequisites, 1);
	const struct node *list = node_get(r->root, "prerequisites");
	all->unsure = suggest_misspelt(r, "prerequisites") || (list && list->type != NODE_LIST);
	if (!node_is(list, NODE_LIST))
		return all;
	all->list = list;
	struct root roots[] = { { "$secrets", node_get(r->root, "secrets") } };
	struct login_reader l = { .r = r, .render = { .roots = roots, .n_roots = 1 } };
	l.v = ARENA_NEW(r->a, struct registry_login, list->n + 1);
	all->v = ARENA_NEW(r->a, struct prerequisite, list->n + 1);
	struct path p = PATH_KEY(NULL, SPAN("prerequisites"));
	for (uint32_t i = 0; i < list->n; i++) {
		const struct node *n = list->item + i;
		struct path one = PATH_INDEX(&p, i);
		struct span type = parse_text(n, "type");
		if (span_is(type, "dockerimage"))
			pai_v2_read_image(&l, &one, n);
		all->unsure |= !is_prerequisite(n, type);
		if (node_is(node_get(n, "name"), NODE_TEXT))
			all->v[all->n++] =
			    (struct prerequisite){ parse_text(n, "name"), type, n, i, false };
	}
	qsort(all->v, all->n, sizeof(*all->v), pai_v2_compare);
	check_repeated(r, &p, all);
	r->job->logins = l.v;
	return all;
}

/* Prerequisites may require others. */
static void use_required(const struct prerequisites *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct node *names = node_get(all->v[i].node, "require");
		for (uint32_t k = 0; node_is(names, NODE_LIST) && k < names->n; k++)
			if (node_is(&names->item[k], NODE_TEXT))
				(void)prerequisites_has(all, node_span(&names->item[k]));
	}
}

static void prerequisites_done(struct parse_context *r, const struct prerequisites *all)
{
	struct path p = PATH_KEY(NULL, SPAN("prerequisites"));
	use_required(all);
	/* The schema may have refused the key that names it. */
	bool told =
	    all->unsure || all->missed || r->job->n_roles == 0 || r->schema_notes > r->doc_notes;
	for (size_t i = 0; i < all->n && !told; i++) {
		struct path one = PATH_INDEX(&p, all->v[i].index);
		if (!all->v[i].used)
			parse_warn(r, &one, all->v[i].node, WARN_UNUSED);
	}
}

/* The command of a role: preCommands of the deployment, commands of the role, postCommands; each
 * line trimmed, joined by newlines, then rendered as one text. */

/* The active deployment: its map of roles, or NULL. */
struct deployment {
	const struct node *roles;
	size_t index;
};

/* The commands of one role. */
struct command_source {
	const struct node *role;
	const struct path *path;
	struct span name;
	struct deployment deployment;
	const struct node *values[3]; /* of $script, $output and $data, or NULL */
};

enum { PARAMETERS, SCRIPT, OUTPUT, DATA, SECRETS, ROOTS };

struct commands {
	struct parse_context *r;
	struct root roots[ROOTS];
	struct render render;
	struct render later; /* secrets are filled in by pai-runtime */
	struct render all;   /* for suggestions */
	const struct node *deployments;
	bool missed[ROOTS];
};

/* Up to three lists of lines and their paths. */
struct lines {
	const struct node *list[3];
	struct path path[3];
	size_t n;
};

/* A position in a line of the command. */
struct location {
	struct path path;
	const struct node *node;
	size_t offset;
};

static struct commands *commands_new(struct parse_context *r)
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

static void pai_v2_add_lines(struct lines *l, const struct node *map, const struct path *up,
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

static struct span pai_v2_join(struct arena *a, const struct lines *l)
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

/* The line at an offset of the joined text. */
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
	return (struct location){ PATH_KEY(NULL, SPAN("taskRoles")), NULL, 0 };
}

static void say_problem(struct commands *c, const struct lines *l)
{
	struct location s = find_location(l, c->render.problem_at);
	parse_refuse(c->r, &s.path, s.node, "%s, at character %zu",
	             render_problem_text(c->render.problem), s.offset + 1);
}

/* Whether the root of the name is missing because of an error that is reported elsewhere. */
static bool is_said_already(const struct commands *c, struct span name)
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
static void say_nothing(struct commands *c, const struct location *s, const struct unresolved *u)
{
	const struct node *n = render_find(&c->all, u->name);
	bool secret = span_starts(u->name, "$secrets.");
	const char *fate =
	    secret && c->roots[SECRETS].value ? "nothing is put there" : "it is left as it is";
	struct span hint =
	    n ? (struct span){ NULL, 0 } : suggest_placeholder(&c->all, c->r->a, u->name);
	const char *tag = quoted(c->r->a, u->tag);
	if (n)
		parse_warn(c->r, &s->path, s->node, WARN_NULL, tag, fate);
	else if (hint.p)
		parse_warn(c->r, &s->path, s->node, WARN_UNRESOLVED_HINT, tag, fate,
		           quoted(c->r->a, hint));
	else
		parse_warn(c->r, &s->path, s->node, WARN_UNRESOLVED, tag, fate);
}

static void say_tag(struct commands *c, const struct lines *l, size_t offset, struct span tag,
                    bool inner)
{
	struct location s = find_location(l, offset);
	if (tag.n && inner)
		parse_warn(c->r, &s.path, s.node, WARN_INNER, quoted(c->r->a, tag));
	else if (tag.n)
		parse_warn(c->r, &s.path, s.node, WARN_TAKEN_OUT, quoted(c->r->a, tag));
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

static struct span pai_v2_render(struct commands *c, const struct lines *l, struct span text,
                                 const struct command_source *source)
{
	struct parse_context *r = c->r;
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
			parse_refuse(r, &p, n, "the command is longer than %zu bytes",
			             r->set->max_command);
		else
			parse_refuse(r, &p, n, "all commands together are longer than %zu bytes",
			             r->set->max_rendered);
		return (struct span){ "", 0 };
	}
	say_unresolved(c, l, text);
	return arena_span(r->a, str_view(&out));
}

static void commands_read(struct commands *c, const struct command_source *source,
                          struct role *role)
{
	const struct member *m =
	    source->deployment.roles ? node_member(source->deployment.roles, source->name) : NULL;
	struct path deployments = PATH_KEY(NULL, SPAN("deployments"));
	struct path deployment = PATH_INDEX(&deployments, source->deployment.index);
	struct path roles = PATH_KEY(&deployment, SPAN("taskRoles"));
	struct path mine = PATH_KEY(&roles, source->name);
	struct lines l = { .n = 0 };
	if (m)
		pai_v2_add_lines(&l, &m->value, &mine, "preCommands");
	pai_v2_add_lines(&l, source->role, source->path, "commands");
	if (m)
		pai_v2_add_lines(&l, &m->value, &mine, "postCommands");
	role->command = span_trim(pai_v2_render(c, &l, pai_v2_join(c->r->a, &l), source));
	struct path p = PATH_KEY(source->path, SPAN("commands"));
	parse_command(c->r, role, &p, node_get(source->role, "commands"));
}

/* ---- deployments ---- */

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

/* Sorts, because there may be thousands. */
static void commands_check_repeated(struct parse_context *r, const struct path *list,
                                    const struct node *all)
{
	uint32_t n = node_is(all, NODE_LIST) ? all->n : 0;
	struct named *v = ARENA_NEW(r->a, struct named, n);
	for (uint32_t i = 0; i < n; i++)
		v[i] = (struct named){ parse_text(all->item + i, "name"), i };
	qsort(v, n, sizeof(*v), compare_named);
	for (uint32_t i = 1; i < n; i++) {
		if (v[i].name.n == 0 || !span_eq(v[i].name, v[i - 1].name))
			continue;
		struct path p = PATH_INDEX(list, v[i].index);
		parse_refuse(r, &p, all->item + v[i].index, "repeats deployment %s",
		             quoted(r->a, v[i].name));
	}
}

static struct deployment deployments_read(struct parse_context *r)
{
	struct deployment on = { NULL, 0 };
	struct path p = PATH_KEY(NULL, SPAN("deployments"));
	const struct node *all = node_get(r->root, "deployments");
	const struct node *wanted = node_get(node_get(r->root, "defaults"), "deployment");
	bool found = false;
	commands_check_repeated(r, &p, all);
	for (uint32_t i = 0; node_is(all, NODE_LIST) && i < all->n; i++) {
		const struct node *n = all->item + i;
		const struct node *roles = node_get(n, "taskRoles");
		struct path one = PATH_INDEX(&p, i);
		if (!node_is(roles, NODE_MAP))
			continue;
		struct path at = PATH_KEY(&one, SPAN("taskRoles"));
		suggest_roles(r, &at, roles);
		if (found || !node_is(wanted, NODE_TEXT) ||
		    !span_eq(node_span(wanted), parse_text(n, "name")))
			continue;
		found = true;
		on = (struct deployment){ roles, i };
	}
	if (wanted == NULL && node_is(all, NODE_LIST))
		parse_warn(r, &p, all, WARN_NO_DEPLOYMENT);
	if (node_is(wanted, NODE_TEXT) && !found && !suggest_misspelt(r, "deployments")) {
		struct path defaults = PATH_KEY(NULL, SPAN("defaults"));
		struct path at = PATH_KEY(&defaults, SPAN("deployment"));
		struct span hint = suggest_name(r, all, NULL, node_span(wanted));
		parse_refuse(r, &at, wanted, "there is no deployment \"%s\"%s",
		             quoted(r->a, node_span(wanted)), did_you_mean(r->a, hint));
	}
	return on;
}

enum { FROM_SCRIPT, FROM_OUTPUT, FROM_DATA, FROM_IMAGE, FROM_MAX };

/* Fields of a role that name a prerequisite, with its type, in the order of the checks. */
static const struct {
	const char *field, *type;
} REFERENCES[FROM_MAX] = {
	[FROM_SCRIPT] = { "script", "script" },
	[FROM_OUTPUT] = { "output", "output" },
	[FROM_DATA] = { "data", "data" },
	[FROM_IMAGE] = { "dockerImage", "dockerimage" },
};

struct v2 {
	struct parse_context *r;
	struct prerequisites *prerequisites;
	struct deployment deployment;
	struct commands *commands;
};

static const char *const OPTIONS_KNOWN[] = { "fuse", "hostNetwork", "infiniband", "shmMB", NULL };
static const char *const DEFAULTS_KNOWN[] = { "deployment", "virtualCluster", NULL };
static const struct int_field RETRIES = { "jobRetryCount", 0, INT32_MAX, 0 };
static const struct int_field TASK_RETRIES = { "taskRetryCount", -2, INT32_MAX, 0 };
static const struct int_field MIN_FAILED = { "minFailedInstances", -1, INT32_MAX, 0 };
static const struct int_field MIN_SUCCEEDED = { "minSucceededInstances", -1, INT32_MAX, 0 };
static const struct int_field CPU = { "cpu", 0, INT32_MAX, 0 };
static const struct int_field MEMORY = { "memoryMB", 1, INT32_MAX, 1 };
static const struct int_field GPU = { "gpu", 0, INT32_MAX, 0 };
static const struct int_field SHM = { "shmMB", 0, INT32_MAX, 0 };

/* ---- one role ---- */

static void warn_above(struct parse_context *r, const struct path *up, const struct node *map,
                       const char *key, int64_t instances)
{
	const struct node *n = node_get(map, key);
	struct path p = PATH_KEY(up, span_of(key));
	if (node_is(n, NODE_INT) && n->integer > instances)
		parse_warn(r, &p, n, WARN_NEVER);
}

/* Zero counts as absent. */
static void read_completion(struct parse_context *r, const struct path *role, const struct node *n,
                            struct role *out)
{
	const struct node *c = node_get(n, "completion");
	struct path p = PATH_KEY(role, SPAN("completion"));
	int64_t failed = parse_int(r, &p, c, &MIN_FAILED);
	int64_t succeeded = parse_int(r, &p, c, &MIN_SUCCEEDED);
	out->min_failed_given = present(node_get(c, MIN_FAILED.name));
	out->min_succeeded_given = present(node_get(c, MIN_SUCCEEDED.name));
	out->min_failed = failed ? failed : 1;
	out->min_succeeded = succeeded ? succeeded : out->instances;
	warn_above(r, &p, c, MIN_FAILED.name, out->instances);
	warn_above(r, &p, c, MIN_SUCCEEDED.name, out->instances);
}

static void pai_v2_read_retries(struct parse_context *r, const struct path *role,
                                const struct node *n, struct role *out)
{
	int64_t max = parse_int(r, role, n, &TASK_RETRIES);
	out->task_fancy_retry = !r->job->gang;
	out->task_retry_max = r->job->gang ? 0 : max;
	struct path p = PATH_KEY(role, span_of(TASK_RETRIES.name));
	if (r->job->gang && max)
		parse_warn(r, &p, node_get(n, TASK_RETRIES.name), WARN_RETRIES);
}

static void pai_v2_read_ports(struct parse_context *r, const struct path *resource,
                              const struct node *n, struct role *out)
{
	struct path p = PATH_KEY(resource, SPAN("ports"));
	const struct node *ports = node_get(n, "ports");
	uint32_t count = node_is(ports, NODE_MAP) ? ports->n : 0;
	struct port_request *v = ARENA_NEW(r->a, struct port_request, count + 2);
	for (uint32_t i = 0; i < count; i++) {
		const struct member *m = &ports->member[i];
		struct span label = member_key(m);
		struct path one = PATH_KEY(&p, label);
		bool needed = span_is(label, "ssh") || span_is(label, "http");
		struct int_field field = { "", needed ? 1 : 0,
			                   r->set->port_end - r->set->port_start, 1 };
		v[i] = (struct port_request){ label, parse_number(r, &one, &m->value, &field) };
		parse_port_count(r, &one, &m->value, v[i].count);
	}
	out->n_ports = count;
	parse_ports_done(r, out, &p, ports, v);
}

static void pai_v2_read_grants(struct parse_context *r, const struct path *p,
                               const struct node *options, struct role *role)
{
	for (size_t bit = 0; bit < GRANT_BITS; bit++) {
		const struct node *n = node_get(options, GRANT_NAMES[bit]);
		struct path at = PATH_KEY(p, span_of(GRANT_NAMES[bit]));
		if (!node_is(n, NODE_BOOL) || !n->boolean)
			continue;
		role->wants |= 1u << bit;
		role->wants_where[bit] = path_place(r->a, &at, n);
	}
}

static void pai_v2_read_resources(struct parse_context *r, const struct path *role,
                                  const struct node *n, struct role *out)
{
	const struct node *resource = node_get(n, "resourcePerInstance");
	struct path p = PATH_KEY(role, SPAN("resourcePerInstance"));
	out->cpu = parse_int(r, &p, resource, &CPU);
	out->memory_mb = parse_mebibytes(r, &p, resource, &MEMORY);
	out->gpu = parse_int(r, &p, resource, &GPU);
	pai_v2_read_ports(r, &p, resource, out);
	const struct node *options = node_get(n, "extraContainerOptions");
	struct path o = PATH_KEY(role, SPAN("extraContainerOptions"));
	out->shm_mb = parse_mebibytes(r, &o, options, &SHM);
	struct path shm = PATH_KEY(&o, span_of(SHM.name));
	if (out->shm_mb > out->memory_mb)
		parse_warn(r, &shm, node_get(options, SHM.name), WARN_SHM,
		           (long long)out->memory_mb);
	suggest_members(r, &o, options, OPTIONS_KNOWN);
	pai_v2_read_grants(r, &o, options, out);
}

/* Looks up the prerequisites that a role names. */
static void read_references(struct v2 *v, const struct path *role, const struct node *n,
                            const struct node *found[FROM_MAX])
{
	for (size_t i = 0; i < FROM_MAX; i++) {
		const struct node *name = node_get(n, REFERENCES[i].field);
		found[i] = NULL;
		if (!node_is(name, NODE_TEXT))
			continue;
		found[i] =
		    prerequisites_find(v->prerequisites, node_span(name), REFERENCES[i].type);
		struct path p = PATH_KEY(role, span_of(REFERENCES[i].field));
		if (found[i] == NULL)
			prerequisites_refuse(v->r, v->prerequisites, &p, name, REFERENCES[i].type);
	}
	const struct node *list = node_get(n, "prerequisites");
	struct path p = PATH_KEY(role, SPAN("prerequisites"));
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *name = list->item + i;
		struct path one = PATH_INDEX(&p, i);
		if (node_is(name, NODE_TEXT) &&
		    !prerequisites_has(v->prerequisites, node_span(name)))
			prerequisites_refuse(v->r, v->prerequisites, &one, name, NULL);
	}
}

static void pai_v2_read_role(struct v2 *v, const struct path *p, const struct member *m,
                             struct role *role)
{
	struct parse_context *r = v->r;
	const struct node *n = &m->value;
	const struct int_field instances = { "instances", 1, r->set->max_instances, 1 };
	parse_role_name(r, role, p, n, member_key(m));
	role->where.line = m->key_line;
	role->where.column = m->key_column;
	suggest_old_keys(r, p, n);
	role->instances = parse_int(r, p, n, &instances);
	read_completion(r, p, n, role);
	pai_v2_read_retries(r, p, n, role);
	pai_v2_read_resources(r, p, n, role);
	const struct node *found[FROM_MAX];
	read_references(v, p, n, found);
	role->image = parse_text(found[FROM_IMAGE], "uri");
	role->image_auth = node_is(node_get(found[FROM_IMAGE], "auth"), NODE_MAP);
	const struct command_source source = {
		.role = n,
		.path = p,
		.name = member_key(m),
		.deployment = v->deployment,
		.values = { found[FROM_SCRIPT], found[FROM_OUTPUT], found[FROM_DATA] },
	};
	commands_read(v->commands, &source, role);
}

static void pai_v2_read_roles(struct v2 *v)
{
	struct parse_context *r = v->r;
	struct job *job = r->job;
	const struct node *roles = node_get(r->root, "taskRoles");
	struct path p = PATH_KEY(NULL, SPAN("taskRoles"));
	if (!node_is(roles, NODE_MAP) || !parse_roles_fit(r, &p, roles))
		return;
	job->roles = ARENA_NEW(r->a, struct role, roles->n);
	job->n_roles = roles->n;
	for (uint32_t i = 0; i < roles->n; i++) {
		struct path one = PATH_KEY(&p, member_key(&roles->member[i]));
		job->roles[i].index = i;
		pai_v2_read_role(v, &one, &roles->member[i], &job->roles[i]);
	}
	parse_roles_done(r, &p, roles);
}

/* ---- the job ---- */

void pai_v2_read(struct parse_context *r)
{
	struct job *job = r->job;
	const struct node *secrets = node_get(r->root, "secrets");
	struct path at = PATH_KEY(NULL, SPAN("secrets"));
	job->secrets = node_is(secrets, NODE_MAP) ? secrets : NULL;
	if (node_is(secrets, NODE_TEXT) && span_is(node_span(secrets), REDACTED))
		parse_refuse(r, &at, secrets,
		             "must be a mapping; this job was stored without its secrets, put "
		             "them in again");
	suggest_old_keys(r, NULL, r->root);
	struct node *document = ARENA_NEW(r->a, struct node, 1);
	*document = *r->root;
	job->v2 = document;
	job->fancy_retry = true;
	struct path retries = PATH_KEY(NULL, span_of(RETRIES.name));
	job->retry_max = parse_int(r, NULL, r->root, &RETRIES);
	job->retry_where = path_place(r->a, &retries, node_get(r->root, RETRIES.name));
	struct path extras = PATH_KEY(NULL, SPAN("extras"));
	extras_read(r, &extras, node_get(r->root, "extras"));
	struct path defaults = PATH_KEY(NULL, SPAN("defaults"));
	struct path vc = PATH_KEY(&defaults, SPAN("virtualCluster"));
	parse_virtual_cluster(r, &vc, node_get(node_get(r->root, "defaults"), "virtualCluster"));
	suggest_members(r, &defaults, node_get(r->root, "defaults"), DEFAULTS_KNOWN);
	ambiguous_scalars_parameters(r);
	struct v2 v = { .r = r };
	v.prerequisites = prerequisites_read(r);
	v.deployment = deployments_read(r);
	v.commands = commands_new(r);
	pai_v2_read_roles(&v);
	distributed_read(r);
	prerequisites_done(r, v.prerequisites);
}
