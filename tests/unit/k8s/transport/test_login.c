/* Logins from a kubeconfig, from options and from a pod, and their errors. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include <unistd.h>

#include "k8s/http/endpoint.h"
#include "k8s/transport/login.h"

#define PEM_TEXT "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
#define PEM_BASE64                                                                                 \
	"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="

static const char *file(const char *name, const char *text)
{
	return unit_file(name, span_of(text));
}

/* A kubeconfig with these lines about the cluster and the user. */
static const char *kubeconfig(const char *cluster, const char *user)
{
	char text[4096];
	(void)snprintf(
	    text, sizeof(text),
	    "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
	    "clusters:\n- name: c\n  cluster:\n%s"
	    "users:\n- name: u\n  user:\n%s"
	    "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: jobs}\n"
	    "- name: there\n  context: {cluster: c, user: u}\n"
	    "- name: broken\n  context: {cluster: nowhere, user: u}\n",
	    cluster, user);
	return file("config", text);
}

#define LOGIN_AUTO __attribute__((cleanup(login_cleanup))) struct login
static void login_cleanup(struct login *const *l)
{
	login_free(*l);
}

static struct login *login_ok(const struct login_options *o)
{
	struct login *l = login_new(o, no_err());
	assert_string_equal(err_msg(&unit.e), "");
	assert_non_null(l);
	return l;
}

static void login_fails(const struct login_options *o, const char *why)
{
	assert_null(login_new(o, no_err()));
	assert_int_equal(unit.e.http, 500);
	if (strstr(err_msg(&unit.e), why) == NULL)
		fail_msg("expected \"%s\" in: %s", why, err_msg(&unit.e));
	assert_null(strstr(err_msg(&unit.e), "hunter2"));
}

static void memory_is(const char *path, const char *text)
{
	FREE_AUTO char *got = config_file_text(path, no_err());
	assert_non_null(got);
	assert_string_equal(got, text);
}

static void header_is(struct login *l, const char *line)
{
	struct login_header h = { .version = 0 };
	login_header_refresh(l, &h);
	assert_string_equal(str_c(&h.line), line);
	str_wipe(&h.line);
}

#define SERVER "    server: https://10.0.0.1:6443/\n"

/* ---- kubeconfig -------------------------------------------------------------------- */

TEST(test_kubeconfig_token_becomes_a_header)
{
	struct login_options o = { .kubeconfig = kubeconfig(SERVER, "    token: hunter2\n") };
	LOGIN_AUTO *l = login_ok(&o);
	assert_string_equal(l->url, "https://10.0.0.1:6443");
	assert_string_equal(login_namespace(l), "jobs");
	assert_string_equal(login_describe(l), "https://10.0.0.1:6443 as token (kubeconfig)");
	header_is(l, "Authorization: Bearer hunter2");
}

TEST(test_kubeconfig_paths_are_relative_to_the_file)
{
	file("ca.pem", PEM_TEXT);
	file("key.pem", PEM_TEXT "key");
	file("cert.pem", PEM_TEXT "cert");
	struct login_options o = { .kubeconfig =
		                       kubeconfig(SERVER "    certificate-authority: ca.pem\n",
		                                  "    client-certificate: ./cert.pem\n"
		                                  "    client-key: key.pem\n") };
	LOGIN_AUTO *l = login_ok(&o);
	memory_is(l->ca.path, PEM_TEXT);
	memory_is(l->cert.path, PEM_TEXT "cert");
	memory_is(l->key.path, PEM_TEXT "key");
	assert_non_null(strstr(login_describe(l), "client certificate"));
}

TEST(test_kubeconfig_inline_data_is_decoded)
{
	struct login_options o = { .kubeconfig = kubeconfig(
				       SERVER "    certificate-authority-data: " PEM_BASE64 "\n",
				       "    client-certificate-data: " PEM_BASE64 "\n"
				       "    client-key-data: " PEM_BASE64 "\n") };
	LOGIN_AUTO *l = login_ok(&o);
	memory_is(l->ca.path, PEM_TEXT);
	memory_is(l->key.path, PEM_TEXT);
}

TEST(test_kubeconfig_token_file_is_trimmed)
{
	file("tok", "  abc.def\n");
	struct login_options o = { .kubeconfig = kubeconfig(SERVER, "    tokenFile: tok\n") };
	LOGIN_AUTO *l = login_ok(&o);
	header_is(l, "Authorization: Bearer abc.def");
}

TEST(test_kubeconfig_context_is_chosen_by_the_option)
{
	struct login_options o = { .kubeconfig = kubeconfig(SERVER, "    token: t\n"),
		                   .context = "there" };
	LOGIN_AUTO *l = login_ok(&o);
	assert_string_equal(login_namespace(l), "default");
	o.context = "broken";
	login_fails(&o, "no cluster \"nowhere\"");
	o.context = "nobody";
	login_fails(&o, "no context \"nobody\"");
}

TEST(test_kubeconfig_namespace_is_overridden_by_the_option)
{
	struct login_options o = { .kubeconfig = kubeconfig(SERVER, "    token: t\n"),
		                   .namespace_name = "other" };
	LOGIN_AUTO *l = login_ok(&o);
	assert_string_equal(login_namespace(l), "other");
}

TEST(test_kubeconfig_refuses_unsupported_keys)
{
	/* clang-format off */
	static const struct { const char *cluster, *user, *why; } T[] = {
		{ SERVER, "    exec: {command: sh}\n", "exec: is not supported" },
		{ SERVER, "    auth-provider: {name: gcp}\n", "auth-provider: is not supported" },
		{ SERVER, "    username: u\n", "username: is not supported" },
		{ SERVER, "    password: hunter2\n", "password: is not supported" },
		{ SERVER, "    token: t\n    as: admin\n", "as: is not supported" },
		{ SERVER, "    token: t\n    as-groups: [a]\n", "as-groups: is not supported" },
		{ SERVER, "    token: t\n    tokem: hunter2\n", "tokem: is an unknown key" },
		{ SERVER "    insecure-skip-tls-verify: true\n", "    token: t\n", "insecure-skip-tls-verify" },
		{ SERVER "    proxy-url: http://p\n", "    token: t\n", "proxy-url: is not supported" },
		{ SERVER "    tls-server-name: x\n", "    token: t\n", "tls-server-name: is not supported" },
		{ "    server: http://10.0.0.1:8080\n", "    token: t\n", "http is accepted for this machine only" },
		{ "    server: http://localhost.evil.com\n", "    token: t\n", "http is accepted for this machine only" },
		{ "    server: http://127.0.0.1@evil.com\n", "    token: t\n", "must be https:" },
		{ "    server: https://user:hunter2@h/\n", "    token: t\n", "must be https:" },
		{ "    server: https://h/?x\n", "    token: t\n", "must be https:" },
		{ "    server: https://\n", "    token: t\n", "must be https:" },
		{ "    server: https://h:65536\n", "    token: t\n", "1 to 65535" },
		{ "    server: https://[::1]:0/x\n", "    token: t\n", "1 to 65535" },
		{ "    server: https://[::1]x\n", "    token: t\n", "1 to 65535" },
		{ "    server: \"https://h:\"\n", "    token: t\n", "1 to 65535" },
		{ "    server: file:///etc/passwd\n", "    token: t\n", "must start with https:" },
		{ "    disable-compression: true\n", "    token: t\n", "no address" },
		{ SERVER, "    token: \"hunter2\\r\\nImpersonate-User: admin\"\n", "visible characters" },
		{ SERVER, "    token: 7\n", "must be text" },
		{ SERVER, "    client-key: k\n", "needs its key" },
		{ SERVER "    certificate-authority-data: \"!!!\"\n", "    token: t\n", "base64" },
		{ SERVER "    certificate-authority-data: aGVsbG8=\n", "    token: t\n", "PEM" },
		{ SERVER "    certificate-authority: nosuch.pem\n", "    token: t\n", "nosuch.pem" },
		{ SERVER, "    tokenFile: nosuch\n", "nosuch" },
	};
	/* clang-format on */
	for (size_t i = 0; i < sizeof(T) / sizeof(T[0]); i++) {
		struct login_options o = { .kubeconfig = kubeconfig(T[i].cluster, T[i].user) };
		login_fails(&o, T[i].why);
	}
}

TEST(test_kubeconfig_may_say_that_tls_is_verified)
{
	struct login_options o = { .kubeconfig =
		                       kubeconfig(SERVER "    insecure-skip-tls-verify: false\n",
		                                  "    token: t\n") };
	login_free(login_ok(&o));
}

TEST(test_kubeconfig_that_is_broken_is_refused)
{
	struct login_options o = { .kubeconfig = file("config", "a: b: hunter2\n") };
	login_fails(&o, "is not YAML");
	o.kubeconfig = file("config", "[]\n");
	login_fails(&o, "no context");
	o.kubeconfig = "/nonexistent";
	login_fails(&o, "/nonexistent");
	o.kubeconfig = unit_path("");
	login_fails(&o, "regular file");
}

/* ---- options, pod ------------------------------------------------------------------ */

TEST(test_options_loopback_may_be_http)
{
	static const char *const URLS[] = { "http://127.0.0.1:8080", "http://localhost:1",
		                            "http://[::1]:2" };
	for (size_t i = 0; i < 3; i++) {
		struct login_options o = { .apiserver = URLS[i] };
		LOGIN_AUTO *l = login_ok(&o);
		assert_string_equal(l->url, URLS[i]);
		header_is(l, "");
	}
}

TEST(test_options_that_contradict_are_refused)
{
	struct login_options o = { .apiserver = "https://h", .kubeconfig = "/x" };
	login_fails(&o, "not both");
	o = (struct login_options){ .apiserver = "https://h", .namespace_name = "../x" };
	login_fails(&o, "namespace");
}

TEST(test_login_without_options_needs_a_pod)
{
	struct login_options o = { 0 };
	set_env("KUBERNETES_SERVICE_HOST", NULL);
	login_fails(&o, "this is not a pod");
}

TEST(test_in_cluster_login_reads_the_files_of_the_pod)
{
	struct login_source s = { 0 };
	file("namespace", "team\n");
	set_env("KUBERNETES_SERVICE_HOST", "fd00::1");
	set_env("KUBERNETES_SERVICE_PORT", "443");
	assert_int_equal(in_cluster_read(unit_path(""), &unit.a, &s, no_err()), 0);
	assert_string_equal(s.server, "https://[fd00::1]:443");
	assert_string_equal(s.namespace_name, "team\n");
	assert_non_null(strstr(s.token_file, "/token"));
	set_env("KUBERNETES_SERVICE_HOST", NULL);
}

TEST(test_login_removes_variables_of_proxies_and_keys)
{
	set_env("SSLKEYLOGFILE", "/tmp/keys");
	set_env("https_proxy", "http://p");
	struct login_options o = { .apiserver = "https://h" };
	login_free(login_ok(&o));
	assert_null(get_env("SSLKEYLOGFILE"));
	assert_null(get_env("https_proxy"));
}

/* ---- the token --------------------------------------------------------------------- */

#define PEM_NEW "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"

/* A login with files of its own for CA, certificate and key. */
static struct login *login_with_files(void)
{
	char user[400];
	char cluster[400];
	file("ca.crt", PEM_TEXT);
	file("c.crt", PEM_TEXT);
	file("c.key", PEM_TEXT);
	(void)snprintf(cluster, sizeof(cluster),
	               "    server: https://127.0.0.1:6443\n    certificate-authority: ca.crt\n");
	(void)snprintf(user, sizeof(user),
	               "    client-certificate: c.crt\n    client-key: c.key\n");
	struct login_options o = { .kubeconfig = kubeconfig(cluster, user) };
	return login_ok(&o);
}

TEST(test_refresh_takes_a_new_ca)
{
	LOGIN_AUTO *l = login_with_files();
	char path[64];
	(void)snprintf(path, sizeof(path), "%s", l->ca.path);
	login_refresh(l);
	memory_is(l->ca.path, PEM_TEXT);
	file("ca.crt", PEM_NEW);
	login_refresh(l);
	memory_is(l->ca.path, PEM_TEXT); /* it may still be being written */
	login_refresh(l);
	memory_is(l->ca.path, PEM_NEW);
	assert_string_equal(l->ca.path, path); /* handles need no update */
	memory_is(l->cert.path, PEM_TEXT);
}

TEST(test_refresh_takes_certificate_and_key_together)
{
	LOGIN_AUTO *l = login_with_files();
	file("c.crt", PEM_NEW);
	login_refresh(l);
	file("c.key", PEM_NEW "key");
	login_refresh(l);
	memory_is(l->cert.path, PEM_TEXT);
	memory_is(l->key.path, PEM_TEXT);
	login_refresh(l);
	memory_is(l->cert.path, PEM_NEW);
	memory_is(l->key.path, PEM_NEW "key");
}

TEST(test_refresh_keeps_the_ca_while_its_file_is_incomplete)
{
	LOGIN_AUTO *l = login_with_files();
	static const char *const BAD[] = { "", "-----BEGIN CERTIFICATE-----\nBB", "nothing" };
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		file("ca.crt", BAD[i]);
		for (int k = 0; k < 3; k++)
			login_refresh(l);
		memory_is(l->ca.path, PEM_TEXT);
	}
	assert_int_equal(unlink(file("ca.crt", "")), 0);
	login_refresh(l);
	login_refresh(l);
	memory_is(l->ca.path, PEM_TEXT);
}

TEST(test_refresh_leaves_no_descriptor_open)
{
	size_t before = open_files();
	struct login *l = login_with_files();
	size_t with = open_files();
	for (int i = 0; i < 8; i++) {
		file("ca.crt", i / 2 % 2 ? PEM_TEXT : PEM_NEW);
		login_refresh(l);
	}
	assert_int_equal(open_files(), with);
	login_free(l);
	assert_int_equal(open_files(), before);
}

TEST(test_refresh_keeps_the_old_token_on_errors)
{
	char path[128];
	(void)snprintf(path, sizeof(path), "%s", file("tok", "one"));
	struct login_options o = { .apiserver = "https://h", .token_file = path };
	LOGIN_AUTO *l = login_ok(&o);
	static const char *const BAD[] = { "", " \n", "a b", "a\x01", "\xc3\xa4" };
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		file("tok", BAD[i]);
		login_refresh(l);
		header_is(l, "Authorization: Bearer one");
	}
	assert_int_equal(unlink(path), 0);
	login_refresh(l);
	header_is(l, "Authorization: Bearer one");
	file("tok", "two");
	login_refresh(l);
	header_is(l, "Authorization: Bearer two");
}

TEST(test_header_is_written_once_per_token)
{
	struct login_options o = { .apiserver = "https://h", .token_file = file("tok", "one") };
	LOGIN_AUTO *l = login_ok(&o);
	struct login_header h = { .version = 0 };
	login_header_refresh(l, &h);
	const char *written = h.line.p;
	h.line.p[0] = 'x';
	login_header_refresh(l, &h);
	login_refresh(l); /* the same token */
	login_header_refresh(l, &h);
	assert_ptr_equal(h.line.p, written);
	assert_int_equal(h.line.p[0], 'x');
	str_wipe(&h.line);
}

TEST(test_token_end_is_read_from_the_claims)
{
	static const struct {
		const char *token;
		int64_t end_s;
	} TOKENS[] = {
		{ "hunter2", 0 },
		{ "a.b", 0 },
		{ "e30.eyJleHAiOjE3MDAwMDAwMDB9.c2ln", 1700000000 }, /* {"exp":1700000000} */
		{ "e30.eyJleHAiOjE3MDAwMDAwMDB9=.c2ln", 0 },
		{ "e30.eyJleHAiOiIxIn0.c2ln", 0 }, /* {"exp":"1"} */
		{ "e30.e30.c2ln", 0 },
		{ "..", 0 },
	};
	for (size_t i = 0; i < sizeof(TOKENS) / sizeof(TOKENS[0]); i++) {
		FREE_AUTO char *user = xasprintf("    token: %s\n", TOKENS[i].token);
		struct login_options o = { .kubeconfig = kubeconfig(SERVER, user) };
		LOGIN_AUTO *l = login_ok(&o);
		assert_int_equal(login_token_end_s(l), TOKENS[i].end_s);
	}
}

TEST(test_login_free_closes_all_descriptors)
{
	size_t before = open_files();
	test_kubeconfig_inline_data_is_decoded(NULL);
	test_kubeconfig_refuses_unsupported_keys(NULL);
	assert_int_equal(open_files(), before);
}
