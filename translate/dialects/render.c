/* Rendering in one pass. As in Mustache, a comment, section or partial alone on its line takes
 * the line with it. */
#include "translate/dialects/render.h"

#include "base/enc.h"

enum { SECTIONS_MAX = 64 };

struct section {
	struct span name;
	size_t at;
};

struct scan {
	struct render *r;
	struct span text;
	size_t pos;
	struct str *out;
	/* the line so far: */
	size_t line_start; /* in out */
	bool has_tag, has_other;
	struct section *sections; /* open sections, innermost last */
	size_t n_sections;
};

/* One tag: `<%`, type, content, `%>`. */
struct tag {
	size_t start, end;   /* in the text; end is behind `%>` */
	char type;           /* one of #^/>{&=! or 'n' for a plain name */
	struct span content; /* trimmed */
};

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- looking up ---- */

static const struct node *root_value(const struct render *r, struct span name)
{
	for (size_t i = 0; i < r->n_roots; i++) {
		if (span_is(name, r->roots[i].name))
			return r->roots[i].value;
	}
	return NULL;
}

static const struct node *list_item(const struct node *list, struct span key)
{
	int64_t i;
	if ((key.n > 1 && key.p[0] == '0') || parse_i64(key, 0, UINT32_MAX, &i) || i >= list->n)
		return NULL;
	return list->item + i;
}

static const struct node *render_child(struct render *r, const struct node *n, struct span key)
{
	if (node_is(n, NODE_LIST))
		return list_item(n, key);
	if (!node_is(n, NODE_MAP))
		return NULL;
	r->lookups += n->n;
	const struct member *m = node_member(n, key);
	return m ? &m->value : NULL;
}

/* For `[digits]` at the start of s the offset of `]`, else 0. */
static size_t index_digits(struct span s)
{
	if (s.n < 3 || s.p[0] != '[')
		return 0;
	size_t i = 1;
	while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
		i++;
	return i > 1 && i < s.n && s.p[i] == ']' ? i : 0;
}

/* Cuts the next part off a name: `a.b[0].c` has the parts a, b, 0, c. `x[0]y` is invalid; its
 * part is "". */
static struct span render_next_part(struct span *name)
{
	size_t digits = index_digits(*name);
	if (digits) {
		struct span part = { name->p + 1, digits - 1 };
		size_t used = digits + 1;
		bool more = used < name->n && (name->p[used] == '.' || name->p[used] == '[');
		if (used < name->n && !more)
			part.n = 0;
		used += used < name->n && name->p[used] == '.';
		*name = (struct span){ name->p + used, name->n - used };
		return part;
	}
	size_t i = 0;
	while (i < name->n && name->p[i] != '.' &&
	       index_digits((struct span){ name->p + i, name->n - i }) == 0)
		i++;
	struct span part = { name->p, i };
	i += i < name->n && name->p[i] == '.';
	*name = (struct span){ name->p + i, name->n - i };
	return part;
}

/* The value of a name: a node, its length, or a character of a text. */
struct found {
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

/* The last part of a name may be a length or a character. */
static bool find_special(struct render *r, struct span part, struct found *f)
{
	bool text = node_is(f->node, NODE_TEXT);
	if (span_is(part, "length") && (text || node_is(f->node, NODE_LIST)))
		f->length = true;
	else if (text)
		f->character = render_character_at(node_span(f->node), part);
	r->lookups += text ? f->node->n : 0;
	return f->length || f->character.p;
}

static struct found dialects_render_find(struct render *r, struct span name)
{
	struct found f = { NULL, false, { NULL, 0 } };
	if (name.n == 0 || name.p[name.n - 1] == '.')
		return f;
	f.node = root_value(r, render_next_part(&name));
	while (f.node && name.n) {
		struct span part = render_next_part(&name);
		if (name.n == 0 && find_special(r, part, &f))
			break;
		f.node = render_child(r, f.node, part);
	}
	return f;
}

const struct node *render_find(struct render *r, struct span name)
{
	struct found f = dialects_render_find(r, name);
	return f.length || f.character.p ? NULL : f.node;
}

/* ---- values as text ---- */

/* Length in UTF-16 units, as in JavaScript. */
static int64_t text_length(struct span s)
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
	switch ((enum node_type)n->type) {
	case NODE_NULL:
		break;
	case NODE_BOOL:
	case NODE_INT:
		node_json(out, n);
		break;
	case NODE_REAL:
		number_put(out, n->real);
		break;
	case NODE_TEXT:
	case NODE_DATE:
		str_span(out, node_span(n));
		break;
	case NODE_LIST:
		for (uint32_t i = 0; i < n->n && !out->full; i++) {
			if (i)
				str_char(out, ',');
			render_put_value(out, n->item + i);
		}
		break;
	case NODE_MAP:
		str_puts(out, "[object Object]");
		break;
	case NODE_TYPE_MAX:
		break;
	}
}

/* ---- tags ---- */

static int render_problem(struct scan *s, enum render_problem p, size_t at)
{
	s->r->problem = p;
	s->r->problem_at = at;
	return -1;
}

/* Text between tags. */
static void render_put_text(struct scan *s, struct span t)
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
static int render_read_tag(struct span text, size_t start, struct tag *tag)
{
	*tag = (struct tag){ .start = start, .type = 'n' };
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

/* false: no value. */
static bool put_found(struct str *out, const struct found *f)
{
	const struct node *n = f->node;
	if (n == NULL || n->type == NODE_NULL)
		return false;
	if (f->length)
		str_int(out, n->type == NODE_LIST ? n->n : text_length(node_span(n)));
	else if (f->character.p)
		str_span(out, f->character);
	else
		render_put_value(out, n);
	return true;
}

/* Whether a value has a placeholder other than `<% $secrets.x %>`, which is filled in later. */
static bool has_placeholder(struct span text, size_t from)
{
	while ((from = span_find(text, from, "<%")) != SIZE_MAX) {
		struct tag tag;
		if (render_read_tag(text, from, &tag))
			return false;
		if (tag.type == 'n' && !span_starts(tag.content, "$secrets."))
			return true;
		from = tag.end;
	}
	return false;
}

static bool is_for_later(struct render *later, struct span name)
{
	if (later == NULL || later->lookups > LOOKUPS_MAX)
		return later != NULL;
	const struct node *n = render_find(later, name);
	return n && n->type != NODE_NULL;
}

static int put_name(struct scan *s, const struct tag *tag)
{
	struct render *r = s->r;
	struct found f = dialects_render_find(r, tag->content);
	struct span whole = { s->text.p + tag->start, tag->end - tag->start };
	size_t from = s->out->n;
	if (r->lookups > LOOKUPS_MAX)
		return render_problem(s, RENDER_LOOKUPS, tag->start);
	if (put_found(s->out, &f)) {
		if (r->inner.n == 0 && has_placeholder(str_view(s->out), from))
			r->inner = whole;
		return 0;
	}
	str_span(s->out, whole);
	if (is_for_later(r->later, tag->content))
		return 0;
	if (r->n_unresolved < UNRESOLVED_MAX)
		r->unresolved[r->n_unresolved] = (struct unresolved){ whole, tag->content };
	r->n_unresolved++;
	return 0;
}

static int open_section(struct scan *s, const struct tag *tag)
{
	if (s->n_sections == SECTIONS_MAX)
		return render_problem(s, RENDER_SECTION, tag->start);
	s->sections[s->n_sections++] = (struct section){ tag->content, tag->start };
	return 0;
}

static int close_section(struct scan *s, const struct tag *tag)
{
	if (s->n_sections == 0 || !span_eq(s->sections[s->n_sections - 1].name, tag->content))
		return render_problem(s, RENDER_SECTION, tag->start);
	s->n_sections--;
	return 0;
}

static int put_tag(struct scan *s, const struct tag *tag)
{
	s->has_tag = true;
	if (tag->type != 'n' && tag->type != '!' && s->r->taken_out.n == 0)
		s->r->taken_out = (struct span){ s->text.p + tag->start, tag->end - tag->start };
	switch (tag->type) {
	case 'n':
		s->has_other = true;
		return s->n_sections ? 0 : put_name(s, tag);
	case '&':
	case '{':
		s->has_other = true;
		return 0;
	case '#':
	case '^':
		return open_section(s, tag);
	case '/':
		return close_section(s, tag);
	case '=':
		return render_problem(s, RENDER_DELIMITER, tag->start);
	default: /* a comment or a partial */
		return 0;
	}
}

int render_text(struct render *r, struct span text, struct str *out)
{
	struct section sections[SECTIONS_MAX] NOT_ZEROED;
	struct scan s = {
		.r = r, .text = text, .out = out, .line_start = out->n, .sections = sections
	};
	r->problem = RENDER_OK;
	r->n_unresolved = 0;
	r->taken_out = r->inner = (struct span){ "", 0 };
	while (s.pos < text.n && !out->full) {
		size_t start = span_find(text, s.pos, "<%");
		size_t end = start == SIZE_MAX ? text.n : start;
		render_put_text(&s, (struct span){ text.p + s.pos, end - s.pos });
		if (start == SIZE_MAX)
			break;
		struct tag tag;
		if (render_read_tag(text, start, &tag))
			return render_problem(&s, RENDER_UNCLOSED, start);
		if (put_tag(&s, &tag))
			return -1;
		s.pos = tag.end;
	}
	if (s.n_sections && !out->full)
		return render_problem(&s, RENDER_SECTION, s.sections[s.n_sections - 1].at);
	return 0;
}

struct span render_only_name(struct span text)
{
	text = span_trim(text);
	struct tag tag;
	bool is_tag = span_starts(text, "<%") && render_read_tag(text, 0, &tag) == 0 &&
	              tag.end == text.n && tag.type == 'n';
	return is_tag ? tag.content : (struct span){ "", 0 };
}

const char *render_problem_text(enum render_problem p)
{
	switch (p) {
	case RENDER_UNCLOSED:
		return "unclosed `<%`";
	case RENDER_DELIMITER:
		return "the delimiters of placeholders cannot be changed (`<%=`)";
	case RENDER_SECTION:
		return "this section is not opened and closed in order";
	case RENDER_LOOKUPS:
		return "too many placeholders in too large mappings";
	case RENDER_OK:
		break;
	}
	return "";
}
