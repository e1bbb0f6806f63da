/* Public addresses and URLs of webhooks. */
#include <arpa/inet.h>

#include "k8s/http/poster.h"
#include "tests/unit/base/cmocka.h"

static bool is_public(const char *text)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return poster_is_public((const struct sockaddr *)&v4);
	assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return poster_is_public((const struct sockaddr *)&v6);
}

TEST(test_poster_accepts_public_addresses)
{
	static const char *const PUBLIC[] = {
		"1.1.1.1",     "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
		"100.128.0.0", "126.255.255.255", "128.0.0.0",       "169.253.255.255",
		"169.255.0.0", "172.15.255.255",  "172.32.0.0",      "192.0.1.0",
		"192.0.3.0",   "192.167.255.255", "192.169.0.0",     "198.17.255.255",
		"198.20.0.0",  "223.255.255.255", "2606:4700::1111", "2a00::1",
		"2001:200::1", "2001:4860::8888", "::ffff:8.8.8.8",
	};
	for (size_t i = 0; i < sizeof(PUBLIC) / sizeof(PUBLIC[0]); i++)
		assert_true(is_public(PUBLIC[i]));
}

TEST(test_poster_refuses_other_addresses)
{
	static const char *const OTHER[] = {
		"0.0.0.0",
		"0.255.255.255",
		"10.0.0.0",
		"10.255.255.255",
		"100.64.0.0",
		"100.127.255.255",
		"127.0.0.1",
		"127.255.255.255",
		"169.254.169.254",
		"172.16.0.0",
		"172.31.255.255",
		"192.0.0.1",
		"192.0.2.1",
		"192.168.0.0",
		"192.168.255.255",
		"198.18.0.1",
		"198.19.255.255",
		"198.51.100.1",
		"203.0.113.1",
		"224.0.0.1",
		"239.255.255.255",
		"240.0.0.1",
		"255.255.255.255",
		"::",
		"::1",
		"::7f00:1",
		"::ffff:10.0.0.1",
		"::ffff:127.0.0.1",
		"64:ff9b::a00:1",
		"100::1",
		"2001::1",
		"2001:db8::1",
		"2002:7f00:1::1",
		"3fff::1",
		"fc00::1",
		"fdff::1",
		"fe80::1",
		"fec0::1",
		"ff02::1",
		"4000::1",
	};
	struct sockaddr local = { .sa_family = AF_UNIX };
	for (size_t i = 0; i < sizeof(OTHER) / sizeof(OTHER[0]); i++)
		assert_false(is_public(OTHER[i]));
	assert_false(poster_is_public(&local));
}

TEST(test_poster_refuses_insecure_urls)
{
	static const struct {
		const char *url;
		bool inside, good;
	} CASES[] = {
		{ "https://example.com/hook/", false, true },
		{ "https://[::1]:8443", false, true },
		{ "http://example.com", false, false },
		{ "http://example.com", true, true },
		{ "ftp://example.com", true, false },
		{ "https://u:p@example.com", true, false },
		{ "https://", true, false },
		{ "https://example.com/a b", true, false },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct poster *p = poster_new(
		    &(struct poster_settings){ CASES[i].url, CASES[i].inside, 1 }, no_err());
		assert_int_equal(p != NULL, CASES[i].good);
		assert_int_equal(unit.e.http, CASES[i].good ? 0 : 400);
		poster_free(p);
	}
}
