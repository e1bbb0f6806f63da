/* The specification, and the start of a container's command. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime-assets/cmdline.h"

enum { WORDS_MAX = 40000, NOT_STARTED = 126, NOT_FOUND = 127 };

/* What bubblewrap gets; `shim --exec` replaces it. */
static char wrap_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
static char *const WRAP_ENV[] = { wrap_path, NULL };

/* ---- the head -------------------------------------------------------------------------------- */

/* The value of a record that begins with this word; NULL: it does not. */
static const char *record_value(struct span record, const char *word)
{
	size_t n = strlen(word);
	if (record.n <= n || !span_starts(record, word) || record.p[n] != ' ')
		return NULL;
	return record.p + n + 1;
}

static int shim_head_record(struct span record, struct shim_head *h, struct err *e)
{
	const char *value = record_value(record, "grace");
	if (value && parse_i64(span_of(value), 0, INT32_MAX, &h->grace_s))
		return err_set(e, FAILED, "the file spec has an invalid grace period");
	h->wrapped |= span_is(record, "wrapped");
	for (int i = 0; i < SHIM_CONTAINERS; i++) {
		const char *path = record_value(record, SHIM_NAMES[i]);
		if (path)
			h->message[i] = path;
	}
	return 0;
}

int shim_head_read(int dir, struct shim_head *h, struct arena *a, struct err *e)
{
	char *text = arena_zero(a, 1, SHIM_HEAD_MAX + 1);
	FD_AUTO fd = openat(dir, "spec", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, SHIM_HEAD_MAX) : -1;
	if (n < 0)
		return err_set(e, FAILED, "cannot read the file spec: %s", strerror(errno));
	struct span rest = { text, (size_t)n };
	*h = (struct shim_head){ 0 };
	if (!span_is(span_next(&rest, '\0'), "shim 1"))
		return err_set(e, FAILED, "the file spec is that of another version");
	while (rest.n > 0) {
		struct span record = span_next(&rest, '\0');
		if (record.n == 0)
			return h->message[SHIM_APP]
			           ? 0
			           : err_set(e, FAILED, "the file spec has no container app");
		if (shim_head_record(record, h, e))
			return -1;
	}
	return err_set(e, FAILED, "the head of the file spec has no end");
}

/* ---- the command of a container -------------------------------------------------------------- */

struct shim_command {
	const char *directory, *cgroup; /* NULL */
	char **argv, **env;             /* NULL-terminated */
};

/* Never returns: the process that should have become the command ends. */
static _Noreturn void shim_refuse(int report, const char *what, const char *why, int code)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "E%.300s: %.150s", what, why);
	if (n > 0)
		(void)fd_write_all(report, (struct span){ text, strlen(text) });
	_exit(code);
}

static char *spec_read(int dir, size_t *size, struct arena *a)
{
	FD_AUTO fd = openat(dir, "spec", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
	if (end < 0 || end > SHIM_SPEC_MAX)
		return NULL;
	char *text = arena_alloc(a, (size_t)end + 1);
	for (*size = 0; *size < (size_t)end;) {
		ssize_t n = pread(fd, text + *size, (size_t)end - *size, (off_t)*size);
		if (n <= 0)
			return NULL;
		*size += (size_t)n;
	}
	text[*size] = '\0';
	return text;
}

/* A word of argv or env: text of the specification, which execve does not change. */
static void spec_add(char **list, size_t *n, const char *value)
{
	if (*n < WORDS_MAX)
		memcpy(&list[(*n)++], &value, sizeof(value));
}

/* Finds the container in the specification; false: it is damaged. */
static bool shim_command_read(struct span rest, const char *name, struct shim_command *c,
                              struct arena *a)
{
	size_t args = 0;
	size_t variables = 0;
	bool mine = false;
	*c = (struct shim_command){ .argv = ARENA_NEW(a, char *, WORDS_MAX + 1),
		                    .env = ARENA_NEW(a, char *, WORDS_MAX + 1) };
	while (rest.n > 0) {
		struct span record = span_next(&rest, '\0');
		const char *value = record_value(record, "container");
		if (value)
			mine = strcmp(value, name) == 0;
		if (!mine)
			continue;
		if ((value = record_value(record, "arg")))
			spec_add(c->argv, &args, value);
		else if ((value = record_value(record, "env")))
			spec_add(c->env, &variables, value);
		else if ((value = record_value(record, "directory")))
			c->directory = value;
		else if ((value = record_value(record, "cgroup")))
			c->cgroup = value;
	}
	return args > 0 && args < WORDS_MAX && variables < WORDS_MAX;
}

/* Executes a command that is found by PATH of its environment. */
static _Noreturn void shim_execute(char *const *argv, char *const *env, int report)
{
	memcpy(&environ, &env, sizeof(environ));
	(void)fcntl(report, F_SETFD, FD_CLOEXEC);
	(void)fd_write_all(report, SPAN("S"));
	(void)execvp(argv[0], argv);
	int code = errno == ENOENT || errno == ENOTDIR ? NOT_FOUND : NOT_STARTED;
	shim_refuse(report, argv[0], strerror(errno), code);
}

/* ---- in the new process ---------------------------------------------------------------------- */

static void shim_join_cgroup(const char *cgroup, int report)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	FD_AUTO fd = n < (int)sizeof(path) ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	if (fd < 0 || fd_write_all(fd, SPAN("0")))
		shim_refuse(report, path, strerror(errno), NOT_STARTED);
}

/* The environment for `shim --exec`, in memory. */
static int shim_env_file(char *const *env)
{
	FD_AUTO fd = memfd_create("environment", MFD_CLOEXEC);
	for (; fd >= 0 && *env; env++) {
		if (fd_write_all(fd, (struct span){ *env, strlen(*env) + 1 }))
			return -1;
	}
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, SHIM_STATUS_FD + 1);
}

static void shim_child_streams(const struct shim_streams *s)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (dup2(null, STDIN_FILENO) < 0 || dup2(s->out, STDOUT_FILENO) < 0 ||
	    dup2(s->err, STDERR_FILENO) < 0)
		shim_refuse(s->report, "cannot set up the standard streams", strerror(errno),
		            NOT_STARTED);
}

static _Noreturn void shim_execute_wrapped(const struct shim_command *c,
                                           const struct shim_streams *s)
{
	int env = shim_env_file(c->env);
	if (env < 0 || dup2(env, SHIM_ENV_FD) < 0 || dup2(s->status, SHIM_STATUS_FD) < 0 ||
	    dup2(s->report, SHIM_REPORT_FD) < 0)
		shim_refuse(s->report, "cannot pass the environment on", strerror(errno),
		            NOT_STARTED);
	memcpy(&environ, &(char *const *){ WRAP_ENV }, sizeof(environ));
	(void)execvp(c->argv[0], c->argv);
	shim_refuse(s->report, c->argv[0], strerror(errno), NOT_STARTED);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
_Noreturn void shim_child(int dir, enum shim_container which, bool wrapped,
                          const struct shim_streams *s)
{
	ARENA_AUTO a = { 0 };
	struct shim_command c;
	size_t n = 0;
	char *text = spec_read(dir, &n, &a);
	if (!text || !shim_command_read((struct span){ text, n }, SHIM_NAMES[which], &c, &a))
		shim_refuse(s->report, "the file spec", "it is damaged", NOT_STARTED);
	if (c.cgroup)
		shim_join_cgroup(c.cgroup, s->report);
	shim_child_streams(s);
	umask(022);
	if (wrapped)
		shim_execute_wrapped(&c, s);
	if (chdir(c.directory ? c.directory : "/") != 0)
		shim_refuse(s->report, c.directory ? c.directory : "/", strerror(errno),
		            NOT_STARTED);
	shim_execute(c.argv, c.env, s->report);
}

/* ---- in the sandbox -------------------------------------------------------------------------- */

/* A descriptor of an argument; -1. */
static int exec_descriptor(const char *text)
{
	int64_t fd;
	return parse_i64(span_of(text), 3, 1 << 20, &fd) ? -1 : (int)fd;
}

/* The variables in a file of shim_env_file. */
static char **exec_environment(int fd, struct arena *a)
{
	off_t size = lseek(fd, 0, SEEK_END);
	if (size < 0 || size > SHIM_SPEC_MAX)
		return NULL;
	char *text = arena_zero(a, 1, (size_t)size + 1);
	if (pread(fd, text, (size_t)size, 0) != size)
		return NULL;
	struct span rest = { text, (size_t)size };
	char **env = ARENA_NEW(a, char *, WORDS_MAX + 1);
	size_t n = 0;
	while (rest.n > 0)
		spec_add(env, &n, span_next(&rest, '\0').p);
	return env;
}

int shim_exec_main(int argc, char **argv)
{
	ARENA_AUTO a = { 0 };
	if (argc < 6 || strcmp(argv[4], "--") != 0)
		return args_misused(argv[0], NULL), 2;
	int report = exec_descriptor(argv[2]);
	int file = exec_descriptor(argv[3]);
	char **env = exec_environment(file, &a);
	if (!env)
		shim_refuse(report, "cannot read the environment", strerror(errno), NOT_STARTED);
	close(file);
	(void)close(SHIM_STATUS_FD);
	shim_execute(argv + 5, env, report);
}
