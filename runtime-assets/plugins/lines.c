/* Maps the lines of user.sh to those of `commands` as submitted.  The server and init put lines in
 * front and fill in references, some with texts of several lines. */
#include "runtime-assets/plugins/plugins_internal.h"

enum {
	LINES_SEARCHED =
	    2000,        /* of longer commands, only those without additional lines are known */
	LINE_SHOWN = 200 /* bytes */
};

struct script_lines {
	struct span *v; /* without blanks at the ends */
	size_t n;
};

static size_t lines_number(struct span text)
{
	size_t n = 1;
	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n;
}

static struct script_lines lines_split(struct span text, struct arena *a)
{
	struct script_lines l = { .n = lines_number(text) };
	l.v = ARENA_NEW(a, struct span, l.n);
	for (size_t i = 0; i < l.n; i++)
		l.v[i] = span_trim(span_next(&text, '\n'));
	return l;
}

/* Returns the lines joined as the server does. */
static struct span lines_submitted(const struct user_command *c)
{
	const struct node *list = node_get(c->job.role, "commands");
	const struct node *v1 = node_get(c->job.role, "command");
	STR_AUTO out = STR_INIT(COMMAND_MAX);
	if (!c->job.role)
		return c->text;
	if (node_is(v1, NODE_TEXT))
		return node_span(v1);
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		str_puts(&out, i ? "\n" : "");
		if (node_is(&list->item[i], NODE_TEXT))
			str_span(&out, span_trim(node_span(&list->item[i])));
	}
	return arena_span(c->a, str_view(&out));
}

static size_t lines_equal(const struct script_lines *l, size_t to, struct span text)
{
	size_t n = 0;
	for (size_t i = 0; i < to; i++)
		n += span_eq(l->v[i], text);
	return n;
}

/* The line of `from` that has become line `at` of `to`; SIZE_MAX: not known.  If lines were added,
 * only one without references can be found: the n-th of those with this text. */
static size_t lines_origin(const struct script_lines *from, const struct script_lines *to,
                           size_t at)
{
	struct span text = to->v[at];
	if (from->n == to->n)
		return span_find(from->v[at], 0, "<%") < SIZE_MAX || span_eq(from->v[at], text)
		           ? at
		           : SIZE_MAX;
	if (text.n == 0 || from->n > LINES_SEARCHED || to->n > LINES_SEARCHED ||
	    lines_equal(from, from->n, text) != lines_equal(to, to->n, text))
		return SIZE_MAX;
	size_t before = lines_equal(to, at, text);
	for (size_t i = 0; i < from->n; i++)
		if (span_eq(from->v[i], text) && before-- == 0)
			return i;
	return SIZE_MAX;
}

void command_lines(const struct user_command *c, struct span script, struct str *out)
{
	struct script_lines from = lines_split(lines_submitted(c), c->a);
	struct script_lines to = lines_split(c->text, c->a);
	size_t all = 0;
	for (size_t i = 0; i < to.n; i++) {
		size_t origin = lines_origin(&from, &to, i);
		/* The number of lines of the script that it becomes. */
		ERR_AUTO ignored = { 0 }; /* if it fails, the numbers differ */
		STR_AUTO with = STR_SECRET(COMMAND_MAX);
		if (span_find(to.v[i], 0, "<%") < SIZE_MAX)
			(void)command_fill(c, to.v[i], &with, &ignored);
		size_t filled = lines_number(str_view(&with));
		struct span text = origin < SIZE_MAX ? from.v[origin] : SPAN("");
		size_t n = span_cut(text, LINE_SHOWN).n;
		all += filled;
		for (; filled > 0 && !out->full; filled--)
			str_printf(out, "%zu %.*s%s\n", origin + 1, (int)n, text.p,
			           n < text.n ? "..." : "");
	}
	if (all != lines_number(script) || out->full)
		out->n = 0;
}
