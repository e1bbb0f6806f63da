/* Images: pulled from registries on this machine (the script `registry` beside this file), unpacked
 * once, shared, bounded; hostile and broken images do no harm. */
/* cmocka wants these four first */
#include "tests/unit/base/cmocka.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/rmtree.h"
#include "machine/images/images_internal.h"

enum { WAIT_MS = 120000 };
#define MUCH (UINT64_C(100) << 30)

static char home[64];
static char store[128];
static pid_t registry;
static int registry_in = -1;
static int port_open, port_closed;
static bool skipped;

static char *name_at(int port, const char *rest)
{
	static char text[4][128];
	static unsigned next;
	char *out = text[next++ % 4];
	(void)snprintf(out, sizeof(text[0]), "127.0.0.1:%d/%s", port, rest);
	return out;
}

/* ---- the registries ---- */

FIXTURE(group_setup)
{
	(void)snprintf(home, sizeof(home), "/var/tmp/images-test-XXXXXX");
	int ends[2];
	ERR_AUTO e = { 0 };
	if (mkdtemp(home) == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	skipped = images_probe(&e) != 0;
	registry = skipped ? 0 : fork();
	if (registry == 0 && !skipped) {
		char dir[128];
		(void)snprintf(dir, sizeof(dir), "%s/registry", home);
		(void)dup2(ends[0], 0);
		(void)dup2(ends[0], 1);
		(void)execlp("bash", "bash", "tests/unit/machine/images/registry", dir,
		             (char *)NULL);
		_exit(127);
	}
	(void)close(ends[0]);
	registry_in = ends[1];
	char line[64] = "none\n";
	for (size_t n = 0; !skipped && (n == 0 || line[n - 1] != '\n'); n++) {
		if (n + 1 >= sizeof(line) || read(registry_in, line + n, 1) != 1)
			return -1;
	}
	char *end;
	port_open = (int)strtol(line, &end, 10);
	port_closed = (int)strtol(end, NULL, 10);
	skipped = port_open == 0;
	if (skipped)
		(void)fprintf(stderr, "skipped: without skopeo, umoci or docker-registry\n");
	return 0;
}

FIXTURE(group_teardown)
{
	(void)close(registry_in);
	if (registry > 0)
		(void)waitpid(registry, NULL, 0);
	int rc;
	do
		rc = tree_remove(AT_FDCWD, home, 1000);
	while (rc == 1);
	return rc;
}

/* ---- a store ---- */

static struct images *m;
static unsigned calls;
static int epoll = -1;

static void on_change(void *arg)
{
	(void)arg;
	calls++;
}

static void open_images(uint64_t bytes)
{
	m = images_new(store, bytes, epoll, on_change, no_err());
	if (m == NULL)
		fail_msg("%s", err_msg(&unit.e));
}

FIXTURE(setup)
{
	static unsigned n;
	(void)snprintf(store, sizeof(store), "%s/store-%u", home, n++);
	calls = 0;
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!skipped)
		open_images(MUCH);
	return epoll >= 0 ? 0 : -1;
}

FIXTURE(teardown)
{
	images_free(m);
	m = NULL;
	return close(epoll);
}

static void run_some(void)
{
	int ms = images_run_once(m);
	struct pollfd p = { .fd = epoll, .events = POLLIN };
	(void)poll(&p, 1, ms < 0 || ms > 1000 ? 1000 : ms);
}

static struct images_use *want_as(const char *image, const char *auth)
{
	return images_request(m, span_of(image), span_of(auth), NULL);
}

static struct images_use *want(const char *image)
{
	return want_as(image, "");
}

static enum images_state wait_for(struct images_use *u)
{
	int64_t until = clock_ms() + WAIT_MS;
	while (images_status(u)->state < IMAGES_READY && clock_ms() < until)
		run_some();
	return images_status(u)->state;
}

static void wait_ready(struct images_use *u)
{
	if (wait_for(u) != IMAGES_READY)
		fail_msg("%s", images_status(u)->text);
}

/* Waits until nothing is left in tmp. */
static void wait_swept(void)
{
	do
		run_some();
	while (m->sweeping);
}

static unsigned entries(const char *sub)
{
	char path[256];
	(void)snprintf(path, sizeof(path), "%s/%s", store, sub);
	DIR *d = opendir(path);
	unsigned n = 0;
	for (const struct dirent *entry;
	     d && (entry = readdir(d)) != NULL;) /* NOLINT(concurrency-mt-unsafe) */
		n += entry->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return n;
}

static bool in_root(struct images_use *u, const char *path, struct stat *st)
{
	char all[512];
	const struct images_status *s = images_status(u);
	(void)snprintf(all, sizeof(all), "%s/%s", s->rootfs, path);
	return lstat(all, st) == 0;
}

#define SKIP                                                                                       \
	do {                                                                                       \
		if (skipped)                                                                       \
			skip();                                                                    \
	} while (0)

static char *login_as(const char *base64)
{
	static char text[256];
	(void)snprintf(text, sizeof(text), "{\"auths\":{\"127.0.0.1:%d\":{\"auth\":\"%s\"}}}",
	               port_closed, base64);
	return text;
}

/* ---- tests ---- */

TEST_WITH(test_pull_gives_files_and_configuration, setup, teardown)
{
	SKIP;
	struct images_use *u = want(name_at(port_open, "team/ordinary:1"));
	assert_int_equal(images_status(u)->state, IMAGES_WAITING);
	assert_int_equal(calls, 0);
	wait_ready(u);
	assert_true(calls > 0);
	const struct images_status *s = images_status(u);
	struct stat st;
	assert_true(in_root(u, "etc/hello", &st));
	assert_int_equal(st.st_uid, geteuid());
	assert_string_equal(s->env[0], "A=1");
	assert_string_equal(s->env[1], "PATH=/bin");
	assert_null(s->env[2]);
	assert_string_equal(s->directory, "/etc");
	assert_int_equal(strncmp(s->digest, "sha256:", 7), 0);
	assert_true(images_status(u)->lock >= 0);
	wait_swept();
	assert_int_equal(entries("tmp"), 0);
	images_release(u);
}

TEST_WITH(test_pull_is_shared_and_unpacked_once, setup, teardown)
{
	SKIP;
	struct images_use *a = want(name_at(port_open, "team/ordinary:1"));
	struct images_use *b = want(name_at(port_open, "team/ordinary:1"));
	struct images_use *c = want(name_at(port_open, "team/again:2"));
	run_some();
	assert_int_equal(m->running, 2);
	wait_ready(a);
	wait_ready(b);
	wait_ready(c);
	assert_int_equal(entries("unpacked"), 1);
	assert_string_equal(images_status(a)->rootfs, images_status(c)->rootfs);
	assert_string_equal(images_status(a)->digest, images_status(c)->digest);
	assert_int_equal(calls > 3, true);
	/* Another login has to ask the registry again, and so has another server for a tag. */
	struct images_use *d = want_as(name_at(port_open, "team/ordinary:1"), login_as("eDp5"));
	assert_int_equal(images_status(d)->state, IMAGES_WAITING);
	wait_ready(d);
	FREE_AUTO char *exact =
	    xasprintf("%s@%s", name_at(port_open, "team/again"), images_status(c)->digest);
	images_free(m);
	open_images(MUCH);
	a = want(exact);
	assert_int_equal(images_status(a)->state, IMAGES_READY);
	a = want(name_at(port_open, "team/again:2"));
	assert_int_equal(images_status(a)->state, IMAGES_WAITING);
	wait_ready(a);
	assert_int_equal(entries("unpacked"), 1);
}

/* The name means an image that is there, as if it had been pulled. */
static void plant(const char *name, const char *digest)
{
	struct images_use *u = want(name);
	const struct images_item *p = TAILQ_LAST(&m->items, images_items);
	FREE_AUTO char *ref = xasprintf("%s/refs/%s", store, p->key);
	assert_int_equal(symlink(digest + strlen("sha256:"), ref), 0);
	images_release(u);
}

TEST_WITH(test_pulled_images_need_no_registry, setup, teardown)
{
	SKIP;
	struct images_use *u = want(name_at(port_open, "team/ordinary:1"));
	wait_ready(u);
	char digest[80];
	(void)snprintf(digest, sizeof(digest), "%s", images_status(u)->digest);
	assert_null(images_status(u)->note);
	/* An image by digest needs no request; with another login it does. */
	FREE_AUTO char *exact = xasprintf("%s@%s", name_at(port_open, "team/ordinary"), digest);
	u = want_as(exact, "");
	assert_int_equal(images_status(u)->state, IMAGES_READY);
	u = want_as(exact, login_as("eDp5"));
	assert_int_equal(images_status(u)->state, IMAGES_WAITING);
	/* An image by tag needs a request; no server listens at port 1. */
	plant(name_at(1, "team/ordinary:1"), digest);
	plant(name_at(port_open, "team/gone:1"), digest);
	plant(name_at(port_closed, "team/ordinary:1"), digest);
	u = want(name_at(1, "team/ordinary:1"));
	assert_int_equal(images_status(u)->state, IMAGES_WAITING);
	struct images_use *unknown = want(name_at(1, "team/again:2"));
	/* An image that the registry lacks, or refuses to this login, is not used. */
	struct images_use *gone = want(name_at(port_open, "team/gone:1"));
	struct images_use *refused = want(name_at(port_closed, "team/ordinary:1"));
	wait_ready(u);
	assert_non_null(strstr(images_status(u)->note, "/team/ordinary:1: "));
	assert_non_null(strstr(images_status(u)->note, digest));
	assert_int_equal(wait_for(unknown), IMAGES_FAILED);
	assert_int_equal(wait_for(gone), IMAGES_FAILED);
	assert_int_equal(wait_for(refused), IMAGES_FAILED);
}

TEST_WITH(test_pull_reports_an_image_that_is_absent, setup, teardown)
{
	SKIP;
	struct images_use *absent = want(name_at(port_open, "team/ordinary:nope"));
	struct images_use *u = want("127.0.0.1:1/team/x");
	assert_int_equal(wait_for(absent), IMAGES_FAILED);
	assert_true(images_status(absent)->absent);
	assert_non_null(strstr(images_status(absent)->text, "manifest unknown"));
	assert_int_equal(wait_for(u), IMAGES_FAILED);
	assert_false(images_status(u)->absent);
	assert_non_null(strstr(images_status(u)->text, "connection refused"));
	u = want("Not An Image");
	assert_int_equal(images_status(u)->state, IMAGES_FAILED);
	assert_true(images_status(u)->absent);
	wait_swept();
	assert_int_equal(entries("tmp"), 0);
}

TEST_WITH(test_pull_refuses_a_damaged_layer, setup, teardown)
{
	SKIP;
	struct images_use *u = want(name_at(port_open, "team/broken:1"));
	assert_int_equal(wait_for(u), IMAGES_FAILED);
	assert_false(images_status(u)->absent);
	assert_non_null(strstr(images_status(u)->text, "team/broken:1 cannot be pulled: "));
	wait_swept();
	assert_int_equal(entries("unpacked") + entries("tmp"), 0);
}

TEST_WITH(test_pull_keeps_hostile_files_inside, setup, teardown)
{
	SKIP;
	struct images_use *u = want(name_at(port_open, "team/hostile:1"));
	wait_ready(u);
	struct stat st;
	for (int i = 1; i <= 4; i++) {
		char path[300];
		(void)snprintf(path, sizeof(path), "/escaped-%d", i);
		assert_int_equal(lstat(path, &st), -1);
		for (const char *dir = store; dir; dir = strcmp(dir, store) == 0 ? home : NULL) {
			(void)snprintf(path, sizeof(path), "%s/escaped-%d", dir, i);
			assert_int_equal(lstat(path, &st), -1);
		}
	}
	assert_true(in_root(u, "outside", &st));
	assert_true(S_ISLNK(st.st_mode));
	assert_true(in_root(u, "setuid", &st));
	assert_int_equal(st.st_uid, geteuid());
	assert_true(in_root(u, "null", &st));
	assert_true(S_ISREG(st.st_mode));
	assert_false(in_root(u, "gone", &st));
	assert_false(in_root(u, "full/x", &st));
	assert_true(in_root(u, "many/2999", &st));
	images_release(u);
	/* Removal, in steps, follows nothing. */
	m->limit = 0;
	assert_int_equal(images_make_room(m, "", no_err()), 0);
	unsigned steps = 0;
	do {
		(void)images_run_once(m);
		steps++;
	} while (m->sweeping);
	assert_true(steps > 3);
	assert_int_equal(entries("unpacked") + entries("tmp"), 0);
}

TEST_WITH(test_limit_removes_unused_images, setup, teardown)
{
	SKIP;
	m->limit = 26 << 20;
	struct images_use *small = want(name_at(port_open, "team/ordinary:1"));
	wait_ready(small);
	images_release(small);
	struct images_use *large = want(name_at(port_open, "team/large:1"));
	wait_ready(large);
	assert_int_equal(entries("unpacked"), 2);
	/* There is room for 2 MiB; the hostile one has a few more in small files. */
	struct images_use *other = want(name_at(port_open, "team/hostile:1"));
	assert_true(wait_for(other) >= IMAGES_READY);
	struct images_use *kept = want(name_at(port_open, "team/large:1"));
	wait_ready(kept);
	images_release(kept);
	images_release(other);
	/* A shim uses the image: it only holds the lock. */
	int shim = dup(images_status(large)->lock);
	images_release(large);
	m->limit = 0;
	assert_int_equal(images_make_room(m, "", no_err()), -1);
	assert_int_equal(entries("unpacked"), 1);
	(void)close(shim);
	assert_int_equal(images_make_room(m, "", no_err()), 0);
	assert_int_equal(entries("unpacked"), 0);
}

TEST_WITH(test_limit_refuses_an_image_that_is_too_large, setup, teardown)
{
	SKIP;
	m->limit = 10 << 20;
	struct images_use *u = want(name_at(port_open, "team/large:1"));
	assert_int_equal(wait_for(u), IMAGES_FAILED);
	assert_non_null(strstr(images_status(u)->text, " GB for images"));
}

TEST_WITH(test_queue_of_pulls_is_bounded, setup, teardown)
{
	SKIP;
	struct images_use *many[1001];
	for (int i = 0; i < 1001; i++) {
		FREE_AUTO char *name = xasprintf("team/ordinary:%d", i + 1);
		many[i] = want(name_at(port_open, name));
	}
	(void)images_run_once(m);
	assert_non_null(strstr(images_status(many[0])->text, "pulling the image "));
	assert_non_null(strstr(images_status(many[2])->text, "waiting for other images"));
	assert_int_equal(images_status(many[999])->state, IMAGES_WAITING);
	assert_int_equal(images_status(many[1000])->state, IMAGES_FAILED);
	for (int i = 1; i < 1001; i++)
		images_release(many[i]);
	wait_ready(many[0]);
}

TEST_WITH(test_release_stops_the_pull, setup, teardown)
{
	SKIP;
	struct images_use *u = want(name_at(port_open, "team/large:1"));
	struct images_use *shared = want(name_at(port_open, "team/large:1"));
	(void)images_run_once(m);
	assert_int_equal(m->running, 1);
	images_release(u);
	assert_int_equal(m->running, 1);
	images_release(shared);
	assert_int_equal(m->running, 0);
	wait_swept();
	assert_int_equal(entries("unpacked") + entries("tmp"), 0);
	/* The pull starts again from the beginning. */
	u = want(name_at(port_open, "team/large:1"));
	wait_ready(u);
}

TEST_WITH(test_pull_has_a_time_limit, setup, teardown)
{
	SKIP;
	struct images_use *u = want(name_at(port_open, "team/large:1"));
	(void)images_run_once(m);
	TAILQ_FIRST(&m->items)->until_ms = m->look_ms = 0;
	assert_int_equal(wait_for(u), IMAGES_FAILED);
	assert_non_null(strstr(images_status(u)->text, "more than 3600 s"));
}

static void remove_all(void)
{
	m->limit = 0;
	assert_int_equal(images_make_room(m, "", no_err()), 0);
	m->limit = MUCH;
}

static void pull_and_be_killed(const char *at)
{
	struct images_use *u;
	for (;;) { /* again, if that moment was over before it was looked at */
		u = want(name_at(port_open, "team/large:1"));
		do {
			m->look_ms = 0;
			(void)images_run_once(m);
			if (strstr(images_status(u)->text, at) != NULL)
				(void)raise(SIGKILL);
		} while (images_status(u)->state < IMAGES_READY);
		images_release(u);
		remove_all();
	}
}

TEST_WITH(test_killed_server_leaves_no_half_image, setup, teardown)
{
	SKIP;
	static const char *const TIMES[] = { "pulling", " MB", "unpacking" };
	for (size_t i = 0, tries = 0; i < 3 && tries < 20; tries++) {
		pid_t child = fork();
		if (child == 0)
			pull_and_be_killed(TIMES[i]);
		int status;
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		assert_true(entries("tmp") > 0);
		i += entries("unpacked") == 0;
		remove_all(); /* it had become whole while the server was killed: once more */
	}
	assert_int_equal(entries("unpacked"), 0);
	images_free(m);
	open_images(MUCH);
	/* Its children end a moment later. */
	int64_t until = clock_ms() + WAIT_MS;
	while (entries("tmp") > 0 && clock_ms() < until) {
		m->sweeping = true;
		run_some();
	}
	assert_int_equal(entries("tmp"), 0);
	wait_ready(want(name_at(port_open, "team/large:1")));
}

TEST_WITH(test_list_of_manifests_gives_the_own_architecture, setup, teardown)
{
	SKIP;
	struct images_use *u = want(name_at(port_open, "team/list:1"));
	struct stat st;
	wait_ready(u);
	assert_true(in_root(u, "etc/hello", &st));
	assert_false(in_root(u, "outside", &st));
	assert_string_equal(images_status(u)->directory, "/etc");
}

/* ---- what registries send ---- */

TEST_WITH(test_config_of_any_form_does_no_harm, setup, teardown)
{
	static const char *const CASES[] = {
		"",
		"{}",
		"[1]",
		"{\"config\":3}",
		"{\"config\":{\"Env\":[1,\"x\",null]}}",
		"{\"config\":{\"WorkingDir\":\"../x\"}}",
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct images_status s;
		images_config_read(span_of(CASES[i]), &unit.a, &s);
		assert_null(s.env);
		assert_null(s.directory);
	}
}

TEST_WITH(test_log_of_a_failed_pull_gives_the_reason, setup, teardown)
{
	static const char *const CASES[][2] = {
		{ "", "it gives no reason" },
		{ "time=\"x\" level=warning msg=\"first\"\ntime=\"x\" level=fatal msg=\"a "
		  "\\\"b\\\" c\"\n",
		  "a \"b\" c" },
		{ "   x unpack: no space\n\n", "x unpack: no space" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		assert_string_equal(images_pull_reason(span_of(CASES[i][0]), &unit.a), CASES[i][1]);
	}
}

/* clang-format on */

TEST_GROUP(group_setup, group_teardown)
