#pragma once
/*
 * Start a process as the leader of a process group of its own, with signals and limits as they were
 * before `run` changed its own.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

struct launch {
	char *const *argv; /* argv[0]: a path, or a name to be looked for in PATH */
	char *const *env;
	int in, out, err; /* its standard streams; above 2 */
	int complain;     /* where it says why the program cannot be started */
	sigset_t mask;    /* blocked signals */
	struct rlimit core;
};

/* Signals that `run` ignores and its children do not. */
#define SPAWN_IGNORED                                                                              \
	{                                                                                          \
		SIGPIPE, SIGTTIN, SIGTTOU, SIGTSTP, SIGXFSZ                                        \
	}

/* Its pid, which is that of its group, or -1 and errno.  If the program cannot be started, the
 * process says so and ends with 127 (there is no such program) or 126. */
pid_t spawn(const struct launch *l);
