/* rest-lit submit: a job of a file or a command, or one for each value of --sweep, and the wait for
 * its end. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "base/hash.h"
#include "base/image/image.h"
#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "machine/task/sandbox.h"
#include "server/cli/cli_internal.h"
#include "server/compose/compose.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/jobs/jobs.h"
#include "translate/job/dialect.h"

enum { REPLY_BYTES = 64 << 20, KEY_BYTES = 16, BODY_DEPTH = 16 };

/* Prints notes as `validate` does. */
static void submit_notes(const struct job_text *t, const char *prefix, struct notes *notes)
{
	for (size_t i = 0; t->moved && i < notes->n; i++)
		notes->v[i].line = 0; /* not that of the file */
	command_notes(t->file, prefix, notes);
}

/* Prints an error, and the warnings of an answer. */
static int submit_refused(const struct job_text *t, struct span answer, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	int code = remote_exit(e);
	remote_notes(answer, "warnings", &warnings);
	submit_notes(t, "warning: ", &warnings);
	if (e->notes.n && (e->notes.v[0].at || e->notes.v[0].line))
		submit_notes(t, "", &e->notes);
	else
		(void)print_error_notes(e, NULL, code);
	return code;
}

/* The hint for a name that is taken: "Job USER~NAME already exists." */
static int submit_taken(const struct job_text *t, struct span answer, struct err *e)
{
	int code = submit_refused(t, answer, e);
	if (!e->code || strcmp(e->code, "ConflictJobError") != 0)
		return code;
	struct span job = span_of(err_msg(e));
	bool known = span_starts(job, "Job ") && span_chr(job, '~') < job.n;
	job = known ? span_from(job, 4) : SPAN("JOB");
	job.n = span_chr(job, ' ');
	(void)fprintf(stderr,
	              "rest-lit: choose another name: rest-lit submit --name NAME %s; or free this "
	              "one: rest-lit delete %.*s\n",
	              t->named    ? t->file
	              : t->quoted ? "-- COMMAND"
	                          : "FILE",
	              (int)job.n, job.p);
	return code;
}

/* A submission: a text, its Idempotency-Key, a tag if there is no --tag, or NULL. */
struct submit_call {
	const struct job_text *text;
	const char *key, *tag;
	bool quiet; /* its warnings are known */
};

/* Appends a parameter of the query, unless it has no value. */
static void submit_parameter(struct str *path, const char *name, const char *value)
{
	if (!value || !value[0])
		return;
	str_printf(path, "%s%s=", strchr(str_c(path), '?') ? "&" : "?", name);
	query_encode(path, span_of(value));
}

static void submit_path(const struct options *o, int api, const char *tag, struct str *path)
{
	char number[24] = "";
	str_printf(path, "/api/v%d/jobs", api);
	submit_parameter(path, "dryRun", o->dry_run ? "true" : NULL);
	for (size_t i = 0; i < o->tag.n; i++)
		submit_parameter(path, "tag", o->tag.v[i]);
	submit_parameter(path, "tag", o->tag.n ? NULL : tag);
	submit_parameter(path, "hold", o->hold ? "true" : NULL);
	submit_parameter(path, "after", o->after);
	submit_parameter(path, "afterAny", o->after_any);
	submit_parameter(path, "begin", o->begin);
	if (o->max_running)
		(void)snprintf(number, sizeof(number), "%" PRId64, o->max_running); /* it fits */
	submit_parameter(path, "maxRunning", number);
}

static int submit_post(struct remote *r, const struct submit_call *c, struct remote_reply *reply,
                       struct err *e)
{
	ARENA_SECRET arena = { 0 };
	struct doc doc = { 0 };
	struct span text = { c->text->text, c->text->n };
	NOTES_AUTO warnings = { 0 };
	STR_AUTO path = STR_INIT(REPLY_BYTES);
	/* Route and Content-Type by the dialect and format of the text. */
	bool read = job_text_doc(text, &arena, &doc);
	const struct dialect *d = read ? dialect_of(&doc.root, DIALECTS_ALL) : NULL;
	d = d ? d : dialect_guess(text, DIALECTS_ALL);
	submit_path(r->o, d->api == 2 ? 2 : 1, c->tag, &path);
	const struct client_call call = {
		.method = "POST",
		.path = str_c(&path),
		.type = read && doc.json ? "application/json" : "text/yaml",
		.body = text,
		.key = c->key,
		.max = REPLY_BYTES,
	};
	r->patient = !r->own;
	if (remote_ask(r, &call, r->o->dry_run ? 200 : 202, reply, e) < 0)
		return -1;
	struct span answer = str_view(&reply->body);
	struct span begins =
	    scan_valid(answer, BODY_DEPTH) ? scan_get(answer, "begins") : (struct span){ NULL, 0 };
	if (begins.p && !c->quiet)
		(void)fprintf(stderr, "rest-lit: it begins at %s\n",
		              visible_line(&arena, scan_text(begins, &arena)));
	if (!c->quiet)
		remote_notes(str_view(&reply->body), "warnings", &warnings);
	submit_notes(c->text, "warning: ", &warnings);
	return 0;
}

/* USER~NAME of .../jobs/USER~NAME, visible; NULL, and the error is printed. */
static const char *submit_made(const struct remote_reply *reply, struct arena *a)
{
	const char *slash = reply->location ? strrchr(reply->location, '/') : NULL;
	if (!slash || !strchr(slash, '~')) {
		(void)fprintf(
		    stderr,
		    "rest-lit: the job was accepted, but the answer has no header Location\n");
		return NULL;
	}
	return visible_line(a, span_of(slash + 1));
}

int submit_send(struct remote *r, const void *arg, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	char key[2 * KEY_BYTES + 1];
	const struct submit_call call = { .text = arg, .key = key };
	const struct log_wanted all = { 0 };
	bool waits = r->o->wait || r->o->logs || r->own;
	random_hex(key, KEY_BYTES);
	if (submit_post(r, &call, &reply, e) < 0)
		return submit_taken(arg, str_view(&reply.body), e);
	if (r->o->dry_run)
		return remote_print(str_view(&reply.body));
	const char *job = submit_made(&reply, &arena);
	if (!job)
		return waits ? EXIT_SERVER : EXIT_OK;
	if (!r->own)
		(void)printf("%s\n", job);
	if (fflush(stdout) != 0)
		return remote_print(SPAN("\n")); /* prints the reason */
	return waits ? wait_for_job(r, job, r->o->logs ? &all : NULL, false) : EXIT_OK;
}

/* --dry-run -o job: the text, with its secrets hidden. */
static int submit_show(struct remote *r, const struct job_text *t)
{
	ARENA_SECRET arena = { 0 };
	ERR_AUTO e = { 0 };
	struct span shown;
	if (job_text_shown(t, r->o, &arena, &shown, &e) < 0)
		return submit_refused(t, SPAN(""), &e);
	bool ends = shown.n && shown.p[shown.n - 1] == '\n';
	return remote_print(shown) ?: remote_print(ends ? SPAN("") : SPAN("\n"));
}

/* ---- several jobs: --sweep ------------------------------------------------------------------- */

/* Makes the text of each job, so that all mistakes come first; prints the jobs, and asks unless
 * --yes says it. */
static bool sweep_agreed(const struct options *o, const struct job_text *t, const struct sweep *s,
                         const char *tag)
{
	char answer[8] = "";
	for (size_t i = 0; i < s->n; i++) {
		ERR_AUTO e = { 0 };
		struct job_text one;
		int bad = sweep_apply(s, i, t, &one, &e);
		if (bad)
			(void)submit_refused(&one, SPAN(""), &e);
		job_text_wipe(&one);
		if (bad)
			return false;
	}
	(void)fprintf(stderr, "rest-lit: %zu job%s, %s to %s, with the tag %s\n", s->n,
	              s->n == 1 ? "" : "s", s->name[0], s->name[s->n - 1], tag);
	if (o->yes || o->dry_run)
		return true;
	if (!isatty(STDIN_FILENO)) {
		(void)fprintf(stderr, "rest-lit: nothing was submitted: standard input is no "
		                      "terminal; --yes submits them without a question\n");
		return false;
	}
	(void)fprintf(stderr, "Submit them? [y/N] ");
	return fgets(answer, sizeof(answer), stdin) && to_lower(answer[0]) == 'y';
}

/* Compares a job with the one that is to be submitted; the server does not show the values of
 * secrets.  0: it is the same; 1: another; -1 and *e. */
static int sweep_compare(struct remote *r, const char *job, const char *tag, struct span shown,
                         struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO config = { 0 };
	REPLY_AUTO detail = { 0 };
	struct doc is = { 0 };
	struct doc wanted = { 0 };
	struct span json;
	STR_AUTO written = STR_INIT(REPLY_BYTES); /* the server's is JSON, where a date is text */
	if (remote_get(r, remote_path(job, "/config", &arena), &config, &json, e) < 0)
		return -1;
	if (job_text_doc(shown, &arena, &wanted))
		node_json(&written, &wanted.root);
	if (!job_text_doc(json, &arena, &is) ||
	    !job_text_doc(str_view(&written), &arena, &wanted) ||
	    !node_equal(&is.root, &wanted.root))
		return 1;
	if (remote_get(r, remote_path(job, "", &arena), &detail, &json, e) < 0)
		return -1;
	struct scan tags = scan_begin(scan_get(json, "tags"));
	for (struct span one; scan_item(&tags, &one);)
		if (span_is(scan_text(one, &arena), tag))
			return 0;
	return 1;
}

/* Submits one job of a sweep.  The key is that of the same call before, so that a job which that
 * one has begun is completed, and one that it has made is not made again. */
static int sweep_submit(struct remote *r, const struct submit_call *call, const char *job,
                        struct err *e)
{
	ARENA_SECRET arena = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span shown;
	char key[65];
	if (job_text_shown(call->text, r->o, &arena, &shown, e) < 0)
		return submit_refused(call->text, SPAN(""), e);
	sha256_hex(key, span_of(arena_printf(&arena, "%s\n%s\n%.*s", call->tag, job, (int)shown.n,
	                                     shown.p)));
	const struct submit_call keyed = { call->text, key, call->tag, call->quiet };
	int code = submit_post(r, &keyed, &reply, e);
	bool again = code == 0 && reply.replayed;
	if (code < 0 && e->code && strcmp(e->code, "ConflictJobError") == 0) {
		err_done(e);
		code = sweep_compare(r, job, call->tag, shown, e);
		again = code == 0;
	}
	if (code > 0 || (code < 0 && e->http == 422)) /* 422: the same key, so another secret */
		code = err_set(e, 409, NULL,
		               "there is a job %s with another configuration, code, secret or tag; "
		               "choose another --name, or free this one: rest-lit delete %s",
		               job, job);
	if (code < 0)
		return submit_refused(call->text, str_view(&reply.body), e);
	if (r->o->dry_run && !again)
		return remote_print(str_view(&reply.body));
	if (again)
		(void)fprintf(stderr, "rest-lit: %s is submitted already\n", job);
	(void)printf("%s\n", job);
	return fflush(stdout) == 0 ? EXIT_OK : EXIT_SERVER;
}

static int submit_sweep(struct remote *r, const struct job_text *t, const struct sweep *s,
                        const char *tag, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const char **job = ARENA_NEW(&arena, const char *, s->n);
	const char *user = remote_user(r, &arena, e);
	int worst = user ? EXIT_OK : -1;
	for (size_t i = 0; user && i < s->n; i++) {
		struct job_text one;
		struct submit_call call = { &one, NULL, tag, i > 0 };
		int code = sweep_apply(s, i, t, &one, e);
		job[i] = arena_printf(&arena, "%s~%s", user, s->name[i]);
		if (code < 0)
			code = submit_refused(&one, SPAN(""), e);
		else if (r->o->dry_run && r->o->output[0])
			code = remote_print(SPAN("---\n")) ?: submit_show(r, &one);
		else
			code = sweep_submit(r, &call, job[i], e);
		job_text_wipe(&one);
		if (code != EXIT_OK && i > 0)
			(void)fprintf(stderr,
			              "rest-lit: %zu of %zu jobs are submitted; the same "
			              "command goes on with %s\n",
			              i, s->n, s->name[i]);
		if (code != EXIT_OK)
			return code;
	}
	for (size_t i = 0; r->o->wait && worst >= 0 && i < s->n && worst < EXIT_SERVER; i++) {
		int code = wait_for_job(r, job[i], NULL, false);
		worst = code > worst ? code : worst;
	}
	return worst;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Returns true if tasks see the directory of this machine: it is the server's, and shows it, or
 * does not hide it.  Links are followed.  machine: GET /api/v2/machine. */
static bool submit_shown(struct span machine, const char *dir)
{
	ARENA_AUTO arena = { 0 };
	char node[HOST_NAME_MAX + 1] = "";
	const char **hidden = sandbox_hide(NULL, 0, &arena);
	size_t n = 0;
	if (gethostname(node, sizeof(node) - 1) < 0 ||
	    !span_is(scan_text(scan_get(machine, "node"), &arena), node))
		return false;
	struct scan mounts = scan_begin(scan_get(machine, "mounts"));
	for (struct span one; scan_item(&mounts, &one);)
		if (path_within(dir, arena_dup(&arena, scan_text(one, &arena))))
			return true;
	while (hidden[n])
		n++;
	return access(dir, F_OK) == 0 && !sandbox_hidden(dir, hidden, n);
}

/* An active environment of Python or conda is that of the job if tasks see it and its program; else
 * a line says what to do. */
static void submit_environment(const struct options *o, struct span machine,
                               struct command_place *place, struct arena *a)
{
	static const char *const NAMES[] = { "VIRTUAL_ENV", "CONDA_PREFIX" };
	const char *dir = NULL;
	size_t i = 0;
	for (; i < ARRAY_SIZE(NAMES) && !(dir && *dir); i++)
		dir = getenv(NAMES[i]); /* NOLINT(concurrency-mt-unsafe): one thread */
	if (!dir || !*dir || strcmp(place->image, IMAGE_OF_HOST) != 0)
		return;
	FREE_AUTO char *python = realpath(arena_printf(a, "%s/bin/python", dir), NULL);
	if (dir[0] == '/' && utf8_plain(span_of(dir)) && submit_shown(machine, dir) &&
	    (!python || submit_shown(machine, python))) {
		place->environment = NAMES[i - 1];
		place->environment_dir = arena_dup(a, span_of(dir));
	} else if (!strchr(o->command[0], '/')) {
		(void)fprintf(stderr,
		              "rest-lit: %s is not used by the job, which has the PATH of the "
		              "machine and sees no home directories: have it in /opt or a storage, "
		              "or show it to the jobs of a server of your own: rest-lit serve "
		              "--no-auth --mount %s\n",
		              dir, dir);
	}
}

/* Asks for the storages that the user has by default, unless the options name some, and whether the
 * job can have results: on one machine unless the server has --keep-results none, on a cluster if
 * one of these storages can be written to.  machine: its answer, empty on a cluster.  -1 and *e. */
static int submit_storages(struct remote *r, struct span machine, struct command_place *place,
                           struct err *e)
{
	REPLY_AUTO reply = { 0 };
	struct span json = { "{}", 2 };
	struct span one;
	bool defaults = !r->o->no_storage && !r->o->storage.n;
	bool kept = span_is(scan_get(machine, "results"), "true");
	if ((defaults || !machine.n) &&
	    remote_get(r, "/api/v2/storages?default=true", &reply, &json, e) < 0)
		return -1;
	for (struct scan all = scan_begin(scan_get(json, "storages")); scan_item(&all, &one);) {
		place->storages |= defaults;
		kept |= !machine.n && span_is(scan_get(one, "readOnly"), "false");
	}
	if (!kept && !r->o->results[0] && !r->o->no_results)
		(void)fprintf(stderr, "rest-lit: the job has no directory for results: %s\n",
		              machine.n ? "the server keeps none"
		                        : "you have no default storage that jobs can write to");
	place->results = kept;
	return 0;
}

/* Makes the text of a command.  The server names the image, in its info, unless --image does, and
 * says what its machine has. */
static int submit_command(struct remote *r, struct job_text *t, struct span info, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO machine = { 0 };
	ERR_AUTO none = { 0 };
	struct command_place place = { .image = r->o->image };
	struct amounts *has = &place.machine;
	struct span json = { "", 0 };
	if (!place.image[0])
		place.image = arena_dup(&arena, scan_text(scan_get(info, "image"), &arena));
	if (!place.image[0])
		return err_set(e, 400, NULL,
		               "a command needs an image, and the server has none for it: name one "
		               "with --image IMAGE; the administrator can set one for all with the "
		               "server's --default-image, or for a machine --images host: its own "
		               "files");
	if (remote_get(r, "/api/v2/machine", &machine, &json, &none) == 0) {
		struct span cpus = scan_get(json, "cpus");                        /* 2.5 */
		(void)scan_int(scan_get(json, "gpus"), 0, INT32_MAX, &has->gpus); /* else 0 */
		if (scan_int(scan_get(json, "memoryMB"), 0, INT64_MAX >> 20, &has->memory) &&
		    parse_i64(span_to(cpus, span_chr(cpus, '.')), 0, INT32_MAX, &has->cpus) == 0) {
			has->memory <<= 20;
			has->cpus *= 1000;
		}
	} else if (none.http != 404) { /* a cluster */
		err_move(e, &none);
		return -1;
	}
	if (submit_storages(r, json, &place, e) < 0)
		return -1;
	submit_environment(r->o, json, &place, &arena);
	return compose_command(t, r->o, &place, e);
}

/* From the text to the server.  arg: struct job_text *. */
static int submit_flow(struct remote *r, const void *arg, struct err *e)
{
	static const char INFO[] = "/api/v2/info";
	ARENA_AUTO arena = { 0 };
	struct job_text *t = *(struct job_text *const *)arg;
	const struct options *o = r->o;
	REPLY_AUTO reply = { 0 };
	struct span info = { "", 0 };
	struct sweep sweep;
	r->patient = true;
	if (o->command &&
	    (remote_get(r, INFO, &reply, &info, e) < 0 || submit_command(r, t, info, e) < 0))
		return -1;
	if (job_text_vary(t, o, e) < 0)
		return submit_refused(t, SPAN(""), e);
	const char *base = job_text_name(t, &arena);
	const char *tag = o->tag.n ? o->tag.v[0] : base;
	if (sweep_read(&sweep, o, base, &arena, e) < 0)
		return -1;
	if (sweep.n_values && !sweep_agreed(o, t, &sweep, tag))
		return EXIT_USAGE;
	if (!info.n && o->code[0] && remote_get(r, INFO, &reply, &info, e) < 0)
		return -1;
	if (code_attach(r, t, info, e) < 0) /* nothing is sent before all else is right */
		return submit_refused(t, SPAN(""), e);
	if (sweep.n_values)
		return submit_sweep(r, t, &sweep, tag, e);
	return o->dry_run && o->output[0] ? submit_show(r, t) : submit_send(r, t, e);
}

int cmd_submit(const struct command *c, struct options *o)
{
	ERR_AUTO e = { 0 };
	struct job_text t = { 0 };
	const struct job_text *text = &t;
	if (o->n_files != (o->command ? 0 : 1))
		return command_usage(c, c->wanted);
	if (o->n_files && strcmp(o->files[0], "-") == 0 && strcmp(o->token_file, "-") == 0)
		return command_usage(c, "job and token cannot both be on standard input");
	if (o->dry_run && (o->wait || o->logs))
		return command_usage(c, "--dry-run cannot be combined with --wait or --logs");
	if (o->output[0] && !o->dry_run)
		return command_usage(c, "--output needs --dry-run");
	if (o->max_running && !o->sweep.n && !o->tag.n)
		return command_usage(
		    c, "--max-running needs --sweep or --tag: the jobs that it counts");
	if (o->sweep.n && o->logs)
		return command_usage(c, "--logs cannot be combined with --sweep; use --wait");
	if (o->no_storage && o->storage.n)
		return command_usage(c, "--no-storage cannot be combined with --storage");
	if (o->command && !o->code[0]) /* the files of the command */
		o->code = compose_directory(false, "--code DIR", &o->arena, &e) ? "." : "";
	/* A file is read first: see remote_run. */
	int code =
	    e.http || compose_check_file(o, &e) < 0 || (o->n_files && job_text_read(&t, o, &e) < 0)
		? print_error_notes(&e, NULL, EXIT_USAGE)
		: remote_run(o, NULL, submit_flow, &text);
	job_text_wipe(&t);
	return code;
}
