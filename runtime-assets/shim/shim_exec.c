/* The specification, and the start of a container's command. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/child.h"
#include "runtime-assets/cmdline.h"
#include "runtime-assets/init/init.h"

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
	enum { VERSION, GRACE, WRAPPED, CGROUP, INIT, MESSAGE, MARK, TEXTS };
	FD_AUTO fd = shim_open_file(dir, "spec");
	char **text = texts_read(fd, a);
	if (!text)
		return err_set(e, FAILED, "cannot read the file spec: %s", strerror(errno));
	if (!text[VERSION] || strcmp(text[VERSION], "shim 3") != 0)
		return err_set(e, FAILED, "the file spec is that of another version");
	for (int i = 0; i <= TEXTS; i++) {
		if (!text[i])
			return err_set(e, FAILED, "the file spec is not complete");
	}
	*s = (struct shim_spec){ .wrapped = *text[WRAPPED] != '\0',
		                 .init = *text[INIT] != '\0',
		                 .cgroup = text[CGROUP],
		                 .message = text[MESSAGE],
		                 .mark = text[MARK],
		                 .argv = text + TEXTS };
	if (parse_i64(span_of(text[GRACE]), 0, INT32_MAX, &s->grace_s))
		return err_set(e, FAILED, "the file spec has an invalid grace period");
	return 0;
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
	int up = fcntl(fd, F_DUPFD_CLOEXEC, SHIM_INIT_FD + 1);
	fd_cleanup(&fd);
	return up;
}

_Noreturn void shim_child(int dir, const struct shim_spec *spec, const int *to)
{
	static const int NUMBERS[SOURCES] = { [FROM_OUT] = STDOUT_FILENO,
		                              [FROM_ERR] = STDERR_FILENO,
		                              [FROM_INIT] = SHIM_INIT_FD,
		                              [FROM_REPORT] = SHIM_REPORT_FD,
		                              [FROM_STATUS] = SHIM_STATUS_FD };
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	/* `shim --exec` replaces it.  If this process is killed while it makes the sandbox,
	 * bubblewrap's child can be left.  By the mark it is found. */
	char *wrap_env[] = { path, spec->mark, NULL };
	int report = to[FROM_REPORT];
	int job = shim_fd_up(shim_open_file(dir, "job"));
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	bool passed = dup2(job, SHIM_JOB_FD) >= 0 && dup2(null, STDIN_FILENO) >= 0;
	if (*spec->cgroup)
		shim_join_cgroup(spec->cgroup, report);
	for (enum shim_source i = FROM_OUT; i < SOURCES; i++)
		passed = passed && (to[i] < 0 || dup2(to[i], NUMBERS[i]) >= 0);
	if (!passed)
		shim_refuse(report, "cannot pass the descriptors on", strerror(errno), NOT_STARTED);
	umask(022);
	(void)execve(spec->argv[0], spec->argv, wrap_env);
	shim_refuse(report, spec->argv[0], strerror(errno), NOT_STARTED);
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

struct exec_job {
	char **env, **init_env, **init; /* init[0] NULL: there is none */
	const char *framework;          /* NULL: none */
};

/* A list of the file `job`, which an empty text ends. */
static char **exec_list(char ***at)
{
	char **list = *at;
	while (**at && ***at)
		++*at;
	if (**at)
		*(*at)++ = NULL;
	return list;
}

static void exec_read_job(struct exec_job *job, struct arena *a)
{
	char **at = texts_read(SHIM_JOB_FD, a);
	if (!at)
		shim_refuse(SHIM_REPORT_FD, "cannot read the file job", strerror(errno),
		            NOT_STARTED);
	job->env = exec_list(&at);
	job->init_env = exec_list(&at);
	job->framework = *at && **at ? *at : NULL;
	job->init = at + 1;
	if (!*at)
		shim_refuse(SHIM_REPORT_FD, "job", "the file is not complete", NOT_STARTED);
}

static char **exec_copy(char *const *list, struct arena *a)
{
	size_t n = 0;
	while (list[n])
		n++;
	char **copy = ARENA_NEW(a, char *, n + 1);
	for (size_t i = 0; i < n; i++)
		copy[i] = arena_dup(a, span_of(list[i]));
	return copy;
}

/* Its output goes elsewhere, and its variables and limits are its own. */
static void exec_init(const struct exec_job *job)
{
	STR_AUTO why = STR_INIT(SHIM_MESSAGE_MAX);
	struct rlimit core = { 0 };
	int n = 0;
	while (job->init[n])
		n++;
	(void)fd_write_all(SHIM_REPORT_FD, SPAN("I"));
	int err = shim_fd_up(dup(STDERR_FILENO));
	(void)dup2(SHIM_INIT_FD, STDERR_FILENO);
	(void)close(SHIM_INIT_FD);
	(void)getrlimit(RLIMIT_CORE, &core);
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, core.rlim_max });
	environ = job->init_env;
	int code = strcmp(job->init[0], "init") == 0
	               ? init_here(n, job->init, job->framework, &why)
	               : child_call(&(struct child_command){ .argv = (const char *const *)job->init,
	                                                     .out = STDERR_FILENO });
	if (code < 0)
		str_printf(&why, "%s: %s", job->init[0], strerror(errno));
	if (code != 0) {
		(void)fd_write_all(SHIM_REPORT_FD, SPAN("F"));
		(void)fd_write_all(SHIM_REPORT_FD, str_view(&why));
		_exit(code > 0 ? code : NOT_STARTED);
	}
	(void)setrlimit(RLIMIT_CORE, &core);
	(void)dup2(err, STDERR_FILENO);
	(void)close(err);
}

int shim_exec_main(int argc, char **argv)
{
	ARENA_AUTO a = { 0 };
	ARENA_AUTO kept = { 0 };
	struct exec_job job;
	int end = 3;
	while (end < argc && strcmp(argv[end], "--") != 0 && strcmp(argv[end], "--run") != 0)
		end++;
	bool run = end < argc && strcmp(argv[end], "--run") == 0;
	if (end >= argc || (!run && end + 1 == argc))
		return args_misused(argv[0], NULL), 2;
	for (int fd = SHIM_REPORT_FD; fd <= SHIM_INIT_FD; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	exec_read_job(&job, &a);
	if (chdir(argv[2]) != 0)
		shim_refuse(SHIM_REPORT_FD, argv[2], strerror(errno), NOT_STARTED);
	for (int i = 3; i < end; i++) {
		if (!exec_is_same(argv[i]))
			shim_refuse(SHIM_REPORT_FD, argv[i], "another directory is there now",
			            NOT_STARTED);
	}
	(void)close(SHIM_JOB_FD);
	(void)close(SHIM_STATUS_FD);
	if (job.init[0])
		exec_init(&job);
	environ = exec_copy(job.env, &kept);
	arena_wipe(&a); /* the Framework of a large job has megabytes */
	(void)fd_write_all(SHIM_REPORT_FD, SPAN("S"));
	if (run) {
		(void)close(SHIM_REPORT_FD);
		return cmd_run(argc - end, argv + end);
	}
	char **command = argv + end + 1;
	(void)execvp(command[0], command); /* by PATH of this environment */
	shim_refuse(SHIM_REPORT_FD, command[0], strerror(errno),
	            errno == ENOENT || errno == ENOTDIR ? NOT_FOUND : NOT_STARTED);
}
