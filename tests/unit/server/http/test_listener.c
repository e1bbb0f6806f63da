/* Addresses, and listeners that share one. */

#include "tests/unit/base/cmocka.h"
#include <stdlib.h>
#include <unistd.h>

#include "server/http/address.h"

static void assert_address(const char *text, const char *wanted, bool loopback)
{
	ERR_AUTO e = { 0 };
	STR_AUTO out = STR_INIT(128);
	struct address a;
	assert_int_equal(address_parse("--listen", text, &a, &e), 0);
	address_text(&out, &a);
	assert_string_equal(str_c(&out), wanted);
	assert_int_equal(address_is_loopback(&a), loopback);
}

TEST(test_address_parse_recognizes_loopback)
{
	assert_address("127.0.0.1:9186", "127.0.0.1:9186", true);
	assert_address("127.9.9.9:0", "127.9.9.9:0", true);
	assert_address("localhost:80", "127.0.0.1:80", true);
	assert_address("[::1]:9186", "[::1]:9186", true);
	assert_address(":9186", "0.0.0.0:9186", false);
	assert_address("0.0.0.0:1", "0.0.0.0:1", false);
	assert_address("[::]:1", "[::]:1", false);
	/* An IPv4-mapped loopback address is not treated as loopback. */
	assert_address("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", false);
}

TEST(test_address_parse_refuses_other_texts)
{
	static const char *const TEXTS[] = { "",
		                             "9186",
		                             "a:b",
		                             "127.0.0.1",
		                             "127.0.0.1:65536",
		                             "127.0.0.1:-1",
		                             "example.com:80",
		                             "127.1:80" };
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		ERR_AUTO e = { 0 };
		struct address a;
		assert_int_equal(address_parse("--listen", TEXTS[i], &a, &e), -1);
	}
}

TEST(test_address_unix_is_a_private_socket)
{
	ERR_AUTO e = { 0 };
	STR_AUTO out = STR_INIT(128);
	char dir[] = "/tmp/listener.XXXXXX";
	struct address a;
	int fd;
	assert_non_null(mkdtemp(dir));
	FREE_AUTO char *path = xasprintf("%s/socket", dir);
	address_unix(path, &a);
	address_text(&out, &a);
	assert_string_equal(str_c(&out), path);
	assert_true(address_is_loopback(&a));
	assert_int_equal(address_port(&a), 0);
	assert_int_equal(listeners_open(&a, &fd, 1, &e), 0);
	(void)close(fd);
	assert_int_equal(listeners_open(&a, &fd, 1, &e), -1);
	assert_non_null(strstr(err_msg(&e), "already in use"));
	assert_int_equal(unlink(path) | rmdir(dir), 0);
}

TEST(test_listeners_open_shares_a_port)
{
	ERR_AUTO e = { 0 };
	struct address a;
	int fds[3];
	int other;
	assert_int_equal(address_parse("--listen", "127.0.0.1:0", &a, &e), 0);
	assert_int_equal(listeners_open(&a, fds, 3, &e), 0);
	assert_int_not_equal(address_port(&a), 0);
	assert_int_equal(listeners_open(&a, &other, 1, &e), -1); /* another server has it */
	assert_non_null(strstr(err_msg(&e), "already in use"));
	for (size_t i = 0; i < 3; i++)
		(void)close(fds[i]);
}
