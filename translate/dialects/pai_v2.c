/* Jobs of protocol 2 (YAML or JSON): prerequisites, commands of deployments and roles, then the
 * roles and the job. The schema has checked the types; this file checks the rest. */
#include <stdlib.h>

#include "base/image/image.h"
#include "translate/dialects/dialects.h"
#include "translate/job/names.h"
#include "translate/reader/placeholders.h"
#include "translate/reader/warnings.h"

/* ---- prerequisites ---- */

enum { LOGIN_MAX = 16384, LOGINS_MAX = 256 };

/* A prerequisite that has a name to which others refer; also a deployment, whose type is
 * "deployment". */
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
	struct field list;
	bool unsure; /* some have no valid name or type, which is reported elsewhere */
	bool missed; /* a role names one that does not exist */
};

static int pai_v2_compare(const void *a, const void *b)
{
	const struct prerequisite *x = a;
	const struct prerequisite *y = b;
	int c = span_compare(x->name, y->name);
	c = c ? c : span_compare(x->type, y->type);
	return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* Sorts them, because there may be thousands, and refuses those that are there twice. */
static void prerequisites_sort(struct parse_context *r, const struct prerequisites *all)
{
	qsort(all->v, all->n, sizeof(*all->v), pai_v2_compare);
	for (size_t i = 1; i < all->n; i++) {
		const struct prerequisite *two = &all->v[i];
		struct field f = field_item(&all->list, two->index);
		if (span_eq(two[-1].name, two->name) && span_eq(two[-1].type, two->type))
			parse_refuse(r, &f, "repeats %.*s %s", (int)two->type.n, two->type.p,
			             arena_quoted(r->a, two->name));
	}
}

/* The first of this name and type (NULL: any), by binary search.  It is used now, and with any type
 * all of the name are. */
static const struct node *prerequisites_find(const struct prerequisites *all, struct span name,
                                             const char *type)
{
	struct prerequisite key = { .name = name, .type = type ? span_of(type) : SPAN("") };
	size_t low = 0;
	for (size_t high = all->n; low < high;) {
		size_t mid = low + (high - low) / 2;
		if (pai_v2_compare(&all->v[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	const struct node *found = NULL;
	for (; low < all->n && span_eq(all->v[low].name, name); low++) {
		if (type && (found || !span_is(all->v[low].type, type)))
			break;
		all->v[low].used = true;
		found = found ? found : all->v[low].node;
	}
	return found;
}

/* The prerequisite that a role names. */
static const struct node *prerequisites_named(struct parse_context *r, struct prerequisites *all,
                                              const struct field *name, const char *type)
{
	if (!node_is(name->n, NODE_TEXT))
		return NULL;
	const struct node *found = prerequisites_find(all, node_span(name->n), type);
	if (found)
		return found;
	all->missed = true;
	if (all->unsure)
		return NULL;
	const char *hint = suggest_name(r, all->list.n, type, node_span(name->n));
	parse_refuse(r, name, "there is no %s%sprerequisite \"%s\"%s", type ? type : "",
	             type ? " " : "", arena_quoted(r->a, node_span(name->n)),
	             suggest_sentence(r->a, hint));
	return NULL;
}

/* ---- logins ---- */

struct login_reader {
	struct parse_context *r;
	struct render render;
	struct registry_login *v;
};

/* The text of a member of `auth`, placeholders filled in. */
static struct span pai_v2_auth_text(struct login_reader *l, const struct field *f, bool password)
{
	struct parse_context *r = l->r;
	struct str out = STR_INIT(LOGIN_MAX);
	struct span written = field_text(f);
	if (!node_is(f->n, NODE_TEXT)) {
		parse_wrong_type(r, f, "text");
		return SPAN("");
	}
	if (span_is(written, REDACTED)) {
		parse_refuse(r, f, "is masked; put the value in again");
		return SPAN("");
	}
	if (render_text(&l->render, written, &out)) {
		parse_refuse(r, f, "%s", render_problem_text(l->render.problem));
	} else if (l->render.n_unresolved) {
		struct span name = l->render.unresolved[0].name;
		const char *hint = suggest_placeholder(&l->render, r->a, name);
		if (!suggest_misspelt(r, "secrets"))
			parse_refuse(r, f, "there is no %s to fill in%s", arena_quoted(r->a, name),
			             suggest_sentence(r->a, hint));
	} else if (out.full) {
		parse_refuse(r, f, "is longer than %d bytes", LOGIN_MAX);
	}
	if (password && written.n && span_find(written, 0, "<%") == SIZE_MAX)
		parse_warn(r, f, WARN_PASSWORD);
	/* A secret that was read from a file ends in a line break. */
	struct span text = arena_span(r->a, span_trim(str_view(&out)));
	str_wipe(&out);
	return text;
}

/* Reads a login.  Without `registryuri` it is for the registry of the image.  A later login for the
 * same registry replaces the earlier one. */
static void read_auth(struct login_reader *l, const struct field *auth, struct span uri)
{
	struct registry_login login = { SPAN(""), SPAN(""), SPAN("") };
	struct job *job = l->r->job;
	for (uint32_t i = 0; i < auth->n->n; i++) {
		struct field f = field_member(auth, i);
		struct span key = member_key(&auth->n->member[i]);
		struct span text = pai_v2_auth_text(l, &f, span_is(key, "password"));
		const char *problem = NULL;
		if (span_is(key, "registryuri")) {
			login.registry = text;
			problem = text.n ? names_registry_problem(text) : NULL;
		} else if (span_is(key, "username")) {
			login.username = text;
			problem = span_chr(text, ':') < text.n ? "must not contain a colon" : NULL;
		} else if (span_is(key, "password")) {
			login.password = text;
		}
		if (problem)
			parse_refuse(l->r, &f, "%s", problem);
	}
	if (login.registry.n == 0) { /* the address of the Hub is that which Docker writes */
		struct image image;
		login.registry = image_parse(uri, l->r->a, &image) || image.hub
		                     ? SPAN("https://index.docker.io/v1/")
		                     : span_of(image.host);
	}
	size_t i = 0;
	while (i < job->n_logins && !span_eq(l->v[i].registry, login.registry))
		i++;
	if (i == LOGINS_MAX) {
		parse_refuse(l->r, auth, "is for one registry too many: at most %d are allowed",
		             LOGINS_MAX);
		return;
	}
	l->v[i] = login;
	job->n_logins += i == job->n_logins;
}

/* ---- all prerequisites ---- */

static struct prerequisites *prerequisites_read(struct parse_context *r)
{
	/* Roles can refer to these. */
	static const char *const TYPES[] = { "script", "output", "data", "dockerimage", NULL };
	struct prerequisites *all = ARENA_NEW(r->a, struct prerequisites, 1);
	struct root roots[] = { { "$secrets", node_get(r->root, "secrets") } };
	struct login_reader l = { .r = r, .render = { .roots = roots, .n_roots = 1 } };
	struct field list = field_get(TOP(r), "prerequisites");
	all->unsure = suggest_misspelt(r, "prerequisites") || (list.n && list.n->type != NODE_LIST);
	if (!node_is(list.n, NODE_LIST))
		return all;
	all->list = list;
	l.v = ARENA_NEW(r->a, struct registry_login, list.n->n + 1);
	all->v = ARENA_NEW(r->a, struct prerequisite, list.n->n + 1);
	for (uint32_t i = 0; i < list.n->n; i++) {
		struct field one = field_item(&list, i);
		struct field uri = field_get(&one, "uri");
		struct field auth = field_get(&one, "auth");
		const struct node *name = node_get(one.n, "name");
		struct span type = parse_text(one.n, "type");
		if (span_is(type, "dockerimage")) {
			parse_image(r, &uri);
			if (node_is(auth.n, NODE_MAP)) {
				r->job->has_auth = true;
				read_auth(&l, &auth, field_text(&uri));
			}
		}
		all->unsure |= !names_listed(TYPES, type) || !node_is(name, NODE_TEXT);
		if (node_is(name, NODE_TEXT))
			all->v[all->n++] =
			    (struct prerequisite){ node_span(name), type, one.n, i, false };
	}
	prerequisites_sort(r, all);
	r->job->logins = l.v;
	return all;
}

static void prerequisites_done(struct parse_context *r, const struct prerequisites *all)
{
	/* Prerequisites may require others. */
	for (size_t i = 0; i < all->n; i++) {
		const struct node *names = node_get(all->v[i].node, "require");
		for (uint32_t k = 0; node_is(names, NODE_LIST) && k < names->n; k++)
			if (node_is(&names->item[k], NODE_TEXT))
				(void)prerequisites_find(all, node_span(&names->item[k]), NULL);
	}
	/* The schema may have refused the key that names it. */
	bool told =
	    all->unsure || all->missed || r->job->n_roles == 0 || r->schema_notes > r->doc_notes;
	for (size_t i = 0; i < all->n && !told; i++) {
		struct field one = field_item(&all->list, all->v[i].index);
		if (!all->v[i].used)
			parse_warn(r, &one, WARN_UNUSED);
	}
}

/* The command of a role: preCommands of the deployment, commands of the role, postCommands; each
 * line trimmed, joined by newlines, then rendered as one text. */

/* The commands of one role. */
struct command_source {
	const struct field *role;
	struct span name;
	const struct node *values[3]; /* of $script, $output and $data, or NULL */
};

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
	return c;
}

static struct span line_text(const struct node *n)
{
	return node_is(n, NODE_TEXT) ? span_trim(node_span(n)) : (struct span){ "", 0 };
}

static struct span pai_v2_join(struct arena *a, const struct line_lists *l)
{
	size_t size = 0;
	for (size_t i = 0; i < l->n; i++) {
		for (uint32_t k = 0; k < l->list[i].n->n; k++)
			size += line_text(l->list[i].n->item + k).n + 1;
	}
	char *out = arena_alloc(a, size + 1);
	char *w = out;
	for (size_t i = 0; i < l->n; i++) {
		for (uint32_t k = 0; k < l->list[i].n->n; k++) {
			struct span t = line_text(l->list[i].n->item + k);
			memcpy(w, t.p, t.n);
			w += t.n;
			*w++ = '\n';
		}
	}
	*w = '\0';
	return (struct span){ out, size ? size - 1 : 0 };
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
		parse_warn(c->r, line, WARN_NULL, tag, fate);
	else if (hint)
		parse_warn(c->r, line, WARN_UNRESOLVED_HINT, tag, fate,
		           arena_quoted(c->r->a, span_of(hint)));
	else
		parse_warn(c->r, line, WARN_UNRESOLVED, tag, fate);
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
		parse_warn(c->r, &s.line, WARN_TAKEN_OUT, arena_quoted(c->r->a, r->taken_out));
	}
	if (r->inner.n) {
		struct line_location s = find_location(l, (size_t)(r->inner.p - text.p));
		parse_warn(c->r, &s.line, WARN_INNER, arena_quoted(c->r->a, r->inner));
	}
}

static struct span pai_v2_render(struct commands *c, const struct line_lists *l,
                                 const struct command_source *source)
{
	struct parse_context *r = c->r;
	struct span text = pai_v2_join(r->a, l);
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
		parse_refuse(r, &s.line, "%s, at character %zu",
		             render_problem_text(c->render.problem), s.offset + 1);
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

static void commands_read(struct commands *c, const struct command_source *source,
                          struct role *role)
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

/* Finds the active deployment. */
static void deployments_read(struct commands *c, const struct field *all)
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
		parse_warn(r, all, WARN_NO_DEPLOYMENT);
	if (node_is(wanted.n, NODE_TEXT) && !c->deployment.n &&
	    !suggest_misspelt(r, "deployments")) {
		const char *hint = suggest_name(r, all->n, NULL, node_span(wanted.n));
		parse_refuse(r, &wanted, "there is no deployment \"%s\"%s",
		             arena_quoted(r->a, node_span(wanted.n)), suggest_sentence(r->a, hint));
	}
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

/* A minimum of `completion`; 0 counts as absent. */
static int64_t read_completion(struct parse_context *r, const struct field *its,
                               const struct int_field *want, const struct role *role, bool *given)
{
	struct field completion = field_get(its, "completion");
	struct field f = field_get(&completion, want->name);
	*given = node_is_present(f.n);
	if (node_is(f.n, NODE_INT) && f.n->integer > role->instances)
		parse_warn(r, &f, WARN_NEVER);
	return parse_number(r, &f, want);
}

static void pai_v2_read_ports(struct parse_context *r, const struct field *resource,
                              struct role *out)
{
	struct field ports = field_get(resource, "ports");
	uint32_t count = field_members(&ports);
	struct port_request *v = ARENA_NEW(r->a, struct port_request, count + 2);
	for (uint32_t i = 0; i < count; i++) {
		struct field one = field_member(&ports, i);
		struct span label = member_key(&ports.n->member[i]);
		bool needed = span_is(label, "ssh") || span_is(label, "http");
		struct int_field want = { "", needed ? 1 : 0, r->set->port_end - r->set->port_start,
			                  1 };
		v[i] = (struct port_request){ label, parse_number(r, &one, &want) };
		parse_port_count(r, &one, v[i].count);
	}
	out->n_ports = count;
	parse_ports_done(r, out, &ports, v);
}

static void pai_v2_read_resources(struct parse_context *r, const struct field *its,
                                  struct role *role)
{
	struct field resource = field_get(its, "resourcePerInstance");
	struct field options = field_get(its, "extraContainerOptions");
	struct field shm = field_get(&options, SHM.name);
	role->cpu = parse_int(r, &resource, &CPU);
	role->memory_mb = parse_mebibytes(r, &resource, &MEMORY);
	role->gpu = parse_int(r, &resource, &GPU);
	pai_v2_read_ports(r, &resource, role);
	role->shm_mb = parse_mebibytes(r, &options, &SHM);
	if (role->shm_mb > role->memory_mb)
		parse_warn(r, &shm, WARN_SHM, (long long)role->memory_mb);
	suggest_members(r, &options, OPTIONS_KNOWN);
	for (size_t bit = 0; bit < GRANT_BITS; bit++) {
		struct field f = field_get(&options, GRANT_NAMES[bit]);
		if (!node_is(f.n, NODE_BOOL) || !f.n->boolean)
			continue;
		role->wants |= 1u << bit;
		role->wants_where[bit] = field_place(r->a, &f);
	}
}

static void pai_v2_read_role(struct v2 *v, const struct field *its, const struct member *m,
                             struct role *role)
{
	struct parse_context *r = v->r;
	const struct int_field instances = { "instances", 1, r->set->max_instances, 1 };
	struct field retries = field_get(its, TASK_RETRIES.name);
	struct field others = field_get(its, "prerequisites");
	const struct node *found[FROM_MAX];
	parse_role_name(r, role, its, member_key(m));
	role->where.line = m->key_line;
	role->where.column = m->key_column;
	suggest_old_keys(r, its);
	role->instances = parse_int(r, its, &instances);
	role->min_failed = read_completion(r, its, &MIN_FAILED, role, &role->min_failed_given) ?: 1;
	role->min_succeeded =
	    read_completion(r, its, &MIN_SUCCEEDED, role, &role->min_succeeded_given)
		?: role->instances;
	int64_t tries = parse_number(r, &retries, &TASK_RETRIES);
	role->task_fancy_retry = !r->job->gang;
	role->task_retry_max = r->job->gang ? 0 : tries;
	if (r->job->gang && tries)
		parse_warn(r, &retries, WARN_RETRIES);
	pai_v2_read_resources(r, its, role);
	for (size_t i = 0; i < FROM_MAX; i++) {
		struct field name = field_get(its, REFERENCES[i].field);
		found[i] = prerequisites_named(r, v->prerequisites, &name, REFERENCES[i].type);
	}
	for (uint32_t i = 0; i < field_items(&others); i++) {
		struct field name = field_item(&others, i);
		(void)prerequisites_named(r, v->prerequisites, &name, NULL);
	}
	role->image = parse_text(found[FROM_IMAGE], "uri");
	role->image_auth = node_is(node_get(found[FROM_IMAGE], "auth"), NODE_MAP);
	const struct command_source source = {
		.role = its,
		.name = member_key(m),
		.values = { found[FROM_SCRIPT], found[FROM_OUTPUT], found[FROM_DATA] },
	};
	commands_read(v->commands, &source, role);
}

/* ---- the job ---- */

static void pai_v2_read_roles(struct v2 *v)
{
	struct parse_context *r = v->r;
	struct job *job = r->job;
	struct field roles = field_get(TOP(r), "taskRoles");
	if (!node_is(roles.n, NODE_MAP) || !parse_roles_fit(r, &roles))
		return;
	job->roles = ARENA_NEW(r->a, struct role, roles.n->n);
	job->n_roles = roles.n->n;
	for (uint32_t i = 0; i < roles.n->n; i++) {
		struct field one = field_member(&roles, i);
		job->roles[i].index = i;
		pai_v2_read_role(v, &one, &roles.n->member[i], &job->roles[i]);
	}
	parse_roles_done(r, &roles);
}

void pai_v2_read(struct parse_context *r)
{
	struct job *job = r->job;
	struct field secrets = field_get(TOP(r), "secrets");
	struct field retries = field_get(TOP(r), RETRIES.name);
	struct field defaults = field_get(TOP(r), "defaults");
	struct field vc = field_get(&defaults, "virtualCluster");
	struct field deployments = field_get(TOP(r), "deployments");
	job->secrets = node_is(secrets.n, NODE_MAP) ? secrets.n : NULL;
	if (span_is(field_text(&secrets), REDACTED))
		parse_refuse(r, &secrets,
		             "must be a mapping; this job was stored without its secrets, put "
		             "them in again");
	suggest_old_keys(r, TOP(r));
	struct node *document = ARENA_NEW(r->a, struct node, 1);
	*document = *r->root;
	job->v2 = document;
	job->fancy_retry = true;
	job->retry_max = parse_number(r, &retries, &RETRIES);
	job->retry_where = field_place(r->a, &retries);
	extras_read(r);
	parse_virtual_cluster(r, &vc);
	suggest_members(r, &defaults, DEFAULTS_KNOWN);
	ambiguous_scalars_parameters(r);
	struct v2 v = { .r = r };
	v.prerequisites = prerequisites_read(r);
	v.commands = commands_new(r);
	deployments_read(v.commands, &deployments);
	pai_v2_read_roles(&v);
	distributed_read(r);
	prerequisites_done(r, v.prerequisites);
}
