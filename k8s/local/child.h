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

/* Starts argv[0], an absolute path, in this directory (NULL: this process's).  Its descriptor 3 is
 * `pass`; -1: it has none.  0, or -1 and *e: 500. */
int child_start(struct child *c, const char *const *argv, const char *const *env, const char *dir,
                int pass, struct err *e);

/* SIGKILL to its process group. */
void child_kill(const struct child *c);

/* After it has ended, or been killed: its exit status, or 128 + signal.  Waits for it. */
int child_reap(struct child *c);

/* What it has written, at most `max` bytes, in the arena; the last ones if `last`. */
struct span child_text(int fd, size_t max, bool last, struct arena *a);

/* Closes the files.  The child has been reaped. */
void child_done(struct child *c);

/* Starts, waits for at most `ms`, and reaps.  The status like child_reap, or -1 and *e: 500, also
 * if the time is over.  `log` gets the end of stderr, in the arena. */
int child_run(const char *const *argv, const char *const *env, int ms, struct span *log,
              struct arena *a, struct err *e);
