/* Finds the line of the job's commands that ended the shell: bash writes where errexit ended it,
 * every shell prints the line of a variable that is not set. */
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/exit/exit_internal.h"

enum {
	LINES_BACK = 200, /* of a command of several lines, shells count any */
	LAST_LINE_MAX = 4096
};

struct shell_end {
	int64_t line; /* of user.sh; 0: not known */

	struct span variable; /* that is not set; empty: it was no variable */
};

/* STATUS:FLAGS:PID:PID:LINE:CALLER:WORD.  Only the shell itself ends by errexit, with that status.
 * The line of the script is the caller if a sourced file ended it. */
static bool end_by_errexit(const struct exit_input *in, struct shell_end *end, struct arena *a)
{
	struct span rest = in->shell->report;
	struct span field[6];
	int64_t status;
	int64_t caller;
	for (size_t i = 0; i < ARRAY_SIZE(field); i++)
		field[i] = span_next(&rest, ':');
	if (parse_i64(field[0], 0, 255, &status) || status != in->code ||
	    span_chr(field[1], 'e') == field[1].n || !span_eq(field[2], field[3]) ||
	    parse_i64(field[4], 1, INT32_MAX, &end->line))
		return false;
	if (parse_i64(field[5], 1, INT32_MAX, &caller) == 0) {
		end->line = caller;
		return true;
	}
	if (rest.n == 0)
		return false;
	/* A command of several lines counts as the line of its first word, or the nearest one
	 * before. */
	const char *word = arena_dup(a, rest);
	struct span script = shell_body(in->shell->script);
	int64_t found = 0;
	for (int64_t i = 1; i <= end->line && script.n > 0; i++) {
		if (span_find(span_next(&script, '\n'), 0, word) < SIZE_MAX)
			found = i;
	}
	bool near = end->line - found < LINES_BACK;
	end->line = found;
	return near && found > 0;
}

/* The last line of the log is `.../user.sh: line 3: NAME: unbound variable`, or
 * `.../user.sh: 3: NAME: parameter not set`. */
static bool end_by_nounset(const struct exit_shell *shell, struct log_text *log,
                           struct shell_end *end, struct arena *a)
{
	size_t n = log->text.size < LAST_LINE_MAX ? log->text.size : LAST_LINE_MAX;
	char *text = ARENA_NEW(a, char, n + 1);
	log_text_copy(log, log->text.size - n, n, text);
	struct span lines = span_trim((struct span){ text, n });
	struct span said = lines;
	while (lines.n > 0)
		said = span_next(&lines, '\n');
	if (!span_starts(said, shell->path))
		return false;
	struct span rest = span_from(said, strlen(shell->path));
	if (!span_starts(rest, ": "))
		return false;
	rest = span_from(rest, span_starts(rest, ": line ") ? 7 : 2);
	struct span line = span_next(&rest, ':');
	end->variable = span_trim(span_next(&rest, ':'));
	return end->variable.n > 0 && span_only_alnum_or(end->variable, "_") &&
	       parse_i64(line, 1, INT32_MAX, &end->line) == 0 &&
	       (span_is(rest, " unbound variable") || span_is(rest, " parameter not set"));
}

void failed_line(const struct exit_input *in, struct log_text *log, struct str *out)
{
	ARENA_AUTO a = { 0 };
	struct shell_end end = { 0 };
	if (!in->shell ||
	    (!end_by_errexit(in, &end, &a) && !end_by_nounset(in->shell, log, &end, &a)))
		return;
	/* The number of the line in the job, and its text; 0: not known. */
	struct span lines = in->shell->lines;
	for (int64_t i = end.line; i > 1 && lines.n > 0; i--)
		(void)span_next(&lines, '\n');
	struct span text = span_next(&lines, '\n');
	int64_t number = 0;
	(void)parse_i64(span_next(&text, ' '), 1, INT32_MAX, &number); /* else 0 */
	struct span name = end.variable;
	if (number == 0 && name.n == 0)
		return;
	if (name.n > 0)
		str_printf(out, "the variable %.*s is not set", (int)name.n, name.p);
	if (number > 0)
		str_printf(out, "%sline %lld of the commands", name.n ? ": " : "",
		           (long long)number);
	if (number > 0 && name.n == 0)
		str_printf(out, " ended with exit code %d", in->code);
	if (number > 0)
		str_printf(out, ": %.*s", (int)text.n, text.p);
}
