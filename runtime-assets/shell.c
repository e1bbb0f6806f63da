#include "runtime-assets/shell.h"

void shell_word(struct str *out, struct span text)
{
	str_char(out, '\'');
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\'')
			str_puts(out, "'\\''");
		else
			str_char(out, text.p[i]);
	}
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
