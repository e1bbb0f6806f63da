#pragma once
/*
 * What is to become of a user, as the bodies of the routes below /api/v2/users say it.  Reading
 * checks each member for itself; who may change what is user_edit.c's.
 */
#include "base/tree.h"
#include "server/http/request.h"

enum { PASSWORD_MIN = 6, PASSWORD_MAX = 1024 };

/* Members of a body, as bits. */
enum change_member {
	CHANGE_USERNAME = 1,
	CHANGE_EMAIL = 2,
	CHANGE_PASSWORD = 4,
	CHANGE_OLD_PASSWORD = 8,
	CHANGE_ADMIN = 16,
	CHANGE_CLUSTERS = 32,
	CHANGE_GROUPS = 64,
	CHANGE_EXTENSION = 128,
};

/* In the request's arena, which is wiped. */
struct user_change {
	unsigned has;                /* enum change_member */
	struct span username, email; /* "" is no e-mail */
	struct span password, old_password;
	bool admin;
	const struct span *names; /* virtual clusters or groups, each once */
	size_t n_names;
	const struct node *extension; /* a map of members that a user may have */
};

/* What a body may look like. */
struct change_rules {
	bool nested; /* the members stand in `data`, beside which all else is passed over */
	unsigned allowed, required;
};

/* Read r->body.  -1 and *e (400 InvalidParametersError): says what is wrong, and never a value. */
int user_change_read(struct request *r, const struct change_rules *rules, struct user_change *out,
                     struct err *e);

/* The old extension (NULL: none) with the new members in the place of those of their names, as
 * JSON.  Appends. */
void user_extension_merge(struct str *out, const struct node *old, const struct node *new_members);
