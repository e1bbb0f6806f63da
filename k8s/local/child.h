#pragma once
/* A child process of a library function: with a given environment, in a process group of its own,
 * killed when this process (the thread that started it) ends.  Its output is kept in memory. */
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct child {
	pid_t pid;
	int pidfd;    /* readable when it has ended; -1: there is no child */
	int out, log; /* stdout and stderr, memory files */
};

#define CHILD_NONE ((struct child){ .pidfd = -1, .out = -1, .log = -1 })

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
/* The same, reaps it and closes its files. */
void child_stop(struct child *c);

/* After it has ended, or been killed: its exit status, or 128 + signal.  Waits for it. */
int child_reap(struct child *c);

/* What it has written, at most `max` bytes, in the arena; the last ones if `last`. */
struct span child_text(int fd, size_t max, bool last, struct arena *a);

/* Closes the files.  The child has been reaped. */
void child_done(struct child *c);

/* Starts, waits for at most `ms`, and reaps.  The status like child_reap, or -1 and *e: 500, also
 * if the time is over.  `log` gets the end of stderr, in the arena. */
int child_run(const struct child_command *command, int ms, struct span *log, struct arena *a,
              struct err *e);
