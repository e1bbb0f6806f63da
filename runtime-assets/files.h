#pragma once
/*
 * Files, so that neither a crash nor somebody who plants links does harm.  Errors name the file
 * and say why; their code is that of FAILED.
 */
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* What cannot be done here, as an error. */
#define FAILED 500, "RuntimeError"

#define FD_AUTO __attribute__((cleanup(fd_cleanup))) int
void fd_cleanup(int *fd);

/* Write all of it to a fresh file beside `path` and rename: afterwards `path` is complete or as
 * it was before, with exactly this mode. */
int file_write(const char *path, struct span text, mode_t mode, struct err *e);

/* The same with the bytes of another file. */
int file_copy(const char *from, const char *to, mode_t mode, struct err *e);

/* Write all to a descriptor; 0 or -1 and errno. */
int fd_write_all(int fd, struct span text);

enum file_kind {
	FILE_MOUNTED, /* mounted by the kubelet or written by us: links are followed */
	FILE_THEIRS   /* the author's code could have put it there: a regular file, no link */
};

/* Read at most `max` bytes into the arena.  0; 1 if there is no such file (*text is empty then);
 * -1 and *e, also for what is longer, or no regular file.  Never blocks on a fifo. */
int file_read(const char *path, enum file_kind kind, size_t max, struct arena *a, struct span *text,
              struct err *e);

/* Make the directory and its parents; an existing one is fine.  The last gets the mode. */
int dir_make(const char *path, mode_t mode, struct err *e);

/* For a process that holds secrets: should it crash, its memory becomes no file. */
void no_core(void);
