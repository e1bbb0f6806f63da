/*
 * References `<% $a.b[0] %>` in the texts of a job, one pass over each text: what was put in is
 * not looked at again, so a value cannot become a reference, nor anything of YAML.
 *
 * A reference is `<%`, blanks, `$` and a path, blanks, `%>`.  Plugins and commands differ in what
 * else may stand between the marks: in the parameters of a plugin every `<% $` must be a
 * reference that leads somewhere; in the user's command only `$secrets` is ours.
 */
#include "base/enc.h"
#include "runtime-assets/files.h"
#include "runtime-assets/init/job.h"

enum { TREE_TEXT_MAX = 4 << 20 };

/* ---- the text of a path -------------------------------------------------------------------- */

/* What no part of a path holds; so a path ends where the next reference begins. */
static bool is_key_char(char c)
{
	return (unsigned char)c >= ' ' && c != 0x7f && !strchr("<>%.[]", c);
}

static size_t key_length(struct span s)
{
	size_t n = 0;
	while (n < s.n && is_key_char(s.p[n]))
		n++;
	return n;
}

static size_t digits_length(struct span s)
{
	size_t n = 0;
	while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
		n++;
	return n;
}

static struct span behind(struct span s, size_t n)
{
	return (struct span){ s.p + n, s.n - n };
}

static struct span between(struct span text, size_t from, size_t to)
{
	return (struct span){ text.p + from, to - from };
}

/* Cut `.key` or `[n]` off the front; false if there is neither. */
static bool next_part(struct span *rest, struct span *part)
{
	if (rest->n < 2)
		return false;
	bool index = rest->p[0] == '[';
	if (!index && rest->p[0] != '.')
		return false;
	struct span s = behind(*rest, 1);
	size_t n = index ? digits_length(s) : key_length(s);
	if (n == 0 || (index && (n == s.n || s.p[n] != ']')))
		return false;
	*part = (struct span){ s.p, n };
	*rest = behind(s, n + index);
	return true;
}

/* A reference in a text. */
struct tag {
	size_t start, end; /* end is behind `%>` */
	struct span word;  /* `secrets` */
	struct span path;  /* `.a[0]`; checked */
	bool good;         /* it is one; otherwise it only begins like one, with `<% $` */
};

struct scan {
	struct span text;
	/* The first `%>` at or behind where we are, SIZE_MAX if there is none, and where the blanks
	 * before it begin: looked for once, so that time is linear in the text. */
	size_t close, content_end;
};

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static void find_close(struct scan *s, size_t from)
{
	s->close = s->content_end = span_find(s->text, from, "%>");
	while (s->close != SIZE_MAX && s->content_end > from &&
	       is_blank(s->text.p[s->content_end - 1]))
		s->content_end--;
}

static void read_tag(struct span content, struct tag *t)
{
	size_t n = key_length(content);
	struct span rest = behind(content, n);
	struct span part;
	t->word = (struct span){ content.p, n };
	t->path = rest;
	while (next_part(&rest, &part)) {
	}
	t->good = n > 0 && rest.n == 0;
}

/* The next place at or behind `from` where `<% $` stands; false if there is none. */
static bool next_tag(struct scan *s, size_t from, struct tag *t)
{
	for (;; from += 2) {
		from = span_find(s->text, from, "<%");
		if (from == SIZE_MAX)
			return false;
		if (s->close < from + 2)
			find_close(s, from + 2);
		if (s->close == SIZE_MAX)
			return false;
		size_t dollar = from + 2;
		while (dollar < s->content_end && is_blank(s->text.p[dollar]))
			dollar++;
		if (dollar >= s->content_end || s->text.p[dollar] != '$')
			continue;
		*t = (struct tag){ .start = from, .end = s->close + 2 };
		read_tag(between(s->text, dollar + 1, s->content_end), t);
		return true;
	}
}

/* ---- what it leads to ---------------------------------------------------------------------- */

static const struct node *child(const struct node *n, struct span part)
{
	int64_t i;
	if (node_is(n, NODE_MAP)) {
		const struct member *m = node_member(n, part);
		return m ? &m->value : NULL;
	}
	if (!node_is(n, NODE_LIST) || (part.n > 1 && part.p[0] == '0'))
		return NULL;
	if (parse_i64(part, 0, UINT32_MAX, &i) || i >= n->n)
		return NULL;
	return &n->item[i];
}

static const struct node *follow(const struct node *n, struct span path)
{
	struct span part;
	while (n && next_part(&path, &part))
		n = child(n, part);
	return n;
}

/* Where a path begins: what the first word stands for. */
static const struct node *root_of(const struct job *j, struct span word)
{
	static const char *const OF_ROLE[] = { "script", "output", "data" };
	if (span_is(word, "parameters"))
		return node_get(&j->doc.root, "parameters");
	if (span_is(word, "secrets"))
		return j->secrets;
	for (size_t i = 0; i < sizeof(OF_ROLE) / sizeof(*OF_ROLE); i++) {
		const struct node *name = node_get(j->role, OF_ROLE[i]);
		if (span_is(word, OF_ROLE[i]) && node_is(name, NODE_TEXT))
			return job_prerequisite(j, OF_ROLE[i], node_span(name));
	}
	return NULL;
}

bool job_scalar(const struct node *n, struct str *out)
{
	switch ((enum node_type)n->type) {
	case NODE_NULL:
		return true;
	case NODE_BOOL:
		str_puts(out, n->boolean ? "true" : "false");
		return true;
	case NODE_INT:
		str_int(out, n->integer);
		return true;
	case NODE_REAL:
		number_put(out, n->real);
		return true;
	case NODE_TEXT:
	case NODE_DATE:
		str_span(out, node_span(n));
		return true;
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return false;
}

/* ---- filling -------------------------------------------------------------------------------- */

/* The error names the reference, which is the author's text; never a value. */
static int bad_tag(const struct scan *s, const struct tag *t, const char *why, struct err *e)
{
	char buf[4 * QUOTE_MAX];
	struct span text = { s->text.p + t->start, t->end - t->start };
	return err_set(e, FAILED, "reference `%s` %s", quote(buf, text), why);
}

static int put_reference(const struct job *j, const struct scan *s, const struct tag *t,
                         struct str *out, struct err *e)
{
	if (!t->good)
		return bad_tag(s, t, "is not written as $word.key[0]", e);
	const struct node *n = follow(root_of(j, t->word), t->path);
	if (!n)
		return bad_tag(s, t, "leads nowhere", e);
	if (!job_scalar(n, out))
		return bad_tag(s, t, "is a mapping or a list, not a text", e);
	return 0;
}

static int whole(const struct str *out, struct err *e)
{
	return out->full ? err_set(e, FAILED, "a text has more than %zu bytes with its references",
	                           out->max)
	                 : 0;
}

int job_fill(const struct job *j, struct span text, struct str *out, struct err *e)
{
	struct scan s = { .text = text };
	struct tag t;
	size_t done = 0;
	while (next_tag(&s, done, &t) && !out->full) {
		str_span(out, between(text, done, t.start));
		if (put_reference(j, &s, &t, out, e))
			return -1;
		done = t.end;
	}
	str_span(out, behind(text, done));
	return whole(out, e);
}

int job_fill_secrets(const struct job *j, struct span text, struct str *out, struct err *e)
{
	struct scan s = { .text = text };
	struct tag t;
	size_t done = 0;
	size_t from = 0;
	while (next_tag(&s, from, &t) && !out->full) {
		from = t.start + 2;
		if (!t.good || t.path.n == 0 || !span_is(t.word, "secrets"))
			continue;
		str_span(out, between(text, done, t.start));
		const struct node *n = follow(j->secrets, t.path);
		if (n && !job_scalar(n, out))
			return bad_tag(&s, &t, "is a mapping or a list, not a text", e);
		done = from = t.end;
	}
	str_span(out, behind(text, done));
	return whole(out, e);
}

/* ---- trees ---------------------------------------------------------------------------------- */

struct filling {
	const struct job *j;
	struct arena *a;
	size_t left; /* bytes of text that may still come */
	struct err *e;
};

static int fill_text(struct filling *f, const struct node *in, struct node *out)
{
	STR_AUTO text = STR_SECRET(f->left);
	if (job_fill(f->j, node_span(in), &text, f->e))
		return -1;
	f->left -= text.n;
	*out = *in;
	out->n = (uint32_t)text.n;
	out->text = arena_dup(f->a, str_view(&text));
	return 0;
}

/* Trees are no deeper than the reader's budget. */
static int fill_node(struct filling *f, const struct node *in, struct node *out)
{
	if (in->type == NODE_TEXT)
		return fill_text(f, in, out);
	*out = *in;
	if (in->type == NODE_LIST) {
		struct node *item = ARENA_NEW(f->a, struct node, in->n);
		for (uint32_t i = 0; i < in->n; i++) {
			if (fill_node(f, &in->item[i], &item[i]))
				return -1;
		}
		out->item = item;
	}
	if (in->type == NODE_MAP) {
		struct member *member = ARENA_NEW(f->a, struct member, in->n);
		for (uint32_t i = 0; i < in->n; i++) {
			member[i] = in->member[i];
			if (fill_node(f, &in->member[i].value, &member[i].value))
				return -1;
		}
		out->member = member;
	}
	return 0;
}

int job_fill_tree(const struct job *j, const struct node *in, struct arena *a, struct node *out,
                  struct err *e)
{
	struct filling f = { j, a, TREE_TEXT_MAX, e };
	struct node filled;
	if (fill_node(&f, in, &filled))
		return -1;
	*out = filled;
	return 0;
}
