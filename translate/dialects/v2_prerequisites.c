/* The prerequisites of a job of protocol 2, and the logins to registries that they contain. */
#include <stdlib.h>

#include "base/image/image.h"
#include "translate/dialects/pai_v2_internal.h"
#include "translate/job/names.h"
#include "translate/reader/placeholders.h"

enum { LOGIN_MAX = 16384, LOGINS_MAX = 256 };

static int pai_v2_compare(const void *a, const void *b)
{
	const struct prerequisite *x = a;
	const struct prerequisite *y = b;
	int c = span_compare(x->name, y->name);
	c = c ? c : span_compare(x->type, y->type);
	return c ? c : (x->index > y->index) - (x->index < y->index);
}

void prerequisites_sort(struct parse_context *r, const struct prerequisites *all)
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

/* Returns the first of this name and type (NULL: any), by binary search, and marks it as used; with
 * any type, all of the name. */
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

const struct node *prerequisites_named(struct parse_context *r, struct prerequisites *all,
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

/* Returns the text of a member of `auth`, with its placeholders filled in. */
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
		parse_refuse(r, f, "%s", l->render.problem);
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
		parse_warn(
		    r, f,
		    "is left out of the stored job, so that nobody can read it, and copies of the "
		    "job lack it; put it under `secrets`, and <%% $secrets.NAME %%> here");
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

struct prerequisites *prerequisites_read(struct parse_context *r)
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

void prerequisites_done(struct parse_context *r, const struct prerequisites *all)
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
			parse_warn(r, &one, "no task role uses this prerequisite");
	}
}
