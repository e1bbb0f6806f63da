#pragma once
/*
 * Programs that this process starts, without a shell.
 *
 * Thread: worker
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { STREAM_OURS = 0, STREAM_NONE = -1 /* /dev/null */ };

enum child_group {
	CHILD_HERE,    /* in the process group of this process, with its signals */
	CHILD_APART,   /* a group of its own, with all signals as a new program has them */
	CHILD_SESSION, /* the same in a session of its own */
};

/* Lists are NULL-terminated.  Descriptors with O_CLOEXEC, as those of this process have it, are not
 * inherited.  Others are, but glibc closes them, except `pass`, for a program that is CHILD_APART.
 */
struct child_command {
	const char *const *argv; /* argv[0] is looked for in PATH */
	const char *const *env;  /* NULL: that of this process */
	int in;                  /* a descriptor; 0: /dev/null */
	int out, err;            /* a descriptor, or STREAM_... */
	enum child_group group;
	const sigset_t *blocked; /* CHILD_APART, CHILD_SESSION: at first; NULL: no signal */
	const char *dir;         /* working directory; NULL: that of this process */
	int pass;                /* its descriptor 3; 0: it has none */
	const int *keep; /* inherited, with the same numbers, but not by one that is CHILD_APART */
	size_t n_keep;
};

/* The pid, or -1 and errno. */
pid_t child_spawn(const struct child_command *c);
/* The exit status, 128 + n for signal n; -1 and errno.  The pause has no bound: the program
 * decides.
 */
int child_wait(pid_t pid);
/* child_spawn and child_wait. */
int child_call(const struct child_command *c);

/* The absolute path of a program in the PATH of this process, in the arena; NULL if there is none.
 */
const char *program_find(const char *name, struct arena *a);
/* How to install packages of these names, which are those of Debian, Fedora and SUSE: the command
 * of this machine, in the arena. */
const char *program_install(const char *packages, struct arena *a);

/* A child process whose output is kept in memory, in a process group of its own. */
struct child {
	pid_t pid;
	int pidfd; /* readable when it has ended; -1: there is no child */
	int log;   /* its output, a memory file */
};

#define CHILD_NONE ((struct child){ .pidfd = -1, .log = -1 })

/* 0, or -1 and *e: 500. */
int child_start(struct child *c, const struct child_command *command, struct err *e);

/* Waits for the end of the child and returns its exit status, as child_wait, or 255.  Call it after
 * the child has ended or has been killed.  *log is the end of its output, at most `max` bytes, in
 * the arena. */
int child_end(struct child *c, size_t max, struct span *log, struct arena *a);
/* Kills and ends it. */
void child_stop(struct child *c);

/* Starts, waits for at most `ms`, and ends it.  The status like child_end, or -1 and *e: 500, also
 * if the time is over.  *log is the end of its output, in the arena. */
int child_run(const struct child_command *command, int ms, struct span *log, struct arena *a,
              struct err *e);
