/* Compares texts with the patterns of schemas, simple ones byte by byte. */
#include "base/regex/regex.h"
#include "schema/schema_internal.h"

/* Takes `[CLASS]` off *rest; NULL if another form comes next, or an escape. */
static const char *pattern_take_class(struct arena *a, struct span *rest)
{
	size_t end = span_chr(*rest, ']');
	if (!span_starts(*rest, "[") || end == rest->n)
		return NULL;
	struct span class = span_from(span_to(*rest, end), 1);
	*rest = span_from(*rest, end + 1);
	return class.n && span_all(class, "A-Za-z0-9._:~-") ? arena_dup(a, class) : NULL;
}

static bool pattern_read_simple(struct pattern *p, struct arena *a, struct span rest)
{
	if (!span_starts(rest, "^"))
		return false;
	rest = span_from(rest, 1);
	p->first = p->rest = pattern_take_class(a, &rest);
	if (span_is(rest, "+$"))
		return p->first;
	p->rest = pattern_take_class(a, &rest);
	return p->first && p->rest && span_is(rest, "*$");
}

bool pattern_matches(const struct pattern *p, struct span text)
{
	if (!p->regex)
		return text.n > 0 && class_has_char(text.p[0], p->first) &&
		       span_skip_class(text, 1, p->rest) == text.n;
	struct text_span t;
	struct match m;
	regex_text_of(&t, text);
	return regex_search(p->regex, &t.text, INT64_MAX, &m) == REGEX_FOUND;
}

struct pattern *pattern_new(struct arena *a, struct span source, const char *words, struct err *e)
{
	struct pattern *p = ARENA_NEW(a, struct pattern, 1);
	p->words = words ?: arena_printf(a, "must match the pattern %.*s", (int)source.n, source.p);
	if (pattern_read_simple(p, a, source))
		return p;
	p->regex = regex_compile(source, a, e);
	return p->regex ? p : NULL;
}
