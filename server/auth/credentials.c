#include "server/auth/credentials.h"

#include <strings.h>

#include "base/enc.h"
#include "server/auth/token.h"

/* base64url, and the dots between its parts. */
static bool is_token_letter(char c)
{
	char lower = (char)(c | 0x20);
	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
	       c == '.';
}

static const char *token_wrong(struct span token)
{
	if (token.n == 0)
		return "no token in the Authorization header";
	if (token.n > TOKEN_MAX)
		return "the token is too long";
	for (size_t i = 0; i < token.n; i++)
		if (!is_token_letter(token.p[i]))
			return "the token holds what no token holds";
	return NULL;
}

/* What follows a scheme and its blanks; p is NULL if it is another scheme. */
static struct span after_scheme(struct span header, const char *scheme)
{
	size_t n = strlen(scheme);
	if (header.n <= n || strncasecmp(header.p, scheme, n) != 0 || header.p[n] != ' ')
		return (struct span){ NULL, 0 };
	return span_trim((struct span){ header.p + n, header.n - n });
}

const char *credentials_read(struct span header, struct arena *a, struct credentials *out)
{
	*out = (struct credentials){ .token = after_scheme(header, "bearer") };
	if (header.n > CREDENTIALS_MAX)
		return "the Authorization header is too long";
	if (out->token.p)
		return token_wrong(out->token);
	struct span both;
	struct span basic = after_scheme(header, "basic");
	if (!basic.p)
		return "the Authorization header is neither Bearer nor Basic";
	if (base64_decode(a, basic, &both) < 0)
		return "the Authorization header is no base64";
	const char *colon = memchr(both.p, ':', both.n);
	if (!colon)
		return "no colon in the Authorization header";
	out->user = (struct span){ both.p, (size_t)(colon - both.p) };
	out->token = (struct span){ colon + 1, both.n - out->user.n - 1 };
	return token_wrong(out->token);
}
