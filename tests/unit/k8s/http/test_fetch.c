/* A document that is polled: the pauses, the address, and errors at start.
 * tests/http/hived.py tests the answers of a service. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include "k8s/http/endpoint.h"
#include "k8s/http/http_client.h"

TEST(test_fetch_pause_doubles_after_failures)
{
	static const struct {
		int64_t interval_ms;
		unsigned failures;
		int64_t pause_ms;
	} T[] = {
		{ 10000, 0, 10000 },     { 10000, 1, 10000 },      { 10000, FETCH_PATIENCE, 10000 },
		{ 10000, 4, 20000 },     { 10000, 5, 40000 },      { 10000, 6, FETCH_PAUSE_MS },
		{ 1000, 4, 2000 },       { 1000, 1000000, 60000 }, { 1000, UINT32_MAX, 60000 },
		{ 3600000, 0, 3600000 }, { 3600000, 9, 3600000 },
	};
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++)
		assert_int_equal(fetch_pause_ms(T[i].interval_ms, T[i].failures), T[i].pause_ms);
}

TEST(test_addresses_with_secrets_must_be_https)
{
	static const struct {
		const char *text, *secrets, *none; /* with secrets, and without */
	} T[] = {
		{ "https://a:30096/x/", "https://a:30096/x", "https://a:30096/x" },
		{ " http://127.0.0.1:80 ", "http://127.0.0.1:80", "http://127.0.0.1:80" },
		{ "http://hived.kube-system:9096", NULL, "http://hived.kube-system:9096" },
		{ "http://10.0.0.1:9096//", NULL, "http://10.0.0.1:9096" },
		{ "http://a:0", NULL, NULL },
		{ "http://a:b@c", NULL, NULL },
		{ "http://a?x=1", NULL, NULL },
		{ "http://a b", NULL, NULL },
		{ "http://", NULL, NULL },
		{ "ftp://a", NULL, NULL },
		{ "a:9096", NULL, NULL },
	};
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		for (int secrets = 0; secrets < 2; secrets++) {
			const char *wanted = secrets ? T[i].secrets : T[i].none;
			const char *fault = NULL;
			FREE_AUTO char *url = address_read(T[i].text, secrets, &fault);
			assert_string_equal(url ? url : "none", wanted ? wanted : "none");
			assert_true((fault == NULL) == (url != NULL));
		}
	}
}

static int take(void *arg, struct span body, struct err *e)
{
	(void)arg;
	(void)body;
	(void)e;
	return 0;
}

static void failed(void *arg, unsigned attempts, const struct err *e)
{
	(void)arg;
	(void)attempts;
	(void)e;
}

static void refused(const char *url, const char *ca_file, const char *word)
{
	const struct fetch_settings s = { .url = url,
		                          .path = "/",
		                          .ca_file = ca_file,
		                          .interval_ms = 1000,
		                          .max = 1024,
		                          .take = take,
		                          .failed = failed };
	assert_null(fetch_new(&s, no_err()));
	if (!strstr(err_msg(&unit.e), word))
		fail_msg("\"%s\" does not say %s", err_msg(&unit.e), word);
	assert_null(strstr(err_msg(&unit.e), "geheim"));
}

TEST(test_invalid_addresses_and_files_are_refused)
{
	refused("ftp://a", "", "must start with https:// or http://");
	refused("http://user:geheim@a", "", "HOST");
	refused("http://a/?token=geheim", "", "HOST");
	refused("https://a:99999", "", "port");
	refused("https://a", "/nowhere/ca", "/nowhere/ca");
	refused("https://a", "/proc/self/cmdline", "/proc/self/cmdline");
	refused("https://a", "tests/unit/k8s/http/test_fetch.c", "PEM");
}
