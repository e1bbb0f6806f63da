/* Contradicting options: one mistake at a time in a valid set. */

#include "tests/unit/base/cmocka.h"

#include "server/config/setup.h"

/* Parses and checks a command line, whose error goes into the message. */
static int check(bool loopback, const char *const *arguments, char *message, size_t n)
{
	struct options o = { 0 };
	char *argv[16] = { 0 };
	int argc = 1;
	for (argv[0] = xstrdup("serve"); arguments[argc - 1]; argc++)
		argv[argc] = xstrdup(arguments[argc - 1]);
	assert_int_equal(options_parse(&o, FOR_SERVE, argc, argv, no_err()), 0);
	int code = options_check(&o, loopback, true, no_err());
	message[0] = '\0';
	strncat(message, err_msg(&unit.e), n - 1);
	arena_done(&o.arena);
	for (int i = 0; i < argc; i++)
		free_cleanup(&argv[i]);
	return code;
}

#define ARGS(...)                                                                                  \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

static void wrong(bool loopback, const char *const *arguments, const char *word)
{
	char message[512];
	assert_int_equal(check(loopback, arguments, message, sizeof(message)), word ? -1 : 0);
	if (word)
		assert_non_null(strstr(message, word));
}

static void fine(bool loopback, const char *const *arguments)
{
	wrong(loopback, arguments, NULL);
}

#define SECRET "--jwt-secret-file", "secret"

TEST(test_valid_sets_of_options_are_accepted)
{
	fine(true, ARGS("--no-auth", "--user", "alice"));
	fine(true, ARGS("--no-auth", "--user", "alice", "--users", "openpai"));
	fine(true, ARGS(SECRET));
	fine(true, ARGS("--issuers", "file"));
	fine(false, ARGS(SECRET, "--behind-proxy"));
	fine(false, ARGS(SECRET, "--tls-cert", "a", "--tls-key", "b"));
	fine(true, ARGS(SECRET, "--token-check", "stored", "--users", "openpai"));
	fine(true, ARGS(SECRET, "--deny-list", "a/b"));
}

TEST(test_options_of_authentication_must_agree)
{
	wrong(true, ARGS("--loops", "1"), "no authentication");
	wrong(true, ARGS("--no-auth"), "--user");
	wrong(false, ARGS("--no-auth", "--user", "a"), "loopback");
	wrong(false, ARGS("--no-auth", "--user", "a", "--behind-proxy"), "loopback");
	wrong(true, ARGS("--no-auth", "--user", "a", SECRET), "excludes");
	wrong(true, ARGS("--no-auth", "--user", "a", "--token-check", "stored"), "excludes");
	wrong(true, ARGS(SECRET, "--user", "a"), "--no-auth");
	wrong(true, ARGS(SECRET, "--users", "openpai"), "--token-check");
	wrong(true, ARGS("--issuers", "f", "--token-check", "stored"), "--jwt-secret-file");
	wrong(true, ARGS(SECRET, "--token-check", "stored", "--deny-list", "a/b"), "--deny-list");
	wrong(true, ARGS(SECRET, "--deny-list", "a"), "NAMESPACE/NAME");
	wrong(true, ARGS(SECRET, "--deny-list", "a/b/c"), "NAMESPACE/NAME");
	wrong(true, ARGS(SECRET, "--token-check", "stored", "--local", "d"), "cluster");
	fine(true, ARGS(SECRET, "--deny-list", "a/b", "--local", "d"));
	fine(true, ARGS(SECRET, "--socket", "/s", "--local", "d"));
	wrong(true, ARGS(SECRET, "--socket", "/s"), "needs --local");
	wrong(true, ARGS(SECRET, "--socket", "s", "--local", "d"), "begins with /");
	wrong(true, ARGS("--no-auth", "--user", "a", "--socket", "/s", "--local", "d"),
	      "excludes --socket");
}

TEST(test_public_addresses_need_tls_or_a_proxy)
{
	wrong(false, ARGS(SECRET), "--tls-cert");
	wrong(true, ARGS(SECRET, "--tls-cert", "a"), "together");
	wrong(true, ARGS(SECRET, "--tls-key", "a"), "together");
}

#define HIVED "--hived-config", "file", "--hived-webservice"

TEST(test_options_of_hived_must_agree)
{
	fine(true, ARGS(SECRET, "--hived-config", "file"));
	fine(true, ARGS(SECRET, HIVED, "http://hived:9096"));
	fine(true, ARGS(SECRET, HIVED, "https://hived", "--hived-webservice-ca", "ca"));
	wrong(true, ARGS(SECRET, "--hived-webservice", "http://hived:9096"), "--hived-config");
	wrong(true, ARGS(SECRET, HIVED, "http://hived", "--hived-webservice-ca", "ca"), "https://");
	wrong(true, ARGS(SECRET, "--hived-config", "file", "--hived-webservice-ca", "ca"),
	      "--hived-webservice");
}

#define LOCAL SECRET, "--local", "d"

TEST(test_options_of_one_machine_must_agree)
{
	fine(true, ARGS(LOCAL, "--engine", "none", "--profile", "openpai", "--hived-config", "f"));
	fine(true,
	     ARGS(LOCAL, "--engine", "local", "--cpus", "4", "--memory", "64GiB", "--gpus", "2"));
	fine(true, ARGS(LOCAL, "--gpus", "none", "--gpu-devices", "/tmp/gpu*", "--images", "host"));
	fine(true, ARGS("--no-auth", "--user", "a", "--local", "d", "--mount", "/a"));
	wrong(true, ARGS(LOCAL, "--mount", "/a"), "--mount needs --no-auth");
	wrong(true, ARGS("--no-auth", "--user", "a", "--local", "d", "--engine=none", "--mount=/"),
	      "--mount needs --no-auth and --local");
	wrong(true, ARGS(SECRET, "--apiserver", "b", "--engine", "none"), "--local");
	wrong(true, ARGS(SECRET, "--apiserver", "b", "--cpus", "1"), "--local");
	wrong(true, ARGS(LOCAL, "--engine", "none", "--gpus", "1"), "--engine=none");
	wrong(true, ARGS(LOCAL, "--gpus", "many"), "--gpus");
	wrong(true, ARGS(LOCAL, "--gpus", "1025"), "--gpus");
	wrong(true, ARGS(LOCAL, "--hived-config", "f"), "--hived-config");
	wrong(true, ARGS(LOCAL, "--profile", "openpai"), "--profile=plain");
	wrong(true, ARGS(LOCAL, "--profile", "restricted"), "--profile=plain");
	wrong(true, ARGS(LOCAL, "--runtime", "configmap"), "--runtime-binary");
	fine(true, ARGS(LOCAL, "--keep-results", "none"));
	fine(true, ARGS(LOCAL, "--keep-results", "1MiB"));
	fine(true, ARGS(LOCAL, "--keep-results", "20G"));
	wrong(true, ARGS(LOCAL, "--keep-results", "10"), "--keep-results");
	wrong(true, ARGS(LOCAL, "--keep-results", "some"), "--keep-results");
	wrong(true, ARGS(LOCAL, "--keep-results", ""), "--keep-results");
}

TEST(test_options_of_store_and_ports_must_agree)
{
	wrong(true, ARGS(SECRET, "--local", "a", "--apiserver", "b"), "exclude");
	wrong(true, ARGS(SECRET, "--port-start", "20", "--port-end", "20"), "--port-start");
}

#define OUTPUT(url)                                                                                \
	SECRET, "--apiserver", "https://k", "--output-listen", ":9187", "--output-url", url

TEST(test_options_of_the_webhook_must_agree)
{
	fine(true, ARGS(SECRET, "--webhook", "https://x/", "--webhook-secret-file", "f"));
	fine(true, ARGS(SECRET, "--webhook", "https://x/", "--webhook-secret-file", "f", "--local",
	                "d", "--instance", "A_b"));
	wrong(true, ARGS(SECRET, "--webhook", "https://x/"), "go together");
	wrong(true, ARGS(SECRET, "--webhook-secret-file", "f"), "go together");
	wrong(true, ARGS(SECRET, "--webhook-allow-private"), "needs --webhook");
	wrong(true,
	      ARGS(SECRET, "--webhook", "https://x/", "--webhook-secret-file", "f", "--instance",
	           "A-b"),
	      "--instance");
}

TEST(test_options_of_kept_output_must_agree)
{
	fine(true, ARGS(OUTPUT("http://127.0.0.1:9187")));
	fine(true, ARGS(OUTPUT("https://x:9187")));
	fine(false, ARGS(OUTPUT("https://x:9187"), "--behind-proxy"));
	fine(true, ARGS(OUTPUT("https://x:9187"), "--tls-cert", "f", "--tls-key", "f"));
	fine(true, ARGS(OUTPUT("https://x:9187"), "--tls-cert", "f", "--tls-key", "f",
	                "--output-ca", "f"));
	wrong(true, ARGS(OUTPUT("https://x:9187"), "--output-ca", "f"), "--tls-cert");
	wrong(false, ARGS(OUTPUT("https://x:9187")), "--behind-proxy");
	wrong(true, ARGS(OUTPUT("http://x:9187")), "https://");
	wrong(true, ARGS(OUTPUT("http://127.0.0.1.example:9187")), "https://");
	wrong(true, ARGS(OUTPUT("http://[::1]:9187"), "--output-ca", "f"), "--output-ca");
	wrong(true, ARGS(SECRET, "--output-listen", ":9187"), "--output-url");
	wrong(true, ARGS(SECRET, "--output-url", "https://x"), "--output-listen");
	wrong(true,
	      ARGS(SECRET, "--local", "d", "--output-listen", ":1", "--output-url", "https://x"),
	      "--local");
}
