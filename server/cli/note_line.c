#include "server/cli/note_line.h"

/* A JSON pointer as it may stand on a terminal: its members are the author's text. */
static void put_pointer(struct str *out, const char *at)
{
	char buf[4 * QUOTE_MAX];
	for (const char *p = at; *p == '/';) {
		const char *end = strchrnul(++p, '/');
		str_printf(out, "/%s", quote(buf, (struct span){ p, (size_t)(end - p) }));
		p = end;
	}
	str_puts(out, ": ");
}

void note_line(struct str *out, const char *file, const char *prefix, const struct note *n)
{
	str_puts(out, file);
	if (n->line)
		str_printf(out, ":%u:%u", n->line, n->column);
	str_printf(out, ": %s", prefix);
	if (n->at && n->at[0])
		put_pointer(out, n->at);
	str_printf(out, "%s\n", n->msg);
}
