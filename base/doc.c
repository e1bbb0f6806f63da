/* Selects the reader of a job document, rejects invalid bytes, and builds trees; see tree.h, doc.h.
 */
#include "base/doc.h"

#include <assert.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/tree.h"
#include "base/yaml/yaml.h"

/* Why the bytes at the offset are not valid UTF-8. */
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

static struct span skip_mark(struct span t)
{
	return span_starts(t, "\xef\xbb\xbf") ? span_from(t, 3) : t;
}

/* After white space and comments of JSON, the first byte is a brace. */
static bool looks_like_json(struct span t)
{
	const char *p = t.p;
	const char *end = t.p + t.n;
	while (p < end && *p != '{') {
		const char *close = NULL;
		if (end - p >= 2 && memcmp(p, "/*", 2) == 0)
			close = memmem(p + 2, (size_t)(end - p - 2), "*/", 2);
		else if (end - p >= 2 && memcmp(p, "//", 2) == 0)
			close = memchr(p, '\n', (size_t)(end - p));
		else if (!strchr(" \t\r\n", *p))
			return false;
		if (*p == '/' && close == NULL)
			return false;
		p = close ? close + (*close == '*' ? 2 : 1) : p + 1;
	}
	return p < end;
}

/* Parameters as in the header.  NOLINTNEXTLINE(readability-function-size) */
int doc_read(struct span text, const struct budget *b, struct arena *a, struct doc *doc,
             struct notes *warnings, struct err *e)
{
	assert(text.n < UINT32_MAX);
	text = skip_mark(text);
	if (check_bytes(text, e) < 0)
		return -1;
	if (!looks_like_json(text))
		return yaml_read(text, b, a, doc, warnings, e);
	bool no_json = false;
	bool no_yaml = true;
	ERR_AUTO json = { 0 };
	if (json_read(text, b, a, doc, warnings, &no_json, &json) == 0)
		return 0;
	ERR_AUTO yaml = { 0 };
	NOTES_AUTO yaml_warnings = { 0 };
	if (no_json && yaml_try(text, b, a, doc, &yaml_warnings, &no_yaml, &yaml) == 0) {
		notes_move(warnings, &yaml_warnings);
		return 0;
	}
	/* Text that begins with a brace was probably meant to be JSON. */
	err_move(e, no_yaml ? &json : &yaml);
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

struct place text_place(struct span text, size_t offset)
{
	struct place at = { NULL, 1, 1 };
	for (size_t i = 0; i < offset && i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		bool crlf = c == '\r' && i + 1 < text.n && text.p[i + 1] == '\n';
		if (c == '\n' || (c == '\r' && !crlf)) {
			at.line++;
			at.column = 1;
		} else if ((c & 0xc0) != 0x80) {
			at.column++;
		}
	}
	return at;
}

/* Keys of jobs and kubeconfigs with secret values. */
static bool is_sensitive(struct span key)
{
	static const char *const KEYS[] = { "secrets", "auth", "password", "token",
		                            "client-key-data" };
	for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++) {
		if (span_is(key, KEYS[i]))
			return true;
	}
	return false;
}

struct place build_place(const struct build *b, uint32_t line, uint32_t column)
{
	STR_AUTO at = STR_INIT(POINTER_MAX);
	for (size_t i = 0; i < b->depth; i++) {
		const struct frame *f = &b->frame[i];
		size_t end = i + 1 < b->depth ? f[1].first : b->n;
		if (!f->map) {
			pointer_index(&at, end - f->first);
		} else if (f->key.key) {
			pointer_key(&at, member_key(&f->key));
			if (is_sensitive(member_key(&f->key)))
				break; /* in {pw:hunter2}, the key contains the secret */
		}
	}
	return (struct place){ arena_dup(b->arena, str_view(&at)), line, column };
}

bool build_sensitive(const struct build *b)
{
	for (size_t i = 0; i < b->depth; i++) {
		const struct frame *f = &b->frame[i];
		if (f->map && f->key.key && is_sensitive(member_key(&f->key)))
			return true;
	}
	return false;
}

COLD static int over_budget(const struct build *b, struct place where)
{
	bool nodes = b->nodes > b->budget->nodes;
	return err_at(b->e, INVALID_PROTOCOL, where,
	              "the document has more than %zu %s (aliases count as what they stand for)",
	              nodes ? b->budget->nodes : b->budget->text,
	              nodes ? "values" : "bytes of text");
}

int build_spend(struct build *b, size_t nodes, size_t text, struct place where)
{
	b->nodes += nodes;
	b->text += text;
	if (b->nodes > b->budget->nodes || b->text > b->budget->text)
		return over_budget(b, where);
	return 0;
}

static struct member *stack_push(struct build *b)
{
	if (b->n == b->cap) {
		struct member *v = arena_alloc(b->arena, 2 * b->cap * sizeof(*v));
		memcpy(v, b->v, b->n * sizeof(*v));
		b->v = v;
		b->cap *= 2;
	}
	return &b->v[b->n++];
}

void build_push(struct build *b, const struct node *n)
{
	struct frame *f = build_top(b);
	if (f == NULL) {
		b->root = *n;
		return;
	}
	struct member *m = stack_push(b);
	if (f->map) {
		*m = f->key;
		f->key.key = NULL;
	}
	m->value = *n;
	f->odd |= n->flags & NODE_ODD;
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
	b->frame[b->depth++] = (struct frame){
		.first = b->n, .line = line, .column = column, .map = type == NODE_MAP
	};
	return 0;
}

static uint64_t load8(const char *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

/* n < 8 */
static uint64_t load_few(const char *p, size_t n)
{
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++)
		v = v << 8 | (unsigned char)p[i];
	return v;
}

/* Distinguishes most keys quickly; equal hashes do not slow anything down. */
static uint32_t key_hash(struct span k)
{
	uint64_t h = 0;
	if (k.n >= 8)
		h = load8(k.p) * 0x9e3779b97f4a7c15u ^ load8(k.p + k.n - 8);
	else
		h = load_few(k.p, k.n);
	h = (h ^ k.n) * 0xd6e8feb86659fd93u;
	return (uint32_t)(h >> 32);
}

int build_key(struct build *b, struct span key, uint32_t line, uint32_t column)
{
	struct frame *f = build_top(b);
	if (key.n > b->budget->key) {
		return err_at(b->e, INVALID_PROTOCOL, (struct place){ NULL, line, column },
		              "this key is longer than %zu bytes", b->budget->key);
	}
	f->key = (struct member){
		.key = key.p,
		.key_n = (uint32_t)key.n,
		.key_line = line,
		.key_column = column,
		.hash = key_hash(key),
	};
	return build_spend(b, 0, key.n, (struct place){ NULL, line, column });
}

/* The first member is kept, and reading goes on to report further errors. */
COLD static void duplicate(struct build *b, const struct member *first, const struct member *again)
{
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	b->refused = true;
	b->secret_twice |= build_sensitive(b) || is_sensitive(member_key(again));
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

static bool node_is_empty(const struct node *n)
{
	return n->type == NODE_NULL ||
	       (n->n == 0 && (n->type == NODE_TEXT || n->type == NODE_LIST || n->type == NODE_MAP));
}

/*
 * Two members with the same key, in the order of the text: members of the map itself override
 * merged ones, and the first merge overrides later ones.  The first position in the map is kept.
 */
static void settle(struct build *b, struct member *first, struct member *later)
{
	bool merged = first->value.flags & NODE_MERGED;
	bool later_merged = later->value.flags & NODE_MERGED;
	const struct node *dropped = later_merged ? &later->value : &first->value;
	bool only_here = !(dropped->flags & NODE_ALIASED) && !node_is_empty(dropped);
	if (!merged && !later_merged)
		duplicate(b, first, later);
	else if (!later_merged)
		*first = *later;
	if (only_here)
		first->value.flags |= NODE_OVERRIDES;
	later->key = NULL;
}

static bool doc_same_key(const struct member *x, const struct member *y)
{
	return x->hash == y->hash && span_eq(member_key(x), member_key(y));
}

static void unique_few(struct build *b, struct member *m, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		for (size_t k = 0; k < i && m[i].key; k++) {
			if (m[i].key && m[k].key && doc_same_key(&m[k], &m[i]))
				settle(b, &m[k], &m[i]);
		}
	}
}

/* By hash, then key, then position. */
static int compare_keys(const void *x, const void *y)
{
	const struct member *a = *(struct member *const *)x;
	const struct member *b = *(struct member *const *)y;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->key_n != b->key_n)
		return a->key_n < b->key_n ? -1 : 1;
	int order = memcmp(a->key, b->key, a->key_n);
	if (order)
		return order;
	return a < b ? -1 : a > b;
}

static void unique_many(struct build *b, struct member *m, size_t n)
{
	FREE_AUTO struct member **sorted = xcalloc(n, sizeof(struct member *));
	for (size_t i = 0; i < n; i++)
		sorted[i] = &m[i];
	qsort(sorted, n, sizeof(struct member *), compare_keys);
	struct member *first = sorted[0];
	for (size_t i = 1; i < n; i++) {
		if (!doc_same_key(first, sorted[i]))
			first = sorted[i];
		else
			settle(b, first, sorted[i]);
	}
}

/* Removes the overridden members and the flags. */
static size_t compact(struct member *m, size_t n)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		if (m[i].key == NULL)
			continue;
		m[kept] = m[i];
		m[kept++].value.flags &= (uint8_t)~NODE_MERGED;
	}
	return kept;
}

static void close_map(struct build *b, struct frame *f, struct node *node)
{
	struct member *m = b->v + f->first;
	size_t n = b->n - f->first;
	f->key.key = NULL;
	(n > PAIRWISE_MAX ? unique_many : unique_few)(b, m, n);
	if (f->merges || b->refused)
		n = compact(m, n);
	struct member *all = arena_alloc(b->arena, n * sizeof(*all));
	if (n)
		memcpy(all, m, n * sizeof(*all));
	node->type = NODE_MAP;
	node->n = (uint32_t)n;
	node->member = all;
}

static void close_list(struct build *b, const struct frame *f, struct node *node)
{
	size_t n = b->n - f->first;
	struct node *all = arena_alloc(b->arena, n * sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = b->v[f->first + i].value;
	node->type = NODE_LIST;
	node->n = (uint32_t)n;
	node->item = all;
}

void build_close(struct build *b, struct node *n)
{
	struct frame *f = build_top(b);
	*n = (struct node){ .flags = f->odd, .line = f->line, .column = f->column };
	if (!f->map)
		close_list(b, f, n);
	else
		close_map(b, f, n);
	b->n = f->first;
	b->depth--;
	struct frame *up = build_top(b);
	if (up && up->height < f->height + 1)
		up->height = f->height + 1;
}
