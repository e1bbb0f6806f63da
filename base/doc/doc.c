/* Selects the reader of a job document, rejects invalid bytes, and builds trees; see tree.h, doc.h.
 */
#include "base/doc/doc.h"

#include <assert.h>
#include <stdlib.h>

#include "base/doc/tree.h"
#include "base/doc/yaml.h"
#include "base/enc.h"

/* Returns the reason why the bytes at the offset are not valid UTF-8. */
static const char *utf8_fault(struct span text, size_t offset)
{
	const unsigned char *p = (const unsigned char *)text.p + offset;
	size_t left = text.n - offset;
	bool mark = left >= 2 && ((p[0] == 0xfe && p[1] == 0xff) || (p[0] == 0xff && p[1] == 0xfe));
	if (offset == 0 && mark)
		return "this is UTF-16; a job must be UTF-8";
	if (p[0] == 0xc0 || p[0] == 0xc1 ||
	    (left >= 2 && ((p[0] == 0xe0 && p[1] >= 0x80 && p[1] < 0xa0) ||
	                   (p[0] == 0xf0 && p[1] >= 0x80 && p[1] < 0x90))))
		return "invalid UTF-8 (overlong form of a character)";
	if (left >= 2 && p[0] == 0xed && p[1] >= 0xa0 && p[1] < 0xc0)
		return "invalid UTF-8 (half of a surrogate pair)";
	size_t want = p[0] >= 0xf0 && p[0] < 0xf8 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] >= 0xc2 && p[0] < 0xf5) {
		size_t have = 1;
		while (have < want && have < left && (p[have] & 0xc0) == 0x80)
			have++;
		if (have < want)
			return "invalid UTF-8 (truncated character)";
	}
	return "invalid UTF-8";
}

static int check_bytes(struct span text, struct err *e)
{
	const char *nul = text.n ? memchr(text.p, '\0', text.n) : NULL;
	size_t bad = utf8_check(text);
	if (nul && (size_t)(nul - text.p) <= bad) {
		size_t at = (size_t)(nul - text.p);
		bool wide = at < 2; /* every other byte of UTF-16 is 0 */
		return err_at(e, INVALID_PROTOCOL, text_place(text, at),
		              "control character U+0000 (NUL) is not allowed%s",
		              wide ? " (is this UTF-16? a job must be UTF-8)" : "");
	}
	if (bad < text.n) {
		return err_at(e, INVALID_PROTOCOL, text_place(text, bad), "%s at byte %zu",
		              utf8_fault(text, bad), bad);
	}
	return 0;
}

/* Returns true if the first byte after white space and JSON comments is a brace. */
static bool looks_like_json(struct span t)
{
	for (;;) {
		t = span_from(t, span_skip_class(t, 0, " \t\r\n"));
		size_t end = SIZE_MAX;
		if (span_starts(t, "/*"))
			end = span_find(t, 2, "*/");
		else if (span_starts(t, "//"))
			end = span_chr(t, '\n');
		if (end >= t.n)
			return t.n > 0 && t.p[0] == '{';
		t = span_from(t, end + (t.p[1] == '*' ? 2 : 1));
	}
}

/* Parameters as in the header.  NOLINTNEXTLINE(readability-function-size) */
int doc_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
             struct notes *warnings, struct err *e)
{
	assert(text.n < UINT32_MAX);
	if (span_starts(text, "\xef\xbb\xbf"))
		text = span_from(text, 3);
	if (check_bytes(text, e) < 0)
		return -1;
	if (!looks_like_json(text))
		return yaml_read(text, b, a, doc, warnings, e);
	ERR_AUTO json = { 0 };
	if (json_read(text, b, a, doc, warnings, &json) == 0)
		return 0;
	bool no_json = doc->syntax;
	ERR_AUTO yaml = { 0 };
	NOTES_AUTO yaml_warnings = { 0 };
	if (no_json && yaml_read(text, b, a, doc, &yaml_warnings, &yaml) == 0) {
		notes_move(warnings, &yaml_warnings);
		return 0;
	}
	/* Text that begins with a brace was probably meant to be JSON. */
	err_move(e, no_json && !doc->syntax ? &yaml : &json);
	return -1;
}

enum { STACK_FIRST = 64, PAIRWISE_MAX = 16, POINTER_MAX = 64 * 1024 };

void build_init(struct build *b, const struct budget *budget, struct arena *a, struct err *e)
{
	*b = (struct build){ .arena = a, .budget = budget, .e = e };
	b->frame = arena_alloc(a, budget->depth * sizeof(*b->frame));
	b->cap = STACK_FIRST;
	b->v = arena_alloc(a, b->cap * sizeof(*b->v));
}

void place_advance(struct place *at, struct span text, size_t from, size_t to)
{
	const char *p = text.p + from;
	const char *end = text.p + (to < text.n ? to : text.n);
	for (; p < end; p++) {
		const char *plain = p;
		while (p < end && *p >= ' ' && *p <= '~')
			p++;
		at->column += (unsigned)(p - plain);
		if (p == end)
			return;
		bool crlf = *p == '\r' && p + 1 < text.p + text.n && p[1] == '\n';
		if (*p == '\n' || (*p == '\r' && !crlf)) {
			at->line++;
			at->column = 1;
		} else if (((unsigned char)*p & 0xc0) != 0x80) {
			at->column++;
		}
	}
}

struct place text_place(struct span text, size_t offset)
{
	struct place at = { NULL, 1, 1 };
	place_advance(&at, text, 0, offset);
	return at;
}

/* Keys of jobs and kubeconfigs with secret values. */
static const char *const SENSITIVE[] = { "secrets",         "auth", "password", "token",
	                                 "client-key-data", NULL };

struct place build_place(const struct build *b, uint32_t line, uint32_t column)
{
	STR_AUTO at = STR_INIT(POINTER_MAX);
	for (size_t i = 0; i < b->depth; i++) {
		const struct build_frame *f = &b->frame[i];
		size_t end = i + 1 < b->depth ? f[1].first : b->n;
		if (!f->map) {
			pointer_index(&at, end - f->first);
		} else if (f->key.key) {
			pointer_key(&at, member_key(&f->key));
			if (span_among(member_key(&f->key), SENSITIVE))
				break; /* in {pw:hunter2}, the key contains the secret */
		}
	}
	return (struct place){ arena_dup(b->arena, str_view(&at)), line, column };
}

bool build_sensitive(const struct build *b)
{
	for (size_t i = 0; i < b->depth; i++) {
		const struct build_frame *f = &b->frame[i];
		if (f->map && f->key.key && span_among(member_key(&f->key), SENSITIVE))
			return true;
	}
	return false;
}

/* Apart, because build_spend is called for each value, and needs no stack frame without it. */
COLD static int build_over_budget(const struct build *b, struct place where)
{
	bool many = b->nodes > b->budget->nodes;
	return err_at(b->e, INVALID_PROTOCOL, where,
	              "the document has more than %zu %s (aliases count as what they stand for)",
	              many ? b->budget->nodes : b->budget->text, many ? "values" : "bytes of text");
}

int build_spend(struct build *b, size_t nodes, size_t text, struct place where)
{
	b->nodes += nodes;
	b->text += text;
	if (b->nodes > b->budget->nodes || b->text > b->budget->text)
		return build_over_budget(b, where);
	return 0;
}

void build_push(struct build *b, const struct node *n)
{
	struct build_frame *f = build_top(b);
	if (f == NULL) {
		b->root = *n;
		return;
	}
	if (b->n == b->cap) {
		struct member *v = arena_alloc(b->arena, 2 * b->cap * sizeof(*v));
		memcpy(v, b->v, b->n * sizeof(*v));
		b->v = v;
		b->cap *= 2;
	}
	struct member *m = &b->v[b->n++];
	if (f->map) {
		*m = f->key;
		f->key.key = NULL;
	}
	m->value = *n;
	f->flags |= n->flags & (NODE_ODD | NODE_SHARES);
}

int build_open(struct build *b, enum node_type type, uint32_t line, uint32_t column)
{
	if (b->depth >= b->budget->depth) {
		return err_at(b->e, INVALID_PROTOCOL, (struct place){ NULL, line, column },
		              "lists and mappings are nested more than %zu levels deep",
		              b->budget->depth);
	}
	if (build_spend(b, 1, 0, (struct place){ NULL, line, column }) < 0)
		return -1;
	b->frame[b->depth++] = (struct build_frame){
		.first = b->n, .line = line, .column = column, .map = type == NODE_MAP
	};
	return 0;
}

int build_key(struct build *b, struct span key, uint32_t line, uint32_t column)
{
	struct build_frame *f = build_top(b);
	if (key.n > b->budget->key) {
		return err_at(b->e, INVALID_PROTOCOL, (struct place){ NULL, line, column },
		              "this key is longer than %zu bytes", b->budget->key);
	}
	f->key = (struct member){
		.key = key.p,
		.key_n = (uint32_t)key.n,
		.key_line = line,
		.key_column = column,
	};
	return build_spend(b, 0, key.n, (struct place){ NULL, line, column });
}

/* The first member is kept, and reading goes on to report further errors. */
COLD static void build_report_duplicate(struct build *b, const struct member *first,
                                        const struct member *again)
{
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	b->refused = true;
	b->secret_twice |= build_sensitive(b) || span_among(member_key(again), SENSITIVE);
	if (b->e->notes.n >= NOTES_MAX) {
		b->e->notes.dropped++;
		return;
	}
	bool sensitive = build_sensitive(b);
	build_top(b)->key = *again;
	struct place at = build_place(b, again->key_line, again->key_column);
	if (sensitive)
		(void)err_at(b->e, INVALID_PROTOCOL, at,
		             "duplicate key: it stands on line %u and again on line %u",
		             first->key_line, again->key_line);
	else
		(void)err_at(b->e, INVALID_PROTOCOL, at,
		             "duplicate key \"%s\": it stands on line %u and again on line %u",
		             quote(buf, member_key(again)), first->key_line, again->key_line);
}

/*
 * Two members with the same key, in the order of the text: members of the map itself override
 * merged ones, and the first merge overrides later ones.  The first position in the map is kept.
 */
static void build_settle_members(struct build *b, struct member *first, struct member *later)
{
	bool merged = first->value.flags & NODE_MERGED;
	bool later_merged = later->value.flags & NODE_MERGED;
	const struct node *dropped = later_merged ? &later->value : &first->value;
	uint8_t shared = dropped->flags & NODE_SHARES ? NODE_SHARED | NODE_SHARES : 0;
	if (!merged && !later_merged)
		build_report_duplicate(b, first, later);
	else if (!later_merged)
		*first = *later;
	first->value.flags |= NODE_OVERRIDES | shared;
	later->key = NULL;
}

static void members_unique_few(struct build *b, struct member *m, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		for (size_t k = 0; k < i && m[i].key; k++) {
			if (m[i].key && m[k].key && span_eq(member_key(&m[k]), member_key(&m[i])))
				build_settle_members(b, &m[k], &m[i]);
		}
	}
}

/* Orders by key, then position. */
static int compare_keys(const void *x, const void *y)
{
	const struct member *a = *(struct member *const *)x;
	const struct member *b = *(struct member *const *)y;
	int order = span_compare(member_key(a), member_key(b));
	return order ? order : (a > b) - (a < b);
}

static void members_unique_many(struct build *b, struct member *m, size_t n)
{
	FREE_AUTO struct member **sorted = xcalloc(n, sizeof(struct member *));
	for (size_t i = 0; i < n; i++)
		sorted[i] = &m[i];
	qsort(sorted, n, sizeof(struct member *), compare_keys);
	struct member *first = sorted[0];
	for (size_t i = 1; i < n; i++) {
		if (!span_eq(member_key(first), member_key(sorted[i])))
			first = sorted[i];
		else
			build_settle_members(b, first, sorted[i]);
	}
}

static void close_map(struct build *b, struct build_frame *f, struct node *node)
{
	struct member *m = b->v + f->first;
	size_t n = b->n - f->first;
	f->key.key = NULL;
	(n > PAIRWISE_MAX ? members_unique_many : members_unique_few)(b, m, n);
	struct member *all = arena_alloc(b->arena, n * sizeof(*all));
	if (f->merges || b->refused) { /* without the overridden members and the flags */
		size_t kept = 0;
		for (size_t i = 0; i < n; i++) {
			if (m[i].key == NULL)
				continue;
			all[kept] = m[i];
			all[kept++].value.flags &= (uint8_t)~NODE_MERGED;
		}
		n = kept;
	} else if (n) {
		memcpy(all, m, n * sizeof(*all));
	}
	node->type = NODE_MAP;
	node->n = (uint32_t)n;
	node->member = all;
}

void build_close(struct build *b, struct node *n)
{
	struct build_frame *f = build_top(b);
	*n = (struct node){ .flags = f->flags, .line = f->line, .column = f->column };
	if (f->map) {
		close_map(b, f, n);
	} else {
		n->type = NODE_LIST;
		n->n = (uint32_t)(b->n - f->first);
		struct node *all = arena_alloc(b->arena, n->n * sizeof(*all));
		for (size_t i = 0; i < n->n; i++)
			all[i] = b->v[f->first + i].value;
		n->item = all;
	}
	b->n = f->first;
	b->depth--;
	struct build_frame *up = build_top(b);
	if (up && up->height < f->height + 1)
		up->height = f->height + 1;
}

const struct node *doc_quiet(struct span text, const struct budget *b, struct arena *a)
{
	ERR_AUTO e = { 0 };
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	return doc_read(text, b, a, doc, NULL, &e) == 0 ? &doc->root : NULL;
}
