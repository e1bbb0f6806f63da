#pragma once
/*
 * `rest-lit check`: everything that must hold for `serve` with the same options, as a list of
 * lines.  Nothing is created or changed, in the cluster or on this machine.
 *
 * check.c has the table of items, rights.c that of the RBAC rights, cluster_items.c and
 * machine_items.c the functions of the items.  Functions block.
 *
 * Thread: main
 */
#include "server/serve/start.h"

enum check_state {
	CHECK_OK,
	CHECK_WARNING, /* serve works, without a feature or not for long */
	CHECK_FAILED,  /* serve does not start, or does not do what the options ask for */
	CHECK_SKIPPED, /* this account cannot find out */
	CHECK_STATE_MAX
};
extern const char *const CHECK_STATES[CHECK_STATE_MAX];

struct check_line {
	enum check_state state;
	const char *item;
	const char *found; /* sentences for people, which may contain untrusted text */
	const char *mend;  /* remedy; NULL: in `found`, or none is needed */
};
/* The line is borrowed until it returns. */
typedef void check_taker(void *arg, const struct check_line *line);

/* s: zeroed, with options.  Checks all items, in the order of the table; call start_undo
 * afterwards. */
void check_run(struct service *s, check_taker *take, void *arg);
