#pragma once
/* What the parts of the explanation of failures agree on. */
#include "base/arena.h"
#include "base/err.h"
#include "base/regex/regex.h"
#include "runtime-assets/exit/exit.h"

/* ---- excerpt.c: logs as texts --------------------------------------------------------- */

enum { LOG_WINDOW = 64 << 10 };

/*
 * The end of a log, at most EXIT_LOG_MAX bytes, read piece by piece: neither its size nor somebody
 * who truncates it meanwhile does harm (what is no longer there reads as line ends).
 */
struct log_text {
	struct text text;
	struct {
		int fd;
		size_t from, n; /* these bytes of the file */
	} part[2];              /* of the rotated log, of the current one */
	char *buffer;           /* LOG_WINDOW bytes, once something was read */
	size_t at, n;           /* what is in it */
};

#define LOG_AUTO __attribute__((cleanup(log_text_done))) struct log_text
/* What is no regular file, or -1, is empty. */
void log_text_open(struct log_text *l, int fd, int rotated);
void log_text_done(struct log_text *l);
/* n bytes from there; they must be in the text. */
void log_text_copy(struct log_text *l, size_t from, size_t n, char *out);

/* ---- finalerror.c: the final error of a log ------------------------------------------------ */

enum { FINAL_TRACEBACKS = 64, FINAL_TEXTS = 3 * FINAL_TRACEBACKS + 2 };

struct traceback;

/* A part of the end of a log: of a traceback, or without one. */
struct final_text {
	size_t from, to; /* in the tail */
	const struct traceback *of;
};

/*
 * Texts that may say why a program ended, in the order in which they are to be asked: the line of
 * the last exception that nobody caught, what was printed with it, the same for those that it came
 * from, then launchers and ranks that failed later; or the last lines, if no exception decides.
 */
struct final_error {
	char *tail, *shown; /* the end of the log; the same for a text */
	size_t n, at;       /* bytes of it, and where it begins in the log */
	struct traceback *traceback;
	size_t tracebacks;
	struct final_text text[FINAL_TEXTS];
	size_t texts;
	size_t output;  /* more lines of output than these behind an error: the program went on */
	bool decided;   /* an exception does */
	bool signalled; /* a launcher said that a child was ended by a signal */
};

/* code: the exit code of the command. */
void final_error_read(struct final_error *f, struct log_text *l, int64_t code);
void final_error_done(struct final_error *f);
/* The text number i: names of processes, frames and the like are line feeds in it.  *at is where it
 * begins in the log.  Borrowed until the next one. */
struct span final_error_text(struct final_error *f, size_t i, size_t *at);
/* The rank that failed, as a launcher says, or the name of the process in front of position `match`
 * of the log (SIZE_MAX: none); -1: not known. */
int64_t final_error_rank(const struct final_error *f, size_t match);

/* ---- exitspec.c: the specification ------------------------------------------------------- */

/* All fields that a pattern has must hold. */
struct exit_pattern {
	int64_t container_code;
	struct regex *user, *platform; /* NULL: not given */
	bool final;                    /* `user` is about the final error, not all of the log */
	bool has_gpu, gpu_ecc;         /* gpuInfo, and what it says */
};

struct exit_spec {
	struct exit_pattern *v;
	size_t n;
};

/* The patterns of the text that may hold for this exit code, in their order.  What is broken is
 * left out, with a warning. */
void exit_spec_read(struct exit_spec *s, struct span text, int64_t code, struct arena *a,
                    struct notes *warnings);

struct exit_verdict {
	int64_t code;                       /* for the container */
	const struct exit_pattern *pattern; /* NULL: none matched */
	struct match user, platform;        /* where, if the pattern asks */
	int64_t rank;                       /* that failed; -1: not known */
};

/* What is to be explained. */
struct exit_case {
	const struct exit_input *in;
	struct log_text user, platform;
	struct notes *warnings;
};

/* The first pattern that holds. */
void exit_spec_match(const struct exit_spec *s, struct exit_case *c, struct exit_verdict *out);

/* ---- ecc.c: GPUs ----------------------------------------------------------------------------- */

/* Does nvidia-smi report double-bit errors since the last reboot?  Waits for it 1 s at most. */
bool ecc_errors(const char *root, int64_t deadline_ms);
/* The same for its output. */
bool ecc_errors_in(struct span xml);

/* ---- excerpt.c: what of a log is shown
 * ----------------------------------------------------------- */

enum {
	EXCERPT_MARGIN = 4048,  /* bytes before and behind the match */
	EXCERPT_MAX = 64 << 10, /* bytes of an excerpt; more than this is never shown */
	EXCERPT_USER_LINES = 15,
	EXCERPT_PLATFORM_LINES = 10,
	MATCHED_MAX = 2048,                /* bytes of the matched text ... */
	MATCHED_TEXT_MAX = 3 * MATCHED_MAX /* ... and with each of them replaced by U+FFFD */
};

/* Valid UTF-8, made from what stands in a log. */
struct excerpt {
	struct str text;
	size_t match; /* where the match begins in it; SIZE_MAX if there is none */
};

/* The lines around a match; m NULL: the last lines. */
void excerpt_make(struct excerpt *x, struct log_text *l, const struct match *m, size_t lines);
/* The beginning of the matched text. */
void excerpt_matched(struct str *out, struct log_text *l, const struct match *m);

/* ---- termination.c: the message
 * ------------------------------------------------------------------ */

struct summary {
	int64_t code, user_code, rank;                     /* rank -1: left out */
	const char *trigger;                               /* NULL: left out */
	const struct str *matched_user, *matched_platform; /* NULL: left out */
	bool has_gpu, gpu_ecc;
	const struct excerpt *user, *platform;
};

/* All of it with both markers, cut to EXIT_MESSAGE_MAX bytes. */
void summary_write(const struct summary *s, struct str *out);

/* How many bytes a text takes between quotes in YAML; the text must be UTF-8. */
size_t yaml_quoted_size(struct span text);
void yaml_quoted(struct str *out, struct span text);
