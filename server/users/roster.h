#pragma once
/*
 * The users and groups of an OpenPAI cluster, listed for administrators: pages of ROSTER_PAGE
 * Secrets, ROSTER_PAGES of them at most, for ROSTER_AT_ONCE requests of a loop at a time.  Nothing
 * else makes this server list Secrets.
 */
#include "server/http/request.h"

enum { ROSTER_PAGE = 250, ROSTER_PAGES = 20, ROSTER_AT_ONCE = 4 };

/* Answer with all users, or all groups: 503 where that cannot be found out. */
void roster_users(struct request *r);
void roster_groups(struct request *r);
