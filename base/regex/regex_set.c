/* The filter of many patterns: which of their literals occur in a text. */
#include "base/posix/clock.h"
#include "base/regex/regex_internal.h"

enum { SLOTS = 1 << 12 };

struct regex_set {
	size_t n;
	struct regex *const *re;
	struct literal_entry {
		const struct literal *literal;
		size_t re;     /* the number of its pattern */
		uint32_t next; /* entry with the same slot; 0: none */
	} * entry;             /* from 1 on */
	uint32_t slot[SLOTS];  /* the first entry, by the first bytes of the literal; 0: none */
};

static inline uint32_t regex_set_slot(const char *bytes)
{
	uint32_t v;
	_Static_assert(sizeof(v) == LITERAL_MIN, "the bytes that all literals have");
	memcpy(&v, bytes, sizeof(v));
	return ((v | 0x20202020u) * 0x9E3779B1u) >> 20;
}

struct regex_set *regex_set_new(struct regex *const *re, size_t n, struct arena *a)
{
	struct regex_set *s = ARENA_NEW(a, struct regex_set, 1);
	size_t entries = 1;
	s->n = n;
	s->re = re;
	for (size_t i = 0; i < n; i++) {
		for (const struct literal *l = re[i] ? re[i]->literals : NULL; l; l = l->next)
			entries++;
	}
	s->entry = ARENA_NEW(a, struct literal_entry, entries);
	entries = 1;
	for (size_t i = 0; i < n; i++) {
		for (const struct literal *l = re[i] ? re[i]->literals : NULL; l; l = l->next) {
			uint32_t *slot = &s->slot[regex_set_slot(l->text)];
			s->entry[entries] = (struct literal_entry){ l, i, *slot };
			*slot = (uint32_t)entries++;
		}
	}
	return s;
}

/* Looks for the literals that begin in the first n bytes of the piece. */
static void regex_set_look(const struct regex_set *s, struct span piece, size_t n, bool *possible)
{
	for (size_t at = 0; at < n; at++) {
		uint32_t i = s->slot[regex_set_slot(piece.p + at)];
		for (; i; i = s->entry[i].next) {
			const struct literal *l = s->entry[i].literal;
			size_t same = 0;
			if (possible[s->entry[i].re] || l->n > piece.n - at)
				continue;
			while (same < l->n && (piece.p[at + same] | 0x20) == l->text[same])
				same++;
			possible[s->entry[i].re] = same == l->n;
		}
	}
}

enum regex_found regex_set_scan(const struct regex_set *s, struct regex_text *t,
                                int64_t deadline_ms, bool *possible)
{
	for (size_t i = 0; i < s->n; i++)
		possible[i] = possible[i] || (s->re[i] && !s->re[i]->literals);
	for (size_t at = 0; at + LITERAL_MIN <= t->size;) {
		struct span piece = t->read(t, at);
		size_t behind = (at + piece.n == t->size ? LITERAL_MIN : LITERAL_MAX) - 1;
		regex_set_look(s, piece, piece.n - behind, possible);
		at += piece.n - behind;
		if (clock_ms() > deadline_ms)
			return REGEX_LATE;
	}
	return REGEX_NONE;
}
