/* Requests that a command sends. */

#include "tests/unit/base/cmocka.h"
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "k8s/http/http_client.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/http/loop.h"

static int ask(struct remote *r, const void *arg, struct err *e)
{
	const struct client_call call = { .method = "POST", .path = "/", .max = 100 };
	REPLY_AUTO reply = { 0 };
	(void)arg;
	assert_int_equal(remote_ask(r, &call, 202, &reply, e), -1);
	assert_string_equal(err_msg(e), "interrupted");
	return -1;
}

/* A signal ends a request of `run` to its own server, which does not answer; the signal stays
 * pending. */
TEST(test_remote_ask_is_interrupted)
{
	struct options o = { .token_file = "", .ca_file = "", .server = "" };
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct own_server own = { .socket = at.sun_path, .signal_fd = eventfd(1, EFD_CLOEXEC) };
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/test-remote-%d", (int)getpid());
	assert_int_equal(bind(silent, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(silent, 1), 0);
	int64_t before = clock_ms();
	eventfd_t signals = 0;
	assert_int_equal(http_init(no_err()), 0);
	assert_int_equal(remote_run(&o, &own, ask, NULL), EXIT_SERVER);
	assert_true(clock_ms() - before < 60000);
	assert_int_equal(eventfd_read(own.signal_fd, &signals), 0);
	(void)unlink(at.sun_path);
	(void)close(silent);
	(void)close(own.signal_fd);
}
