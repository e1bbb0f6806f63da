/*
 * What comes with a service account and from an API server: tokens, answers.
 * Names in tokens are names, what is shown is printable and short, and no answer is taken for
 * two things.
 */
#include "base/enc.h"
#include "runtime-assets/init/init_internal.h"
#include "runtime-assets/net/kube.h"
#include "tests/fuzz/fuzz.h"

static void check_shown(struct span text)
{
	for (size_t i = 0; i < text.n; i++)
		assert(text.p[i] >= ' ' && text.p[i] <= '~');
}

static void try_claims(struct span jwt)
{
	ARENA_AUTO a = { 0 };
	struct token_claims c = { 0 };
	if (token_claims(jwt, &a, &c) != 0)
		return;
	assert((c.account == NULL) == (c.namespace_name == NULL));
	assert(c.expires_s >= 0);
	if (c.account) {
		assert(strspn(c.account, "abcdefghijklmnopqrstuvwxyz0123456789-.") ==
		       strlen(c.account));
		check_shown(span_of(c.namespace_name));
	}
}

/* As what it is, and as the payload of a token. */
static void try_token(struct span text)
{
	STR_AUTO jwt = STR_INIT((size_t)4 * TOKEN_MAX);
	try_claims(text);
	str_puts(&jwt, "e30.");
	str_base64(&jwt, text);
	while (jwt.n && jwt.p[jwt.n - 1] == '=')
		jwt.n--;
	str_puts(&jwt, ".x");
	try_claims(str_view(&jwt));
}

static void try_answer(int status, struct span body)
{
	struct http_reply r = { .status = status, .body = body };
	STR_AUTO out = STR_INIT(4096);
	kube_answer(&r, &out);
	assert(!out.full && out.n < 1024);
	check_shown(str_view(&out));
	enum barrier_answer answer = barrier_judge(0, &r, "f");
	assert((answer == ANSWER_FINE) == (status == 200));
	assert(answer != ANSWER_GONE || status == 404);
}

FUZZ(text)
{
	static const int STATUSES[] = { 200, 401, 403, 404, 500 };
	try_token(text);
	for (size_t i = 0; i < sizeof(STATUSES) / sizeof(STATUSES[0]); i++)
		try_answer(STATUSES[i], text);
}
