#include "machine/store/local_internal.h"

#include <string.h>

#include "base/str.h"

enum { KEY_MAX = 512 };

/* Takes one token of a pointer and resolves `~1` and `~0`.  false: the token is too long. */
static bool next_token(const char **p, char key[static KEY_MAX])
{
	size_t n = 0;
	const char *s = *p + 1; /* after the slash */
	for (; *s && *s != '/'; s++) {
		char c = *s;
		if (c == '~' && (s[1] == '0' || s[1] == '1'))
			c = *++s == '0' ? '~' : '/';
		if (n + 1 == KEY_MAX)
			return false;
		key[n++] = c;
	}
	key[n] = '\0';
	*p = s;
	return true;
}

static bool json_patch_index_of(const json_t *list, const char *key, size_t *at)
{
	int64_t i;
	if (parse_i64(span_of(key), 0, INT32_MAX, &i) < 0)
		return false;
	*at = (size_t)i;
	return *at < json_array_size(list);
}

static json_t *json_patch_child(const json_t *of, const char *key)
{
	size_t at;
	if (!json_is_array(of))
		return json_object_get(of, key);
	return json_patch_index_of(of, key, &at) ? json_array_get(of, at) : NULL;
}

/* The container of the value that a pointer names, and the last token; NULL if it is absent. */
static json_t *parent_of(json_t *root, const char *pointer, char key[static KEY_MAX])
{
	json_t *at = root;
	if (pointer[0] != '/')
		return NULL;
	for (;;) {
		if (!next_token(&pointer, key))
			return NULL;
		if (!*pointer)
			return at;
		at = json_patch_child(at, key);
		if (!at)
			return NULL;
	}
}

static void set_child(json_t *of, const char *key, json_t *value)
{
	size_t at = 0;
	if (!json_is_array(of))
		(void)json_object_set(of, key, value); /* cannot fail: the member exists */
	else if (json_patch_index_of(of, key, &at))
		(void)json_array_set(of, at, value);
}

/* To an object only; replaces a member that is there. */
static enum json_patched json_patch_add(json_t *of, const char *key, json_t *value)
{
	if (json_is_array(of))
		return PATCH_MALFORMED;
	return of && json_object_set(of, key, value) == 0 ? PATCH_DONE : PATCH_TEST_FAILED;
}

static enum json_patched apply_one(json_t *object, const json_t *operation)
{
	char key[KEY_MAX];
	const char *op = json_string_value(json_object_get(operation, "op"));
	const char *path = json_string_value(json_object_get(operation, "path"));
	json_t *value = json_object_get(operation, "value");
	if (!op || !path || !value)
		return PATCH_MALFORMED;
	json_t *of = parent_of(object, path, key);
	if (strcmp(op, "add") == 0)
		return json_patch_add(of, key, value);
	json_t *there = of ? json_patch_child(of, key) : NULL;
	if (strcmp(op, "test") == 0)
		return there && json_equal(there, value) ? PATCH_DONE : PATCH_TEST_FAILED;
	if (strcmp(op, "replace") != 0)
		return PATCH_MALFORMED;
	if (!there)
		return PATCH_TEST_FAILED; /* an API server answers both with 422 */
	set_child(of, key, value);
	return PATCH_DONE;
}

enum json_patched json_patch_apply(json_t *object, const json_t *patch)
{
	size_t i;
	json_t *operation;
	if (!json_is_array(patch))
		return PATCH_MALFORMED;
	json_array_foreach (patch, i, operation) {
		enum json_patched done = apply_one(object, operation);
		if (done != PATCH_DONE)
			return done;
	}
	return PATCH_DONE;
}
