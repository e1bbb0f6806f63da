#pragma once
/* Shared by the items. */
#include "jobs/store/call.h"
#include "server/check/check.h"
#include "server/cluster/pod_needs.h"

/* The Lease of `rest-lit controller`. */
enum lease_state {
	LEASE_UNASKED,
	LEASE_HIDDEN /* cannot be read */,
	LEASE_ABSENT,
	LEASE_OLD,
	LEASE_HELD
};
struct check_leader {
	enum lease_state state;
	const char *holder;             /* "" if it was given back */
	int64_t acquired_ms, renewed_s; /* since 1970; ago */
};

struct check_session {
	struct service *s;
	const struct options *o;
	check_taker *take;
	void *arg;
	const char *item;   /* the name of the current one */
	struct arena arena; /* of all texts and answers */

	/* The cluster. */
	struct caller caller;
	bool answers; /* the API server has answered, and knows this account */
	bool date;    /* it has told its time: */
	int64_t skew_s;
	struct pod_needs needs; /* empty if the templates are not valid */
	struct store_reply reply;
	bool nodes_good;            /* have what pods ask for */
	struct check_leader leader; /* by check_leader() */

	const char *dir;     /* an existing directory on the file system of --local; NULL: none */
	const char *program; /* pai-runtime, absolute; NULL: none */
};

/* Reports a line of the current item; `found` often comes from arena_printf(&c->arena, ...). */
void check_report(struct check_session *c, enum check_state state, const char *found,
                  const char *mend);
#define SAY(c, state, mend, ...)                                                                   \
	check_report(c, state, arena_printf(&(c)->arena, __VA_ARGS__), mend)
/* The same with all notes of an error. */
void check_error(struct check_session *c, enum check_state state, const struct err *e);

/* Sends a request and waits for its answer, which lives in the arena; at most CHECK_WAIT_MS. */
enum { CHECK_WAIT_MS = 5000 };
const struct store_reply *check_ask(struct check_session *c, struct store_request r);
/* A GET; space NULL: the namespace of the jobs. */
const struct store_reply *check_get(struct check_session *c, enum object_kind kind,
                                    const char *name, const char *space);

/* The time of the API server, in milliseconds since 1970. */
int64_t check_now_ms(const struct check_session *c);
/* Asks for the Lease once. */
const struct check_leader *check_leader(struct check_session *c);

/* ---- items ---- */
typedef void check_item(struct check_session *c);
check_item check_program, check_directory, check_database, check_resources, check_sandbox,
    check_images;
check_item check_api, check_clock, check_login_token, check_rights, check_frameworks,
    check_controller, check_controller_codes, check_pod_security, check_objects, check_runtime,
    check_output;
