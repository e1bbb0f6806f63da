/* Reads files with bounds, replaces files by renames, and matches patterns of names. */
#include "runtime-assets/common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"

static int file_failed(struct err *e, const char *what, const char *path)
{
	return err_set(e, FAILED, "%s %s: %s", what, path, strerror(errno));
}

int file_open(const char *path, int flags)
{
	int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
	struct stat st;
	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

int file_write(const char *path, struct span text, mode_t mode, struct err *e)
{
	char temporary[PATH_MAX];
	char random[17];
	random_hex(random, 8);
	int n = snprintf(temporary, PATH_MAX, "%s.%s.tmp", path, random);
	errno = ENAMETOOLONG;
	int fd = n < 0 || n >= PATH_MAX
	             ? -1
	             : open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return file_failed(e, "cannot write", path);
	bool ok = fd_write_all(fd, text) == 0 && fchmod(fd, mode) == 0;
	int error = errno; /* the first failure is reported */
	bool closed = close(fd) == 0;
	if (ok)
		error = errno;
	if (ok && closed && rename(temporary, path) == 0)
		return 0;
	if (ok && closed)
		error = errno;
	(void)unlink(temporary);
	errno = error;
	return file_failed(e, "cannot write", path);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int file_read(const char *path, enum file_kind kind, size_t max, struct arena *a, struct span *text,
              struct err *e)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	FD_AUTO fd = open(path, flags | (kind == FILE_THEIRS ? O_NOFOLLOW : 0));
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		*text = SPAN("");
		return 1;
	}
	if (fd < 0)
		return file_failed(e, "cannot read", path);
	struct stat st;
	if (fstat(fd, &st) != 0)
		return file_failed(e, "cannot read", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, FAILED, "cannot read %s: it is no regular file", path);
	STR_AUTO all = STR_SECRET(max);
	(void)str_reserve(&all, (size_t)st.st_size < max ? (size_t)st.st_size : max);
	if (fd_read_all(fd, &all)) {
		if (all.full)
			return err_set(e, FAILED, "cannot read %s: it has more than %zu bytes",
			               path, max);
		return file_failed(e, "cannot read", path);
	}
	*text = arena_span(a, str_view(&all));
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int file_need(const char *path, enum file_kind kind, size_t max, struct arena *a, struct span *text,
              struct err *e)
{
	int got = file_read(path, kind, max, a, text, e);
	return got > 0 ? err_set(e, FAILED, "%s is not there", path) : got;
}

struct span file_text(const char *path, enum file_kind kind, size_t max, struct arena *a)
{
	ERR_AUTO ignored = { 0 };
	struct span text;
	return file_read(path, kind, max, a, &text, &ignored) == 0 ? text : SPAN("");
}

int dir_make(const char *path, mode_t mode, struct err *e)
{
	char part[PATH_MAX];
	size_t n = strlen(path);
	if (n >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return file_failed(e, "cannot make directory", path);
	}
	memcpy(part, path, n + 1);
	if (dir_make_all(part, 0755) < 0)
		return file_failed(e, "cannot make directory", part);
	FD_AUTO fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return file_failed(e, "cannot make directory", path);
	struct stat st;
	if (fstat(fd, &st) == 0 && (st.st_mode & 07777) == mode)
		return 0;
	return fchmod(fd, mode) == 0 ? 0 : file_failed(e, "cannot set the mode of", path);
}

void file_disable_core_dumps(void)
{
	/* The kernel starts the program in core_pattern for a limit of 0, but not of 1. */
	static const struct rlimit NONE = { 1, 1 };
	(void)setrlimit(RLIMIT_CORE, &NONE);
}

const char *path_join(struct arena *a, const char *dir, const char *name)
{
	return arena_printf(a, "%s/%s", dir, name);
}

/* A variable whose value can name a directory; NULL. */
static const char *directory_name(const char *variable)
{
	const char *name = getenv(variable);
	bool good = name && *name && *name != '.' && strlen(name) <= 128 &&
	            span_only_alnum_or(span_of(name), "._-");
	return good ? name : NULL;
}

void layout_init(struct layout *l, const char *root, struct arena *a)
{
	*l = (struct layout){
		.root = arena_dup(a, span_of(root)),
		.work = path_join(a, root, "usr/local/pai"),
		.program = path_join(a, root, "usr/local/pai/runtime"),
		.runtime_d = path_join(a, root, "usr/local/pai/runtime.d"),
		.framework = path_join(a, root, "usr/local/pai/framework.json"),
		.ssh_secret = path_join(a, root, "usr/local/pai/ssh-secret"),
		.code = path_join(a, root, "usr/local/pai/code"),
		.parts = path_join(a, root, "usr/local/pai-code"),
		.config = path_join(a, root, "usr/local/pai-config"),
		.secrets = path_join(a, root, "usr/local/pai/secrets/secrets.yaml"),
		.extension = path_join(a, root,
		                       "usr/local/pai/user-extension-secrets/"
		                       "userExtensionSecrets.yaml"),
		.account = path_join(a, root, "var/run/secrets/kubernetes.io/serviceaccount"),
		.output = path_join(a, root, "var/run/secrets/rest-lit"),
		.termination = path_join(a, root, "tmp/pai-termination-log"),
		.init_termination = path_join(a, root, "dev/termination-log"),
		.passwd_home = path_join(a, root, "root"),
	};
	const char *pod = directory_name("FC_POD_UID");
	if (!pod)
		pod = directory_name("HOSTNAME");
	l->logs = arena_printf(a, "%s/logs/%s", l->work, pod ? pod : "task");
}

/* Returns true if c is in the set at *pattern, a '['. Moves *pattern behind it. */
static bool glob_set(const char **pattern, unsigned char c)
{
	const char *p = *pattern + 1;
	bool negated = *p == '!' || *p == '^';
	bool found = false;
	p += negated;
	for (const char *first = p; *p && (*p != ']' || p == first); p++) {
		unsigned char from = (unsigned char)*p;
		if (p[1] == '-' && p[2] && p[2] != ']')
			p += 2;
		found |= c >= from && c <= (unsigned char)*p;
	}
	if (*p == '\0')
		return false;
	*pattern = p + 1;
	return found != negated;
}

/* Matches one character of the pattern, not '*'; moves *pattern behind it. */
static bool glob_one(const char **pattern, char c)
{
	const char *p = *pattern;
	if (*p == '\0' || c == '\0')
		return false;
	if (*p == '[')
		return glob_set(pattern, (unsigned char)c);
	bool quoted = *p == '\\' && p[1];
	p += quoted;
	*pattern = p + 1;
	return *p == c || (*p == '?' && !quoted);
}

bool glob_matches(const char *pattern, const char *name)
{
	const char *star = NULL; /* behind the last '*' */
	const char *rest = NULL; /* of the name, behind what that matches */
	while (*pattern || *name) {
		if (*pattern == '*') {
			star = ++pattern;
			rest = name;
		} else if (glob_one(&pattern, *name)) {
			name++;
		} else if (star && *rest) {
			pattern = star;
			name = ++rest;
		} else {
			return false;
		}
	}
	return true;
}
