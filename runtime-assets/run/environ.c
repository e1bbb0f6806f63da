#include "runtime-assets/run/environ.h"

#include <stdlib.h>

static void push(struct environment *env, struct variable v)
{
	if (env->n == env->cap) {
		size_t cap = env->cap ? 2 * env->cap : 128;
		struct variable *more = ARENA_NEW(env->a, struct variable, cap);
		if (env->n)
			memcpy(more, env->v, env->n * sizeof(*more));
		env->v = more;
		env->cap = cap;
	}
	v.order = env->n;
	env->v[env->n++] = v;
}

void environment_add(struct environment *env, const char *text)
{
	const char *equals = strchr(text, '=');
	if (equals)
		push(env, (struct variable){ text, (size_t)(equals - text), 0 });
}

void environment_set(struct environment *env, const char *name, const char *value)
{
	environment_add(env, arena_printf(env->a, "%s=%s", name, value));
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Bytes of the name that a shell could use; 0 if it is not one. */
static size_t name_length(struct span s)
{
	size_t n = 0;
	while (n < s.n && (is_letter(s.p[n]) || (n > 0 && s.p[n] >= '0' && s.p[n] <= '9')))
		n++;
	return n < s.n && s.p[n] == '=' ? n : 0;
}

static void add_one(struct environment *env, struct span s, struct notes *warnings)
{
	char quoted[4 * QUOTE_MAX];
	size_t n = name_length(s);
	if (n == 0) {
		const char *equals = memchr(s.p, '=', s.n);
		struct span name = { s.p, equals ? (size_t)(equals - s.p) : s.n };
		/* No more than the name: values may be secret. */
		notes_add(warnings, NOWHERE, "\"%s\" is no name of a variable: left out",
		          equals ? quote(quoted, name) : "(text without =)");
	} else if (s.n > VARIABLE_MAX) {
		notes_add(warnings, NOWHERE,
		          "variable %s has %zu bytes, more than any process can be given: left out",
		          quote(quoted, (struct span){ s.p, n }), s.n);
	} else {
		push(env, (struct variable){ s.p, n, 0 });
	}
}

void environment_add_text(struct environment *env, struct span text, struct notes *warnings)
{
	while (text.n > 0) {
		const char *end = memchr(text.p, '\0', text.n);
		if (!end) {
			notes_add(warnings, NOWHERE, "the last variable is cut: left out");
			return;
		}
		size_t n = (size_t)(end - text.p);
		if (n > 0)
			add_one(env, (struct span){ text.p, n }, warnings);
		text.p += n + 1;
		text.n -= n + 1;
	}
}

const char *environment_get(const struct environment *env, const char *name)
{
	size_t n = strlen(name);
	for (size_t i = env->n; i-- > 0;) {
		const struct variable *v = &env->v[i];
		if (v->name_len == n && memcmp(v->text, name, n) == 0)
			return v->text + n + 1;
	}
	return NULL;
}

static int compare_names(const struct variable *a, const struct variable *b)
{
	size_t n = a->name_len < b->name_len ? a->name_len : b->name_len;
	int order = memcmp(a->text, b->text, n);
	if (order != 0)
		return order;
	return (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

/* By name; of one name, the last first. */
static int compare(const void *x, const void *y)
{
	const struct variable *a = x;
	const struct variable *b = y;
	int order = compare_names(a, b);
	return order ? order : (a->order < b->order) - (a->order > b->order);
}

char **environment_list(struct environment *env)
{
	/* A copy: the variables themselves stay in the order in which they came. */
	struct variable *sorted = ARENA_NEW(env->a, struct variable, env->n + 1);
	if (env->n)
		memcpy(sorted, env->v, env->n * sizeof(*sorted));
	qsort(sorted, env->n, sizeof(*sorted), compare);
	char **list = ARENA_NEW(env->a, char *, env->n + 1);
	size_t n = 0;
	for (size_t i = 0; i < env->n; i++) {
		if (i > 0 && compare_names(&sorted[i - 1], &sorted[i]) == 0)
			continue;
		/* execve wants char *, and changes nothing. */
		memcpy(&list[n++], &sorted[i].text, sizeof(char *));
	}
	return list;
}
