#pragma once
/* From options to loops that are ready to run, and back. */
#include "server/http/listener.h"
#include "server/http/loop.h"

struct runtime_configmap;
struct gc;

enum { LOOPS_MAX = 64 };

/* The whole of `rest-lit serve`: what main() holds while the loops run. */
struct service {
	struct server server;
	struct options options;
	struct address address, output_address;
	struct runtime_configmap *runtime_configmap;
	struct gc *gc;
	struct loop loops[LOOPS_MAX + 1]; /* the last may be that of --output-listen */
	size_t n_loops;
	int signal_fd; /* SIGTERM, SIGINT, SIGHUP */
};

/* Make all of it; loops do not run yet, but clients can connect.  -1 and *e: 400 wrong usage, else
 * what failed; *file is the file that places in *e are in, or NULL. */
int start_all(struct service *s, const char **file, struct err *e);
/* What is served how, in the log; `scrubbed`: a variable that was removed, or NULL. */
void start_report(const struct service *s, const char *scrubbed);
/* Also after a start that failed.  Loops must have ended. */
void start_undo(struct service *s);
