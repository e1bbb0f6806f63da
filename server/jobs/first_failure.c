/*
 * The first failure: of all tasks of a failed attempt, the one whose own failure came first, and
 * those that only followed it.  When one process of a distributed program ends, the others lose it:
 * their connections break, or their collective operations time out, and often one of them is
 * noticed before the first.  So the time alone does not decide: CAUSES and the words of the exit
 * specification say which ends follow from others.
 *
 * Times are those of the clocks of the nodes, which differ.  pai-runtime reports milliseconds;
 * Kubernetes has whole seconds, and FrameworkController's completionTime is when the pod was gone.
 */
#include "server/jobs/jobs_internal.h"

enum {
	SLACK_MS = 1000,       /* the difference of the clocks of two nodes */
	FIRST_READ = 4 << 20,  /* bytes of diagnostics; of further tasks only code and time count */
	FIRST_FOLLOWERS = 100, /* shown */
	FIRST_LINES = 15,      /* shown */
	FIRST_TAIL = 400, /* bytes of the end of a log that are searched for the text of a cause */
	CODE_REMOVED = -230, /* the job has fewer instances now */
};

/* ---- causes ---------------------------------------------------------------------------------- */

static bool end_has_code(const struct task_end *t, const struct exit_word *w)
{
	return w->code <= t->code && t->code <= w->to;
}

void task_end_classify(struct task_end *t, const struct exit_spec *spec, struct span said)
{
	size_t n;
	const struct exit_word *v = exit_spec_words(spec, &n);
	bool unclear = false;
	for (const struct exit_word *w = v; w < v + n; w++)
		unclear |= w->kind == END_UNCLEAR && end_has_code(t, w);
	t->kind = END_ORIGIN;
	t->why = NULL;
	/* The first one for the code decides. */
	for (const struct exit_word *w = v; w < v + n; w++)
		if (w->kind != END_UNCLEAR && (w->code ? end_has_code(t, w) : unclear) &&
		    (!w->text[0] || span_find(said, 0, w->text) != SIZE_MAX)) {
			t->why = w->why;
			t->kind = w->kind;
			return;
		}
}

/* ---- choice ---------------------------------------------------------------------------------- */

size_t first_failure(const struct task_end *v, size_t n)
{
	int64_t earliest_ms = END_UNKNOWN;
	size_t first = SIZE_MAX;
	bool origin = false;
	for (size_t i = 0; i < n; i++) {
		if (v[i].kind != END_STOPPED && v[i].ended_ms < earliest_ms)
			earliest_ms = v[i].ended_ms;
	}
	for (size_t i = 0; i < n; i++) {
		/* A task that was killed followed another if that ended clearly earlier. */
		bool own = v[i].kind == END_ORIGIN ||
		           (v[i].kind == END_KILLED && v[i].ended_ms - SLACK_MS <= earliest_ms);
		if (v[i].kind == END_STOPPED || own < origin)
			continue;
		if (first == SIZE_MAX || own > origin || v[i].ended_ms < v[first].ended_ms)
			first = i;
		origin = own;
	}
	return first;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The rest of the line of a report that begins with the key; each value is one line. */
static struct span report_value(struct span report, const char *key)
{
	size_t at = span_find(report, 0, key);
	if (at == SIZE_MAX)
		return (struct span){ NULL, 0 };
	struct span value = span_from(report, at + strlen(key));
	return span_to(value, span_chr(value, '\n'));
}

/* Returns the last words of a task: the text that explained its end, else the last lines. */
static struct span task_last_words(struct span message, struct span report)
{
	struct span text = report_value(report, "\nmatchedUserLogString: ");
	if (text.n)
		return text;
	text = report_value(report, "\n  user: ");
	if (!text.n || text.p[0] != '"') /* not of this runtime */
		text = report.p ? report : message;
	if (text.n > FIRST_TAIL)
		text = (struct span){ text.p + text.n - FIRST_TAIL, FIRST_TAIL };
	return text;
}

void task_ends_add(struct shower *w, struct span role, const struct fw_view *t,
                   const struct completion_status *o)
{
	struct task_ends *all = w->ends;
	struct span message = { NULL, 0 };
	if (!o->has_code || o->code == 0 || o->code == CODE_REMOVED || t->index < 0)
		return;
	if (o->diagnostics.n <= FIRST_READ - all->read) {
		message = said_message(o->diagnostics, w->a);
		all->read += o->diagnostics.n;
	}
	struct span report = said_report(message);
	if (all->n == all->cap) {
		all->cap = all->cap ? 2 * all->cap : 64;
		struct task_end *v = ARENA_NEW(w->a, struct task_end, all->cap);
		if (all->n)
			memcpy(v, all->v, all->n * sizeof(*v));
		all->v = v;
	}
	/* The time that pai-runtime reports counts if it is between the controller's times of the
	 * task: clocks of nodes may be wrong by hours, and the job can write the message as well.
	 */
	int64_t gone_ms = t->attempt_completion_ms < 0 ? END_UNKNOWN : t->attempt_completion_ms;
	int64_t ended_ms = END_UNKNOWN;
	if (!scan_time_ms(report_value(report, "\nendTime: "), &ended_ms) ||
	    ended_ms < t->attempt_start_ms || ended_ms - SLACK_MS > gone_ms)
		ended_ms = gone_ms;
	struct task_end *out = &all->v[all->n++];
	*out = (struct task_end){ .role = role,
		                  .index = t->index,
		                  .code = o->code,
		                  .ended_ms = ended_ms,
		                  .rank = -1,
		                  .outcome = *o };
	(void)parse_i64(report_value(report, "\nfailedRank: "), 0, INT32_MAX, &out->rank);
	task_end_classify(out, w->s->spec, task_last_words(message, report));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* `,"lines":[...]`: the last lines of the text. */
static void first_put_lines(struct str *out, struct span text)
{
	text.n -= text.n > 0 && text.p[text.n - 1] == '\n';
	size_t from = text.n;
	size_t lines = 0;
	while (from > 0 && !(text.p[from - 1] == '\n' && ++lines == FIRST_LINES))
		from--;
	json_put_open(out, "lines", '[');
	text = span_from(text, from);
	while (text.n > 0)
		json_put_text(out, NULL, span_next(&text, '\n'));
	str_char(out, ']');
}

/* The text in which the exit specification has found the cause, if it is one line; else the line of
 * the commands that failed, or a name. */
static void first_put_cause(struct shower *w, const struct task_end *t, struct span report,
                            struct span log)
{
	STR_AUTO spec = STR_INIT(DIAGNOSTICS_MAX);
	struct span text = span_trim(scan_text(scan_get(report, "matchedUserLogString"), w->a));
	struct span reason = scan_text(scan_get(report, "failedLine"), w->a);
	if (text.n && !memchr(text.p, '\n', text.n)) {
		/* The last occurrence in the log, up to the end of its line. */
		const char *key = arena_dup(w->a, text);
		size_t last = SIZE_MAX;
		for (size_t at = 0; (at = span_find(log, at, key)) != SIZE_MAX; at++)
			last = at;
		struct span line = last == SIZE_MAX ? text : span_from(log, last);
		text = last == SIZE_MAX ? text : span_trim(span_to(line, span_chr(line, '\n')));
	} else if (t->kind == END_FOLLOWED) {
		text = span_of(t->why);
	} else if (reason.n) {
		text = reason;
	} else {
		exit_spec_json(&spec, w->s->spec, t->code, true);
		text = scan_text(scan_get(str_view(&spec), "phrase"), w->a);
	}
	json_put_text(w->out, "cause", text);
}

static void first_put_followers(struct str *out, const struct task_ends *all,
                                const struct task_end *t)
{
	size_t n = 0;
	json_put_open(out, "followers", '[');
	for (const struct task_end *f = all->v; f < all->v + all->n; f++) {
		if (f == t || f->kind == END_ORIGIN || n++ >= FIRST_FOLLOWERS)
			continue;
		json_put_open(out, NULL, '{');
		json_put_text(out, "taskRole", f->role);
		json_put_int(out, "taskIndex", f->index);
		json_put_int(out, "exitCode", f->code);
		json_put_word(out, "cause", f->why);
		str_char(out, '}');
	}
	str_char(out, ']');
	json_put_int(out, "followersCount", (int64_t)n);
}

void show_first_failure(struct shower *w, const struct task_ends *all)
{
	size_t first = first_failure(all->v, all->n);
	if (first == SIZE_MAX)
		return;
	const struct task_end *t = &all->v[first];
	struct span report = said_read(t->outcome.diagnostics, true, w->a).runtime;
	struct span log = scan_text(scan_path(report, "errorLogs", "user"), w->a);
	if (!report.p)
		log = said_message(t->outcome.diagnostics, w->a);
	json_put_open(w->out, "firstFailure", '{');
	json_put_text(w->out, "taskRole", t->role);
	json_put_int(w->out, "taskIndex", t->index);
	json_put_known(w->out, "rank", t->rank >= 0, t->rank);
	json_put_known(w->out, "time", t->ended_ms != END_UNKNOWN, t->ended_ms);
	json_put_int(w->out, "exitCode", t->code);
	show_exit_spec(w, "exitSpec", &t->outcome);
	first_put_cause(w, t, report, log);
	first_put_lines(w->out, log);
	first_put_followers(w->out, all, t);
	str_char(w->out, '}');
}
