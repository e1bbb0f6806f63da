#pragma once
/*
 * `rest-lit serve`: from options to running loops, and the reload of files.
 *
 * Thread: main
 */
#include "server/config/options.h"
#include "server/http/address.h"
#include "server/http/loop.h"

/* Connects features to loops (features.c). */
extern const struct loop_hooks FEATURES;

struct check_session;
struct upkeep;
struct gc;
struct rounds;

enum { LOOPS_MAX = 64 };

/* Everything that `serve` holds while the loops run. */
struct service {
	struct server server;
	struct options options;
	struct address address; /* of --listen, unless it is set before */
	struct address output_address, metrics_address;
	struct upkeep *upkeep;
	struct gc *gc;
	struct rounds *rounds;
	/* The last may serve --socket, --output-listen, --metrics-listen. */
	struct loop loops[LOOPS_MAX + 3];
	size_t n_loops;
	bool has_socket; /* --socket is there, and is this server's */
	/* SIGTERM, SIGINT, SIGHUP, as struct signalfd_siginfo; < 0: start_all opens it. */
	int signal_fd;
	const char *file; /* of the places in the error of a step; NULL: none */
};

/*
 * The steps that read and check files before anything else, in this order; `rest-lit check` runs
 * the same steps.  They hold nothing that a second process could need.
 */
struct start_step {
	const char *name;
	const char *options; /* those that it reads, separated by spaces */
	int (*open)(struct service *s, struct err *e); /* -1, *e and s->file */
};
enum { N_START_STEPS = 10 };
extern const struct start_step START_STEPS[N_START_STEPS];

/* Called before the first step. */
void start_begin(struct service *s);
/* Reports the warnings about configuration and files. */
void start_warnings(const struct service *s, struct check_session *c);

/* Creates everything; clients can connect, but loops do not run yet.  -1, *e (400: wrong usage) and
 * s->file. */
int start_all(struct service *s, struct err *e);
/* Logs the configuration; `scrubbed`: a variable that was unset, or NULL. */
void start_report(const struct service *s, const char *scrubbed);
/* Frees everything, also after a failed start.  The loops must have ended. */
void start_undo(struct service *s);

/*
 * Reads files again: token keys, --facts, --hived-config, certificates.  A file with an error does
 * not replace the old content; the log names file and place.  After reload_all
 * returns, all loops use the new content.  reload_certificate: without force, if its files have
 * changed.
 */
void reload_all(struct server *s, struct loop *loops, size_t n);
void reload_certificate(struct server *s, bool force);
