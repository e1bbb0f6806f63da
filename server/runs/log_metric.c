/*
 * The last value of a metric in a log, as trainings print them.  NAME is not within a longer name;
 * an optional quote, blanks, one of `=`, `:`, `is` or a blank (or a border, where NAME is a cell of
 * a table), blanks, brackets or tensor(, a number.  LF, CR and backspaces, by which progress bars
 * are drawn anew, are no blanks.  tests/data/logs/metrics.tsv has the forms; metric.js of the page
 * has the same rule.
 */
#include <strings.h>

#include "server/runs/runs.h"

#define WORD     "A-Za-z0-9_"
#define LETTERS  "A-Za-z"
#define BLANKS   " \t"
#define BEFORE   WORD "./-" /* of a longer name */
#define IN_WORDS "A-Za-z0-9_."

enum { OPENERS_MAX = 4, UNIT_MAX = 8, NUMBER_BYTES = 64 };

static const char *const BORDERS[] = { "|", "\xe2\x94\x82", "\xe2\x94\x83" }; /* also of boxes */

static struct span log_metric_skip(struct span text, const char *class)
{
	return span_from(text, span_skip_class(text, 0, class));
}

static bool log_metric_has_class(struct span text, size_t at, const char *class)
{
	return span_skip_class(text, at, class) > at;
}

/* The text without colours and other CSI sequences. */
static struct span log_metric_plain(struct span log, struct arena *a)
{
	char *out = arena_alloc(a, log.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < log.n; i++) {
		bool escape = span_starts(span_from(log, i), "\x1b[");
		size_t end = escape ? span_skip_class(log, i + 2, "0-9;?") : log.n;
		if (end < log.n)
			i = end;
		else
			out[n++] = log.p[i];
	}
	return (struct span){ out, n };
}

/* Returns true if what is before a name ends with a border: it is the cell of a table. */
static bool log_metric_in_cell(struct span before)
{
	while (before.n && log_metric_has_class(before, before.n - 1, BLANKS))
		before.n--;
	for (size_t i = 0; i < ARRAY_SIZE(BORDERS); i++) {
		size_t n = strlen(BORDERS[i]);
		if (before.n >= n && span_is(span_from(before, before.n - n), BORDERS[i]))
			return true;
	}
	return false;
}

/* Takes what separates a name from its value; false: something else follows. */
static bool log_metric_skip_separator(struct span *rest, bool cell)
{
	static const char *const SIGNS[] = { "=>", "->", ":=", "==", "=", ":" };
	struct span text = log_metric_skip(*rest, BLANKS);
	bool blank = text.n < rest->n;
	size_t n =
	    blank && span_starts(text, "is") && log_metric_has_class(text, 2, BLANKS) ? 2 : 0;
	for (size_t i = 0; !n && i < ARRAY_SIZE(SIGNS); i++)
		n = span_starts(text, SIGNS[i]) ? strlen(SIGNS[i]) : 0;
	for (size_t i = 0; !n && cell && i < ARRAY_SIZE(BORDERS); i++)
		n = span_starts(text, BORDERS[i]) ? strlen(BORDERS[i]) : 0;
	*rest = log_metric_skip(span_from(text, n), BLANKS);
	return n || blank;
}

/* Takes brackets, quotes, and names before a bracket: "tensor([", "np.float64(". */
static struct span log_metric_skip_openers(struct span text)
{
	for (int i = 0; i < OPENERS_MAX; i++) {
		size_t name = log_metric_has_class(text, 0, LETTERS "_")
		                  ? span_skip_class(text, 0, IN_WORDS)
		                  : 0;
		struct span at = span_from(text, name);
		if (!log_metric_has_class(at, 0, name ? "(" : "([\"'"))
			break;
		text = log_metric_skip(span_from(at, 1), BLANKS);
	}
	return text;
}

/* The bytes of a number, nan or inf; 0: it is none. */
static size_t log_metric_number(struct span text)
{
	static const char *const NAMES[] = { "nan", "infinity", "inf" };
	size_t sign = log_metric_has_class(text, 0, "+-");
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
		size_t n = strlen(NAMES[i]);
		if (text.n >= sign + n && strncasecmp(text.p + sign, NAMES[i], n) == 0)
			return log_metric_has_class(text, sign + n, WORD) ? 0 : sign + n;
	}
	size_t whole = span_skip_class(text, sign, "0-9");
	size_t end = whole;
	if (log_metric_has_class(text, whole, ".") && log_metric_has_class(text, whole + 1, "0-9"))
		end = span_skip_class(text, whole + 1, "0-9");
	if (end == sign)
		return 0;
	bool exact = end > whole;
	if (log_metric_has_class(text, end, "eE")) {
		size_t power = end + 1 + log_metric_has_class(text, end + 1, "+-");
		end = log_metric_has_class(text, power, "0-9") ? span_skip_class(text, power, "0-9")
		                                               : end;
	}
	/* Not a version, date, time, range, "0,5", "1,234", nor the beginning of a name; but a unit
	 * may follow. */
	if (log_metric_has_class(text, end, ".:,-") && log_metric_has_class(text, end + 1, "0-9") &&
	    !(exact && text.p[end] == ','))
		return 0;
	size_t unit = span_skip_class(text, end, LETTERS);
	return unit - end > UNIT_MAX || log_metric_has_class(text, unit, WORD) ? 0 : end;
}

struct span log_metric_last(struct span log, const char *name, struct arena *a)
{
	struct span last = { NULL, 0 };
	struct span text = log_metric_plain(log, a);
	size_t n = strlen(name);
	for (size_t i = 0; i + n <= text.n; i++) {
		if (strncasecmp(text.p + i, name, n) != 0 ||
		    (i && log_metric_has_class(text, i - 1, BEFORE)))
			continue;
		struct span rest = span_from(text, i + n);
		rest = span_from(rest, log_metric_has_class(rest, 0, "\"'"));
		if (!log_metric_skip_separator(&rest, log_metric_in_cell(span_to(text, i))))
			continue;
		rest = log_metric_skip_openers(rest);
		size_t number = log_metric_number(rest);
		if (number && number <= NUMBER_BYTES)
			last = (struct span){ rest.p, number };
	}
	return last;
}
