/* The list of checks, the lines that they report, and their requests. */
#include "server/check/check.h"

#include <time.h>

#include "base/posix/clock.h"
#include "server/check/check_internal.h"
#include "server/config/options.h"
#include "server/config/setup.h"
#include "server/state/log.h"

enum { TEXT_MAX = 4096 };

const char *const CHECK_STATES[CHECK_STATE_MAX] = { "ok", "warning", "failed", "skipped" };

const struct check CHECKS[N_CHECKS] = {
	{ "API server", OF_CLUSTER, false, check_api },
	{ "login token", OF_CLUSTER, false, check_login_token },
	{ "clock", OF_API, false, check_clock },
	{ "right", OF_API, false, check_rights },
	{ "Frameworks", OF_API, false, check_frameworks },
	{ "Kueue", OF_API, false, check_kueue },
	{ "controller", OF_API, false, check_controller },
	{ "controller's codes", OF_API, true, check_controller_codes },
	{ "pod security", OF_API, false, check_pod_security },
	{ "pods", OF_API, true, check_account },
	{ "pods", OF_API, true, check_exit_spec },
	{ "pods", OF_API, true, check_priority_class },
	{ "pods", OF_API, true, check_nodes },
	{ "runtime", OF_API, false, check_runtime },
	{ "output", OF_CLUSTER, false, check_output },
	{ "hand-back", OF_RETURN, false, check_hand_back },
	{ "directory", OF_DIRECTORY, false, check_directory },
	{ "database", OF_DIRECTORY, false, check_database },
	{ "runtime", OF_MACHINE, false, check_program },
	{ "resources", OF_MACHINE, false, check_resources },
	{ "sandbox", OF_MACHINE, false, check_sandbox },
	{ "images", OF_MACHINE, false, check_images },
};

void check_run(struct check_session *c)
{
	for (const struct check *k = CHECKS; k < CHECKS + N_CHECKS; k++) {
		c->item = k->item;
		if (c->o->hand_back ? k->of != OF_RETURN && k->run != check_api
		                    : k->of == OF_RETURN)
			continue;
		if (k->of == OF_MACHINE ? !options_run_here(c->o)
		                        : (k->of == OF_DIRECTORY) != (c->o->local[0] != '\0'))
			continue;
		if ((k->of == OF_API || k->of == OF_RETURN) && !c->answers)
			check_report(c, CHECK_SKIPPED, "needs the API server", NULL);
		else
			k->run(c);
	}
}

/* ---- lines ---- */

void check_report(struct check_session *c, enum check_state state, const char *found,
                  const char *mend)
{
	c->take(c->arg, &(struct check_line){ state, c->item, found, mend });
}

void check_error(struct check_session *c, enum check_state state, const char *file,
                 const struct err *e)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	setup_put_error(&text, file, e);
	check_report(c, state, str_c(&text), NULL);
}

void check_log(void *arg, const struct check_line *l)
{
	static const char *const EVENTS[CHECK_STATE_MAX] = { "check: ok", "check: warning",
		                                             "check: failed", "check: skipped" };
	bool bad = l->state == CHECK_WARNING || l->state == CHECK_FAILED;
	struct line line = log_begin(bad ? LOG_WARN : LOG_INFO, EVENTS[l->state]);
	(void)arg;
	log_text(&line, "item", span_of(l->item));
	log_text(&line, "found", span_of(l->found));
	if (l->mend)
		log_text(&line, "mend", span_of(l->mend));
	log_end(&line);
}

/* ---- requests ---- */

const struct store_reply *check_ask(struct check_session *c, struct store_request r)
{
	r.deadline_ms = clock_ms() + c->wait_ms;
	r.whole = r.kind != KIND_SECRET; /* secrets are not needed */
	enum store_outcome outcome = store_call(c->caller, &r, &c->arena, &c->reply);
	c->unanswered |=
	    outcome == STORE_BUSY || outcome == STORE_AMBIGUOUS || outcome == STORE_FULL;
	c->date = c->reply.date_s != 0;
	c->skew_s = (int64_t)time(NULL) - c->reply.date_s;
	return &c->reply;
}

const struct store_reply *check_get(struct check_session *c, enum object_kind kind,
                                    const char *name, const char *space)
{
	return check_ask(
	    c, (struct store_request){
		   .verb = STORE_GET, .kind = kind, .name = name, .namespace_name = space });
}

void check_cannot_look(struct check_session *c, const char *file)
{
	SAY(c, CHECK_SKIPPED,
	    file && c->reply.status == 403 ? check_apply(c->server, &c->arena, file) : NULL, "%.*s",
	    (int)c->reply.message.n, c->reply.message.p);
}
