/* Warnings for scalars that other YAML readers read differently, or that change when written as
 * text. Only values that the translation uses are checked. */
#include "base/enc.h"
#include "base/str.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

enum use {
	AS_VALUE,
	AS_TEXT, /* part of a command or variable */
	HIDDEN   /* likewise, but secret */
};

static const char *ambiguous_scalars_shown(const struct node *n, char buf[static NUMBER_MAX])
{
	if (n->type == NODE_BOOL)
		return n->boolean ? "true" : "false";
	double v = n->type == NODE_INT ? (double)n->integer : n->real;
	buf[number_text(buf, v)] = '\0';
	return buf;
}

static void ambiguous_scalars_look_at(struct parse_context *r, enum use use, const struct path *p,
                                      const struct node *n)
{
	char buf[NUMBER_MAX + 1];
	bool hidden = use == HIDDEN;
	enum spelling s = node_spelling(n);
	const char *is = hidden ? "another number" : NULL;
	if (!is && (n->type == NODE_INT || n->type == NODE_REAL))
		is = ambiguous_scalars_shown(n, buf);
	switch (s) {
	case SPELT_PLAINLY:
		break;
	case SPELT_OCTAL:
		parse_warn(r, p, n, WARN_OCTAL, is);
		break;
	case SPELT_SIXTY:
		parse_warn(r, p, n, WARN_SIXTY, is);
		break;
	case SPELT_ROUNDED:
		parse_warn(r, p, n, WARN_ROUNDED, is);
		break;
	case SPELT_DATE:
		parse_warn(r, p, n, WARN_DATE);
		break;
	case SPELT_BOOLEAN:
		parse_warn(r, p, n, WARN_BOOLEAN);
		break;
	case SPELT_NUMBER:
		parse_warn(r, p, n, WARN_NUMBER);
		break;
	case SPELT_OTHERWISE:
		if (use != AS_VALUE)
			parse_warn(r, p, n, WARN_OTHERWISE,
			           hidden ? "another text" : ambiguous_scalars_shown(n, buf));
		break;
	}
}

static enum use use_below(enum use use, struct span key)
{
	static const char *const SECRET[] = { "secrets", "auth", NULL };
	static const char *const TEXTS[] = { "parameters", "env", "jobEnvs", NULL };
	if (use == HIDDEN || names_listed(SECRET, key))
		return HIDDEN;
	return names_listed(TEXTS, key) ? AS_TEXT : use;
}

/* The reader's budget bounds depth and number of what is here.  NOLINTNEXTLINE(misc-no-recursion)
 */
static void ambiguous_scalars_look(struct parse_context *r, enum use use, const struct path *p,
                                   const struct node *n)
{
	/* Remarks, which the translation ignores. */
	static const char *const REMARKS[] = { "description",     "contributor",       "version",
		                               "protocolVersion", "creationTimestamp", NULL };
	if (!(n->flags & NODE_ODD))
		return;
	if (n->type != NODE_LIST && n->type != NODE_MAP)
		ambiguous_scalars_look_at(r, use, p, n);
	for (uint32_t i = 0; n->type == NODE_LIST && i < n->n; i++) {
		struct path one = PATH_INDEX(p, i);
		ambiguous_scalars_look(r, use, &one, n->item + i);
	}
	for (uint32_t i = 0; n->type == NODE_MAP && i < n->n; i++) {
		struct span key = member_key(&n->member[i]);
		struct path one = PATH_KEY(p, key);
		if (use != AS_VALUE || !names_listed(REMARKS, key))
			ambiguous_scalars_look(r, use_below(use, key), &one, &n->member[i].value);
	}
}

/* Whether the text refers to the parameter. */
static bool is_mentioned(struct span text, struct span key)
{
	static const char NAME[] = "$parameters.";
	for (size_t i = 0; (i = span_find(text, i, NAME)) != SIZE_MAX; i++) {
		const char *p = text.p + i + sizeof(NAME) - 1;
		if ((size_t)(text.p + text.n - p) >= key.n && memcmp(p, key.p, key.n) == 0)
			return true;
	}
	return false;
}

/* Whether the last words of a key mean a secret; `max_tokens` and `pad_token` do not. */
static bool ambiguous_scalars_sounds_secret(struct span key)
{
	static const char *const LAST[] = { "password",   "passwd",      "secret",
		                            "apikey",     "accesskey",   "secretkey",
		                            "privatekey", "accountkey",  "accesstoken",
		                            "authtoken",  "bearertoken", "githubtoken",
		                            NULL };
	char word[16];
	size_t n = 0; /* the last letters and digits in lower case, reversed */
	for (size_t i = key.n; i > 0 && n < sizeof(word); i--)
		if (is_alnum(key.p[i - 1]))
			word[n++] = (char)(key.p[i - 1] | 0x20);
	for (const char *const *last = LAST; *last; last++) {
		size_t len = strlen(*last);
		size_t same = 0;
		while (same < len && same < n && word[same] == (*last)[len - 1 - same])
			same++;
		if (same == len)
			return true;
	}
	return false;
}

void ambiguous_scalars_parameters(struct parse_context *r)
{
	const struct node *map = node_get(r->root, "parameters");
	struct path p = PATH_KEY(NULL, SPAN("parameters"));
	for (uint32_t i = 0; node_is(map, NODE_MAP) && i < map->n; i++) {
		const struct member *m = &map->member[i];
		struct path one = PATH_KEY(&p, member_key(m));
		bool text = node_is(&m->value, NODE_TEXT) && m->value.n;
		if (text && span_find(node_span(&m->value), 0, "<%") == SIZE_MAX &&
		    ambiguous_scalars_sounds_secret(member_key(m)))
			parse_warn(r, &one, &m->value, WARN_PARAMETER);
	}
}

/* A top-level member. */
static void look_at_top(struct parse_context *r, struct span text, const struct member *top)
{
	struct span key = member_key(top);
	struct path p = PATH_KEY(NULL, key);
	bool parameters = span_is(key, "parameters");
	bool some = parameters || span_is(key, "extras");
	if (!some || top->value.type != NODE_MAP) {
		struct node only = { .type = NODE_MAP, .flags = NODE_ODD, .n = 1, .member = top };
		ambiguous_scalars_look(r, AS_VALUE, NULL, &only);
		return;
	}
	for (uint32_t k = 0; k < top->value.n; k++) {
		const struct member *m = &top->value.member[k];
		struct path one = PATH_KEY(&p, member_key(m));
		if (parameters ? is_mentioned(text, member_key(m))
		               : names_listed(EXTRAS_KNOWN, member_key(m)))
			ambiguous_scalars_look(r, parameters ? AS_TEXT : AS_VALUE, &one, &m->value);
	}
}

void ambiguous_scalars_check(struct parse_context *r, struct span text)
{
	for (uint32_t i = 0; node_is(r->root, NODE_MAP) && i < r->root->n; i++) {
		const struct member *top = &r->root->member[i];
		if (top->value.flags & NODE_ODD)
			look_at_top(r, text, top);
	}
}
