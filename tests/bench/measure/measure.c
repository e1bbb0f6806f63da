/*
 * measure COMMAND [ARGUMENT...] - run it; then print, on descriptor 3, what it and its children
 * took: CPU microseconds, the largest resident set in KiB, and the exit status (128 + n for signal
 * n).
 *
 * A large program that starts another one lends it its own resident set for a moment, and the
 * kernel counts that as the other's.  This one is small.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long long microseconds(const struct timeval *t)
{
	return t->tv_sec * 1000000LL + t->tv_usec;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	pid_t child = vfork(); /* NOLINT(clang-analyzer-*,bugprone-*,cert-*): copies nothing */
	if (child == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	int status;
	struct rusage used;
	if (child < 0 || wait4(child, &status, 0, &used) < 0)
		return 2;
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	dprintf(3, "%lld %ld %d\n", microseconds(&used.ru_utime) + microseconds(&used.ru_stime),
	        used.ru_maxrss, code);
	return 0;
}
