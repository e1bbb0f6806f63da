#include "tests/lib/jsondiff.h"

#include <stdlib.h>

#include "base/str.h"

enum { POINTER_MAX = 4096 };

static void add(struct differences *d, const char *at, json_t *want, json_t *got)
{
	if (d->n == d->cap) {
		d->cap = d->cap ? 2 * d->cap : 16;
		d->v = xrealloc(d->v, d->cap * sizeof(*d->v));
	}
	d->v[d->n++] = (struct difference){ xstrdup(at), want, got };
}

/* `at`, a slash, and the key as RFC 6901 writes it. */
static char *below(const char *at, const char *key)
{
	STR_AUTO s = STR_INIT(POINTER_MAX);
	str_puts(&s, at);
	str_char(&s, '/');
	for (; *key; key++) {
		if (*key == '~')
			str_puts(&s, "~0");
		else if (*key == '/')
			str_puts(&s, "~1");
		else
			str_char(&s, *key);
	}
	return str_take(&s);
}

static void compare(const char *at, json_t *want, json_t *got, struct differences *d);

static void compare_maps(const char *at, json_t *want, json_t *got, struct differences *d)
{
	const char *key;
	json_t *value;
	json_object_foreach (want, key, value) {
		FREE_AUTO char *path = below(at, key);
		compare(path, value, json_object_get(got, key), d);
	}
	json_object_foreach (got, key, value) {
		if (json_object_get(want, key))
			continue;
		FREE_AUTO char *path = below(at, key);
		add(d, path, NULL, value);
	}
}

static void compare_lists(const char *at, json_t *want, json_t *got, struct differences *d)
{
	size_t n = json_array_size(want);
	size_t m = json_array_size(got);
	for (size_t i = 0; i < n || i < m; i++) {
		FREE_AUTO char *index = xasprintf("%zu", i);
		FREE_AUTO char *path = below(at, index);
		compare(path, json_array_get(want, i), json_array_get(got, i), d);
	}
}

static void compare(const char *at, json_t *want, json_t *got, struct differences *d)
{
	if (json_is_object(want) && json_is_object(got))
		compare_maps(at, want, got, d);
	else if (json_is_array(want) && json_is_array(got))
		compare_lists(at, want, got, d);
	else if (!want || !got || !json_equal(want, got))
		add(d, at, want, got);
}

void json_differences(json_t *want, json_t *got, struct differences *out)
{
	compare("", want, got, out);
}

void differences_done(struct differences *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].at);
	free(d->v);
	*d = (struct differences){ 0 };
}
