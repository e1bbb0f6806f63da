/*
 * A new chain replaces the old one only if both files are valid and match.  If the kubelet replaces
 * them between the two reads, the key does not match the certificate: this pair is refused, and the
 * files are read again because their time stamps have changed.
 */
#include "server/http/tls.h"

#include <arpa/inet.h>
#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/enc.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "server/config/system.h"

enum { CHAIN_MAX = 16, FILE_BYTES = 256 * 1024, KEY_ID = 32, SOON_S = 7 * 86400 };

struct tls_chain {
	atomic_size_t refs;
	gnutls_pcert_st certs[CHAIN_MAX];
	unsigned n;
	gnutls_privkey_t key;
	time_t end_s;
};

struct tls_file {
	const char *option, *path;
	struct str text;
	struct stat stat;
};

struct tls {
	const char *cert_file, *key_file; /* NULL: tls_make */
	char *pem;                        /* of tls_make, as the next */
	unsigned char seed[TLS_SEED];
	pthread_mutex_t lock; /* for the pointer only */
	struct tls_chain *chain;
	struct stat cert_stat, key_stat; /* of the files read last, valid or not */
	char warning[512];
};

/* ---- files ---- */

/* A file that cannot be read has zeroes. */
static bool tls_file_changed(const char *path, const struct stat *was)
{
	struct stat is = { 0 };
	(void)stat(path, &is);
	return is.st_dev != was->st_dev || is.st_ino != was->st_ino || is.st_size != was->st_size ||
	       memcmp(&is.st_mtim, &was->st_mtim, sizeof(is.st_mtim)) != 0 ||
	       memcmp(&is.st_ctim, &was->st_ctim, sizeof(is.st_ctim)) != 0;
}

static int tls_complain(struct err *e, const struct tls_file *f, const char *what)
{
	return err_set(e, 400, NULL, "%s: %s: %s", f->option, f->path, what);
}

static int read_file(struct tls_file *f, struct err *e)
{
	if (file_read_regular(f->path, &f->text, &f->stat, e) == 0)
		return 0;
	e->http = 400;
	return err_wrap(e, "%s", f->option);
}

/* ---- a chain and its key ---- */

static void free_chain(struct tls_chain *c)
{
	for (unsigned i = 0; i < c->n; i++)
		gnutls_pcert_deinit(&c->certs[i]);
	if (c->key)
		gnutls_privkey_deinit(c->key);
	free(c);
}

static bool tls_key_id(gnutls_pubkey_t key, unsigned char id[static KEY_ID])
{
	size_t n = KEY_ID;
	return gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, id, &n) == 0 && n == KEY_ID;
}

static bool tls_key_fits(const struct tls_chain *c)
{
	unsigned char shown[KEY_ID];
	unsigned char held[KEY_ID];
	gnutls_pubkey_t own = NULL;
	if (gnutls_pubkey_init(&own) < 0)
		abort(); /* out of memory, as in xmalloc */
	bool same = gnutls_pubkey_import_privkey(own, c->key, 0, 0) == 0 && tls_key_id(own, held) &&
	            tls_key_id(c->certs[0].pubkey, shown) && memcmp(shown, held, KEY_ID) == 0;
	gnutls_pubkey_deinit(own);
	return same;
}

static int check_chain(struct tls_chain *c, const struct tls_file *cert, const struct tls_file *key,
                       struct err *e)
{
	gnutls_x509_crt_t crt = NULL;
	unsigned bits = 0;
	int algorithm = gnutls_pubkey_get_pk_algorithm(c->certs[0].pubkey, &bits);
	if (!tls_key_fits(c))
		return err_set(e, 400, NULL,
		               "--tls-key: %s is not the key of the certificate in %s", key->path,
		               cert->path);
	if (algorithm < 0 || gnutls_pk_bits_to_sec_param((gnutls_pk_algorithm_t)algorithm, bits) <
	                         GNUTLS_SEC_PARAM_MEDIUM)
		return tls_complain(e, cert, "its key is too short: RSA must have 2048 bits");
	c->end_s = (time_t)-1;
	if (gnutls_pcert_export_x509(&c->certs[0], &crt) < 0)
		return 0;
	c->end_s = gnutls_x509_crt_get_expiration_time(crt);
	gnutls_x509_crt_deinit(crt);
	return 0;
}

static struct tls_chain *chain_new(struct tls_file *cert, struct tls_file *key, struct err *e)
{
	struct tls_chain *c = xcalloc(1, sizeof(*c));
	gnutls_datum_t certs = { (unsigned char *)cert->text.p, (unsigned)cert->text.n };
	gnutls_datum_t secret = { (unsigned char *)key->text.p, (unsigned)key->text.n };
	unsigned n = CHAIN_MAX;
	atomic_init(&c->refs, 1);
	if (gnutls_privkey_init(&c->key) < 0)
		abort(); /* out of memory, as in xmalloc */
	int r = gnutls_pcert_list_import_x509_raw(c->certs, &n, &certs, GNUTLS_X509_FMT_PEM,
	                                          GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED |
	                                              GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
	c->n = r < 0 ? 0 : n;
	bool encrypted = span_find(str_view(&key->text), 0, "ENCRYPTED") != SIZE_MAX;
	int failed = 0;
	if (r == GNUTLS_E_CERTIFICATE_LIST_UNSORTED)
		failed = tls_complain(e, cert,
		                      "its certificates are not in order: the server's own must be "
		                      "first, followed by its issuer");
	else if (r == GNUTLS_E_SHORT_MEMORY_BUFFER)
		failed = tls_complain(e, cert, "has more than 16 certificates");
	else if (c->n == 0)
		failed = tls_complain(e, cert, "has no certificate in valid PEM");
	else if (gnutls_privkey_import_x509_raw(c->key, &secret, GNUTLS_X509_FMT_PEM, NULL, 0) < 0)
		failed = tls_complain(e, key,
		                      encrypted ? "is encrypted: the server has no password for it"
		                                : "has no private key in valid PEM");
	else
		failed = check_chain(c, cert, key, e);
	if (!failed)
		return c;
	free_chain(c);
	return NULL;
}

/* ---- warnings ---- */

static void tls_note_warnings(struct tls *t, const struct tls_chain *c, const struct tls_file *key)
{
	time_t left = c->end_s - time(NULL);
	const char *odd = file_warning(&key->stat, true);
	t->warning[0] = '\0';
	/* Longer text is truncated. */
	if (c->end_s != (time_t)-1 && left <= 0)
		(void)snprintf(t->warning, sizeof(t->warning),
		               "%s: the certificate has expired; clients refuse it", t->cert_file);
	else if (c->end_s != (time_t)-1 && left < SOON_S)
		(void)snprintf(t->warning, sizeof(t->warning),
		               "%s: the certificate expires in %ld hours", t->cert_file,
		               (long)(left / 3600));
	else if (odd)
		(void)snprintf(t->warning, sizeof(t->warning), "%s: %s", t->key_file, odd);
}

/* ---- loading ---- */

static void tls_replace(struct tls *t, struct tls_chain *c)
{
	(void)pthread_mutex_lock(&t->lock); /* cannot fail */
	struct tls_chain *old = t->chain;
	t->chain = c;
	(void)pthread_mutex_unlock(&t->lock);
	tls_drop(old);
}

static int tls_load(struct tls *t, struct err *e)
{
	struct tls_file cert = { "--tls-cert", t->cert_file, STR_INIT(FILE_BYTES), { 0 } };
	struct tls_file key = { "--tls-key", t->key_file, STR_SECRET(FILE_BYTES), { 0 } };
	struct tls_chain *c = NULL;
	if (read_file(&cert, e) == 0 && read_file(&key, e) == 0)
		c = chain_new(&cert, &key, e);
	t->cert_stat = cert.stat;
	t->key_stat = key.stat;
	if (c) {
		tls_note_warnings(t, c, &key);
		tls_replace(t, c);
	}
	str_done(&cert.text);
	str_wipe(&key.text);
	return c ? 0 : -1;
}

struct tls *tls_new(const char *cert_file, const char *key_file, struct err *e)
{
	struct tls *t = xcalloc(1, sizeof(*t));
	t->cert_file = cert_file;
	t->key_file = key_file;
	(void)pthread_mutex_init(&t->lock, NULL); /* cannot fail on Linux */
	if (tls_load(t, e) == 0)
		return t;
	tls_free(t);
	return NULL;
}

int tls_refresh(struct tls *t, bool force, struct err *e)
{
	if (!force && !tls_file_changed(t->cert_file, &t->cert_stat) &&
	    !tls_file_changed(t->key_file, &t->key_stat))
		return 0;
	struct tls_chain *old = tls_hold(t);
	bool warned = t->warning[0];
	int rc = tls_load(t, e) < 0 ? -1 : force || (t->warning[0] && !warned);
	/* The key belongs to the first certificate.  A kubelet sets owner and mode of a Secret's
	 * files now and then, which changes only their stamps. */
	const struct tls_chain *new = t->chain;
	bool same = old->n == new->n;
	for (unsigned i = 0; same && i < new->n; i++)
		same = old->certs[i].cert.size ==
		       new->certs[i].cert.size &&memcmp(old->certs[i].cert.data,
		                                        new->certs[i].cert.data,
		                                        new->certs[i].cert.size) == 0;
	tls_drop(old);
	return rc == 0 && !same ? 1 : rc;
}

const char *tls_warning(const struct tls *t)
{
	return t->warning[0] ? t->warning : NULL;
}

/* ---- a certificate without files ---- */

enum { MADE_BITS = 2048, MADE_SEED = 28 /* the size in FIPS 186-4 for so many bits */ };

/* RSA, because a key on a curve cannot be made from a seed by GnuTLS, and because its signatures
 * are not random: the certificates of all servers with the same secret are the same bytes. */
static int tls_generate_key(gnutls_x509_privkey_t key, const unsigned char *seed)
{
	unsigned char copy[MADE_SEED]; /* GnuTLS takes no const */
	gnutls_keygen_data_st data = { GNUTLS_KEYGEN_SEED, copy, sizeof(copy) };
	memcpy(copy, seed, sizeof(copy));
	int bad = gnutls_x509_privkey_generate2(key, GNUTLS_PK_RSA, MADE_BITS,
	                                        GNUTLS_PRIVKEY_FLAG_PROVABLE, &data, 1);
	memory_wipe(copy, sizeof(copy));
	return bad;
}

static int tls_generate_name(gnutls_x509_crt_t crt, struct span host)
{
	char text[TLS_HOST_MAX + 1];
	unsigned char address[sizeof(struct in6_addr)];
	memcpy(text, host.p, host.n);
	text[host.n] = '\0';
	unsigned n = inet_pton(AF_INET, text, address) == 1    ? sizeof(struct in_addr)
	             : inet_pton(AF_INET6, text, address) == 1 ? sizeof(struct in6_addr)
	                                                       : 0;
	if (n)
		return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, n,
		                                            GNUTLS_FSAN_SET);
	return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, text, (unsigned)host.n,
	                                            GNUTLS_FSAN_SET);
}

/* An authority too, so that it vouches for one of the same key with another host. */
static int tls_generate_certificate(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key,
                                    struct span host)
{
	char name[] = "output of rest-lit 0123456789abcdef"; /* OpenSSL needs one per key */
	static const time_t SINCE = 1577836800; /* 2020, for pods whose clock is behind */
	static const time_t UNTIL = 4102444800; /* 2100: it ends with its secret */
	unsigned char id[KEY_ID];
	size_t n = sizeof(id);
	int bad = gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, id, &n);
	id[0] &= 0x7f; /* serial numbers are positive */
	hex_encode(name + sizeof(name) - 17, id, 8);
	bad = bad ?: gnutls_x509_crt_set_version(crt, 3);
	bad = bad ?: gnutls_x509_crt_set_key(crt, key);
	bad = bad ?: gnutls_x509_crt_set_serial(crt, id, 16);
	bad = bad ?: gnutls_x509_crt_set_subject_key_id(crt, id, 20);
	bad = bad
	          ?: gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
	                                           sizeof(name) - 1);
	bad = bad ?: gnutls_x509_crt_set_activation_time(crt, SINCE);
	bad = bad ?: gnutls_x509_crt_set_expiration_time(crt, UNTIL);
	bad = bad ?: tls_generate_name(crt, host);
	bad = bad ?: gnutls_x509_crt_set_basic_constraints(crt, 1, 0);
	bad = bad
	          ?: gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE |
	                                                    GNUTLS_KEY_KEY_CERT_SIGN);
	bad = bad ?: gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
	return bad ?: gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
}

int tls_make(struct tls **made, struct span host, const unsigned char seed[static TLS_SEED],
             struct err *e)
{
	struct tls *t = *made;
	gnutls_x509_privkey_t key = NULL;
	gnutls_x509_crt_t crt = NULL;
	gnutls_datum_t pem = { NULL, 0 };
	if (host.n == 0 || host.n > TLS_HOST_MAX)
		return err_set(e, 400, NULL, "a name of a server has 1 to %d bytes", TLS_HOST_MAX);
	if (t && memcmp(t->seed, seed, sizeof(t->seed)) == 0)
		return 0;
	struct tls_chain *c = xcalloc(1, sizeof(*c));
	atomic_init(&c->refs, 1);
	if (gnutls_x509_privkey_init(&key) < 0 || gnutls_x509_crt_init(&crt) < 0 ||
	    gnutls_privkey_init(&c->key) < 0)
		abort(); /* out of memory, as in xmalloc */
	int bad = tls_generate_key(key, seed);
	bad = bad ?: tls_generate_certificate(crt, key, host);
	bad = bad ?: gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem);
	bad = bad ?: gnutls_privkey_import_x509(c->key, key, GNUTLS_PRIVKEY_IMPORT_COPY);
	bad = bad ?: gnutls_pcert_import_x509(&c->certs[0], crt, 0);
	c->n = bad == 0;
	gnutls_x509_privkey_deinit(key);
	gnutls_x509_crt_deinit(crt);
	if (bad) {
		free_chain(c);
		gnutls_free(pem.data);
		return err_set(e, UNKNOWN_ERROR, "a certificate cannot be made: %s",
		               gnutls_strerror(bad));
	}
	if (!t) {
		t = *made = xcalloc(1, sizeof(*t));
		(void)pthread_mutex_init(&t->lock, NULL); /* cannot fail on Linux */
	}
	free(t->pem);
	t->pem = xasprintf("%.*s", (int)pem.size, pem.data);
	gnutls_free(pem.data);
	memcpy(t->seed, seed, sizeof(t->seed));
	tls_replace(t, c);
	return 0;
}

const char *tls_pem(const struct tls *t)
{
	return t->pem;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	tls_drop(t->chain);
	memory_wipe(t->seed, sizeof(t->seed));
	free(t->pem);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

struct tls_chain *tls_hold(struct tls *t)
{
	LOCK_AUTO(&t->lock);
	struct tls_chain *c = t->chain;
	atomic_fetch_add(&c->refs, 1);
	return c;
}

void tls_drop(struct tls_chain *c)
{
	if (c && atomic_fetch_sub(&c->refs, 1) == 1)
		free_chain(c);
}

/* A chain is opaque elsewhere, and its key leaves this file only here. */
struct gnutls_privkey_st *tls_chain_show(struct tls_chain *c, struct gnutls_pcert_st **certs,
                                         unsigned *n)
{
	*certs = c->certs;
	*n = c->n;
	return c->key;
}
