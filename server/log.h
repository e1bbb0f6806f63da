#pragma once
/*
 * The log: one line per event on standard error, as JSON or logfmt.  A line is built
 * field by field and written by one write(2).  It never waits: a line that nobody takes is
 * dropped and counted, and the next one says how many.  Secrets and query strings
 * are never given to it.  Any thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum log_format { LOG_JSON, LOG_LOGFMT };
enum log_level { LOG_INFO, LOG_WARN, LOG_ERROR };

/* Once, before there are threads.  fd stays the caller's. */
void log_init(enum log_format format, int fd);

struct line {
	struct str text;
};

/* A line is begun with level and message (static text), gets fields, and is ended, which writes it.
 */
struct line log_begin(enum log_level level, const char *message);
void log_text(struct line *l, const char *key, struct span value);
void log_int(struct line *l, const char *key, int64_t value);
void log_ms(struct line *l, const char *key, int64_t us); /* microseconds, shown as 1.234 */
void log_end(struct line *l);

/* A line with one field at most; key may be NULL. */
void log_event(enum log_level level, const char *message, const char *key, const char *value);
