/*
 * The stored text of a job, which all users can read: without its secrets. The value of `secrets`
 * and literal members of `auth` are cut out by their position in the text; the rest stays byte for
 * byte. A changed text is read again and compared, so that a mistake cannot publish a secret. Text
 * without secrets costs nothing.
 */
#include <stdlib.h>

#include "base/doc/doc.h"
#include "base/doc/yaml.h"
#include "translate/reader/placeholders.h"
#include "translate/reader/warnings.h"

struct redact_edit {
	size_t from, to;
	const char *as;
	const struct node *hidden; /* the value at this place */
};

/* A position; columns count characters, both from 1. Line 0: not set. */
struct text_position {
	unsigned line, column;
	size_t byte;
};

struct redaction {
	struct parse_context *r;
	const struct doc *doc;
	struct span text;
	struct redact_edit *edit;
	size_t n, max;
	uintptr_t *hidden; /* addresses of the hidden values, sorted */
	size_t seen;       /* edits found in the result */
	bool auth;
	struct text_position cursor;
};

/* ---- positions to bytes ---- */

/* Continues from the last position, because most positions are in the order of the text. */
static void position_go_to_line(struct redaction *m, unsigned line, unsigned column)
{
	struct span t = m->text;
	struct text_position *c = &m->cursor;
	if (c->line == 0 || line < c->line || (line == c->line && column < c->column))
		*c = (struct text_position){ 1, 1, span_starts(t, "\xef\xbb\xbf") ? 3 : 0 };
	while (c->line < line && c->byte < t.n) {
		char is = t.p[c->byte++];
		if (is == '\r' && c->byte < t.n && t.p[c->byte] == '\n')
			c->byte++;
		if (is == '\r' || is == '\n') {
			c->line++;
			c->column = 1;
		}
	}
}

/* The byte offset of a position, or SIZE_MAX. */
static size_t redact_byte_at(struct redaction *m, unsigned line, unsigned column)
{
	struct span t = m->text;
	struct text_position *c = &m->cursor;
	position_go_to_line(m, line, column);
	for (; c->column < column && c->byte < t.n; c->column++) {
		c->byte++;
		while (c->byte < t.n && ((unsigned char)t.p[c->byte] & 0xc0) == 0x80)
			c->byte++;
	}
	return c->line == line && c->byte < t.n ? c->byte : SIZE_MAX;
}

static bool redact_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Returns true if the top-level mapping is in braces; tags and anchors may precede it. */
static bool redact_is_flow(struct redaction *m)
{
	if (m->doc->json)
		return true;
	struct span t = m->text;
	size_t i = redact_byte_at(m, m->doc->root.line, m->doc->root.column);
	while (i < t.n && (redact_is_blank(t.p[i]) || t.p[i] == '&' || t.p[i] == '!')) {
		bool property = !redact_is_blank(t.p[i++]);
		while (property && i < t.n && !redact_is_blank(t.p[i]))
			i++;
	}
	return i < t.n && t.p[i] == '{';
}

/* The end of the scalar at i, or SIZE_MAX if its form leaves any doubt. */
static size_t scalar_end(struct span t, size_t i, struct span value)
{
	if (i >= t.n)
		return SIZE_MAX;
	char q = t.p[i];
	if (q != '"' && q != '\'')
		return value.n && t.n - i >= value.n && memcmp(t.p + i, value.p, value.n) == 0
		           ? i + value.n
		           : SIZE_MAX;
	for (i++; i < t.n; i++) {
		bool doubled = q == '\'' && t.p[i] == q && i + 1 < t.n && t.p[i + 1] == q;
		if (doubled || (q == '"' && t.p[i] == '\\'))
			i++;
		else if (t.p[i] == q)
			return i + 1;
	}
	return SIZE_MAX;
}

/* ---- edits ---- */

static void add_edit(struct redaction *m, struct redact_edit e)
{
	if (m->n == m->max) {
		m->max = m->max ? 2 * m->max : 8;
		m->edit = xrealloc(m->edit, m->max * sizeof(*m->edit));
	}
	m->edit[m->n++] = e;
}

/* Replaces everything from the end of the key `secrets` to the start of the next key. */
static void edit_secrets(struct redaction *m)
{
	struct span t = m->text;
	struct span cut = m->doc->secrets;
	size_t from = (size_t)(cut.p - t.p);
	size_t to = from + cut.n;
	bool flow = redact_is_flow(m);
	bool more = flow && to < t.n && t.p[to] != '}';
	if (!flow && to < t.n) { /* keeps the line break and the indentation of the next key */
		while (to > from && t.p[to - 1] == ' ')
			to--;
		to -= to > from && t.p[to - 1] == '\n';
		to -= to > from && t.p[to - 1] == '\r';
	}
	add_edit(m, (struct redact_edit){ from, to,
	                                  more ? ": \"" REDACTED "\", " : ": \"" REDACTED "\"",
	                                  m->r->job->secrets });
}

/* A value below `<<` that n overrides would stay in the stored text. */
static void refuse_overridden(struct redaction *m, const struct field *f)
{
	if (f->n && f->n->flags & NODE_OVERRIDES)
		parse_refuse(m->r, f,
		             "overrides a value below `<<`, which cannot be hidden in the stored "
		             "job: remove that value");
}

/* shared: the member is in a mapping with an anchor. */
static void edit_auth_member(struct redaction *m, const struct field *f, bool shared)
{
	const struct node *n = f->n;
	struct span text = field_text(f);
	refuse_overridden(m, f);
	/* One reference to a secret, or nothing, is no secret. */
	if (n->type == NODE_NULL ||
	    (node_is(n, NODE_TEXT) &&
	     (text.n == 0 || span_starts(render_only_name(text), "$secrets."))))
		return;
	size_t from = redact_byte_at(m, n->line, n->column);
	size_t to = node_is(n, NODE_TEXT) ? scalar_end(m->text, from, text) : SIZE_MAX;
	if (!shared && !(n->flags & NODE_ALIASED) && to != SIZE_MAX) {
		add_edit(m, (struct redact_edit){ from, to, "\"" REDACTED "\"", n });
		m->auth = true;
		return;
	}
	parse_refuse(m->r, f,
	             "cannot be hidden in the stored job: write it in quotes, without an anchor "
	             "or alias, or use <%% $secrets.NAME %%>");
}

/* Prerequisites of all types are covered, although only images need a login. */
static void edit_auth(struct redaction *m)
{
	struct field list = field_get(TOP(m->r), "prerequisites");
	refuse_overridden(m, &list);
	for (uint32_t i = 0; i < field_items(&list); i++) {
		struct field one = field_item(&list, i);
		struct field auth = field_get(&one, "auth");
		refuse_overridden(m, &auth);
		for (uint32_t k = 0; k < field_members(&auth); k++) {
			bool shared = (list.n->flags | one.n->flags | auth.n->flags) & NODE_ALIASED;
			struct field f = field_member(&auth, k);
			if (!span_is(member_key(&auth.n->member[k]), "registryuri"))
				edit_auth_member(m, &f, shared);
		}
	}
}

static int compare_edits(const void *a, const void *b)
{
	const struct redact_edit *x = a;
	const struct redact_edit *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

/* The text from `from` to `to`, with the edits from `first` on that lie within; returns their end.
 */
static size_t redact_apply(struct redaction *m, size_t from, size_t to, size_t first,
                           struct str *out)
{
	size_t i = first;
	for (; i < m->n && m->edit[i].to <= to; i++) {
		const struct redact_edit *e = &m->edit[i];
		if (e->from < from) {
			out->full = true; /* overlapping edits */
			return i;
		}
		str_put(out, m->text.p + from, e->from - from);
		str_puts(out, e->as);
		from = e->to;
	}
	str_put(out, m->text.p + from, to - from);
	return i;
}

/* ---- check of the result ---- */

static int compare_addresses(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a;
	uintptr_t y = *(const uintptr_t *)b;
	return (x > y) - (x < y);
}

/* Returns true if two trees are equal except for the redacted values, m->hidden.  The reader's
 * budget bounds the depth.  NOLINTNEXTLINE(misc-no-recursion) */
static bool redact_same(struct redaction *m, const struct node *was, const struct node *is)
{
	uintptr_t address = (uintptr_t)was;
	if (bsearch(&address, m->hidden, m->n, sizeof(*m->hidden), compare_addresses)) {
		m->seen++;
		return node_is(is, NODE_TEXT) && span_is(node_span(is), REDACTED);
	}
	if (was->type != NODE_MAP && was->type != NODE_LIST)
		return node_equal(was, is);
	if (was->type != is->type || was->n != is->n)
		return false;
	for (uint32_t i = 0; was->type == NODE_LIST && i < was->n; i++)
		if (!redact_same(m, &was->item[i], &is->item[i]))
			return false;
	for (uint32_t i = 0; was->type == NODE_MAP && i < was->n; i++)
		if (!span_eq(member_key(&was->member[i]), member_key(&is->member[i])) ||
		    !redact_same(m, &was->member[i].value, &is->member[i].value))
			return false;
	return true;
}

/* The first byte of the key of a top-level member, or of the end of the text for NULL.  SIZE_MAX if
 * the key does not begin a line there, or is quoted. */
static size_t redact_key_begin(struct redaction *m, const struct member *k)
{
	if (!k)
		return m->text.n;
	size_t at = k->key_column == 1 ? redact_byte_at(m, k->key_line, 1) : SIZE_MAX;
	bool there = at != SIZE_MAX &&
	             span_starts((struct span){ m->text.p + at, m->text.n - at }, k->key) &&
	             (at == 0 || m->text.p[at - 1] == '\n');
	return there ? at : SIZE_MAX;
}

/* The text is read again, and is that tree but for `edits` hidden values. */
static bool redact_reads_as(struct redaction *m, struct span text, const struct node *was,
                            size_t edits)
{
	struct doc doc = { 0 };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO err = { 0 };
	m->seen = 0;
	return doc_read(text, &m->r->set->budget, m->r->a, &doc, &warnings, &err) == 0 &&
	       redact_same(m, was, &doc.root) && m->seen == edits;
}

/*
 * A top-level member with edits, from its key to the next one, is read alone and compared.  The
 * top-level mapping has no braces, and both keys begin a line, which ends every value before it; so
 * the member means the same in its place, and the other members keep their bytes and their meaning.
 * Anchors and tags, which can depend on other members and on directives, are left to the reading of
 * the whole, as is an alias, of which the anchor is missing here.
 */
static bool redact_member_is_same(struct redaction *m, const struct member *k, size_t *edit)
{
	const struct node *root = m->r->root;
	const struct node alone = { .type = NODE_MAP, .n = 1, .member = k };
	size_t from = redact_key_begin(m, k);
	size_t to = redact_key_begin(m, k + 1 < root->member + root->n ? k + 1 : NULL);
	if (from == SIZE_MAX || to == SIZE_MAX || to <= from || m->edit[*edit].from < from)
		return false;
	STR_AUTO text = STR_INIT(m->text.n + 16 * m->n);
	size_t first = *edit;
	*edit = redact_apply(m, from, to, first, &text);
	bool ends = text.n && (text.p[text.n - 1] == '\n' || to == m->text.n);
	return ends && !text.full && *edit > first && !memchr(text.p, '&', text.n) &&
	       !memchr(text.p, '!', text.n) &&
	       redact_reads_as(m, str_view(&text), &alone, *edit - first);
}

/* Returns true if all edits lie in members of the top level that are otherwise surely unchanged. */
static bool redact_is_same_by_members(struct redaction *m)
{
	const struct node *root = m->r->root;
	size_t edit = 0;
	for (uint32_t i = 0; i < root->n && edit < m->n; i++) {
		const struct member *k = &root->member[i];
		bool edited = k == m->doc->secrets_member ||
		              (m->auth && span_is(member_key(k), "prerequisites"));
		if (edited && !redact_member_is_same(m, k, &edit))
			return false;
	}
	return edit == m->n && !redact_is_flow(m);
}

static int redact_text(struct redaction *m)
{
	struct parse_context *r = m->r;
	STR_AUTO out = STR_INIT(m->text.n + 16 * m->n);
	qsort(m->edit, m->n, sizeof(*m->edit), compare_edits);
	out.full = redact_apply(m, 0, m->text.n, 0, &out) != m->n || out.full;
	r->job->config = arena_span(r->a, str_view(&out));
	r->job->redacted = true;
	m->hidden = ARENA_NEW(r->a, uintptr_t, m->n);
	for (size_t i = 0; i < m->n; i++)
		m->hidden[i] = (uintptr_t)m->edit[i].hidden;
	qsort(m->hidden, m->n, sizeof(*m->hidden), compare_addresses);
	if (!out.full &&
	    (redact_is_same_by_members(m) || redact_reads_as(m, r->job->config, r->root, m->n)))
		return 0;
	r->job->config = (struct span){ "", 0 };
	if (m->auth) /* an anchor in `auth` leaves no trace in the tree */
		return err_set(r->e, 400, r->code,
		               "the passwords in `auth` cannot be hidden in the stored job; use "
		               "<%% $secrets.NAME %%>");
	return err_set(r->e, UNKNOWN_ERROR, "the secrets of this job cannot be hidden safely");
}

/* ---- the size, and passwords elsewhere ---- */

/* Returns true if the `@` at i ends a literal password: scheme://user:password@host.
 * docker://image:tag@sha256:... has none. */
static bool has_password(struct span t, size_t i)
{
	bool colon = false;
	bool image = span_starts((struct span){ t.p + i, t.n - i }, "@sha256:");
	if (image || (i > 0 && t.p[i - 1] == ':'))
		return false;
	while (i > 0 && t.p[i - 1] > ' ' && !strchr("/@\"'<>$`", t.p[i - 1])) {
		i--;
		colon = colon || t.p[i] == ':';
	}
	return colon && i >= 3 && memcmp(t.p + i - 3, "://", 3) == 0;
}

/* Such URLs stay in the text, because the command needs them. */
static void warn_passwords(struct parse_context *r, const struct doc *doc, struct span text)
{
	struct span secrets = doc->secrets;
	for (size_t i = 0; (i = span_find(text, i, "@")) != SIZE_MAX; i++) {
		const char *p = text.p + i;
		bool secret = secrets.n && p >= secrets.p && p < secrets.p + secrets.n;
		if (secret || !has_password(text, i))
			continue;
		if (r->warnings->n < NOTES_MAX)
			notes_add(r->warnings, text_place(text, i),
			          r->job->dialect->placeholders ? WARN_URL : WARN_URL_V1);
		else /* saves the search for the position */
			r->warnings->dropped++;
	}
}

int redact_config(struct parse_context *r, const struct doc *doc, struct span text)
{
	struct redaction m = { .r = r, .doc = doc, .text = text };
	int status = 0;
	r->job->config = text;
	if (r->job->secrets)
		edit_secrets(&m);
	if (r->job->dialect->placeholders)
		edit_auth(&m);
	if (r->e->http == 0 && m.n)
		status = redact_text(&m);
	free(m.edit);
	if (r->e->http || status)
		return -1;
	warn_passwords(r, doc, text);
	if (r->job->config.n > r->set->max_annotations)
		return err_at(r->e, 400, r->code, path_place(r->a, NULL, r->root),
		              "the job file is larger than %zu bytes and cannot be stored as an "
		              "annotation",
		              r->set->max_annotations);
	return 0;
}
