#include "server/auth/claims.h"

#include <strings.h>

#include "base/enc.h"
#include "server/auth/keyring.h"

/* Header members that may be there.  All others either change what a signature means (crit, b64)
 * or name a key of the sender's choice (jwk, jku, x5u, x5c). */
static const char *const HEADER_MEMBERS[] = { "alg", "typ", "kid" };

enum { PARTS = 3 };

/* The digits of base64url as those of base64; anything else, also "+", "/" and "=", is none. */
static char base64_digit(char c)
{
	switch (c) {
	case '-':
		return '+';
	case '_':
		return '/';
	case '+':
	case '/':
	case '=':
		return '!';
	default:
		return c;
	}
}

int base64url_decode(struct arena *a, struct span text, struct span *bytes)
{
	size_t padding = (4 - text.n % 4) % 4;
	char *p = arena_alloc(a, text.n + 4);
	for (size_t i = 0; i < text.n; i++)
		p[i] = base64_digit(text.p[i]);
	memset(p + text.n, '=', padding);
	return padding == 3 ? -1 : base64_decode(a, (struct span){ p, text.n + padding }, bytes);
}

/* "a.b.c", none of them empty. */
static bool split(struct span token, struct span part[static PARTS])
{
	for (size_t i = 0; i < PARTS; i++) {
		const char *dot = token.n ? memchr(token.p, '.', token.n) : NULL;
		part[i] = (struct span){ token.p, dot ? (size_t)(dot - token.p) : token.n };
		if (part[i].n == 0 || (dot == NULL) != (i == PARTS - 1))
			return false;
		token.p += part[i].n + 1;
		token.n -= part[i].n + (dot != NULL);
	}
	return true;
}

static json_t *read_object(struct span text)
{
	json_t *v = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(v))
		return v;
	json_decref(v);
	return NULL;
}

static bool known_member(const char *name)
{
	for (size_t i = 0; i < sizeof(HEADER_MEMBERS) / sizeof(HEADER_MEMBERS[0]); i++)
		if (strcmp(name, HEADER_MEMBERS[i]) == 0)
			return true;
	return false;
}

static const char *check_header(struct claims *c)
{
	const char *name;
	json_t *value;
	json_object_foreach (c->header, name, value) {
		if (!known_member(name))
			return "its header has members that are not taken";
		if (!json_is_string(value))
			return "its header has a member that is no text";
	}
	c->alg = json_string_value(json_object_get(c->header, "alg"));
	c->kid = json_string_value(json_object_get(c->header, "kid"));
	if (!c->alg)
		return "its header names no algorithm";
	const char *typ = json_string_value(json_object_get(c->header, "typ"));
	if (typ && strcasecmp(typ, "JWT") != 0)
		return "its header says that it is something else than a JWT";
	return c->kid && strlen(c->kid) > KID_MAX ? "its kid is too long" : NULL;
}

/* An integer that is 0 or more; -1 if it is not there. */
static bool read_time(const struct claims *c, const char *name, int64_t *out)
{
	const json_t *v = json_object_get(c->payload, name);
	*out = v ? json_integer_value(v) : -1;
	return !v || (json_is_integer(v) && *out >= 0 && *out < INT64_MAX / 2);
}

static const char *check_payload(struct claims *c)
{
	if (!read_time(c, "exp", &c->exp_s) || !read_time(c, "nbf", &c->nbf_s) ||
	    !read_time(c, "iat", &c->iat_s))
		return "exp, nbf or iat is not a time in whole seconds";
	const json_t *iss = json_object_get(c->payload, "iss");
	if (iss && !json_is_string(iss))
		return "iss is no text";
	c->issuer = json_string_value(iss);
	return NULL;
}

const char *claims_read(struct span token, struct arena *a, struct claims *out)
{
	struct span part[PARTS];
	struct span bytes[PARTS];
	*out = (struct claims){ .arena = a };
	if (token.n > TOKEN_MAX)
		return "it is too long";
	if (!split(token, part))
		return "it is no token: three parts with dots between them";
	for (size_t i = 0; i < PARTS; i++)
		if (base64url_decode(a, part[i], &bytes[i]) < 0)
			return "it is not base64url";
	out->text = arena_dup(a, token);
	out->signed_part = (struct span){ out->text, part[0].n + 1 + part[1].n };
	out->header = read_object(bytes[0]);
	out->payload = read_object(bytes[1]);
	if (!out->header || !out->payload)
		return "header or payload is no JSON object, or has a member twice";
	const char *wrong = check_header(out);
	return wrong ? wrong : check_payload(out);
}

void claims_done(struct claims *c)
{
	json_decref(c->header);
	json_decref(c->payload);
}

const char *claims_text(const struct claims *c, const char *name)
{
	return json_string_value(json_object_get(c->payload, name));
}
