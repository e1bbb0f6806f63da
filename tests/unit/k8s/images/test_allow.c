/* The list of registries, and which addresses may be connected to. */
#include "k8s/images/allow.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/base/cmocka.h"

struct list {
	struct arena a;
	struct allow allow;
	struct err err;
};

static struct list read_list(const char *text)
{
	struct list l = { 0 };
	(void)allow_read(text, &l.a, &l.allow, &l.err);
	return l;
}

static void list_done(struct list *l)
{
	err_done(&l->err);
	arena_done(&l->a);
}

static void test_read_hosts(void **state)
{
	(void)state;
	struct list l = read_list("reg.io, Reg.corp:5000=private,,[::1]:5000=private");
	assert_int_equal(l.allow.n, 3);
	const struct allow_entry *e = allow_find(&l.allow, "reg.CORP", 5000);
	assert_non_null(e);
	assert_true(e->local);
	assert_non_null(allow_find(&l.allow, "reg.io", 443));
	assert_false(allow_find(&l.allow, "reg.io", 443)->local);
	assert_non_null(allow_find(&l.allow, "::1", 5000));
	assert_null(allow_find(&l.allow, "reg.io", 5000));
	assert_null(allow_find(&l.allow, "reg.corp", 443));
	assert_null(allow_find(&l.allow, "a.reg.io", 443));
	list_done(&l);
}

static void test_read_hub(void **state)
{
	(void)state;
	static const char *const NAMES[] = { "docker.io", "index.docker.io" };
	for (size_t i = 0; i < 2; i++) {
		struct list l = read_list(NAMES[i]);
		assert_non_null(allow_find(&l.allow, "registry-1.docker.io", 443));
		assert_non_null(allow_find(&l.allow, "auth.docker.io", 443));
		assert_null(allow_find(&l.allow, NAMES[i], 443));
		list_done(&l);
	}
}

static void test_read_bad(void **state)
{
	(void)state;
	static const char *const BAD[] = {
		"https://reg.io", "*",        "reg.io=public", "=private",
		"reg.io/x",       "reg.io:0", "a b",           "*.io"
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
		struct list l = read_list(BAD[i]);
		if (l.err.http != 400)
			fail_msg("%s is taken", BAD[i]);
		list_done(&l);
	}
}

static bool may(const char *address, bool local)
{
	struct allow_entry e = { "h", 443, local };
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	if (inet_pton(AF_INET, address, &in.sin_addr) == 1)
		return allow_address(&e, (struct sockaddr *)&in);
	assert_int_equal(inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
	return allow_address(&e, (struct sockaddr *)&in6);
}

static void test_address_public(void **state)
{
	(void)state;
	static const char *const PUBLIC[] = { "1.1.1.1",        "9.255.255.255", "11.0.0.0",
		                              "172.15.255.255", "172.32.0.1",    "192.169.0.1",
		                              "100.63.0.1",     "100.128.0.1",   "223.255.255.255",
		                              "2606:4700::1",   "2a00::1",       "::ffff:8.8.8.8" };
	for (size_t i = 0; i < sizeof(PUBLIC) / sizeof(PUBLIC[0]); i++)
		if (!may(PUBLIC[i], false) || !may(PUBLIC[i], true))
			fail_msg("%s is refused", PUBLIC[i]);
}

static void test_address_private(void **state)
{
	(void)state;
	static const char *const PRIVATE[] = {
		"127.0.0.1",  "127.255.0.1", "10.1.2.3",       "172.16.0.1",
		"172.31.0.1", "192.168.1.1", "100.64.0.1",     "::1",
		"fd00::1",    "fc00::1",     "::ffff:10.0.0.1"
	};
	for (size_t i = 0; i < sizeof(PRIVATE) / sizeof(PRIVATE[0]); i++)
		if (may(PRIVATE[i], false) || !may(PRIVATE[i], true))
			fail_msg("%s", PRIVATE[i]);
}

static void test_address_never(void **state)
{
	(void)state;
	static const char *const NONE[] = {
		"0.0.0.0",
		"169.254.169.254",
		"224.0.0.1",
		"255.255.255.255",
		"192.0.2.1",
		"198.18.0.1",
		"203.0.113.9",
		"::",
		"fe80::1",
		"fec0::1",
		"ff02::1",
		"64:ff9b::a00:1",
		"2002:a00:1::",
		"2001::1",
		"2001:db8::1",
		"::10.0.0.1",
		"::ffff:169.254.169.254",
		"100::1",
	};
	for (size_t i = 0; i < sizeof(NONE) / sizeof(NONE[0]); i++)
		if (may(NONE[i], false) || may(NONE[i], true))
			fail_msg("%s may be asked", NONE[i]);
}

static void test_address_of_other_kinds(void **state)
{
	(void)state;
	struct allow_entry e = { "h", 443, true };
	struct sockaddr other = { .sa_family = AF_UNIX };
	assert_false(allow_address(&e, &other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_hosts),
		cmocka_unit_test(test_read_hub),
		cmocka_unit_test(test_read_bad),
		cmocka_unit_test(test_address_public),
		cmocka_unit_test(test_address_private),
		cmocka_unit_test(test_address_never),
		cmocka_unit_test(test_address_of_other_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
