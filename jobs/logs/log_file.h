#pragma once
/*
 * The log of a container of this machine: files in CRI format, whose lines are `TIME stdout|stderr
 * P|F TEXT`; after P the line goes on in the next one.  A file that is not the first one begins
 * with `TIME before F BYTES BYTES`, the bytes of stdout and stderr in all earlier ones.  So each
 * byte has an offset in the log of the chosen streams.  The files are read while their writer
 * appends, renames and replaces them.  Their content is not trusted; only regular files are opened,
 * and no links.  Reads of files block, but are short.
 *
 * Thread: own
 */
#include "base/arena.h"

struct log_file;

enum { LOG_FILES_MAX = 3, LOG_FILE_STDOUT = 1, LOG_FILE_STDERR = 2 };

/* The present files of a log, oldest first; texts in the arena. */
struct log_files {
	const char *path[LOG_FILES_MAX];
	size_t n;
	bool ended; /* nothing will be added */
};

/* false: there is no such log, or no longer. */
typedef bool log_files_find(void *arg, struct arena *a, struct log_files *out);

struct log_file_request {
	log_files_find *find; /* called from log_file_open and log_file_next */
	void *arg;
	unsigned streams; /* LOG_FILE_STDOUT, LOG_FILE_STDERR */
	int64_t lines;    /* the last so many, of the last MiB of the files; 0: all */
	bool follow;      /* also future lines */
	int64_t since_ms; /* from the first line on that was written then or later; 0: all */
	int64_t from;     /* from this offset on; 0: all */
	bool times;       /* before each line, also a rest of one, its time and a blank */
};

/* Bytes of these streams that were written before these files, and are gone.  Reads a line. */
int64_t log_file_before(const struct log_files *files, unsigned streams);

/* NULL, and *status: 404, there is no such log; 400: nothing was written yet. */
struct log_file *log_file_open(const struct log_file_request *r, int *status);
void log_file_free(struct log_file *f); /* accepts NULL */

enum log_file_state {
	LOG_FILE_PIECE, /* *piece, borrowed until the next call */
	LOG_FILE_QUIET, /* followed: there is no more for now */
	LOG_FILE_END,
	LOG_FILE_BROKEN /* the files cannot be read, or were replaced before they were */
};
/* The next text of the log, at most LOG_FILE_PIECE_MAX bytes; empty after a long search. */
enum { LOG_FILE_PIECE_MAX = 4096 };
enum log_file_state log_file_next(struct log_file *f, struct span *piece);
/* The offset of the last piece, or of the next byte after LOG_FILE_QUIET; times do not count.  -1:
 * it is not known, since only the last lines are read. */
int64_t log_file_offset(const struct log_file *f);

/* Makes this inotify descriptor readable, once, when the file changes.  false: it cannot. */
bool log_file_watch(struct log_file *f, int inotify);
