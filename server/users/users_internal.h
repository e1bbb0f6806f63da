#pragma once
/* What people.c and groups.c share. */
#include "server/http/request.h"

/* Send the list or object that the reply's body holds; 500 if it did not fit. */
void users_send(struct request *r);
/* Are there accounts to ask?  Else the request is answered: the loop may be on its way out. */
bool users_ready(struct request *r);

/* groups.c: the virtual clusters that an account may use, for being shown; NULL: those that there
 * are.  How many; *out lives in the request's arena. */
size_t clusters_of(struct request *r, const struct account *a, struct span **out);

/*
 * The users and groups of an OpenPAI cluster, listed for administrators: pages of USER_LIST_PAGE
 * Secrets, USER_LIST_PAGES of them at most, for USER_LIST_AT_ONCE requests of a loop at a time.
 * Nothing else makes this server list Secrets.
 */
enum { USER_LIST_PAGE = 250, USER_LIST_PAGES = 20, USER_LIST_AT_ONCE = 4 };

/* Answer with all users, or all groups: 503 where that cannot be found out. */
void user_list_users(struct request *r);
void user_list_groups(struct request *r);
