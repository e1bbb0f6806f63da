#include "base/pod/plugin.h"

#define PLUGIN_NAME(id, name, function) name,
const char *const PLUGIN_NAMES[PLUGIN_MAX] = { PLUGIN_ROWS(PLUGIN_NAME) };

static const struct git_clone_option GIT_CLONE_OPTIONS[] = {
	{ "--depth", "--depth", GIT_NUMBER },
	{ "--branch", "--branch", GIT_NAME },
	{ "-b", "--branch", GIT_NAME },
	{ "--recursive", "--recursive", GIT_NO_VALUE },
	{ "--recurse-submodules", "--recursive", GIT_NO_VALUE },
	{ "--single-branch", "--single-branch", GIT_NO_VALUE },
};

const struct git_clone_option *git_clone_option(struct span word, size_t *name_n)
{
	size_t equals = span_find(word, 0, "=");
	struct span name = { word.p, equals == SIZE_MAX ? word.n : equals };
	*name_n = name.n;
	for (size_t i = 0; i < ARRAY_SIZE(GIT_CLONE_OPTIONS); i++)
		if (span_is(name, GIT_CLONE_OPTIONS[i].name))
			return &GIT_CLONE_OPTIONS[i];
	return NULL;
}
