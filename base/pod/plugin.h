#pragma once
/*
 * Names of runtime plugins, and the options of `git clone` that the plugin git accepts.  translate/
 * warns of others when a job is submitted; pai-runtime refuses them in the pod.  Pure.
 *
 * Thread: any
 */
#include "base/str.h"

/* The plugins: identifier, name, and the function of runtime-assets/plugins/plugins.c that writes
 * the commands. */
#define PLUGIN_ROWS(ROW)                                                                           \
	ROW(PLUGIN_CMD, "cmd", plugin_cmd)                                                         \
	ROW(PLUGIN_SSH, "ssh", plugin_ssh)                                                         \
	ROW(PLUGIN_GIT, "git", plugin_git)                                                         \
	ROW(PLUGIN_TENSORBOARD, "tensorboard", plugin_tensorboard)                                 \
	ROW(PLUGIN_TEAMWISE_STORAGE, "teamwise_storage", plugin_teamwise_storage)

#define PLUGIN_ENUM(id, name, function) id,
enum plugin_name { PLUGIN_ROWS(PLUGIN_ENUM) PLUGIN_MAX };
extern const char *const PLUGIN_NAMES[PLUGIN_MAX];

enum git_value { GIT_NO_VALUE, GIT_NUMBER, GIT_NAME };

/* An option of `git clone`, and its canonical form. */
struct git_clone_option {
	const char *name, *normal;
	enum git_value value;
};

/* The option of `word`, --NAME or --NAME=VALUE; *name_n: bytes of its name.  NULL: not allowed. */
const struct git_clone_option *git_clone_option(struct span word, size_t *name_n);
