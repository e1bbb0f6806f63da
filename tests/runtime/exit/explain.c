/*
 * explain - `pai-runtime exit` for a table of cases in one process, for test_exit.py and
 * test_failures.py.  Each line of the input has the arguments of a case, separated by tabs.  For
 * each it prints "exit N BYTES" and these bytes, which the command wrote to its standard error.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime-assets/common/cmdline.h"

enum { ARGUMENTS_MAX = 32, SAID_MAX = 1 << 16 };

int main(void)
{
	static char line[1 << 16];
	static char said[SAID_MAX];
	static char name[] = "exit";
	int log = memfd_create("stderr", MFD_CLOEXEC);
	if (log < 0 || dup2(log, STDERR_FILENO) < 0)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		char *argv[ARGUMENTS_MAX] = { name };
		int argc = 1;
		char *rest = line;
		line[strcspn(line, "\n")] = '\0';
		for (char *word; argc < ARGUMENTS_MAX - 1 && (word = strsep(&rest, "\t"));)
			argv[argc++] = word;
		if (ftruncate(log, 0) != 0 || lseek(log, 0, SEEK_SET) != 0)
			return 1;
		int code = cmd_exit(argc, argv);
		code = code == MISUSED ? 2 : code; /* as main() has it */
		ssize_t n = pread(log, said, sizeof(said), 0);
		if (n < 0)
			return 1;
		printf("exit %d %zd\n", code, n);
		(void)fwrite(said, 1, (size_t)n, stdout);
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
