#include "tests/hostile/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/outcome.h"

enum {
	CHILD_CPU_MAX_S = 20, /* for one job: certainly not a matter of a slow machine */
	CHILD_JOBS_MAX = 50,
};

/* Each side writes a head and then as many bytes as it says. */
struct child_answer {
	size_t n;
	double cpu_s;
	long peak_kb;
};

static struct {
	pid_t pid; /* 0: there is none */
	FILE *to, *from;
	size_t jobs;
} child;

/* ---- the child ---------------------------------------------------------------------------- */

static double child_cpu_s(const struct rusage *used)
{
	return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
	       (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
}

static bool child_answer(const struct setting *s, struct span text, FILE *out)
{
	struct rusage before;
	struct rusage after;
	(void)getrusage(RUSAGE_SELF, &before);
	rlim_t limit = (rlim_t)child_cpu_s(&before) + 1 + CHILD_CPU_MAX_S;
	(void)setrlimit(RLIMIT_CPU, &(struct rlimit){ limit, RLIM_INFINITY });
	json_auto_t *outcome = outcome_warned(s, text);
	(void)getrusage(RUSAGE_SELF, &after);
	FREE_AUTO char *json = json_dumps(outcome, JSON_COMPACT);
	struct child_answer a = { json ? strlen(json) : 0,
		                  child_cpu_s(&after) - child_cpu_s(&before), after.ru_maxrss };
	return json && fwrite(&a, sizeof(a), 1, out) == 1 && fwrite(json, a.n, 1, out) == 1 &&
	       fflush(out) == 0;
}

_Noreturn static void child_main(const struct setting *s, FILE *in, FILE *out)
{
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	size_t n = 0;
	bool ok = true;
	while (ok && fread(&n, sizeof(n), 1, in) == 1) {
		FREE_AUTO char *text = xmalloc(n + 1);
		ok = fread(text, 1, n, in) == n && child_answer(s, (struct span){ text, n }, out);
	}
	_exit(ok ? 0 : 1);
}

/* ---- the parent ----------------------------------------------------------------------------- */

static bool child_begin(const struct setting *s)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		return false;
	child.pid = fork();
	int mine = child.pid == 0 ? fd[1] : fd[0];
	(void)close(child.pid == 0 ? fd[0] : fd[1]);
	child.to = fdopen(mine, "w");
	child.from = fdopen(dup(mine), "r");
	child.jobs = 0;
	if (!child.to || !child.from || child.pid < 0)
		abort();
	if (child.pid == 0)
		child_main(s, child.from, child.to);
	return true;
}

/* The signal that it died of, or 0. */
static int child_wait(void)
{
	int status = 0;
	if (!child.pid)
		return 0;
	(void)fclose(child.to);
	(void)fclose(child.from);
	while (waitpid(child.pid, &status, 0) < 0)
		;
	child.pid = 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void child_end(void)
{
	(void)child_wait();
}

struct measured child_run(const struct setting *s, struct span text)
{
	struct measured m = { 0 };
	struct child_answer a;
	if (child.jobs >= CHILD_JOBS_MAX)
		child_end();
	if (!child.pid && !child_begin(s)) {
		perror("child");
		return m;
	}
	child.jobs++;
	/* No SIGPIPE: the child reads the whole text before it does what may kill it. */
	(void)fwrite(&text.n, sizeof(text.n), 1, child.to);
	(void)fwrite(text.p, 1, text.n, child.to);
	(void)fflush(child.to);
	if (fread(&a, sizeof(a), 1, child.from) == 1) {
		m.cpu_s = a.cpu_s;
		m.peak_kb = a.peak_kb;
		FREE_AUTO char *json = xmalloc(a.n + 1);
		if (fread(json, 1, a.n, child.from) == a.n)
			m.outcome = json_loadb(json, a.n, JSON_ALLOW_NUL, NULL);
	}
	if (!m.outcome)
		m.signal = child_wait();
	return m;
}
