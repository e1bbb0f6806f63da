/* rest-lit backup FILE: a copy of the database of a server with --local. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "server/cli/cli_internal.h"

enum { ERROR_MAX = 64 << 10, STEP_MS = 60000, SILENCE_S = 600 };

struct backup_download {
	struct remote *remote;
	struct err *e;
	int fd, fault; /* errno of a write; 0 */
	bool ended;
};

static bool backup_piece(void *arg, struct span bytes)
{
	struct backup_download *s = arg;
	s->fault = fd_write_all(s->fd, bytes) == 0 ? 0 : errno;
	return s->fault == 0;
}

static void backup_ended(void *arg, const struct client_answer *a)
{
	struct backup_download *s = arg;
	s->ended = true;
	if (a->status != 200 || a->problem)
		remote_error(s->remote, a, s->e);
}

static int backup_save(struct remote *r, const void *file, struct err *e)
{
	struct backup_download s = { .remote = r, .e = e };
	s.fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s.fd < 0)
		return err_set(e, 400, NULL, "%s: %s", (const char *)file, strerrordesc_np(errno));
	const struct client_call call = {
		.method = "GET",
		.path = "/api/v2/machine/backup",
		.max = ERROR_MAX,
		.timeout_ms = r->o->timeout_s * 1000,
		.silence_s = SILENCE_S,
		.piece = backup_piece,
		.ended = backup_ended,
		.arg = &s,
	};
	if (client_start(r->client, &call, e))
		while (!s.ended)
			client_run_once(r->client, STEP_MS, -1);
	if (!e->http && !s.fault && fsync(s.fd) != 0)
		s.fault = errno;
	if (s.fault)
		(void)err_set(e, UNKNOWN_ERROR, "%s: %s", (const char *)file,
		              strerrordesc_np(s.fault));
	fd_cleanup(&s.fd);
	if (!e->http)
		return EXIT_OK;
	(void)unlink(file); /* a part of the backup is of no use */
	return -1;
}

int cmd_backup(const struct command *c, struct options *o)
{
	(void)c;
	return remote_run(o, NULL, backup_save, o->files[0]);
}
