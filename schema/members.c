/* Members of mappings: known, matching a pattern, unknown, missing. */
#include "schema/suggest.h"
#include "schema/walk.h"

enum { LIST_MAX = 8 }; /* this many allowed keys are listed */

/* Keys that were suggested for unknown ones: those are not missing, but misspelt. */
struct suggested {
	const struct property *v[NOTES_MAX];
	size_t n;
};

static bool has_key(const struct node *map, struct span key)
{
	return node_member(map, key) != NULL;
}

/* The described key that was probably meant and is not there yet, or NULL. */
static const struct property *nearest(const struct members *m, const struct node *map,
                                      struct span key)
{
	const struct property *best = NULL;
	unsigned limit = edit_limit(key.n);
	for (size_t i = 0; i < m->n && limit; i++) {
		const struct property *p = &m->property[i];
		unsigned d = p->rule ? edit_distance(key, p->key, limit) : limit + 1;
		if (d <= limit && !has_key(map, p->key)) {
			best = p;
			limit = d - 1; /* the next must be nearer */
		}
	}
	return best;
}

static void list_keys(struct str *out, const struct members *m)
{
	size_t described = 0;
	size_t listed = 0;
	for (size_t i = 0; i < m->n; i++)
		described += m->property[i].rule != NULL;
	if (described == 0 || described > LIST_MAX)
		return;
	str_puts(out, described == 1 ? "; the only one allowed is " : "; allowed are ");
	for (size_t i = 0; i < m->n; i++) {
		if (m->property[i].rule == NULL)
			continue;
		listed++;
		str_puts(out, listed == 1 ? "" : listed == described ? " and " : ", ");
		str_printf(out, "`%s`", m->property[i].key.p);
	}
}

/* A key that is not allowed. */
static bool fail_unknown(struct walk *w, const struct members *m, const struct node *map,
                         const struct member *key, const struct path *at, struct suggested *s)
{
	if (w->quiet || w->e->notes.n == NOTES_MAX)
		return walk_fail_key(w, key, at, "unknown key");
	char shown[4 * QUOTE_MAX];
	quote(shown, member_key(key));
	if (m->n == 0 && m->n_patterns == 1)
		return walk_fail_key(w, key, at, "bad name \"%s\": %s", shown,
		                     pattern_words(m->patterns[0].pattern));
	const struct property *meant = nearest(m, map, member_key(key));
	if (meant) {
		s->v[s->n++] = meant; /* not more than there are notes */
		return walk_fail_key(w, key, at, "unknown key `%s`, did you mean `%s`?", shown,
		                     meant->key.p);
	}
	STR_AUTO list = STR_INIT(SENTENCE_MAX);
	list_keys(&list, m);
	return walk_fail_key(w, key, at, "unknown key `%s`%s", shown, str_c(&list));
}

static bool was_suggested(const struct suggested *s, const struct property *p)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i] == p)
			return true;
	}
	return false;
}

static bool fail_missing(struct walk *w, const struct members *m, const struct node *map,
                         const struct path *at, const struct suggested *s)
{
	for (size_t i = 0; i < m->n && !w->quiet; i++) {
		const struct property *p = &m->property[i];
		if (p->required && !has_key(map, p->key) && !was_suggested(s, p))
			walk_fail(w, map, at, "misses the key `%s`", p->key.p);
	}
	return false;
}

/* The members whose names match a pattern; *known is set if there is one. */
static bool check_patterns(struct walk *w, const struct members *m, const struct member *member,
                           const struct path *here, bool *known)
{
	bool ok = true;
	for (size_t i = 0; i < m->n_patterns; i++) {
		if (!pattern_matches(m->patterns[i].pattern, member_key(member)))
			continue;
		*known = true;
		ok &= rule_check(w, m->patterns[i].rule, &member->value, here);
	}
	return ok;
}

static bool check_member(struct walk *w, const struct members *m, const struct property *p,
                         const struct member *member, const struct path *at, bool *known)
{
	const struct path here = PATH_KEY(at, member_key(member));
	bool ok = true;
	if (p && p->rule) {
		*known = true;
		ok = rule_check(w, p->rule, &member->value, &here);
	}
	if (m->n_patterns)
		ok &= check_patterns(w, m, member, &here, known);
	if (!*known && m->additional && !m->additional->never) {
		*known = true;
		ok &= rule_check(w, m->additional, &member->value, &here);
	}
	return ok;
}

bool members_check(struct walk *w, const struct members *m, const struct node *map,
                   const struct path *at)
{
	struct suggested s = { .n = 0 };
	size_t required = 0;
	bool ok = true;
	for (uint32_t i = 0; i < map->n && (ok || !w->quiet); i++) {
		const struct member *member = &map->member[i];
		const struct property *p = property_find(m, member->key, member->key_n);
		bool known = m->additional == NULL;
		required += p && p->required;
		ok &= check_member(w, m, p, member, at, &known);
		if (!known)
			ok = fail_unknown(w, m, map, member, at, &s);
	}
	if (required < m->n_required)
		ok = fail_missing(w, m, map, at, &s);
	return ok;
}
