#pragma once
/*
 * Messages of init and of the plugins' commands: one line each to standard error, and to at most
 * two log files: `2026-01-31T12:00:00Z [openpai-runtime] warning: text`; in scripts of `run`, which
 * adds the time, `warning: text`.  They contain no secrets.
 *
 * Thread: main
 */
#include <stdint.h>

#include "base/err.h"

enum say_level { SAY_INFO, SAY_WARNING, SAY_ERROR };

/* Appends to this file from now on: init.log, and barrier.log while it waits.  -1 and errno. */
int say_open(const char *path);
/* Closes the file opened last. */
void say_close(void);

void say_line(enum say_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Each note as a warning. */
void say_notes(const struct notes *n);
