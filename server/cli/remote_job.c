/* Jobs by their names, and the commands about one job. */
#include <stdio.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/store/paths.h"
#include "server/auth/token.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/jobs/jobs.h"
#include "server/runs/runs.h"

enum { TEXT_MAX = 4096, PATH_LIMIT = 64 << 10, LINE_MAX = 1024, COUNT_MS = 10000 };

const char *remote_path(const char *job, const char *rest, struct arena *a)
{
	STR_AUTO out = STR_INIT(TEXT_MAX);
	str_puts(&out, "/api/v2/jobs/");
	query_encode(&out, span_of(job));
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

/* The job of the same user with the nearest name. */
static const char *nearest_job(struct span jobs, const char *job, struct arena *a)
{
	size_t n = span_chr(span_of(job), '~');
	struct span user = { job, n };
	struct guess guess = { .name = span_of(job[n] ? job + n + 1 : job) };
	struct scan walk = scan_begin(jobs);
	for (struct span row; scan_item(&walk, &row);) {
		struct span owner = scan_text(scan_get(row, "username"), a);
		const char *name = arena_dup(a, scan_text(scan_get(row, "name"), a));
		if (span_eq(owner, user))
			guess_try(&guess, name);
	}
	if (!guess.best)
		return NULL;
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
	const char *shown = visible_line(&arena, span_of(job));
	const char *best = NULL;
	if (remote_get(r, "/api/v2/jobs?limit=5000", &reply, &jobs, &ignored) == 0)
		best = nearest_job(jobs, job, &arena);
	if (!best)
		return err_set(e, 404, NULL,
		               "there is no job %s (404); rest-lit jobs lists all jobs", shown);
	return err_set(e, 404, NULL, "there is no job %s (404); did you mean %s?", shown,
	               visible_line(&arena, span_of(best)));
}

void remote_put_tags(struct str *out, const struct option_list *tags)
{
	for (size_t i = 0; i < tags->n; i++) {
		str_puts(out, i ? "," : "&tagsContain=");
		query_encode(out, span_of(tags->v[i]));
	}
}

/* ---- commands -------------------------------------------------------------------------------- */

const char *remote_job_name(struct remote *r, const char *job, struct arena *a, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	const char *user = NULL;
	(void)quote(shown, span_of(job));
	if (strlen(job) > AT_MAX / 4)
		(void)err_set(e, 400, NULL, "the name of the job is too long");
	else if (strchr(job, '/'))
		(void)err_set(e, 400, NULL,
		              "\"%s\" is no name of a job, which is USER~NAME: %.*s~%s", shown,
		              (int)strcspn(shown, "/"), shown, strchr(shown, '/') + 1);
	else if (strchr(job, '~'))
		return job;
	else
		user = remote_user(r, a, e);
	return user ? arena_printf(a, "%s~%s", user, job) : NULL;
}

/* One job, which is NAME or USER~NAME. */
static int job_run_one(struct remote *r, const struct job_command *j, const char *job,
                       struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span answer = { "", 0 };
	job = remote_job_name(r, job, &arena, e);
	if (!job)
		return -1;
	if (j->part && remote_get(r, remote_path(job, j->part, &arena), &reply, &answer, e) < 0)
		return remote_no_job(r, job, e);
	return j->run(r, job, answer, e);
}

/* The rows of the user's jobs that have one of the tags and one of the states, in the reply; p NULL
 * and *e. */
static struct span jobs_list_tagged(struct remote *r, const char *states, const char *user,
                                    struct remote_reply *reply, struct err *e)
{
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span rows = { NULL, 0 };
	str_printf(&path, "/api/v2/jobs?limit=50000&state=%s&username=", states);
	query_encode(&path, span_of(user));
	remote_put_tags(&path, &r->o->tag);
	return remote_get(r, str_c(&path), reply, &rows, e) < 0 ? (struct span){ NULL, 0 } : rows;
}

/* The jobs of the client's user that have one of the tags and one of the states, in the arena. NULL
 * and *e: there are none, too. */
static const char **jobs_tagged(struct remote *r, const char *states, size_t *n, struct arena *a,
                                struct err *e)
{
	REPLY_AUTO reply = { 0 };
	char shown[4 * QUOTE_MAX];
	const struct option_list *tags = &r->o->tag;
	const char *user = remote_user(r, a, e);
	struct span rows = { NULL, 0 };
	if (user)
		rows = jobs_list_tagged(r, states, user, &reply, e);
	if (!rows.p)
		return NULL;
	const char **names = ARENA_NEW(a, const char *, scan_count(rows));
	struct scan walk = scan_begin(rows);
	for (struct span row; scan_item(&walk, &row);) {
		struct span name = scan_text(scan_get(row, "name"), a);
		names[(*n)++] = arena_printf(a, "%s~%.*s", user, (int)name.n, name.p);
	}
	if (*n > 0)
		return names;
	(void)err_set(e, 404, NULL,
	              "no job of yours%s has the tag %s%s; rest-lit jobs --tag lists those of all "
	              "users",
	              states[0] ? " that waits or runs" : "", quote(shown, span_of(tags->v[0])),
	              tags->n > 1 ? ", or another one of these" : "");
	return NULL;
}

/* Prints how many jobs are in which state, unless the last line said the same. */
static void jobs_count(struct remote *r, const char *job, struct str *told)
{
	REPLY_AUTO reply = { 0 };
	ERR_AUTO ignored = { 0 };
	ARENA_AUTO arena = { 0 };
	STR_AUTO line = STR_INIT(LINE_MAX);
	const char *user = arena_dup(&arena, span_to(span_of(job), span_chr(span_of(job), '~')));
	struct span rows = jobs_list_tagged(r, "", user, &reply, &ignored);
	if (!rows.p)
		return;
	run_counts_put(&line, rows, clock_wall_ms());
	if (!span_eq(str_view(&line), str_view(told)))
		(void)fprintf(stderr, "%s", str_c(&line));
	told->n = 0;
	str_span(told, str_view(&line));
}

/* Each of the jobs is tried, while the server answers; the exit code is the worst. */
static int jobs_run(struct remote *r, const void *arg, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const struct job_command *j = arg;
	size_t n = j->states ? r->o->n_files : 1; /* another argument is not a job */
	const char **names =
	    j->states && r->o->tag.n ? jobs_tagged(r, j->states, &n, &arena, e) : r->o->files;
	int worst = EXIT_OK;
	int64_t due_ms = 0;
	STR_AUTO told = STR_INIT(LINE_MAX);
	bool counts = names && j->counts && r->o->tag.n;
	for (size_t i = 0; names && i < n && worst < EXIT_SERVER; i++) {
		ERR_AUTO one = { 0 };
		r->patient = false;
		if (counts && clock_ms() >= due_ms) {
			jobs_count(r, names[i], &told);
			due_ms = clock_ms() + COUNT_MS;
		}
		r->patient = n > 1; /* it may be too many requests at once */
		int code = job_run_one(r, j, names[i], &one);
		if (code < 0)
			code = print_error_notes(&one, NULL, remote_exit(&one));
		worst = code > worst ? code : worst;
	}
	r->patient = false;
	if (counts && worst < EXIT_SERVER)
		jobs_count(r, names[0], &told);
	return names ? worst : -1;
}

int remote_jobs_command(const struct command *c, struct options *o, const struct job_command *j)
{
	if (!o->n_files == !o->tag.n)
		return command_usage(c, o->n_files ? "name jobs or --tag, not both" : c->wanted);
	return remote_run(o, NULL, jobs_run, j);
}

int remote_job_command(const struct command *c, struct options *o, job_runner *run,
                       const char *part)
{
	if (strcmp(o->output, "yaml") == 0)
		return command_usage(c, "--output: table or json");
	return remote_run(o, NULL, jobs_run, &(struct job_command){ run, part, NULL, false });
}
