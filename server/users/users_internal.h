#pragma once
/*
 * Routes about users, groups, virtual clusters and storages, and the login.  Begin with
 * user_routes.c; user_change.c reads the bodies of changes, user_edit.c applies them to the Secrets
 * of an OpenPAI cluster, signin.c is the login.
 */
#include "base/doc/tree.h"
#include "server/accounts/account.h"
#include "server/http/edit.h"

/* Sends the list or object in the reply's body; 500 if it did not fit. */
void users_send(struct request *r);
/* Returns true if the users are those of an OpenPAI cluster. */
bool users_openpai(const struct request *r);
/* Appends a member that is a list of names. */
void users_put_names(struct str *out, const char *key, const struct span *v, size_t n);

/* Reads the Secret of a user or group, for run of an edit; its text is in the arena.  PAI_UNFIT:
 * there is none.  PAI_BROKEN: the reply's message says why. */
enum pai_read users_secret(struct edit *t, bool group, struct span name, struct arena *a,
                           struct store_reply *reply);

/* The virtual clusters that an account may use; NULL: all.  The names live in the request's
 * arena. */
struct name_set clusters_of(struct request *r, const struct account *a);

/* ---- the body of a change: user_change.c ---- */

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

/* Lives in the request's arena, which is wiped. */
struct user_change {
	unsigned has;                /* enum change_member */
	struct span username, email; /* "": no e-mail */
	struct span password, old_password;
	bool admin;
	struct name_set names;        /* virtual clusters or groups */
	const struct node *extension; /* a map of permitted members */
};

struct change_rules {
	bool nested; /* the members are in `data`; other members of the body are ignored */
	unsigned allowed, required;
};

/* Reads r->body; checks each member by itself, not permissions.  -1 and *e (400
 * InvalidParametersError, without any value from the body). */
int user_change_read(struct request *r, const struct change_rules *rules, struct user_change *out,
                     struct err *e);

/* Writes the old extension (NULL: none) as JSON, with members replaced by the new ones.
 * Appends. */
void user_extension_merge(struct str *out, const struct node *old, const struct node *new_members);
