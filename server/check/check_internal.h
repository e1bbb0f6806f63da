#pragma once
/* Shared by the items. */
#include "k8s/transport/store.h"
#include "server/check/check.h"
#include "server/cluster/pod_needs.h"

struct check {
	struct service *s;
	const struct options *o;
	check_taker *take;
	void *arg;
	const char *item;   /* the name of the current one */
	struct arena arena; /* of all texts and answers */

	/* The cluster. */
	struct store *store;
	bool answers; /* the API server has answered, and knows this account */
	bool date;    /* it has told its time: */
	int64_t skew_s;
	struct pod_needs needs; /* empty if the templates are not valid */
	struct store_reply reply;
	bool replied;

	const char *dir;     /* an existing directory on the file system of --local; NULL: none */
	const char *program; /* pai-runtime, absolute; NULL: none */
};

/* Report a line of the current item; `found` often comes from arena_printf(&c->arena, ...). */
void check_say(struct check *c, enum check_state state, const char *found, const char *mend);
#define SAY(c, state, mend, ...) check_say(c, state, arena_printf(&(c)->arena, __VA_ARGS__), mend)
/* The same with all notes of an error. */
void check_error(struct check *c, enum check_state state, const char *file, const struct err *e);

/* Send a request and wait for its answer, which lives in the arena; at most CHECK_WAIT_MS. */
enum { CHECK_WAIT_MS = 5000 };
const struct store_reply *check_ask(struct check *c, struct store_request r);
/* A GET; space NULL: the namespace of the jobs. */
const struct store_reply *check_get(struct check *c, enum object_kind kind, const char *name,
                                    const char *space);

/* ---- items ---- */
void check_process(struct check *c);
void check_api(struct check *c);
void check_clock(struct check *c);
void check_login_token(struct check *c);
void check_rights(struct check *c);
void check_frameworks(struct check *c);
void check_controller(struct check *c);
void check_codes(struct check *c);
void check_objects(struct check *c);
void check_runtime(struct check *c);
void check_output(struct check *c);
void check_program(struct check *c);
void check_directory(struct check *c);
void check_resources(struct check *c);
void check_sandbox(struct check *c);
void check_images(struct check *c);
