/* Shows a job while it changes: as a block that is drawn again, or as a line for each change. */
#include <unistd.h>

#include "base/posix/clock.h"
#include "server/cli/cli_internal.h"

enum {
	VIEW_MAX = 256 * 1024,
	/* With a command: before the reason why it waits is printed, and before the next one. */
	PATIENCE_MS = 1000,
	PAUSE_MS = 10000
};

void view_init(struct live_view *v, const char *job)
{
	*v = (struct live_view){ .job = job, .line = STR_INIT(VIEW_MAX) };
	v->progress.state = JOB_STATE_MAX;
	v->term = (struct term){ .terminal = isatty(STDOUT_FILENO),
		                 .block = term_colours(STDERR_FILENO),
		                 .colour = term_colours(STDOUT_FILENO),
		                 .text = STR_INIT(VIEW_MAX) };
}

int view_take(struct live_view *v, struct span detail, struct err *e)
{
	struct arena fresh = { 0 };
	struct progress p;
	detail = arena_span(&fresh, detail);
	if (progress_read(&p, detail, &fresh, e) < 0) {
		arena_done(&fresh);
		return -1;
	}
	arena_done(&v->arena);
	v->arena = fresh;
	v->detail = detail;
	v->progress = p;
	v->progress.colour = v->term.block;
	return 0;
}

void view_show(struct live_view *v, const struct task_progress *tasks, size_t n)
{
	STR_AUTO text = STR_INIT(VIEW_MAX);
	struct term_size size = term_size();
	const struct progress_frame frame = { v->job,          size.columns, size.rows,
		                              clock_wall_ms(), tasks,        n };
	struct span block = str_view(&v->term.text);
	const struct progress *p = &v->progress;
	if (v->own && p->state == JOB_WAITING && !p->n_roles && !p->waiting[0])
		return;
	if (v->plain) {
		bool waits = p->state == JOB_WAITING && p->waiting[0] &&
		             frame.now_ms - p->submitted_ms >= PATIENCE_MS &&
		             frame.now_ms - v->told_ms >= PAUSE_MS;
		if (waits && !span_is(str_view(&v->line), p->waiting)) {
			term_print(&v->term, "rest-lit: %s", p->waiting);
			v->told_ms = frame.now_ms;
			v->line.n = 0;
			str_puts(&v->line, p->waiting);
		}
		term_show(&v->term, SPAN(""));
		return;
	}
	if (v->detail.n && v->term.block && !v->quiet) {
		progress_block(&text, &v->progress, &frame);
		block = str_view(&text);
	} else if (v->detail.n && !(v->quiet && v->progress.state != JOB_WAITING)) {
		if (v->several)
			str_printf(&text, "%s ", v->job);
		progress_line(&text, &v->progress);
		if (!span_eq(str_view(&text), str_view(&v->line))) {
			term_message(&v->term, "%s", str_c(&text));
			v->line.n = 0;
			str_span(&v->line, str_view(&text));
		}
	}
	term_show(&v->term, block);
}

int view_verdict(struct live_view *v, struct span more)
{
	STR_AUTO text = STR_INIT((size_t)2 * VIEW_MAX);
	progress_verdict(&text, &v->progress, v->job);
	str_span(&text, more);
	text.n -= text.n > 0; /* the last LF */
	term_print(&v->term, "%.*s", (int)text.n, text.p);
	return v->progress.state == JOB_SUCCEEDED ? EXIT_OK : EXIT_REFUSED;
}
