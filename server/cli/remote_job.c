/* Jobs by their names, and the commands about one job. */
#include "base/json/scan.h"
#include "server/auth/token.h"
#include "server/cli/cli_internal.h"
#include "server/jobs/jobs.h"
#include "server/setup.h"

enum { DEPTH = 64, TEXT_MAX = 4096, DETAIL_MAX = 128 << 20, LIST_MAX = 16 << 20 };

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
	const struct client_call call = { .method = "GET",
		                          .path = "/api/v2/tokens/check",
		                          .max = TOKEN_MAX };
	if (remote_ask(r, &call, &reply, e) < 0)
		return NULL;
	struct span body = str_view(&reply.body);
	struct span user = { "", 0 };
	if (scan_valid(body, DEPTH))
		user = scan_text(scan_get(body, "username"), a);
	if (user.n)
		return arena_dup(a, user);
	(void)err_set(e, UNKNOWN_ERROR,
	              "%s does not return the name of the user: name the job USER~NAME",
	              r->o->server);
	return NULL;
}

const char *remote_job(struct remote *r, const char *name, struct arena *a, struct err *e)
{
	if (strlen(name) > AT_MAX / 4) {
		(void)err_set(e, 400, NULL, "the name of the job is too long");
		return NULL;
	}
	if (strchr(name, '~'))
		return arena_dup(a, span_of(name));
	const char *user = remote_user(r, a, e);
	return user ? arena_printf(a, "%s~%s", user, name) : NULL;
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
	const struct client_call call = { .method = "GET",
		                          .path = "/api/v2/jobs?limit=5000",
		                          .max = LIST_MAX };
	if (!e->code || strcmp(e->code, "NoJobError") != 0)
		return -1;
	STR_AUTO shown = STR_INIT(TEXT_MAX);
	visible_text(&shown, span_of(job));
	const char *best = NULL;
	if (remote_ask(r, &call, &reply, &ignored) == 0 && scan_valid(str_view(&reply.body), DEPTH))
		best = nearest_job(str_view(&reply.body), job, &arena);
	if (!best)
		return err_set(e, 404, NULL,
		               "there is no job %s (404); rest-lit jobs lists all jobs",
		               str_c(&shown));
	STR_AUTO near = STR_INIT(TEXT_MAX);
	visible_text(&near, span_of(best));
	return err_set(e, 404, NULL, "there is no job %s (404); did you mean %s?", str_c(&shown),
	               str_c(&near));
}

int remote_get_job(struct remote *r, const char *job, const char *rest, struct remote_reply *out,
                   struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const struct client_call call = { .method = "GET",
		                          .path = remote_path(job, rest, &arena),
		                          .max = DETAIL_MAX };
	return remote_ask(r, &call, out, e) < 0 ? remote_no_job(r, job, e) : 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

int remote_job_command(const struct command *c, int argc, char **argv, size_t more,
                       int (*run)(struct remote *r, struct err *e))
{
	struct options o;
	int code = command_options(c, &o, argc, argv);
	if (code < 0 && (o.n_files < 1 || o.n_files > 1 + more))
		code = command_usage(c, more ? "name a job, and perhaps a task" : "name one job");
	else if (code < 0 && strcmp(o.output, "yaml") == 0)
		code = command_usage(c, "--output: table or json");
	else if (code < 0)
		code = remote_run(&o, run);
	options_done(&o);
	return code;
}
