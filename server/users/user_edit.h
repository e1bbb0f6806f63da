#pragma once
/*
 * Changing users of an OpenPAI cluster (--users=openpai): create, change, remove, in the Secrets of
 * --user-namespace.  Each change is a patch with the uid and resourceVersion that it was worked out
 * from, and is worked out again if somebody was faster.
 */
#include "server/accounts/account_objects.h"
#include "server/users/user_change.h"

/* What a group's Secret says of a group that a change is about. */
struct edit_group {
	struct span name;
	bool current; /* the user is in it now */
	bool found, admin;
	bool grants; /* the virtual cluster of its own name */
};

enum edit_kind { EDIT_CREATE, EDIT_CHANGE, EDIT_REMOVE };

/* Groups that OpenPAI has by default. */
#define GROUP_DEFAULT "default"
#define GROUP_ADMIN   "admingroup"

/* Which groups a user is in after a change. */
struct edit_groups {
	const struct user_change *change;
	enum edit_kind kind;
	struct edit_group *v; /* to be looked at */
	size_t n;
	struct span *list; /* the new ones; NULL: as they are */
	size_t n_list;
};

/* v and n: the groups that are to be looked at, when the user is in these; none if the change is
 * not about groups.  In the arena. */
void edit_groups_plan(struct edit_groups *g, const struct pai_user *now, struct arena *a);
/*
 * The new list, when all of v is looked at; in the arena.  -1 and *e: 400 NoVirtualClusterError,
 * 404 NoGroupError: no such group, 403 RemoveAdminError.
 */
int edit_groups_make(struct edit_groups *g, struct arena *a, struct err *e);
