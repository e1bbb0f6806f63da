/*
 * TLS 1.2 and 1.3 by mbedTLS (sources/mbedtls.options): ECDHE with AES-GCM or ChaCha20.
 * Certificates are always checked, by the default profile of mbedTLS: signed with SHA-256 or
 * better, RSA keys of at least 2048 bits.
 */
#include <arpa/inet.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <psa/crypto.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/time.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/net/net_internal.h"

struct ca_bundle {
	mbedtls_x509_crt *chain;
};

enum {
	RECORD_ALERT = 21, /* first byte of a TLS server */
	RECORD_HANDSHAKE = 22,
	ALERT_BYTES = 7, /* of the record: type, version, length 2, level, description */
	ALERT_FATAL = 2,
	X509_ERRORS = 0x2000, /* of mbedTLS: certificates, then keys */
	OTHER_ERRORS = 0x4000,
	ADDRESS_MAX = 16
};

struct tls_session {
	struct wire *wire;
	const char *name;
	unsigned char address[ADDRESS_MAX]; /* the name, if it is an address */
	size_t address_n;
	bool open;                       /* the handshake is done */
	int trouble;                     /* of the wire */
	unsigned char first;             /* byte that came; 0 before */
	unsigned char last[ALERT_BYTES]; /* bytes that came */
	mbedtls_ssl_config config;
	mbedtls_ssl_context ssl;
};

/* ---- messages -------------------------------------------------------------------------------- */

/* "certificate of HOST:PORT ..." */
static const struct {
	uint32_t flags;
	const char *text;
} CERTIFICATE[] = {
	{ MBEDTLS_X509_BADCERT_BAD_MD | MBEDTLS_X509_BADCERT_BAD_PK,
	  "uses a signature or key that is not known here (SHA-1, Ed25519)" },
	{ MBEDTLS_X509_BADCERT_NOT_TRUSTED, "is not signed by an authority that is trusted here" },
	{ MBEDTLS_X509_BADCERT_BAD_KEY,
	  "has, or is signed with, an RSA key of less than 2048 bits" },
	{ MBEDTLS_X509_BADCERT_KEY_USAGE | MBEDTLS_X509_BADCERT_EXT_KEY_USAGE,
	  "is not one for servers" },
};

/* "HOST:PORT ..." */
static const struct {
	int alert;
	bool final; /* no version or cipher in common */
	const char *text;
} ALERTS[] = {
	{ 40, true,
	  "has no cipher in common with pai-runtime (TLS " TLS_SPOKEN
	  "), or wants a client certificate" },
	{ 70, true, "does not speak TLS " TLS_SPOKEN },
	{ 71, true, "requires stronger ciphers than TLS " TLS_SPOKEN },
	{ 42, false, "wants a client certificate" },
	{ 112, false, "does not know the name that it was asked for" },
	{ 116, false, "wants a client certificate" },
};

static int certificate_problem(const struct tls_session *t, uint32_t flags)
{
	const char *where = t->wire->where;
	struct err *e = t->wire->e;
	char now[RFC3339_MAX];
	(void)rfc3339_put(now, clock_wall_ms(), 0);
	size_t i = 0;
	while (i < ARRAY_SIZE(CERTIFICATE) && !(flags & CERTIFICATE[i].flags))
		i++;
	if (i < ARRAY_SIZE(CERTIFICATE))
		(void)err_set(e, FAILED, "certificate of %s %s", where, CERTIFICATE[i].text);
	else if (flags & MBEDTLS_X509_BADCERT_CN_MISMATCH)
		(void)err_set(e, FAILED, "certificate of %s is not valid for %s", where, t->name);
	else if (flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE))
		(void)err_set(/* or the clock is wrong */
		              e, FAILED,
		              "certificate of %s has expired or is not valid yet (our clock shows "
		              "%s)",
		              where, now);
	else
		(void)err_set(e, FAILED, "certificate of %s is refused (%x)", where, flags);
	return HTTP_TLS;
}

/* mbedTLS does not say which alert came.  It reads no further than the record of a fatal alert. */
static int tls_alert(const struct tls_session *t)
{
	const unsigned char *p = t->last;
	bool clear = p[0] == RECORD_ALERT && p[3] == 0 && p[4] == 2 && p[5] == ALERT_FATAL;
	if (!clear)
		return wire_fail(t->wire, t->open ? HTTP_BROKEN : HTTP_TLS,
		                 " refused with an encrypted TLS alert; it may want a client "
		                 "certificate");
	for (size_t i = 0; i < ARRAY_SIZE(ALERTS); i++) {
		int trouble = t->open           ? HTTP_BROKEN
		              : ALERTS[i].final ? HTTP_NO_COMMON_TLS
		                                : HTTP_TLS;
		if (ALERTS[i].alert == p[6])
			return wire_fail(t->wire, trouble, " %s", ALERTS[i].text);
	}
	return wire_fail(t->wire, t->open ? HTTP_BROKEN : HTTP_TLS, " refused with TLS alert %d",
	                 p[6]);
}

/* Returns the problem after an error of mbedTLS. */
static int tls_problem(const struct tls_session *t, int error)
{
	int trouble = t->open ? HTTP_BROKEN : HTTP_TLS;
	if (error == MBEDTLS_ERR_NET_RECV_FAILED || error == MBEDTLS_ERR_NET_SEND_FAILED)
		return t->trouble;
	if (error == MBEDTLS_ERR_SSL_CONN_EOF)
		return wire_fail(t->wire, HTTP_BROKEN, " closed the connection while %s",
		                 t->wire->doing);
	if (t->first && t->first != RECORD_ALERT && t->first != RECORD_HANDSHAKE)
		return wire_fail(t->wire, trouble, " does not speak TLS");
	if (error == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
		return tls_alert(t);
	if (error == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED ||
	    error == MBEDTLS_ERR_SSL_BAD_CERTIFICATE)
		return certificate_problem(t, mbedtls_ssl_get_verify_result(&t->ssl));
	if (-error > X509_ERRORS && -error < OTHER_ERRORS)
		return wire_fail(t->wire, trouble,
		                 ": a certificate cannot be read here (error -0x%x)", -error);
	if (error == MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION)
		return wire_fail(t->wire, HTTP_NO_COMMON_TLS, " does not speak TLS " TLS_SPOKEN);
	return wire_fail(t->wire, trouble, " breaks the rules of TLS, while %s (error -0x%x)",
	                 t->wire->doing, -error);
}

/* ---- the connection ---------------------------------------------------------------------- */

psa_status_t mbedtls_psa_external_get_random(mbedtls_psa_external_random_context_t *context,
                                             uint8_t *out, size_t size, size_t *n)
{
	(void)context;
	random_bytes(out, size);
	*n = size;
	return PSA_SUCCESS;
}

static int tls_random(void *context, unsigned char *out, size_t size)
{
	(void)context;
	random_bytes(out, size);
	return 0;
}

static int tls_send(void *context, const unsigned char *p, size_t n)
{
	struct tls_session *t = context;
	t->trouble = net_write(t->wire, (struct span){ (const char *)p, n });
	return t->trouble ? MBEDTLS_ERR_NET_SEND_FAILED : (int)n;
}

static int tls_receive(void *context, unsigned char *p, size_t max)
{
	struct tls_session *t = context;
	size_t n = 0;
	t->trouble = net_read(t->wire, p, max, &n);
	if (t->trouble)
		return MBEDTLS_ERR_NET_RECV_FAILED;
	size_t new = n < ALERT_BYTES ? n : ALERT_BYTES;
	memmove(t->last, t->last + new, ALERT_BYTES - new);
	memcpy(t->last + ALERT_BYTES - new, p + n - new, new);
	if (t->first == 0 && n)
		t->first = p[0];
	return (int)n;
}

/* The server's certificate must have the address.  mbedTLS could check that as well, but it would
 * send the address as name of the server, which RFC 6066 forbids. */
static int tls_check_address(void *context, mbedtls_x509_crt *certificate, int depth,
                             uint32_t *flags)
{
	const struct tls_session *t = context;
	if (depth != 0)
		return 0;
	for (const mbedtls_x509_sequence *s = &certificate->subject_alt_names; s; s = s->next) {
		if ((s->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK) == MBEDTLS_X509_SAN_IP_ADDRESS &&
		    s->buf.len == t->address_n && memcmp(s->buf.p, t->address, s->buf.len) == 0)
			return 0;
	}
	*flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
	return 0;
}

/* Groups of the key exchange.  A connection with P-256 first takes a third less time than one with
 * X25519. */
static const uint16_t GROUPS[] = { MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
	                           MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
	                           MBEDTLS_SSL_IANA_TLS_GROUP_SECP384R1,
	                           MBEDTLS_SSL_IANA_TLS_GROUP_NONE };

static int tls_set_up(struct tls_session *t, const struct ca_bundle *ca_bundle)
{
	mbedtls_ssl_config *c = &t->config;
	mbedtls_ssl_init(&t->ssl);
	mbedtls_ssl_config_init(c);
	if (psa_crypto_init() != PSA_SUCCESS)
		return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
	/* The defaults require a valid certificate. */
	int error = mbedtls_ssl_config_defaults(
	    c, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);
	if (error)
		return error;
	mbedtls_ssl_conf_authmode(c, MBEDTLS_SSL_VERIFY_REQUIRED);
	mbedtls_ssl_conf_groups(c, GROUPS);
	mbedtls_ssl_conf_rng(c, tls_random, NULL);
	mbedtls_ssl_conf_ca_chain(c, ca_bundle->chain, NULL);
	if (inet_pton(AF_INET, t->name, t->address) == 1)
		t->address_n = sizeof(struct in_addr);
	else if (inet_pton(AF_INET6, t->name, t->address) == 1)
		t->address_n = sizeof(struct in6_addr);
	if (t->address_n)
		mbedtls_ssl_conf_verify(c, tls_check_address, t);
	error = mbedtls_ssl_setup(&t->ssl, c);
	if (error)
		return error;
	mbedtls_ssl_set_bio(&t->ssl, t, tls_send, tls_receive, NULL);
	return mbedtls_ssl_set_hostname(&t->ssl, t->address_n ? NULL : t->name);
}

/* Neither data nor an error: a message of the protocol came. */
static bool tls_wants_more(int result)
{
	return result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE;
}

struct tls_session *tls_open(struct wire *w, const struct ca_bundle *ca_bundle, const char *name,
                             int *trouble)
{
	struct tls_session *t = xcalloc(1, sizeof(*t));
	t->wire = w;
	t->name = name;
	w->doing = "agreeing on TLS";
	int error = tls_set_up(t, ca_bundle);
	while (error == 0 && tls_wants_more(error = mbedtls_ssl_handshake(&t->ssl)))
		error = 0;
	t->open = error == 0;
	*trouble = error ? tls_problem(t, error) : 0;
	if (error == 0)
		return t;
	tls_close(&t);
	return NULL;
}

int tls_read(struct tls_session *t, void *p, size_t max, size_t *n)
{
	int got;
	do {
		got = mbedtls_ssl_read(&t->ssl, p, max);
	} while (tls_wants_more(got));
	*n = got > 0 ? (size_t)got : 0;
	if (got > 0 || got == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
		return 0;
	return tls_problem(t, got ? got : MBEDTLS_ERR_SSL_CONN_EOF);
}

int tls_write(struct tls_session *t, struct span text)
{
	while (text.n) {
		int done = mbedtls_ssl_write(&t->ssl, (const unsigned char *)text.p, text.n);
		if (done < 0 && !tls_wants_more(done))
			return tls_problem(t, done);
		if (done > 0)
			text = (struct span){ text.p + done, text.n - (size_t)done };
	}
	return 0;
}

void tls_close(struct tls_session **session)
{
	struct tls_session *t = *session;
	if (t == NULL)
		return;
	mbedtls_ssl_free(&t->ssl); /* wipes */
	mbedtls_ssl_config_free(&t->config);
	free(t);
}

/* ---- certificate authorities ----------------------------------------------------------------- */

/* Text between certificates, other objects and unreadable certificates are skipped, as in bundles
 * of systems.  mbedTLS's own PEM decoder also loses the certificate after one that is cut off. */

enum { PEM_MAX = 1024 * 1024 };

static const char BEGIN[] = "-----BEGIN CERTIFICATE-----";
static const char END[] = "-----END CERTIFICATE-----";

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

struct ca_bundle *ca_bundle_load(const char *pem_file, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct span pem = { NULL, 0 };
	struct span inside;
	if (file_need(pem_file, FILE_MOUNTED, PEM_MAX, &a, &pem, e))
		return NULL;
	struct ca_bundle *t = xcalloc(1, sizeof(*t));
	t->chain = xcalloc(1, sizeof(*t->chain));
	mbedtls_x509_crt_init(t->chain);
	while (pem_next(&pem, &inside)) {
		STR_AUTO digits = STR_INIT(PEM_MAX);
		struct span der = { NULL, 0 };
		for (size_t i = 0; i < inside.n; i++) {
			if (!inside.p[i] || !strchr(" \t\r\n", inside.p[i]))
				str_char(&digits, inside.p[i]);
		}
		if (base64_decode(&a, str_view(&digits), &der) == 0 && der.n)
			(void)mbedtls_x509_crt_parse_der(t->chain, (const unsigned char *)der.p,
			                                 der.n);
	}
	if (t->chain->raw.len)
		return t;
	(void)err_set(e, FAILED, "%s: no certificate in it that can be read (PEM is expected)",
	              pem_file);
	ca_bundle_free(t);
	return NULL;
}

void ca_bundle_free(struct ca_bundle *t)
{
	if (t == NULL)
		return;
	mbedtls_x509_crt_free(t->chain);
	free(t->chain);
	free(t);
}
