/* The specification, and the start of a container's command. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime-assets/cmdline.h"

enum { NOT_STARTED = 126, NOT_FOUND = 127 };

/* ---- the specification ----------------------------------------------------------------------- */

/* Reads a file of texts that end with NUL.  NULL-terminated; NULL and errno. */
static char **texts_read(int fd, struct arena *a)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return NULL;
	if (st.st_size > SHIM_SPEC_MAX) {
		errno = EFBIG;
		return NULL;
	}
	char *text = arena_zero(a, 1, (size_t)st.st_size + 1);
	if (pread(fd, text, (size_t)st.st_size, 0) < 0)
		return NULL;
	char *end = text + st.st_size;
	size_t n = 0;
	for (const char *p = text; p < end; p += strlen(p) + 1)
		n++;
	char **list = ARENA_NEW(a, char *, n + 1);
	for (size_t i = 0; i < n; i++) {
		list[i] = text;
		text += strlen(text) + 1;
	}
	return list;
}

static int shim_open_file(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

int shim_spec_read(int dir, struct shim_spec *s, struct arena *a, struct err *e)
{
	enum { VERSION, GRACE, WRAPPED, CGROUP, MESSAGE, TEXTS = MESSAGE + SHIM_CONTAINERS };
	FD_AUTO fd = shim_open_file(dir, "spec");
	char **text = texts_read(fd, a);
	if (!text)
		return err_set(e, FAILED, "cannot read the file spec: %s", strerror(errno));
	if (!text[VERSION] || strcmp(text[VERSION], "shim 2") != 0)
		return err_set(e, FAILED, "the file spec is that of another version");
	for (int i = 0; i < TEXTS; i++) {
		if (!text[i])
			return err_set(e, FAILED, "the file spec is not complete");
	}
	*s = (struct shim_spec){ 0, *text[WRAPPED] != '\0', text[CGROUP], { 0 } };
	for (int i = 0; i < SHIM_CONTAINERS; i++)
		s->message[i] = text[MESSAGE + i];
	if (parse_i64(span_of(text[GRACE]), 0, INT32_MAX, &s->grace_s))
		return err_set(e, FAILED, "the file spec has an invalid grace period");
	return *s->message[SHIM_APP] ? 0 : err_set(e, FAILED, "the file spec has no container app");
}

/* ---- in the new process ---------------------------------------------------------------------- */

/* Never returns: the process that should have become the command ends. */
static _Noreturn void shim_refuse(int report, const char *what, const char *why, int code)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "E%.300s: %.150s", what, why);
	if (n > 0)
		(void)fd_write_all(report, (struct span){ text, strlen(text) });
	_exit(code);
}

static void shim_join_cgroup(const char *cgroup, int report)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	FD_AUTO fd = n < (int)sizeof(path) ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	if (fd < 0 || fd_write_all(fd, SPAN("0")))
		shim_refuse(report, path, strerror(errno), NOT_STARTED);
}

int shim_fd_up(int fd)
{
	int up = fcntl(fd, F_DUPFD_CLOEXEC, SHIM_STATUS_FD + 1);
	fd_cleanup(&fd);
	return up;
}

_Noreturn void shim_child(int dir, enum shim_container which, const char *cgroup,
                          const struct shim_streams *s)
{
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	char *wrap_env[] = { path, NULL, NULL }; /* `shim --exec` replaces it */
	ARENA_AUTO a = { 0 };
	char name[32];
	(void)snprintf(name, sizeof(name), "%s.argv", SHIM_NAMES[which]);
	FD_AUTO words = shim_open_file(dir, name);
	char **argv = texts_read(words, &a);
	if (!argv || !argv[0])
		shim_refuse(s->report, name, argv ? "it is empty" : strerror(errno), NOT_STARTED);
	(void)snprintf(name, sizeof(name), "%s.env", SHIM_NAMES[which]);
	int env = shim_fd_up(shim_open_file(dir, name));
	/* If this process is killed while it makes the sandbox, bubblewrap's child can be left.  By
	 * the uid it is found. */
	for (char **v = texts_read(env, &a); v && *v; v++) {
		if (span_starts(span_of(*v), "FC_POD_UID="))
			wrap_env[1] = *v;
	}
	if (*cgroup)
		shim_join_cgroup(cgroup, s->report);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (dup2(env, SHIM_ENV_FD) < 0 || dup2(s->status, SHIM_STATUS_FD) < 0 ||
	    dup2(s->report, SHIM_REPORT_FD) < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(s->out, STDOUT_FILENO) < 0 || dup2(s->err, STDERR_FILENO) < 0)
		shim_refuse(s->report, "cannot pass the descriptors on", strerror(errno),
		            NOT_STARTED);
	umask(022);
	(void)execve(argv[0], argv, wrap_env);
	shim_refuse(s->report, argv[0], strerror(errno), NOT_STARTED);
}

/* ---- in the sandbox -------------------------------------------------------------------------- */

/* DEVICE:INODE:PATH: is this what was to be mounted there? */
static bool exec_is_same(const char *text)
{
	int64_t device;
	int64_t inode;
	struct stat st;
	struct span rest = span_of(text);
	bool read = parse_i64(span_next(&rest, ':'), 0, INT64_MAX, &device) == 0 &&
	            parse_i64(span_next(&rest, ':'), 0, INT64_MAX, &inode) == 0;
	return read && stat(rest.p, &st) == 0 && st.st_dev == (dev_t)device &&
	       st.st_ino == (ino_t)inode;
}

int shim_exec_main(int argc, char **argv)
{
	ARENA_AUTO a = { 0 };
	int command = 3;
	while (command < argc && strcmp(argv[command], "--") != 0)
		command++;
	if (++command >= argc)
		return args_misused(argv[0], NULL), 2;
	char **env = texts_read(SHIM_ENV_FD, &a);
	if (!env)
		shim_refuse(SHIM_REPORT_FD, "cannot read the environment", strerror(errno),
		            NOT_STARTED);
	if (chdir(argv[2]) != 0)
		shim_refuse(SHIM_REPORT_FD, argv[2], strerror(errno), NOT_STARTED);
	for (int i = 3; i < command - 1; i++) {
		if (!exec_is_same(argv[i]))
			shim_refuse(SHIM_REPORT_FD, argv[i], "another directory is there now",
			            NOT_STARTED);
	}
	(void)close(SHIM_ENV_FD);
	(void)close(SHIM_STATUS_FD);
	(void)fcntl(SHIM_REPORT_FD, F_SETFD, FD_CLOEXEC);
	(void)fd_write_all(SHIM_REPORT_FD, SPAN("S"));
	environ = env;
	(void)execvp(argv[command], argv + command); /* by PATH of this environment */
	shim_refuse(SHIM_REPORT_FD, argv[command], strerror(errno),
	            errno == ENOENT || errno == ENOTDIR ? NOT_FOUND : NOT_STARTED);
}
