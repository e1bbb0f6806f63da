#pragma once
/*
 * What init and its parts tell: a line each, to standard error and, once say_open was called, to
 * a log as well.  `2026-01-31T12:00:00Z [openpai-runtime] warning: text`.  Never anything secret.
 */
#include <stdint.h>

enum say_level { SAY_INFO, SAY_WARNING, SAY_ERROR };

/* Append to this file from now on (made 0644 if needed).  At most twice: init.log, and
 * barrier.log while it waits.  -1 and errno if it cannot be opened; lines still go to stderr. */
int say_open(const char *path);
/* No longer to the file opened last. */
void say_close(void);

void say(enum say_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Points in time as text. */
enum { STAMP_MAX = 72 /* of numbers that no clock shows; usually 21 */ };

/* Seconds since 1970 as "2026-01-31T12:00:00Z".  Not by strftime, which brings time zones and
 * names of months into the binary. */
void stamp_text(char out[static STAMP_MAX], int64_t seconds);
