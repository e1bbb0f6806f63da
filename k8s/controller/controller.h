#pragma once
/*
 * The controller as a thread: while it has the Lease, it follows Frameworks, ConfigMaps and pods,
 * and sends what the rules (rules/rules.h) want.
 *
 *	struct controller *c = controller_new(&settings, e);
 *	if (!c)
 *		return -1;
 *	wait until controller_fd(c) is readable, or for a signal
 *	controller_free(c);
 *
 * A standby only asks for the Lease.  A leader whose Lease was not renewed pauses; when another
 * process has it, or has had it meanwhile, the thread ends, because a new leader begins with new
 * rules.  Each request ends before the Lease does.
 *
 * Rights: leases create, get, patch in the namespace of the login; what the rules send; frameworks,
 * configmaps, pods list, watch; events create, patch; workloads list, watch.
 *
 * Thread: main
 */
#include "k8s/controller/notices.h"

struct controller;

enum controller_phase {
	CONTROLLER_STANDBY, /* it does not have the Lease */
	CONTROLLER_LISTING, /* it has it, and does not know all objects yet */
	CONTROLLER_LEADING,
	CONTROLLER_ENDED,
};

/* The collections that it follows: Frameworks, ConfigMaps, pods; and Workloads of Kueue, if a
 * Framework is in one of its queues. */
enum { CONTROLLER_WATCHES = 4 };

struct watch_counts {
	atomic_ullong seen_ms; /* the last message; 0: it is not followed */
	atomic_ullong lists;   /* complete ones */
	atomic_ullong outages; /* those that were told */
};

/* Written by the threads of the controller, read by any. */
struct controller_counts {
	struct rules_counts rules;
	struct store_counts store;
	struct notice_counts notices;
	atomic_ullong phase;
	atomic_ullong turn_ms;     /* start of the last round of the loop */
	atomic_ullong held_ms;     /* the last round in which it had the Lease */
	atomic_ullong queue_bytes; /* events that wait for the loop */
	struct watch_counts watches[CONTROLLER_WATCHES];
};

/* A line for the log.  Texts are borrowed. */
struct controller_line {
	bool warn;
	const char *message; /* static text */
	const char *object;  /* which it is about; NULL: none */
	const char *reason;  /* NULL: none */
};

struct controller_settings {
	struct login *login;                   /* borrowed */
	const char *namespace_name;            /* of the Frameworks; NULL: all.  Borrowed */
	const struct framework_config *config; /* borrowed */
	struct controller_counts *counts;      /* borrowed; zero */
	void (*say)(void *arg, const struct controller_line *line); /* any thread */
	void *arg;
};

/* Starts the thread.  NULL and *e (500). */
struct controller *controller_new(const struct controller_settings *s, struct err *e);
/* Readable when the thread has ended by itself: another process has the Lease, or a thread could
 * not be started. */
int controller_fd(const struct controller *c);
/* Takes no request any more, waits a moment for open answers, gives the Lease back, and waits until
 * the thread has ended: at most a second.  Accepts NULL. */
void controller_free(struct controller *c);

/* Why this process should be started again, or NULL.  Static text.  Thread: any. */
const char *controller_unhealthy(const struct controller_counts *c, int64_t now_ms);
/* Why it does not do its work, or NULL; a standby does.  Thread: any. */
const char *controller_unready(const struct controller_counts *c);
