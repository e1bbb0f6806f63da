/* rest-lit check: the first steps of `serve`, then the checks (server/check); a line per item. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/wrap.h"
#include "server/check/check.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/http/loop.h"
#include "server/serve/start.h"
#include "server/state/log.h"

enum { CHECK_TEXT_MAX = 16384, COLUMN = 9, WIDTH_MAX = 100, CHECK_WAIT_MS = 5000 };

/* ---- output ---- */

struct check_output {
	size_t n[CHECK_STATE_MAX];
	size_t width; /* of lines on a terminal; elsewhere without limit */
	int code;
};

/* Untrusted text, in lines that begin at a column. */
static void check_put(struct str *out, const char *text, size_t column, size_t width)
{
	STR_AUTO safe = STR_INIT(CHECK_TEXT_MAX);
	visible_text(&safe, span_of(text));
	str_wrap(out, str_view(&safe), column, width);
}

static void check_print(void *arg, const struct check_line *l)
{
	struct check_output *o = arg;
	STR_AUTO out = STR_INIT(CHECK_TEXT_MAX);
	STR_AUTO text = STR_INIT(CHECK_TEXT_MAX);
	o->n[l->state]++;
	str_printf(&out, "%-*s", COLUMN, CHECK_STATES[l->state]);
	str_printf(&text, "%s: %s", l->item, l->found);
	check_put(&out, str_c(&text), COLUMN, o->width);
	if (l->mend) {
		str_printf(&out, "%*s-> ", COLUMN, "");
		check_put(&out, l->mend, COLUMN + 3, o->width);
	}
	if (o->code == EXIT_OK)
		o->code = command_print(str_view(&out));
}

/* ---- the steps of `serve`, then the checks ---- */

/* false: the options contradict each other, so the checks have no meaning. */
static bool check_steps(struct check_session *c, struct service *s)
{
	for (size_t i = 0; i < N_START_STEPS; i++) {
		ERR_AUTO e = { 0 };
		s->file = NULL;
		c->item = START_STEPS[i].name;
		if (START_STEPS[i].open(s, &e) < 0) {
			check_error(c, CHECK_FAILED, s->file, &e);
			if (i == 0)
				return false;
			continue;
		}
		STR_AUTO given = STR_INIT(CHECK_TEXT_MAX); /* "--profile plain, --runtime image" */
		struct span rest = span_of(START_STEPS[i].options);
		while (rest.n) {
			const struct option *p = option_find(span_next(&rest, ' '), FOR_SERVE);
			const char *value = *(const char *const *)((const char *)c->o + p->at);
			if (value[0])
				str_printf(&given, "%s--%s %s", given.n ? ", " : "", p->name,
				           value);
		}
		if (given.n)
			check_report(c, CHECK_OK, str_c(&given), NULL);
	}
	start_warnings(s, c);
	return true;
}

static void check_service(struct service *s, struct check_output *o)
{
	struct caller caller = { .stop_fd = -1 };
	struct pod_needs needs = { 0 };
	struct check_session c = { .server = &s->server,
		                   .o = &s->options,
		                   .needs = &needs,
		                   .caller = &caller,
		                   .wait_ms = CHECK_WAIT_MS,
		                   .take = check_print,
		                   .arg = o };
	start_begin(s);
	if (check_steps(&c, s)) {
		if (s->server.login && s->server.translator)
			pod_needs_read(s->server.translator, &c.arena, &needs);
		check_run(&c);
	}
	caller_end(&caller);
	arena_done(&c.arena);
}

static int check_and_print(struct service *s)
{
	ERR_AUTO e = { 0 };
	STR_AUTO sum = STR_INIT(CHECK_TEXT_MAX);
	struct check_output o = { .width = output_columns() };
	if (o.width != SIZE_MAX && o.width > WIDTH_MAX)
		o.width = WIDTH_MAX;
	process_harden();
	(void)process_scrub();
	/* The lines say what the functions of serve log. */
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	log_init(nowhere);
	if (http_init(&e) < 0)
		o.code = print_error_notes(&e, NULL, EXIT_REFUSED);
	else
		check_service(s, &o);
	start_undo(s);
	(void)close(nowhere); /* nothing was written */
	for (size_t i = 0; i < CHECK_STATE_MAX; i++)
		str_printf(&sum, "%s%zu %s", i ? ", " : "", o.n[i], CHECK_STATES[i]);
	str_char(&sum, '\n');
	int code = o.code == EXIT_OK ? command_print(str_view(&sum)) : o.code;
	return code == EXIT_OK && o.n[CHECK_FAILED] ? EXIT_REFUSED : code;
}

int cmd_check(const struct command *c, struct options *o)
{
	(void)c;
	return command_service(o, check_and_print);
}
