#include "server/http/query.h"

#include "base/enc.h"

static struct span decode(struct span in, struct arena *a)
{
	char *p = arena_alloc(a, in.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < in.n; i++) {
		int byte = in.p[i] == '%' ? percent_byte(in, i) : -1;
		p[n++] = (char)(byte >= 0 ? byte : in.p[i] == '+' ? ' ' : in.p[i]);
		i += byte >= 0 ? 2 : 0;
	}
	p[n] = '\0';
	return (struct span){ p, n };
}

/* What stands before the first `c`; *rest is what follows it, p is NULL if there is none. */
static struct span cut(struct span in, char c, struct span *rest)
{
	const char *at = in.n ? memchr(in.p, c, in.n) : NULL;
	if (!at) {
		*rest = (struct span){ NULL, 0 };
		return in;
	}
	size_t n = (size_t)(at - in.p);
	*rest = (struct span){ at + 1, in.n - n - 1 };
	return (struct span){ in.p, n };
}

bool query_next(struct span *rest, struct arena *a, struct span *name, struct span *value)
{
	struct span given;
	struct span one = { NULL, 0 };
	while (rest->n && one.n == 0)
		one = cut(*rest, '&', rest);
	if (one.n == 0)
		return false;
	*name = decode(cut(one, '=', &given), a);
	*value = given.p ? decode(given, a) : given;
	return true;
}

bool query_find(struct span query, const char *name, struct arena *a, struct span *value)
{
	struct span found;
	while (query_next(&query, a, &found, value))
		if (span_is(found, name))
			return true;
	return false;
}
