#include "base/clock.h"
#include "server/cli/cli_internal.h"

enum { VIEW_MAX = 256 * 1024 };

void view_init(struct view *v, const char *job)
{
	*v = (struct view){ .job = job, .line = STR_INIT(VIEW_MAX) };
	v->progress.state = JOB_STATE_MAX;
	term_init(&v->term);
}

void view_done(struct view *v)
{
	term_done(&v->term);
	arena_done(&v->arena);
	str_done(&v->line);
}

int view_take(struct view *v, struct span detail, struct err *e)
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

static void view_print_line(struct view *v)
{
	STR_AUTO line = STR_INIT(VIEW_MAX);
	progress_line(&line, &v->progress);
	if (span_eq(str_view(&line), str_view(&v->line)))
		return;
	term_say(&v->term, "%s", str_c(&line));
	v->line.n = 0;
	str_span(&v->line, str_view(&line));
}

void view_show(struct view *v, const struct task_progress *tasks, size_t n)
{
	STR_AUTO block = STR_INIT(VIEW_MAX);
	const struct frame frame = {
		v->job, term_columns(), term_rows(), clock_wall_ms(), tasks, n
	};
	bool draws = v->term.block && !v->quiet;
	if (v->detail.n && draws) {
		progress_block(&block, &v->progress, &frame);
		term_block(&v->term, str_view(&block));
	} else if (v->detail.n && !(v->quiet && v->progress.state != JOB_WAITING)) {
		view_print_line(v);
	}
	term_show(&v->term);
}

int view_verdict(struct view *v, struct span more)
{
	STR_AUTO text = STR_INIT((size_t)2 * VIEW_MAX);
	progress_verdict(&text, &v->progress, v->job);
	str_span(&text, more);
	text.n -= text.n > 0; /* the last LF */
	term_print(&v->term, "%.*s", (int)text.n, text.p);
	return v->progress.state == JOB_SUCCEEDED ? EXIT_OK : EXIT_REFUSED;
}
