#pragma once
/* Command lines: options by a table, and errors about unknown ones.  Environment variables. */
#include <stdbool.h>

/* One option: `value` is the argument behind it, `flag` is that it was there.  One of them is NULL;
 * a table ends with an entry without name. */
struct arg {
	const char *name;
	const char **value;
	bool *flag;
};

/* Take the options at argv[i] and behind it.  The index of the first argument that is none of
 * them, or lacks its value; argc if there is none such. */
int args_take(const struct arg *table, int i, int argc, char **argv);

/* On standard error, before the usage: which argument was not understood; NULL if one is missing.
 * Returns -1. */
int args_misused(const char *command, const char *argument);

/* The text of an environment variable; NULL if it is not set or empty. */
const char *env_get(const char *name);
