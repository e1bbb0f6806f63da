#pragma once
/*
 * Whether images exist, asked of their registries (base/image/registry.h) for the loops: one thread
 * of its own for the whole process, because TLS reads some hundred authorities for every
 * connection. What is asked is bounded: hosts (k8s/images/allow.h), requests at once, checks that
 * wait, time, bytes. What was found out without a login is remembered for a while.
 */
#include "base/err.h"
#include "base/image/image.h"
#include "base/image/registry.h"

struct images;
struct images_inbox; /* of one loop: where findings come in */

struct images_settings {
	const char *registries; /* as allow_read() has it */
	const char *ca_file;    /* PEM; "": the machine's own */
	int64_t budget_ms;      /* for all images of one job together */
};

/* Make the thread.  Settings are copied.  NULL and *e (400 or 500). */
struct images *images_new(const struct images_settings *s, struct err *e);
/* End the thread.  All inboxes must be gone. */
void images_free(struct images *i);

/* NULL and *e (500). */
struct images_inbox *images_inbox_new(struct images *i, struct err *e);
/* What is still asked for is given up: `done` is called with no findings. */
void images_inbox_free(struct images_inbox *in);
int images_inbox_fd(const struct images_inbox *in);
/* Hand out what has come.  Calls `done`, on this thread. */
void images_inbox_turn(struct images_inbox *in);

struct images_subject {
	struct span name;
	bool has_login;
	struct image_login login;
};

struct images_finding {
	bool asked; /* false: its registry is not in the list */
	enum registry_verdict verdict;
	const char *sentence; /* borrowed while `done` runs; no secrets in it */
};

/*
 * Ask about n images.  true: `done` is called later, once, by images_inbox_turn, with a finding for
 * each (or with n = 0 if there is no time for it any more).  false: no registry of them is in
 * the list, and `done` is not called.  Texts are copied, and wiped afterwards.
 */
bool images_check(struct images_inbox *in, const struct images_subject *v, size_t n,
                  void (*done)(void *arg, const struct images_finding *v, size_t n), void *arg);
