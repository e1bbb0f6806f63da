#pragma once
/*
 * Explains failures.  exit.c has the command and the GPU check, exitspec.c the specification and
 * its matching, finalerror.c the final error of a log, failedline.c the line of the commands that
 * failed, termination.c log excerpts and the message.  Begin with exit_explain() in exit.c.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/regex/regex.h"
#include "runtime-assets/exit/exit.h"

/* ---- termination.c: logs as texts ------------------------------------------------------------ */

enum { LOG_WINDOW = 64 << 10 };

/* The end of a log, at most EXIT_LOG_MAX bytes, read in pieces.  If the file is truncated
 * meanwhile, the missing bytes read as line ends. */
struct log_text {
	struct regex_text text;
	struct {
		int fd;
		size_t from, n; /* bytes of the file */
	} part[2];              /* of the rotated log, of the current log */
	char *buffer;           /* LOG_WINDOW bytes; NULL before the first read */
	size_t at, n;           /* its contents */
};

#define LOG_AUTO __attribute__((cleanup(log_text_done))) struct log_text
/* A file that is not regular, or -1, is empty. */
void log_text_open(struct log_text *l, int fd, int rotated);
void log_text_done(struct log_text *l);
/* Copies n bytes, which must be in the text. */
void log_text_copy(struct log_text *l, size_t from, size_t n, char *out);

/* ---- words: the kinds of lines of a log ------------------------------------------------------ */

enum word_kind {
	WORD_CAUSE,      /* no word says otherwise */
	WORD_REPORTS,    /* that another process failed */
	WORD_FOLLOWS,    /* from the failure of another process */
	WORD_THREAD,     /* ended a thread, not the program */
	WORD_IGNORED,    /* ended nothing */
	WORD_SIGNAL,     /* of a launcher: a child was ended by the signal behind the word */
	WORD_CRASH,      /* a process was ended by a signal */
	WORD_SUMMARY,    /* tells only that something failed */
	WORD_ABOVE,      /* of an exception: the text above it tells more */
	WORD_NOISE,      /* printed by libraries and launchers while a program ends: no output */
	WORD_WARNING,    /* the program goes on */
	WORD_BELOW,      /* of an error: the line below the key tells more */
	WORD_NETWORK,    /* a sign that the network is the cause */
	WORD_LAUNCHER,   /* in the message of a launcher between two rules */
	WORD_RANK,       /* of a launcher: the failed rank is behind the key */
	WORD_LOCAL_RANK, /* the same, its number on this node */
	WORD_OUTSIDE,    /* memory, the node or a preemption ends the command */
	WORD_ERROR,      /* the line of an error */
	WORD_HINT,       /* the same, less sure */
	WORD_KINDS
};

struct word {
	enum word_kind kind;
	const char *text, *key; /* key: NULL unless given */
};

struct text_patterns {
	struct word *v;
	size_t n;
};

/* ---- finalerror.c: the final error of a log -------------------------------------------------- */

enum { FINAL_TRACEBACKS = 64, FINAL_TEXTS = 3 * FINAL_TRACEBACKS + 2 };

struct traceback;

/* Lines: all, without the reports that something else failed, or only these. */
enum final_part { PART_ALL, PART_OUTPUT, PART_REPORTS };

/* A part of the end of a log. */
struct final_text {
	size_t from, to;            /* in the tail */
	const struct traceback *of; /* NULL: of none */
	enum final_part part;       /* but for PART_ALL, the last line that matches decides */
};

/* Texts that may have the reason of the end, in the order of the search: the line of the last
 * uncaught exception, the text printed with it, the same for its causes, then launchers and ranks
 * that failed later; or the last lines, if no exception decides. */
struct final_error {
	char *tail, *shown; /* the end of the log; the same for a text */
	size_t n, at;       /* its bytes, and its position in the log */
	const struct text_patterns *words;
	struct traceback *traceback;
	size_t tracebacks;
	struct final_text text[FINAL_TEXTS + 1]; /* the last one for the line to quote */
	size_t texts;
	size_t last;   /* the start of the last lines of output */
	size_t output; /* with more lines of output after an error, the program went on */
	bool decided;  /* an exception decides */
	bool progress; /* lines with numbers follow it: the program may have gone on */
	struct match
	    handled;    /* the line of the exception that it came from a handler of; empty: none */
	bool signalled; /* a launcher reports that a child was ended by a signal */
	bool aborted;   /* one does for SIGABRT: the program itself has printed the reason */
};

/* code: the exit code of the command.  Borrows the words; its texts live in the arena. */
void final_error_read(struct final_error *f, struct log_text *l, const struct text_patterns *words,
                      int64_t code, struct arena *a);
/* Text i, with line feeds in place of names of processes and frames; *at: its position in the log.
 * Borrowed until the next call. */
struct span final_error_text(struct final_error *f, size_t i, size_t *at);
/* The last line of a text that has a word of this kind; false: none. */
bool final_error_line(const struct final_error *f, struct span text, enum word_kind kind,
                      struct match *line);
/* The line of the log that tells best why a command ended with this code; false: not known. */
bool final_error_quote(struct final_error *f, int64_t code, struct match *line);
/* Of a line with a word BELOW, the line that tells more: below the key soon after it. */
void final_error_below(const struct final_error *f, struct match *line);
/* The last line with a sign of the network: in the exception that decides, in those before it that
 * led to it and in the output above them, else in the last lines of output; false: none. */
bool final_error_network(struct final_error *f, struct match *line);
/* The failed rank: as a launcher reports it, or in the name of the process in front of position
 * `match` (SIZE_MAX: none); -1: not known. */
int64_t final_error_rank(const struct final_error *f, size_t match);

/* ---- exitspec.c: the specification ----------------------------------------------------------- */

/* All given fields must match. */
struct exit_pattern {
	int64_t container_code;
	struct regex *user, *platform; /* NULL: not given */
	bool final;                    /* `user` is searched in the final error only */
	bool has_code;                 /* it is for one exit code only */
	bool permanent;                /* every try would end so: `behavior` of the entry */
	bool has_gpu, gpu_ecc;         /* gpuInfo */
	bool unless_network;           /* unlessWord: a sign of the network goes before it */
};

struct exit_table {
	struct exit_pattern *v;
	size_t n;
	struct text_patterns words;
};

/* Reads the patterns for this exit code, in order.  Skips invalid ones with a warning. */
void exit_spec_read(struct exit_table *s, struct span text, int64_t code, struct arena *a,
                    struct notes *warnings);

struct exit_verdict {
	int64_t code;                       /* for the container */
	const struct exit_pattern *pattern; /* NULL: none matched */
	struct match user, platform;        /* texts to quote */
	bool has_user, has_platform;
	struct match handled; /* an exception that was handled before; empty: none */
	int64_t rank;         /* the failed rank; -1: not known */
};

struct exit_case {
	const struct exit_input *in;
	struct log_text user, platform;
	struct notes *warnings;
};

/* The first pattern that matches. */
void exit_spec_match(const struct exit_table *s, struct exit_case *c, struct exit_verdict *out);

/* ---- failedline.c ---------------------------------------------------------------------------- */

/* Appends a sentence about the line of the job's commands that ended the shell, or the variable
 * that was not set; nothing if that is not known. */
void failed_line(const struct exit_input *in, struct log_text *log, struct str *out);

/* ---- exit.c: GPUs ---------------------------------------------------------------------------- */

/* Returns true if nvidia-smi reports double-bit errors since the last reboot; waits 1 s at most. */
bool ecc_errors(const char *root, int64_t deadline_ms);
/* The same for its output. */
bool ecc_errors_in(struct span xml);

/* ---- termination.c: excerpts and the message ------------------------------------------------- */

enum {
	EXCERPT_MARGIN = 4048,  /* bytes before and behind the match */
	EXCERPT_MAX = 64 << 10, /* bytes of an excerpt */
	EXCERPT_USER_LINES = 15,
	EXCERPT_PLATFORM_LINES = 10,
	MATCHED_MAX = 2048,                /* bytes of the matched text */
	MATCHED_TEXT_MAX = 3 * MATCHED_MAX /* the same with each byte replaced by U+FFFD */
};

/* A part of a log, made valid UTF-8. */
struct excerpt {
	struct str text;
	size_t match;       /* offset of the match in it; SIZE_MAX: none */
	struct str matched; /* the beginning of the match */
};
#define EXCERPT_AUTO __attribute__((cleanup(excerpt_done))) struct excerpt
void excerpt_done(struct excerpt *x);

/* The lines around a match; m NULL: the last lines. */
void excerpt_make(struct excerpt *x, struct log_text *l, const struct match *m, size_t lines);
/* Puts a line of the log in front if it is not in the excerpt. */
void excerpt_precede(struct excerpt *x, struct log_text *l, const struct match *line);

struct summary {
	const struct exit_input *in;
	const struct exit_verdict *verdict;
	struct span reason; /* empty: absent */
	const struct excerpt *user, *platform;
};

/* The message with both markers, cut to EXIT_MESSAGE_MAX bytes. */
void summary_write(const struct summary *s, struct str *out);

/* Appends a text (UTF-8) as it is in double quotes in YAML, if `out` is not NULL; returns its size.
 */
size_t yaml_characters(struct str *out, struct span text);
/* Appends it with the quotes. */
void yaml_quoted(struct str *out, struct span text);
