#pragma once
/*
 * The processes of a task, one after the other, from one loop: their output to where it belongs in
 * the order in which it was written, signals on to them, every orphan reaped.
 *
 * The main process of a task decides when it is over.  What is left of its process group then has
 * DRAIN_MS while it still holds the streams, gets SIGTERM, and SIGKILL after ASK_MS.
 *
 * SIGTERM goes to the group; to every process of the container where this is process 1.  The task
 * is over when all of them have ended, also if the main process (a shell) ends at once.  A second
 * before the end of the grace period they get SIGKILL: that is the time to tell how the task ended.
 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"
#include "runtime-assets/run/logs.h"

enum {
	DRAIN_MS = 2000, /* for background processes that hold the streams */
	ASK_MS = 1000,   /* between SIGTERM and SIGKILL for what is left of a group */
	STALL_MS = 10000 /* at the end: how long to wait for a reader that takes nothing */
};

enum task_kind {
	TASK_BEFORE, /* output to runtime.log; what it leaves running stays until supervise_close */
	TASK_USER,   /* output to the user's logs and the container's streams */
	TASK_AFTER   /* output to runtime.log */
};

struct task {
	enum task_kind kind;
	char *const *argv;
	char *const *env;
};

struct supervisor;

/* Blocks signals, ignores what must not stop it, becomes the reaper of orphans.  `grace_ms` is the
 * pod's grace period.  Outlets of descriptors 1 and 2, which also get what the logs get.  NULL and
 * *e.  One per process. */
struct supervisor *supervise_open(struct logs *l, struct outlet out[static 2], int64_t grace_ms,
                                  struct err *e);

/* For RUNTIME_LOG_PIPE: a path that processes of the task open for writing; each line goes to
 * runtime.log.  Borrowed. */
const char *supervise_pipe(const struct supervisor *s);

/* Run it to its end.  Its exit status, 128 + n if signal n ended it, 126 if it was not to be
 * started. */
int supervise_task(struct supervisor *s, const struct task *t);

/* Was the task asked to stop (SIGTERM)?  Looks for signals that wait. */
bool supervise_stopping(struct supervisor *s);

/* When to be done with everything (clock_ms()): INT64_MAX if nothing asked to stop. */
int64_t supervise_deadline(const struct supervisor *s);

/* End what is left of all groups, bring everything to its readers; the supervisor is gone then.
 * Signals stay blocked.  Returns what supervise_deadline would say. */
int64_t supervise_close(struct supervisor *s);

/*
 * Start a process as the leader of a process group of its own, with signals and limits as they were
 * before `run` changed its own.
 */
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

/*
 * What the processes of a task write: three pipes, read from one loop.  Standard output and error
 * of the user's command go to the container's streams and the user's logs, in the order in which
 * they were written; the third one, which plugins write to, goes to runtime.log.
 */
enum stream_name { STREAM_STDOUT, STREAM_STDERR, STREAM_RUNTIME, STREAM_MAX };

struct stream {
	int fd;       /* the end for reading; -1: closed */
	bool more;    /* something was left there: no announcement will come for it */
	bool ready;   /* in this turn */
	int64_t left; /* bytes still taken from it at the end of a task */
};

struct streams {
	struct logs *logs;
	struct outlet *out; /* two */
	struct stream v[STREAM_MAX];
	int hints; /* signalfd; readable when something was announced; -1: there is none */
	int hint_signal;
	size_t page;
	char *buffer;
	size_t filled;
	int filler; /* whose it is */
};

/* Blocks the signals that it needs; the mask before it is the caller's to keep.  -1 and errno. */
int streams_init(struct streams *s, struct logs *l, struct outlet *out);
void streams_done(struct streams *s);

/* A new pipe for a stream that is closed: the end for writing (close-on-exec), or -1 and errno. */
int streams_open(struct streams *s, enum stream_name i);
void streams_close(struct streams *s, enum stream_name i);

static inline bool streams_is_open(const struct streams *s, enum stream_name i)
{
	return s->v[i].fd >= 0;
}

/* A stream stands still while its reader has not taken what was there before. */
bool streams_is_paused(const struct streams *s, enum stream_name i);

/* Read what was announced or is ready of the user's streams, and hand it on; at the end of what
 * they hold they are closed. */
void streams_take_user(struct streams *s);
void streams_take_runtime(struct streams *s);

/* From now on, as much as there is in the pipes will be taken: is it? */
void streams_begin_final(struct streams *s);
bool streams_are_drained(const struct streams *s);
