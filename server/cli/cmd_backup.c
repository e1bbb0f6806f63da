/* rest-lit backup FILE: a copy of the database of a server with --local. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "server/cli/cli_internal.h"

enum { ERROR_MAX = 64 << 10, SILENCE_S = 600 };

static int backup_save(struct remote *r, const void *name, struct err *e)
{
	FD_AUTO fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, 400, NULL, "%s: %s", (const char *)name, strerrordesc_np(errno));
	const struct remote_file file = { .name = name, .fd = fd };
	REPLY_AUTO reply = { .file = &file };
	const struct client_call call = {
		.method = "GET",
		.path = "/api/v2/machine/backup",
		.max = ERROR_MAX,
		.timeout_ms = INT32_MAX,
		.silence_s = SILENCE_S,
	};
	if (remote_ask(r, &call, 200, &reply, e) == 0 && fsync(fd) == 0)
		return EXIT_OK;
	if (!e->http)
		(void)err_set(e, UNKNOWN_ERROR, "%s: %s", (const char *)name,
		              strerrordesc_np(errno));
	(void)unlink(name); /* a part of the backup is of no use */
	return -1;
}

int cmd_backup(const struct command *c, struct options *o)
{
	(void)c;
	return remote_run(o, NULL, backup_save, o->files[0]);
}
