#pragma once
/*
 * Accounts: a user, the user's permissions, and the facts that jobs are translated with.  They come
 * from the file of --facts, or from Secrets and PersistentVolumeClaims of an OpenPAI cluster
 * (--users=openpai).  Begin with account.c; account_openpai.c reads a user from a cluster,
 * account_objects.c parses the objects.
 *
 *	struct account *a = account_find(r->loop->has->accounts, name, on_account, r, &e);
 *	if (a)
 *		on_account(r, a, NULL);
 *	else if (e.http)
 *		answer_error(r, &e);
 *	else
 *		request_wait(r);
 *
 * on_account is called later in the last case, once.  Each loop has a bounded cache, and accounts
 * of its own.
 *
 * Thread: loop
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/doc/tree.h"
#include "base/err.h"
#include "translate/facts.h"

struct accounts;
struct account_source;
struct store;
struct options;

enum { ACCOUNT_NAME = 64 };

/* Names, each once, in the order in which they were added.  v has room for all that are added,
 * which are borrowed. */
struct name_set {
	struct span *v;
	size_t n;
};
/* Thread: any. */
bool name_set_has(const struct name_set *s, struct span name);
/* Thread: own. */
void name_set_add(struct name_set *s, struct span name);

/* The volume of facts.storages[i]; from the file of --facts: only type "unknown".  It has no
 * passwords and keys, which OpenPAI returns here. */
struct account_storage {
	const char *volume; /* name of the PersistentVolume, "" if unknown */
	/* OpenPAI's types: nfs, azureFile, azureBlob, samba, other, unknown. */
	const char *type;
	struct span data;          /* JSON: {"server":...,"path":...}, or {} */
	struct span mount_options; /* JSON: a list of texts, "" if there are none */
};

/* Accounts are complete and immutable once a caller has them. */
struct account {
	size_t refs; /* account_hold, account_drop */
	char name[ACCOUNT_NAME];
	bool admin;
	const char *email; /* "" if none */
	const struct span *groups;
	size_t n_groups;
	/* The user's whole extension, a map, or NULL; account_extension writes the public part. */
	const struct node *extension;
	/* Virtual clusters (for an admin: all), storages, and the extension if pods use it.  The
	 * submission sets submitted_ms. */
	struct facts facts;
	struct facts_limits limits;
	const struct account_storage *storages; /* as many as facts.n_storages */
	struct arena arena;                     /* all of the above */
	struct shared_facts *shared_facts;      /* a reference, or NULL */
};

/*
 * The source of accounts, shared by all loops.  account_source_new reads the file of --facts,
 * account_source_reload reads it again and keeps the old contents on errors.  With --no-auth,
 * --user is an ordinary user.  NULL, or -1, and *e: 400 or 500.
 * Thread: main. */
struct account_source *account_source_new(const struct options *o, struct err *e);
int account_source_reload(struct account_source *s, struct err *e);
void account_source_free(struct account_source *s);
/* Calls use(arg, file) with the current file, which is borrowed. */
void account_source_use(struct account_source *s,
                        void (*use)(void *arg, const struct facts_file *f), void *arg);

/* The accounts of one loop.  Borrows the store; NULL with --users=file. */
struct accounts *accounts_new(struct account_source *s, struct store *store);
/* The store must have been freed before, so that look-ups have ended: their callbacks got 503. */
void accounts_free(struct accounts *all);

/* a: a reference that the callback owns, or NULL and *e. */
typedef void account_callback(void *arg, struct account *a, const struct err *e);

/*
 * Finds a user.  Returns the account (the caller owns a reference) if it is cached; else NULL, and
 * either e->http is set, or `done` is called once, later.  Errors: 401 UnauthorizedUserError: no
 * such user; 503 UnavailableError: the cluster could not be asked.  `name` must pass user_name_ok;
 * it is copied.
 */
struct account *account_find(struct accounts *all, const char *name, account_callback *done,
                             void *arg, struct err *e);
/* A reference to a new account of this name that is an administrator, whatever the file says; not
 * with --users=openpai.  It is not cached. */
struct account *account_administrator(struct accounts *all, const char *name);
/* Clears the caches of all loops after a change of a user or group.  Thread: any. */
void accounts_forget(struct accounts *all);
void account_hold(struct account *a);
void account_drop(struct account *a); /* NULL is allowed */

/* The user's extension as JSON, "{}" if absent, for the user and admins: only members known not to
 * be secret (never jobSSH.key, githubPAT or tokens of other clusters).  Appends. */
void account_extension(const struct account *a, struct str *out);
/* Returns true if account_extension shows this scalar of an object that is, or is in, a member of
 * the extension.  Thread: any. */
bool account_shows(struct span extension_member, const struct member *scalar);

/*
 * The names of the virtual clusters that this account may use; NULL: all.  If the file does not
 * list them, these are `default` and those named by users and groups (of an OpenPAI cluster: by
 * groups read so far), and *listed is false.  In the arena.
 */
struct name_set account_virtual_clusters(struct accounts *all, const struct account *a,
                                         struct arena *arena, bool *listed);

/* The current file of --facts; borrowed until the next call of this header. */
const struct facts_file *account_file(struct accounts *all);

/* ---- objects of an OpenPAI cluster: pure.  Thread: any. ----
 *
 * Users and groups are Secrets named by the hex digits of their name; storages are claims.  The
 * objects are untrusted: a member that is missing or malformed is counted in left_out and grants
 * nothing.  Decoded Secrets are wiped.
 */

enum {
	PAI_SECRET_MAX = 2 << 20, /* bytes of an object */
	PAI_GROUPS_MAX = 256,     /* of a user */
	PAI_GRANTS_MAX = 256,     /* virtual clusters, or storages, of a group */
	PAI_NAME_MAX = 126,       /* of a group: its hex digits must be a Kubernetes name */
};

/* The name of the Secret of a user or group: its name in lower-case hex. */
void pai_secret_name(char out[static 2 * PAI_NAME_MAX + 1], struct span name);

/* *why is set unless the result is PAI_READ: static text or "". */
enum pai_read {
	PAI_READ,
	PAI_UNFIT,  /* grants nothing: about another user or group, or not bound */
	PAI_BROKEN, /* not an object: nothing is known */
};

struct pai_user {
	const char *email; /* "" if none */
	struct name_set groups;
	const struct node *extension; /* a map, or NULL */
	size_t left_out;
};

/* This and the next: *out is set with PAI_READ only, in the arena. */
enum pai_read pai_user_read(struct span body, struct span name, struct arena *a,
                            struct pai_user *out, const char **why);

/* The hash of the password in OpenPAI's format (hex), "" if absent.  The caller wipes the arena. */
enum pai_read pai_password_read(struct span body, struct span name, struct arena *a,
                                struct span *out, const char **why);

struct pai_group {
	bool admin;
	unsigned grants; /* enum grant */
	struct name_set virtual_clusters, storages;
	size_t left_out;
};
enum pai_read pai_group_read(struct span body, struct span name, struct arena *a,
                             struct pai_group *out, const char **why);

/* A storage: pai_claim_read sets *out, pai_volume_read adds the data of the volume. */
struct pai_storage {
	bool share, read_only;
	const char *volume, *type;
	struct span data, mount_options; /* as in struct account_storage */
};
enum pai_read pai_claim_read(struct span body, struct arena *a, struct pai_storage *out,
                             const char **why);
enum pai_read pai_volume_read(struct span body, struct arena *a, struct pai_storage *out,
                              const char **why);

/* OpenPAI's hash of a password: PBKDF2-HMAC-SHA512, 10000 rounds, 64 bytes, in hex; the salt is the
 * MD5 of the user's name, in hex.  Takes 7 ms of CPU.  Thread: worker. */
enum { PASSWORD_HASH = 64, PASSWORD_HEX = 2 * PASSWORD_HASH };

/* NUL-terminated hex.  false: GnuTLS failed. */
bool password_hash(struct span user, struct span password, char out[static PASSWORD_HEX + 1]);

/* Constant-time comparison with the hash in the user's Secret, which may be any text.
 * Thread: any. */
bool password_same(const char hash[static PASSWORD_HEX + 1], struct span stored);
