/*
 * Certificate authorities out of PEM; see http.h.
 *
 * Text between certificates, other objects, and certificates that cannot be read are passed over,
 * as in bundles of systems; what counts is that at least one remains.  BearSSL's decoder of PEM is
 * not used: it stumbles over CR LF, and after a damaged certificate over the next one.
 */
#include "runtime-assets/net/trust.h"

#include <stdlib.h>

#include "base/enc.h"
#include "runtime-assets/files.h"

enum { PEM_MAX = 1024 * 1024, NAME_MAX_BYTES = 4096 };

static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
static const char END[] = "-----END CERTIFICATE-----";

static void take_bytes(void *to, const void *bytes, size_t n)
{
	str_put(to, bytes, n);
}

static unsigned char *keep(struct arena *a, const void *bytes, size_t n)
{
	return (unsigned char *)arena_dup(a, (struct span){ bytes, n });
}

/* The key points into the decoder, which goes away. */
static bool keep_key(struct arena *a, br_x509_pkey *to, const br_x509_pkey *from)
{
	*to = *from;
	if (from->key_type == BR_KEYTYPE_RSA) {
		to->key.rsa.n = keep(a, from->key.rsa.n, from->key.rsa.nlen);
		to->key.rsa.e = keep(a, from->key.rsa.e, from->key.rsa.elen);
		return true;
	}
	if (from->key_type == BR_KEYTYPE_EC) {
		to->key.ec.q = keep(a, from->key.ec.q, from->key.ec.qlen);
		return true;
	}
	return false;
}

static void add_certificate(struct trust *t, struct span der)
{
	br_x509_decoder_context d;
	STR_AUTO name = STR_INIT(NAME_MAX_BYTES);
	br_x509_decoder_init(&d, take_bytes, &name);
	br_x509_decoder_push(&d, der.p, der.n);
	const br_x509_pkey *key = br_x509_decoder_get_pkey(&d);
	br_x509_trust_anchor *anchor = &t->v[t->n];
	if (key == NULL || name.full || !keep_key(&t->arena, &anchor->pkey, key))
		return;
	anchor->dn = (br_x500_name){ keep(&t->arena, str_c(&name), name.n), name.n };
	/* Without the flag it is trusted as the certificate of a server, and signs nothing. */
	anchor->flags = br_x509_decoder_isCA(&d) ? BR_X509_TA_CA : 0;
	t->n++;
}

/* What stands between the lines BEGIN and END of the next one, and behind it in *pem; false if
 * there is no further.  One that is cut off by the next BEGIN is passed over. */
static bool next_certificate(struct span *pem, struct span *inside)
{
	size_t end = span_find(*pem, 0, END);
	size_t begin = SIZE_MAX;
	if (end == SIZE_MAX)
		return false;
	struct span before = { pem->p, end };
	for (size_t i = 0; (i = span_find(before, i, BEGIN)) != SIZE_MAX; i++)
		begin = i + sizeof(BEGIN) - 1;
	*inside = (struct span){ pem->p, 0 };
	if (begin != SIZE_MAX)
		*inside = (struct span){ pem->p + begin, end - begin };
	end += sizeof(END) - 1;
	*pem = (struct span){ pem->p + end, pem->n - end };
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void read_pem(struct trust *t, struct span pem)
{
	struct span inside;
	while (next_certificate(&pem, &inside)) {
		ARENA_AUTO a = { 0 };
		STR_AUTO digits = STR_INIT(PEM_MAX);
		struct span der = { NULL, 0 };
		for (size_t i = 0; i < inside.n; i++) {
			if (!is_blank(inside.p[i]))
				str_char(&digits, inside.p[i]);
		}
		if (base64_decode(&a, str_view(&digits), &der) == 0 && der.n)
			add_certificate(t, der);
	}
}

/* At most so many certificates are in it. */
static size_t count(struct span pem)
{
	size_t n = 0;
	for (size_t i = 0; (i = span_find(pem, i, END)) != SIZE_MAX; i++)
		n++;
	return n;
}

struct trust *trust_from(struct span pem, struct err *e)
{
	if (pem.n > PEM_MAX) {
		(void)err_set(e, FAILED, "more than %d bytes of certificates", PEM_MAX);
		return NULL;
	}
	struct trust *t = xcalloc(1, sizeof(*t));
	t->v = ARENA_NEW(&t->arena, br_x509_trust_anchor, count(pem) + 1);
	read_pem(t, pem);
	if (t->n)
		return t;
	(void)err_set(e, FAILED, "no certificate in it that can be read (PEM is expected)");
	trust_free(t);
	return NULL;
}

struct trust *trust_load(const char *pem_file, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct span text = { NULL, 0 };
	int rc = file_read(pem_file, FILE_MOUNTED, PEM_MAX, &a, &text, e);
	if (rc < 0)
		return NULL;
	if (rc > 0) {
		(void)err_set(e, FAILED, "%s: there is no such file", pem_file);
		return NULL;
	}
	struct trust *t = trust_from(text, e);
	if (!t)
		(void)err_wrap(e, "%s", pem_file);
	return t;
}

void trust_free(struct trust *t)
{
	if (t)
		arena_done(&t->arena);
	free(t);
}
