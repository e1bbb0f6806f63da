/*
 * Do the GPUs report memory errors that could not be corrected?  `nvidia-smi -q -x` is asked, which
 * writes XML.  Only these elements are looked at, all of them since the last boot:
 *
 *   gpu/ecc_errors/volatile/double_bit/total              drivers before Ampere
 *   gpu/ecc_errors/volatile/{sram,dram}_uncorrectable...  since then
 *
 * In a container without GPUs there is no such program; then there are no errors.  What stands at
 * its place in an image may write anything, at any length, or never end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime-assets/exit/exit_inner.h"
#include "runtime-assets/files.h"
#include "runtime-assets/net/http.h"

enum { OUTPUT_MAX = 4 << 20, WAIT_MS = 1000, KILLED_MS = 200, DEPTH_MAX = 32 };

/* ---- its output ------------------------------------------------------------------------- */

/* The elements that are open, outermost first; those nested deeper are only counted. */
struct elements {
	struct span name[DEPTH_MAX];
	size_t n;
};

static struct span element(const struct elements *e, size_t from_inside)
{
	if (e->n > DEPTH_MAX || e->n <= from_inside)
		return SPAN("");
	return e->name[e->n - 1 - from_inside];
}

static bool is_in(const struct elements *e, size_t inside, const char *const *names)
{
	for (size_t i = 0; names[i]; i++) {
		if (!span_is(element(e, inside + i), names[i]))
			return false;
	}
	return true;
}

/* Does the text here count errors? */
static bool counts_errors(const struct elements *e)
{
	static const char *const VOLATILE[] = { "volatile", "ecc_errors", "gpu", NULL };
	static const char *const DOUBLE_BIT[] = { "total",      "double_bit", "volatile",
		                                  "ecc_errors", "gpu",        NULL };
	static const char *const UNCORRECTABLE[] = { "sram_uncorrectable",
		                                     "sram_uncorrectable_parity",
		                                     "sram_uncorrectable_secded",
		                                     "dram_uncorrectable", NULL };
	if (is_in(e, 0, DOUBLE_BIT))
		return true;
	for (size_t i = 0; UNCORRECTABLE[i]; i++) {
		if (span_is(element(e, 0), UNCORRECTABLE[i]))
			return is_in(e, 1, VOLATILE);
	}
	return false;
}

/* Behind the `<` at `at`: where the tag, comment or declaration ends. */
static size_t tag_end(struct span xml, size_t at)
{
	struct span rest = { xml.p + at, xml.n - at };
	const char *close = span_starts(rest, "!--") ? "-->" : ">";
	size_t end = span_find(xml, at, close);
	return end == SIZE_MAX ? xml.n : end + strlen(close);
}

static size_t name_length(struct span tag)
{
	size_t n = 0;
	while (n < tag.n && !strchr(" \t\r\n/>", tag.p[n]))
		n++;
	return n;
}

static void enter(struct elements *e, struct span name)
{
	if (e->n < DEPTH_MAX)
		e->name[e->n] = name;
	e->n++;
}

/* Take a tag (what stands between < and >) into account. */
static void take_tag(struct elements *e, struct span tag)
{
	if (tag.n == 0 || tag.p[0] == '!' || tag.p[0] == '?')
		return;
	if (tag.p[0] == '/')
		e->n -= e->n > 0;
	else if (tag.p[tag.n - 1] != '/')
		enter(e, (struct span){ tag.p, name_length(tag) });
}

bool ecc_errors_in(struct span xml)
{
	struct elements open = { 0 };
	for (size_t at = 0; at < xml.n;) {
		size_t tag = span_find(xml, at, "<");
		if (tag == SIZE_MAX)
			break;
		int64_t count;
		struct span text = span_trim((struct span){ xml.p + at, tag - at });
		if (counts_errors(&open) && parse_i64(text, 0, INT64_MAX, &count) == 0 && count > 0)
			return true;
		at = tag_end(xml, tag + 1);
		if (at - tag >= 2)
			take_tag(&open, (struct span){ xml.p + tag + 1, at - tag - 2 });
	}
	return false;
}

/* ---- asking ------------------------------------------------------------------------------- */

/* Not by the PATH of the image: there could be anything in it. */
static const char *const PLACES[] = { "/usr/bin", "/usr/local/nvidia/bin", "/usr/local/bin", "/bin",
	                              "/usr/sbin" };

/* NULL if there is none. */
static const char *find_program(const char *root, struct arena *a)
{
	for (size_t i = 0; i < sizeof(PLACES) / sizeof(*PLACES); i++) {
		const char *path = arena_printf(a, "%s%s/nvidia-smi", root, PLACES[i]);
		struct stat st;
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return path;
	}
	return NULL;
}

/* Start it in a process group of its own, with its output in the pipe; 0 or an errno. */
static int start(const char *path, int out, struct arena *a, pid_t *pid)
{
	char *argv[] = { arena_dup(a, SPAN("nvidia-smi")), arena_dup(a, SPAN("-q")),
		         arena_dup(a, SPAN("-x")), NULL };
	char *env[3] = { arena_dup(
	    a, SPAN("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")) };
	const char *libraries = getenv("LD_LIBRARY_PATH"); /* where some images have the driver's */
	if (libraries)
		env[1] = arena_printf(a, "LD_LIBRARY_PATH=%s", libraries);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	sigset_t standard;
	(void)sigemptyset(&none);
	(void)sigfillset(&standard);
	int rc = posix_spawn_file_actions_init(&files);
	if (rc != 0)
		return rc;
	rc = posix_spawnattr_init(&attr);
	if (rc == 0) {
		(void)posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
		(void)posix_spawn_file_actions_adddup2(&files, out, 1);
		(void)posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
		(void)posix_spawnattr_setpgroup(&attr, 0);
		(void)posix_spawnattr_setsigmask(&attr, &none);
		(void)posix_spawnattr_setsigdefault(&attr, &standard);
		(void)posix_spawnattr_setflags(
		    &attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
		rc = posix_spawn(pid, path, &files, &attr, argv, env);
		(void)posix_spawnattr_destroy(&attr);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return rc;
}

/* Read until the end, the time limit or OUTPUT_MAX; true at the end. */
static bool read_all(int fd, int64_t until_ms, struct str *out)
{
	char buffer[16384];
	for (;;) {
		int64_t left = until_ms - clock_ms();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		if (left <= 0 || out->full)
			return false;
		int ready = poll(&p, 1, (int)(left < WAIT_MS ? left : WAIT_MS));
		if (ready <= 0) {
			if (ready == 0 || errno == EINTR)
				continue;
			return false;
		}
		ssize_t n = read(fd, buffer, sizeof(buffer));
		if (n == 0)
			return true;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (n > 0)
			str_put(out, buffer, (size_t)n);
	}
}

/* Has it ended by then? */
static bool wait_for(pid_t pid, int64_t until_ms, int *status)
{
	for (;;) {
		pid_t got = waitpid(pid, status, WNOHANG);
		if (got == pid)
			return true;
		if ((got < 0 && errno != EINTR) || clock_ms() >= until_ms)
			return false;
		clock_sleep_until(clock_ms() + 2);
	}
}

/* Wait for it until then, kill it and what it started afterwards.  true: it ended well by itself.
 * One that hangs in the driver cannot even be killed; it is not waited for. */
static bool finish(pid_t pid, int64_t until_ms)
{
	int status;
	bool ended = wait_for(pid, until_ms, &status);
	(void)kill(-pid, SIGKILL); /* at worst there is nobody left */
	if (!ended) {
		(void)wait_for(pid, clock_ms() + KILLED_MS, &status);
		return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool ecc_errors(const char *root, int64_t deadline_ms)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO xml = STR_INIT(OUTPUT_MAX);
	int64_t until_ms = clock_ms() + WAIT_MS;
	const char *path = find_program(root, &a);
	int ends[2];
	pid_t pid;
	if (!path || pipe2(ends, O_CLOEXEC) != 0)
		return false;
	FD_AUTO in = ends[0];
	int failed = start(path, ends[1], &a, &pid);
	close(ends[1]);
	if (failed)
		return false;
	if (until_ms > deadline_ms)
		until_ms = deadline_ms;
	bool complete = read_all(in, until_ms, &xml);
	return finish(pid, complete ? until_ms : 0) && complete && ecc_errors_in(str_view(&xml));
}
