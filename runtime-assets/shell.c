#include "runtime-assets/shell.h"

/* Piece by piece, for the environment of thousands of tasks goes through here. */
void shell_word(struct str *out, struct span text)
{
	const char *quote;
	str_char(out, '\'');
	while (text.n && (quote = memchr(text.p, '\'', text.n)) != NULL) {
		size_t n = (size_t)(quote - text.p);
		str_put(out, text.p, n);
		str_puts(out, "'\\''");
		text = (struct span){ quote + 1, text.n - n - 1 };
	}
	str_span(out, text);
	str_char(out, '\'');
}

static bool is_harmless(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("/._-+,:@", c));
}

void shell_path(struct str *out, const char *path)
{
	size_t n = 0;
	while (is_harmless(path[n]))
		n++;
	if (n > 0 && path[n] == '\0')
		str_puts(out, path);
	else
		shell_word(out, span_of(path));
}

void shell_header(struct str *out)
{
	str_puts(out, "#!/bin/bash\n"
	              "\n"
	              "set -o errexit\n"
	              "set -o nounset\n"
	              "if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi\n"
	              "\n");
}
