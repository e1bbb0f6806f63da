/* `shim --exec`: the process in the sandbox that becomes the command. */
#include "runtime-assets/shim/shim_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lists.h"
#include "base/posix/child.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/init/init.h"

_Noreturn void shim_refuse(int report, const char *what)
{
	char text[512];
	(void)snprintf(text, sizeof(text), "E%.300s: %.150s", what, strerror(errno));
	(void)fd_write_all(report, span_of(text));
	_exit(NOT_STARTED);
}

/* DEVICE:INODE:PATH: returns true if this is the file to be mounted there. */
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

/* Its output goes elsewhere, and its variables and limits are its own. */
static void exec_init(char **init[INIT_LISTS])
{
	char **command = init[INIT_COMMAND];
	const char *const *words = (const char *const *)command;
	STR_AUTO why = STR_INIT(SHIM_MESSAGE_MAX + 1);
	struct rlimit core = { 0 };
	str_char(&why, 'F');
	(void)fd_write_all(SHIM_REPORT_FD, SPAN("I"));
	int err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, SHIM_INIT_FD);
	(void)dup2(SHIM_INIT_FD, STDERR_FILENO);
	(void)close(SHIM_INIT_FD);
	(void)getrlimit(RLIMIT_CORE, &core);
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, core.rlim_max });
	environ = init[INIT_ENV];
	const struct child_command program = { .argv = words, .out = STDERR_FILENO };
	int code = *command[0] ? child_call(&program)
	                       : init_main((int)lists_count(words), command, &INIT_PLUGINS,
	                                   init[INIT_FRAMEWORK][0], &why);
	if (code < 0)
		str_printf(&why, "%s: %s", command[0], strerror(errno));
	if (code != 0) {
		(void)fd_write_all(SHIM_REPORT_FD, str_view(&why));
		_exit(code < 0 ? NOT_STARTED : code);
	}
	(void)setrlimit(RLIMIT_CORE, &core);
	(void)dup2(err, STDERR_FILENO);
	(void)close(err);
}

int shim_exec_main(const char *directory)
{
	ARENA_AUTO a = { 0 };
	ARENA_AUTO before = { 0 };
	char **app[APP_LISTS];
	char **init[INIT_LISTS];
	off_t at = lseek(SHIM_SPEC_FD, 0, SEEK_CUR);
	for (int fd = SHIM_REPORT_FD; fd <= SHIM_INIT_FD; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (lists_read(SHIM_SPEC_FD, &at, app, APP_LISTS, &a) ||
	    lists_read(SHIM_SPEC_FD, &at, init, INIT_LISTS, &before) || !app[APP_COMMAND][0])
		shim_refuse(SHIM_REPORT_FD, "cannot read the file spec");
	if (chdir(directory) != 0)
		shim_refuse(SHIM_REPORT_FD, directory);
	for (char **same = app[APP_SAME]; *same; same++) {
		if (!exec_is_same(*same)) {
			errno = ESTALE;
			shim_refuse(SHIM_REPORT_FD,
			            arena_printf(&a, "%s: another directory is there now", *same));
		}
	}
	(void)close(SHIM_SPEC_FD);
	if (init[INIT_COMMAND][0])
		exec_init(init);
	arena_wipe(&before); /* the Framework of a large job has megabytes */
	environ = app[APP_ENV];
	(void)fd_write_all(SHIM_REPORT_FD, SPAN("S"));
	char **command = app[APP_COMMAND];
	if (!*command[0]) {
		(void)close(SHIM_REPORT_FD);
		return cmd_run_task((int)lists_count((const char *const *)command), command);
	}
	(void)execvp(command[0], command); /* by PATH of this environment */
	shim_refuse(SHIM_REPORT_FD, command[0]);
}
