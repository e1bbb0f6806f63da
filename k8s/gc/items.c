/* Cutting a list into its items; see items.h. */
#include "k8s/gc/items.h"

struct scan {
	const char *p, *end;
};

static bool is_at(struct scan *s, char c)
{
	while (s->p < s->end && strchr(" \t\r\n", *s->p) != NULL && *s->p != '\0')
		s->p++;
	return s->p < s->end && *s->p == c;
}

static bool take(struct scan *s, char c)
{
	bool there = is_at(s, c);
	s->p += there;
	return there;
}

/* Behind the closing quote of the text that begins at p; `end` if it does not end. */
static const char *skip_text(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end)
			p++;
	}
	return p < end ? p + 1 : end;
}

/* Behind the map or list that begins at p.  Whether its brackets match is for the parser. */
static const char *skip_nested(const char *p, const char *end)
{
	size_t depth = 0;
	while (p < end) {
		if (*p == '"') {
			p = skip_text(p, end);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if ((*p == '}' || *p == ']') && --depth == 0)
			return p + 1;
		p++;
	}
	return end;
}

/* One value of any kind; empty if there is none. */
static struct span take_value(struct scan *s)
{
	bool nested = is_at(s, '{') || is_at(s, '[');
	bool text = is_at(s, '"');
	const char *from = s->p;
	if (nested)
		s->p = skip_nested(from, s->end);
	else if (text)
		s->p = skip_text(from, s->end);
	else
		while (s->p < s->end && strchr(",]} \t\r\n", *s->p) == NULL)
			s->p++;
	return (struct span){ from, (size_t)(s->p - from) };
}

static int cut(struct span list, item_callback *each, void *arg)
{
	struct scan s = { list.p, list.p + list.n };
	if (!take(&s, '['))
		return -1;
	if (take(&s, ']'))
		return 0;
	do {
		struct span text = take_value(&s);
		if (text.n == 0)
			return -1;
		JSON_AUTO *item = reply_parse(text);
		if (item != NULL)
			each(arg, item);
	} while (take(&s, ','));
	return take(&s, ']') ? 0 : -1;
}

static void put_continue(struct span metadata, struct str *more)
{
	JSON_AUTO *meta = reply_parse(metadata);
	const char *token = reply_text(meta, "continue");
	if (strlen(token) <= CONTINUE_MAX)
		str_puts(more, token);
}

int items_each(struct span list, item_callback *each, void *arg, struct str *more)
{
	struct scan s = { list.p, list.p + list.n };
	bool is_list = false;
	if (!take(&s, '{'))
		return -1;
	do {
		struct span key = take_value(&s);
		if (!take(&s, ':'))
			return -1;
		struct span value = take_value(&s);
		if (value.n == 0)
			return -1;
		if (span_is(key, "\"items\"")) {
			is_list = true;
			/* null: what Go writes for none */
			if (!span_is(value, "null") && cut(value, each, arg) < 0)
				return -1;
		} else if (span_is(key, "\"metadata\"")) {
			put_continue(value, more);
		}
	} while (take(&s, ','));
	return is_list && take(&s, '}') ? 0 : -1;
}
