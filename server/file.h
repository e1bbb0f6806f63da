#pragma once
/* Files read whole at start.  No thread rule; blocks. */
#include <stddef.h>

#include "base/err.h"

/* The bytes of a regular file, pipe or (for "-") standard input, at most `max` of them, with a
 * NUL behind; free() them.  -1 and *e (500) naming the file and what is wrong. */
int file_read(const char *path, size_t max, char **text, size_t *n, struct err *e);
