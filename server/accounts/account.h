#pragma once
/*
 * Who somebody is: a user, what he may do, and the facts that his jobs are translated with.  Found
 * by name, in the file of --facts or in the Secrets and PersistentVolumeClaims of an OpenPAI
 * cluster (--users=openpai), and believed for token-cache seconds.  Each loop has a cache of its
 * own, bounded, and an account belongs to one loop: no locks.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/tree.h"
#include "translate/facts.h"

struct accounts;
struct account_source;
struct store;
struct options;

enum { ACCOUNT_NAME = 64 };

static inline bool names_contain(const struct span *v, size_t n, struct span name)
{
	size_t i = 0;
	while (i < n && !span_eq(v[i], name))
		i++;
	return i < n;
}

/*
 * More of facts.storages[i], as its volume has it; of the file: type "unknown", nothing else. Never
 * a password or key of it, which OpenPAI hands out here.
 */
struct account_storage {
	const char *volume; /* name of the PersistentVolume, "" if not known */
	/* As OpenPAI calls them: nfs, azureFile, azureBlob, samba, other, unknown. */
	const char *type;
	struct span data; /* JSON: {"server":...,"path":...}, {} if nothing is to be said */
	struct span mount_options; /* JSON: a list of texts, "" if there are none */
};

/* Whole and unchanging once it is handed out. */
struct account {
	size_t refs; /* account_hold, account_drop */
	char name[ACCOUNT_NAME];
	bool admin;
	const char *email; /* "" if none */
	const struct span *groups;
	size_t n_groups;
	/* All of the user's extension, a map, or NULL; shown by account_extension only. */
	const struct node *extension;
	/* Virtual clusters (of an admin: all that exist), storages, and the extension if pods have
	 * a use for it; submitted_ms is set for each job. */
	struct facts facts;
	const struct account_storage *storages; /* as many as facts.n_storages */
	struct arena arena;                     /* all of the above */
	struct shared_facts *policy;            /* held: the file that it was made from; or NULL */
};

/*
 * Where accounts come from.  Shared by all loops; the file of --facts is read by account_source_new
 * and again by account_source_reload (which keeps what was read before on any error, and says so
 * in *e).  With --no-auth, --user is found like any other.  NULL and *e: 400 or 500.
 */
struct account_source *account_source_new(const struct options *o, struct err *e);
int account_source_reload(struct account_source *s, struct err *e); /* the main thread */
void account_source_free(struct account_source *s);

/* The accounts of one loop.  The store is borrowed; NULL if none is asked (--users=file). */
struct accounts *accounts_new(struct account_source *s, struct store *store);
/* What is still looked for is given up: callbacks get 503. */
void accounts_free(struct accounts *all);

/* a: a reference that is the callback's, or NULL and *e. */
typedef void account_callback(void *arg, struct account *a, const struct err *e);

/*
 * Find a user.  The account (a reference that is the caller's) if it is known now; else NULL, and
 * either e->http is set, or `done` is called later, once.  Errors: 401 UnauthorizedUserError: there
 * is no such user; 503 UnavailableError: it could not be found out, which is never a pass.
 * `name` must be fit for a user's name (user_name_ok); it is copied.
 */
struct account *account_find(struct accounts *all, const char *name, account_callback *done,
                             void *arg, struct err *e);
/* A user or group was changed here: all loops look again.  Any thread. */
void accounts_forget(struct accounts *all);
void account_hold(struct account *a);
void account_drop(struct account *a); /* NULL is nothing */

/*
 * A user's extension as JSON, fit to be shown to himself or an admin and to nobody else: of what it
 * holds only what is known to be no secret (never jobSSH.key, githubPAT, tokens of other clusters).
 * "{}" if he has none.  Appends.
 */
void account_extension(const struct account *a, struct str *out);

/*
 * The virtual clusters that this account may use, each by name, for being shown; NULL: those that
 * are known to exist at all.  Where the file does not list them: those named by users and groups
 * (of an OpenPAI cluster: that were seen so far), and `default`.  How many; *out lives in the
 * arena.
 */
size_t account_virtual_clusters(struct accounts *all, const struct account *a, struct arena *arena,
                                struct span **out);

/* Whether the file of --facts says which virtual clusters there are. */
bool account_clusters_listed(struct accounts *all);

/* The file of --facts as it is now; borrowed until the next call about accounts. */
const struct facts_file *account_file(struct accounts *all);

/* The users that the file lists; none with --users=openpai, where nobody causes a LIST. */
size_t account_users(struct accounts *all, struct arena *arena, struct span **out);

/* hash: the password's hash as OpenPAI keeps it (hex), "" if the user has none; wiped when the
 * callback returns.  *e: 400 NoUserError, or 503 UnavailableError. */
typedef void account_password_callback(void *arg, struct span hash, const struct err *e);

/*
 * What a user's password is checked with, read from his Secret for this one time: never kept.
 * 0: `done` is called later, once.  -1 and *e at once: 400 NoUserError (--users=file, where nobody
 * has a password), 503 UnavailableError: too many ask.  The name must be user_name_ok.
 */
int account_password(struct accounts *all, const char *name, account_password_callback *done,
                     void *arg, struct err *e);

/*
 * The file of --facts as serve holds it: read whole, checked whole, never changed.  Another one
 * takes its place when it is read again; whoever still works with this one holds it.  Any thread.
 */
struct shared_facts;

enum { SHARED_FACTS_MAX = 16 << 20 }; /* bytes */

/*
 * A new reference.  "": no file, everything is allowed.  openpai: users, groups and storages come
 * from a cluster, and the file must not speak of them.  NULL and *e (500; with a place if the
 * file says something wrong).  *warning: static text about owner and mode, or NULL.
 */
struct shared_facts *shared_facts_read(const char *path, bool openpai, const char **warning,
                                       struct err *e);
void shared_facts_hold(struct shared_facts *p);
void shared_facts_drop(struct shared_facts *p); /* NULL is nothing; the last one wipes it */
const struct facts_file *shared_facts_file(const struct shared_facts *p);

/*
 * What the objects of an OpenPAI cluster say of users, groups and storages: Secrets named after the
 * hex digits of who they are about, and PersistentVolumeClaims.  Whoever may write these objects
 * may write anything, so every member is optional and of any type: what is not of the right form is
 * left out and counted, and never gives a right.  Pure; what is decoded of a Secret is wiped.
 */
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

/*
 * Passwords as OpenPAI keeps them: PBKDF2-HMAC-SHA512, 10000 rounds, 64 bytes, in hex; the salt is
 * the MD5 of the user's name, as hex text.  About 7 ms of CPU: not on a loop (worker.h).
 */
enum { PASSWORD_HASH = 64, PASSWORD_HEX = 2 * PASSWORD_HASH };

/* The hash in hex, with its final NUL.  false: GnuTLS refuses (never with these figures). */
bool password_hash(struct span user, struct span password, char out[static PASSWORD_HEX + 1]);

/* Whether two hashes are the same, in a time that does not depend on where they differ.  `stored`
 * is what the user's Secret says, lower case; anything but such a hash is never the same. */
bool password_same(const char hash[static PASSWORD_HEX + 1], struct span stored);
