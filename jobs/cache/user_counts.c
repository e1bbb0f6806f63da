/* A hash table of users who have jobs. */
#include "jobs/cache/user_counts.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "base/posix/lock.h"

enum { ROWS = 4096 };

struct user_count {
	LIST_ENTRY(user_count) row;
	size_t n;
	char name[];
};
LIST_HEAD(user_count_row, user_count);

struct user_counts {
	pthread_mutex_t lock;
	struct hash_key key;
	struct user_count_row rows[ROWS];
};

/* The cache knows nothing of rows. */
struct user_counts *user_counts_new(void)
{
	struct user_counts *c = xcalloc(1, sizeof(*c));
	(void)pthread_mutex_init(&c->lock, NULL); /* cannot fail with default attributes */
	c->key = hash_key_new();
	return c;
}

/* Without users its memory is that of the table. */
static void user_count_drop(struct user_count *u)
{
	LIST_REMOVE(u, row);
	free(u);
}

void user_counts_free(struct user_counts *c)
{
	if (!c)
		return;
	for (struct user_count_row *row = c->rows; row < c->rows + ROWS; row++)
		while (LIST_FIRST(row))
			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it leaves the row */
			user_count_drop(LIST_FIRST(row));
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Made if it is not there.  Locked. */
static struct user_count *user_count_of(struct user_counts *c, const char *user)
{
	size_t n = strlen(user);
	struct user_count_row *row = &c->rows[hash_bytes(&c->key, span_of(user)) % ROWS];
	struct user_count *u = NULL;
	LIST_FOREACH(u, row, row)
	if (strcmp(u->name, user) == 0)
		return u;
	u = xcalloc(1, sizeof(*u) + n + 1);
	memcpy(u->name, user, n);
	LIST_INSERT_HEAD(row, u, row);
	return u;
}

void user_counts_add(struct user_counts *c, const char *user, int change)
{
	LOCK_AUTO(&c->lock);
	struct user_count *u = user_count_of(c, user);
	assert(change > 0 || u->n > 0);
	u->n += change > 0 ? 1 : (size_t)-1;
	if (u->n == 0)
		user_count_drop(u);
}

size_t user_counts_claim(struct user_counts *c, const char *user, size_t most)
{
	LOCK_AUTO(&c->lock);
	struct user_count *u = user_count_of(c, user);
	size_t n = u->n;
	u->n += n < most;
	if (u->n == 0)
		user_count_drop(u);
	return n;
}
