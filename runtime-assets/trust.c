/*
 * Certificate authorities out of PEM; see http.h.
 *
 * Text between certificates, other objects, and certificates that cannot be read are passed over,
 * as in bundles of systems; what counts is that at least one remains.
 */
#include "runtime-assets/trust.h"

#include <stdlib.h>

#include "runtime-assets/files.h"

enum { PEM_MAX = 1024 * 1024, CERTIFICATE_MAX = 64 * 1024 };

static const char BEGIN[] = "-----BEGIN ";

/* While PEM is read: the object that it is in. */
struct reading {
	struct trust *trust;
	size_t max;      /* anchors that there is room for */
	struct str der;  /* of a certificate */
	struct str name; /* of its subject */
};

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

static void add_certificate(struct reading *r)
{
	br_x509_decoder_context d;
	struct trust *t = r->trust;
	if (t->n == r->max)
		return;
	r->name.n = 0;
	br_x509_decoder_init(&d, take_bytes, &r->name);
	br_x509_decoder_push(&d, str_c(&r->der), r->der.n);
	const br_x509_pkey *key = br_x509_decoder_get_pkey(&d);
	br_x509_trust_anchor *anchor = &t->v[t->n];
	if (key == NULL || r->der.full || r->name.full || !keep_key(&t->arena, &anchor->pkey, key))
		return;
	anchor->dn = (br_x500_name){ keep(&t->arena, str_c(&r->name), r->name.n), r->name.n };
	/* Without the flag it is trusted as the certificate of a server, and signs nothing. */
	anchor->flags = br_x509_decoder_isCA(&d) ? BR_X509_TA_CA : 0;
	t->n++;
}

static void pem_event(struct reading *r, br_pem_decoder_context *pem, int event, bool *wanted)
{
	switch (event) {
	case BR_PEM_BEGIN_OBJ:
		*wanted = strcmp(br_pem_decoder_name(pem), "CERTIFICATE") == 0 ||
		          strcmp(br_pem_decoder_name(pem), "X509 CERTIFICATE") == 0;
		str_done(&r->der);
		br_pem_decoder_setdest(pem, *wanted ? take_bytes : NULL, &r->der);
		break;
	case BR_PEM_END_OBJ:
		if (*wanted)
			add_certificate(r);
		*wanted = false;
		break;
	case BR_PEM_ERROR:
		*wanted = false;
		break;
	default:
		break;
	}
}

static void read_pem(struct reading *r, struct span pem)
{
	br_pem_decoder_context d;
	bool wanted = false;
	br_pem_decoder_init(&d);
	while (pem.n) {
		size_t took = br_pem_decoder_push(&d, pem.p, pem.n);
		pem.p += took;
		pem.n -= took;
		pem_event(r, &d, br_pem_decoder_event(&d), &wanted);
	}
}

/* At most so many certificates are in it. */
static size_t count(struct span pem)
{
	size_t n = 0;
	for (size_t i = 0; (i = span_find(pem, i, BEGIN)) != SIZE_MAX; i++)
		n++;
	return n;
}

struct trust *trust_from(struct span pem, struct err *e)
{
	struct trust *t = xcalloc(1, sizeof(*t));
	STR_AUTO text = STR_INIT(PEM_MAX + 1);
	str_span(&text, pem);
	str_char(&text, '\n'); /* the decoder wants an end of the last line */
	size_t max = count(str_view(&text));
	t->v = ARENA_NEW(&t->arena, br_x509_trust_anchor, max + 1);
	struct reading r = { .trust = t,
		             .max = max,
		             .der = STR_INIT(CERTIFICATE_MAX),
		             .name = STR_INIT(CERTIFICATE_MAX) };
	read_pem(&r, str_view(&text));
	str_done(&r.der);
	str_done(&r.name);
	if (t->n && !text.full)
		return t;
	(void)err_set(e, FAILED,
	              text.full ? "more than %d bytes of certificates"
	                        : "no certificate in it that can be read (PEM, at most %d bytes)",
	              PEM_MAX);
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
