#include "base/posix/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/posix/fd.h"

int64_t process_field(pid_t pid, int field)
{
	char path[64];
	char text[4096];
	(void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	/* The name, in brackets, can contain anything; the state follows. */
	const char *end =
	    fd_read_at(AT_FDCWD, path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
	struct span rest = end ? span_trim(span_of(end + 1)) : SPAN("");
	struct span part = span_next(&rest, ' ');
	int64_t value = -1;
	bool ended = span_is(part, "Z") || span_is(part, "X");
	for (int i = 3; i < field; i++)
		part = span_next(&rest, ' ');
	return ended || parse_i64(part, INT64_MIN, INT64_MAX, &value) ? -1 : value;
}

void process_boot(char out[static PROCESS_BOOT_MAX])
{
	(void)fd_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, PROCESS_BOOT_MAX);
	out[strcspn(out, "\n")] = '\0';
}

void process_identity(pid_t pid, char out[static PROCESS_IDENTITY_MAX])
{
	enum { START = 22 };
	char boot[PROCESS_BOOT_MAX];
	int64_t start = process_field(pid, START);
	process_boot(boot);
	out[0] = '\0';
	if (start >= 0 && boot[0])
		(void)snprintf(out, PROCESS_IDENTITY_MAX, "%ld %lld %s", (long)pid,
		               (long long)start, boot);
}

int process_kill_all(bool (*mine)(pid_t pid, void *arg), void *arg)
{
	DIR_AUTO *all = dir_list(AT_FDCWD, "/proc");
	int killed = 0;
	for (const char *name; (name = dir_next(all)) != NULL;) {
		int64_t pid;
		if (parse_i64(span_of(name), 2, INT32_MAX, &pid) != 0)
			continue;
		/* First, so that the process that is looked at is the one that is killed. */
		FD_AUTO pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
		killed += pidfd >= 0 && mine((pid_t)pid, arg) &&
		          syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
	}
	return killed;
}
