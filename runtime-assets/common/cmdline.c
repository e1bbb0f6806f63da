/* Reads arguments by a table, quotes words for shells, and splits scripts that need no shell. */
#include "runtime-assets/common/cmdline.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime-assets/common/files.h"

int args_take(const struct arg *table, int i, int argc, char **argv)
{
	for (; i < argc; i++) {
		const struct arg *a = table;
		while (a->name && strcmp(a->name, argv[i]) != 0)
			a++;
		if (!a->name || (a->value && i + 1 == argc))
			break;
		if (a->value)
			*a->value = argv[++i];
		else
			*a->flag = true;
	}
	return i;
}

int args_misused(const char *command, const char *argument)
{
	char quoted[4 * QUOTE_MAX];
	if (argument)
		fprintf(stderr,
		        "pai-runtime %s: `%s`: no such option, or a value that is missing or not "
		        "allowed\n\n",
		        command, quote(quoted, span_of(argument)));
	else
		fprintf(stderr, "pai-runtime %s: an argument is missing\n\n", command);
	return MISUSED;
}

const char *env_get(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

void shell_path(struct str *out, const char *path)
{
	if (*path && span_all(span_of(path), "A-Za-z0-9/._+,:@-"))
		str_puts(out, path);
	else
		shell_word(out, span_of(path));
}

/* errexit, nounset, and pipefail where the shell supports it (an unknown option ends dash, hence
 * the subshell).  If the pipe of `run` has a directory in /proc, bash writes there the line that
 * fails: status, flags, pid, pid of the subshell, line, line of the script that called it, first
 * word.  If it cannot, errexit still ends it with the status of the command. */
static const char HEADER[] =
    "set -o errexit; set -o nounset; "
    "if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi; "
    "case \"${BASH_VERSION-}${RUNTIME_LOG_PIPE-}\" in [4-9]*/proc/[0-9]*) trap '{ builtin printf "
    "\"%s%.0s\" \"$?:$-:$$:$BASHPID:$LINENO:"
    "${BASH_LINENO[${#BASH_LINENO[@]}>1?${#BASH_LINENO[@]}-2:0]-}:"
    "${BASH_COMMAND%%[[:space:]]*}\" \"$_\"; } 2>/dev/null >|'\"${RUNTIME_LOG_PIPE%/*}/"
    "101 || :\" ERR;; esac; ";
_Static_assert(SHELL_REPORT_FD == 101, "the header has it");

void shell_header(struct str *out)
{
	str_puts(out, HEADER);
}

struct span shell_body(struct span script)
{
	return span_from(script, span_starts(script, HEADER) ? sizeof(HEADER) - 1 : 0);
}

enum { ARGV_MAX = 4096 };

/* Lines without effect on a single command. */
static const char *const SCRIPT_HEADER[] = {
	"set -o errexit",
	"set -o nounset",
	"set -o pipefail",
	"if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi",
	NULL,
};

/* Reserved words and builtins. */
static const char *const SHELL_WORDS[] = {
	"!",      "[[",       ".",        ":",        "alias",   "bg",     "break", "case",
	"cd",     "command",  "continue", "coproc",   "declare", "do",     "done",  "elif",
	"else",   "esac",     "eval",     "exec",     "exit",    "export", "fg",    "fi",
	"for",    "function", "getopts",  "hash",     "if",      "jobs",   "let",   "local",
	"popd",   "pushd",    "read",     "readonly", "return",  "select", "set",   "shift",
	"shopt",  "source",   "then",     "time",     "times",   "trap",   "type",  "typeset",
	"ulimit", "umask",    "unalias",  "unset",    "until",   "wait",   "while", NULL,
};

static struct span argv_skip_header(struct span s)
{
	for (struct span rest = s; s.n > 0; s = rest) {
		struct span line = span_trim(span_next(&rest, '\n'));
		if (line.n > 0 && line.p[0] != '#' && !span_among(line, SCRIPT_HEADER))
			break;
	}
	return s;
}

/* A backslash at the end of a line. */
static bool argv_is_continued(struct span s, size_t at)
{
	return at + 1 < s.n && s.p[at] == '\\' && s.p[at + 1] == '\n';
}

/* Appends the text between quotes; *at is at the first quote.  false: it needs a shell. */
static bool argv_quoted(struct span s, size_t *at, struct str *word)
{
	char quote = s.p[(*at)++];
	for (; *at < s.n; (*at)++) {
		char c = s.p[*at];
		if (c == quote) {
			(*at)++;
			return true;
		}
		if (c == '\0' || (quote == '"' && strchr("$`\\", c)))
			return false;
		str_char(word, c);
	}
	return false;
}

/* false: it needs a shell. */
static bool argv_word(struct span s, size_t *at, struct str *word)
{
	while (*at < s.n && !class_has_char(s.p[*at], " \t\n")) {
		char c = s.p[*at];
		bool plain = class_has_char(c, "-A-Za-z0-9_@%+=:,./\x80-\xff");
		if (argv_is_continued(s, *at)) {
			*at += 2;
		} else if (c == '\'' || c == '"') {
			if (!argv_quoted(s, at, word))
				return false;
		} else if (plain) {
			str_char(word, c);
			(*at)++;
		} else {
			return false;
		}
	}
	return true;
}

/* Reads the words of one line.  Returns their number, or -1: it needs a shell. */
static int argv_line(struct span s, size_t *at, struct arena *a, char **list)
{
	int n = 0;
	for (;;) {
		while (*at < s.n &&
		       (s.p[*at] == ' ' || s.p[*at] == '\t' || argv_is_continued(s, *at)))
			*at += s.p[*at] == '\\' ? 2 : 1;
		if (*at == s.n || s.p[*at] == '\n' || s.p[*at] == '#')
			return n;
		STR_AUTO word = STR_INIT(s.n);
		if (n == ARGV_MAX - 1 || !argv_word(s, at, &word))
			return -1;
		/* Assignments, reserved words and builtins are not programs. */
		if (n == 0 && (word.n == 0 || memchr(word.p, '=', word.n) ||
		               span_among(str_view(&word), SHELL_WORDS)))
			return -1;
		list[n++] = arena_dup(a, str_view(&word));
	}
}

enum argv_kind argv_split(struct span script, struct arena *a, char ***argv)
{
	struct span s = argv_skip_header(shell_body(script));
	if (s.n == 0)
		return ARGV_NONE;
	char **list = ARENA_NEW(a, char *, ARGV_MAX);
	size_t at = 0;
	int n = argv_line(s, &at, a, list);
	if (n <= 0)
		return ARGV_SHELL;
	struct span rest = { s.p + at, s.n - at };
	(void)span_next(&rest, '\n');
	if (argv_skip_header(rest).n > 0)
		return ARGV_SHELL;
	*argv = list;
	return ARGV_SIMPLE;
}
