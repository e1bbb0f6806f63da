/*
 * Any text as a name of each kind.  What is taken consists of what may stand there and of nothing
 * else; what is converted has only allowed characters, and stays as it is when it is converted
 * again.
 */
#include "translate/job/names.h"

#include "base/image/image.h"
#include "tests/fuzz/fuzz.h"
#include "translate/translate.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

/* Nothing but these characters, and NUL is none of them. */
static bool only(struct span s, const char *allowed)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '\0' || !strchr(allowed, s.p[i]))
			return false;
	return true;
}

static bool ends_ok(struct span s)
{
	return s.n && only((struct span){ s.p, 1 }, LOWER UPPER DIGIT) &&
	       only((struct span){ s.p + s.n - 1, 1 }, LOWER UPPER DIGIT);
}

static void check_converted(struct arena *a, struct span name)
{
	const char *object = names_role_object(a, name);
	const char *variable = names_variable(a, name);
	assert(only(span_of(object), LOWER DIGIT) && strlen(object) <= name.n);
	assert(strcmp(object, names_role_object(a, span_of(object))) == 0);
	assert(only(span_of(variable), LOWER UPPER DIGIT "_") && strlen(variable) <= name.n);
	assert(strcmp(variable, names_variable(a, span_of(variable))) == 0);
}

static void check_words(struct span s)
{
	bool first_ok = s.n && only((struct span){ s.p, 1 }, LOWER UPPER "_");
	assert(names_identifier_ok(s) == (first_ok && only(s, LOWER UPPER DIGIT "_")));
	bool label = s.n <= LABEL_MAX && ends_ok(s) && only(s, LOWER UPPER DIGIT "-_.");
	assert(names_label_value_ok(s) == label);
	assert(user_name_ok(s) == label); /* the same characters and length */
	if (names_storage_ok(s))
		assert(s.n <= STORAGE_NAME_MAX && ends_ok(s) && only(s, LOWER DIGIT "-.") &&
		       span_find(s, 0, "..") == SIZE_MAX);
}

static bool word_of(struct span s, const char *allowed)
{
	return s.n && only(s, allowed) && s.p[0] != '-';
}

static void check_image(struct span s, struct arena *a)
{
	struct image i;
	if (image_parse(s, a, &i) != 0)
		return;
	assert(s.n <= 512 && word_of(s, LOWER UPPER DIGIT "-._/:@[]") &&
	       span_find(s, 0, "/..") == SIZE_MAX && s.p[0] != '/');
	assert(image_host_ok(span_of(i.host)));
	assert(i.repository[0] && i.repository[0] != '/' && !strstr(i.repository, ".."));
	assert(i.reference[0] && !strchr(i.reference, '/'));
	assert(!i.hub || strchr(i.repository, '/'));
}

static void check_references(struct span s, struct arena *a)
{
	check_image(s, a);
	if (!names_registry_problem(s))
		assert(s.n <= REGISTRY_MAX && word_of(s, LOWER UPPER DIGIT "-._/:~[]"));
}

static void check_path(struct span s)
{
	if (names_mount_path_problem(s))
		return;
	struct span path = names_mount_path(s);
	assert(s.n <= MOUNT_PATH_MAX && s.p[0] == '/' && path.n > 1);
	assert(path.p[path.n - 1] != '/' && span_find(path, 0, "//") == SIZE_MAX);
	assert(span_find(path, 0, "/../") == SIZE_MAX && span_find(path, 0, "/./") == SIZE_MAX);
	assert(!span_starts(path, "/usr/local/pai") && !span_is(path, "/usr/local"));
	assert(!span_starts(path, "/proc/") && !span_starts(path, "/etc/"));
	for (size_t i = 0; i < s.n; i++)
		assert((unsigned char)s.p[i] >= ' ' && s.p[i] != 0x7f && !strchr(":\\{$", s.p[i]));
}

FUZZ(s)
{
	ARENA_AUTO a = { 0 };
	check_converted(&a, s);
	check_words(s);
	check_references(s, &a);
	check_path(s);
}
