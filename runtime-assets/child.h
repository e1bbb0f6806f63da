#pragma once
/* Programs of the image.  The pause of child_wait has no bound: the program decides. */
#include <stdbool.h>
#include <sys/types.h>

/* Started without a shell; standard input is /dev/null, no other descriptor is inherited. */
struct child {
	const char *const *argv; /* NULL-terminated; argv[0] is looked for in PATH */
	char *const *env;        /* NULL: that of this process */
	int out, err;            /* a descriptor, or one of these: */
	bool apart; /* in a process group of its own, with all signals as a new program has them */
};
enum { STREAM_OURS = -1, STREAM_NONE = -2 };

/* The pid, or -1 and errno. */
pid_t child_start(const struct child *c);
/* The exit status, 128 + n for signal n; -1 and errno. */
int child_wait(pid_t pid);
/* child_start and child_wait. */
int child_run(const struct child *c);
/* Is there a program of that name in PATH? */
bool child_exists(const char *name);
