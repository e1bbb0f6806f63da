#include "base/posix/process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/posix/fd.h"

bool process_stat(const char *root, pid_t pid, int64_t field[static STAT_FIELDS])
{
	char path[512];
	char text[4096] NOT_ZEROED;
	(void)snprintf(path, sizeof(path), "%s/proc/%ld/stat", root, (long)pid);
	/* The name, in brackets, can contain anything; the state follows. */
	char *p = fd_read_at(AT_FDCWD, path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
	if (!p || strlen(p) < 4)
		return false;
	field[STAT_STATE] = (unsigned char)p[2];
	struct span rest = span_of(p + 4);
	bool good = true;
	for (int i = STAT_STATE + 1; i < STAT_FIELDS && good; i++)
		good = parse_i64(span_next(&rest, ' '), INT64_MIN, INT64_MAX, &field[i]) == 0;
	return good;
}

int64_t process_field(pid_t pid, enum process_number field)
{
	int64_t v[STAT_FIELDS];
	bool lives = process_stat("", pid, v) && v[STAT_STATE] != 'Z' && v[STAT_STATE] != 'X';
	return lives ? v[field] : -1;
}

void process_boot(char out[static PROCESS_BOOT_MAX])
{
	(void)fd_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", out, PROCESS_BOOT_MAX);
	out[strcspn(out, "\n")] = '\0';
}

void process_identity(pid_t pid, char out[static PROCESS_IDENTITY_MAX])
{
	char boot[PROCESS_BOOT_MAX];
	int64_t start = process_field(pid, STAT_START);
	process_boot(boot);
	out[0] = '\0';
	if (start >= 0 && boot[0])
		(void)snprintf(out, PROCESS_IDENTITY_MAX, "%ld %lld %s", (long)pid,
		               (long long)start, boot);
}

bool process_has_variable(pid_t pid, const char *variable)
{
	enum { ENVIRON_MAX = 256 << 10 };
	FREE_AUTO char *path = xasprintf("/proc/%ld/environ", (long)pid);
	STR_AUTO text = STR_SECRET(ENVIRON_MAX);
	(void)fd_read_str(AT_FDCWD, path, &text); /* a truncated environment is searched as well */
	struct span rest = str_view(&text);
	while (rest.n > 0) {
		if (span_is(span_next(&rest, '\0'), variable))
			return true;
	}
	return false;
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
