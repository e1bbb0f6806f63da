/* The choice of the API server, the meaning of its answers, and messages about them.
 * tests/runtime/test_barrier.py tests the requests themselves. */
#include "runtime-assets/net/kube.h"

#include <unistd.h>

#include "tests/unit/base/cmocka.h"

#include "runtime-assets/common/files.h"
#include "tests/unit/runtime-assets/authority.h"

/* {"sub":"system:serviceaccount:jobs:me","exp":4000000000} */
#define PAYLOAD "eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6am9iczptZSIsImV4cCI6NDAwMDAwMDAwMH0"
#define TOKEN   "e30." PAYLOAD ".secret"

static struct arena arena;
static struct layout at;

static int begin(void **state)
{
	ERR_AUTO e = { 0 };
	(void)state;
	layout_init(&at, unit_path(""), &arena);
	return dir_make(at.account, 0755, &e);
}

FIXTURE(end)
{
	arena_done(&arena);
	return 0;
}

/* A file of the account; none if text is NULL. */
static void mount_file(const char *name, const char *text)
{
	const char *path = path_join(&arena, at.account, name);
	(void)unlink(path); /* it need not be there */
	if (text)
		assert_int_equal(file_write(path, span_of(text), 0644, no_err()), 0);
}

static void set(const char *name, const char *value)
{
	int r = value ? setenv(name, value, 1) /* NOLINT(concurrency-mt-unsafe) */
	              : unsetenv(name);        /* NOLINT(concurrency-mt-unsafe) */
	assert_int_equal(r, 0);
}

/* ---- which one ------------------------------------------------------------------------------- */

struct place_case {
	const char *host, *port, *address; /* of the environment */
	const char *want;                  /* kube_address; or the error, with a blank before it */
};

static void look(const struct place_case *c)
{
	set("KUBERNETES_SERVICE_HOST", c->host);
	set("KUBERNETES_SERVICE_PORT", c->port);
	set("KUBE_APISERVER_ADDRESS", c->address);
	struct kube *k = kube_open(&at, &arena, no_err());
	if (k && strcmp(k->address, c->want) != 0)
		fail_msg("got %s, not %s", k->address, c->want);
	if (k == NULL && (*c->want != ' ' || strstr(err_msg(&unit.e), c->want + 1) == NULL))
		fail_msg("got %s, not %s", err_msg(&unit.e), c->want);
	kube_free(k);
}

TEST(test_kube_open_in_a_pod_uses_its_account)
{
	static const struct place_case CASES[] = {
		/* clang-format off */
		{ "10.0.0.1", "443", NULL, "https://10.0.0.1:443 (kubernetes.default.svc)" },
		{ "10.0.0.1", NULL, NULL, "https://10.0.0.1:443 (kubernetes.default.svc)" },
		{ "fd00::1", "6443", NULL, "https://[fd00::1]:6443 (kubernetes.default.svc)" },
		{ "api.example.org", "443", NULL, "https://api.example.org:443 (kubernetes.default.svc)" },
		/* A name of ours for the certificate; the address stays that of the kubelet. */
		{ "10.0.0.1", "443", "https://kubernetes.default.svc",
		  "https://10.0.0.1:443 (kubernetes.default.svc)" },
		{ "10.0.0.1", "443", "https://api.corp:6443/x", "https://10.0.0.1:443 (api.corp)" },
		/* An address cannot be such a name, and http has none. */
		{ "10.0.0.1", "443", "https://10.1.1.1:6443",
		  "https://10.0.0.1:443 (kubernetes.default.svc)" },
		{ "10.0.0.1", "443", "https://[fd00::1]",
		  "https://10.0.0.1:443 (kubernetes.default.svc)" },
		{ "10.0.0.1", "443", "http://evil:8080", "https://10.0.0.1:443 (kubernetes.default.svc)" },
		{ "10.0.0.1", "443", "https://a b", "https://10.0.0.1:443 (kubernetes.default.svc)" },
		{ NULL, NULL, "http://evil:8080", " KUBERNETES_SERVICE_HOST is not set" },
		{ "", "443", NULL, " KUBERNETES_SERVICE_HOST is not set" },
		{ "10.0.0.1", "0", NULL, " are no address" },
		{ "10.0.0.1", "65536", NULL, " are no address" },
		{ "10.0.0.1", "tcp", NULL, " are no address" },
		{ "a/b", "443", NULL, " are no address" },
		{ "a\r\nb", "443", NULL, " are no address" },
		{ "user@a", "443", NULL, " are no address" },
		{ "[::1]", "443", NULL, " are no address" },
		{ "a:1", "443", NULL, " are no address" },
		/* clang-format on */
	};
	mount_file("token", TOKEN);
	mount_file("ca.crt", UTC_PEM);
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		look(&CASES[i]);
}

TEST(test_kube_open_without_an_account_uses_the_address)
{
	static const struct place_case CASES[] = {
		/* clang-format off */
		{ NULL, NULL, "http://10.0.0.1:8080", "http://10.0.0.1:8080" },
		{ NULL, NULL, "http://master", "http://master:80" },
		{ NULL, NULL, "http://master/", "http://master:80" },
		{ NULL, NULL, "http://[::1]:8080", "http://[::1]:8080" },
		{ NULL, NULL, "https://master:6443", "https://master:6443 (master)" },
		{ NULL, NULL, "https://10.0.0.1", "https://10.0.0.1:443 (kubernetes.default.svc)" },
		/* The address of the kubelet is useless without a token. */
		{ "10.0.0.1", "443", "http://master:8080", "http://master:8080" },
		{ "10.0.0.1", "443", NULL, " there is no way to the API server" },
		{ NULL, NULL, "", " there is no way to the API server" },
		{ NULL, NULL, "master:8080", " must start with http://" },
		{ NULL, NULL, "file:///etc/passwd", " must start with http://" },
		{ NULL, NULL, "http://", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://:80", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://a:", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://a:0", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://a:b", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://[::1", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://[::1]x", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://u:p@a", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://a/b", " must be http://HOST:PORT" },
		{ NULL, NULL, "http://a?b", " must be http://HOST:PORT" },
		/* clang-format on */
	};
	mount_file("token", NULL);
	mount_file("ca.crt", UTC_PEM);
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		look(&CASES[i]);
}

TEST(test_kube_open_needs_an_authority)
{
	static const struct place_case HTTPS = { "10.0.0.1", "443", NULL, " no authority" };
	static const struct place_case HTTP = { NULL, NULL, "http://a:80", "http://a:80" };
	mount_file("token", TOKEN);
	mount_file("ca.crt", NULL);
	look(&HTTPS);
	mount_file("ca.crt", "");
	look(&HTTPS);
	mount_file("ca.crt", "-----BEGIN CERTIFICATE-----\n");
	look(&HTTPS);
	mount_file("token", NULL);
	look(&HTTP);
}

/* ---- paths ---------------------------------------------------------------------------------- */

TEST(test_kube_framework_path_refuses_bad_names)
{
	static const char *const BAD[][2] = {
		{ "default", "" },       { "", "a" },
		{ "default", ".." },     { "default", "a/b" },
		{ "a/b", "a" },          { "default", "a?b" },
		{ "default", "A" },      { "default", "a\r\n" },
		{ "default", "%2e%2e" }, { "a.b", "a" },
		{ "default", "a b" },
	};
	assert_string_equal(kube_framework_path("default", "abc-1.x", &arena, no_err()),
	                    "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/"
	                    "frameworks/abc-1.x");
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++) {
		ERR_AUTO why = { 0 };
		assert_null(kube_framework_path(BAD[i][0], BAD[i][1], &arena, &why));
		assert_non_null(strstr(err_msg(&why), "is no name of a Framework"));
	}
}

/* ---- answers --------------------------------------------------------------------------------- */

#define NOT_FOUND(name)                                                                            \
	"{\"kind\":\"Status\",\"message\":\"frameworks \\\"" name "\\\" not found\","              \
	"\"details\":{\"name\":\"" name "\",\"kind\":\"frameworks\"},\"code\":404}"

TEST(test_kube_says_missing_only_for_the_named_framework)
{
	static const struct {
		const char *body;
		int status;
		bool missing;
	} CASES[] = {
		{ NOT_FOUND("f"), 404, true },
		{ NOT_FOUND("g"), 404, false },
		{ NOT_FOUND("f"), 403, false },
		{ "404 page not found\n", 404, false },
		{ "", 404, false },
		{ "{\"kind\":\"Status\",\"details\":{},\"code\":404}", 404, false },
		{ "{\"kind\":\"Status\",\"details\":\"f\"}", 404, false },
		{ "{\"kind\":\"Pod\",\"details\":{\"name\":\"f\"}}", 404, false },
		{ "[\"f\"]", 404, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct http_reply r = { .status = CASES[i].status, .body = span_of(CASES[i].body) };
		if (kube_says_missing(&r, "f") != CASES[i].missing)
			fail_msg("%d %s", CASES[i].status, CASES[i].body);
	}
}

TEST(test_kube_answer_describes_status_and_message)
{
	static const struct {
		int status;
		const char *body, *text;
	} CASES[] = {
		{ 404, NOT_FOUND("f"), "404 Not Found, frameworks \"f\" not found" },
		{ 500, "", "500 Internal Error" },
		{ 418, "short and stout\n", "418, short and stout" },
		{ 500, "a\x1b[31mred\r\n\xff", "500 Internal Error, a [31mred" },
		{ 403, "{\"kind\":\"Status\"}", "403 Forbidden" },
		{ 403, "{\"message\":5}", "403 Forbidden" },
		{ 401, "{\"message\":\"Unauthorized\"}", "401 Unauthorized" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct http_reply r = { .status = CASES[i].status, .body = span_of(CASES[i].body) };
		STR_AUTO out = STR_INIT(10000);
		kube_answer(&r, &out);
		if (!span_is(span_trim(str_view(&out)), CASES[i].text))
			fail_msg("got %s, not %s", str_c(&out), CASES[i].text);
	}
}

TEST(test_kube_answer_is_short)
{
	static char body[100000];
	STR_AUTO out = STR_INIT(10000);
	memset(body, 'x', sizeof(body));
	kube_answer(&(struct http_reply){ .status = 500, .body = { body, sizeof(body) } }, &out);
	assert_in_range(out.n, 400, 500);
}

/* ---- explanations ------------------------------------------------------------------------- */

static void has(const struct str *text, const char *part)
{
	if (strstr(str_c(text), part) == NULL)
		fail_msg("\"%s\" is not in: %s", part, str_c(text));
}

TEST(test_kube_explain_says_that_there_is_no_token)
{
	static const char *const ADDRESS = "http://10.0.0.1:8080";
	STR_AUTO out = STR_INIT(10000);
	mount_file("token", NULL);
	set("KUBE_APISERVER_ADDRESS", ADDRESS);
	struct kube *k = kube_open(&at, &arena, no_err());
	assert_non_null(k);
	kube_explain(k, 403, "/version", &out);
	has(&out, "was anonymous");
	has(&out, ADDRESS);
	kube_free(k);
}

TEST_GROUP(begin, end)
