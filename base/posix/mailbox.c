#include "base/posix/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/posix/lock.h"

/* Locks and eventfd_write fail only if they are misused. */

int mailbox_init(struct mailbox *b, size_t max, struct err *e)
{
	*b = (struct mailbox){ .max = max, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	b->last = &b->first;
	(void)pthread_mutex_init(&b->lock, NULL);
	return b->fd < 0 ? err_set(e, UNKNOWN_ERROR, "eventfd: %m") : 0;
}

bool mailbox_put(struct mailbox *b, struct mail *m)
{
	LOCK_AUTO(&b->lock);
	bool room = b->n < b->max;
	if (room) {
		m->next = NULL;
		*b->last = m;
		b->last = &m->next;
		b->n++;
	} else {
		b->lost++;
	}
	(void)eventfd_write(b->fd, 1); /* cannot fail: the count is far below its limit */
	return room;
}

struct mail *mailbox_take(struct mailbox *b, size_t *lost)
{
	eventfd_t count;
	LOCK_AUTO(&b->lock);
	(void)eventfd_read(b->fd, &count); /* resets it */
	struct mail *all = b->first;
	*lost = b->lost;
	b->first = NULL;
	b->last = &b->first;
	b->n = b->lost = 0;
	return all;
}

void mailbox_done(struct mailbox *b)
{
	(void)pthread_mutex_destroy(&b->lock);
	if (b->fd >= 0)
		(void)close(b->fd);
}
