/* Renders placeholders in one pass. As in Mustache, a comment, section or partial alone on its line
 * takes the line with it. */
#include "translate/reader/placeholders.h"

#include "base/enc.h"
#include "base/pod/reference.h"

enum { SECTIONS_MAX = 64 };

struct placeholder_section {
	struct span name;
	size_t at;
};

struct render_scan {
	struct render *r;
	struct span text;
	size_t pos;
	struct str *out;
	/* the line so far: */
	size_t line_start; /* in out */
	bool has_tag, has_other;
	struct placeholder_section *sections; /* open sections, innermost last */
	size_t n_sections;
};

/* One tag: `<%`, type, content, `%>`. */
struct placeholder_tag {
	size_t start, end;   /* in the text; end is behind `%>` */
	char type;           /* one of #^/>{&=! or 'n' for a plain name */
	struct span content; /* trimmed */
};

/* ---- looking up ---- */

/* The value of a name: a node, its length, or a character of a text. */
struct placeholder_value {
	const struct node *node; /* NULL: nothing */
	bool length;
	struct span character; /* p is NULL if not */
};

/* The character at an offset in UTF-16 units, as in JavaScript. */
static struct span render_character_at(struct span text, struct span key)
{
	int64_t want;
	if ((key.n > 1 && key.p[0] == '0') || parse_i64(key, 0, UINT32_MAX, &want))
		return (struct span){ NULL, 0 };
	for (size_t i = 0; i < text.n && want >= 0;) {
		unsigned char c = (unsigned char)text.p[i];
		size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
		if (want == 0 && n < 4)
			return (struct span){ text.p + i, n };
		want -= n < 4 ? 1 : 2;
		i += n;
	}
	return (struct span){ NULL, 0 };
}

static struct placeholder_value dialects_render_find(struct render *r, struct span name)
{
	struct placeholder_value f = { NULL, false, { NULL, 0 } };
	if (name.n == 0 || name.p[name.n - 1] == '.')
		return f;
	struct span word = reference_part(&name);
	for (size_t i = 0; i < r->n_roots && !f.node; i++)
		f.node = span_is(word, r->roots[i].name) ? r->roots[i].value : NULL;
	while (f.node && name.n) {
		struct span part = reference_part(&name);
		bool text = node_is(f.node, NODE_TEXT);
		/* The last part may be a length or a character. */
		if (name.n == 0 && span_is(part, "length") && (text || node_is(f.node, NODE_LIST)))
			f.length = true;
		else if (name.n == 0 && text)
			f.character = render_character_at(node_span(f.node), part);
		r->lookups += name.n == 0 && text ? f.node->n : 0;
		if (f.length || f.character.p)
			break;
		r->lookups += node_is(f.node, NODE_MAP) ? f.node->n : 0;
		f.node = reference_child(f.node, part);
	}
	return f;
}

const struct node *render_find(struct render *r, struct span name)
{
	struct placeholder_value f = dialects_render_find(r, name);
	return f.length || f.character.p ? NULL : f.node;
}

/* ---- values as text ---- */

/* Length in UTF-16 units, as in JavaScript. */
static int64_t render_text_length(struct span s)
{
	int64_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		n += (c & 0xc0) != 0x80;
		n += c >= 0xf0;
	}
	return n;
}

/* The reader bounds the depth. */
static void render_put_value(struct str *out, const struct node *n)
{
	if (node_put(out, n))
		return;
	if (n->type == NODE_MAP)
		str_puts(out, "[object Object]");
	for (uint32_t i = 0; n->type == NODE_LIST && i < n->n && !out->full; i++) {
		if (i)
			str_char(out, ',');
		render_put_value(out, n->item + i);
	}
}

/* ---- tags ---- */

static const char BAD_SECTION[] = "this section is not opened and closed in order";

static int render_problem(struct render_scan *s, const char *problem, size_t at)
{
	s->r->problem = problem;
	s->r->problem_at = at;
	return -1;
}

/* Text between tags. */
static void render_put_text(struct render_scan *s, struct span t)
{
	for (size_t i = 0; i < t.n;) {
		const char *newline = memchr(t.p + i, '\n', t.n - i);
		size_t end = newline ? (size_t)(newline - t.p) + 1 : t.n;
		for (size_t k = i; k < end && !s->has_other; k++)
			s->has_other = !is_space(t.p[k]);
		if (s->n_sections == 0)
			str_put(s->out, t.p + i, end - i);
		i = end;
		if (newline == NULL)
			return;
		if (s->has_tag && !s->has_other && s->out->n > s->line_start) {
			s->out->n = s->line_start;
			s->out->p[s->out->n] = '\0';
		}
		s->line_start = s->out->n;
		s->has_tag = s->has_other = false;
	}
}

/* Reads the tag at `start`. -1: it has no end. */
static int render_read_tag(struct span text, size_t start, struct placeholder_tag *tag)
{
	*tag = (struct placeholder_tag){ .start = start, .type = 'n' };
	size_t i = start + 2;
	while (i < text.n && is_space(text.p[i]))
		i++;
	if (i < text.n && text.p[i] != '\0' && strchr("#^/>{&=!", text.p[i]))
		tag->type = text.p[i++];
	size_t end = span_find(text, i, "%>");
	if (end == SIZE_MAX)
		return -1;
	tag->content = span_trim((struct span){ text.p + i, end - i });
	tag->end = end + 2;
	return 0;
}

/* Returns true if a value has a placeholder other than `<% $secrets.x %>`, which is filled in
 * later. */
static bool has_placeholder(struct span text, size_t from)
{
	while ((from = span_find(text, from, "<%")) != SIZE_MAX) {
		struct placeholder_tag tag;
		if (render_read_tag(text, from, &tag))
			return false;
		if (tag.type == 'n' && !span_starts(tag.content, "$secrets."))
			return true;
		from = tag.end;
	}
	return false;
}

static int render_put_name(struct render_scan *s, const struct placeholder_tag *tag)
{
	struct render *r = s->r;
	struct placeholder_value f = dialects_render_find(r, tag->content);
	struct span whole = { s->text.p + tag->start, tag->end - tag->start };
	size_t from = s->out->n;
	if (r->lookups > LOOKUPS_MAX)
		return render_problem(s, "too many placeholders in too large mappings", tag->start);
	if (f.node && f.node->type != NODE_NULL) {
		if (f.length)
			str_int(s->out, f.node->type == NODE_LIST
			                    ? f.node->n
			                    : render_text_length(node_span(f.node)));
		else if (f.character.p)
			str_span(s->out, f.character);
		else
			render_put_value(s->out, f.node);
		if (r->inner.n == 0 && has_placeholder(str_view(s->out), from))
			r->inner = whole;
		return 0;
	}
	str_span(s->out, whole);
	if (r->later) {
		if (r->later->lookups > LOOKUPS_MAX)
			return 0;
		const struct node *n = render_find(r->later, tag->content);
		if (n && n->type != NODE_NULL)
			return 0;
	}
	if (r->n_unresolved < UNRESOLVED_MAX)
		r->unresolved[r->n_unresolved] = (struct unresolved){ whole, tag->content };
	r->n_unresolved++;
	return 0;
}

static int render_put_tag(struct render_scan *s, const struct placeholder_tag *tag)
{
	s->has_tag = true;
	if (tag->type != 'n' && tag->type != '!' && s->r->taken_out.n == 0)
		s->r->taken_out = (struct span){ s->text.p + tag->start, tag->end - tag->start };
	switch (tag->type) {
	case 'n':
		s->has_other = true;
		return s->n_sections ? 0 : render_put_name(s, tag);
	case '&':
	case '{':
		s->has_other = true;
		return 0;
	case '#':
	case '^':
		if (s->n_sections == SECTIONS_MAX)
			return render_problem(s, BAD_SECTION, tag->start);
		s->sections[s->n_sections++] =
		    (struct placeholder_section){ tag->content, tag->start };
		return 0;
	case '/':
		if (s->n_sections == 0 ||
		    !span_eq(s->sections[s->n_sections - 1].name, tag->content))
			return render_problem(s, BAD_SECTION, tag->start);
		s->n_sections--;
		return 0;
	case '=':
		return render_problem(s, "the delimiters of placeholders cannot be changed (`<%=`)",
		                      tag->start);
	default: /* a comment or a partial */
		return 0;
	}
}

int render_text(struct render *r, struct span text, struct str *out)
{
	struct placeholder_section sections[SECTIONS_MAX] NOT_ZEROED;
	struct render_scan s = {
		.r = r, .text = text, .out = out, .line_start = out->n, .sections = sections
	};
	r->problem = NULL;
	r->n_unresolved = 0;
	r->taken_out = r->inner = (struct span){ "", 0 };
	while (s.pos < text.n && !out->full) {
		size_t start = span_find(text, s.pos, "<%");
		size_t end = start == SIZE_MAX ? text.n : start;
		render_put_text(&s, (struct span){ text.p + s.pos, end - s.pos });
		if (start == SIZE_MAX)
			break;
		struct placeholder_tag tag;
		if (render_read_tag(text, start, &tag))
			return render_problem(&s, "unclosed `<%`", start);
		if (render_put_tag(&s, &tag))
			return -1;
		s.pos = tag.end;
	}
	if (s.n_sections && !out->full)
		return render_problem(&s, BAD_SECTION, s.sections[s.n_sections - 1].at);
	return 0;
}

struct span render_only_name(struct span text)
{
	text = span_trim(text);
	struct placeholder_tag tag;
	bool is_tag = span_starts(text, "<%") && render_read_tag(text, 0, &tag) == 0 &&
	              tag.end == text.n && tag.type == 'n';
	return is_tag ? tag.content : (struct span){ "", 0 };
}
