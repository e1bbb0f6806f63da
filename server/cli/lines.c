#include "server/cli/lines.h"

#include "base/enc.h"

enum { WIDE = 0x1100 }; /* from here on a character may take two columns */

static void hand_over(struct lines *l, line_taker *take, void *arg)
{
	struct span line = str_view(&l->line);
	if (!l->cut && line.n && line.p[line.n - 1] == '\r')
		line.n--;
	take(arg, line, l->cut);
	l->line.n = 0;
	l->cut = false;
}

static void keep(struct lines *l, struct span bytes)
{
	size_t room = l->line.max - l->line.n;
	str_put(&l->line, bytes.p, bytes.n < room ? bytes.n : room);
	l->cut |= bytes.n > room;
}

void lines_feed(struct lines *l, struct span bytes, line_taker *take, void *arg)
{
	while (bytes.n) {
		const char *end = memchr(bytes.p, '\n', bytes.n);
		size_t n = end ? (size_t)(end - bytes.p) : bytes.n;
		keep(l, (struct span){ bytes.p, n });
		if (end)
			hand_over(l, take, arg);
		n += end != NULL;
		bytes = (struct span){ bytes.p + n, bytes.n - n };
	}
}

void lines_end(struct lines *l, line_taker *take, void *arg)
{
	if (l->line.n || l->cut)
		hand_over(l, take, arg);
}

void lines_done(struct lines *l)
{
	str_done(&l->line);
}

/* The character at the start of UTF-8, and its bytes. */
static uint32_t character(struct span text, size_t *n)
{
	static const unsigned char MASK[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	unsigned char first = (unsigned char)text.p[0];
	*n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	uint32_t c = first & MASK[*n];
	for (size_t i = 1; i < *n && i < text.n; i++)
		c = c << 6 | ((unsigned char)text.p[i] & 0x3f);
	return c;
}

/* Controls of Unicode, line ends of its own, and what turns the direction. */
static bool is_hidden(uint32_t c)
{
	return (c < 0x20 && c != '\t') || (c >= 0x7f && c < 0xa0) || c == 0x61c ||
	       (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

void visible_text(struct str *out, struct span text)
{
	size_t good = utf8_check(text);
	for (size_t i = 0, n; i < text.n; i += n) {
		struct span rest = { text.p + i, text.n - i };
		if (i == good) {
			str_printf(out, "\\x%02x", (unsigned char)text.p[i]);
			n = 1;
			good = i + 1 + utf8_check((struct span){ rest.p + 1, rest.n - 1 });
			continue;
		}
		uint32_t c = character(rest, &n);
		if (!is_hidden(c))
			str_put(out, rest.p, n);
		else
			str_printf(out, c < 0x80 ? "\\x%02x" : "\\u{%x}", (unsigned)c);
	}
}

struct span visible_part(struct span line)
{
	while (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	const char *last = line.n ? memrchr(line.p, '\r', line.n) : NULL;
	size_t skip = last ? (size_t)(last - line.p) + 1 : 0;
	return (struct span){ line.p + skip, line.n - skip };
}

static size_t width_of(uint32_t c)
{
	return c < WIDE ? 1 : 2;
}

size_t visible_width(struct span text)
{
	size_t columns = 0;
	for (size_t i = 0, n; i < text.n; i += n)
		columns += width_of(character((struct span){ text.p + i, text.n - i }, &n));
	return columns;
}

struct span visible_cut(struct span text, size_t columns)
{
	size_t i = 0;
	for (size_t n; i < text.n; i += n) {
		size_t width = width_of(character((struct span){ text.p + i, text.n - i }, &n));
		if (width > columns)
			break;
		columns -= width;
	}
	return (struct span){ text.p, i < text.n ? i : text.n };
}
