/*
 * TLS 1.2 by BearSSL: ECDHE with AES-GCM or ChaCha20, certificates signed with SHA-256 or better,
 * RSA keys of at least 2048 bits.  Every API server supports that by default.
 */
#include <bearssl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/enc.h"
#include "runtime-assets/files.h"
#include "runtime-assets/net/http.h"
#include "runtime-assets/net/net_internal.h"
#include "runtime-assets/say.h"

struct ca_bundle {
	struct arena arena; /* the data of the anchors */
	br_x509_trust_anchor *v;
	size_t n;
};

enum {
	RSA_BYTES_MIN = 256,
	SEED_BYTES = 32,
	DAY_1970 = 719528, /* since the year 0 */
	RECORD_ALERT = 21, /* first byte of a TLS server */
	RECORD_HANDSHAKE = 22
};

struct tls {
	struct wire *wire;
	const char *name;
	bool open;           /* the handshake is done */
	unsigned char first; /* byte that came; 0 before */
	br_ssl_client_context client;
	br_x509_minimal_context x509;
	unsigned char buffer[BR_SSL_BUFSIZE_MONO]; /* one record, in one direction at a time */
};

/* ---- messages -------------------------------------------------------------------------------- */

/* "certificate of HOST:PORT ..." */
static const struct problem {
	int code;
	const char *text;
} CERTIFICATE[] = {
	{ BR_ERR_X509_NOT_TRUSTED, "is not signed by an authority that is trusted here" },
	{ BR_ERR_X509_BAD_SIGNATURE, "has a wrong signature" },
	{ BR_ERR_X509_DN_MISMATCH, "comes with others that do not belong to it" },
	{ BR_ERR_X509_NOT_CA, "is signed by one that may not sign others" },
	{ BR_ERR_X509_WEAK_PUBLIC_KEY,
	  "has, or is signed with, an RSA key of less than 2048 bits" },
	{ BR_ERR_X509_FORBIDDEN_KEY_USAGE, "is not one for servers" },
	{ BR_ERR_X509_CRITICAL_EXTENSION, "has a critical extension that is not known here" },
	{ BR_ERR_X509_UNSUPPORTED,
	  "uses a signature or key that is not known here (SHA-1, Ed25519)" },
	{ BR_ERR_X509_WRONG_KEY_TYPE,
	  "uses a signature or key that is not known here (SHA-1, Ed25519)" },
	{ BR_ERR_X509_EMPTY_CHAIN, "was not sent" },
	{ 0, NULL },
};

/* "HOST:PORT ..."; the first four are final: no version or cipher in common. */
static const struct problem HANDSHAKE[] = {
	{ BR_ERR_UNSUPPORTED_VERSION, "chose another version than TLS 1.2, which is required" },
	{ BR_ERR_RECV_FATAL_ALERT + 40, "has no cipher in common with pai-runtime (TLS " TLS_SPOKEN
	                                "), or wants a client certificate" },
	{ BR_ERR_RECV_FATAL_ALERT + 70,
	  "does not speak TLS 1.2; pai-runtime supports no other version" },
	{ BR_ERR_RECV_FATAL_ALERT + 71, "requires stronger ciphers than TLS " TLS_SPOKEN },
	{ BR_ERR_BAD_PARAM, "cannot be asked for a certificate of that name: it is too long" },
	{ BR_ERR_BAD_SIGNATURE, "does not own the key of its certificate" },
	{ BR_ERR_RECV_FATAL_ALERT + 42, "wants a client certificate" },
	{ BR_ERR_RECV_FATAL_ALERT + 112, "does not know the name that it was asked for" },
	{ BR_ERR_RECV_FATAL_ALERT + 116, "wants a client certificate" },
	{ 0, NULL },
};
enum { HANDSHAKE_FINAL = 4 };

static const struct problem *problem_find(const struct problem *v, int code)
{
	while (v->text && v->code != code)
		v++;
	return v;
}

static int certificate_problem(const struct tls *t, int code)
{
	const char *where = t->wire->where;
	const char *text = problem_find(CERTIFICATE, code)->text;
	struct err *e = t->wire->e;
	char now[RFC3339_MAX];
	rfc3339_text(now, time(NULL));
	if (code == BR_ERR_X509_BAD_SERVER_NAME)
		(void)err_set(e, FAILED, "certificate of %s is not valid for %s", where, t->name);
	else if (code == BR_ERR_X509_EXPIRED) /* or the clock is wrong */
		(void)err_set(
		    e, FAILED,
		    "certificate of %s has expired or is not valid yet (our clock shows %s)", where,
		    now);
	else if (text)
		(void)err_set(e, FAILED, "certificate of %s %s", where, text);
	else
		(void)err_set(e, FAILED, "certificate of %s cannot be read (error %d)", where,
		              code);
	return HTTP_TLS;
}

static int tls_problem(const struct tls *t, int code)
{
	const struct problem *p = problem_find(HANDSHAKE, code);
	if (code > BR_ERR_X509_OK && code <= BR_ERR_X509_NOT_TRUSTED)
		return certificate_problem(t, code);
	int trouble = t->open                           ? HTTP_BROKEN
	              : p - HANDSHAKE < HANDSHAKE_FINAL ? HTTP_NO_COMMON_TLS
	                                                : HTTP_TLS;
	if (t->first && t->first != RECORD_ALERT && t->first != RECORD_HANDSHAKE)
		return wire_fail(t->wire, t->open ? HTTP_BROKEN : HTTP_TLS, " does not speak TLS");
	if (p->text)
		return wire_fail(t->wire, trouble, " %s", p->text);
	if (code > BR_ERR_RECV_FATAL_ALERT && code < BR_ERR_SEND_FATAL_ALERT)
		return wire_fail(t->wire, trouble, " refused with TLS alert %d",
		                 code - BR_ERR_RECV_FATAL_ALERT);
	return wire_fail(t->wire, trouble, " breaks the rules of TLS, while %s (error %d)",
	                 t->wire->doing, code);
}

static int tls_closed(const struct tls *t)
{
	return wire_fail(t->wire, HTTP_BROKEN, " closed the connection while %s", t->wire->doing);
}

/* ---- records ----------------------------------------------------------------------------- */

static int tls_send(struct tls *t)
{
	size_t n = 0;
	size_t done = 0;
	const unsigned char *p = br_ssl_engine_sendrec_buf(&t->client.eng, &n);
	int trouble = net_write(t->wire, p, n, &done);
	if (trouble == 0)
		br_ssl_engine_sendrec_ack(&t->client.eng, done);
	return trouble;
}

static int tls_receive(struct tls *t)
{
	size_t n = 0;
	size_t got = 0;
	unsigned char *p = br_ssl_engine_recvrec_buf(&t->client.eng, &n);
	int trouble = net_read(t->wire, p, n, &got);
	if (trouble)
		return trouble;
	if (got == 0)
		return tls_closed(t);
	if (t->first == 0)
		t->first = p[0];
	br_ssl_engine_recvrec_ack(&t->client.eng, got);
	return 0;
}

/* Exchanges records until one of these states, or BR_SSL_CLOSED, is reached. */
static int tls_run(struct tls *t, unsigned wanted, unsigned *state)
{
	for (;;) {
		*state = br_ssl_engine_current_state(&t->client.eng);
		int error = br_ssl_engine_last_error(&t->client.eng);
		if (*state & BR_SSL_CLOSED)
			return error ? tls_problem(t, error) : 0;
		int trouble = 0;
		if (*state & BR_SSL_SENDREC)
			trouble = tls_send(t);
		else if (*state & wanted)
			return 0;
		else
			trouble = tls_receive(t);
		if (trouble)
			return trouble;
	}
}

/* ---- the connection ---------------------------------------------------------------------- */

static void tls_algorithms(br_ssl_client_context *c, br_x509_minimal_context *x)
{
	static const uint16_t SUITES[] = {
		BR_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		BR_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		BR_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		BR_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		BR_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		BR_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	};
	static const br_hash_class *const HASHES[] = { &br_sha256_vtable, &br_sha384_vtable,
		                                       &br_sha512_vtable };
	br_ssl_engine_context *eng = &c->eng;
	br_ssl_engine_set_versions(eng, BR_TLS12, BR_TLS12);
	br_ssl_engine_set_suites(eng, SUITES, sizeof(SUITES) / sizeof(SUITES[0]));
	br_ssl_engine_set_default_rsavrfy(eng);
	br_ssl_engine_set_default_ecdsa(eng);
	br_x509_minimal_set_rsa(x, br_ssl_engine_get_rsavrfy(eng));
	br_x509_minimal_set_ecdsa(x, br_ssl_engine_get_ec(eng), br_ssl_engine_get_ecdsa(eng));
	for (int i = 0; i < 3; i++) {
		br_ssl_engine_set_hash(eng, br_sha256_ID + i, HASHES[i]);
		br_x509_minimal_set_hash(x, br_sha256_ID + i, HASHES[i]);
	}
	br_ssl_engine_set_prf_sha256(eng, &br_tls12_sha256_prf);
	br_ssl_engine_set_prf_sha384(eng, &br_tls12_sha384_prf);
	br_ssl_engine_set_default_aes_gcm(eng);
	br_ssl_engine_set_default_chapol(eng);
}

/* BearSSL would open /dev/urandom, which may not exist. */
static void tls_seed(br_ssl_engine_context *eng)
{
	unsigned char seed[SEED_BYTES];
	random_bytes(seed, sizeof(seed));
	br_ssl_engine_inject_entropy(eng, seed, sizeof(seed));
	wipe(seed, sizeof(seed));
}

static int tls_handshake(struct tls *t)
{
	unsigned state = 0;
	t->wire->doing = "agreeing on TLS";
	tls_seed(&t->client.eng);
	if (!br_ssl_client_reset(&t->client, t->name, 0))
		return tls_problem(t, br_ssl_engine_last_error(&t->client.eng));
	int trouble = tls_run(t, BR_SSL_SENDAPP, &state);
	if (trouble == 0 && !(state & BR_SSL_SENDAPP))
		trouble = tls_closed(t);
	t->open = trouble == 0;
	return trouble;
}

struct tls *tls_open(struct wire *w, const struct ca_bundle *ca_bundle, const char *name,
                     int *trouble)
{
	struct tls *t = xcalloc(1, sizeof(*t));
	t->wire = w;
	t->name = name;
	br_ssl_client_zero(&t->client);
	br_x509_minimal_init(&t->x509, &br_sha256_vtable, ca_bundle->v, ca_bundle->n);
	br_x509_minimal_set_minrsa(&t->x509, RSA_BYTES_MIN);
	time_t now = time(NULL);
	br_x509_minimal_set_time(&t->x509, (uint32_t)(now / 86400 + DAY_1970),
	                         (uint32_t)(now % 86400));
	tls_algorithms(&t->client, &t->x509);
	br_ssl_engine_set_x509(&t->client.eng, &t->x509.vtable);
	br_ssl_engine_set_buffer(&t->client.eng, t->buffer, sizeof(t->buffer), 0);
	*trouble = tls_handshake(t);
	if (*trouble == 0)
		return t;
	tls_close(t);
	return NULL;
}

int tls_read(struct tls *t, void *p, size_t max, size_t *n)
{
	unsigned state = 0;
	int trouble = tls_run(t, BR_SSL_RECVAPP, &state);
	if (trouble)
		return trouble;
	*n = 0;
	if (state & BR_SSL_CLOSED)
		return 0;
	size_t have = 0;
	const unsigned char *from = br_ssl_engine_recvapp_buf(&t->client.eng, &have);
	*n = have < max ? have : max;
	memcpy(p, from, *n);
	br_ssl_engine_recvapp_ack(&t->client.eng, *n);
	return 0;
}

int tls_write(struct tls *t, struct span text)
{
	while (text.n) {
		unsigned state = 0;
		size_t room = 0;
		int trouble = tls_run(t, BR_SSL_SENDAPP | BR_SSL_RECVAPP, &state);
		if (trouble)
			return trouble;
		if (!(state & BR_SSL_SENDAPP))
			return 0; /* the server answers, or has closed */
		unsigned char *to = br_ssl_engine_sendapp_buf(&t->client.eng, &room);
		size_t n = text.n < room ? text.n : room;
		memcpy(to, text.p, n);
		br_ssl_engine_sendapp_ack(&t->client.eng, n);
		text = (struct span){ text.p + n, text.n - n };
	}
	br_ssl_engine_flush(&t->client.eng, 0);
	return 0;
}

void tls_close(struct tls *t)
{
	if (t == NULL)
		return;
	wipe(t, sizeof(*t));
	free(t);
}

/* ---- certificate authorities ----------------------------------------------------------------- */

/* Text between certificates, other objects and unreadable certificates are skipped, as in bundles
 * of systems.  BearSSL's own PEM decoder fails on CR LF and after a damaged certificate. */

enum { PEM_MAX = 1024 * 1024, NAME_MAX_BYTES = 4096 };

static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
static const char END[] = "-----END CERTIFICATE-----";

static void pem_take_bytes(void *to, const void *bytes, size_t n)
{
	str_put(to, bytes, n);
}

static unsigned char *pem_keep(struct arena *a, const void *bytes, size_t n)
{
	return (unsigned char *)arena_dup(a, (struct span){ bytes, n });
}

/* Copies the key, which points into the decoder. */
static bool pem_keep_key(struct arena *a, br_x509_pkey *to, const br_x509_pkey *from)
{
	*to = *from;
	if (from->key_type == BR_KEYTYPE_RSA) {
		to->key.rsa.n = pem_keep(a, from->key.rsa.n, from->key.rsa.nlen);
		to->key.rsa.e = pem_keep(a, from->key.rsa.e, from->key.rsa.elen);
		return true;
	}
	if (from->key_type == BR_KEYTYPE_EC) {
		to->key.ec.q = pem_keep(a, from->key.ec.q, from->key.ec.qlen);
		return true;
	}
	return false;
}

static void pem_add(struct ca_bundle *t, struct span der)
{
	br_x509_decoder_context d;
	STR_AUTO name = STR_INIT(NAME_MAX_BYTES);
	br_x509_decoder_init(&d, pem_take_bytes, &name);
	br_x509_decoder_push(&d, der.p, der.n);
	const br_x509_pkey *key = br_x509_decoder_get_pkey(&d);
	br_x509_trust_anchor *anchor = &t->v[t->n];
	if (key == NULL || name.full || !pem_keep_key(&t->arena, &anchor->pkey, key))
		return;
	anchor->dn = (br_x500_name){ pem_keep(&t->arena, str_c(&name), name.n), name.n };
	/* Without the flag it is trusted only as a server certificate. */
	anchor->flags = br_x509_decoder_isCA(&d) ? BR_X509_TA_CA : 0;
	t->n++;
}

/* Removes the next certificate from *pem; false if there is none.  Skips one that is cut off by the
 * next BEGIN. */
static bool pem_next(struct span *pem, struct span *inside)
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

static void pem_read(struct ca_bundle *t, struct span pem)
{
	struct span inside;
	while (pem_next(&pem, &inside)) {
		ARENA_AUTO a = { 0 };
		STR_AUTO digits = STR_INIT(PEM_MAX);
		struct span der = { NULL, 0 };
		for (size_t i = 0; i < inside.n; i++) {
			if (!inside.p[i] || !strchr(" \t\r\n", inside.p[i]))
				str_char(&digits, inside.p[i]);
		}
		if (base64_decode(&a, str_view(&digits), &der) == 0 && der.n)
			pem_add(t, der);
	}
}

struct ca_bundle *ca_bundle_from(struct span pem, struct err *e)
{
	if (pem.n > PEM_MAX) {
		(void)err_set(e, FAILED, "more than %d bytes of certificates", PEM_MAX);
		return NULL;
	}
	struct ca_bundle *t = xcalloc(1, sizeof(*t));
	size_t most = 1;
	for (size_t i = 0; (i = span_find(pem, i, END)) != SIZE_MAX; i++)
		most++;
	t->v = ARENA_NEW(&t->arena, br_x509_trust_anchor, most);
	pem_read(t, pem);
	if (t->n)
		return t;
	(void)err_set(e, FAILED, "no certificate in it that can be read (PEM is expected)");
	ca_bundle_free(t);
	return NULL;
}

struct ca_bundle *ca_bundle_load(const char *pem_file, struct err *e)
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
	struct ca_bundle *t = ca_bundle_from(text, e);
	if (!t)
		(void)err_wrap(e, "%s", pem_file);
	return t;
}

void ca_bundle_free(struct ca_bundle *t)
{
	if (t)
		arena_done(&t->arena);
	free(t);
}
