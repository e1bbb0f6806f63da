#include "runtime-assets/run/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NOT_FOUND = 127, NOT_STARTED = 126 };

/* One write, so that it is one line among others'. */
static void complain(int fd, const char *program, int error)
{
	const char *why = strerror(error);
	if (error == E2BIG)
		why = "its arguments and environment together are too large for this kernel";
	else if (error == ENOEXEC)
		why = "it is no program for this machine, and no script with a #! line";
	char line[512];
	int n = snprintf(line, sizeof(line), "cannot start %.200s: %s\n", program, why);
	if (n > 0 && n < (int)sizeof(line))
		(void)!write(fd, line, (size_t)n); /* the exit status says it, too */
}

/* What is left is the child's: it only returns by ending. */
static _Noreturn void become(const struct launch *l)
{
	static const int IGNORED[] = SPAWN_IGNORED;
	(void)setpgid(0, 0); /* the parent does the same: whoever is first */
	for (size_t i = 0; i < sizeof(IGNORED) / sizeof(*IGNORED); i++)
		(void)signal(IGNORED[i], SIG_DFL);
	(void)setrlimit(RLIMIT_CORE, &l->core);
	if (dup2(l->in, STDIN_FILENO) < 0 || dup2(l->out, STDOUT_FILENO) < 0 ||
	    dup2(l->err, STDERR_FILENO) < 0) {
		complain(l->complain, l->argv[0], errno);
		_exit(NOT_STARTED);
	}
	(void)sigprocmask(SIG_SETMASK, &l->mask, NULL);
	/* PATH is that of the new environment; execve takes char *const, and changes nothing. */
	memcpy(&environ, &l->env, sizeof(environ));
	(void)execvp(l->argv[0], l->argv);
	int error = errno;
	complain(l->complain, l->argv[0], error);
	_exit(error == ENOENT || error == ENOTDIR ? NOT_FOUND : NOT_STARTED);
}

pid_t spawn(const struct launch *l)
{
	pid_t pid = fork();
	if (pid == 0)
		become(l);
	if (pid > 0)
		(void)setpgid(pid, pid); /* EACCES: it is past exec and did it itself */
	return pid;
}
