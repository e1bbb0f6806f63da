#pragma once
/*
 * `pai-runtime shim DIR`: runs a pod on a machine without a cluster, and outlives the server that
 * started it.  shim.c has the processes and signals, shim_exec.c the start of a command in the
 * sandbox, shim_log.c the log, shim_files.c the other files, shim_enter.c and shim_inside.c
 * sessions.  Begin with cmd_shim() at the end of shim.c.  machine/task/task.h describes the
 * directory, base/pod/shim.h what is to be run.  One thread.
 *
 * The containers init and app are one process: `shim --exec`, in the sandbox if there is one, does
 * what init has to do and then becomes the command of app, or runs it as `pai-runtime run`.
 *
 * SIGTERM stops the containers within the grace period, SIGUSR1 kills them; the end of the thread
 * that has started it does so like SIGTERM, with --parent.  The shim exits with 0 if the file
 * `state` has the result.  Other descriptors that it inherits are kept open, which keeps locks.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pod/shim.h"
#include "runtime-assets/common/files.h"

enum {
	SHIM_MESSAGE_MAX = 4096,
	SHIM_REPORT_MAX = 8192, /* bytes of a message */
	/* Descriptors of a command, until `shim --exec` executes what is to run. */
	SHIM_REPORT_FD = 5, /* messages: "I" before init, "F" and why it has failed; "S" before app,
	                       "E" and why it cannot be executed */
	SHIM_SPEC_FD = 6,
	SHIM_INIT_FD = 7 /* standard error of init, if there is one */
};

enum shim_container { SHIM_INIT, SHIM_APP, SHIM_CONTAINERS };

/* A filter for process_kill_all, with the pid of the parent.  The parent is a subreaper, so
 * repeating it reaches all descendants; those that have ended are not reaped yet, and still
 * children. */
bool shim_is_child(pid_t pid, void *parent);

/* ---- shim_exec.c ----------------------------------------------------------------------------- */

/* Reports that the command cannot be executed, and ends this process, which should have become it.
 * Writes `what` and errno. */
_Noreturn void shim_refuse(int report, const char *what);

/* `pai-runtime shim --exec DIRECTORY`: init, then the command, in this directory. */
int shim_exec_main(const char *directory);

/* ---- sessions (base/pod/session.h) ------------------------------------------------------------
 */

/*
 * Descriptors of `shim --inside`, whose standard streams are those of the command, unless it has a
 * terminal or is none.  Its messages to the helper: "S", it has begun, with the terminal or the
 * connection; "E" and a refusal, as in the first frame; "X" and the exit status.  When the other
 * end is closed, it ends the command.
 */
enum { SHIM_CONTROL_FD = 3, SHIM_REQUEST_FD = 4 };

/* `pai-runtime shim --enter DIR` (shim_enter.c): outside of the sandbox. */
int shim_enter_main(const char *path);
/* `pai-runtime shim --inside PID` (shim_inside.c): pid: of the first process of the task. */
int shim_inside_main(const char *pid);

/* ---- shim_log.c ------------------------------------------------------------------------------ */

enum { SHIM_LINE_MAX = 16 << 10, SHIM_OUT_MAX = 32 << 10, SHIM_STREAMS = 2 };
#define SHIM_LOG_MAX (INT64_C(16) << 20)

/*
 * A log in CRI format: `TIME stdout|stderr P|F text`.  Beyond SHIM_LOG_MAX bytes it becomes NAME.1.
 * Output that cannot be written is dropped and counted; when writing works again a line says so.
 */
struct shim_log {
	int dir, fd; /* fd: -1 if it cannot be opened */
	const char *name;
	bool whole; /* no part of it is dropped */
	int64_t size;
	uint64_t lost;                  /* bytes of output that could not be written */
	uint64_t written[SHIM_STREAMS]; /* bytes of output in all files so far, as readers see it */
	int error;                      /* reason of the loss, errno */
	struct {
		char text[SHIM_LINE_MAX];
		size_t n;
	} line[SHIM_STREAMS];
	char out[SHIM_OUT_MAX];           /* whole lines of the log */
	size_t n, n_output[SHIM_STREAMS]; /* n_output: bytes of output in `out` */
	char stamp[40];                   /* the time of the lines that follow */
};

/* It is all zeros, or has been closed. */
void shim_log_open(struct shim_log *l, int dir, const char *name);
/* Writes output of the container; 0: standard output, 1: standard error. */
void shim_log_write(struct shim_log *l, int stream, struct span text);
/* Writes lines without an end, too, and closes the log. */
void shim_log_close(struct shim_log *l);

/* ---- shim_files.c ---------------------------------------------------------------------------- */

struct shim_result {
	bool started;
	int code;
	int64_t started_ms, ended_ms;
	const char *reason; /* NULL: it has not ended */
	char message[SHIM_MESSAGE_MAX];
	size_t message_n;
};

struct shim_state {
	bool stopped;
	struct shim_result of[SHIM_CONTAINERS];
};

/* Makes the file `shim`, for this process only: no container runs twice.  -1 and *e. */
int shim_claim(int dir, struct err *e);

/* Writes the file `state` as a whole.  final: all have ended, and it is also on the disk, in the
 * space of the file `spec`, which is gone then.  -1 and errno. */
int shim_state_write(int dir, const struct shim_state *s, bool final);

/* Writes the file `pid`, the identity of the first process of the command, for sessions. */
void shim_pid_write(int dir, pid_t pid);

/* NUL, and bytes that are not UTF-8, become `?`, and what is too long is cut. */
void shim_message_put(struct shim_result *r, struct span text);
