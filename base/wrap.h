#pragma once
/*
 * Text in lines, for people.
 *
 * Thread: any
 */
#include "base/str.h"

/* Appends the text in lines of at most `width` columns, where it has spaces, and ends them; a
 * newline in it begins a line.  Lines begin at column `indent`, which the first has reached
 * already. */
void str_wrap(struct str *out, struct span text, size_t indent, size_t width);
