#pragma once
/* Notes as lines that editors can jump to. */
#include "base/err.h"

/* "FILE:LINE:COLUMN: PREFIX/json/pointer: text" and LF.  Appends. */
void note_line(struct str *out, const char *file, const char *prefix, const struct note *n);
