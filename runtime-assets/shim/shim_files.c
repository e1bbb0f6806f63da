/* Files of the shim: who runs here, the state, the termination message. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/process.h"

enum { STATE_MAX = 64 << 10 };

const char *const SHIM_NAMES[SHIM_CONTAINERS] = { "init", "app" };

/* ---- reading --------------------------------------------------------------------------------- */

/* Opens a file below the directory; no part of the path is followed if it is a link. */
static int shim_open_below(int dir, const char *path, int flags)
{
	struct span rest = span_of(path);
	int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	while (at >= 0 && rest.n > 0) {
		char name[256];
		struct span part = span_next(&rest, '/');
		int kind = rest.n ? O_DIRECTORY | O_PATH : flags;
		int next = -1;
		if (part.n < sizeof(name) && !span_is(part, "..")) {
			memcpy(name, part.p, part.n);
			name[part.n] = '\0';
			next = openat(at, name, kind | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		}
		close(at);
		at = next;
	}
	return at;
}

void shim_message_read(int dir, const char *path, struct shim_result *r)
{
	struct stat st;
	if (!*path)
		return;
	FD_AUTO fd = shim_open_below(dir, path, O_RDONLY | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	ssize_t n = read(fd, r->message, SHIM_MESSAGE_MAX);
	r->message_n = n > 0 ? (size_t)n : 0;
}

/* ---- claiming -------------------------------------------------------------------------------- */

static int shim_file_put(int dir, const char *name, struct span text, bool sync)
{
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	FD_AUTO fd = openat(dir, name, flags, 0600);
	if (fd < 0 || fd_write_all(fd, text))
		return -1;
	return sync ? fsync(fd) : 0;
}

/* Space for the last state, should the disk be full by then. */
static void shim_reserve(int dir)
{
	char zeroes[4096] = { 0 };
	FD_AUTO fd = openat(dir, "state.reserve", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool made = fd >= 0 && fallocate(fd, 0, 0, STATE_MAX) == 0; /* not every file system can */
	for (size_t n = 0; fd >= 0 && !made && n < STATE_MAX; n += sizeof(zeroes)) {
		if (fd_write_all(fd, (struct span){ zeroes, sizeof(zeroes) }))
			return;
	}
}

int shim_claim(int dir, struct err *e)
{
	/* Not closed: the lock is held until the process ends. */
	int lock = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0)
		return err_set(e, FAILED, "cannot create the file lock: %s", strerror(errno));
	if (flock(lock, LOCK_EX | LOCK_NB) != 0)
		return err_set(e, FAILED, "another shim runs here");
	if (faccessat(dir, "shim", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, FAILED, "a shim has run here before");
	char identity[PROCESS_IDENTITY_MAX];
	process_identity(getpid(), identity);
	if (shim_file_put(dir, "shim.new", span_of(identity), false) ||
	    renameat(dir, "shim.new", dir, "shim") != 0)
		return err_set(e, FAILED, "cannot write the file shim: %s", strerror(errno));
	shim_reserve(dir);
	return 0;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* Bytes that are not UTF-8 become `?`. */
static void shim_json_message(struct str *out, const struct shim_result *r)
{
	struct span rest = { r->message, r->message_n };
	str_char(out, '"');
	while (rest.n > 0) {
		size_t good = utf8_check(rest);
		str_json_text(out, span_to(rest, good));
		rest = span_from(rest, good);
		if (rest.n == 0)
			break;
		str_char(out, '?');
		rest = span_from(rest, 1);
	}
	str_char(out, '"');
}

static void shim_result_put(struct str *out, const char *name, const struct shim_result *r)
{
	str_printf(out,
	           ",\"%s\":{\"started\":%s,\"ended\":%s,\"code\":%d,\"signal\":%d,"
	           "\"startedMs\":%lld,\"endedMs\":%lld,\"reason\":\"%s\",\"message\":",
	           name, r->started ? "true" : "false", r->ended ? "true" : "false", r->code,
	           r->signal, (long long)r->started_ms, (long long)r->ended_ms,
	           r->reason ? r->reason : "");
	shim_json_message(out, r);
	str_char(out, '}');
}

/* Overwrites the reserve, whose blocks exist. */
static int shim_reserve_use(int dir, struct span text)
{
	FD_AUTO fd = openat(dir, "state.reserve", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fd_write_all(fd, text) || ftruncate(fd, (off_t)text.n) || fsync(fd))
		return -1;
	return renameat(dir, "state.reserve", dir, "state");
}

int shim_state_write(int dir, const struct shim_state *s, bool final)
{
	STR_AUTO text = STR_INIT(STATE_MAX);
	str_printf(&text, "{\"phase\":\"%s\",\"stopped\":%s", s->phase,
	           s->stopped ? "true" : "false");
	for (int i = 0; i < SHIM_CONTAINERS; i++)
		shim_result_put(&text, SHIM_NAMES[i], &s->of[i]);
	str_puts(&text, "}\n");
	if (shim_file_put(dir, "state.new", str_view(&text), final) == 0 &&
	    renameat(dir, "state.new", dir, "state") == 0) {
		if (final)
			(void)unlinkat(dir, "state.reserve", 0);
		return final ? fsync(dir) : 0;
	}
	int error = errno;
	(void)unlinkat(dir, "state.new", 0);
	if (final && shim_reserve_use(dir, str_view(&text)) == 0)
		return 0;
	errno = error;
	return -1;
}

/* ---- children -------------------------------------------------------------------------------- */

void shim_kill_children(void)
{
	enum { PARENT = 4 };
	DIR_AUTO *all = dir_list(AT_FDCWD, "/proc");
	pid_t self = getpid();
	for (const char *name; (name = dir_next(all)) != NULL;) {
		int64_t pid;
		if (parse_i64(span_of(name), 2, INT32_MAX, &pid) == 0 &&
		    process_field((pid_t)pid, PARENT) == self)
			(void)kill((pid_t)pid, SIGKILL); /* not reaped yet: still ours */
	}
}
