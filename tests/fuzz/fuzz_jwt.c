/*
 * Tokens: whatever comes as one, only what was signed with the secret, says who it is, and has not
 * expired, is taken.  The input is a token; and a payload (behind the first line: its header) that
 * is signed here, so that what comes after the signature is tried too.
 */
#include <stdlib.h>
#include <unistd.h>

#include <gnutls/crypto.h>

#include "base/enc.h"
#include "schema/schema.h"
#include "server/auth/token.h"
#include "server/config/system.h"
#include "tests/fuzz/fuzz.h"
#include "translate/translate.h"

#define NOW    INT64_C(1700000000)
#define SECRET "0123456789abcdef0123456789abcdef"

static const char ISSUERS[] =
    "serviceAccounts: {issuer: cluster, audience: rest-lit, users: {a/b: carol}}\n";

static void put_file(char *path, struct span text)
{
	int fd = mkstemp(path);
	assert(fd >= 0);
	ssize_t n = write(fd, text.p, text.n);
	assert(n == (ssize_t)text.n);
	(void)close(fd);
}

static const struct keyring *ring(void)
{
	static struct keyring *k;
	char secret[] = "/tmp/rest-lit-fuzz-XXXXXX";
	char issuers[] = "/tmp/rest-lit-fuzz-XXXXXX";
	ERR_AUTO e = { 0 };
	const char *file;
	if (k)
		return k;
	process_wipe_json();
	schema_init();
	put_file(secret, SPAN(SECRET));
	put_file(issuers, SPAN(ISSUERS));
	struct keyring_options o = { secret, issuers, false };
	k = keyring_new(&o, &file, &e);
	assert(k);
	(void)unlink(secret);
	(void)unlink(issuers);
	return k;
}

static bool try_token(struct span text, struct token *t, struct arena *a)
{
	ERR_AUTO e = { 0 };
	const char *why = NULL;
	if (token_read(ring(), text, NOW, a, t, &why, &e) < 0) {
		assert(e.http == 401 && why);
		return false;
	}
	assert(!why && e.http == 0 && text.n <= TOKEN_MAX && strlen(t->id) == 64);
	if (t->kind == TOKEN_REVIEW) {
		assert(!t->user[0] && t->application);
		return true;
	}
	assert(t->kind == TOKEN_OWN && user_name_ok(span_of(t->user)));
	assert(t->exp_s > NOW || (t->exp_s == -1 && t->application));
	assert(t->iat_s <= NOW + 300);
	return true;
}

static void url_base64(struct str *out, struct span bytes)
{
	str_base64(out, bytes);
	while (out->n && out->p[out->n - 1] == '=')
		out->n--;
	for (size_t i = 0; i < out->n; i++)
		out->p[i] = (char)(out->p[i] == '+' ? '-' : out->p[i] == '/' ? '_' : out->p[i]);
}

static void sign(struct str *out, struct span header, struct span payload, const char *secret)
{
	unsigned char sum[32];
	url_base64(out, header);
	str_char(out, '.');
	url_base64(out, payload);
	gnutls_hmac_fast(GNUTLS_MAC_SHA256, secret, strlen(secret), str_c(out), out->n, sum);
	str_char(out, '.');
	url_base64(out, (struct span){ (char *)sum, sizeof(sum) });
}

static void try_signed(struct span text)
{
	ARENA_AUTO a = { 0 };
	struct token t;
	struct token again;
	STR_AUTO good = STR_INIT(1 << 20);
	STR_AUTO bad = STR_INIT(1 << 20);
	const char *line = text.n ? memchr(text.p, '\n', text.n) : NULL;
	struct span header = SPAN("{\"alg\":\"HS256\",\"typ\":\"JWT\"}");
	struct span payload = text;
	if (line) {
		header = (struct span){ text.p, (size_t)(line - text.p) };
		payload = (struct span){ line + 1, text.n - header.n - 1 };
	}
	sign(&good, header, payload, SECRET);
	sign(&bad, header, payload, "another secret of 32 bytes......");
	if (try_token(str_view(&good), &t, &a) && t.kind == TOKEN_OWN)
		assert(!try_token(str_view(&bad), &again, &a));
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	struct token t;
	(void)token_times(text, &a, &t);
	(void)try_token(text, &t, &a);
	try_signed(text);
}
