#pragma once
/*
 * What the objects of an OpenPAI cluster say of users, groups and storages: Secrets named after the
 * hex digits of who they are about, and PersistentVolumeClaims.  Whoever may write these objects
 * may write anything, so every member is optional and of any type: what is not of the right form is
 * left out and counted, and never gives a right.  Pure; what is decoded of a Secret is wiped.
 */
#include "base/arena.h"
#include "base/tree.h"

enum {
	PAI_SECRET_MAX = 2 << 20, /* bytes of an object */
	PAI_GROUPS_MAX = 256,     /* of a user */
	PAI_GRANTS_MAX = 256,     /* virtual clusters, or storages, of a group */
	PAI_NAME_MAX = 126,       /* of a group: its hex digits are a name of Kubernetes */
};

/* The name of somebody's Secret, in lower-case hex. */
void pai_secret_name(char out[static 2 * PAI_NAME_MAX + 1], struct span name);

/* How reading went.  *why is static text, "" or of no meaning unless it went wrong. */
enum pai_read {
	PAI_READ,
	PAI_UNFIT,  /* it gives no right: not about the one who was asked for, not bound */
	PAI_BROKEN, /* no object at all: nothing was found out */
};

struct pai_user {
	const char *email;         /* "" if none */
	const struct span *groups; /* each once */
	size_t n_groups;
	const struct node *extension; /* a map, or NULL */
	size_t left_out;
};

/* The Secret of a user.  *out lives in the arena, as do those of the others below; it is of no
 * meaning unless this is PAI_READ. */
enum pai_read pai_user_read(struct span body, struct span name, struct arena *a,
                            struct pai_user *out, const char **why);

/* The hash of his password, "" if he has none; in the arena, which is to be wiped. */
enum pai_read pai_password_read(struct span body, struct span name, struct arena *a,
                                struct span *out, const char **why);

struct pai_group {
	bool admin;
	unsigned grants;                                /* enum grant */
	const struct span *virtual_clusters, *storages; /* each once */
	size_t n_virtual_clusters, n_storages;
	size_t left_out;
};
enum pai_read pai_group_read(struct span body, struct span name, struct arena *a,
                             struct pai_group *out, const char **why);

/* A storage is a claim with its volume: *out is filled in by the first, completed by the second. */
struct pai_storage {
	bool share, read_only;
	const char *volume, *type;
	struct span data, mount_options; /* as in account.h */
};
enum pai_read pai_claim_read(struct span body, struct arena *a, struct pai_storage *out,
                             const char **why);
enum pai_read pai_volume_read(struct span body, struct arena *a, struct pai_storage *out,
                              const char **why);
