/* Addresses of clients and networks of proxies. */

#include "tests/unit/base/cmocka.h"
#include <netinet/in.h>
#include <unistd.h>

#include "server/http/address.h"

static void assert_peer(const char *text, const char *wanted)
{
	struct client_address p;
	char out[46];
	assert_true(client_address_parse(span_of(text), &p));
	client_address_text(&p, out);
	assert_string_equal(out, wanted);
}

TEST(test_client_address_parse_takes_all_spellings)
{
	assert_peer("10.1.2.3", "10.1.2.3");
	assert_peer("10.1.2.3:4567", "10.1.2.3");
	assert_peer("::ffff:10.1.2.3", "10.1.2.3");
	assert_peer("[::ffff:10.1.2.3]:80", "10.1.2.3");
	assert_peer("2001:DB8::1", "2001:db8::1");
	assert_peer("[2001:db8::1]", "2001:db8::1");
	assert_peer("[2001:db8::1]:443", "2001:db8::1");
	assert_peer("::", "::");
}

TEST(test_client_address_parse_refuses_other_texts)
{
	static const struct span TEXTS[] = {
		SPAN(""),
		SPAN("unknown"),
		SPAN("_hidden"),
		SPAN("10.1.2"),
		SPAN("10.1.2.3:"),
		SPAN("10.1.2.3:x"),
		SPAN("10.1.2.3:65536"),
		SPAN("10.1.2.300"),
		SPAN("[10.1.2.3]"),
		SPAN("[::1"),
		SPAN("::1]"),
		SPAN("[::1]80"),
		SPAN("[::1]:"),
		SPAN("fe80::1%eth0"),
		SPAN("10.1.2.3\0"),
		SPAN(" 10.1.2.3"),
		SPAN("[]"),
		SPAN(":"),
		SPAN("10.1.2.3 , x"),
		SPAN("01.2.3.4"),
		SPAN("1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc"),
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		struct client_address p;
		if (client_address_parse(TEXTS[i], &p))
			fail_msg("%s was taken", TEXTS[i].p);
	}
}

TEST(test_client_address_of_maps_ipv4_to_ipv6)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in other = { .sin_family = AF_UNIX };
	struct client_address a;
	struct client_address b;
	v4.sin_addr.s_addr = htonl(0x0a010203);
	assert_true(client_address_parse(SPAN("::ffff:10.1.2.3"), &b));
	memcpy(&v6.sin6_addr, b.b, CLIENT_ADDRESS_BYTES);
	assert_true(client_address_of((const struct sockaddr *)&v4, &a));
	assert_memory_equal(a.b, b.b, CLIENT_ADDRESS_BYTES);
	assert_true(client_address_of((const struct sockaddr *)&v6, &a));
	assert_memory_equal(a.b, b.b, CLIENT_ADDRESS_BYTES);
	assert_false(client_address_of((const struct sockaddr *)&other, &a));
}

static bool same_client(const char *one, const char *other)
{
	struct client_address a;
	struct client_address b;
	assert_true(client_address_parse(span_of(one), &a));
	assert_true(client_address_parse(span_of(other), &b));
	return span_eq(client_address_key(&a), client_address_key(&b));
}

TEST(test_client_address_key_is_the_network_of_ipv6)
{
	assert_true(same_client("10.0.0.1", "::ffff:10.0.0.1"));
	assert_false(same_client("10.0.0.1", "10.0.0.2"));
	assert_true(same_client("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
	assert_false(same_client("2001:db8:1:2::1", "2001:db8:1:3::1"));
	/* The first 64 bits of all of IPv4 are those of ::. */
	assert_false(same_client("0.0.0.0", "::"));
}

/* The account of the client behind a socket, as the server asks for it. */
static uint32_t account_of(const struct sockaddr_in *from, int listen_fd)
{
	struct client_address a;
	assert_true(client_address_of((const struct sockaddr *)from, &a));
	client_address_local(&a, (const struct sockaddr *)from, listen_fd);
	return a.account;
}

TEST(test_client_address_of_a_closed_socket_has_no_account)
{
	ERR_AUTO e = { 0 };
	struct address at;
	struct sockaddr_in from;
	socklen_t n = sizeof(from);
	int listen_fd = -1;
	assert_int_equal(address_parse("--listen", "127.0.0.1:0", &at, &e), 0);
	assert_int_equal(listeners_open(&at, &listen_fd, 1, &e), 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at.socket, sizeof(from)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&from, &n), 0);
	uint32_t account = account_of(&from, listen_fd);
	if (account) /* else there is no sock_diag */
		assert_int_equal(account, getuid() + 1);
	assert_int_equal(close(fd), 0);
	assert_int_equal(account_of(&from, listen_fd), 0);
	assert_int_equal(close(listen_fd), 0);
}

static bool has(const char *networks, const char *address)
{
	ERR_AUTO e = { 0 };
	struct networks all;
	struct client_address p;
	assert_int_equal(networks_parse(span_of(networks), &all, &e), 0);
	assert_true(client_address_parse(span_of(address), &p));
	return networks_have(&all, &p);
}

TEST(test_networks_have_compares_prefixes)
{
	assert_false(has("", "10.0.0.1"));
	assert_true(has("10.0.0.1", "10.0.0.1"));
	assert_false(has("10.0.0.1", "10.0.0.2"));
	assert_true(has("10.0.0.0/8", "10.255.0.1"));
	assert_true(has("10.0.0.0/8", "::ffff:10.255.0.1"));
	assert_false(has("10.0.0.0/8", "11.0.0.1"));
	assert_true(has("10.0.0.0/9", "10.127.0.1"));
	assert_false(has("10.0.0.0/9", "10.128.0.1"));
	assert_true(has("0.0.0.0/0", "192.0.2.1"));
	assert_false(has("0.0.0.0/0", "2001:db8::1"));
	assert_true(has(" 192.0.2.1 , fd00::/8,", "fd12::1"));
	assert_true(has("::ffff:10.0.0.0/104", "10.1.1.1"));
	assert_true(has("::/0", "10.1.1.1"));
}

TEST(test_networks_parse_refuses_invalid_networks)
{
	static const char *const TEXTS[] = {
		"10.0.0.0/33", "10.0.0.0/-1", "10.0.0.1/8",   "x",           "10.0.0.0/",
		"fd00::/129",  "localhost",   "10.0.0.0/8/8", "10.0.0.1:80", "*"
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		ERR_AUTO e = { 0 };
		struct networks all;
		assert_int_equal(networks_parse(span_of(TEXTS[i]), &all, &e), -1);
		assert_int_equal(e.http, 400);
		assert_non_null(strstr(err_msg(&e), TEXTS[i]));
	}
	ERR_AUTO e = { 0 };
	STR_AUTO text = STR_INIT(4096);
	struct networks all;
	for (unsigned i = 0; i <= NETWORKS_MAX; i++)
		str_printf(&text, "10.0.0.%u,", i);
	assert_int_equal(networks_parse(str_view(&text), &all, &e), -1);
}
