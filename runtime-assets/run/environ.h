#pragma once
/*
 * The environment of the job's processes: that of the container, over it what init found out
 * (runtime.d/runtime_env: NAME=VALUE, each ended by NUL), over that what `run` says itself.
 */
#include "base/arena.h"
#include "base/err.h"

enum {
	RUNTIME_ENV_MAX = 16 << 20, /* bytes of runtime_env */
	VARIABLE_MAX =
	    (128 << 10) - 1 /* of NAME=VALUE: the kernel takes no more (MAX_ARG_STRLEN) */
};

struct variable {
	const char *text; /* NAME=VALUE */
	size_t name_len, order;
};

struct environment {
	struct arena *a;
	struct variable *v;
	size_t n, cap;
};

/* Add NAME=VALUE; borrowed.  It replaces an earlier one of that name. */
void environment_add(struct environment *env, const char *text);
/* The same; a copy. */
void environment_set(struct environment *env, const char *name, const char *value);

/* Add the variables of a text like runtime_env; borrowed.  What is no variable, or too long for any
 * process, is left out with a warning. */
void environment_add_text(struct environment *env, struct span text, struct notes *warnings);

/* The value of a variable; NULL if there is none. */
const char *environment_get(const struct environment *env, const char *name);

/* For execve: each name once.  In the arena. */
char **environment_list(struct environment *env);
