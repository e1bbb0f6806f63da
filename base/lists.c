/* Writes lists of texts as documents, and reads them back with all numbers checked. */
#include "base/lists.h"

#include <errno.h>
#include <unistd.h>

enum { NUMBER_MAX = 24 };

static void lists_put_number(struct str *out, size_t n)
{
	str_printf(out, "%zu", n);
	str_char(out, '\0');
}

size_t lists_count(const char *const *list)
{
	size_t n = 0;
	while (list && list[n])
		n++;
	return n;
}

void lists_put(struct str *out, const char *const *const *lists, size_t n)
{
	STR_AUTO body = STR_SECRET(LISTS_MAX);
	for (size_t i = 0; i < n; i++) {
		size_t texts = lists_count(lists[i]);
		lists_put_number(&body, texts);
		for (size_t k = 0; k < texts; k++)
			str_put(&body, lists[i][k], strlen(lists[i][k]) + 1);
	}
	lists_put_number(out, body.n);
	str_span(out, str_view(&body));
	out->full |= body.full;
}

/* The number at the beginning of the text, at most `max`; -1: there is none. */
static int64_t lists_number(struct span *rest, size_t max)
{
	int64_t n;
	size_t end = span_chr(*rest, '\0');
	if (end == rest->n || parse_i64(span_next(rest, '\0'), 0, (int64_t)max, &n) != 0)
		return -1;
	return n;
}

static int lists_split(char *text, size_t size, char ***lists, size_t n, struct arena *a)
{
	struct span rest = { text, size };
	for (size_t i = 0; i < n; i++) {
		int64_t texts = lists_number(&rest, rest.n);
		if (texts < 0)
			return -1;
		lists[i] = ARENA_NEW(a, char *, (size_t)texts + 1);
		for (int64_t k = 0; k < texts; k++) {
			size_t end = span_chr(rest, '\0');
			if (end == rest.n)
				return -1;
			lists[i][k] = text + (rest.p - text);
			rest = span_from(rest, end + 1);
		}
	}
	return rest.n == 0 ? 0 : -1;
}

int lists_read(int fd, off_t *at, char ***lists, size_t n, struct arena *a)
{
	char head[NUMBER_MAX];
	ssize_t got = pread(fd, head, sizeof(head), *at);
	if (got < 0)
		return -1;
	struct span rest = { head, (size_t)got };
	int64_t size = lists_number(&rest, LISTS_MAX);
	off_t body = *at + (rest.p - head);
	char *text = arena_alloc(a, size > 0 ? (size_t)size : 0);
	if (size >= 0 && pread(fd, text, (size_t)size, body) == size &&
	    lists_split(text, (size_t)size, lists, n, a) == 0) {
		*at = body + size;
		return 0;
	}
	errno = EBADMSG;
	return -1;
}
