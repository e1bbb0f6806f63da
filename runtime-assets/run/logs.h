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
#include "runtime-assets/run/outlet.h"
#include "runtime-assets/run/tail.h"

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
