/* GET /api/v2/machine/backup: a copy of the database of this machine.  A thread makes it, and the
 * loop sends it in pieces. */
#include "base/posix/fd.h"
#include "machine/store/local.h"
#include "server/accounts/account.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/request.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"

/* Lives in the arena of the request. */
struct backup {
	struct server *server;
	int fd; /* the copy; -1 */
};

static void backup_more(struct stream *s, void *arg)
{
	const struct backup *b = arg;
	stream_put_file(s, b->fd);
}

/* However the request has ended. */
static void backup_end(void *arg)
{
	struct backup *b = arg;
	fd_cleanup(&b->fd);
	atomic_store(&b->server->backing_up, false);
}

static void backup_make(struct edit *t)
{
	struct backup *b = t->arg;
	b->fd = local_backup(b->server->local, t->caller->stop_fd, &t->e);
}

static void backup_send(struct edit *t)
{
	static const struct stream_calls CALLS = { .more = backup_more, .finishes = true };
	(void)stream_open(t->r, 200, "application/vnd.sqlite3", &CALLS, t->arg); /* or answered */
}

void backup_get(struct request *r)
{
	struct server *s = r->loop->server;
	struct backup *b = ARENA_NEW(&r->arena, struct backup, 1);
	*b = (struct backup){ s, -1 };
	if (!s->local) {
		answer_refuse(r, 404, "NoMachineError",
		              "this server keeps its jobs in a cluster: back up its etcd");
	} else if (!r->principal->admin) {
		answer_refuse(r, FORBIDDEN, "only administrators may make backups");
	} else if (atomic_exchange(&s->backing_up, true)) {
		answer_refuse(r, UNAVAILABLE, "another backup is being made or sent; try again");
	} else {
		request_on_end(r, backup_end, b);
		edit_start(r, backup_make, backup_send, b);
	}
}
