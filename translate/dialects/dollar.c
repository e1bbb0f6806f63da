/* Dollars in environment values; see dollar.h. */
#include "translate/dialects/dollar.h"

/* Length of the run of dollars at the start of [p, end). */
static size_t run(const char *p, const char *end)
{
	size_t n = 0;
	while (p + n < end && p[n] == '$')
		n++;
	return n;
}

/* How many dollars of a run have to be added. */
static size_t added(const char *p, size_t n, const char *end)
{
	bool paren = p + n < end && p[n] == '(';
	return n > 1 || paren ? n : 0;
}

size_t dollar_escaped_size(struct span t)
{
	const char *end = t.p + t.n;
	size_t size = t.n;
	for (const char *p = t.p; t.n && (p = memchr(p, '$', (size_t)(end - p)));) {
		size_t n = run(p, end);
		size += added(p, n, end);
		p += n;
	}
	return size;
}

struct span dollar_escape(struct arena *a, struct span t)
{
	size_t size = dollar_escaped_size(t);
	if (size == t.n)
		return t;
	char *out = arena_alloc(a, size + 1);
	char *w = out;
	const char *p = t.p;
	const char *end = t.p + t.n;
	for (const char *d; (d = memchr(p, '$', (size_t)(end - p)));) {
		size_t n = run(d, end);
		size_t more = added(d, n, end);
		memcpy(w, p, (size_t)(d - p));
		w += d - p;
		memset(w, '$', n + more);
		w += n + more;
		p = d + n;
	}
	memcpy(w, p, (size_t)(end - p));
	out[size] = '\0';
	return (struct span){ out, size };
}
