#pragma once
/*
 * The log: one line per event on standard error, as a JSON object.  A line is built field by field
 * and written whole.
 *
 *	struct line line = log_begin(LOG_WARN, "a file cannot be read");
 *	log_text(&line, "path", span_of(path));
 *	log_int(&line, "errno", errno);
 *	log_end(&line);
 *
 * Logging never blocks: a line that does not fit into the pipe is dropped, and the next line has
 * the number of dropped lines.  Callers never pass secrets or query strings.
 *
 * Thread: any
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };

/* Prepares the log; called once, before threads are started. fd stays the caller's.
 * Thread: main. */
void log_init(int fd);

/* Collects the lines of this thread from now on, until log_flush writes them, which the thread
 * calls before it waits or ends.  Warnings and errors are written at once, after the lines before
 * them. */
void log_collect(void);
void log_flush(void);

struct line {
	struct str text;
	enum log_level level;
};

/* log_begin starts a line with level and message (static text); log_end writes and frees it. */
struct line log_begin(enum log_level level, const char *message);
void log_text(struct line *l, const char *key, struct span value);
void log_int(struct line *l, const char *key, int64_t value);
void log_ms(struct line *l, const char *key, int64_t us); /* microseconds, shown as 1.234 */
void log_end(struct line *l);

/* Writes a line with one field, or none if key is NULL. */
void log_event(enum log_level level, const char *message, const char *key, const char *value);
