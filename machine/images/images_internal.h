#pragma once
/* What the files of images share. */
#include <sys/queue.h>

#include "base/arena.h"
#include "machine/images/images.h"
#include "machine/task/child.h"

enum { IMAGES_HEX = 65 };

struct images {
	char *path;     /* absolute */
	uint64_t limit; /* bytes */
	bool sweeping;  /* there may be something to remove in tmp */
	int epoll;
	void (*changed)(void *arg);
	unsigned running;                            /* pulls */
	int64_t look_ms;                             /* when pulls are looked at again */
	TAILQ_HEAD(images_items, images_item) items; /* oldest first */
};

struct images_use {
	LIST_ENTRY(images_use) next;
	struct images_item *item;
	void *arg;
};

/* An image that somebody wants or uses. */
struct images_item {
	TAILQ_ENTRY(images_item) next;
	LIST_HEAD(images_uses, images_use) uses;
	struct images *m;
	struct arena a;        /* wiped: has the login */
	const char *name;      /* as given */
	const char *where;     /* docker://HOST/REPOSITORY */
	const char *reference; /* :TAG or @DIGEST */
	char hex[IMAGES_HEX];  /* READY: of the digest */
	const char *key; /* HEX and the reference: what a login may see; another login has to ask
	                    the registry itself */
	struct span auth;
	struct images_status status;
	char text[2048];
	struct child child; /* WAITING: the pull; none: it waits for others */
	int dir;            /* of the pull, below tmp */
	int64_t until_ms;
};

/* Reads the configuration of an image; what is not usable is left out. */
void images_config_read(struct span text, struct arena *a, struct images_status *out);

/* The reason in the output of skopeo or umoci, in the arena. */
const char *images_pull_reason(struct span log, struct arena *a);

/*
 * The directory:
 *
 *   unpacked/HEX/   an image, by the SHA-256 of its manifest or list of manifests: rootfs/,
 *                   config.json, size (KiB, as text), lock (its users hold LOCK_SH; its
 *                   modification time is the last use)
 *   refs/KEY        a link to HEX: what a name meant when it was pulled with a login
 *   tmp/            pulls, locks of digests that are pulled, and what is being removed; what has a
 *                   lock is in use
 */
int images_store_open(struct images *m, struct err *e);
/* The file `lock` of an image, locked; -1: it is not there, or in use. */
int images_store_lock(const struct images *m, const char *hex, int how);
/* Removes images that are not in use while there are more than `limit` bytes, least recently used
 * first.  -1 and *e, as a sentence on the image `hex`: the others need them. */
int images_store_room(struct images *m, const char *hex, struct err *e);
/* Is nothing left of the file system but a reserve? */
bool images_store_full(const struct images *m);
/* Removes some files of what has no owner in tmp. */
void images_store_sweep(struct images *m);
