#pragma once
/*
 * The code of jobs: routes to upload an archive, to ask for it, and to get that of a job
 * (code_routes.c); its use by a submission (code_use.c).  base/code/code.h has the archive,
 * jobs/code/code_store.h where it is kept.
 *
 * Thread: loop
 */
#include "jobs/code/code_store.h"
#include "server/http/route.h"
#include "server/state/server.h"
#include "translate/translate.h"

/* code_check_head: before the body of code_put. */
handler code_put, code_check_head, code_get, job_code_get;

/* Bytes that the files of an archive may have on this server.  Thread: any. */
int64_t code_unpacked_max(const struct server *s);

/*
 * A user's job names this archive: makes now its last use, unless it is a dry run, and calls back
 * with its facts or with *e: 400 NoCodeError, 503.  r waits; it has a store.
 */
struct code_use {
	struct request *r;
	const char *user;
	const struct job_code *code; /* of the job */
	bool dry_run;
	void (*done)(void *arg, const struct code_fact *fact, struct err *e); /* if e->http is 0 */
	void *arg;
};
void code_use(const struct code_use *use);
