#pragma once
/*
 * `pai-runtime run`.  run.c has the phases, supervise.c the processes and signals, log_mux.c their
 * output streams, logs.c the log files, pod_usage.c what the task uses, upload.c sends the end of
 * the output to the server. Begin with cmd_run_task() at the end of run.c.  One thread; all waiting
 * is in supervise.c.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "runtime-assets/common/files.h"

/* ---- run.c: the environment of the job's processes ------------------------------------------- */

enum {
	RUNTIME_ENV_MAX = 16 << 20,    /* bytes of runtime_env */
	VARIABLE_MAX = (128 << 10) - 1 /* bytes of NAME=VALUE: MAX_ARG_STRLEN of the kernel */
};

struct env_variable {
	const char *text; /* NAME=VALUE */
	struct span name;
	size_t order;
};

struct environment {
	struct arena *a;
	struct env_variable *v;
	size_t n, cap;
};

/* Adds NAME=VALUE, borrowed; the last value of a name counts. */
void environment_add(struct environment *env, const char *text);
/* The same with a copy. */
void environment_set(struct environment *env, const char *name, const char *value);
/* Adds the variables of runtime_env (NAME=VALUE, each ended by NUL), borrowed.  Skips with a
 * warning texts that are no variable or are too long for a process. */
void environment_add_text(struct environment *env, struct span text, struct notes *warnings);
/* Adds those that `env` lacks, of a text of init; each of another value there is a warning. */
void environment_add_absent(struct environment *env, struct span text, struct notes *warnings);
/* NULL if there is none. */
const char *environment_get(const struct environment *env, const char *name);
/* Returns the list for execve, in the arena: each name once. */
char **environment_list(struct environment *env);

/* ---- log_mux.c: the container's standard output and error ------------------------------------ */

/*
 * Writes never block.  Bytes that the reader does not accept yet are queued; meanwhile the caller
 * reads nothing from the task, so a slow reader slows the task down.
 */
enum stdio_kind {
	STDIO_OWN,    /* a file, or an open file description of this process: not blocking */
	STDIO_SOCKET, /* shared with other processes: not blocking call by call */
	STDIO_SHARED  /* shared with other processes: polled before each small write */
};

struct stdio_writer {
	int fd; /* -1: there is none, or its reader is gone */
	enum stdio_kind kind;
	struct str queue; /* from `head` on */
	size_t head;
	int64_t moved_at; /* on clock_ms(): when the reader last accepted something */
	uint64_t lost;    /* bytes that were not delivered */
	int error;        /* the first reason */
	bool mid_line;    /* the last byte is no newline */
};

/* Opens descriptor 1 or 2 of the process.  Its flags are not changed: other processes may share
 * them. */
void stdio_writer_open(struct stdio_writer *o, int fd);
/* Writes, or queues the rest.  Bytes beyond the size of the queue are lost. */
void stdio_writer_put(struct stdio_writer *o, struct span text);
/* Writes as much of the queue as possible now. */
void stdio_writer_flush(struct stdio_writer *o);
/* Drops the queue and everything that follows. */
void stdio_writer_abandon(struct stdio_writer *o, int error);
void stdio_writer_done(struct stdio_writer *o);

static inline bool stdio_writer_waiting(const struct stdio_writer *o)
{
	return o->fd >= 0 && o->queue.n > o->head;
}

/* ---- logs.c: log files ----------------------------------------------------------------------- */

/*
 *	user-stdout/ user-stderr/ user-all/   `current`, and at most one older `@<tai64n>.s`
 *	runtime.log                           messages of the runtime and of plugins
 *
 * Names, sizes and modes are those of multilog s268435456 n2, on which log viewers rely.  The job's
 * author owns the directory: links are not followed, and an entry with the name of a log that is no
 * regular file is renamed.  Failing to write a log never stops the task; lost bytes are counted.
 */
enum output_name { LOG_STDOUT, LOG_STDERR, LOG_ALL, LOG_MAX };

enum {
	LOG_LIMIT = 256 << 20,        /* bytes of `current` */
	LOG_SLACK = 2000,             /* rotated at the end of a line this many bytes earlier */
	RUNTIME_LOG_LIMIT = 256 << 20 /* afterwards lines go to standard error only */
};

struct capped_log {
	const char *name; /* of the directory, or of the file */
	int dir;          /* directory of `current`; -1 for runtime.log */
	int fd, old;      /* `current` and the file before it, readable; -1: none */
	char old_name[32];
	uint64_t size, limit;
	uint64_t lost;    /* bytes that could not be written */
	int error;        /* errno of the last failure */
	int64_t retry_ms; /* on clock_ms(): do not open it before */
	bool said;        /* the loss was reported */
};

struct logs {
	int dir; /* the log directory; -1: none */
	struct capped_log user[LOG_MAX];
	struct capped_log runtime;
	bool mid_line;             /* runtime.log does not end in a newline yet */
	struct tail *tail;         /* also gets all output; NULL: none.  Borrowed */
	struct stdio_writer *copy; /* also gets the lines of runtime.log.  Borrowed */
	struct notes notes;        /* problems to report with logs_write_notes */
};

/* Opens all logs for appending.  Never fails: see `notes`. */
void logs_open(struct logs *l, const char *path, struct stdio_writer *copy);
/* Appends bytes to a user log. */
void logs_write(struct logs *l, enum output_name which, struct span text);
/* Appends to runtime.log with `[time] [openpai-runtime] ` before each line.  Text may end in the
 * middle of a line. */
void logs_runtime(struct logs *l, struct span text);
/* Appends one line to runtime.log. */
void logs_message(struct logs *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes `notes` as lines and empties it. */
void logs_write_notes(struct logs *l);
/* Reports at the end how many bytes are missing. */
void logs_summary(struct logs *l);
/* fdatasync of all logs. */
void logs_sync(struct logs *l);
/* Writes a small file into the log directory. */
int logs_copy(struct logs *l, const char *name, struct span text);

/* ---- log_mux.c: the pipes of a task ---------------------------------------------------------- */

/*
 * Standard output and error of the user's command go to the container's streams and the user logs,
 * in the order in which they were written; lines of plugins go to runtime.log.
 */
enum mux_name { MUX_STDOUT, MUX_STDERR, MUX_RUNTIME, MUX_MAX };

struct mux_pipe {
	int fd;       /* the read end; -1: closed */
	bool more;    /* bytes were left in it without a hint */
	bool ready;   /* poll() says so */
	int64_t left; /* bytes to read before the end of a task */
};

struct output_mux {
	struct logs *logs;
	struct stdio_writer *out; /* two */
	struct mux_pipe v[MUX_MAX];
	int hints; /* signalfd of hints; -1: none */
	int hint_signal;
	size_t page;
	char *buffer;
	size_t filled;
	int filler; /* the pipe whose bytes are in the buffer */
};

/* Blocks the signals that it needs; the caller saves the mask before.  -1 and errno. */
int log_mux_init(struct output_mux *s, struct logs *l, struct stdio_writer *out);
void log_mux_done(struct output_mux *s);
/* Makes the pipe of a closed stream.  Returns its write end (close-on-exec), or -1 and errno. */
int log_mux_open(struct output_mux *s, enum mux_name i);
void log_mux_close(struct output_mux *s, enum mux_name i);
/* Returns true if its reader is still busy with earlier bytes. */
bool log_mux_is_paused(const struct output_mux *s, enum mux_name i);
/* Copies the available bytes of the user's pipes; closes them at their end. */
void log_mux_copy_user(struct output_mux *s);
void log_mux_copy_runtime(struct output_mux *s);
/* The bytes that are in the pipe now, to which `left` limits reading at the end. */
int log_mux_waiting(const struct output_mux *s, int i);
/* Returns true if those have been read. */
bool log_mux_is_drained(const struct output_mux *s);

static inline bool log_mux_is_open(const struct output_mux *s, enum mux_name i)
{
	return s->v[i].fd >= 0;
}

/* ---- pod_usage.c: what the task uses --------------------------------------------------------- */

/* Memory counters of the container's cgroup (version 1 or 2).  -1: not known, or no limit. */
struct memory_use {
	int64_t kills;       /* processes killed so far */
	int64_t hits;        /* number of times that this cgroup's own limit was reached */
	int64_t limit, peak; /* bytes */
};

/* Reads it below `root`.  Never fails. */
void memory_use_read(struct memory_use *m, const char *root);
/* Appends "killed for memory: limit 60 MiB, peak 60 MiB (1 process)" if a process was killed
 * between the two; false if none was.  If the kernel does not count them, a task counts as killed
 * that ended with `code` 137 and its memory at the limit.
 *
 * The limit of a pod is the sum of those of its containers. If there is one container, the kernel
 * finds the pod's limit reached first, and counts nothing for that of the container. */
bool memory_use_explain(const struct memory_use *before, const struct memory_use *after, int code,
                        struct str *out);

enum {
	USAGE_GPUS = 32,      /* of a pod; others are left out */
	USAGE_LINE_MAX = 256, /* bytes of a line of nvidia-smi; a longer one is left out */
	USAGE_TEXT_MAX = 4096,
	USAGE_PERIOD_S = 5,
	USAGE_SAMPLES_MIN = 12 /* of a GPU: a minute.  A mean of fewer says little */
};

/* The use of the container, and nvidia-smi as long as it runs.  Begins as { .out = -1 }. */
struct pod_usage {
	const char *root; /* NULL: not begun */
	int64_t begin_ms, end_ms, cpu_us;
	struct span uuid[USAGE_GPUS];
	size_t uuids;
	pid_t smi;     /* nvidia-smi; 0: it does not run, or has been reaped */
	int out;       /* its output; -1: none */
	int64_t bytes; /* that were read of it */
	char line[USAGE_LINE_MAX];
	size_t line_n;
	struct pod_gpu {
		int64_t samples, busy; /* percent: a sum */
		int64_t memory, total; /* MiB: the greatest; total 0: not known */
	} gpu[USAGE_GPUS];             /* by the index that nvidia-smi has in this container */
};

/* Begins to count, and starts nvidia-smi if NVIDIA_VISIBLE_DEVICES has UUIDs of GPUs only (not
 * `all`, instances of MIG or none).  Its path is in the arena.  Never fails. */
void usage_line_begin(struct pod_usage *u, const char *root, struct arena *a);
/* Reads what nvidia-smi has written, once; call it when `out` is readable.  More bytes than its
 * lines have end it. */
void pod_usage_take(struct pod_usage *u);
/* Kills nvidia-smi without waiting for it; supervise.c reaps it. */
void usage_line_end(struct pod_usage *u);
/* Appends "used: 3.2 of 4 CPUs, memory at most 11.2 of 16 GiB, GPU 0: 68 % busy (26.5 of 40 GiB)",
 * without what is not known; false if that is all. */
bool pod_usage_put(const struct pod_usage *u, const struct memory_use *m, struct str *out);

/* ---- supervise.c: processes ------------------------------------------------------------------ */

/*
 * The task ends with its main process.  The rest of the process group then has DRAIN_MS while it
 * holds the streams, gets SIGTERM, and SIGKILL after ASK_MS.
 *
 * `run` forwards SIGTERM to the group, as process 1 to every process of the container.  The task
 * then ends when all of them have ended, or by SIGKILL a second before the end of the grace period:
 * that second is for reporting how the task ended.
 */
enum {
	DRAIN_MS = 2000, /* for background processes that hold the streams */
	ASK_MS = 1000,   /* between SIGTERM and SIGKILL for the rest of a group */
	STALL_MS = 10000 /* at the end: how long to wait for a reader that accepts nothing */
};

enum task_kind {
	TASK_BEFORE, /* output to runtime.log; background processes stay until supervise_close */
	TASK_USER,   /* output to the user logs and the container's streams */
	TASK_AFTER   /* output to runtime.log */
};

struct task {
	enum task_kind kind;
	char *const *argv; /* argv[0]: a path, or a name to look for in PATH */
	char *const *env;
};

struct supervisor;

/* Blocks signals, ignores those of terminals, becomes the reaper of orphans.  `usage`: borrowed.
 * `grace_ms`: the pod's grace period.  One per process.  NULL and *e. */
struct supervisor *supervise_open(struct logs *l, struct stdio_writer out[static 2],
                                  struct pod_usage *usage, int64_t grace_ms, struct err *e);
struct supervisor_state {
	char pipe_path[64]; /* RUNTIME_LOG_PIPE: processes of the task open it for writing */
	bool stopping;      /* SIGTERM has arrived */
	int64_t ended_ms;   /* end of the last main process, since 1970; 0: there was none */
	int64_t end_at;     /* deadline of all, on clock_ms(); INT64_MAX without SIGTERM */
};
/* Reads pending signals.  Borrowed; changed by supervise_task. */
const struct supervisor_state *supervise_state(struct supervisor *s);
/* Runs a task to its end.  Returns its exit status, 128 + n for signal n, or 126 if it could not be
 * started. */
int supervise_task(struct supervisor *s, const struct task *t);

/* Ends all groups, delivers all output and frees the supervisor.  Signals stay blocked.  Returns
 * the deadline. */
int64_t supervise_close(struct supervisor *s);

/* ---- upload.c: the end of the output --------------------------------------------------------- */

enum tail_stream { TAIL_STDOUT = 1, TAIL_STDERR = 2 };

enum {
	TAIL_BYTES = 1 << 20,
	TAIL_FRAMES = 16384, /* changes of the stream */
	TAIL_HEADER = 8,
	TAIL_TEXT_MAX = TAIL_BYTES + TAIL_FRAMES * TAIL_HEADER, /* bytes that tail_frames writes */
	TAIL_PACKED_MAX = 512 << 10                             /* bytes that are sent */
};

/* The last bytes of the output, each with its stream; the oldest are dropped first.  Pure. */
struct tail;
struct tail *tail_new(void); /* free() it */
void tail_add(struct tail *t, enum tail_stream stream, struct span text);

/* Appends everything as frames: the stream in a byte, three zero bytes, the length in four bytes
 * (big endian), the text.  Begins with a whole line if possible.  Returns how many bytes of the
 * output are missing in front. */
uint64_t tail_frames(const struct tail *t, struct str *out);

struct output_upload {
	const char *url; /* https://HOST[:PORT]; http only for a loopback address */
	const struct layout *at;
	struct logs *logs;  /* has the tail, and gets the message of a failure */
	int code;           /* exit code of the container */
	int64_t until_ms;   /* on clock_ms(): when to give up */
	int64_t attempt_ms; /* time limit of one attempt */
};

/* PUT $PAI_OUTPUT_URL/api/v2/task-output?exitCode=N&dropped=N, until it is stored, refused, or too
 * late.  Returns true if it was stored.  SIGTERM, which must be blocked, ends it after the current
 * attempt. */
bool upload_output(const struct output_upload *u);

/* Sleeps until then; true at once if SIGTERM, which must be blocked, arrives. */
bool upload_pause(int64_t until_ms);
