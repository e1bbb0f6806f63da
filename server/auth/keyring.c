#include "server/auth/keyring.h"

#include <ctype.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/enc.h"
#include "server/file.h"

enum {
	SECRET_MAX = 4096,
	/* 16 random hex digits have fewer different ones once in two million times. */
	DISTINCT_MIN = 5,
};

/* What OpenPAI ships: known to everybody. */
static const char SHIPPED_SECRET[] = "pai-secret";

/* Such a text is public; whoever knows it could sign with it. */
static const char PEM_MARK[] = "-----BEGIN ";

int keyring_read_file(struct keyring *k, const char *path, bool secret, struct str *out,
                      struct err *e)
{
	struct stat about;
	if (file_read_regular(path, out, &about, e) < 0) {
		e->http = 400;
		return -1;
	}
	const char *warning = file_warning(&about, secret);
	if (warning && !k->warning) {
		k->warning = warning;
		k->warning_file = arena_dup(&k->arena, span_of(path));
	}
	return 0;
}

/* Distinct bytes that are no blanks. */
static size_t count_distinct(struct span text)
{
	bool seen[256] = { false };
	size_t n = 0;
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];
		n += !seen[c] && !isspace(c);
		seen[c] = true;
	}
	return n;
}

static int check_secret(struct keyring *k, bool stored, struct err *e)
{
	struct span secret = str_view(&k->secret);
	k->weak = span_is(secret, SHIPPED_SECRET);
	if (k->weak && stored)
		return 0;
	if (k->weak)
		return err_set(e, 400, NULL,
		               "this is the secret that OpenPAI ships, which everybody knows; it "
		               "will do only with --token-check=stored");
	if (secret.n < TOKEN_SECRET_MIN)
		return err_set(e, 400, NULL,
		               "%s: a secret for tokens has %d bytes at least, and better 32",
		               secret.n ? "it is too short" : "it is empty", TOKEN_SECRET_MIN);
	if (count_distinct(secret) < DISTINCT_MIN)
		return err_set(
		    e, 400, NULL,
		    "it consists of blanks, or of the same few characters (at least %d "
		    "different ones are needed), and can be guessed: make one by `head -c "
		    "32 /dev/urandom | base64`",
		    DISTINCT_MIN);
	if (span_find(secret, 0, PEM_MARK) != SIZE_MAX)
		return err_set(e, 400, NULL,
		               "it holds a key or certificate, not a secret: public keys belong "
		               "into the file of --issuers");
	return 0;
}

static int read_secret(struct keyring *k, const struct keyring_options *o, struct err *e)
{
	struct str *s = &k->secret;
	if (keyring_read_file(k, o->jwt_secret_file, true, s, e) < 0)
		return err_wrap(e, "--jwt-secret-file");
	if (s->n && s->p[s->n - 1] == '\n')
		s->n--;
	if (s->p)
		s->p[s->n] = '\0';
	if (check_secret(k, o->stored, e) < 0)
		return err_wrap(e, "--jwt-secret-file: %s", o->jwt_secret_file);
	return 0;
}

struct keyring *keyring_new(const struct keyring_options *o, const char **file, struct err *e)
{
	struct keyring *k = xcalloc(1, sizeof(*k));
	k->secret = STR_SECRET(SECRET_MAX);
	*file = NULL; /* what is wrong with a secret names its file, and has no place in it */
	if (o->jwt_secret_file[0] && read_secret(k, o, e) < 0) {
		keyring_free(k);
		return NULL;
	}
	*file = o->issuers_file;
	if (o->issuers_file[0] && issuers_read(k, o->issuers_file, e) < 0) {
		keyring_free(k);
		return NULL;
	}
	return k;
}

void keyring_free(struct keyring *k)
{
	if (!k)
		return;
	str_wipe(&k->secret);
	arena_wipe(&k->arena);
	free(k);
}

bool keyring_has_secret(const struct keyring *k)
{
	return k->secret.n > 0;
}

bool keyring_weak(const struct keyring *k)
{
	return k->weak;
}

const char *keyring_warning(const struct keyring *k, const char **file)
{
	*file = k->warning_file;
	return k->warning;
}

bool keyring_derive(const struct keyring *k, const char *label, unsigned char out[static 32])
{
	unsigned char extracted[32];
	const gnutls_datum_t secret = { (unsigned char *)k->secret.p, (unsigned)k->secret.n };
	const gnutls_datum_t none = { NULL, 0 };
	const gnutls_datum_t key = { extracted, sizeof(extracted) };
	struct span info = span_of(label);
	unsigned char text[64]; /* GnuTLS asks for memory that it might write to */
	const gnutls_datum_t datum = { text, (unsigned)info.n };
	if (!keyring_has_secret(k) || info.n > sizeof(text))
		return false;
	memcpy(text, info.p, info.n);
	bool made = gnutls_hkdf_extract(GNUTLS_MAC_SHA256, &secret, &none, extracted) == 0 &&
	            gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &key, &datum, out, 32) == 0;
	wipe(extracted, sizeof(extracted));
	return made;
}

const struct service_accounts *keyring_service_accounts(const struct keyring *k)
{
	return k->review.issuer ? &k->review : NULL;
}

const char *keyring_service_account_user(const struct keyring *k, struct span subject)
{
	static const struct span PREFIX = SPAN("system:serviceaccount:");
	char name[512];
	if (!k->review_users || !span_starts(subject, PREFIX.p) ||
	    subject.n - PREFIX.n >= sizeof(name))
		return NULL;
	struct span rest = { subject.p + PREFIX.n, subject.n - PREFIX.n };
	memcpy(name, rest.p, rest.n);
	/* Neither part can hold a colon or a slash, and the keys of the map have one slash. */
	char *colon = memchr(name, ':', rest.n);
	if (!colon || memchr(name, '/', rest.n))
		return NULL;
	*colon = '/';
	const struct member *m = node_member(k->review_users, (struct span){ name, rest.n });
	return m ? m->value.text : NULL;
}
