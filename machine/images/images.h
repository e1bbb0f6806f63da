#pragma once
/*
 * Images of containers in a directory: pulled by skopeo, unpacked by umoci, each digest once.
 *
 * images.c has the requests and what is pulled next, images_pull.c a pull (a child process),
 * images_store.c the directory.  Begin with images.c.
 *
 * The directory can be shared by several processes: an image is in use as long as a lock on its
 * file is held, by the server or by the shim of a task, which inherits images_lock_fd().  An image
 * is unpacked below a temporary name and renamed, so there are no half images.  One thread; nothing
 * here waits for a child.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum images_state {
	IMAGES_WAITING,
	IMAGES_READY,
	IMAGES_FAILED,
};

struct images_status {
	enum images_state state;
	const char *text; /* "pulling the image ubuntu:24.04: 37 MB"; FAILED: why, with the image */
	bool absent; /* FAILED: the registry says that there is no such image or no right to it */
	/* READY: */
	const char *digest; /* "sha256:..." */
	const char *note;   /* the registry could not be asked about it: a sentence; NULL */
	const char *rootfs; /* its root, never written to */
	const char *const
	    *env; /* of its configuration: NAME=VALUE, NULL-terminated; NULL if empty */
	const char *directory; /* of its configuration, absolute; NULL */
};

/* ALWAYS: the registry is asked what the name means now.  It is not if the name has a digest and
 * the image is here; if it does not answer, the image that is here is used, with a note. */
enum images_policy { IMAGES_IF_NOT_PRESENT, IMAGES_ALWAYS };

struct images;
/* A request for an image, and the use of it. */
struct images_use;

/* Is there what images need, skopeo and umoci?  0, or -1 and *e (503) with the packages. */
int images_probe(struct err *e);

/* Creates the directory (0700) if it is not there; removes what killed processes have left.  All
 * unpacked images have at most so many bytes.  NULL and *e: 500. */
struct images *images_new(const char *dir, uint64_t bytes, struct err *e);

/* For poll or epoll: images_run_once is called when the descriptor is readable or the time is over
 * (-1: no limit). */
int images_fd(const struct images *m);
int images_timeout_ms(const struct images *m);
void images_run_once(struct images *m);

/*
 * Asks for an image.  `auth`: a Docker configuration ({"auths": {...}}) with the logins of the job,
 * or empty; it is kept in memory only.  Requests with the same image and
 * login share one pull.  Never NULL; changed(arg) is called by images_run_once when the status has
 * changed, never by this function.  images_timeout_ms can be shorter afterwards.
 */
struct images_use *images_want(struct images *m, struct span image, struct span auth,
                               enum images_policy policy, void (*changed)(void *arg), void *arg);

/* Texts are valid until images_run_once or images_release. */
const struct images_status *images_status(const struct images_use *u);
/* READY: the locked descriptor (close-on-exec) that keeps the image; the shim inherits a copy of
 * it.  -1 otherwise. */
int images_lock_fd(const struct images_use *u);

/* Ends the request or use; a pull that nobody wants is stopped.  Accepts NULL. */
void images_release(struct images_use *u);

/* Stops all pulls.  Accepts NULL; all uses have been released. */
void images_free(struct images *m);
