#pragma once
/*
 * Names of runtime plugins, and the options of `git clone` that the plugin git accepts.  translate/
 * warns of others when a job is submitted; pai-runtime refuses them in the pod.  Pure.
 */
#include "base/str.h"

enum plugin_name {
	PLUGIN_CMD,
	PLUGIN_SSH,
	PLUGIN_GIT,
	PLUGIN_TENSORBOARD,
	PLUGIN_TEAMWISE_STORAGE,
	PLUGIN_MAX
};
extern const char *const PLUGIN_NAMES[PLUGIN_MAX];

enum git_value { GIT_NO_VALUE, GIT_NUMBER, GIT_NAME };

/* An option of `git clone`, and its canonical form. */
struct git_clone_option {
	const char *name, *normal;
	enum git_value value;
};

/* The option of `word`, --NAME or --NAME=VALUE; *name_n: bytes of its name.  NULL: not allowed. */
const struct git_clone_option *git_clone_option(struct span word, size_t *name_n);
