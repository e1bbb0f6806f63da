/* Warnings for scalars that other YAML readers read differently, or that change when written as
 * text. Only values that the translation uses are checked. */
#include "base/enc.h"
#include "base/str.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

enum scalar_use {
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

static void ambiguous_scalars_look_at(struct parse_context *r, enum scalar_use use,
                                      const struct field *f)
{
	static const char *const NUMBERS[SPELLING_BITS + 1] = {
		[SPELT_OCTAL] =
		    "a number that begins with 0 is octal here, but decimal in YAML 1.2; "
		    "write it without the 0, or in quotes if it is text",
		[SPELT_SIXTY] = "a number with `:` is to base 60 here, but text in YAML 1.2; write "
				"text in quotes",
		[SPELT_ROUNDED] =
		    "integers beyond 2^53 are rounded to what a double holds; write it "
		    "in quotes if it is text",
	};
	static const char *const TEXTS[SPELLING_BITS + 1] = {
		[SPELT_DATE] = "a date for many others",
		[SPELT_BOOLEAN] = "true or false in YAML 1.1",
		[SPELT_NUMBER] = "a number in YAML 1.2",
	};
	char buf[NUMBER_MAX + 1];
	bool hidden = use == HIDDEN;
	enum spelling s = f->n->flags >> SPELLING_SHIFT & SPELLING_BITS;
	if (NUMBERS[s])
		parse_warn(r, f, "is %s: %s",
		           hidden ? "another number" : ambiguous_scalars_shown(f->n, buf),
		           NUMBERS[s]);
	else if (TEXTS[s])
		parse_warn(r, f, "is text here, but %s; write it in quotes", TEXTS[s]);
	else if (s == SPELT_OTHERWISE && use != AS_VALUE)
		parse_warn(r, f,
		           "becomes %s when it is filled in; in quotes it stays as it is written",
		           hidden ? "another text" : ambiguous_scalars_shown(f->n, buf));
}

/* The reader's budget bounds depth and number of what is here.  NOLINTNEXTLINE(misc-no-recursion)
 */
static void ambiguous_scalars_look(struct parse_context *r, enum scalar_use use,
                                   const struct field *f)
{
	/* Remarks, which the translation ignores. */
	static const char *const REMARKS[] = { "description",     "contributor",       "version",
		                               "protocolVersion", "creationTimestamp", NULL };
	static const char *const SECRET[] = { "secrets", "auth", NULL };
	static const char *const TEXTS[] = { "parameters", "env", "jobEnvs", NULL };
	if (!(f->n->flags & NODE_ODD))
		return;
	if (f->n->type != NODE_LIST && f->n->type != NODE_MAP)
		ambiguous_scalars_look_at(r, use, f);
	for (uint32_t i = 0; i < field_items(f); i++) {
		struct field one = field_item(f, i);
		ambiguous_scalars_look(r, use, &one);
	}
	for (uint32_t i = 0; i < field_members(f); i++) {
		struct field one = field_member(f, i);
		struct span key = member_key(&f->n->member[i]);
		enum scalar_use below = use;
		if (use == AS_VALUE && names_listed(REMARKS, key))
			continue;
		if (use == HIDDEN || names_listed(SECRET, key))
			below = HIDDEN;
		else if (names_listed(TEXTS, key))
			below = AS_TEXT;
		ambiguous_scalars_look(r, below, &one);
	}
}

/* Returns true if the text refers to the parameter. */
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

/* Returns true if the last words of a key mean a secret; `max_tokens` and `pad_token` do not. */
static bool ambiguous_scalars_sounds_secret(struct span key)
{
	static const char *const LAST[] = { "password",   "passwd",      "secret",
		                            "apikey",     "accesskey",   "secretkey",
		                            "privatekey", "accountkey",  "accesstoken",
		                            "authtoken",  "bearertoken", "githubtoken",
		                            NULL };
	char word[64];
	struct span end = span_from(key, key.n > sizeof(word) ? key.n - sizeof(word) : 0);
	size_t n = span_lower_alnum(word, end);
	for (const char *const *last = LAST; *last; last++) {
		size_t len = strlen(*last);
		if (n >= len && memcmp(word + n - len, *last, len) == 0)
			return true;
	}
	return false;
}

void ambiguous_scalars_parameters(struct parse_context *r)
{
	struct field extras = field_get(TOP(r), "extras");
	const struct field maps[] = { field_get(TOP(r), "parameters"), field_get(&extras, "env") };
	for (size_t k = 0; k < ARRAY_SIZE(maps); k++)
		for (uint32_t i = 0; i < field_members(&maps[k]); i++) {
			struct field f = field_member(&maps[k], i);
			struct span text = field_text(&f);
			if (text.n && span_find(text, 0, "<%") == SIZE_MAX &&
			    ambiguous_scalars_sounds_secret(member_key(&maps[k].n->member[i])))
				parse_warn(r, &f,
				           "others can read this, as it is stored with the job; "
				           "put it under `secrets`, and write <%% $secrets.NAME "
				           "%%> where it is needed");
		}
}

void ambiguous_scalars_check(struct parse_context *r, struct span text)
{
	for (uint32_t i = 0; i < field_members(TOP(r)); i++) {
		const struct member *m = &r->root->member[i];
		struct field top = field_member(TOP(r), i);
		bool parameters = span_is(member_key(m), "parameters");
		if (!(top.n->flags & NODE_ODD))
			continue;
		/* Only members that are used count. */
		if (top.n->type != NODE_MAP || (!parameters && !span_is(member_key(m), "extras"))) {
			struct node only = {
				.type = NODE_MAP, .flags = NODE_ODD, .n = 1, .member = m
			};
			ambiguous_scalars_look(r, AS_VALUE,
			                       &(struct field){ .n = &only, .top = true });
			continue;
		}
		for (uint32_t k = 0; k < top.n->n; k++) {
			struct field f = field_member(&top, k);
			struct span key = member_key(&top.n->member[k]);
			bool texts = parameters || span_is(key, "env");
			if (parameters ? is_mentioned(text, key) : names_listed(EXTRAS_KNOWN, key))
				ambiguous_scalars_look(r, texts ? AS_TEXT : AS_VALUE, &f);
		}
	}
}
