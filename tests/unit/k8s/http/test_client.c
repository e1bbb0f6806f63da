/* A client of a server in its own process; tests/http/cli.py tests those of other servers. */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "k8s/http/http_client.h"
#include "tests/unit/base/cmocka.h"

enum { TURN_MS = 20, LIMIT_MS = 10 };

struct answered {
	int calls, status;
	const char *problem;
};

static void client_keeps(void *arg, const struct client_answer *a)
{
	struct answered *got = arg;
	got->calls++;
	got->status = a->status;
	got->problem = a->problem;
}

/* A listening socket at the path. */
static int client_listen(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

TEST(test_client_waits_for_its_own_process_without_limit)
{
	struct answered got = { 0 };
	const char *path = unit_path("socket");
	FD_AUTO listens = client_listen(path);
	const struct client_settings settings = {
		.url = "http://localhost", .ca_file = "", .socket = path, .own = true
	};
	struct client *c = client_new(&settings, no_err());
	assert_non_null(c);
	const struct client_call call = { .method = "GET",
		                          .path = "/",
		                          .max = 100,
		                          .timeout_ms = LIMIT_MS,
		                          .ended = client_keeps,
		                          .arg = &got };
	assert_non_null(client_start(c, &call, no_err()));
	for (int i = 0; i < 10; i++) {
		client_run_once(c, TURN_MS, -1);
		clock_sleep(TURN_MS);
	}
	assert_int_equal(got.calls, 0);
	FD_AUTO served = accept(listens, NULL, NULL);
	assert_true(served >= 0);
	assert_int_equal(fd_write_all(served, SPAN("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")),
	                 0);
	while (got.calls == 0)
		client_run_once(c, TURN_MS, -1);
	assert_int_equal(got.status, 200);
	assert_null(got.problem);
	client_free(c);
}
