#pragma once
/* Parts of a JSON value; borrowed, NULL if absent. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* The value at a path of keys and indices, such as "spec/taskRoles/0/name".  It may begin with a
 * slash; in a key, a slash is `~1`, as in a JSON pointer. */
static inline json_t *at(const json_t *v, const char *path)
{
	FREE_AUTO char *copy = xstrdup(path);
	char *rest = NULL;
	json_t *found = NULL;
	for (char *key = strtok_r(copy, "/", &rest); v && key; key = strtok_r(NULL, "/", &rest)) {
		int64_t i = 0;
		for (char *tilde; (tilde = strstr(key, "~1"));) {
			*tilde = '/';
			(void)memmove(tilde + 1, tilde + 2, strlen(tilde + 2) + 1);
		}
		bool index = parse_i64(span_of(key), 0, 100000, &i) == 0;
		v = found = index ? json_array_get(v, (size_t)i) : json_object_get(v, key);
	}
	return found;
}

/* The element of a list with that name. */
static inline json_t *named(const json_t *list, const char *name)
{
	size_t i = 0;
	json_t *v = NULL;
	json_array_foreach (list, i, v) {
		const char *its = json_string_value(json_object_get(v, "name"));
		if (its && strcmp(its, name) == 0)
			return v;
	}
	return NULL;
}
