#pragma once
/*
 * Programs of the image, started without a shell: found on PATH, standard input is /dev/null.
 * Nothing else of ours is open in them.
 */
#include <sys/types.h>

#include "base/str.h"

struct child {
	const char *const
	    *argv;        /* NULL-terminated; argv[0] is looked for on PATH if it has no `/` */
	char *const *env; /* NULL: ours */
	int out, err;     /* where these streams go; -1: where ours go, -2: nowhere */
};
enum { STREAM_OURS = -1, STREAM_NONE = -2 };

/* The process, or -1 and errno: ENOENT if there is no such program. */
pid_t child_start(const struct child *c);

/* Exit status, 128 + n for the signal n.  -1 and errno. */
int child_wait(pid_t pid);

/* Both; -1 and errno. */
int child_run(const struct child *c);

/* Is there a program of that name on PATH? */
bool child_exists(const char *name);
