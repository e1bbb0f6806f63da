#include "base/process.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"

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
