#pragma once
/*
 * Files by descriptor, and lists of directories.
 *
 *	FD_AUTO fd = openat(dir, "state", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
 *	if (fd < 0 || fd_write_all(fd, text) < 0)
 *		return -1;
 *	DIR_AUTO *entries = dir_list(dir, ".");
 *	for (const char *name; (name = dir_next(entries)) != NULL;)
 *		use(name);
 *
 * Failures are -1 or NULL, and errno.  These calls block.
 *
 * Thread: any
 */
#include <dirent.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

struct stat;

/* A descriptor that is closed at the end of its scope; -1: none.  Use it for files that are only
 * read, or that were synced before: errors of close are ignored, and errno is kept. */
#define FD_AUTO __attribute__((cleanup(fd_cleanup))) int
void fd_cleanup(const int *fd);

/*
 * Opens the directory of a path below a directory, by O_PATH; *name is the rest of the path, which
 * is not opened.  The path is relative, and no part of it may be a link; `..` is not refused.  -1
 * and errno.
 */
int fd_open_above(int dir, const char *path, const char **name);

/* Fills *e (500) with `"PATH" WHAT: ` and the error of errno.  -1. */
int path_failed(const char *path, const char *what, struct err *e);

/* Errors that pass, because the machine lacks processes, memory, namespaces, descriptors or space;
 * 0 at the end. */
extern const int ERRORS_OF_LACK[];

/* Writes everything; 0, or -1 and errno. */
int fd_write_all(int fd, struct span text);

/* Appends what is left to read; 0, or -1 and errno (EFBIG: more than the maximum of *out).  Keeps
 * no other copy: the text can be secret. */
int fd_read_all(int fd, struct str *out);
/* The same; -1 and *e (500), which names the file. */
int fd_read_named(int fd, const char *path, struct str *out, struct err *e);

/*
 * Reads a small file that may be hostile: only a regular one, without following a link or waiting
 * for a fifo, and less than `max` bytes of it.  Below a directory, no part of the path is a link.
 * Returns the length, and ends the text with NUL; -1 and errno (EINVAL: not a regular file), and an
 * empty text.
 */
ssize_t fd_read_at(int dir, const char *path, char *out, size_t max);
/* The same into *out: 0, or -1 and errno (EFBIG: more than its maximum). */
int fd_read_str(int dir, const char *path, struct str *out);

/*
 * Reads a file that may be replaced at any time: a regular file (links are followed), opened once,
 * at most out->max bytes, unchanged during the read.  *out is empty, STR_SECRET for secrets; *st is
 * the result of fstat, also after a failure if the file could be opened.  -1 and *e (500), which
 * names the file.
 */
int file_read_regular(const char *path, struct str *out, struct stat *st, struct err *e);

/* mkdir -p: 0, or -1 and errno, and the path ends with the directory that could not be made. */
int dir_make_all(char *path, mode_t mode);

/* The entries of a directory, which is not a link; NULL and errno. */
DIR *dir_list(int at, const char *path);
/* The next name, but neither "." nor ".."; NULL at the end (errno is 0), after a failure (errno),
 * and if d is NULL. */
const char *dir_next(DIR *d);
#define DIR_AUTO __attribute__((cleanup(dir_cleanup))) DIR
void dir_cleanup(DIR *const *d);
