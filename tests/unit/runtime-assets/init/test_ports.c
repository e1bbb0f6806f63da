/* Numbers of ports, and ports in use on this machine. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime-assets/init/init_internal.h"
#include "tests/unit/base/cmocka.h"

TEST(test_portspec_port_gives_the_expected_numbers)
{
	struct port_label l = { .name = "http", .count = 3, .start = 5000, .first = 1 };
	static const struct {
		bool sequential;
		struct port_source from;
		int64_t index, i;
		uint16_t port;
	} CASES[] = {
		{ true, { NULL, NULL }, 1, 0, 5003 },
		{ true, { NULL, NULL }, 1, 2, 5005 },
		{ false, { "a0000000-0000-0000-0000-000000000000", NULL }, 0, 0, 39661 },
		{ false, { NULL, "7,8,9" }, 0, 1, 9 },
		{ false, { NULL, "7,8,9" }, 0, 2, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct portspec p = { .sequential = CASES[i].sequential,
			              .range = { 15000, 40000 } };
		assert_int_equal(portspec_port(&p, &l, CASES[i].from, CASES[i].index, CASES[i].i),
		                 CASES[i].port);
	}
}

TEST(test_portspec_name_ok_takes_names_of_variables)
{
	static const char *const GOOD[] = { "a", "_", "Z9_", "http", "p2p" };
	static const char *const BAD[] = { "", "9", "a-b", "a b", "a'", "a\nb", "\xc3\xa4", "a$" };
	for (size_t i = 0; i < ARRAY_SIZE(GOOD); i++)
		assert_true(portspec_name_ok(GOOD[i]));
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		assert_false(portspec_name_ok(BAD[i]));
}

/* A socket of its own port, or -1 if there is no such family here. */
static int bound(int family, int type, uint32_t address4, uint16_t *port)
{
	struct sockaddr_storage at;
	socklen_t n = sizeof(at);
	memset(&at, 0, sizeof(at));
	at.ss_family = (sa_family_t)family;
	int fd = socket(family, type | SOCK_CLOEXEC, 0);
	if (family == AF_INET)
		((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(address4);
	else
		((struct sockaddr_in6 *)&at)->sin6_addr = in6addr_loopback;
	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&at, n) != 0) {
		close(fd);
		return -1;
	}
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
	/* The port stands at the same place for both. */
	*port = ntohs(((struct sockaddr_in *)&at)->sin_port);
	return fd;
}

static int check(uint16_t *port, const char **label, size_t n, struct err *e)
{
	struct init in = { .a = &unit.a, .port = port, .port_label = label, .n_ports = n };
	return step_ports(&in, e);
}

TEST(test_step_ports_without_ports_succeeds)
{
	assert_int_equal(check(NULL, NULL, 0, no_err()), 0);
}

TEST(test_step_ports_accepts_a_free_port)
{
	uint16_t port = 0;
	const char *label = "http";
	int fd = bound(AF_INET, SOCK_STREAM, INADDR_LOOPBACK, &port);
	close(fd);
	assert_int_equal(check(&port, &label, 1, no_err()), 0);
}

static void taken(int family, int type, uint32_t address, const char *protocol)
{
	uint16_t port = 0;
	const char *label = "grpc";
	FD_AUTO fd = bound(family, type, address, &port);
	if (fd < 0)
		return; /* no IPv6 here */
	assert_int_equal(check(&port, &label, 1, no_err()), INIT_PORT_CONFLICT);
	STR_AUTO want = STR_INIT(200);
	str_printf(&want, "port %d (grpc) is taken, %s", port, protocol);
	assert_string_equal(err_msg(&unit.e), str_c(&want));
}

TEST(test_step_ports_reports_a_tcp_port_in_use)
{
	taken(AF_INET, SOCK_STREAM, INADDR_ANY, "TCP");
}

TEST(test_step_ports_reports_a_port_in_use_on_one_address)
{
	taken(AF_INET, SOCK_STREAM, INADDR_LOOPBACK + 5, "TCP"); /* 127.0.0.6 */
}

TEST(test_step_ports_reports_a_udp_port_in_use)
{
	taken(AF_INET, SOCK_DGRAM, INADDR_LOOPBACK, "UDP");
}

TEST(test_step_ports_reports_an_ipv6_port_in_use)
{
	taken(AF_INET6, SOCK_STREAM, 0, "TCP");
	taken(AF_INET6, SOCK_DGRAM, 0, "UDP");
}

/* A connection on this machine. */
struct connection {
	int server, peer, client;
	uint16_t server_port, client_port;
};

static uint16_t port_of(int fd)
{
	struct sockaddr_in at;
	socklen_t n = sizeof(at);
	memset(&at, 0, sizeof(at));
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
	return ntohs(at.sin_port);
}

static struct connection connection_make(void)
{
	int one = 1;
	struct connection c = { .server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
		                .client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	struct sockaddr_in at = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_true(c.server >= 0 && c.client >= 0);
	assert_int_equal(setsockopt(c.server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(c.server, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(c.server, 1), 0);
	c.server_port = port_of(c.server);
	at.sin_port = htons(c.server_port);
	assert_int_equal(connect(c.client, (struct sockaddr *)&at, sizeof(at)), 0);
	c.client_port = port_of(c.client);
	c.peer = accept(c.server, NULL, NULL);
	assert_true(c.peer >= 0);
	return c;
}

static int check_one(uint16_t port)
{
	const char *label = "http";
	return check(&port, &label, 1, no_err());
}

/* Connections left by a server that has just ended do not block its port. */
TEST(test_step_ports_accepts_a_port_of_an_ended_server)
{
	struct connection c = connection_make();
	close(c.peer); /* the one that closes first waits */
	close(c.client);
	close(c.server);
	assert_int_equal(check_one(c.server_port), 0);
}

/* The kernel gives clients ports from the same range. */
TEST(test_step_ports_accepts_a_port_of_a_client)
{
	struct connection c = connection_make();
	assert_int_equal(check_one(c.client_port), 0);
	assert_int_equal(check_one(c.server_port), INIT_PORT_CONFLICT);
	close(c.client);
	close(c.peer);
	assert_int_equal(check_one(c.client_port), 0);
	close(c.server);
}

/* The socket is bound but does not listen: no table of /proc shows it. */
TEST(test_step_ports_reports_a_port_that_is_only_bound)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(check_one(port_of(fd)), INIT_PORT_CONFLICT);
	close(fd);
}

TEST(test_step_ports_reports_a_port_that_is_named_twice)
{
	uint16_t first = 0;
	uint16_t second = 0;
	int fds[2] = { bound(AF_INET, SOCK_STREAM, INADDR_ANY, &first),
		       bound(AF_INET, SOCK_STREAM, INADDR_ANY, &second) };
	close(fds[0]);
	close(fds[1]);
	uint16_t port[] = { first, second, first };
	const char *label[] = { "ssh", "x", "http" };
	assert_int_equal(check(port, label, 3, no_err()), INIT_PORT_CONFLICT);
	STR_AUTO want = STR_INIT(200);
	str_printf(&want, "port %d (http) is also one of ssh", first);
	assert_string_equal(err_msg(&unit.e), str_c(&want));
}

TEST(test_step_ports_names_all_ports_in_use)
{
	uint16_t port[2] = { 0, 0 };
	const char *label[] = { "ssh", "http" };
	FD_AUTO one = bound(AF_INET, SOCK_STREAM, INADDR_ANY, &port[0]);
	FD_AUTO two = bound(AF_INET, SOCK_DGRAM, INADDR_ANY, &port[1]);
	assert_int_equal(check(port, label, 2, no_err()), INIT_PORT_CONFLICT);
	assert_non_null(strstr(err_msg(&unit.e), "(ssh) is taken, TCP"));
	assert_non_null(strstr(err_msg(&unit.e), "(http) is taken, UDP"));
	assert_true(one >= 0 && two >= 0);
}

TEST(test_step_ports_message_is_bounded)
{
	enum { N = 500 };
	uint16_t first = 0;
	FD_AUTO fd = bound(AF_INET, SOCK_STREAM, INADDR_ANY, &first);
	uint16_t port[N];
	const char *label[N];
	for (size_t i = 0; i < N; i++) {
		port[i] = first;
		label[i] = "label";
	}
	assert_true(fd >= 0);
	assert_int_equal(check(port, label, N, no_err()), INIT_PORT_CONFLICT);
	assert_true(strlen(err_msg(&unit.e)) < 1600);
	assert_non_null(strstr(err_msg(&unit.e), " more"));
}
