#include "tests/hostile/child.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/outcome.h"

/* CPU seconds after which it is certainly not a matter of a slow machine. */
enum { CPU_LIMIT_S = 20 };

static void work(const struct setting *s, struct span text, FILE *out)
{
	(void)setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_LIMIT_S, CPU_LIMIT_S });
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	json_t *outcome = outcome_of(s, DIALECT_AUTO, text, NULL);
	bool ok = json_dumpf(outcome, out, JSON_COMPACT) == 0 && fflush(out) == 0;
	_exit(ok ? 0 : 1);
}

struct measured child_run(const struct setting *s, struct span text)
{
	struct measured m = { 0 };
	FILE *out = tmpfile();
	if (!out) {
		perror("child");
		return m;
	}
	pid_t pid = fork();
	if (pid < 0) {
		perror("child");
		(void)fclose(out);
		return m;
	}
	if (pid == 0)
		work(s, text, out);
	int status = 0;
	struct rusage used;
	while (wait4(pid, &status, 0, &used) < 0)
		;
	m.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	m.cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	          (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	m.peak_kb = used.ru_maxrss;
	rewind(out);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		m.outcome = json_loadf(out, JSON_ALLOW_NUL, NULL);
	(void)fclose(out);
	return m;
}
