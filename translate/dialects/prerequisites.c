/*
 * v2: prerequisites by name and type, image references, and logins for registries,
 * whose placeholders are filled from `secrets` alone.
 */
#include <stdlib.h>

#include "base/image/image.h"
#include "translate/dialects/hint.h"
#include "translate/dialects/render.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

enum { LOGIN_MAX = 16384, LOGINS_MAX = 256 };

struct prerequisite {
	struct span name, type;
	const struct node *node;
	size_t index; /* in the document */
	bool used;    /* some role, or another one, names it */
};

/* Sorted by name, type and index. */
struct prerequisites {
	struct prerequisite *v;
	size_t n;
	const struct node *list;
	bool unsure; /* some of them have no name or type that counts, which is said elsewhere */
	bool missed; /* some role names one that does not exist */
};

static int compare_span(struct span a, struct span b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;
	return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int compare(const void *a, const void *b)
{
	const struct prerequisite *x = a;
	const struct prerequisite *y = b;
	int c = compare_span(x->name, y->name);
	c = c ? c : compare_span(x->type, y->type);
	return c ? c : (x->index > y->index) - (x->index < y->index);
}

/* Offset of the first one that is not below (name, type). */
static size_t lower_bound(const struct prerequisites *all, struct span name, struct span type)
{
	struct prerequisite key = { .name = name, .type = type };
	size_t low = 0;
	for (size_t high = all->n; low < high;) {
		size_t mid = low + (high - low) / 2;
		if (compare(&all->v[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct node *prerequisites_find(const struct prerequisites *all, struct span name,
                                      const char *type)
{
	size_t i = lower_bound(all, name, span_of(type));
	bool found = i < all->n && span_eq(all->v[i].name, name) && span_is(all->v[i].type, type);
	if (found)
		all->v[i].used = true;
	return found ? all->v[i].node : NULL;
}

void prerequisites_refuse(struct reading *r, struct prerequisites *all, const struct path *p,
                          const struct node *name, const char *type)
{
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	char meant[4 * QUOTE_MAX] NOT_ZEROED;
	all->missed = true;
	if (all->unsure)
		return;
	struct span hint = hint_name(r, all->list, type, node_span(name));
	reading_refuse(r, p, name, "there is no %s%sprerequisite \"%s\"%s%s%s", type ? type : "",
	               type ? " " : "", quote(buf, node_span(name)),
	               hint.n ? "; did you mean `" : "", hint.n ? quote(meant, hint) : "",
	               hint.n ? "`?" : "");
}

bool prerequisites_has(const struct prerequisites *all, struct span name)
{
	size_t from = lower_bound(all, name, (struct span){ "", 0 });
	size_t i = from;
	for (; i < all->n && span_eq(all->v[i].name, name); i++)
		all->v[i].used = true;
	return i > from;
}

static void check_repeated(struct reading *r, const struct path *list,
                           const struct prerequisites *all)
{
	char name[4 * QUOTE_MAX] NOT_ZEROED;
	for (size_t i = 1; i < all->n; i++) {
		const struct prerequisite *one = &all->v[i - 1];
		const struct prerequisite *two = &all->v[i];
		if (!span_eq(one->name, two->name) || !span_eq(one->type, two->type))
			continue;
		struct path p = PATH_INDEX(list, two->index);
		reading_refuse(r, &p, two->node, "repeats %.*s %s", (int)two->type.n, two->type.p,
		               quote(name, two->name));
	}
}

/* ---- logins ------------------------------------------------------------------------------------
 */

struct login_reader {
	struct reading *r;
	struct render render;
	struct registry_login *v;
};

static void refuse_unresolved(struct login_reader *l, const struct path *p, const struct node *n)
{
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	char meant[4 * QUOTE_MAX] NOT_ZEROED;
	struct span name = l->render.unresolved[0].name;
	struct span hint = hint_placeholder(&l->render, l->r->a, name);
	if (!hint_misspelt(l->r, "secrets"))
		reading_refuse(l->r, p, n, "there is no %s to fill in%s%s%s", quote(buf, name),
		               hint.n ? "; did you mean `" : "", hint.n ? quote(meant, hint) : "",
		               hint.n ? "`?" : "");
}

/* One member of `auth`, filled in. */
static struct span auth_text(struct login_reader *l, const struct path *auth,
                             const struct member *m)
{
	struct reading *r = l->r;
	struct path p = PATH_KEY(auth, member_key(m));
	struct str out = STR_INIT(LOGIN_MAX);
	struct span none = { "", 0 };
	if (!node_is(&m->value, NODE_TEXT)) {
		reading_refuse(r, &p, &m->value, "must be text, is %s", node_type_name(&m->value));
		return none;
	}
	if (span_is(node_span(&m->value), MASK)) {
		reading_refuse(r, &p, &m->value, "is masked; put the value in again");
		return none;
	}
	if (render_text(&l->render, node_span(&m->value), &out)) {
		reading_refuse(r, &p, &m->value, "%s", render_problem_text(l->render.problem));
	} else if (l->render.n_unresolved) {
		refuse_unresolved(l, &p, &m->value);
	} else if (out.full) {
		reading_refuse(r, &p, &m->value, "is longer than %d bytes", LOGIN_MAX);
	}
	bool literal = span_find(node_span(&m->value), 0, "<%") == SIZE_MAX;
	if (literal && m->value.n && span_is(member_key(m), "password"))
		reading_warn(r, &p, &m->value, WARN_PASSWORD);
	/* As all that is filled in: a secret that was read from a file ends in a line break. */
	struct span text = arena_span(r->a, span_trim(str_view(&out)));
	str_wipe(&out);
	return text;
}

/* The later of two logins for one registry wins. */
static void add_login(struct login_reader *l, const struct path *p, const struct node *auth,
                      struct registry_login login)
{
	struct job *job = l->r->job;
	size_t i = 0;
	while (i < job->n_logins && !span_eq(l->v[i].registry, login.registry))
		i++;
	if (i == LOGINS_MAX) {
		reading_refuse(l->r, p, auth,
		               "is for one registry too many: at most %d are allowed", LOGINS_MAX);
		return;
	}
	l->v[i] = login;
	job->n_logins += i == job->n_logins;
}

/* Without `registryuri` it is for the registry of the image, as in the check of the image. */
static void read_auth(struct login_reader *l, const struct path *image, const struct node *auth,
                      struct span uri)
{
	struct registry_login login = { SPAN(""), SPAN(""), SPAN("") };
	struct path p = PATH_KEY(image, SPAN("auth"));
	for (uint32_t i = 0; i < auth->n; i++) {
		const struct member *m = &auth->member[i];
		struct path at = PATH_KEY(&p, member_key(m));
		struct span text = auth_text(l, &p, m);
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
			reading_refuse(l->r, &at, &m->value, "%s", problem);
	}
	if (login.registry.n == 0)
		login.registry = image_default_registry(uri, l->r->a);
	add_login(l, &p, auth, login);
}

static void read_image(struct login_reader *l, const struct path *image, const struct node *n)
{
	struct path p = PATH_KEY(image, SPAN("uri"));
	const struct node *uri = node_get(n, "uri");
	if (node_is(uri, NODE_TEXT)) {
		char buf[4 * QUOTE_MAX] NOT_ZEROED;
		const char *problem = names_image_problem(node_span(uri));
		if (problem)
			reading_refuse(l->r, &p, uri, "%s%s%s%s", uri->n ? "\"" : "",
			               quote(buf, node_span(uri)), uri->n ? "\" " : "", problem);
	}
	const struct node *auth = node_get(n, "auth");
	if (node_is(auth, NODE_MAP)) {
		l->r->job->has_auth = true;
		read_auth(l, image, auth, reading_text(n, "uri"));
	}
}

/* ---- all of them
 * --------------------------------------------------------------------------------- */

/* Has it a name and a type, so that roles can refer to it? */
static bool is_prerequisite(const struct node *n, struct span type)
{
	static const char *const TYPES[] = { "script", "output", "data", "dockerimage", NULL };
	const char *const *t = TYPES;
	while (*t && !span_is(type, *t))
		t++;
	return *t && node_is(node_get(n, "name"), NODE_TEXT);
}

struct prerequisites *prerequisites_read(struct reading *r)
{
	struct prerequisites *all = ARENA_NEW(r->a, struct prerequisites, 1);
	const struct node *list = node_get(r->root, "prerequisites");
	all->unsure = hint_misspelt(r, "prerequisites") || (list && list->type != NODE_LIST);
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
		struct span type = reading_text(n, "type");
		if (span_is(type, "dockerimage"))
			read_image(&l, &one, n);
		all->unsure |= !is_prerequisite(n, type);
		if (node_is(node_get(n, "name"), NODE_TEXT))
			all->v[all->n++] =
			    (struct prerequisite){ reading_text(n, "name"), type, n, i, false };
	}
	qsort(all->v, all->n, sizeof(*all->v), compare);
	check_repeated(r, &p, all);
	r->job->logins = l.v;
	return all;
}

/* A plugin of prerequisites may require others. */
static void use_required(const struct prerequisites *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct node *names = node_get(all->v[i].node, "require");
		for (uint32_t k = 0; node_is(names, NODE_LIST) && k < names->n; k++)
			if (node_is(&names->item[k], NODE_TEXT))
				(void)prerequisites_has(all, node_span(&names->item[k]));
	}
}

void prerequisites_done(struct reading *r, const struct prerequisites *all)
{
	struct path p = PATH_KEY(NULL, SPAN("prerequisites"));
	use_required(all);
	/* A key that the schema refused may be the one that names it. */
	bool told =
	    all->unsure || all->missed || r->job->n_roles == 0 || r->schema_notes > r->doc_notes;
	for (size_t i = 0; i < all->n && !told; i++) {
		struct path one = PATH_INDEX(&p, all->v[i].index);
		if (!all->v[i].used)
			reading_warn(r, &one, all->v[i].node, WARN_UNUSED);
	}
}
