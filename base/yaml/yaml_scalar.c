/*
 * Scalars of YAML: their tags (those of js-yaml's safe schema that jobs can mean
 * something by) and their types.
 */
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_plain.h"
#include "base/yaml/yaml_reader.h"

#define CORE "tag:yaml.org,2002:"

static bool tag_is(const char *tag, const char *name)
{
	size_t n = strlen(CORE);
	return strncmp(tag, CORE, n) == 0 && strcmp(tag + n, name) == 0;
}

static struct place here(struct yaml_reader *y, const yaml_event_t *ev)
{
	return build_place(&y->b, mark_line(&ev->start_mark), mark_column(&ev->start_mark));
}

COLD static int unknown_tag(struct yaml_reader *y, const yaml_event_t *ev, const char *tag)
{
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	/* A password that begins with `!` is a tag, too. */
	if (build_sensitive(&y->b)) {
		return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
		              "this tag is not supported (text that begins with `!` needs quotes)");
	}
	if (strncmp(tag, CORE, strlen(CORE)) == 0) {
		return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
		              "the tag `!!%s` is not supported",
		              quote(buf, span_of(tag + strlen(CORE))));
	}
	return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
	              "unknown tag `%s` (text that begins with `!` needs quotes)",
	              quote(buf, span_of(tag)));
}

static bool tagged_date(struct node *n, struct span t)
{
	(void)n; /* the caller has put the text there */
	return plain_is_date(t);
}

/* clang-format off */
static const struct scalar_tag {
	const char *name;
	bool (*resolve)(struct node *n, struct span t);
	const char *what;
} TAGS[] = {
	{ "int",       plain_int,   "an integer" },
	{ "float",     plain_float, "a number" },
	{ "bool",      plain_bool,  "true or false" },
	{ "null",      plain_null,  "null" },
	{ "timestamp", tagged_date, "a date" },
};
/* clang-format on */

/* Give a scalar that carries a tag its value; `tag` NULL is the `!` without a name. */
COLD static int tagged(struct yaml_reader *y, const yaml_event_t *ev, const char *tag,
                       struct node *n)
{
	struct span t = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	n->type = NODE_TEXT;
	n->text = arena_dup(y->b.arena, t);
	n->n = (uint32_t)t.n;
	if (tag == NULL && t.n == 0 && plain)
		n->type = NODE_NULL; /* `k: !`, as js-yaml has it */
	if (tag == NULL || tag_is(tag, "str"))
		return 0;
	for (size_t i = 0; i < sizeof(TAGS) / sizeof(TAGS[0]); i++) {
		if (!tag_is(tag, TAGS[i].name))
			continue;
		/* Empty text is null only where nothing is written at all. */
		if ((t.n == 0 && !plain) || !TAGS[i].resolve(n, t)) {
			return err_at(y->b.e, INVALID_PROTOCOL, here(y, ev),
			              "the tag `!!%s` says so, but this is not %s", TAGS[i].name,
			              TAGS[i].what);
		}
		if (tagged_date == TAGS[i].resolve)
			n->type = NODE_DATE;
		else
			n->n = 0;
		return 0;
	}
	return unknown_tag(y, ev, tag);
}

/* `! text`: libyaml hides a tag without a name before a plain scalar, js-yaml makes it text. */
static bool hidden_tag(struct yaml_reader *y, const yaml_event_t *ev)
{
	size_t i = yaml_byte(y, &ev->start_mark);
	size_t end = yaml_byte(y, &ev->end_mark);
	if (i < end && y->text.p[i] == '&') {
		while (i < end && !strchr(" \t\r\n", y->text.p[i]))
			i++;
		/* Between anchor and tag there may be lines and comments. */
		while (i < end && strchr(" \t\r\n#", y->text.p[i])) {
			bool comment = y->text.p[i] == '#';
			while (comment && i < end && !strchr("\r\n", y->text.p[i]))
				i++;
			i += i < end && !comment;
		}
	}
	return i < end && y->text.p[i] == '!';
}

/* Text with an escaped NUL, or with a line break that only some readers see. */
static int check_scalar(struct yaml_reader *y, const yaml_event_t *ev)
{
	const char *value = (const char *)ev->data.scalar.value;
	if (ev->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE &&
	    memchr(value, '\0', ev->data.scalar.length)) {
		return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		              "the character U+0000 (NUL) is not allowed in text");
	}
	if (!y->has_breaks)
		return 0;
	size_t from = yaml_byte(y, &ev->start_mark);
	size_t to = yaml_byte(y, &ev->end_mark);
	for (size_t i = from; i < to; i++) {
		const char *p = y->text.p + i;
		if ((to - i >= 2 && memcmp(p, "\xc2\x85", 2) == 0) ||
		    (to - i >= 3 &&
		     (memcmp(p, "\xe2\x80\xa8", 3) == 0 || memcmp(p, "\xe2\x80\xa9", 3) == 0))) {
			return err_at(y->b.e, INVALID_PROTOCOL, text_place(y->text, i),
			              "the line break U+%s is not allowed: readers of YAML do not "
			              "agree on it (in double quotes, write it as an escape)",
			              p[0] == '\xc2'   ? "0085"
			              : p[2] == '\xa8' ? "2028"
			                               : "2029");
		}
	}
	return 0;
}

/* The tab that a literal block scalar begins with is put back. */
COLD static int restore_tab(struct yaml_reader *y, const yaml_event_t *ev)
{
	size_t from = yaml_byte(y, &ev->start_mark);
	size_t to = yaml_byte(y, &ev->end_mark);
	while (from < to && (y->text.p[from] != '\t' || y->input[from] != TAB_MARK))
		from++;
	if (from == to)
		return 0;
	if (ev->data.scalar.style != YAML_LITERAL_SCALAR_STYLE)
		return err_at(y->b.e, INVALID_PROTOCOL, text_place(y->text, from),
		              "a tab is not allowed here");
	ev->data.scalar.value[strspn((const char *)ev->data.scalar.value, "\n")] = '\t';
	return 0;
}

/* Type and value of a scalar. */
int yaml_scalar(struct yaml_reader *y, const yaml_event_t *ev, struct node *n)
{
	struct span t = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	const char *tag = (const char *)ev->data.scalar.tag;
	bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	*n = (struct node){ .line = mark_line(&ev->start_mark),
		            .column = mark_column(&ev->start_mark) };
	if (check_scalar(y, ev) < 0 || (y->has_first_tab && restore_tab(y, ev) < 0))
		return -1;
	if (tag || (plain && y->has_bang && hidden_tag(y, ev)))
		return tagged(y, ev, tag && strcmp(tag, "!") != 0 ? tag : NULL, n);
	if (plain) {
		n->plain = true;
		if (plain_small_int(n, t))
			return 0;
		yaml_resolve_plain(n, t, y->b.arena);
		return 0;
	}
	n->type = NODE_TEXT;
	n->text = arena_dup(y->b.arena, t);
	n->n = (uint32_t)t.n;
	return 0;
}

int yaml_collection_tag(struct yaml_reader *y, const yaml_event_t *ev)
{
	bool map = ev->type == YAML_MAPPING_START_EVENT;
	const char *tag =
	    (const char *)(map ? ev->data.mapping_start.tag : ev->data.sequence_start.tag);
	if (tag == NULL || strcmp(tag, "!") == 0 || tag_is(tag, map ? "map" : "seq"))
		return 0;
	return unknown_tag(y, ev, tag);
}
