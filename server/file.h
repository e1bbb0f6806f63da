#pragma once
/* Files read whole at start.  No thread rule; blocks. */
#include <stddef.h>

#include "base/err.h"

/* The bytes of a regular file, pipe or (for "-") standard input, at most `max` of them, with a
 * NUL behind; free() them.  -1 and *e (500) naming the file and what is wrong. */
int file_read(const char *path, size_t max, char **text, size_t *n, struct err *e);

struct stat;

/*
 * A file that is read while the server runs, and may be replaced meanwhile: opened once, a regular
 * file (at the end of links), read whole, at most out->max bytes, and the same at the end as at the
 * start.  Fills *out, which is empty and for secrets STR_SECRET, and *st with what fstat said.
 * -1 and *e (500) naming the file and what is wrong; *st is still filled if it could be opened.
 */
int file_read_regular(const char *path, struct str *out, struct stat *st, struct err *e);

/* What speaks against the owner and the mode of a file that decides who may do what, or that
 * holds a secret; NULL if nothing does.  Static text.  In pods, mounted files are as they are. */
const char *file_warning(const struct stat *st, bool secret);
