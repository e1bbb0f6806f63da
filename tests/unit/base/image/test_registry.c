/* The dialogue with a registry, against what was recorded of the reference
 * (tests/data/runtime/registry), what must be different here, and what was not recorded. */
#include "base/image/registry.h"

#include "tests/unit/base/registry_kit.h"

enum { TEXT = 4096, MINUTE_MS = 60000 };

#define DIGEST "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SECRET "hunter2"

/* ---- the recorded cases ---------------------------------------------------------------- */

/* "%2F" and so on back to what they stand for. */
static const char *decoded(struct arena *a, struct span s)
{
	char *to = arena_dup(a, s);
	size_t n = 0;
	for (size_t i = 0; i < s.n; i++) {
		unsigned c = (unsigned char)s.p[i];
		if (c == '%' && i + 2 < s.n) {
			const char *hex = "0123456789ABCDEF";
			c = (unsigned)((strchr(hex, s.p[i + 1]) - hex) * 16 +
			               (strchr(hex, s.p[i + 2]) - hex));
			i += 2;
		}
		to[n++] = (char)c;
	}
	to[n] = '\0';
	return to;
}

static const char *header_of(const struct registry_ask *ask, const char *name)
{
	for (const char *const *h = ask->headers; *h; h++) {
		if (span_starts(span_of(*h), name))
			return *h + strlen(name);
	}
	return "";
}

static void assert_call(struct arena *a, const struct registry_ask *ask, const struct node *want)
{
	const struct node *params = node_get(want, "params");
	STR_AUTO url = STR_INIT(TEXT);
	str_span(&url, text_of(want, "url"));
	for (uint32_t i = 0; params && i < params->n; i++)
		str_printf(&url, "%c%s=%s", i ? '&' : '?', params->member[i].key,
		           params->member[i].value.text);
	const char *got = arena_printf(a, "https://%s%s", ask->to.authority, ask->to.target);
	assert_string_equal(decoded(a, span_of(got)), str_c(&url));
	assert_text(span_of(ask->method), text_of(want, "method"));
	assert_text(span_of(header_of(ask, "Authorization: ")), text_of(want, "authorization"));
}

/* What a registry answers in a recorded case. */
static struct registry_reply recorded_reply(const struct node *recorded,
                                            const struct registry_ask *ask, int64_t status)
{
	struct span name = text_of(recorded, "case");
	struct registry_reply r = { .status = (int)status, .headers = SPAN("") };
	if (span_starts(name, "basic_"))
		r.headers = SPAN("WWW-Authenticate: Basic realm=\"x\"\r\n");
	else if (!span_is(name, "401_without_challenge"))
		r.headers = SPAN("WWW-Authenticate: Bearer realm=\"https://auth.docker.io/token\","
		                 "service=\"registry.docker.io\","
		                 "scope=\"repository:library/u:pull\"\r\n");
	if (status == 401 && strcmp(ask->to.target, "/v2/") == 0)
		r.headers = SPAN("");
	bool token_only = span_is(name, "anonymous_token_only_token_field");
	if (strcmp(ask->method, "GET") == 0)
		r.body = token_only ? SPAN("{\"token\":\"T\"}") : SPAN("{\"access_token\":\"T\"}");
	return r;
}

/* A 429 or 5xx is repeated as often as it is asked for. */
static const struct node *nth_answer(const struct node *recorded, size_t i)
{
	const struct node *all = node_get(recorded, "responses");
	if (i < all->n)
		return &all->item[i];
	const struct node *last = all->n ? &all->item[all->n - 1] : NULL;
	bool busy = node_is(last, NODE_INT) && (last->integer == 429 || last->integer >= 500);
	return busy ? last : NULL;
}

static const char *init_of(const struct node *want)
{
	const struct node *text = node_get(want, "init");
	if (!text)
		text = node_get(node_get(want, "reference"), "init");
	return text->text;
}

static void play(struct arena *a, const struct node *recorded, const struct node *want)
{
	static const char *const INIT[] = { "continue", "exit 254", "continue (" };
	const struct node *calls = node_get(want, "calls");
	const struct node *auth = node_get(recorded, "auth");
	struct image image;
	struct registry_dialogue d;
	struct registry_ask ask;
	struct image_login login = { text_of(auth, "username"), text_of(auth, "password"),
		                     text_of(auth, "registryuri") };
	if (image_parse(text_of(recorded, "uri"), a, &image)) {
		assert_string_equal(init_of(want), "exit 254");
		return;
	}
	size_t n = 0;
	registry_begin(&d, &image, &login, 7, a);
	for (; registry_next(&d, &ask); n++) {
		const struct node *answer = nth_answer(recorded, n);
		assert_true(n < calls->n);
		assert_call(a, &ask, &calls->item[n]);
		if (!node_is(answer, NODE_INT)) {
			registry_trouble(&d, "nothing answers");
			continue;
		}
		struct registry_reply r = recorded_reply(recorded, &ask, answer->integer);
		registry_reply(&d, &r, MINUTE_MS);
	}
	assert_int_equal(n, calls->n);
	assert_true(span_starts(span_of(init_of(want)), INIT[d.verdict]));
	assert_int_equal(d.sentence[0] == '\0', d.verdict == REGISTRY_FOUND);
}

static void test_dialogues_recorded(void **state)
{
	struct vectors *v = *state;
	const struct node *all = recorded_list(v, "dialogues");
	for (uint32_t i = 0; i < all->n; i++) {
		print_message("  %s\n", text_of(&all->item[i], "case").p);
		play(&v->a, &all->item[i], wanted(v, "dialogues", "case", &all->item[i]));
	}
	assert_int_equal(all->n, 26);
}

/* ---- dialogues of our own -------------------------------------------------------------------- */

struct talk {
	struct arena a;
	struct image image;
	struct registry_dialogue d;
	struct registry_ask ask;
};

static struct talk *talk_begin(const char *image, const struct image_login *login)
{
	struct talk *t = xcalloc(1, sizeof(*t));
	assert_int_equal(image_parse(span_of(image), &t->a, &t->image), 0);
	registry_begin(&t->d, &t->image, login, 1, &t->a);
	assert_true(registry_next(&t->d, &t->ask));
	return t;
}

/* Answer, and say what comes next: "HOST TARGET [AUTHORIZATION]", or the verdict. */
static const char *say(struct talk *t, int status, const char *headers, const char *body)
{
	static const char *const VERDICTS[] = { "found", "missing", "unsure" };
	struct registry_reply r = { status, span_of(headers), span_of(body) };
	registry_reply(&t->d, &r, MINUTE_MS);
	if (!registry_next(&t->d, &t->ask)) {
		assert_null(strstr(t->d.sentence, SECRET));
		return VERDICTS[t->d.verdict];
	}
	const char *login = header_of(&t->ask, "Authorization: ");
	return arena_printf(&t->a, "%s %s%s%s", t->ask.to.authority, t->ask.to.target,
	                    *login ? " " : "", login);
}

static void talk_end(struct talk *t)
{
	arena_done(&t->a);
	free_cleanup(&t);
}

static const struct image_login LOGIN = { { "u", 1 }, { SECRET, sizeof(SECRET) - 1 }, { "", 0 } };
#define BASIC         "Basic dTpodW50ZXIy"
#define BEARER(realm) "WWW-Authenticate: Bearer realm=\"" realm "\"\r\n"

static void test_dialogue_asks_for_manifests_of_all_kinds(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io:5000/a:b@" DIGEST, NULL);
	assert_string_equal(say(t, 200, "", ""), "reg.io:5000 /v2/a/manifests/" DIGEST);
	const char *accept = header_of(&t->ask, "Accept: ");
	assert_non_null(strstr(accept, "application/vnd.docker.distribution.manifest.v2+json"));
	assert_non_null(
	    strstr(accept, "application/vnd.docker.distribution.manifest.list.v2+json"));
	assert_non_null(strstr(accept, "application/vnd.oci.image.manifest.v1+json"));
	assert_non_null(strstr(accept, "application/vnd.oci.image.index.v1+json"));
	assert_string_equal(t->ask.to.host, "reg.io");
	assert_int_equal(t->ask.to.port, 5000);
	assert_string_equal(t->ask.method, "HEAD");
	assert_string_equal(say(t, 200, "", ""), "found");
	talk_end(t);
}

static void test_dialogue_ipv6(void **state)
{
	(void)state;
	struct talk *t = talk_begin("[::1]:5000/a", NULL);
	assert_string_equal(t->ask.to.authority, "[::1]:5000");
	assert_string_equal(t->ask.to.host, "::1");
	assert_int_equal(t->ask.to.port, 5000);
	talk_end(t);
}

static void test_dialogue_404_then_basic(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", &LOGIN);
	assert_string_equal(say(t, 200, "", ""), "reg.io /v2/a/manifests/latest");
	assert_string_equal(say(t, 404, "", ""), "reg.io /v2/a/manifests/latest " BASIC);
	assert_string_equal(say(t, 404, "", ""), "missing");
	talk_end(t);
}

static void test_dialogue_404_then_basic_then_token(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", &LOGIN);
	(void)say(t, 200, "", "");
	assert_string_equal(say(t, 404, "", ""), "reg.io /v2/a/manifests/latest " BASIC);
	assert_string_equal(say(t, 401, BEARER("https://auth.io/t?x=1"), ""),
	                    "auth.io /t?x=1 " BASIC);
	assert_string_equal(say(t, 200, "", "{\"token\":\"T\"}"),
	                    "reg.io /v2/a/manifests/latest Bearer T");
	assert_string_equal(say(t, 401, BEARER("https://auth.io/t"), ""), "missing");
	talk_end(t);
}

/* Whom the registry sends it to, with the login in the name of the host: it is asked, and not
 * named. */
static void test_dialogue_names_no_host_that_may_hold_the_login(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", &LOGIN);
	(void)say(t, 200, "", "");
	(void)say(t, 404, "", "");
	assert_string_equal(say(t, 401, BEARER("https://" SECRET ".io/t"), ""),
	                    SECRET ".io /t " BASIC);
	assert_string_equal(say(t, 403, "", ""), "unsure");
	assert_non_null(strstr(t->d.sentence, "the host that it leads to answers 403"));
	talk_end(t);
	t = talk_begin("reg.io/a", &LOGIN);
	(void)say(t, 200, "", "");
	(void)say(t, 404, "", "");
	assert_string_equal(say(t, 307, "Location: https://" SECRET ".io/b\r\n", ""),
	                    SECRET ".io /b");
	registry_trouble(&t->d, SECRET ".io is not in the list");
	assert_null(strstr(t->d.sentence, SECRET));
	assert_null(strstr(registry_host(&t->d), SECRET));
	talk_end(t);
}

static void test_dialogue_basic_without_login(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", NULL);
	(void)say(t, 401, "", "");
	assert_string_equal(say(t, 401, "WWW-Authenticate: Basic realm=x\r\n", ""), "missing");
	assert_non_null(strstr(t->d.sentence, "reg.io/a"));
	talk_end(t);
}

static void test_dialogue_only_other_schemes(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", &LOGIN);
	(void)say(t, 401, "", "");
	assert_string_equal(say(t, 401, "WWW-Authenticate: Negotiate\r\n", ""), "unsure");
	talk_end(t);
}

static void test_dialogue_realm_must_be_https(void **state)
{
	(void)state;
	static const char *const REALMS[] = {
		BEARER("http://auth.io/t"),
		BEARER("x"),
		BEARER("https://u:p@auth.io/t"),
		BEARER("https://auth.io/t#a"),
		BEARER("https://auth.io/a b"),
		BEARER("https://auth.io:0/"),
		BEARER("https:///t"),
		BEARER(""),
		"WWW-Authenticate: Bearer\r\n",
	};
	for (size_t i = 0; i < sizeof(REALMS) / sizeof(REALMS[0]); i++) {
		struct talk *t = talk_begin("reg.io/a", &LOGIN);
		(void)say(t, 200, "", "");
		assert_string_equal(say(t, 401, REALMS[i], ""), "unsure");
		talk_end(t);
	}
}

static void test_dialogue_login_for_another_registry(void **state)
{
	(void)state;
	struct image_login other = LOGIN;
	other.registry = SPAN("other.io");
	struct talk *t = talk_begin("reg.io/a", &other);
	assert_true(t->d.login_ignored);
	(void)say(t, 200, "", "");
	assert_string_equal(say(t, 401, BEARER("https://other.io/t"), ""), "other.io /t");
	assert_string_equal(say(t, 401, "", ""), "missing");
	assert_non_null(strstr(t->d.sentence, "check auth.registryuri"));
	talk_end(t);
}

static void test_dialogue_login_without_password(void **state)
{
	(void)state;
	struct image_login half = LOGIN;
	half.password = SPAN("");
	struct talk *t = talk_begin("reg.io/a", &half);
	(void)say(t, 200, "", "");
	assert_string_equal(say(t, 401, BEARER("https://auth.io/t"), ""), "auth.io /t");
	talk_end(t);
}

static void test_dialogue_several_scopes(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", NULL);
	(void)say(t, 200, "", "");
	assert_string_equal(
	    say(t, 401,
	        "WWW-Authenticate: Bearer realm=\"https://auth.io\",service=\"a b&c\","
	        "scope=\"repository:a:pull,push  repository:b:pull\"\r\n",
	        ""),
	    "auth.io /?service=a%20b%26c&scope=repository:a:pull,push"
	    "&scope=repository:b:pull");
	talk_end(t);
}

static void test_dialogue_token_is_checked(void **state)
{
	(void)state;
	static const char *const BODIES[] = {
		"",
		"x",
		"{}",
		"[]",
		"{\"token\":1}",
		"{\"token\":\"\"}",
		"{\"token\":\"a b\"}",
		"{\"token\":\"a\\r\\nX: y\"}",
		"token: T",
	};
	for (size_t i = 0; i < sizeof(BODIES) / sizeof(BODIES[0]); i++) {
		struct talk *t = talk_begin("reg.io/a", NULL);
		(void)say(t, 200, "", "");
		(void)say(t, 401, BEARER("https://auth.io/t"), "");
		assert_string_equal(say(t, 200, "", BODIES[i]), "unsure");
		talk_end(t);
	}
}

static void test_dialogue_redirect_on_the_same_host(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", &LOGIN);
	(void)say(t, 200, "", "");
	(void)say(t, 401, "WWW-Authenticate: Basic realm=x\r\n", "");
	assert_string_equal(say(t, 307, "Location: /other\r\n", ""), "reg.io /other " BASIC);
	assert_string_equal(say(t, 302, "Location: https://reg.io/third\r\n", ""),
	                    "reg.io /third " BASIC);
	assert_string_equal(say(t, 200, "", ""), "found");
	talk_end(t);
}

static void test_dialogue_redirect_elsewhere_loses_the_login(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", &LOGIN);
	(void)say(t, 200, "", "");
	(void)say(t, 401, "WWW-Authenticate: Basic realm=x\r\n", "");
	assert_string_equal(say(t, 307, "Location: https://cdn.io/x\r\n", ""), "cdn.io /x");
	/* Nor does it come back. */
	assert_string_equal(say(t, 307, "Location: https://reg.io/y\r\n", ""), "reg.io /y");
	/* And a challenge there is none of the registry's. */
	assert_string_equal(say(t, 401, BEARER("https://evil.io/t"), ""), "unsure");
	talk_end(t);
}

static void test_dialogue_redirects_are_few_and_https(void **state)
{
	(void)state;
	static const char *const BAD[] = { "", "Location: http://reg.io/\r\n", "Location: x\r\n",
		                           "Location: //cdn.io/\r\n", "Location: /a b\r\n" };
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		struct talk *t = talk_begin("reg.io/a", NULL);
		(void)say(t, 200, "", "");
		assert_string_equal(say(t, 302, BAD[i], ""), "unsure");
		talk_end(t);
	}
	struct talk *t = talk_begin("reg.io/a", NULL);
	(void)say(t, 200, "", "");
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(say(t, 302, "Location: /\r\n", ""), "reg.io /");
	assert_string_equal(say(t, 302, "Location: /\r\n", ""), "unsure");
	talk_end(t);
}

static void test_dialogue_waits_as_it_is_told(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", NULL);
	assert_int_equal(t->ask.wait_ms, 0);
	(void)say(t, 429, "Retry-After: 7\r\n", "");
	assert_in_range(t->ask.wait_ms, 7000, 7499);
	(void)say(t, 503, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n", "");
	assert_in_range(t->ask.wait_ms, 2000, 2499);
	assert_string_equal(say(t, 200, "", ""), "reg.io /v2/a/manifests/latest");
	assert_int_equal(t->ask.wait_ms, 0);
	talk_end(t);
}

static void test_dialogue_does_not_wait_in_vain(void **state)
{
	(void)state;
	struct talk *t = talk_begin("reg.io/a", NULL);
	struct registry_reply r = { 429, SPAN("Retry-After: 3600\r\n"), SPAN("") };
	registry_reply(&t->d, &r, 30000);
	assert_false(registry_next(&t->d, &t->ask));
	assert_int_equal(t->d.verdict, REGISTRY_UNSURE);
	talk_end(t);
}

static void test_dialogue_jitter_differs(void **state)
{
	(void)state;
	int64_t wait[2];
	for (uint32_t i = 0; i < 2; i++) {
		ARENA_AUTO a = { 0 };
		struct image image;
		struct registry_dialogue d;
		struct registry_ask ask;
		struct registry_reply r = { 503, SPAN(""), SPAN("") };
		assert_int_equal(image_parse(SPAN("a"), &a, &image), 0);
		registry_begin(&d, &image, NULL, i * 1234567 + 1, &a);
		(void)registry_next(&d, &ask);
		registry_reply(&d, &r, MINUTE_MS);
		(void)registry_next(&d, &ask);
		wait[i] = ask.wait_ms;
	}
	assert_true(wait[0] != wait[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dialogues_recorded),
		cmocka_unit_test(test_dialogue_asks_for_manifests_of_all_kinds),
		cmocka_unit_test(test_dialogue_ipv6),
		cmocka_unit_test(test_dialogue_404_then_basic),
		cmocka_unit_test(test_dialogue_404_then_basic_then_token),
		cmocka_unit_test(test_dialogue_names_no_host_that_may_hold_the_login),
		cmocka_unit_test(test_dialogue_basic_without_login),
		cmocka_unit_test(test_dialogue_only_other_schemes),
		cmocka_unit_test(test_dialogue_realm_must_be_https),
		cmocka_unit_test(test_dialogue_login_for_another_registry),
		cmocka_unit_test(test_dialogue_login_without_password),
		cmocka_unit_test(test_dialogue_several_scopes),
		cmocka_unit_test(test_dialogue_token_is_checked),
		cmocka_unit_test(test_dialogue_redirect_on_the_same_host),
		cmocka_unit_test(test_dialogue_redirect_elsewhere_loses_the_login),
		cmocka_unit_test(test_dialogue_redirects_are_few_and_https),
		cmocka_unit_test(test_dialogue_waits_as_it_is_told),
		cmocka_unit_test(test_dialogue_does_not_wait_in_vain),
		cmocka_unit_test(test_dialogue_jitter_differs),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
