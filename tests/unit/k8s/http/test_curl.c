/* The settings of libcurl, and their effect with a real TLS server (openssl s_server) whose
 * certificate is trusted or not. */
#include "base/posix/clock.h"
#include "tests/unit/jobs/kit.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "k8s/http/curl.h"
#include "k8s/transport/login.h"

/* ---- the list ---------------------------------------------------------------------- */

static const struct curl_setting *setting(CURLoption option)
{
	for (size_t i = 0; i < CURL_SETTINGS_N; i++) {
		if (CURL_SETTINGS[i].option == option)
			return &CURL_SETTINGS[i];
	}
	fail_msg("option %d is not set", (int)option);
	return NULL;
}

TEST(test_settings_have_the_expected_numbers)
{
	static const struct {
		CURLoption option;
		long number;
	} T[] = {
		{ CURLOPT_FOLLOWLOCATION, 0 },
		{ CURLOPT_PATH_AS_IS, 1 },
		{ CURLOPT_SSL_VERIFYPEER, 1 },
		{ CURLOPT_SSL_VERIFYHOST, 2 },
		{ CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2 },
		{ CURLOPT_NETRC, CURL_NETRC_IGNORED },
		{ CURLOPT_HTTPAUTH, CURLAUTH_NONE },
		{ CURLOPT_UNRESTRICTED_AUTH, 0 },
		{ CURLOPT_VERBOSE, 0 },
		{ CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1 },
		{ CURLOPT_HTTP09_ALLOWED, 0 },
		{ CURLOPT_TRANSFER_ENCODING, 0 },
		{ CURLOPT_SUPPRESS_CONNECT_HEADERS, 1 },
		{ CURLOPT_NOSIGNAL, 1 },
		{ CURLOPT_QUICK_EXIT, 1 },
		{ CURLOPT_CONNECTTIMEOUT_MS, 5000 },
		{ CURLOPT_DNS_CACHE_TIMEOUT, 60 },
		{ CURLOPT_MAXAGE_CONN, 90 },
	};
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		assert_false(setting(T[i].option)->is_text);
		assert_int_equal(setting(T[i].option)->number, T[i].number);
	}
}

TEST(test_settings_have_the_expected_texts)
{
	assert_string_equal(setting(CURLOPT_PROXY)->text, "");
	assert_string_equal(setting(CURLOPT_NOPROXY)->text, "*");
	assert_string_equal(setting(CURLOPT_REDIR_PROTOCOLS_STR)->text, "https");
	assert_string_equal(setting(CURLOPT_DEFAULT_PROTOCOL)->text, "https");
	assert_null(setting(CURLOPT_CAPATH)->text);
	assert_null(setting(CURLOPT_ACCEPT_ENCODING)->text);
}

/* No setting keeps data of an answer for another request, or shows it. */
TEST(test_settings_keep_no_cookies_and_caches)
{
	static const CURLoption NEVER[] = { CURLOPT_COOKIEFILE,    CURLOPT_COOKIEJAR,
		                            CURLOPT_ALTSVC,        CURLOPT_HSTS,
		                            CURLOPT_DEBUGFUNCTION, CURLOPT_USERPWD };
	for (size_t i = 0; i < CURL_SETTINGS_N; i++) {
		for (size_t k = 0; k < sizeof(NEVER) / sizeof(NEVER[0]); k++)
			assert_int_not_equal(CURL_SETTINGS[i].option, NEVER[k]);
	}
}

TEST(test_curl_start_accepts_this_libcurl)
{
	assert_int_equal(curl_start(no_err()), 0);
}

/* Every setopt of the list succeeded: login_curl checks each. */
static CURL *handle_for(const char *url, struct login **l)
{
	struct login_options o = { .apiserver = url };
	*l = login_new(&o, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	CURL *h = login_curl(*l, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	return h;
}

static CURLcode get(CURL *h, const char *url)
{
	assert_int_equal(curl_easy_setopt(h, CURLOPT_URL, url), CURLE_OK);
	return curl_easy_perform(h);
}

TEST(test_handle_speaks_one_protocol)
{
	struct login *l;
	CURL *h = handle_for("https://127.0.0.1:1", &l);
	assert_int_equal(get(h, "file:///etc/hostname"), CURLE_UNSUPPORTED_PROTOCOL);
	assert_int_equal(get(h, "http://127.0.0.1:1/"), CURLE_UNSUPPORTED_PROTOCOL);
	assert_int_equal(get(h, "https://127.0.0.1:1/"), CURLE_COULDNT_CONNECT);
	curl_easy_cleanup(h);
	login_free(l);
}

/* ---- a TLS server ------------------------------------------------------------------ */

static pid_t server;
static int port;

/* sh -c command, in the background. */
static pid_t spawn(char *command)
{
	char sh[] = "bash";
	char c[] = "-c";
	char *argv[] = { sh, c, command, NULL };
	pid_t pid = -1;
	assert_int_equal(posix_spawnp(&pid, sh, NULL, NULL, argv, environ), 0);
	return pid;
}

static bool server_answers(void)
{
	char command[256];
	(void)snprintf(command, sizeof(command), "exec 2>/dev/null; : </dev/tcp/127.0.0.1/%d",
	               port);
	int status = -1;
	pid_t pid = spawn(command);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

/* Two CAs, and a server for 127.0.0.1 whose certificate is signed by the first. */
FIXTURE(setup)
{
	port = 10000 + (int)getpid() % 9000; /* below what other tests take */
	static const char KEY[] = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
	for (int i = 1; i <= 2; i++)
		shell("cd %s && openssl req -x509 %s -subj /CN=ca%d -days 2 -keyout ca%d.key "
		      "-out ca%d.crt 2>/dev/null",
		      unit_path(""), KEY, i, i, i);
	shell("cd %s && openssl req %s -subj /CN=server -keyout s.key -out s.csr 2>/dev/null && "
	      "echo subjectAltName=IP:127.0.0.1 >ext && openssl x509 -req -in s.csr -CA ca1.crt "
	      "-CAkey ca1.key -CAcreateserial -days 2 -extfile ext -out s.crt 2>/dev/null",
	      unit_path(""), KEY);
	char command[512];
	(void)snprintf(
	    command, sizeof(command),
	    "cd %s && exec openssl s_server -quiet -www -accept 127.0.0.1:%d -cert s.crt "
	    "-key s.key >/dev/null 2>&1",
	    unit_path(""), port);
	server = spawn(command);
	int64_t end_ms = clock_ms() + AMPLE_MS;
	while (!server_answers() && clock_ms() < end_ms)
		clock_sleep(50);
	return 0;
}

FIXTURE(teardown)
{
	(void)kill(server, SIGKILL);
	(void)waitpid(server, NULL, 0);
	return 0;
}

/* Ask the server, trusting that CA (NULL: those of the machine). */
static struct kept ask_trusting(const char *ca, const char *host, enum store_verb verb)
{
	char url[64];
	(void)snprintf(url, sizeof(url), "https://%s:%d", host, port);
	struct login_options o = { .apiserver = url, .ca_file = ca ? unit_path(ca) : NULL };
	struct login *l = login_new(&o, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	struct store *s = store_api_new(l, "jobs", &limits, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	struct kept k = ask(s, (struct store_request){ .verb = verb,
	                                               .kind = KIND_SECRET,
	                                               .name = "x",
	                                               .body = { SPAN("{}") },
	                                               .deadline_ms = clock_ms() + AMPLE_MS });
	store_free(s);
	login_free(l);
	return k;
}

TEST(test_tls_accepts_the_right_ca)
{
	struct kept k = ask_trusting("ca1.crt", "127.0.0.1", STORE_READY);
	assert_int_equal(k.status, 200); /* it is no API server, but it has answered */
}

TEST(test_tls_refuses_a_wrong_ca)
{
	int64_t from = clock_ms();
	struct kept k = ask_trusting("ca2.crt", "127.0.0.1", STORE_CREATE);
	assert_int_equal(k.outcome, STORE_BUSY); /* nothing was sent, */
	assert_non_null(strstr(k.message, "certificate"));
	assert_true(clock_ms() - from < AMPLE_MS); /* and trying again is of no use */
}

TEST(test_tls_refuses_an_unknown_ca)
{
	struct kept k = ask_trusting(NULL, "127.0.0.1", STORE_CREATE);
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_non_null(strstr(k.message, "cert")); /* a machine may have no CAs at all */
}

TEST(test_tls_refuses_a_wrong_name)
{
	struct kept k = ask_trusting("ca1.crt", "localhost", STORE_CREATE);
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_non_null(strstr(k.message, "localhost"));
}

/* The CA of the API server is replaced at run time: the next connection uses the new one. */
TEST(test_tls_follows_a_replaced_ca)
{
	char url[64];
	char ca[128];
	struct kept k[2];
	shell("cp %s/ca2.crt %s/ca.crt", unit_path(""), unit_path(""));
	(void)snprintf(url, sizeof(url), "https://127.0.0.1:%d", port);
	(void)snprintf(ca, sizeof(ca), "%s/ca.crt", unit_path(""));
	struct login_options o = { .apiserver = url, .ca_file = ca };
	struct login *l = login_new(&o, no_err());
	struct store_limits limits = STORE_LIMITS_DEFAULT;
	struct store *s = store_api_new(l, "jobs", &limits, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	for (int i = 0; i < 2; i++) {
		k[i] = ask(s, (struct store_request){ .verb = STORE_READY });
		shell("cp %s/ca1.crt %s/ca.crt", unit_path(""), unit_path(""));
		login_refresh(l);
		login_refresh(l);
	}
	assert_non_null(strstr(k[0].message, "certificate"));
	assert_int_equal(k[1].status, 200);
	store_free(s);
	login_free(l);
}

/* ---- a machine that trusts another CA ----------------------------------------------------- */

/* Makes the machine trust ca1 for the rest of this process; false: the rights are missing. */
static bool machine_trusts_ca1(void)
{
	char certs[128];
	(void)snprintf(certs, sizeof(certs), "%s/certs", unit_path(""));
	shell("cd %s && mkdir certs && cp ca1.crt certs/ca-certificates.crt && "
	      "cp ca1.crt certs/$(openssl x509 -hash -noout -in ca1.crt).0",
	      unit_path(""));
	if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return false;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount(certs, "/etc/ssl/certs", NULL, MS_BIND, NULL) == 0;
}

/* A certificate of a public CA does not identify the API server.  This test must be the last: it
 * changes this process permanently. */
TEST(test_tls_refuses_a_public_ca)
{
	if (!machine_trusts_ca1())
		skip();
	struct kept k = ask_trusting(NULL, "127.0.0.1", STORE_READY);
	assert_int_equal(k.status, 200); /* the machine does trust it */
	k = ask_trusting("ca2.crt", "127.0.0.1", STORE_CREATE);
	assert_int_equal(k.outcome, STORE_BUSY);
	assert_non_null(strstr(k.message, "certificate"));
}

TEST_GROUP(setup, teardown)
