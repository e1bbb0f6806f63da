/*
 * The final error of a log: the lines with the reason why the program ended.  Logs also have
 * tracebacks of caught exceptions, of launchers, and of ranks that failed because another did.  So
 * tracebacks are examined from the last one backwards.  The words that tell what a line is are
 * those of the specification.
 */
#include <signal.h>

#include "runtime-assets/exit/exit_internal.h"

enum {
	FINAL_TAIL = 256 << 10, /* bytes of the end of a log that are examined */
	FINAL_LINES = 600,      /* lines farther from the end, or from each other, are unrelated */
	FINAL_OUTPUT = 8,       /* lines of output after an error that ended a program with 1 */
	FINAL_OUTPUT_OTHER = 2, /* the same with another code: an uncaught exception gives 1 */
	FINAL_MESSAGE = 40,     /* the same if none of them has a number: a message, not progress */
	FINAL_BOX = 12,         /* lines of a message of mpirun between two rules */
	FINAL_BANNER = 60,      /* the same of torchrun */
	FINAL_BEFORE = 20,      /* lines in front of an error of the GPU */
	FINAL_ABOVE = 4,        /* lines above a match that may name its process */
	FINAL_NEAR = 12,        /* the same for two processes without a name in front of lines */
	FINAL_KEY = 600         /* bytes behind a launcher's word that may have the rank */
};

#define HEADER "Traceback (most recent call last)"
#define FRAME  "  File \""

struct traceback {
	size_t header;       /* start of its first line */
	size_t name, name_n; /* of the process, the prefix of each of its lines */
	size_t error, end;   /* the line of the exception, without that name */
	size_t all;          /* start of the next traceback, or end of the tail */
	enum word_kind kind;
	bool caused;  /* by the one before: the direct cause */
	bool handled; /* another exception came while this one was handled: it is no cause */
	bool logged;  /* the name is the prefix of a logger */
};

/* ---- lines ---------------------------------------------------------------------------------- */

static size_t final_line_end(const struct final_error *f, size_t at)
{
	const char *end = at < f->n ? memchr(f->tail + at, '\n', f->n - at) : NULL;
	return end ? (size_t)(end - f->tail) : f->n;
}

/* The start of a line; a carriage return begins one, too (progress bars). */
static size_t final_line_start(const struct final_error *f, size_t at)
{
	while (at > 0 && f->tail[at - 1] != '\n' && f->tail[at - 1] != '\r')
		at--;
	return at;
}

static struct span final_span(const struct final_error *f, size_t from, size_t to)
{
	return (struct span){ f->tail + from, to - from };
}

static size_t final_count_lines(const struct final_error *f, size_t from, size_t to)
{
	size_t n = 0;
	for (; from < to; from++)
		n += f->tail[from] == '\n';
	return n;
}

/* The start of the last `lines` lines in front of a position. */
static size_t final_lines_back(const struct final_error *f, size_t at, size_t lines)
{
	for (; at > 0; at--) {
		if (f->tail[at - 1] == '\n' && lines-- == 0)
			break;
	}
	return at;
}

static bool final_begins(struct span line, const char *text)
{
	size_t n = strlen(text);
	if (line.n < n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '#' ? !is_digit(line.p[i]) : line.p[i] != text[i])
			return false;
	}
	return true;
}

static bool final_has_text(const struct final_error *f, size_t from, size_t to, const char *text)
{
	return span_find(final_span(f, from, to), 0, text) != SIZE_MAX;
}

/* Returns true if a text has a word of this kind.  `^` in front of a word: behind blanks at the
 * start, where `#` is a digit.  Other words in indented lines are not of errors. */
static bool final_has_word(const struct final_error *f, struct span text, enum word_kind kind)
{
	size_t blanks = span_skip_class(text, 0, " \t");
	for (size_t i = 0; i < f->words->n; i++) {
		const struct word *w = &f->words->v[i];
		if (w->kind != kind)
			continue;
		if (w->text[0] == '^' ? final_begins(span_from(text, blanks), w->text + 1)
		                      : (blanks == 0 || kind < WORD_ERROR) &&
		                            span_find(text, 0, w->text) != SIZE_MAX)
			return true;
	}
	return false;
}

static bool final_has_kind(const struct final_error *f, size_t from, size_t to, enum word_kind kind)
{
	return final_has_word(f, final_span(f, from, to), kind);
}

/* Returns true if it is a report that something else failed, or was ended by a signal. */
static bool final_is_report(const struct final_error *f, size_t from, size_t to)
{
	return final_has_kind(f, from, to, WORD_REPORTS) ||
	       final_has_kind(f, from, to, WORD_SUMMARY) ||
	       final_has_kind(f, from, to, WORD_SIGNAL) || final_has_kind(f, from, to, WORD_CRASH);
}

/* The position behind the last occurrence of a text; SIZE_MAX: none. */
static size_t final_behind_last(const struct final_error *f, size_t from, const char *text)
{
	size_t last = SIZE_MAX;
	for (size_t at; (at = span_find(final_span(f, 0, f->n), from, text)) != SIZE_MAX;)
		from = last = at + strlen(text);
	return last;
}

/* ---- one traceback ---------- */

/* Bytes of escape sequences for colours. */
static size_t final_colours(struct span line, size_t at)
{
	while (at + 1 < line.n && line.p[at] == '\33' && line.p[at + 1] == '[') {
		while (at < line.n && line.p[at] != 'm')
			at++;
		at += at < line.n;
	}
	return at;
}

/* Returns true if the line at `at` begins with the name of the process.  All digits in the time of
 * a logger are equal. */
static bool final_line_is_of(const struct final_error *f, const struct traceback *t, size_t at)
{
	bool same = f->n - at >= t->name_n;
	bool timed = t->logged || (t->name_n && is_digit(f->tail[t->name]));
	for (size_t i = 0; same && i < t->name_n; i++) {
		char a = f->tail[at + i];
		char b = f->tail[t->name + i];
		same = a == b || (timed && is_digit(a) && is_digit(b));
	}
	return same;
}

/* Finds the name of the process in front of each line, or what a logger puts there. */
static void final_find_name(const struct final_error *f, struct traceback *t, size_t found)
{
	size_t next = final_line_end(f, found) + 1;
	t->name = t->header;
	t->name_n = found - t->header;
	/* The text before the header may be something else than a name. */
	for (size_t i = 0, at = next; i < 4 && at < f->n; i++, at = final_line_end(f, at) + 1) {
		if (t->name_n && final_line_is_of(f, t, at) && at + t->name_n < f->n &&
		    f->tail[at + t->name_n] == ' ')
			return;
	}
	/* A logger may put the same text in front of each line, and a message into the first one;
	 * groups of exceptions and reports of launchers indent what follows. */
	size_t n = SIZE_MAX;
	if (next < f->n)
		n = span_find(final_span(f, next, final_line_end(f, next)), 0, FRAME);
	t->logged = true;
	t->name_n = n != SIZE_MAX && t->name_n > 0 ? n : 0;
	t->name = next;
}

/* The traceback whose HEADER stands at `found`; false if it has no exception. */
static bool final_parse(const struct final_error *f, size_t found, struct traceback *t)
{
	*t = (struct traceback){ .header = final_line_start(f, found), .all = f->n };
	final_find_name(f, t, found);
	size_t end;
	bool more = true;
	for (size_t at = final_line_end(f, found) + 1; more && at < f->n; at = end + 1) {
		end = final_line_end(f, at);
		if (!final_line_is_of(f, t, at))
			continue;
		struct span line = final_span(f, at + t->name_n, end);
		if (span_find(line, 0, HEADER) != SIZE_MAX)
			break;
		/* `name.of.Exception`, and then nothing, `:` or `(`. */
		size_t colours = final_colours(line, 0);
		size_t n = span_skip_class(line, colours, "A-Za-z0-9_.");
		bool capital = span_skip_class(span_to(line, n), colours, "^A-Z") < n;
		if (n < colours + 3 || !capital ||
		    (n < line.n && !class_has_char(line.p[n], ":(\r")))
			continue;
		t->error = at + t->name_n + colours;
		t->end = end;
		/* The message of an exception that came from another process begins with the
		 * frames there. */
		size_t next = end + 1;
		more = next < f->n && final_line_is_of(f, t, next) && next + t->name_n < f->n &&
		       span_starts(final_span(f, next + t->name_n, f->n), FRAME);
	}
	return t->error > 0;
}

static void final_add(struct final_error *f, struct traceback *t)
{
	if (f->tracebacks == FINAL_TRACEBACKS) { /* the oldest are of no interest */
		f->tracebacks--;
		memmove(f->traceback, f->traceback + 1, f->tracebacks * sizeof(*f->traceback));
	}
	size_t before = final_lines_back(f, t->header, 2);
	if (final_has_kind(f, before, t->header, WORD_IGNORED))
		t->kind = WORD_IGNORED;
	else if (final_has_kind(f, before, t->header, WORD_THREAD))
		t->kind = WORD_THREAD;
	else if (final_has_kind(f, t->error, t->end, WORD_REPORTS))
		t->kind = WORD_REPORTS;
	else if (final_has_kind(f, t->error, t->end, WORD_FOLLOWS))
		t->kind = WORD_FOLLOWS;
	if (f->tracebacks) {
		/* Python prints the exceptions that led to another one in front of it. */
		struct traceback *last = &f->traceback[f->tracebacks - 1];
		last->all = last->end < t->header ? t->header : last->end;
		t->caused = final_has_text(f, last->end, last->all, "The above exception was the");
		bool handles =
		    final_has_text(f, last->end, last->all, "During handling of the above");
		if (handles && final_has_kind(f, t->error, t->end, WORD_IGNORED)) {
			t->kind = WORD_IGNORED;
			handles = false;
		}
		if ((t->caused || handles) && last->kind >= WORD_THREAD)
			t->kind = last->kind;
		for (bool more = handles; more; last--) {
			last->handled = true;
			more = last->caused && last > f->traceback;
		}
	}
	f->traceback[f->tracebacks++] = *t;
}

/* Bytes of `[rank0]: `, `[1,0]<stderr>:` and `(Worker pid=7) ` at the start of a line, or of
 * colours. */
static size_t final_name(struct span line)
{
	size_t from = final_colours(line, 0);
	size_t n = from;
	char first = '\0';
	if (n < line.n)
		first = line.p[n];
	if (first != '[' && first != '(')
		return from;
	n = span_skip_class(line, n, "^])");
	struct span name = { line.p, n };
	bool named = first == '('
	                 ? span_find(name, from, "pid=") != SIZE_MAX
	                 : n + 1 < line.n && (line.p[n + 1] == ':' || line.p[n + 1] == '<');
	if (!named || n == line.n)
		return from;
	for (n++; n < line.n && first == '[' && line.p[n - 1] != ':';)
		n++;
	return span_skip_class(line, final_colours(line, n), " ");
}

/* ---- output ---------- */

/* `[node-1:00042]` of Open MPI. */
static bool final_is_host(struct span line)
{
	if (!span_starts(line, "["))
		return false;
	size_t pid = span_skip_class(line, 1, "A-Za-z0-9._-") + 1;
	size_t n = span_skip_class(line, pid, "0-9");
	return n > pid && n < line.n && line.p[pid - 1] == ':' && line.p[n] == ']' &&
	       !is_digit(line.p[1]);
}

/* The character of a line of a box; 0: of none. */
static char final_rule(const struct final_error *f, size_t at)
{
	struct span line = final_span(f, at, final_line_end(f, at));
	if (final_begins(line, "--------") || final_begins(line, "========") ||
	    final_begins(line, "********"))
		return line.p[0];
	return '\0';
}

/* Messages of launchers are between two rules: the second one if `at` is the first, else `at`. */
static size_t final_box_end(const struct final_error *f, size_t at)
{
	size_t next = at;
	char rule = final_rule(f, at);
	for (int i = 0; i < FINAL_BANNER && rule; i++) {
		next = final_line_end(f, next) + 1;
		if (next >= f->n)
			break;
		if (final_rule(f, next) != rule)
			continue;
		bool box = (rule == '-' && i < FINAL_BOX) || final_is_report(f, at, next) ||
		           final_has_kind(f, at, next, WORD_LAUNCHER);
		return box ? next : at;
	}
	return at;
}

struct outputs {
	size_t n;        /* lines of output */
	size_t numbered; /* with a digit */
	size_t last;     /* the start of the last f->output of them */
};

/* The lines of output from `from` to `to`, only of the process of t if t is given; at most
 * FINAL_MESSAGE are counted then. */
static struct outputs final_outputs(const struct final_error *f, size_t from, size_t to,
                                    const struct traceback *t)
{
	size_t begins[FINAL_OUTPUT + 1] = { from }; /* a ring */
	struct outputs o = { 0 };
	for (size_t at = from; at < to && !(t && o.n > FINAL_MESSAGE);
	     at = final_line_end(f, at) + 1) {
		size_t box = final_box_end(f, at);
		size_t name = t && t->name_n && final_line_is_of(f, t, box) ? t->name_n : 0;
		bool other = t && t->name_n && name == 0 && !t->logged;
		size_t end = final_line_end(f, box);
		struct span line = final_span(f, box + name, end);
		if (!other && line.n > 0 && !strchr(" \t\r", line.p[0]) && !final_is_host(line) &&
		    final_name(line) <= final_colours(line, 0) &&
		    !final_has_word(f, line, WORD_NOISE) && !final_is_report(f, at, end)) {
			begins[++o.n % (f->output + 1)] = end + 1;
			o.numbered += span_skip_class(line, 0, "^0-9") < line.n;
		}
		at = box;
	}
	o.last = o.n < f->output ? from : begins[(o.n + 1) % (f->output + 1)];
	return o;
}

/* ---- choice ---- */

static void final_add_text(struct final_error *f, struct final_text text)
{
	if (f->texts < FINAL_TEXTS)
		f->text[f->texts++] = text;
}

/* Its line, then everything up to the next traceback. */
static void final_add_both_texts(struct final_error *f, const struct traceback *t)
{
	final_add_text(f, (struct final_text){ t->error, t->end, t, PART_ALL });
	final_add_text(f, (struct final_text){ t->error, t->all, t, PART_ALL });
}

/* Returns true if a launcher reports, behind a position, that a signal ended a child.  After
 * SIGABRT (6) the program itself has printed the reason. */
static bool final_signalled(const struct final_error *f, size_t from, bool *aborted)
{
	for (size_t i = 0; i < f->words->n; i++) {
		const struct word *w = &f->words->v[i];
		size_t at = w->kind == WORD_SIGNAL ? final_behind_last(f, from, w->text) : SIZE_MAX;
		if (at < f->n && f->tail[at] != '6' && f->tail[at] != 'A')
			return true;
		*aborted = *aborted || at < f->n;
	}
	return false;
}

/* The traceback that decides; `later` gets those that only report, or follow. */
static const struct traceback *
final_choose_traceback(const struct final_error *f,
                       const struct traceback *later[static FINAL_TRACEBACKS], size_t *n)
{
	size_t mark = f->n;
	const struct traceback *follows = NULL;
	for (size_t i = f->tracebacks; i-- > 0;) {
		const struct traceback *t = &f->traceback[i];
		/* A program that goes on prints its progress. */
		struct outputs o = final_outputs(f, final_line_end(f, t->end) + 1, mark, t);
		bool near = final_count_lines(f, t->end, mark) <= FINAL_LINES &&
		            o.n <= (o.numbered ? f->output : FINAL_MESSAGE);
		if (t->handled || (t->kind >= WORD_THREAD && near)) {
			mark = t->header;
			continue;
		}
		bool aborted = false;
		if (!near || final_signalled(f, t->end, &aborted))
			return NULL;
		/* It can be the reason for the later one, if both are of the same process. */
		if (follows && !follows->caused && t->name_n == follows->name_n &&
		    final_line_is_of(f, t, follows->name) &&
		    (t->name_n > 0 || final_count_lines(f, t->end, follows->header) > FINAL_NEAR))
			return NULL;
		if (t->kind == WORD_CAUSE)
			return t;
		mark = t->header;
		later[(*n)++] = t;
		if (t->kind == WORD_FOLLOWS)
			follows = t;
	}
	return NULL;
}

static void final_order_texts(struct final_error *f)
{
	const struct traceback *later[FINAL_TRACEBACKS];
	size_t n = 0;
	f->signalled = final_signalled(f, final_lines_back(f, f->n, FINAL_LINES), &f->aborted);
	f->last = final_outputs(f, final_lines_back(f, f->n, FINAL_LINES), f->n, NULL).last;
	const struct traceback *t = final_choose_traceback(f, later, &n);
	if (t) {
		size_t end = t + 1 < f->traceback + f->tracebacks ? t[1].header : f->n;
		f->progress = final_outputs(f, final_line_end(f, t->end) + 1, end, t).numbered > 0;
	}
	for (bool more = t != NULL; more; t--) {
		final_add_both_texts(f, t);
		/* GPU kernels print assertions, and libraries warnings, in front of the error that
		 * the program sees. */
		if (final_has_kind(f, t->error, t->end, WORD_ABOVE))
			final_add_text(
			    f, (struct final_text){ final_lines_back(f, t->header, FINAL_BEFORE),
			                            t->header, NULL, PART_ALL });
		more = t->caused && t > f->traceback;
		f->decided = true;
		if (t > f->traceback && t[-1].handled)
			f->handled = (struct match){ f->at + t[-1].error, f->at + t[-1].end };
	}
	for (size_t i = 0; i < n && (f->decided || !f->signalled); i++) {
		if (f->decided || later[i]->kind == WORD_FOLLOWS)
			final_add_both_texts(f, later[i]);
		else
			final_add_text(f, (struct final_text){ later[i]->error, later[i]->end,
			                                       later[i], PART_ALL });
	}
	if (f->decided)
		return;
	final_add_text(f, (struct final_text){ f->last, f->n, NULL, PART_OUTPUT });
	final_add_text(f, (struct final_text){ f->last, f->n, NULL, PART_REPORTS });
}

/* ---- texts ---------- */

static void final_blank_lines(struct final_error *f, size_t from, size_t to)
{
	if (from < to)
		memset(f->shown + from, '\n', to - from);
}

struct span final_error_text(struct final_error *f, size_t i, size_t *at)
{
	const struct final_text *x = &f->text[i];
	memcpy(f->shown + x->from, f->tail + x->from, x->to - x->from);
	/* If no traceback decides, it blanks frames, ignored and handled exceptions, and after a
	 * signal all tracebacks but the launcher's. */
	for (size_t k = 0; k < f->tracebacks && !x->of; k++) {
		const struct traceback *t = &f->traceback[k];
		bool silent = t->handled || t->kind == WORD_IGNORED ||
		              (f->signalled && t->kind != WORD_REPORTS);
		final_blank_lines(f, t->header, silent ? t->end : t->error);
	}
	/* Names of processes, and lines of other processes. */
	size_t end;
	for (size_t line = x->from; line < x->to; line = end + 1) {
		end = final_line_end(f, line);
		if (x->of && x->of->name_n && line > x->from)
			final_blank_lines(
			    f, line, final_line_is_of(f, x->of, line) ? line + x->of->name_n : end);
		else
			final_blank_lines(f, line, line + final_name(final_span(f, line, end)));
	}
	/* A part shows all lines but the reports, or only these. */
	for (size_t line = x->from; line < x->to && x->part != PART_ALL; line = end + 1) {
		end = final_line_end(f, final_box_end(f, line));
		if (final_is_report(f, line, end) != (x->part == PART_REPORTS))
			final_blank_lines(f, line, end);
	}
	*at = f->at + x->from;
	return (struct span){ f->shown + x->from, x->to - x->from };
}

/* ---- the line to quote ---------- */

bool final_error_line(const struct final_error *f, struct span text, enum word_kind kind,
                      struct match *line)
{
	size_t end = text.n;
	for (size_t at = end; at > 0; end = at) {
		at--;
		if (strchr("\r\n", text.p[at])) /* at the end of the line before */
			continue;
		while (at > 0 && !strchr("\r\n", text.p[at - 1]))
			at--;
		struct span here = { text.p + at, end - at };
		if (final_has_word(f, here, kind) &&
		    (kind < WORD_ERROR || !final_has_word(f, here, WORD_WARNING))) {
			*line = (struct match){ at, end };
			return true;
		}
	}
	return false;
}

/* The last line of a text that has such a word. */
static bool final_find_in(struct final_error *f, struct final_text in, enum word_kind kind,
                          struct match *line)
{
	size_t at;
	f->text[FINAL_TEXTS] = in;
	struct span text = final_error_text(f, FINAL_TEXTS, &at);
	if (!final_error_line(f, text, kind, line))
		return false;
	line->start += at;
	line->end += at;
	return true;
}

/* The same for the end of the log. */
static bool final_find(struct final_error *f, size_t from, enum final_part part,
                       enum word_kind kind, struct match *line)
{
	return final_find_in(f, (struct final_text){ from, f->n, NULL, part }, kind, line);
}

bool final_error_network(struct final_error *f, struct match *line)
{
	if (!f->decided)
		return final_find(f, f->last, PART_OUTPUT, WORD_NETWORK, line);
	const struct traceback *t = f->text[0].of;
	while (!final_has_kind(f, t->error, t->end, WORD_NETWORK)) {
		if (t == f->traceback || (!t->caused && !t[-1].handled)) {
			/* With several processes, those above may be of another one. */
			size_t from = final_lines_back(f, t->header, t->name_n ? 0 : FINAL_OUTPUT);
			return final_find_in(
			    f, (struct final_text){ from, t->header, NULL, PART_OUTPUT },
			    WORD_NETWORK, line);
		}
		t--;
	}
	*line = (struct match){ f->at + t->error, f->at + t->end };
	return true;
}

/* The last report of a signal: of the process itself, else of a launcher. */
static bool final_find_signal(struct final_error *f, struct match *line)
{
	return final_find(f, f->last, PART_REPORTS, WORD_CRASH, line) ||
	       final_find(f, f->last, PART_REPORTS, WORD_SIGNAL, line);
}

/* The line of the exception that decides; if its message begins in a line of its own, that. */
static struct match final_exception_line(const struct final_error *f)
{
	const struct final_text *x = &f->text[0];
	size_t from = x->from;
	size_t to = x->to;
	struct span line = span_trim(final_span(f, from, to));
	size_t colon = span_find(line, 0, ":");
	while (colon + 1 == line.n || line.n == 0 || final_rule(f, from)) {
		if (to >= x->of->all)
			return (struct match){ f->at + x->from, f->at + x->to };
		from = to + 1 + (final_line_is_of(f, x->of, to + 1) ? x->of->name_n : 0);
		to = final_line_end(f, from);
		line = span_trim(final_span(f, from, to));
		colon = SIZE_MAX - 1;
	}
	/* A progress bar may follow in the same line. */
	size_t bar = span_chr(final_span(f, from, to), '\r');
	return (struct match){ f->at + from, f->at + (bar ? from + bar : to) };
}

bool final_error_quote(struct final_error *f, int64_t code, struct match *line)
{
	bool stopped = code == 128 + SIGINT || code == 128 + SIGKILL || code == 128 + SIGTERM;
	bool crash = code > 128 && code != 128 + SIGABRT;
	if (crash && final_find_signal(f, line))
		return true;
	if (f->decided && !stopped) {
		*line = final_exception_line(f);
		return true;
	}
	return (!stopped && final_find(f, f->last, PART_OUTPUT, WORD_NETWORK, line)) ||
	       final_find(f, f->last, PART_OUTPUT, WORD_ERROR, line) ||
	       final_find_signal(f, line) ||
	       (!stopped && final_find(f, final_lines_back(f, f->n, FINAL_LINES), PART_OUTPUT,
	                               WORD_ERROR, line)) ||
	       (!stopped && final_find(f, f->last, PART_OUTPUT, WORD_HINT, line)) ||
	       final_find(f, f->last, PART_REPORTS, WORD_ERROR, line);
}

void final_error_below(const struct final_error *f, struct match *line)
{
	if (line->start < f->at || line->end - f->at > f->n)
		return;
	size_t from = line->start - f->at;
	size_t to = from + FINAL_KEY < f->n ? from + FINAL_KEY : f->n;
	for (size_t i = 0; i < f->words->n; i++) {
		const struct word *w = &f->words->v[i];
		if (w->kind != WORD_BELOW || !w->key ||
		    !final_has_text(f, from, line->end - f->at, w->text))
			continue;
		size_t at = span_find(final_span(f, 0, to), from, w->key);
		if (at == SIZE_MAX)
			continue;
		at = final_line_end(f, at) + 1;
		size_t end = final_line_end(f, at);
		at += at < end ? final_name(final_span(f, at, end)) : 0;
		if (at < end)
			*line = (struct match){ f->at + at, f->at + end };
	}
}

/* ---- the rank ---------- */

static bool final_number(const struct final_error *f, size_t at, int64_t *out)
{
	struct span tail = final_span(f, 0, f->n);
	at = span_skip_class(tail, at, " :");
	return parse_i64(final_span(f, at, span_skip_class(tail, at, "0-9")), 0, INT32_MAX, out) ==
	       0;
}

/* Returns the rank that a launcher reports: behind the key of a word of this kind, in its line or
 * soon after. */
static int64_t final_launcher_rank(const struct final_error *f, enum word_kind kind)
{
	int64_t rank = -1;
	size_t last = final_lines_back(f, f->n, FINAL_LINES);
	for (size_t i = 0; i < f->words->n; i++) {
		const struct word *w = &f->words->v[i];
		size_t at =
		    w->kind == kind && w->key ? final_behind_last(f, last, w->text) : SIZE_MAX;
		if (at == SIZE_MAX)
			continue;
		size_t to = at + FINAL_KEY < f->n ? at + FINAL_KEY : f->n;
		at = final_line_start(f, at);
		size_t key = span_find(final_span(f, 0, to), at, w->key);
		if (key != SIZE_MAX && final_number(f, key + strlen(w->key), &rank))
			return rank;
	}
	return -1;
}

/* Returns the rank from `[rank3]:` or `[1,3]<stderr>:` in front of a line, or of one above. */
static int64_t final_named_rank(const struct final_error *f, size_t at)
{
	int64_t rank = -1;
	for (int i = 0; i < FINAL_ABOVE && at > 0; i++) {
		at = final_line_start(f, at);
		struct span line = final_span(f, at, final_line_end(f, at));
		if (final_begins(line, "[rank#") && final_number(f, at + 5, &rank))
			return rank;
		size_t comma = final_begins(line, "[#") && final_name(line)
		                   ? span_find(line, 0, ",")
		                   : SIZE_MAX;
		if (comma < final_name(line) && final_number(f, at + comma + 1, &rank))
			return rank;
		at -= at > 0;
	}
	return rank;
}

int64_t final_error_rank(const struct final_error *f, size_t match)
{
	int64_t rank = final_launcher_rank(f, WORD_RANK);
	if (rank < 0 && f->decided)
		rank = final_named_rank(f, f->text[0].from);
	if (rank < 0 && match >= f->at && match - f->at <= f->n)
		rank = final_named_rank(f, match - f->at);
	return rank >= 0 ? rank : final_launcher_rank(f, WORD_LOCAL_RANK);
}

/* ---- the final error ---- */

void final_error_read(struct final_error *f, struct log_text *l, const struct text_patterns *words,
                      int64_t code, struct arena *a)
{
	*f = (struct final_error){ .n = l->text.size < FINAL_TAIL ? l->text.size : FINAL_TAIL,
		                   .words = words };
	f->output = code > 1 && code < 128 ? FINAL_OUTPUT_OTHER : FINAL_OUTPUT;
	f->at = l->text.size - f->n;
	f->tail = arena_alloc(a, f->n + 1);
	f->shown = arena_alloc(a, f->n + 1);
	f->traceback = ARENA_NEW(a, struct traceback, FINAL_TRACEBACKS);
	log_text_copy(l, f->at, f->n, f->tail);
	struct traceback t;
	for (size_t at = 0; (at = span_find(final_span(f, 0, f->n), at, HEADER)) != SIZE_MAX;) {
		if (final_parse(f, at, &t))
			final_add(f, &t);
		at = final_line_end(f, at);
	}
	final_order_texts(f);
}
