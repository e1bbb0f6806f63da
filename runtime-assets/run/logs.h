#pragma once
/*
 * The logs of a task, in its log directory:
 *
 *	user-stdout/ user-stderr/ user-all/   `current`, and at most one older `@<tai64n>.s`
 *	runtime.log                           what the runtime and the plugins said, line by line
 *
 * Names, sizes and modes are those of multilog with s268435456 n2, which what shows the logs relies
 * on.  The directory belongs to the job's author: nothing in it is followed or waited for; whatever
 * has one of these names without being what it should be is moved aside.  A log that cannot be
 * written never stops anything: what it lost is counted.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum log_name { LOG_STDOUT, LOG_STDERR, LOG_ALL, LOG_MAX };

enum {
	LOG_LIMIT = 256 << 20,        /* bytes of `current` */
	LOG_SLACK = 2000,             /* this much earlier it is changed at the end of a line */
	RUNTIME_LOG_LIMIT = 256 << 20 /* afterwards its lines only go to standard error */
};

struct log_file {
	const char *name; /* of the directory, or of the file */
	int dir;          /* where `current` is; -1 for runtime.log */
	int fd, old;      /* for reading, too: `current` and the file before it; -1: none */
	char old_name[32];
	uint64_t size, limit;
	uint64_t lost;    /* bytes that could not be written */
	int error;        /* errno of the last failure */
	int64_t retry_ms; /* on clock_ms(): not to be opened again before */
	bool said;        /* that something is lost */
};

struct logs {
	int dir; /* the log directory; -1: none */
	struct log_file user[LOG_MAX];
	struct log_file runtime;
	bool mid_line;       /* runtime.log does not end in a newline yet */
	struct tail *tail;   /* gets the user's output, too; NULL: none.  Borrowed */
	struct outlet *echo; /* lines of runtime.log also go here */
	struct notes notes;  /* what is to be told about the logs themselves */
};

/* Open all of them, to append.  Never fails: see `notes`.  `echo` is borrowed. */
void logs_open(struct logs *l, const char *path, struct outlet *echo);

/* Append to one of the user's logs, byte for byte. */
void logs_write(struct logs *l, enum log_name which, struct span text);

/* Append to runtime.log and the echo, with `[time] [openpai-runtime] ` before each line.  Text may
 * stop and go on anywhere in a line. */
void logs_runtime(struct logs *l, struct span text);

/* One line of ours: begins a line and ends it. */
void logs_say(struct logs *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Say and forget what stands in `notes`. */
void logs_tell(struct logs *l);

/* At the end: say how many bytes are missing. */
void logs_summary(struct logs *l);

/* Have all of it on the disk. */
void logs_sync(struct logs *l);

/* Write a small file into the log directory, replacing what is there. */
int logs_copy(struct logs *l, const char *name, struct span text);

/*
 * One of the container's own streams, standard output or error, as `run` writes to it: never
 * blocking.  What the reader does not take yet waits in a queue; whoever feeds the outlet looks at
 * outlet_waiting() and feeds no more until the descriptor is writable and outlet_flush() has
 * emptied the queue.  That is how a slow reader slows the job down and nothing else.
 */
enum outlet_kind {
	OUTLET_OWN,    /* a file, or a description of our own that does not block */
	OUTLET_SOCKET, /* shared with others: not blocking call by call */
	OUTLET_SHARED  /* shared with others: asked before each write, which is small then */
};

struct outlet {
	int fd; /* -1: there is none, or its reader is gone */
	enum outlet_kind kind;
	struct str queue; /* from `head` on */
	size_t head;
	int64_t moved_at; /* on clock_ms(), when the reader last took something */
	uint64_t lost;    /* bytes that nobody got */
	int error;        /* why, the first time */
};

/* Of the process's descriptor 1 or 2.  Its flags are not touched: others may share them. */
void outlet_open(struct outlet *o, int fd);

/* Write it, or put what does not go through now into the queue (at most QUEUE_MAX bytes; the rest
 * is lost, so do not feed one that waits with more than lines). */
void outlet_put(struct outlet *o, struct span text);

/* Write what is in the queue as far as it goes now. */
void outlet_flush(struct outlet *o);

static inline bool outlet_waiting(const struct outlet *o)
{
	return o->fd >= 0 && o->queue.n > o->head;
}

void outlet_done(struct outlet *o);

/* Nobody will read it: what waits is lost, as is what comes. */
void outlet_abandon(struct outlet *o, int error);

/*
 * The last bytes of a task's output, as they were read, each with its stream.  Bounded by
 * TAIL_BYTES and by TAIL_FRAMES changes of the stream; the oldest bytes are dropped first.  Pure.
 */
enum tail_stream { TAIL_STDOUT = 1, TAIL_STDERR = 2 };

enum {
	TAIL_BYTES = 64 << 10,
	TAIL_FRAMES = 4096,
	TAIL_HEADER = 8,
	TAIL_TEXT_MAX = TAIL_BYTES + TAIL_FRAMES * TAIL_HEADER /* bytes that tail_frames writes */
};

struct tail;
/* Its memory becomes resident as it is filled. */
struct tail *tail_new(void);
void tail_free(struct tail *t);

void tail_add(struct tail *t, enum tail_stream stream, struct span text);

/* Append all of it as frames: the stream in a byte, three zero bytes, the length in four bytes (big
 * endian), the text.  It begins with a whole line if it can.  Returns how many bytes of the output
 * are not in it. */
uint64_t tail_frames(const struct tail *t, struct str *out);
