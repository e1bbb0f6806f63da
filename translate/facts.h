#pragma once
/*
 * The file of --facts as a whole (schema/facts.schema.json): the virtual clusters and storages of a
 * cluster, its users and groups, and who is let in.  Read and checked once, then asked user by
 * user.  Pure; what has been read is never changed, so any number of threads may ask.
 */
#include <stdint.h>

#include "base/str.h"
#include "translate/translate.h"

struct facts_file;

/*
 * Read it and check all of it.  Lives in the arena; the text may go.  NULL and *e (500, with line
 * and column): what is wrong, also a group or storage that is granted and not listed.  Empty
 * text: every virtual cluster, no storages, anybody.
 */
struct facts_file *facts_file_read(struct span text, struct arena *a, struct err *e);

struct facts_user {
	bool listed, admin;
	const char *email;         /* "" if none */
	const struct span *groups; /* each once */
	size_t n_groups;
	struct facts facts; /* submitted_ms as in the file */
};

/*
 * What holds for this user, listed or not.  What he may use is what is granted to him and to his
 * groups; if the file says neither virtual clusters (storages) nor groups of him, all that there
 * are.  An admin may use all virtual clusters, but storages like anybody else.  Texts are borrowed
 * from the file, the rest lives in the arena.
 */
void facts_file_user(const struct facts_file *f, struct span user, struct arena *a,
                     struct facts_user *out);

/* Who is not listed is let in. */
bool facts_file_lets_others_in(const struct facts_file *f);

/* The users listed. */
size_t facts_file_users(const struct facts_file *f, struct arena *a, struct span **out);

/* The virtual clusters that exist.  *listed is false if the file does not say: then those that
 * users and groups name, and `default`. */
size_t facts_file_virtual_clusters(const struct facts_file *f, struct arena *a, struct span **out,
                                   bool *listed);

/* What a virtual cluster has; zeros if the file does not say. */
struct facts_capacity {
	int64_t cpu, gpu, memory_mb;
};
struct facts_capacity facts_file_capacity(const struct facts_file *f, struct span virtual_cluster);

/* The groups defined, by name. */
size_t facts_file_groups(const struct facts_file *f, struct arena *a, struct span **out);
/* One of them: a map (`#/definitions/group` of the schema); NULL if there is none. */
const struct node *facts_file_group(const struct facts_file *f, struct span name);

/* Some user's private key is in it. */
bool facts_file_is_secret(const struct facts_file *f);

/* A member that says something of users, groups or storages, or NULL: where these come from a
 * cluster, it would be read by nobody. */
const struct member *facts_file_members(const struct facts_file *f);

/* 2026-11-20T10:25:38.123Z, of this form and no other (a schema has seen to that), as milliseconds
 * since 1970; whole seconds, which are enough for what it is used for. */
int64_t when_ms(struct span time);
