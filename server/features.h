#pragma once
/*
 * What the features of the server keep of one loop: made by FEATURES.open (loop.h), given back by
 * its `close`.  On the loop's thread.
 */
#include <stddef.h>

struct accounts;
struct auth;
struct followers;
struct loop_hooks;
struct readiness;
struct log_streams;
struct uploads;
struct worker_inbox;

struct features {
	struct accounts *accounts; /* NULL from `stop` on, as auth */
	struct auth *auth;
	struct readiness *readiness;
	struct log_streams *log_streams; /* logs; NULL: there are no pods */
	struct worker_inbox *work;       /* NULL: nobody logs in here */
	struct followers *followers;     /* NULL: nobody keeps track of the jobs */
	struct uploads *uploads;         /* of the loop of --output-listen; NULL: it is another */
	size_t dry_run_bytes;            /* that dry runs hold */
	size_t user_lists;               /* lists of users under way (user_routes.c) */
	size_t list_rows;                /* in lists that are being sent */
};

extern const struct loop_hooks FEATURES;
