#pragma once
/* What the files of images share. */
#include "base/arena.h"
#include "base/image/image.h"
#include "k8s/local/child.h"
#include "k8s/local/images.h"

/* ---- images_store.c: the directory ------------------------------------------------------------
 *
 *   unpacked/HEX/   an image, by the SHA-256 of its manifest: rootfs/, config.json, size (KiB, as
 *                   text), lock (its users hold LOCK_SH; its modification time is the last use)
 *   refs/KEY        HEX of what a name meant when it was pulled with a login
 *   tmp/            pulls, and what is being removed; each is locked (LOCK_EX) by its owner
 */
struct images_store {
	char *path; /* absolute */
	int unpacked, refs, tmp;
	uint64_t limit;
	bool sweeping; /* there may be something to remove in tmp */
};

enum { STORE_HEX = 65 };

int images_store_open(struct images_store *s, const char *dir, uint64_t limit, struct err *e);
void images_store_close(struct images_store *s);

/* Takes a lock on an image; false: it is not there. */
bool images_store_take(struct images_store *s, const char *hex, int *lock);
/* Moves `image` in the directory of a pull to its place.  Success if it is there already. */
int images_store_add(struct images_store *s, int pull, const char *hex, struct err *e);
/* Removes images that are not in use until `bytes` more fit, least recently used first. */
int images_store_room(struct images_store *s, uint64_t bytes, struct err *e);
/* Free bytes of the file system, less a reserve. */
uint64_t images_store_free(const struct images_store *s);

bool images_store_ref(const struct images_store *s, const char *key, char hex[static STORE_HEX]);
void images_store_set_ref(const struct images_store *s, const char *key, const char *hex);

/* Removes some files of what has no owner in tmp. */
void images_store_sweep(struct images_store *s);

/* A file, at most 4 MiB of it, in the arena; empty if it cannot be read. */
struct span images_file_read(int dir, const char *path, struct arena *a);
/* A new file; -1 and errno. */
int images_file_write(int dir, const char *path, struct span text);

/* ---- images_manifest.c: what a registry has sent ----------------------------------------------
 */

/* Reads a manifest, or a list of them.  1: a list, digest (without "sha256:") is that of the
 * manifest for this machine; 0: *bytes is the size of all layers.  -1: why, as "its manifest ...".
 */
int images_manifest_read(struct span text, char digest[static STORE_HEX], uint64_t *bytes,
                         const char **why);
/* The configuration in an OCI layout with one image, in the arena; -1: there is none. */
int images_layout_config(int layout, struct arena *a, struct span *config);
/* Reads the configuration of an image; what is not usable is left out. */
void images_config_read(struct span text, struct arena *a, struct images_status *out);
/* The reason in the output of skopeo or umoci, in the arena. */
const char *images_log_reason(struct span log, struct arena *a);

/* ---- images_pull.c: one pull ------------------------------------------------------------------
 */

enum pull_step {
	PULL_QUEUED,
	PULL_INSPECT,
	PULL_WAIT, /* for another pull of the same digest */
	PULL_COPY,
	PULL_UNPACK,
	PULL_DONE,
	PULL_FAILED
};

struct images_pull {
	struct images_pull *next;
	struct images *m;
	struct arena a; /* wiped: has the login */
	char key[STORE_HEX];
	const char *name;
	struct image image;
	struct span auth;
	enum pull_step step;
	bool absent; /* see struct images_status */
	struct child child;
	char hex[STORE_HEX];
	bool chosen; /* hex is from a list */
	char *path;  /* its directory, absolute; NULL: none yet */
	int dir;
	uint64_t bytes, free_before;
	int64_t until_ms;
	const char *why; /* PULL_FAILED */
};

/* From PULL_QUEUED or PULL_WAIT on. */
void images_pull_start(struct images_pull *p);
/* Its child has ended. */
void images_pull_ended(struct images_pull *p);
/* Stops it: its child is killed, and PULL_FAILED follows by images_pull_ended. */
void images_pull_stop(struct images_pull *p, const char *why);
/* Stops it if the disk or the time is used up. */
void images_pull_check(struct images_pull *p, int64_t now_ms);
/* Bytes that have come. */
uint64_t images_pull_come(const struct images_pull *p);
/* Removes the directory, frees the pull.  It has no child. */
void images_pull_free(struct images_pull *p);

/* ---- images.c ----------------------------------------------------------------------------------
 */

struct images {
	struct images_store store;
	unsigned at_once; /* pulls */
	unsigned pull_s;  /* for one pull with its unpacking */
	unsigned queue;   /* requests that wait */
	int epoll;
	struct images_pull *pulls; /* oldest first */
	struct images_use *uses;
	size_t waiting;
	bool notify; /* some use has changed */
	struct arena a;
	const char *skopeo, *umoci;
};

/* Has another pull begun to copy this digest? */
bool images_busy(const struct images *m, const struct images_pull *p);
