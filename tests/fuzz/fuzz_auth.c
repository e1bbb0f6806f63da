/*
 * Who asks, as far as others say it: any Authorization header, and any answer of the API server
 * about a token.  What a header gives is made of a token's letters; what is found good names the
 * token, or our audience, in the text.  The first byte says which.
 */
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/auth/token_lookup.h"
#include "tests/fuzz/fuzz.h"

enum { REVIEW_MAX = 1 << 16 };

static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

static void header(struct span text)
{
	ARENA_AUTO a = { 0 };
	struct credentials c;
	if (credentials_read(text, &a, &c))
		return;
	assert(c.token.n > 0 && c.token.n <= TOKEN_MAX);
	for (size_t i = 0; i < c.token.n; i++)
		assert(c.token.p[i] && strchr(LETTERS, c.token.p[i]));
	assert(!c.user.p || !memchr(c.user.p, ':', c.user.n));
}

static bool has(struct span text, const char *word)
{
	return span_find(text, 0, word) != SIZE_MAX;
}

/* A text of JSON may be written with escapes; then it has a backslash. */
static void answer(struct span text)
{
	struct review_user who = { "", "", "" };
	bool escaped = has(text, "\\");
	/* base64 of "a.b.c" */
	if (token_verdict_stored(text, SPAN("a.b.c")) == TOKEN_VALID)
		assert(escaped || has(text, "\"YS5iLmM=\""));
	if (token_verdict_denied(text, "0123") == TOKEN_INVALID)
		assert(escaped || has(text, "\"0123\""));
	if (token_verdict_review(text, "rest-lit", &who) == TOKEN_VALID)
		assert(who.subject[0] && has(text, "true") &&
		       (escaped || has(text, "\"rest-lit\"")));
	else
		assert(!who.subject[0]);
}

FUZZ(text)
{
	if (text.n == 0)
		return;
	unsigned char kind = fuzz_byte(&text);
	text.n = text.n > REVIEW_MAX ? REVIEW_MAX : text.n;
	if (kind == 'h')
		header(text);
	else
		answer(text);
}
