#pragma once
/*
 * What init and its parts tell: a line each, to standard error and, once say_open was called, to
 * a log as well.  `2026-01-31T12:00:00Z [openpai-runtime] warning: text`.  Never anything secret.
 */
enum say_level { SAY_INFO, SAY_WARNING, SAY_ERROR };

/* Append to this file from now on (made 0644 if needed).  At most twice: init.log, and
 * barrier.log while it waits.  -1 and errno if it cannot be opened; lines still go to stderr. */
int say_open(const char *path);
/* No longer to the file opened last. */
void say_close(void);

void say(enum say_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
