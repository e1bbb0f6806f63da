/* Names of images, which login is for which registry, and challenges: against what was recorded of
 * the reference (tests/data/runtime/registry) and what must be different here. */
#include "base/image/image.h"
#include "base/image/registry.h"
#include "tests/unit/base/registry_kit.h"

/* ---- the recorded cases ---------------------------------------------------------------- */

static void test_image_parse_recorded(void **state)
{
	struct vectors *v = *state;
	const struct node *all = recorded_list(v, "normalisation");
	for (uint32_t i = 0; i < all->n; i++) {
		const struct node *want = wanted(v, "normalisation", "uri", &all->item[i]);
		struct image image;
		int bad = image_parse(text_of(want, "uri"), &v->a, &image);
		if (text_of(want, "error").n) {
			assert_int_equal(bad, -1);
			continue;
		}
		if (bad)
			fail_msg("%.*s is refused", (int)text_of(want, "uri").n,
			         text_of(want, "uri").p);
		char *url = arena_printf(&v->a, "https://%s/v2/", image.host);
		assert_text(span_of(url), text_of(want, "registry"));
		assert_text(span_of(image.repository), text_of(want, "repo"));
		assert_text(span_of(image.reference), text_of(want, "tag"));
	}
	assert_int_equal(all->n, 28);
}

static void test_image_registry_host_recorded(void **state)
{
	struct vectors *v = *state;
	const struct node *all = recorded_list(v, "registryUri");
	for (uint32_t i = 0; i < all->n; i++) {
		const struct node *want = wanted(v, "registryUri", "in", &all->item[i]);
		struct span host = image_registry_host(text_of(want, "in"));
		assert_text(host, image_registry_host(text_of(want, "out")));
		assert_true(host.n > 0);
	}
	assert_int_equal(all->n, 7);
}

static void read_challenge(struct arena *a, struct span value, struct challenges *c)
{
	char *line = arena_printf(a, "X: y\r\nwww-authenticate: %.*s\r\n", (int)value.n, value.p);
	challenges_read(span_of(line), a, c);
}

static void test_challenges_read_recorded(void **state)
{
	struct vectors *v = *state;
	const struct node *all = recorded_list(v, "challenge");
	for (uint32_t i = 0; i < all->n; i++) {
		const struct node *want = wanted(v, "challenge", "in", &all->item[i]);
		const struct node *out = node_get(want, "out");
		const struct node *bearer = node_get(out, "Bearer");
		struct challenges c;
		read_challenge(&v->a, text_of(want, "in"), &c);
		assert_int_equal(c.bearer, bearer != NULL);
		assert_int_equal(c.basic, node_get(out, "Basic") != NULL);
		assert_int_equal(c.other, !c.bearer && !c.basic);
		assert_text(c.realm, bearer ? text_of(bearer, "realm") : SPAN(""));
		assert_text(c.service, bearer ? text_of(bearer, "service") : SPAN(""));
		assert_text(c.scope, bearer ? text_of(bearer, "scope") : SPAN(""));
	}
	assert_int_equal(all->n, 6);
}

/* ---- names -------------------------------------------------------------------------------- */

static void test_image_host_ok(void **state)
{
	(void)state;
	static const char *const GOOD[] = { "h",        "h:1",        "A.b-c_d:65535",
		                            "10.0.0.1", "[::1]:5000", "[fe80::1]",
		                            NULL };
	static const char *const BAD[] = {
		"",        ":1",     "h:",  "h:0",   "h:65536", "h:x",    "u@h",
		"-h",      "h-",     "h/",  "[::1",  "[]",      "[abc]",  "::1",
		"[::g]:1", "[::1]5", "a b", "h:1:2", "h\n",     "[::1]:", NULL
	};
	for (const char *const *s = GOOD; *s; s++)
		if (!image_host_ok(span_of(*s)))
			fail_msg("%s is refused", *s);
	for (const char *const *s = BAD; *s; s++)
		if (image_host_ok(span_of(*s)))
			fail_msg("%s is taken", *s);
}

static bool fits(const char *name, const char *registry)
{
	ARENA_AUTO a = { 0 };
	struct image image;
	assert_int_equal(image_parse(span_of(name), &a, &image), 0);
	return image_login_fits(&image, span_of(registry));
}

static void test_image_login_fits(void **state)
{
	(void)state;
	assert_true(fits("reg.io/a", "reg.io"));
	assert_true(fits("reg.io/a", "HTTPS://REG.io/v2/"));
	assert_true(fits("Reg.io:5000/a", "http://reg.IO:5000"));
	assert_true(fits("a", "https://index.docker.io/v1/"));
	assert_true(fits("docker.io/a/b", "registry-1.docker.io"));
	assert_true(fits("[::1]:5000/a", "[::1]:5000"));
	assert_true(fits("reg.io/a", "")); /* a login without a registry is for the image's own */
	assert_true(fits("a", " "));
	assert_false(fits("reg.io/a", "reg.io:5000"));
	assert_false(fits("reg.io/a", "evil.reg.io"));
	assert_false(fits("a", "reg.io"));
	assert_false(fits("reg.io/a", "docker.io"));
	assert_false(fits("reg.io/a", "reg.io@evil.example"));
}

static void test_image_default_registry(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	assert_text(image_default_registry(SPAN("ubuntu"), &a),
	            SPAN("https://index.docker.io/v1/"));
	assert_text(image_default_registry(SPAN("docker.io/a/b"), &a),
	            SPAN("https://index.docker.io/v1/"));
	assert_text(image_default_registry(SPAN("reg.io:5000/a"), &a), SPAN("reg.io:5000"));
}

/* ---- challenges ------------------------------------------------------------------------------ */

static void test_challenges_read_several(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct challenges c;
	challenges_read(
	    SPAN("WWW-Authenticate: Negotiate\r\nWWW-Authenticate: BASIC realm=\"a, b\", "
	         "bearer Realm = \"https://x/\" , SCOPE=\"q\\\"r\"\r\n"
	         "www-authenticate: Bearer realm=\"https://second/\"\r\n"),
	    &a, &c);
	assert_true(c.basic && c.bearer && c.other);
	assert_text(c.realm, SPAN("https://x/"));
	assert_text(c.scope, SPAN("q\"r"));
	assert_text(c.service, SPAN(""));
}

static void test_challenges_read_token68(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct challenges c;
	read_challenge(&a, SPAN("Negotiate abc/+d==, Bearer realm=x"), &c);
	assert_true(c.other && c.bearer && !c.basic);
	assert_text(c.realm, SPAN("x"));
	read_challenge(&a, SPAN("NTLM basic"), &c);
	assert_false(c.basic);
	read_challenge(&a, SPAN("NTLM, basic"), &c);
	assert_true(c.basic);
}

static void test_challenges_read_malformed(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	struct challenges c;
	read_challenge(&a, SPAN("Bearer realm=\"https://a"), &c);
	assert_text(c.realm, SPAN("https://a"));
	read_challenge(&a, SPAN("Bearer realm=\"https://a\x01\x62\""), &c);
	assert_true(c.bearer);
	assert_text(c.realm, SPAN(""));
	read_challenge(&a, SPAN(", ,\"=Bearer"), &c);
	assert_false(c.bearer || c.basic || c.other);
	challenges_read(SPAN(""), &a, &c);
	assert_false(c.bearer || c.basic || c.other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_image_parse_recorded),
		cmocka_unit_test(test_image_registry_host_recorded),
		cmocka_unit_test(test_challenges_read_recorded),
		cmocka_unit_test(test_image_host_ok),
		cmocka_unit_test(test_image_login_fits),
		cmocka_unit_test(test_image_default_registry),
		cmocka_unit_test(test_challenges_read_several),
		cmocka_unit_test(test_challenges_read_token68),
		cmocka_unit_test(test_challenges_read_malformed),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
