/* rest-lit submit FILE: submits a job and, with --wait, waits for its end. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "server/cli/cli_internal.h"
#include "server/compose/compose.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "translate/job/dialect.h"

enum { ANSWER_MAX = 64 << 20, NAME_LIMIT = 4096, KEY_BYTES = 16 };

/* Prints errors as `validate` does, warnings included. */
static int submit_refused(const struct job_text *t, struct span answer, const struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	int code = remote_exit(e);
	remote_notes(answer, "warnings", &warnings);
	command_notes(t->file, "warning: ", &warnings);
	bool of_file = e->notes.n && (e->notes.v[0].at || e->notes.v[0].line);
	if (of_file)
		command_notes(t->file, "", &e->notes);
	else
		(void)print_error_notes(e, NULL, code);
	if (!e->code || strcmp(e->code, "ConflictJobError") != 0)
		return code;
	struct span job = span_of(err_msg(e)); /* "Job USER~NAME already exists." */
	bool known = span_starts(job, "Job ") && span_chr(job, '~') < job.n;
	job = known ? span_from(job, 4) : SPAN("JOB");
	job.n = span_chr(job, ' ');
	(void)fprintf(stderr,
	              "rest-lit: choose another name: rest-lit submit --name NAME %s; or free this "
	              "one: rest-lit delete %.*s\n",
	              t->named ? t->file : "FILE", (int)job.n, job.p);
	return code;
}

static int submit_wait(struct remote *r, const struct remote_reply *reply)
{
	/* .../jobs/USER~NAME */
	const char *slash = reply->location ? strrchr(reply->location, '/') : NULL;
	STR_AUTO shown = STR_INIT(NAME_LIMIT);
	if (!slash || !strchr(slash, '~')) {
		(void)fprintf(
		    stderr,
		    "rest-lit: the job was accepted, but the answer has no header Location\n");
		return r->o->wait || r->o->logs ? EXIT_SERVER : EXIT_OK;
	}
	visible_text(&shown, span_of(slash + 1));
	const char *job = str_c(&shown);
	if (!r->own)
		(void)printf("%s\n", job);
	if (fflush(stdout) != 0)
		return remote_print(SPAN("\n")); /* prints the reason */
	const struct log_wanted all = { 0 };
	if (!r->o->wait && !r->o->logs && !r->own)
		return EXIT_OK;
	return wait_for_job(r, job, r->o->logs ? &all : NULL, false);
}

int submit_send(struct remote *r, const void *arg, struct err *e)
{
	const struct job_text *t = arg;
	ARENA_AUTO arena = { 0 };
	struct doc doc = { 0 };
	struct span text = { t->text, t->n };
	NOTES_AUTO warnings = { 0 };
	REPLY_AUTO reply = { 0 };
	char key[2 * KEY_BYTES + 1];
	struct client_call call = { .method = "POST", .body = text, .key = key, .max = ANSWER_MAX };
	random_hex(key, KEY_BYTES);
	/* Route and Content-Type by the dialect and format of the text. */
	bool read = job_text_doc(text, &arena, &doc);
	const struct dialect *d = read ? dialect_of(&doc.root, DIALECTS_ALL) : NULL;
	d = d ? d : dialect_guess(text, DIALECTS_ALL);
	call.path = arena_printf(&arena, "/api/v%d/jobs%s", d->api == 2 ? 2 : 1,
	                         r->o->dry_run ? "?dryRun=true" : "");
	call.type = read && doc.json ? "application/json" : "text/yaml";
	r->patient = !r->own;
	if (remote_ask(r, &call, r->o->dry_run ? 200 : 202, &reply, e) < 0)
		return submit_refused(t, str_view(&reply.body), e);
	remote_notes(str_view(&reply.body), "warnings", &warnings);
	command_notes(t->file, "warning: ", &warnings);
	return r->o->dry_run ? remote_print(str_view(&reply.body)) : submit_wait(r, &reply);
}

int cmd_submit(const struct command *c, struct options *o)
{
	ERR_AUTO e = { 0 };
	struct job_text t;
	if (o->n_files != (o->command ? 0 : 1))
		return command_usage(c, "name one file, or a command after --");
	if (o->n_files && strcmp(o->files[0], "-") == 0 && strcmp(o->token_file, "-") == 0)
		return command_usage(c, "job and token cannot both be on standard input");
	if (o->dry_run && (o->wait || o->logs))
		return command_usage(c, "--dry-run cannot be combined with --wait or --logs");
	int code =
	    job_text_read(&t, o, &e) < 0 || (o->name[0] && job_text_rename(&t, o->name, &e) < 0)
		? print_error_notes(&e, NULL, EXIT_USAGE)
		: remote_run(o, NULL, submit_send, &t);
	job_text_wipe(&t);
	return code;
}
