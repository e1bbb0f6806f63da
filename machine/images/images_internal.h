#pragma once
/* Declarations that images.c shares with its tests. */
#include <sys/queue.h>

#include "base/arena.h"
#include "base/posix/child.h"
#include "machine/images/images.h"

enum { IMAGES_HEX = 65 };

struct images {
	char *path;     /* absolute */
	uint64_t limit; /* bytes */
	bool sweeping;  /* there may be something to remove in tmp */
	int epoll;
	void (*changed)(void *arg);
	unsigned running;                            /* pulls */
	int64_t look_ms;                             /* time of the next look at the pulls */
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
	const char *key; /* HEX and the reference that a login may see; another login has to ask the
	                    registry itself */
	struct span auth;
	struct images_status status;
	char text[2048];
	struct child child; /* WAITING: the pull; none: it waits for others */
	int dir;            /* of the pull, below tmp */
	int64_t until_ms;
};

/* Reads the configuration of an image; members that are not usable are left out. */
void images_config_read(struct span text, struct arena *a, struct images_status *out);

/* The reason in the output of skopeo or umoci, in the arena. */
const char *images_pull_reason(struct span log, struct arena *a);

/* Removes images that are not in use while there are more than `limit` bytes, least recently used
 * first.  -1 and *e, as a sentence on the image `hex`: the others need them. */
int images_make_room(struct images *m, const char *hex, struct err *e);
