#pragma once
/*
 * Images of containers in a directory: pulled by skopeo, unpacked by umoci, each digest once.
 *
 * An image is in use as long as a lock on its file is held, by the server or by the shim of a task,
 * which inherits it.  An image is unpacked below a temporary name and renamed, so there are no half
 * images.  Nothing here waits for a child, unless it has been killed.
 *
 * Thread: own
 */
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
	int lock; /* the descriptor (close-on-exec) that keeps the image; the shim inherits a copy;
	             -1 otherwise */
	const char *digest; /* "sha256:..." */
	const char *note;   /* the registry could not be asked about it: a sentence; NULL */
	const char *rootfs; /* its root, never written to */
	const char *const
	    *env; /* of its configuration: NAME=VALUE, NULL-terminated; NULL if empty */
	const char *directory; /* of its configuration, absolute; NULL */
};

struct images;
/* A request for an image, and the use of it. */
struct images_use;

/* Checks for the programs that images need, skopeo and umoci.  0, or -1 and *e (503) with the
 * packages.  Thread: any. */
int images_probe(struct err *e);

/* Creates the directory (0700; the absolute path is copied) if it is not there; removes what killed
 * processes have left.  All unpacked images have at most so many bytes.  Children are added to
 * `epoll` with a NULL pointer: images_run_once is called after each of its events.  changed(arg of
 * the request) is called by images_run_once when a status has changed, and calls nothing here. NULL
 * and *e: 500. */
struct images *images_new(const char *dir, uint64_t bytes, int epoll, void (*changed)(void *arg),
                          struct err *e);

/* Starts pulls and looks at them.  A loop calls it before it waits, for the returned number of
 * milliseconds at most; -1: no limit. */
int images_run_once(struct images *m);

/*
 * Asks for an image.  `auth`: a Docker configuration ({"auths": {...}}) with the logins of the job,
 * or empty; it is kept in memory only.  The registry is asked what the name means now, but not if
 * the name has a digest and the image is here; if it does not answer, the image that is here is
 * used, with a note.  Requests with the same image and login share one pull.  Never NULL.
 */
struct images_use *images_request(struct images *m, struct span image, struct span auth, void *arg);

/* Texts are valid until images_run_once or images_release. */
const struct images_status *images_status(const struct images_use *u);

/* Ends the request or use; a pull that nobody wants is killed.  Accepts NULL. */
void images_release(struct images_use *u);

/* Releases all uses.  Accepts NULL. */
void images_free(struct images *m);
