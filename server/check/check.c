/* Runs the first steps of `serve`, then those items of its table that the options need. */
#include "server/check/check.h"

#include "base/posix/clock.h"
#include "server/check/check_internal.h"
#include "server/config/setup.h"

enum { TEXT_MAX = 4096 };

const char *const CHECK_STATES[CHECK_STATE_MAX] = { "ok", "warning", "failed", "skipped" };

/* ---- the table of items ---- */

enum item_of { OF_ANY, OF_CLUSTER, OF_API /* needs its answers */, OF_DIRECTORY, OF_MACHINE };

static check_item check_process;

static const struct {
	const char *name;
	enum item_of of;
	check_item *run;
} ITEMS[] = {
	{ "process", OF_ANY, check_process },
	{ "API server", OF_CLUSTER, check_api },
	{ "login token", OF_CLUSTER, check_login_token },
	{ "clock", OF_API, check_clock },
	{ "right", OF_API, check_rights },
	{ "Frameworks", OF_API, check_frameworks },
	{ "controller", OF_API, check_controller },
	{ "controller's codes", OF_API, check_controller_codes },
	{ "pod security", OF_API, check_pod_security },
	{ "pods", OF_API, check_objects },
	{ "runtime", OF_API, check_runtime },
	{ "output", OF_CLUSTER, check_output },
	{ "directory", OF_DIRECTORY, check_directory },
	{ "database", OF_DIRECTORY, check_database },
	{ "runtime", OF_MACHINE, check_program },
	{ "resources", OF_MACHINE, check_resources },
	{ "sandbox", OF_MACHINE, check_sandbox },
	{ "images", OF_MACHINE, check_images },
};
enum { N_ITEMS = ARRAY_SIZE(ITEMS) };

/* ---- lines ---- */

void check_report(struct check_session *c, enum check_state state, const char *found,
                  const char *mend)
{
	c->take(c->arg, &(struct check_line){ state, c->item, found, mend });
}

void check_error(struct check_session *c, enum check_state state, const struct err *e)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	start_error(&text, c->s->file, e);
	check_report(c, state, str_c(&text), NULL);
}

static void process_warning(void *arg, const char *text, const char *key, const char *value)
{
	struct check_session *c = arg;
	check_report(c, CHECK_WARNING, key ? arena_printf(&c->arena, "%s: %s", text, value) : text,
	             NULL);
}

static void check_process(struct check_session *c)
{
	start_warnings(c->s, process_warning, c);
}

/* ---- requests ---- */

const struct store_reply *check_ask(struct check_session *c, struct store_request r)
{
	r.deadline_ms = clock_ms() + CHECK_WAIT_MS;
	r.whole = r.kind != KIND_SECRET; /* secrets are not needed */
	(void)store_call(&c->caller, &r, &c->arena, &c->reply);
	return &c->reply;
}

const struct store_reply *check_get(struct check_session *c, enum object_kind kind,
                                    const char *name, const char *space)
{
	return check_ask(
	    c, (struct store_request){
		   .verb = STORE_GET, .kind = kind, .name = name, .namespace_name = space });
}

/* ---- the steps of `serve`, then the items ---- */

/* false: the options contradict each other, so the items have no meaning. */
static bool check_steps(struct check_session *c)
{
	for (size_t i = 0; i < N_START_STEPS; i++) {
		ERR_AUTO e = { 0 };
		c->s->file = NULL;
		c->item = START_STEPS[i].name;
		if (START_STEPS[i].open(c->s, &e) < 0) {
			check_error(c, CHECK_FAILED, &e);
			if (i == 0)
				return false;
			continue;
		}
		STR_AUTO given = STR_INIT(TEXT_MAX); /* "--profile plain, --runtime image" */
		struct span rest = span_of(START_STEPS[i].options);
		while (rest.n) {
			const struct option *p = option_find(span_next(&rest, ' '), FOR_SERVE);
			const char *value = *(const char *const *)((const char *)c->o + p->at);
			if (value[0])
				str_printf(&given, "%s--%s %s", given.n ? ", " : "", p->name,
				           value);
		}
		if (given.n)
			SAY(c, CHECK_OK, NULL, "%s", str_c(&given));
	}
	c->s->file = NULL;
	return true;
}

void check_run(struct service *s, check_taker *take, void *arg)
{
	struct check_session c = { .s = s, .o = &s->options, .take = take, .arg = arg };
	start_begin(s);
	bool meant = check_steps(&c);
	if (s->server.login && s->server.translator)
		pod_needs_read(&s->server, &c.arena, &c.needs);
	for (size_t i = 0; meant && i < N_ITEMS; i++) {
		enum item_of of = ITEMS[i].of;
		bool local = c.o->local[0];
		c.item = ITEMS[i].name;
		if (of == OF_MACHINE ? !options_run_here(c.o)
		                     : of != OF_ANY && (of == OF_DIRECTORY) != local)
			continue;
		if (of == OF_API && !c.answers)
			check_report(&c, CHECK_SKIPPED, "needs the API server", NULL);
		else
			ITEMS[i].run(&c);
	}
	caller_end(&c.caller);
	arena_done(&c.arena);
}
