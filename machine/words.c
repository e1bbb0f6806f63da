#include "machine/words.h"

enum { WORDS_EXPANDED_MAX = 4 << 20 };

void words_add(struct words *w, const char *text)
{
	if (w->n + 1 >= w->room) {
		size_t room = w->room ? 2 * w->room : 64;
		const char **more = ARENA_NEW(w->a, const char *, room);
		if (w->n)
			memcpy(more, w->v, w->n * sizeof(*more));
		w->v = more;
		w->room = room;
	}
	w->v[w->n++] = text;
	w->v[w->n] = NULL;
}

void words_add_all(struct words *w, const char *const *list)
{
	for (; list && *list; list++)
		words_add(w, *list);
}

static const char **words_find(const struct words *w, struct span name)
{
	for (size_t i = w->n; i-- > 0;) {
		if (strncmp(w->v[i], name.p, name.n) == 0 && w->v[i][name.n] == '=')
			return &w->v[i];
	}
	return NULL;
}

void words_set(struct words *w, const char *variable)
{
	const char **old = words_find(w, span_to(span_of(variable), strcspn(variable, "=")));
	if (old)
		*old = variable;
	else
		words_add(w, variable);
}

void words_set_all(struct words *w, const char *const *list)
{
	for (; list && *list; list++)
		words_set(w, *list);
}

const char *words_expand(const struct words *w, const char *text)
{
	STR_AUTO out = STR_SECRET(WORDS_EXPANDED_MAX);
	struct span rest = span_of(text);
	while (rest.n > 0) {
		size_t n = span_chr(rest, '$');
		str_span(&out, span_to(rest, n));
		rest = span_from(rest, n);
		size_t end = span_starts(rest, "$(") ? span_chr(rest, ')') : rest.n;
		bool name = end < rest.n;
		struct span key = span_from(span_to(rest, end), 2);
		const char **found = name ? words_find(w, key) : NULL;
		size_t used = name ? end + 1 : rest.n < 2 ? rest.n : 2;
		if (found)
			str_puts(&out, *found + key.n + 1);
		else
			str_span(&out, span_starts(rest, "$$") ? SPAN("$") : span_to(rest, used));
		rest = span_from(rest, used);
	}
	return arena_dup(w->a, str_view(&out));
}
