#pragma once
/* Shared by the files of this folder. */
#include "base/arena.h"
#include "base/err.h"
#include "jobs/cache/job_entry.h"
#include "server/logs/logs.h"

/* ---- job_logs.c: links and tasks.  Pure. ---- */

enum { LOG_LINK_KEY = 32 };        /* MAC_BYTES */
enum { LOG_TAIL_MAX = 256 << 10 }; /* bytes of the end of a log */

/*
 * A link to one log of one pod, for the requesting user.  It needs no token and expires soon.
 * The signature covers all members.  Its key derives from the token secret, for links only.
 */
struct log_link {
	struct span job, attempt, role, index, retry, file; /* in the path, decoded; no NUL */
	/* Members of the link's token: */
	const char *framework, *framework_uid, *pod_uid, *user;
	int64_t expires_s;  /* since 1970 */
	bool tail;          /* the end of the log only */
	bool runs;          /* by the status, the pod exists; not in the link */
	int64_t since_ms;   /* of the query; 0: all of the log */
	int64_t tail_bytes; /* of the query: of the end; 0: `log-tail` */
	bool times;         /* of the query: before each line its time and a blank */
	int64_t from;       /* of the query: the offset to begin at ... */
	struct span start;  /* ... in the file with this first line; "": in all of the log */
};

struct log_signing {
	unsigned char key[LOG_LINK_KEY];
	int64_t now_s; /* since 1970 */
};

/* Appends "/rest-server/api/v2/jobs/...?token=...". */
void log_link_write(struct str *out, const struct log_signing *by, const struct log_link *l);
/* Checks the token for the path in *l, and reads the rest of *l, into the arena.  -1 and *e: 403
 * ForbiddenUserError. */
int log_link_read(struct log_link *l, struct span token, const struct log_signing *by,
                  struct arena *a, struct err *e);

/* A task in the status of a Framework. */
struct task_attempt {
	int64_t attempt;     /* the latest of the job */
	int64_t retry;       /* the latest of the task */
	const char *pod_uid; /* of that attempt; "" if it has none yet */
	bool runs;           /* by the status, the pod exists */
};

/* Finds the task of this role and index, with texts in the arena.  false: there is none (yet). */
bool logs_find_task(struct span doc, struct span role, struct span index, struct arena *a,
                    struct task_attempt *out);

/* ---- log_read.c ---- */

#define NO_TASK_LOG 404, "NoTaskLogError"
#define LOG_GONE                                                                                   \
	NO_TASK_LOG, "the pod of this task is gone, and the end of its output was not kept: of "   \
		     "a task that failed, the exit diagnostics of the job have the last lines"
#define LOG_NO_PODS                                                                                \
	NO_TASK_LOG, "this server only keeps jobs (--engine=none): there are no pods, and no logs"

/* The logs of a task: those of the pod while it exists; then the kept end of its output. */
enum log_there { LOG_NONE, LOG_OF_POD, LOG_KEPT };

typedef void log_looked(struct request *r, const struct log_link *l, enum log_there there,
                        int64_t dropped);

/* Refuses r: the log of a task of this machine was deleted, or it is lost. */
void log_refuse_gone_here(struct request *r, const struct log_link *l);

/*
 * Answers r with the log l->file: "all", "stdout" and "stderr" are the log of the task's container
 * (an API server does not separate the streams of a pod; a kept output and a file do), "runtime"
 * that of the init container `init`.  l->tail: the last l->tail_bytes; with `follow`, the last
 * lines and then new output.  l->from is a byte of the log of this attempt: the header X-Log-Offset
 * has the offset of the first byte of the answer, which is l->from unless bytes are gone.  The
 * header is absent, and l->from ignored, if the offset is not known: of last lines, and of a kept
 * `stdout` or `stderr`.  The kubelet gives the newest file only, and does not tell what is before;
 * so of one that is not the first, and with l->since_ms, the offsets are those in what it gives,
 * and X-Log-Start says which that is.  l->times: unless it is a kept output, before each line, or
 * the rest of one, is its time; X-Log-Times says so.  Times count neither for l->from nor for the
 * headers.
 */
void log_read(struct request *r, const struct log_link *l, bool follow, log_looked *looked);

/*
 * Error messages of the kubelet in place of a log.  The kubelet answers GET pods/log with 200
 * before it opens the log; if that fails, the body is an error message, also at the end of a
 * followed log. It is one line without a newline.  Pure.
 */
enum { KUBELET_TEXT_MAX = 2048 };

/* The number of bytes before a last line that may become such a message.  `within`: text begins
 * within a line. */
size_t kubelet_text_begins(struct span text, bool within);
/* Returns true if the last line is such a message.  It must contain the uid of the pod or the id of
 * the container ("" if unknown). */
bool kubelet_text_is(struct span line, const char *pod_uid, const char *container_id);

/* ---- output_text.c: output as frames, and which outputs of a job are kept.  Pure. ---- */

/*
 * The output of an ended task attempt: frames as pai-runtime uploads them, with gzip.  A frame is
 * that of Docker's attach: the stream (1 byte), 3 zero bytes, the length (4 bytes, big endian), the
 * output.
 */
enum { OUTPUT_STDOUT = 1, OUTPUT_STDERR = 2, OUTPUT_BOTH = 3, OUTPUT_SHA = 64 /* hex digits */ };

/* A task attempt; texts are borrowed. */
struct output_id {
	const char *framework, *framework_uid;
	struct span role; /* name in the Framework: [a-z0-9]+ */
	int64_t index, attempt, retry;
	const char *pod_uid; /* "": any */
};

struct output_facts {
	int64_t exit_code, dropped; /* bytes of output before the kept end */
	char sha[OUTPUT_SHA + 1];   /* of the body as uploaded, hex */
};

/* Bytes of output in valid frames. */
size_t output_content(struct span frames);
/* The last `max` bytes of output, as frames; in the arena. */
struct span output_last(struct span frames, size_t max, struct arena *a);
/* Appends the output of these streams (OUTPUT_...). */
void output_put(struct str *out, struct span frames, unsigned streams);

/* The compressed frames again, in the arena.  false: they are invalid, or too many or too large. */
bool output_unpack(struct span packed, struct arena *a, struct span *frames);
/* Cuts the oldest output off, so that at most `room` bytes remain, in the arena; adds the bytes of
 * output that are cut off to *dropped.  It compresses a few times at most.  false: no room for any
 * output, or *packed is invalid; nothing is changed. */
bool output_cut(struct span *packed, size_t room, struct arena *a, int64_t *dropped);

enum {
	OUTPUTS_MAX = 1000,         /* per job */
	OUTPUTS_DISPLACED_MAX = 64, /* per upload */
	OUTPUT_LEAST = 1024,        /* with less room, in bytes, none is kept */
};

struct output_entry {
	struct span role;
	int64_t index, attempt, retry;
	int64_t bytes; /* compressed */
	bool failed;
	bool displaced; /* to be removed */
};

/* The kept outputs of a job, the oldest first. */
struct output_index {
	struct output_entry *v; /* in the arena; with room for one more */
	size_t n;
};

/* The entry of this task attempt, or NULL. */
const struct output_entry *output_index_find(const struct output_index *x,
                                             const struct output_entry *e);
/*
 * Makes room for e->bytes within `budget` by displacing others, the oldest first: outputs of
 * earlier attempts of the job or of the task; then, if e failed, those of tasks that succeeded.
 * Returns the bytes available, at most e->bytes; 0, with nothing displaced, if fewer than
 * OUTPUT_LEAST.
 */
int64_t output_index_room(const struct output_index *x, const struct output_entry *e,
                          int64_t budget);
/* Bytes to keep of a task, compressed: everything if it failed, else an even share. */
int64_t output_share(bool failed, int64_t tasks, int64_t budget);

/* ---- the store of kept outputs ---- */

enum output_outcome {
	OUTPUT_DONE,
	OUTPUT_ABSENT, /* get: none is kept */
	OUTPUT_OTHER,  /* put: another output of this attempt is kept; list: they are of an earlier
	                * job of this name */
	OUTPUT_OUTDATED, /* put: the list has changed; list again */
	OUTPUT_BUSY,     /* may be tried again */
	OUTPUT_REFUSED,
};

/* One call.  It must exist until `done`, which is called once, later; texts are borrowed. */
struct output_call {
	struct store *store;
	struct arena *a;
	const char *user; /* as in store.h; NULL: urgent */
	int64_t deadline_ms;
	struct output_id id;
	struct output_index index; /* list: the result; put: what remains and is displaced */
	struct output_entry entry; /* put: of id */
	struct output_facts facts; /* put; the result of get */
	struct span packed;        /* put */
	struct span frames;        /* the result of get, until `done` returns */
	/* why: a text for people. */
	void (*done)(struct output_call *c, enum output_outcome o, struct span why);
	void *arg;
	/* The store's own: */
	const char *version;
	struct str body; /* done with str_done by the caller */
};

/*
 * The storage of the ends of outputs, in output_configmaps.c.  Data that is read is untrusted.  All
 * functions run on the thread of c->store and do not block.
 */
/* The kept outputs of the job of c->id. */
void output_list(struct output_call *c);
/* Keeps c->packed as the output of c->id, unless the list has changed since `output_list`, and
 * deletes the displaced ones.  The same output again is OUTPUT_DONE. */
void output_keep(struct output_call *c);
/* c->facts and c->frames of c->id. */
void output_get(struct output_call *c);

/* ---- output_configmaps.c: its objects.  Pure; untrusted when they are read back. ---- */

/* "FRAMEWORK-output-ROLE-INDEX-ATTEMPT-RETRY", immutable. */
char *output_name(struct arena *a, const struct output_id *id);
/* Appends the ConfigMap. */
void output_write(struct str *out, const struct output_id *id, const struct output_facts *facts,
                  struct span packed, struct arena *a);
/* Reads the frames from a ConfigMap, into the arena.  false: it belongs to another Framework (by
 * uid) or pod, or is invalid. */
bool output_read(struct span configmap, const struct output_id *id, struct arena *a,
                 struct output_facts *facts, struct span *frames);

/*
 * The index is a ConfigMap of its own.  A line each, the oldest first; invalid lines are ignored:
 *
 *	ROLE INDEX ATTEMPT RETRY BYTES failed|succeeded
 *
 * Reads it; "": an empty index.  false: it belongs to another Framework.
 */
bool output_index_read(struct span configmap, const char *framework_uid, struct arena *a,
                       struct output_index *out);
/* Appends the lines of all entries that are not displaced. */
void output_index_lines(struct str *out, const struct output_index *x);
/* Appends the ConfigMap with these lines.  If a version is given, it is a merge patch of that
 * one. */
void output_index_write(struct str *out, const struct output_id *id, struct span version,
                        struct span lines, struct arena *a);
