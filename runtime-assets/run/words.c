#include "runtime-assets/run/words.h"

enum { WORDS_MAX = 4096 };

/* What init puts first, and what changes nothing for a single command. */
static const char *const HEADER[] = {
	"set -o errexit",
	"set -o nounset",
	"set -o pipefail",
	"if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi",
};

/* Reserved words, and what a shell does itself: there is no such program, or it would not do. */
static const char *const OF_SHELL[] = {
	"!",      "[[",       ".",        ":",        "alias",   "bg",     "break", "case",
	"cd",     "command",  "continue", "coproc",   "declare", "do",     "done",  "elif",
	"else",   "esac",     "eval",     "exec",     "exit",    "export", "fg",    "fi",
	"for",    "function", "getopts",  "hash",     "if",      "jobs",   "let",   "local",
	"popd",   "pushd",    "read",     "readonly", "return",  "select", "set",   "shift",
	"shopt",  "source",   "then",     "time",     "times",   "trap",   "type",  "typeset",
	"ulimit", "umask",    "unalias",  "unset",    "until",   "wait",   "while",
};

static bool is_one_of(struct span s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (span_is(s, list[i]))
			return true;
	}
	return false;
}

static bool is_header(struct span line)
{
	struct span s = span_trim(line);
	return s.n == 0 || s.p[0] == '#' || is_one_of(s, HEADER, sizeof(HEADER) / sizeof(*HEADER));
}

/* Without the lines of the header. */
static struct span skip_header(struct span s)
{
	while (s.n > 0) {
		const char *newline = memchr(s.p, '\n', s.n);
		size_t n = newline ? (size_t)(newline - s.p) : s.n;
		if (!is_header((struct span){ s.p, n }))
			return s;
		n += newline != NULL;
		s.p += n;
		s.n -= n;
	}
	return s;
}

/* A byte that stands for itself outside of quotes. */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (unsigned char)c >= 0x80 || (c != '\0' && strchr("_@%+=:,./-", c));
}

/* A byte that stands for itself between the quotes. */
static bool is_quotable(char c, char quote)
{
	return c != '\0' && (quote == '\'' || !strchr("$`\\", c));
}

/* A backslash at the end of a line: both are as if they were not there. */
static bool is_continued(struct span s, size_t at)
{
	return at + 1 < s.n && s.p[at] == '\\' && s.p[at + 1] == '\n';
}

/* Skip blanks; then *at is at the next word, or at the end. */
static void skip_blanks(struct span s, size_t *at)
{
	while (*at < s.n) {
		if (s.p[*at] == ' ' || s.p[*at] == '\t')
			(*at)++;
		else if (is_continued(s, *at))
			*at += 2;
		else
			return;
	}
}

/* What is between quotes, appended; *at is at the first one.  false: not for us. */
static bool read_quoted(struct span s, size_t *at, struct str *word)
{
	char quote = s.p[(*at)++];
	for (; *at < s.n; (*at)++) {
		char c = s.p[*at];
		if (c == quote) {
			(*at)++;
			return true;
		}
		if (!is_quotable(c, quote))
			return false;
		str_char(word, c);
	}
	return false;
}

static bool is_end_of_word(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/* One word.  false: not for us. */
static bool read_word(struct span s, size_t *at, struct str *word)
{
	while (*at < s.n && !is_end_of_word(s.p[*at])) {
		if (is_continued(s, *at)) {
			*at += 2;
		} else if (s.p[*at] == '\'' || s.p[*at] == '"') {
			if (!read_quoted(s, at, word))
				return false;
		} else if (is_plain(s.p[*at])) {
			str_char(word, s.p[(*at)++]);
		} else {
			return false;
		}
	}
	return true;
}

/* May it be the name of a program?  An assignment (its value may be quoted), reserved words and
 * builtins may not. */
static bool is_program(struct span word)
{
	if (word.n == 0 || memchr(word.p, '=', word.n))
		return false;
	return !is_one_of(word, OF_SHELL, sizeof(OF_SHELL) / sizeof(*OF_SHELL));
}

/* The words of one line into `list`; how many, or -1: not for us.  *at is behind them. */
static int read_line(struct span s, size_t *at, struct arena *a, char **list)
{
	int n = 0;
	for (;;) {
		skip_blanks(s, at);
		if (*at == s.n || s.p[*at] == '\n' || s.p[*at] == '#')
			return n;
		STR_AUTO word = STR_INIT(s.n);
		if (n == WORDS_MAX - 1 || !read_word(s, at, &word))
			return -1;
		if (n == 0 && !is_program(str_view(&word)))
			return -1;
		list[n++] = arena_dup(a, str_view(&word));
	}
}

enum words words_read(struct span script, struct arena *a, char ***argv)
{
	struct span s = skip_header(script);
	if (s.n == 0)
		return WORDS_NONE;
	char **list = ARENA_NEW(a, char *, WORDS_MAX);
	size_t at = 0;
	int n = read_line(s, &at, a, list);
	if (n <= 0)
		return WORDS_SHELL;
	const char *newline = at < s.n ? memchr(s.p + at, '\n', s.n - at) : NULL;
	struct span rest =
	    newline ? (struct span){ newline, (size_t)(s.p + s.n - newline) } : SPAN("");
	if (skip_header(rest).n > 0)
		return WORDS_SHELL;
	*argv = list;
	return WORDS_SIMPLE;
}
