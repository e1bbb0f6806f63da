#pragma once
/* What the files of images share. */
#include <string.h>

#include "base/arena.h"
#include "base/child.h"
#include "base/image/image.h"
#include "machine/images/images.h"

/* ---- images_store.c: the directory ------------------------------------------------------------
 *
 *   unpacked/HEX/   an image, by the SHA-256 of its manifest or list of manifests: rootfs/,
 *                   config.json, size (KiB, as text), lock (its users hold LOCK_SH; its
 *                   modification time is the last use)
 *   refs/KEY        a link to HEX: what a name meant when it was pulled with a login
 *   tmp/            pulls, locks of digests that are pulled, and what is being removed; what has a
 *                   lock is in use
 */
struct images_store {
	char *path; /* absolute */
	int dir;
	uint64_t limit;
	bool sweeping; /* there may be something to remove in tmp */
};

enum { STORE_HEX = 65 };

int images_store_open(struct images_store *s, const char *dir, uint64_t limit, struct err *e);
void images_store_close(struct images_store *s);

/* The image that a name means: its digest and a lock on it.  -1: it is not there. */
/* A name of an image that is there. */
void images_store_name(const struct images_store *s, const char *key, const char *hex);
int images_store_take(const struct images_store *s, const char *key, char hex[static STORE_HEX]);
/* Removes images that are not in use while there are more than `limit` bytes, least recently used
 * first.  -1 and *e, as a sentence on the image `hex`: the others need them. */
int images_store_room(struct images_store *s, const char *hex, struct err *e);
/* Moves an image to tmp; false: it is in use. */
bool images_store_drop(struct images_store *s, const char *hex);
/* Free bytes of the file system, less a reserve. */
uint64_t images_store_free(const struct images_store *s);
/* Removes some files of what has no owner in tmp. */
void images_store_sweep(struct images_store *s);

/* ---- images_pull.c: one pull ------------------------------------------------------------------
 */

/* An image that somebody wants or uses. */
struct images_item {
	struct images_item *next;
	struct images *m;
	struct arena a; /* wiped: has the login */
	size_t uses;    /* 0: its child was killed and has not ended yet */
	char key[STORE_HEX];
	const char *name;
	struct image image;
	struct span auth;
	struct images_status status;
	char text[2048];
	int lock;           /* READY */
	struct child child; /* WAITING: the pull; none: it waits for others */
	char *path;         /* the directory of the pull, absolute */
	int dir;
	uint64_t free_before; /* images_store_free when it began to be unpacked; 0: not yet */
	int64_t until_ms;
	const char *why; /* it was stopped */
};

/* An image that is there becomes READY; false: it is not. */
bool images_item_take(struct images_item *p);

/* FAILED afterwards if no child can be started. */
void images_pull_start(struct images_item *p);
/* Its child has ended: READY or FAILED afterwards. */
void images_pull_ended(struct images_item *p);
/* Its child is killed; images_pull_ended follows. */
void images_pull_stop(struct images_item *p, const char *why);
/* Stops it if the disk or the time is used up; writes the text with the progress. */
void images_pull_look(struct images_item *p, int64_t now_ms);
/* The reason in the output of skopeo or umoci, in the arena. */
const char *images_pull_reason(struct span log, struct arena *a);

/* ---- images.c ----------------------------------------------------------------------------------
 */

struct images {
	struct images_store store;
	unsigned at_once; /* pulls */
	unsigned pull_s;  /* for one pull with its unpacking */
	unsigned queue;   /* pulls that wait */
	int epoll;
	struct images_item *items; /* oldest first */
	struct images_use *uses;
	int64_t look_ms; /* when pulls are looked at again */
	bool notify;     /* some use has changed */
};

/* Names what a login may see: another login has to ask the registry itself. */
void images_key(char key[static STORE_HEX], const struct image *i, struct span auth);
static inline bool images_by_digest(const struct image *i)
{
	return strncmp(i->reference, "sha256:", 7) == 0;
}
/* Sets state and text. */
void images_say(struct images_item *p, enum images_state state, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads the configuration of an image; what is not usable is left out. */
void images_config_read(struct span text, struct arena *a, struct images_status *out);
