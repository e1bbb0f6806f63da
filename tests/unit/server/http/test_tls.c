/* Certificates and keys in files: accepted ones, and reloads. */

#include "tests/unit/base/cmocka.h"
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/http/tls.h"

enum { PEM_MAX = 8192, HUNDRED_DAYS_S = 100 * 86400 };

/* Two certificates that signed themselves, and their keys. */
static struct pair {
	char cert[PEM_MAX], key[PEM_MAX];
} one, two;
static char folder[64], cert_file[96], key_file[96];

static void write_text(const char *file, const char *text)
{
	/* A new file each time, as tools do it, so that the time stamps differ in any case. */
	(void)unlink(file);
	int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(close(fd), 0);
}

static void install(const char *cert, const char *key)
{
	write_text(cert_file, cert);
	write_text(key_file, key);
}

static void make_pair(struct pair *p, unsigned char serial)
{
	gnutls_x509_privkey_t key = NULL;
	gnutls_x509_crt_t crt = NULL;
	size_t n = sizeof(p->cert) - 1;
	assert_int_equal(gnutls_x509_privkey_init(&key), 0);
	assert_int_equal(gnutls_x509_crt_init(&crt), 0);
	assert_int_equal(
	    gnutls_x509_privkey_generate(key, GNUTLS_PK_EC,
	                                 GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
	    0);
	assert_int_equal(gnutls_x509_crt_set_version(crt, 3), 0);
	assert_int_equal(gnutls_x509_crt_set_serial(crt, &serial, 1), 0);
	assert_int_equal(gnutls_x509_crt_set_dn(crt, "CN=localhost", NULL), 0);
	assert_int_equal(gnutls_x509_crt_set_activation_time(crt, time(NULL) - 60), 0);
	assert_int_equal(gnutls_x509_crt_set_expiration_time(crt, time(NULL) + HUNDRED_DAYS_S), 0);
	assert_int_equal(gnutls_x509_crt_set_key(crt, key), 0);
	assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
	assert_int_equal(gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_PEM, p->cert, &n), 0);
	n = sizeof(p->key) - 1;
	assert_int_equal(gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, p->key, &n), 0);
	gnutls_x509_crt_deinit(crt);
	gnutls_x509_privkey_deinit(key);
}

FIXTURE(set_up)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/rest-lit-tls-XXXXXX");
	assert_non_null(mkdtemp(folder));
	(void)snprintf(cert_file, sizeof(cert_file), "%s/cert", folder);
	(void)snprintf(key_file, sizeof(key_file), "%s/key", folder);
	make_pair(&one, 1);
	make_pair(&two, 2);
	return 0;
}

FIXTURE(tear_down)
{
	(void)unlink(cert_file);
	(void)unlink(key_file);
	return rmdir(folder);
}

static int serial_of(struct tls *t)
{
	unsigned n;
	unsigned char serial[20];
	size_t serial_n = sizeof(serial);
	gnutls_x509_crt_t crt = NULL;
	struct tls_chain *c = tls_hold(t);
	struct gnutls_pcert_st *certs;
	assert_non_null(tls_chain_show(c, &certs, &n));
	assert_int_equal(gnutls_pcert_export_x509(certs, &crt), 0);
	assert_int_equal(n, 1);
	assert_int_equal(gnutls_x509_crt_get_serial(crt, serial, &serial_n), 0);
	gnutls_x509_crt_deinit(crt);
	tls_drop(c);
	return serial[serial_n - 1];
}

static void tls_done(struct tls **t)
{
	tls_free(*t);
}
#define TLS_AUTO __attribute__((cleanup(tls_done))) struct tls

static struct tls *open_one(void)
{
	ERR_AUTO e = { 0 };
	install(one.cert, one.key);
	struct tls *t = tls_new(cert_file, key_file, &e);
	assert_non_null(t);
	return t;
}

TEST(test_tls_new_loads_certificate_and_key)
{
	TLS_AUTO *t = open_one();
	assert_int_equal(serial_of(t), 1);
	assert_null(tls_warning(t));
}

static void assert_refused(const char *cert, const char *key, const char *word)
{
	ERR_AUTO e = { 0 };
	install(cert, key);
	assert_null(tls_new(cert_file, key_file, &e));
	assert_int_equal(e.http, 400);
	assert_non_null(strstr(err_msg(&e), word));
}

TEST(test_tls_new_refuses_a_pair_that_does_not_match)
{
	assert_refused(one.cert, two.key, "is not the key of");
	assert_refused("", one.key, "no certificate");
	assert_refused(one.key, one.key, "no certificate");
	assert_refused(one.cert, "", "no private key");
	assert_refused(one.cert, one.cert, "no private key");
}

TEST(test_tls_refresh_ignores_the_same_bytes)
{
	ERR_AUTO e = { 0 };
	TLS_AUTO *t = open_one();
	assert_int_equal(tls_refresh(t, false, &e), 0);
	/* The same bytes in new files, or with another owner or mode. */
	install(one.cert, one.key);
	assert_int_equal(tls_refresh(t, false, &e), 0);
	assert_int_equal(chmod(key_file, 0400), 0);
	assert_int_equal(tls_refresh(t, false, &e), 0);
	assert_int_equal(tls_refresh(t, true, &e), 1);
}

TEST(test_tls_refresh_uses_a_new_pair)
{
	ERR_AUTO e = { 0 };
	struct tls *t = open_one();
	struct tls_chain *held = tls_hold(t);
	install(two.cert, two.key);
	assert_int_equal(tls_refresh(t, false, &e), 1);
	assert_int_equal(serial_of(t), 2);
	/* A holder of the old chain may use it after the struct is freed. */
	tls_free(t);
	struct gnutls_pcert_st *certs;
	unsigned n;
	assert_non_null(tls_chain_show(held, &certs, &n));
	assert_non_null(certs);
	tls_drop(held);
}

/* A kubelet may swap its directory between two reads; a tool may write one file after the other. */
TEST(test_tls_refresh_keeps_the_old_pair_until_both_are_new)
{
	ERR_AUTO e = { 0 };
	ERR_AUTO again = { 0 };
	TLS_AUTO *t = open_one();
	write_text(cert_file, two.cert);
	assert_int_equal(tls_refresh(t, false, &e), -1);
	assert_int_equal(serial_of(t), 1);
	/* The problem is reported once. */
	assert_int_equal(tls_refresh(t, false, &again), 0);
	write_text(key_file, two.key);
	assert_int_equal(tls_refresh(t, false, &again), 1);
	assert_int_equal(serial_of(t), 2);
	assert_int_equal(unlink(key_file), 0);
	assert_int_equal(tls_refresh(t, false, &again), -1);
	assert_int_equal(serial_of(t), 2);
}

TEST(test_tls_warning_names_a_key_that_all_can_read)
{
	ERR_AUTO e = { 0 };
	TLS_AUTO *t = open_one();
	assert_int_equal(chmod(key_file, 0604), 0);
	assert_int_equal(tls_refresh(t, false, &e), 1);
	assert_non_null(strstr(tls_warning(t), "may read it"));
	/* In a pod, all users can read the files of Secrets. */
	/* One thread; a good name. NOLINTNEXTLINE(concurrency-mt-unsafe) */
	(void)setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
	assert_int_equal(tls_refresh(t, true, &e), 1);
	assert_null(tls_warning(t));
	/* The same. NOLINTNEXTLINE(concurrency-mt-unsafe) */
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
}

/* ---- a certificate without files ---- */

static struct tls *make(const char *host, unsigned char seed)
{
	unsigned char bytes[TLS_SEED];
	ERR_AUTO e = { 0 };
	memset(bytes, seed, sizeof(bytes));
	struct tls *t = NULL;
	assert_int_equal(tls_make(&t, span_of(host), bytes, &e), 0);
	return t;
}

static gnutls_x509_crt_t certificate_of(const struct tls *t)
{
	unsigned char text[PEM_MAX]; /* GnuTLS takes no const */
	gnutls_datum_t pem = { text, (unsigned)strlen(tls_pem(t)) };
	assert_true(pem.size < sizeof(text));
	memcpy(text, tls_pem(t), pem.size + 1);
	gnutls_x509_crt_t crt = NULL;
	assert_int_equal(gnutls_x509_crt_init(&crt), 0);
	assert_int_equal(gnutls_x509_crt_import(crt, &pem, GNUTLS_X509_FMT_PEM), 0);
	return crt;
}

/* Returns true if a client that trusts `trusted` accepts `shown` for this host. */
static bool is_taken(const struct tls *shown, const struct tls *trusted, const char *host)
{
	gnutls_x509_crt_t crt = certificate_of(shown);
	gnutls_x509_crt_t ca = certificate_of(trusted);
	gnutls_x509_trust_list_t list = NULL;
	unsigned char purpose[] = GNUTLS_KP_TLS_WWW_SERVER;
	unsigned char name[256]; /* GnuTLS takes no const */
	gnutls_typed_vdata_st data[2] = { { GNUTLS_DT_DNS_HOSTNAME, name, 0 },
		                          { GNUTLS_DT_KEY_PURPOSE_OID, purpose, 0 } };
	assert_true(strlen(host) < sizeof(name));
	memcpy(name, host, strlen(host) + 1);
	unsigned status = 1;
	assert_int_equal(gnutls_x509_trust_list_init(&list, 0), 0);
	assert_int_equal(gnutls_x509_trust_list_add_cas(list, &ca, 1, 0), 1);
	assert_int_equal(
	    gnutls_x509_trust_list_verify_crt2(list, &crt, 1, data, 2, 0, &status, NULL), 0);
	gnutls_x509_trust_list_deinit(list, 0);
	gnutls_x509_crt_deinit(ca);
	gnutls_x509_crt_deinit(crt);
	return status == 0;
}

TEST(test_tls_make_derives_the_pair_from_the_seed)
{
	TLS_AUTO *t = make("10.96.0.7", 1);
	TLS_AUTO *same = make("10.96.0.7", 1);
	TLS_AUTO *named = make("rest-lit-output.rest-lit.svc", 1);
	TLS_AUTO *six = make("fd00::7", 1);
	TLS_AUTO *other = make("10.96.0.7", 2);
	assert_string_equal(tls_pem(t), tls_pem(same));
	assert_string_not_equal(tls_pem(t), tls_pem(named));
	assert_true(is_taken(t, same, "10.96.0.7"));
	assert_false(is_taken(t, same, "10.96.0.8"));
	/* The certificate has the same key and another host. */
	assert_true(is_taken(named, t, "rest-lit-output.rest-lit.svc"));
	assert_true(is_taken(six, t, "fd00::7"));
	assert_false(is_taken(other, t, "10.96.0.7"));
	/* Pods whose clocks are years behind or ahead take it. */
	gnutls_x509_crt_t crt = certificate_of(t);
	assert_true(gnutls_x509_crt_get_activation_time(crt) < time(NULL) - HUNDRED_DAYS_S);
	assert_true(gnutls_x509_crt_get_expiration_time(crt) >
	            time(NULL) + 200 * (time_t)HUNDRED_DAYS_S);
	gnutls_x509_crt_deinit(crt);
}

TEST(test_tls_make_again_replaces_the_pair)
{
	static const unsigned char SEED[TLS_SEED] = { 3 };
	ERR_AUTO e = { 0 };
	TLS_AUTO *t = make("a.example", 1);
	TLS_AUTO *before = make("a.example", 1);
	struct tls_chain *held = tls_hold(t);
	assert_int_equal(tls_make(&t, SPAN("a.example"), SEED, &e), 0);
	assert_string_not_equal(tls_pem(t), tls_pem(before));
	assert_null(tls_warning(t));
	struct tls_chain *now = tls_hold(t);
	assert_ptr_not_equal(held, now); /* the old one lives as long as its connection */
	tls_drop(held);
	tls_drop(now);
	assert_int_equal(tls_make(&t, SPAN("a.example"), SEED, &e), 0);
	held = tls_hold(t);
	assert_ptr_equal(held, now); /* the same seed: not made again */
	tls_drop(held);
	assert_int_equal(tls_make(&t, SPAN(""), SEED, &e), -1);
	assert_int_equal(e.http, 400);
}

TEST_GROUP(set_up, tear_down)
