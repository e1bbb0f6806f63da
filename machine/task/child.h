#pragma once
/* A child process of a library function: with a given environment, in a process group of its own,
 * killed when this process (the thread that started it) ends.  Its output is kept in memory. */
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct child {
	pid_t pid;
	int pidfd; /* readable when it has ended; -1: there is no child */
	int log;   /* its output, a memory file */
};

#define CHILD_NONE ((struct child){ .pidfd = -1, .log = -1 })

/* Lists are NULL-terminated. */
struct child_command {
	const char *const *argv; /* argv[0]: an absolute path */
	const char *const *env;
	const char *dir; /* where it starts; NULL: as this process */
	int pass;        /* its descriptor 3; 0: it has none */
};

/* 0, or -1 and *e: 500. */
int child_start(struct child *c, const struct child_command *command, struct err *e);

/* SIGKILL to its process group. */
void child_kill(const struct child *c);

/* After it has ended, or been killed: its exit status, or 128 + signal.  Waits for it.  *log is the
 * end of what it has written, at most `max` bytes, in the arena. */
int child_end(struct child *c, size_t max, struct span *log, struct arena *a);
/* Kills and ends it. */
void child_stop(struct child *c);

/* Starts, waits for at most `ms`, and reaps.  The status like child_reap, or -1 and *e: 500, also
 * if the time is over.  *log is the end of its output, in the arena. */
int child_run(const struct child_command *command, int ms, struct span *log, struct arena *a,
              struct err *e);
