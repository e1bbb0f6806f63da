#pragma once
/* Shared by the files of this folder.  A job may change files and directories at any time, so each
 * is opened once, and judged by its descriptor. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/tar/tar.h"
#include "server/results/job_results.h"

struct stream;

/* ---- results_walk.c ---- */

/* Opens a path below a directory, on the same file system and through no link.  -1 and errno.
 * Thread: any. */
int results_open(int dir, const char *path, int flags);
/* The same for reading, if it is a regular file; does not wait for a fifo.  EINVAL: it is none.
 * Thread: any. */
int results_open_file(int dir, const char *path, struct stat *st);

struct results_found {
	const char *path;
	const struct stat *st;
	int fd; /* of a file, for reading, if the walk opens files; else -1 */
};

/* A walk over a tree in no order; a directory comes before what is in it.  Entries that are neither
 * files nor directories are left out, as those that cannot be read, are deeper than TAR_DEPTH, or
 * have longer paths than TAR_PATH. */
struct results_walk {
	/* false ends the walk. */
	bool (*found)(void *arg, const struct results_found *x);
	/* false: neither this nor what is in it.  NULL: all is wanted. */
	bool (*wants)(void *arg, const char *path, bool is_directory);
	void *arg;
	bool opens;              /* files */
	const atomic_bool *stop; /* end soon */
	int64_t left_out, entries;
	bool full; /* there were more than TAR_ENTRIES */
	char path[TAR_PATH + 1];
};
/* Walks over all below dir, or this path alone; if files are opened, with the directories above it.
 * Thread: worker. */
void results_walk_all(struct results_walk *w, int dir, const char *path);

/* ---- results_send.c ---- */

enum results_kind { RESULTS_ROWS, RESULTS_TAR, RESULTS_BYTES };
enum { RESULTS_PAGE = 1000, RESULTS_LINK = 1024 /* bytes of the token of a link */ };

/* A place for an answer; the members below `kind` are the request's until the thread begins. */
struct results_slot {
	uint64_t user;    /* a hash; 0: it is free */
	unsigned holders; /* the request, the thread */
	bool started;     /* the thread, which is to be joined */
	pthread_t thread;
	atomic_bool stop; /* nobody reads the pipe any more */
	enum results_kind kind;
	int dir, file, in, out; /* -1; in and out: the ends of the pipe */
	char path[TAR_PATH + 1];
	char after[TAR_PATH + 1];   /* ROWS */
	char token[RESULTS_LINK];   /* ROWS: of links */
	int64_t limit, from, bytes; /* of ROWS, and of BYTES */
	char *buffer;               /* of the thread */
	const char *note;           /* TAR: how the last file changed while it was read; NULL */
	size_t have;
};

/* A place for this user (NULL: none); lists count apart from downloads.  NULL: all are taken, or
 * the user has as many as one may have. */
struct results_slot *results_take(struct results_slots *all, const char *user,
                                  enum results_kind kind);
/* The request has ended. */
void results_leave(struct results_slots *all, struct results_slot *p);
/* Starts the thread.  -1 and errno. */
int results_send(struct results_slots *all, struct results_slot *p);
