#pragma once
/*
 * How many unfinished jobs each user has, with submissions under way.
 *
 *	if (user_counts_claim(c, "alice", 20) < 20)
 *		submit();
 *	user_counts_add(c, "alice", -1);
 *
 * Thread: any
 */
#include <stddef.h>

struct user_counts;

struct user_counts *user_counts_new(void);
void user_counts_free(struct user_counts *c); /* NULL is allowed */
/* change: 1 or -1. */
void user_counts_add(struct user_counts *c, const char *user, int change);
/* Adds 1 unless there are `most`.  Returns the number before. */
size_t user_counts_claim(struct user_counts *c, const char *user, size_t most);
