#pragma once
/*
 * `pai-runtime shim DIR`: runs a pod on a machine without a cluster, and outlives the server that
 * started it.  shim.c has the processes and signals, shim_exec.c the specification and the start of
 * a command, shim_log.c the log, shim_files.c the other files.  Begin with cmd_shim() at the end of
 * shim.c.  machine/task/task.h describes the directory.  One thread.
 *
 * The containers init and app are one process: `shim --exec`, in the sandbox if there is one, does
 * what init has to do and then becomes the command of app, or runs it as `pai-runtime run`.
 *
 * SIGTERM stops the containers within the grace period, SIGUSR1 kills them; so does the end of the
 * pipe of --tether, like SIGTERM.  The shim exits with 0 if the file `state` has the result.  Other
 * descriptors that it inherits are kept open, which keeps locks.
 *
 * machine/task/task_spec.c writes what is to be run.  In these files, texts are ended by NUL:
 *
 *   spec   "shim 3"; seconds between SIGTERM and SIGKILL; "wrapped" or ""; the directory of a
 * cgroup (version 2) that the containers join, or ""; "init" or "": is there such a container;
 * where app leaves its termination message, relative to DIR; a variable by which the processes of
 *          this task are found; then the words of the command, which ends with `pai-runtime shim
 *          --exec ...`; "wrapped": bubblewrap and its arguments come
 *          before that
 *   job    only for `shim --exec`, because a variable like LD_PRELOAD must not reach bubblewrap:
 * the variables of app and an empty text; those of init and an empty text; the Framework for init;
 * the words of init (`init ARGUMENTS...` is that of this program)
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "runtime-assets/files.h"

enum {
	SHIM_SPEC_MAX = 16 << 20, /* of each file */
	SHIM_MESSAGE_MAX = 4096,
	/* Descriptors of a command, until `shim --exec` executes what is to run. */
	SHIM_REPORT_FD = 5, /* "I" before init; "F" and why if that fails, else "S"; "E" and why the
	                       command cannot be executed */
	SHIM_JOB_FD = 6,    /* the file `job` */
	SHIM_STATUS_FD = 7, /* bubblewrap writes the pid of the command */
	SHIM_INIT_FD = 8    /* standard error of init, if there is one */
};

enum shim_container { SHIM_INIT, SHIM_APP, SHIM_CONTAINERS };
extern const char *const SHIM_NAMES[SHIM_CONTAINERS];

/* ---- shim_exec.c ----------------------------------------------------------------------------- */

struct shim_spec {
	int64_t grace_s;
	bool wrapped, init;
	const char *cgroup; /* "" */
	const char *message;
	char *mark, **argv;
};

int shim_spec_read(int dir, struct shim_spec *s, struct arena *a, struct err *e);

/* Moves a descriptor above those with fixed numbers.  -1 stays. */
int shim_fd_up(int fd);

/* What the shim reads.  Those of a process begin with FROM_OUT. */
enum shim_source {
	FROM_SIGNALS,
	FROM_TETHER,
	FROM_OUT,
	FROM_ERR,
	FROM_INIT,
	FROM_REPORT,
	FROM_STATUS,
	SOURCES
};

/* In the new process: executes the command.  to: its ends of the pipes, by source; above
 * SHIM_INIT_FD, or -1. */
_Noreturn void shim_child(int dir, const struct shim_spec *spec, const int *to);

/*
 * `pai-runtime shim --exec DIRECTORY [DEVICE:INODE:PATH]... -- COMMAND...`, or `... --run
 * ARGUMENTS...` for `pai-runtime run`, in the sandbox if there is one: if these paths are these
 * directories, init, then the command.
 */
int shim_exec_main(int argc, char **argv);

/* ---- shim_log.c ------------------------------------------------------------------------------ */

enum { SHIM_LINE_MAX = 16 << 10, SHIM_OUT_MAX = 32 << 10, SHIM_STREAMS = 2 };
#define SHIM_LOG_MAX (INT64_C(16) << 20)

/*
 * A log in CRI format: `TIME stdout|stderr P|F text`.  Beyond `max` bytes it becomes NAME.1.  What
 * cannot be written is dropped and counted; when writing works again a line says so.
 */
struct shim_log {
	int dir, fd; /* fd: -1 if it cannot be opened */
	const char *name;
	int64_t size, max;
	uint64_t lost;    /* bytes of output that could not be written */
	uint64_t written; /* bytes of output in all files so far, as readers see it */
	int error;        /* why */
	struct {
		char text[SHIM_LINE_MAX];
		size_t n;
	} line[SHIM_STREAMS];
	char out[SHIM_OUT_MAX]; /* whole lines of the log */
	size_t n, n_output;     /* n_output: bytes of output in `out` */
	char stamp[40];         /* the time of the lines that follow */
};

void shim_log_open(struct shim_log *l, int dir, const char *name, int64_t max);
/* Output of the container; 0: standard output, 1: standard error. */
void shim_log_write(struct shim_log *l, int stream, struct span text);
/* Writes lines that are complete. */
void shim_log_flush(struct shim_log *l);
/* Writes lines without an end, too, and closes the log. */
void shim_log_close(struct shim_log *l);

/* ---- shim_files.c ---------------------------------------------------------------------------- */

struct shim_result {
	bool started, ended;
	int code, signal;
	int64_t started_ms, ended_ms;
	const char *reason;
	char message[SHIM_MESSAGE_MAX + 1];
	size_t message_n;
};

struct shim_state {
	const char *phase;
	bool stopped;
	struct shim_result of[SHIM_CONTAINERS];
};

/* Locks the directory for this process and writes `shim`.  -1 and *e, e.g. if a shim has been
 * started here before: no container runs twice. */
int shim_claim(int dir, struct err *e);

/* Writes the file `state` as a whole.  final: it is also on the disk, and the space that
 * shim_claim reserved is used if there is no other.  -1 and errno. */
int shim_state_write(int dir, const struct shim_state *s, bool final);

/* Reads the termination message; empty if there is none, or something else is in its place. */
void shim_message_read(int dir, const char *path, struct shim_result *r);

/* Sends SIGKILL to all children of this process; it is a subreaper, so repeating it reaches all
 * descendants. */
void shim_kill_children(void);
