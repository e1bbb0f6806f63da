#pragma once
/*
 * The file of --facts (schema/facts.schema.json): virtual clusters and storages of a cluster, its
 * users and groups, and which users may log in. Pure; immutable after reading.
 *
 * Thread: any
 */
#include <stdint.h>

#include "base/str.h"
#include "translate/translate.h"

/* The members of a map, sorted by key. */
struct facts_index {
	const struct member **v;
	size_t n;
};
const struct node *facts_find_in(const struct facts_index *all, struct span key);

struct facts_file {
	bool lets_others_in; /* unlisted users may log in */
	bool is_secret;      /* it has private keys or tokens of users */
	struct facts_index groups,
	    users; /* groups are maps (`#/definitions/group` of the schema) */
	/* The first member about users, groups or storages, or NULL.  Such members have no effect
	 * if these come from a cluster. */
	const struct member *about_users;
	/* Names of labels and annotations with a domain that pods may have: facts.pod_names. */
	const struct node *pod_names;
	const struct node *queues; /* facts.queues */
	/* used by facts.c only; NULL if absent */
	const struct node *root, *virtual_clusters, *storages;
	int64_t submitted_ms;
};

/*
 * Reads and checks the file. Lives in the arena; the text may go. NULL and *e (500, with line and
 * column), also for groups or storages that are granted but not listed. Empty text: every virtual
 * cluster, no storages, any user.
 */
struct facts_file *facts_file_read(struct span text, struct arena *a, struct err *e);

/* Limits of the unfinished jobs of a user together; -1: none.  cpu, gpu, memory_mb: those
 * that run at once on one machine; jobs: their number. */
struct facts_limits {
	int64_t cpu, gpu, memory_mb, jobs;
};

struct facts_user {
	bool listed, admin;
	const char *email;
	const struct span *groups;
	size_t n_groups;
	struct facts facts; /* submitted_ms as in the file */
	struct facts_limits limits;
};

/*
 * The facts of a user, listed or not. A user may use the grants of the user and of the groups; if
 * the file gives neither virtual clusters (storages) nor groups for the user, all of them. An
 * admin may use all virtual clusters, but no additional storages. Texts are borrowed from the
 * file, the rest lives in the arena.  admin: the user is one, whatever the file says.
 */
void facts_file_user(const struct facts_file *f, struct span user, bool admin, struct arena *a,
                     struct facts_user *out);

/* The limits of a user who is not listed. */
struct facts_limits facts_file_limits(const struct facts_file *f);
/* The i-th user that is listed; false: there are fewer. */
bool facts_file_limited(const struct facts_file *f, size_t i, struct span *user,
                        struct facts_limits *out);

/* The virtual clusters of the file. If the file has no such list, *listed is false and the result
 * is `default` and those that users and groups name. */
size_t facts_file_virtual_clusters(const struct facts_file *f, struct arena *a, struct span **out,
                                   bool *listed);

/* Capacity of a virtual cluster; zeros if the file has none. */
struct facts_capacity {
	int64_t cpu, gpu, memory_mb;
};
struct facts_capacity facts_file_capacity(const struct facts_file *f, struct span virtual_cluster);
/* The i-th capacity in the file, for jobs on this machine; -1: not limited.  false: no more. */
bool facts_file_quota(const struct facts_file *f, size_t i, struct span *virtual_cluster,
                      struct facts_capacity *out);

/* The i-th storage that is a directory of this machine.  false: no more. */
struct facts_directory {
	const char *name, *path;
	bool read_only;
};
bool facts_file_directory(const struct facts_file *f, size_t i, struct facts_directory *out);
