/* Jobs by their names, and the commands about one job. */
#include "base/json/scan.h"
#include "server/auth/token.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/jobs/jobs.h"

enum { TEXT_MAX = 4096 };

const char *remote_path(const char *job, const char *rest, struct arena *a)
{
	STR_AUTO out = STR_INIT(TEXT_MAX);
	str_puts(&out, "/api/v2/jobs/");
	job_path_segment(&out, span_of(job));
	str_puts(&out, rest);
	return arena_dup(a, str_view(&out));
}

const char *remote_user(struct remote *r, struct arena *a, struct err *e)
{
	REPLY_AUTO reply = { 0 };
	struct span answer;
	if (remote_get(r, "/api/v2/tokens/check", &reply, &answer, e) < 0)
		return NULL;
	struct span user = scan_text(scan_get(answer, "username"), a);
	if (user.n)
		return arena_dup(a, user);
	(void)err_set(e, UNKNOWN_ERROR,
	              "%s does not return the name of the user: name the job USER~NAME",
	              r->o->server);
	return NULL;
}

/* ---- the nearest name ------------------------------------------------------------------------ */

/* The job of the same user with the nearest name; else one of another user with this name. */
static const char *nearest_job(struct span jobs, const char *job, struct arena *a)
{
	size_t n = span_chr(span_of(job), '~');
	struct span user = { job, n };
	struct guess guess = { .name = span_of(job[n] ? job + n + 1 : job) };
	const char *other = NULL;
	struct scan walk = scan_begin(jobs);
	for (struct span row; scan_item(&walk, &row);) {
		struct span owner = scan_text(scan_get(row, "username"), a);
		const char *name = arena_dup(a, scan_text(scan_get(row, "name"), a));
		if (span_eq(owner, user))
			guess_try(&guess, name);
		else if (span_is(guess.name, name) && !other)
			other = arena_printf(a, "%.*s~%s", (int)owner.n, owner.p, name);
	}
	if (!guess.best)
		return other;
	return arena_printf(a, "%.*s~%s", (int)user.n, user.p, guess.best);
}

int remote_no_job(struct remote *r, const char *job, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	ERR_AUTO ignored = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span jobs;
	if (!e->code || strcmp(e->code, "NoJobError") != 0)
		return -1;
	STR_AUTO shown = STR_INIT(TEXT_MAX);
	visible_text(&shown, span_of(job));
	const char *best = NULL;
	if (remote_get(r, "/api/v2/jobs?limit=5000", &reply, &jobs, &ignored) == 0)
		best = nearest_job(jobs, job, &arena);
	if (!best)
		return err_set(e, 404, NULL,
		               "there is no job %s (404); rest-lit jobs lists all jobs",
		               str_c(&shown));
	STR_AUTO near = STR_INIT(TEXT_MAX);
	visible_text(&near, span_of(best));
	return err_set(e, 404, NULL, "there is no job %s (404); did you mean %s?", str_c(&shown),
	               str_c(&near));
}

/* ---- commands -------------------------------------------------------------------------------- */

struct job_command {
	job_runner *run;
	const char *part;
};

static int job_run(struct remote *r, const void *arg, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	const struct job_command *j = arg;
	struct span answer = { "", 0 };
	const char *job = r->o->files[0];
	if (strlen(job) > AT_MAX / 4)
		return err_set(e, 400, NULL, "the name of the job is too long");
	if (!strchr(job, '~')) {
		const char *user = remote_user(r, &arena, e);
		if (!user)
			return -1;
		job = arena_printf(&arena, "%s~%s", user, job);
	}
	if (j->part && remote_get(r, remote_path(job, j->part, &arena), &reply, &answer, e) < 0)
		return remote_no_job(r, job, e);
	return j->run(r, job, answer, e);
}

int remote_job_command(const struct command *c, const struct options *o, job_runner *run,
                       const char *part)
{
	if (strcmp(o->output, "yaml") == 0)
		return command_usage(c, "--output: table or json");
	return remote_run(o, NULL, job_run, &(struct job_command){ run, part });
}
