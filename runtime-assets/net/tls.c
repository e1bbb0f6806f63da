/*
 * TLS 1.2 by BearSSL over a connection with a deadline; see wire.h.
 *
 * What is offered: ECDHE with AES-GCM or ChaCha20, certificates signed with SHA-256 or better, RSA
 * keys of at least 2048 bits.  Every API server speaks that by default; the old ciphers,
 * without forward secrecy or with CBC, are not compiled in.
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

/* What http.h calls struct ca_bundle, for tls.c. */
struct ca_bundle {
	struct arena arena; /* all that the anchors point to */
	br_x509_trust_anchor *v;
	size_t n;
};

enum {
	RSA_BYTES_MIN = 256,
	SEED_BYTES = 32,
	DAY_1970 = 719528, /* since the year 0 */
	RECORD_ALERT = 21, /* the first byte of what a server of TLS says first */
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

/* ---- what goes wrong, in words ---------------------------------------------------------- */

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

/* "HOST:PORT ..." */
static const struct problem HANDSHAKE[] = {
	{ BR_ERR_UNSUPPORTED_VERSION,
	  "chose another version than TLS 1.2, which is what we speak" },
	{ BR_ERR_BAD_PARAM, "cannot be asked for a certificate of that name: it is too long" },
	{ BR_ERR_BAD_SIGNATURE, "does not own the key of its certificate" },
	{ BR_ERR_RECV_FATAL_ALERT + 40,
	  "has no cipher in common with us (TLS " TLS_SPOKEN "), or wants a client certificate" },
	{ BR_ERR_RECV_FATAL_ALERT + 42, "wants a client certificate" },
	{ BR_ERR_RECV_FATAL_ALERT + 70,
	  "does not speak TLS 1.2; we do not speak any other version" },
	{ BR_ERR_RECV_FATAL_ALERT + 71, "wants stronger ciphers than we have: TLS " TLS_SPOKEN },
	{ BR_ERR_RECV_FATAL_ALERT + 112, "does not know the name that it was asked for" },
	{ BR_ERR_RECV_FATAL_ALERT + 116, "wants a client certificate" },
	{ 0, NULL },
};

static const char *problem_text(const struct problem *v, int code)
{
	while (v->text && v->code != code)
		v++;
	return v->text;
}

/* Errors by which the other side says that it will never agree with us. */
static bool tls_is_final(int code)
{
	static const int FINAL[] = {
		BR_ERR_UNSUPPORTED_VERSION,
		BR_ERR_RECV_FATAL_ALERT + 40, /* handshake_failure: no cipher in common */
		BR_ERR_RECV_FATAL_ALERT + 70, /* protocol_version */
		BR_ERR_RECV_FATAL_ALERT + 71, /* insufficient_security */
	};
	for (size_t i = 0; i < sizeof(FINAL) / sizeof(FINAL[0]); i++) {
		if (FINAL[i] == code)
			return true;
	}
	return false;
}

/* A wrong clock is as likely as an old certificate: say what it shows. */
static void expired(struct err *e, const char *where)
{
	char now[RFC3339_MAX];
	rfc3339_text(now, time(NULL));
	(void)err_set(e, FAILED,
	              "certificate of %s has expired or is not valid yet (our clock shows %s)",
	              where, now);
}

static int certificate_problem(const struct tls *t, int code)
{
	const char *where = t->wire->where;
	struct err *e = t->wire->e;
	const char *text = problem_text(CERTIFICATE, code);
	if (code == BR_ERR_X509_BAD_SERVER_NAME)
		(void)err_set(e, FAILED, "certificate of %s is not valid for %s", where, t->name);
	else if (code == BR_ERR_X509_EXPIRED)
		expired(e, where);
	else if (text)
		(void)err_set(e, FAILED, "certificate of %s %s", where, text);
	else
		(void)err_set(e, FAILED, "certificate of %s cannot be read (error %d)", where,
		              code);
	return HTTP_TLS;
}

static int problem(const struct tls *t, int code)
{
	const char *where = t->wire->where;
	struct err *e = t->wire->e;
	const char *text = problem_text(HANDSHAKE, code);
	if (code > BR_ERR_X509_OK && code <= BR_ERR_X509_NOT_TRUSTED)
		return certificate_problem(t, code);
	bool foreign = t->first && t->first != RECORD_ALERT && t->first != RECORD_HANDSHAKE;
	if (foreign)
		text = "does not speak TLS";
	if (text)
		(void)err_set(e, FAILED, "%s %s", where, text);
	else if (code > BR_ERR_RECV_FATAL_ALERT && code < BR_ERR_SEND_FATAL_ALERT)
		(void)err_set(e, FAILED, "%s refused with TLS alert %d", where,
		              code - BR_ERR_RECV_FATAL_ALERT);
	else
		(void)err_set(e, FAILED, "%s breaks the rules of TLS, while %s (error %d)", where,
		              t->wire->doing, code);
	if (t->open)
		return HTTP_BROKEN;
	return tls_is_final(code) && !foreign ? HTTP_NO_COMMON_TLS : HTTP_TLS;
}

/* ---- records ----------------------------------------------------------------------------- */

static int send_record(struct tls *t)
{
	size_t n = 0;
	size_t done = 0;
	const unsigned char *p = br_ssl_engine_sendrec_buf(&t->client.eng, &n);
	int trouble = net_write(t->wire, p, n, &done);
	if (trouble == 0)
		br_ssl_engine_sendrec_ack(&t->client.eng, done);
	return trouble;
}

static int receive_record(struct tls *t)
{
	size_t n = 0;
	size_t got = 0;
	unsigned char *p = br_ssl_engine_recvrec_buf(&t->client.eng, &n);
	int trouble = net_read(t->wire, p, n, &got);
	if (trouble)
		return trouble;
	if (got == 0) {
		(void)err_set(t->wire->e, FAILED, "%s closed the connection while %s",
		              t->wire->where, t->wire->doing);
		return HTTP_BROKEN;
	}
	if (t->first == 0)
		t->first = p[0];
	br_ssl_engine_recvrec_ack(&t->client.eng, got);
	return 0;
}

/* Exchange records until one of these states is reached, or the end, which the other side
 * announced (then `state` is BR_SSL_CLOSED). */
static int run_until(struct tls *t, unsigned wanted, unsigned *state)
{
	for (;;) {
		*state = br_ssl_engine_current_state(&t->client.eng);
		int error = br_ssl_engine_last_error(&t->client.eng);
		if (*state & BR_SSL_CLOSED)
			return error ? problem(t, error) : 0;
		int trouble = 0;
		if (*state & BR_SSL_SENDREC)
			trouble = send_record(t);
		else if (*state & wanted)
			return 0;
		else
			trouble = receive_record(t);
		if (trouble)
			return trouble;
	}
}

/* ---- the connection ---------------------------------------------------------------------- */

static void set_algorithms(br_ssl_client_context *c, br_x509_minimal_context *x)
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

/* From us and not from BearSSL, which would open /dev/urandom: there may be no /dev. */
static void set_seed(br_ssl_engine_context *eng)
{
	unsigned char seed[SEED_BYTES];
	random_bytes(seed, sizeof(seed));
	br_ssl_engine_inject_entropy(eng, seed, sizeof(seed));
	wipe(seed, sizeof(seed));
}

static int handshake(struct tls *t)
{
	unsigned state = 0;
	t->wire->doing = "agreeing on TLS";
	set_seed(&t->client.eng);
	if (!br_ssl_client_reset(&t->client, t->name, 0))
		return problem(t, br_ssl_engine_last_error(&t->client.eng));
	int trouble = run_until(t, BR_SSL_SENDAPP, &state);
	if (trouble == 0 && !(state & BR_SSL_SENDAPP)) {
		(void)err_set(t->wire->e, FAILED, "%s closed the connection while %s",
		              t->wire->where, t->wire->doing);
		trouble = HTTP_BROKEN;
	}
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
	set_algorithms(&t->client, &t->x509);
	br_ssl_engine_set_x509(&t->client.eng, &t->x509.vtable);
	br_ssl_engine_set_buffer(&t->client.eng, t->buffer, sizeof(t->buffer), 0);
	*trouble = handshake(t);
	if (*trouble == 0)
		return t;
	tls_close(t);
	return NULL;
}

int tls_read(struct tls *t, void *p, size_t max, size_t *n)
{
	unsigned state = 0;
	int trouble = run_until(t, BR_SSL_RECVAPP, &state);
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
		int trouble = run_until(t, BR_SSL_SENDAPP | BR_SSL_RECVAPP, &state);
		if (trouble)
			return trouble;
		if (!(state & BR_SSL_SENDAPP))
			return 0; /* it speaks, or has closed: what it said is for the reader */
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

/*
 * Certificate authorities out of PEM; see http.h.
 *
 * Text between certificates, other objects, and certificates that cannot be read are passed over,
 * as in bundles of systems; what counts is that at least one remains.  BearSSL's decoder of PEM is
 * not used: it stumbles over CR LF, and after a damaged certificate over the next one.
 */

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

static void add_certificate(struct ca_bundle *t, struct span der)
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

static void read_pem(struct ca_bundle *t, struct span pem)
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

struct ca_bundle *ca_bundle_from(struct span pem, struct err *e)
{
	if (pem.n > PEM_MAX) {
		(void)err_set(e, FAILED, "more than %d bytes of certificates", PEM_MAX);
		return NULL;
	}
	struct ca_bundle *t = xcalloc(1, sizeof(*t));
	t->v = ARENA_NEW(&t->arena, br_x509_trust_anchor, count(pem) + 1);
	read_pem(t, pem);
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
