/* rest-lit resubmit JOB: the same job once more, with changes, under another name. */
#include <stdlib.h>

#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "server/cli/cli_internal.h"
#include "server/compose/compose.h"
#include "server/jobs/jobs.h"

enum { PATH_LIMIT = 4096 };

/* Appends "--secret NAME " unless it is an option, or is there. */
static void resubmit_miss(struct str *out, const struct options *o, struct span name)
{
	FREE_AUTO char *missing = xasprintf("--secret %.*s ", (int)name.n, name.p);
	bool given = name.n == 0 || strstr(str_c(out), missing);
	for (size_t i = 0; i < o->secret.n; i++) {
		struct span one = span_of(o->secret.v[i]);
		given |= span_eq(span_to(one, span_chr(one, '=')), name);
	}
	str_puts(out, given ? "" : missing);
}

/* Takes the mark of hidden secrets out of the text; the options have those that it uses: as
 * variables, and in placeholders.  -1 and *e. */
static int resubmit_forget_secrets(struct job_text *t, const struct options *o, struct err *e)
{
	static const char *const PATH[] = { "secrets", NULL };
	ARENA_AUTO arena = { 0 };
	struct span config = { t->text, t->n };
	STR_AUTO missing = STR_INIT(PATH_LIMIT);
	if (!span_is(scan_text(scan_get(config, "secrets"), &arena), "******"))
		return 0;
	struct scan names = scan_begin(scan_path(config, "extras", "secretEnv"));
	for (struct span name; scan_item(&names, &name);)
		resubmit_miss(&missing, o, scan_text(name, &arena));
	struct span used;
	for (size_t at = 0; (used = job_text_secret(config, &at)).n;)
		resubmit_miss(&missing, o, used);
	if (!missing.n && o->secret.n)
		return job_text_put(t, PATH, SPAN("{}"), e);
	return err_set(e, 400, NULL,
	               "%s has secrets, which the server does not return; give %sor submit its "
	               "file again: rest-lit submit --name NAME FILE",
	               t->file, missing.n ? str_c(&missing) : "--secret NAME ");
}

/* The next free name behind this one: mnist-2 for mnist. */
static int resubmit_name(struct remote *r, struct span old, struct arena *a, const char **name,
                         struct err *e)
{
	REPLY_AUTO reply = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span jobs;
	const char *user = remote_user(r, a, e);
	if (!user)
		return -1;
	str_puts(&path, "/api/v2/jobs?limit=0&username=");
	query_encode(&path, span_of(user));
	str_puts(&path, "&nextName=");
	query_encode(&path, old);
	if (remote_get(r, str_c(&path), &reply, &jobs, e) < 0)
		return -1;
	struct span next = scan_text(scan_get(jobs, "nextName"), a);
	*name = arena_printf(a, "%.*s", (int)next.n, next.p);
	return 0;
}

static int resubmit_job(struct remote *r, const char *job, struct span config, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const char *name = r->o->name;
	struct job_text t = { .file = job, .text = xstrndup(config.p, config.n), .n = config.n };
	const char *old = job_text_name(&t, &arena);
	if (!old[0])
		(void)err_set(e, UNKNOWN_ERROR, "%s: the configuration of %s has no name",
		              r->o->server, job);
	else if (span_find(scan_get(config, "prerequisites"), 0, "\"******\"") != SIZE_MAX)
		/* The server hides `auth` of images. */
		(void)err_set(
		    e, 400, NULL,
		    "%s has secrets of a registry, which the server does not return; submit "
		    "its file again: rest-lit submit --name NAME FILE",
		    job);
	bool bad = e->http || resubmit_forget_secrets(&t, r->o, e) < 0 ||
	           job_text_vary(&t, r->o, e) < 0 || code_copy(r, job, config, e) < 0 ||
	           (!name[0] && resubmit_name(r, span_of(old), &arena, &name, e) < 0) ||
	           job_text_rename(&t, name, e) < 0;
	int code = bad ? -1 : submit_send(r, &t, e);
	job_text_wipe(&t);
	return code;
}

int cmd_resubmit(const struct command *c, struct options *o)
{
	return remote_job_command(c, o, resubmit_job, "/config");
}
