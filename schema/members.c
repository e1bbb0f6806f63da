/* Members of mappings: known, matching a pattern, unknown, missing. */
#include "schema/suggest.h"
#include "schema/walk.h"

enum { LIST_MAX = 8 }; /* this many allowed keys are listed */

/* One mapping while it is checked. */
struct visit {
	struct walk *w;
	const struct members *m;
	const struct node *map;
	const struct path *at;
	/* Keys that were suggested for unknown ones: those are not missing, but misspelt. */
	const struct property **suggested; /* NOTES_MAX of them; NULL before the first */
	size_t n_suggested;
};

static bool has_key(const struct node *map, struct span key)
{
	return node_member(map, key) != NULL;
}

/* The described key that was probably meant and is not there yet, or NULL. */
static const struct property *nearest(const struct visit *v, struct span key)
{
	const struct members *m = v->m;
	const struct property *best = NULL;
	unsigned limit = edit_limit(key.n);
	for (size_t i = 0; i < m->n && limit; i++) {
		const struct property *p = &m->property[i];
		unsigned d = p->rule ? edit_distance(key, p->key, limit) : limit + 1;
		if (d <= limit && !has_key(v->map, p->key)) {
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

/* This key is there, under another name. */
static void members_suggest(struct visit *v, const struct property *meant)
{
	if (v->suggested == NULL)
		v->suggested = ARENA_NEW(v->w->arena, const struct property *, NOTES_MAX);
	v->suggested[v->n_suggested++] = meant; /* not more than there are notes */
}

/* `{cpu:1}` and `-echo: x` are keys with a `:` or `-` in them: behind which a blank is missing. */
static char lacks_blank(struct visit *v, struct span key)
{
	const char *colon = memchr(key.p, ':', key.n);
	const struct property *p =
	    colon ? property_find(v->m, key.p, (size_t)(colon - key.p)) : NULL;
	if (p && p->rule) {
		members_suggest(v, p);
		return ':';
	}
	if (key.n > 1 && key.p[0] == '-')
		return '-';
	return '\0';
}

/* A key that is not allowed. */
static bool fail_unknown(struct visit *v, const struct member *key)
{
	struct walk *w = v->w;
	if (walk_is_mute(w))
		return false;
	char shown[4 * QUOTE_MAX] NOT_ZEROED;
	quote(shown, member_key(key));
	if (v->m->n == 0 && v->m->n_patterns == 1)
		return walk_fail_key(w, key, v->at, "bad name \"%s\": %s", shown,
		                     pattern_words(v->m->patterns[0].pattern));
	char blank = lacks_blank(v, member_key(key));
	if (blank)
		return walk_fail_key(w, key, v->at,
		                     "unknown key `%s`: a blank is missing behind the `%c`", shown,
		                     blank);
	const struct property *meant = nearest(v, member_key(key));
	if (meant) {
		members_suggest(v, meant);
		return walk_fail_key(w, key, v->at, "unknown key `%s`, did you mean `%s`?", shown,
		                     meant->key.p);
	}
	STR_AUTO list = STR_INIT(SENTENCE_MAX);
	list_keys(&list, v->m);
	return walk_fail_key(w, key, v->at, "unknown key `%s`%s", shown, str_c(&list));
}

static bool was_suggested(const struct visit *v, const struct property *p)
{
	for (size_t i = 0; i < v->n_suggested; i++) {
		if (v->suggested[i] == p)
			return true;
	}
	return false;
}

static bool fail_missing(const struct visit *v)
{
	for (size_t i = 0; i < v->m->n && !v->w->quiet; i++) {
		const struct property *p = &v->m->property[i];
		if (p->required && !has_key(v->map, p->key) && !was_suggested(v, p))
			walk_fail(v->w, v->map, v->at, "misses the key `%s`", p->key.p);
	}
	return false;
}

/* The member against the rules of all patterns that match its name; *known is set if there is one.
 */
static bool check_patterns(const struct visit *v, const struct member *member,
                           const struct path *here, bool *known)
{
	bool ok = true;
	for (size_t i = 0; i < v->m->n_patterns; i++) {
		if (!pattern_matches(v->m->patterns[i].pattern, member_key(member)))
			continue;
		*known = true;
		ok &= rule_check(v->w, v->m->patterns[i].rule, &member->value, here);
	}
	return ok;
}

static bool check_member(struct visit *v, const struct property *p, const struct member *member)
{
	const struct members *m = v->m;
	const struct path here = PATH_KEY(v->at, member_key(member));
	bool known = p && p->rule;
	bool ok = !known || rule_check(v->w, p->rule, &member->value, &here);
	if (m->n_patterns)
		ok &= check_patterns(v, member, &here, &known);
	if (known || m->additional == NULL)
		return ok;
	if (m->additional->never)
		return fail_unknown(v, member);
	return ok & rule_check(v->w, m->additional, &member->value, &here);
}

bool members_check(struct walk *w, const struct members *m, const struct node *map,
                   const struct path *at)
{
	struct visit v = { .w = w, .m = m, .map = map, .at = at };
	size_t required = 0;
	bool ok = true;
	for (uint32_t i = 0; i < map->n && (ok || !w->quiet); i++) {
		const struct member *member = &map->member[i];
		const struct property *p = property_find(m, member->key, member->key_n);
		required += p && p->required;
		ok &= check_member(&v, p, member);
	}
	if (required < m->n_required)
		ok = fail_missing(&v);
	return ok;
}
