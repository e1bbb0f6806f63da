/* Gets files from a server.  rest-lit fetch JOB[:PATH]: the results of a job; and the code of jobs:
 * fetch --code JOB, and that of `submit --code` and `resubmit` on its way to the server. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/doc/tree.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "base/tar/tar.h"
#include "base/time.h"
#include "jobs/store/paths.h"
#include "server/cli/cli_internal.h"
#include "server/compose/compose.h"
#include "translate/job/dialect.h"

enum {
	ANSWER_MAX = 1 << 20,
	ATTEMPT_MS = 60000,
	SLOWEST = 64, /* bytes per ms */
	SILENCE_S = 120,
	NAMED = 5 /* files of each kind of news */
};

static mode_t fetch_umask;     /* of the user */
static const char *fetch_path; /* behind the name of the job; "": all */
static const char *fetch_into_name;

/* ---- to the server --------------------------------------------------------------------------- */

/* 1: the user has this archive on the server, which then keeps it; 0: not; -1 and *e. */
static int code_known(struct remote *r, const char *path, struct err *e)
{
	REPLY_AUTO reply = { 0 };
	struct span json;
	if (remote_get(r, path, &reply, &json, e) == 0)
		return 1;
	if (e->http != 404)
		return -1;
	err_done(e);
	return 0;
}

/* Sends an archive. */
static int code_upload(struct remote *r, const char *path, struct span packed, struct err *e)
{
	REPLY_AUTO reply = { 0 };
	const struct client_call call = {
		.method = "PUT",
		.path = path,
		.type = "application/gzip",
		.body = packed,
		.max = ANSWER_MAX,
		.timeout_ms = ATTEMPT_MS + (int64_t)packed.n / SLOWEST,
		.silence_s = SILENCE_S,
		.least = CODE_PROGRESS / CODE_PROGRESS_S,
	};
	r->patient = true;
	return remote_ask(r, &call, 0, &reply, e);
}

int code_attach(struct remote *r, struct job_text *t, struct span info, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct code_pack pack;
	struct code_room room;
	struct doc doc = { 0 };
	const char *dir = r->o->code;
	if (!dir[0])
		return 0;
	if (job_text_v2(t, "--code", &arena, &doc, e) < 0)
		return -1;
	struct span code = scan_get(info, "code");
	if (!scan_int(scan_get(code, "maxBytes"), 0, INT64_MAX, &room.packed) ||
	    !scan_int(scan_get(code, "maxUnpackedBytes"), 0, INT64_MAX, &room.unpacked) ||
	    !scan_int(scan_get(code, "maxEntries"), 0, INT64_MAX, &room.entries))
		return err_set(e, UNKNOWN_ERROR, "%s: the answer has no limits of code",
		               r->o->server);
	const struct node *its = node_get(node_get(&doc.root, "extras"), "results");
	const struct node *named = node_get(its, "path");
	bool asks = node_is(its, NODE_MAP) || (node_is(its, NODE_BOOL) && its->boolean);
	const char *results = !asks ? NULL : node_is(named, NODE_TEXT) ? named->text : "results";
	int rc = directory_pack(dir, results, &room, &pack, &warnings, e);
	command_notes(arena_printf(&arena, "--code %s", dir), "warning: ", &warnings);
	if (rc < 0)
		return -1;
	STR_AUTO packed = pack.packed;
	if (!pack.commit[0] && node_get(node_get(node_get(&doc.root, "extras"), "code"), "commit"))
		return err_set(e, 400, NULL,
		               "--code: %s has no commit: remove extras.code.commit from %s", dir,
		               t->file);
	const struct {
		const char *key, *json;
	} members[] = {
		{ "changed", pack.changed ? "true" : "false" },
		{ "commit", arena_printf(&arena, "\"%s\"", pack.commit) },
		{ "sha256", arena_printf(&arena, "\"%s\"", pack.facts.sha256) },
	};
	for (size_t i = pack.commit[0] ? 0 : 2; i < ARRAY_SIZE(members); i++) {
		const char *const at[] = { "extras", "code", members[i].key, NULL };
		if (job_text_put(t, at, span_of(members[i].json), e) < 0)
			return -1;
	}
	const char *path = arena_printf(&arena, "/api/v2/code/%s", pack.facts.sha256);
	int known = r->o->dry_run ? 1 : code_known(r, path, e);
	if (known)
		return known < 0 ? -1 : 0;
	(void)fprintf(stderr, "rest-lit: sending %s, %zu KiB, as the code of the job\n", dir,
	              packed.n / 1024 + 1);
	return code_upload(r, path, str_view(&packed), e);
}

/* ---- from the server ------------------------------------------------------------------------- */

struct span code_of_config(struct span config, struct arena *a)
{
	struct span sha = scan_text(scan_path(config, "extras", "code", "sha256"), a);
	return code_sha_ok(sha) ? sha : span_to(sha, 0);
}

/* The archive of a job. */
static int code_download(struct remote *r, const char *job, struct remote_reply *reply,
                         struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const struct client_call call = {
		.method = "GET",
		.path = remote_path(job, "/code", &arena),
		.max = CODE_MACHINE,
		.timeout_ms = ATTEMPT_MS + CODE_MACHINE / SLOWEST,
		.silence_s = SILENCE_S,
	};
	return remote_ask(r, &call, 200, reply, e);
}

int code_copy(struct remote *r, const char *job, struct span config, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	struct span sha = code_of_config(config, &arena);
	const char *path = arena_printf(&arena, "/api/v2/code/%.*s", (int)sha.n, sha.p);
	int known = sha.n ? code_known(r, path, e) : 1;
	if (known)
		return known < 0 ? -1 : 0;
	return code_download(r, job, &reply, e) < 0
	           ? -1
	           : code_upload(r, path, str_view(&reply.body), e);
}

/* Unpacks the archive of a job into an empty directory. */
static int fetch_into(struct remote *r, const char *job, struct span sha, int dir, struct err *e)
{
	ERR_AUTO late = { 0 };
	REPLY_AUTO reply = { 0 };
	struct code_facts facts = { 0 };
	const struct code_limits limits = { CODE_ENTRIES, CODE_MACHINE };
	struct code_unpack unpack = { .dir = dir };
	const struct code_sink sink = code_unpack_sink(&unpack);
	if (code_download(r, job, &reply, e) < 0)
		return -1;
	struct code_reader *reader = code_reader_new(&limits, &sink);
	bool good = code_reader_feed(reader, str_view(&reply.body), e) == 0 &&
	            code_reader_end(reader, &facts, e) == 0;
	code_reader_free(reader);
	if (!good)
		e->http = 500; /* not a mistake of the user */
	if (code_unpack_end(&unpack, good ? e : &late) < 0 || !good)
		return -1;
	return span_is(sha, facts.sha256)
	           ? 0
	           : err_set(e, UNKNOWN_ERROR, "it has another hash than the configuration: %s",
	                     facts.sha256);
}

/* Opens the directory for the files, which is made if it is not there.  -1 and *e. */
static int fetch_directory(const char *name, bool *made, struct err *e)
{
	(void)umask(fetch_umask); /* process_harden has set 077 */
	*made = mkdir(name, 0777) == 0;
	int dir = *made || errno == EEXIST ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return dir < 0 ? err_set(e, 400, NULL, "%s: %m", name) : dir;
}

static int fetch_job(struct remote *r, const char *job, struct span config, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const char *name = r->o->directory;
	struct span sha = code_of_config(config, &arena);
	if (!sha.n)
		return err_set(e, 404, NULL, "%s has no code: it was submitted without --code",
		               job);
	bool made;
	FD_AUTO dir = fetch_directory(name, &made, e);
	if (dir < 0)
		return -1;
	DIR_AUTO *before = dir_list(dir, ".");
	if (!before || dir_next(before))
		return err_set(e, 400, NULL, "%s is not empty: name a new directory", name);
	if (fetch_into(r, job, sha, dir, e) == 0)
		return EXIT_OK;
	DIR_AUTO *after = dir_list(dir, ".");
	for (const char *one; (one = dir_next(after));)
		(void)tree_remove(dir, one, CODE_ENTRIES); /* else it stays */
	if (made)
		(void)rmdir(name);
	return err_wrap(e, "the code of %s", job);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Sentences about a file. */
static const char *const FETCH_NEWS[TAR_NEWS] = {
	[TAR_SHRANK] = "was cut by the job while it was read: its end is of zeros here",
	[TAR_GREW] = "grew while it was read: it ends here where it ended at the beginning",
	[TAR_CHANGED] = "was written while it was read: it may have parts of both",
	[TAR_OTHER] = "is here already, and is another one: it stays, without --force",
};

static void fetch_say(void *arg, const char *path, enum tar_news news)
{
	const struct tar_unpack *u = arg;
	ARENA_AUTO arena = { 0 };
	if (u->news[news] <= NAMED)
		(void)fprintf(stderr, "rest-lit: %s/%s %s\n", fetch_into_name,
		              visible_line(&arena, span_of(path)), FETCH_NEWS[news]);
}

static int fetch_take(void *arg, struct span bytes, struct err *e)
{
	return tar_reader_feed(arg, bytes, e);
}

/* A GET of results, for a file; the answer is not repeated, because it may have begun. */
static int fetch_ask(struct remote *r, const char *path, const struct remote_file *file,
                     struct err *e)
{
	REPLY_AUTO reply = { .file = file };
	const struct client_call call = {
		.method = "GET",
		.path = path,
		.max = ANSWER_MAX,
		.timeout_ms = INT32_MAX,
		.silence_s = SILENCE_S,
	};
	return remote_ask(r, &call, 200, &reply, e);
}

/* "/results" and a parameter with fetch_path, if there is one. */
static const char *fetch_route(const char *job, const char *more, struct arena *a)
{
	STR_AUTO rest = STR_INIT((size_t)4 * TAR_PATH);
	str_puts(&rest, "/results?prefix=");
	query_encode(&rest, span_of(fetch_path));
	str_puts(&rest, more);
	return remote_path(job, str_c(&rest), a);
}

static void fetch_sum_up(const struct tar_unpack *u)
{
	for (enum tar_news news = 0; news < TAR_NEWS; news++)
		if (u->news[news] > NAMED)
			(void)fprintf(stderr, "rest-lit: %lld more files: each %s\n",
			              (long long)u->news[news] - NAMED, FETCH_NEWS[news]);
	(void)fprintf(stderr, "rest-lit: %s: %lld files (%lld KiB) written, %lld were there",
	              fetch_into_name, (long long)u->files, (long long)(u->bytes + 1023) / 1024,
	              (long long)u->same);
	if (u->left_out > 0)
		(void)fprintf(stderr,
		              "; %lld left out by the server: links, pipes, what is deep, or what "
		              "it cannot read",
		              (long long)u->left_out);
	else if (u->left_out < 0)
		(void)fprintf(stderr, "; there are more than %d: fetch the others by JOB:PATH",
		              TAR_ENTRIES);
	(void)fputs("\n", stderr);
}

static int fetch_results(struct remote *r, const char *job, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	bool made;
	FD_AUTO dir = fetch_directory(r->o->directory, &made, e);
	if (dir < 0)
		return -1;
	fetch_into_name = r->o->directory;
	struct tar_unpack u = { .dir = dir, .force = r->o->force, .say = fetch_say };
	u.arg = &u;
	struct tar_reader *reader = tar_reader_new(tar_unpack_sink(&u), INT64_C(2) * TAR_ENTRIES);
	const struct remote_file file = { .take = fetch_take, .arg = reader };
	const char *route = fetch_route(job, "&archive=tar", &arena);
	int rc = fetch_ask(r, route, &file, e);
	if (rc == 0)
		rc = tar_reader_end(reader, e);
	if (rc == 0 && !u.ended)
		rc = err_set(e, 502, NULL, "the archive ends too early");
	tar_reader_free(reader);
	tar_unpack_end(&u);
	if (made && rc < 0)
		(void)rmdir(r->o->directory); /* it stays if something is in it */
	if (rc < 0)
		return e->http == 404 ? -1 : err_wrap(e, "the results of %s", job);
	fetch_sum_up(&u);
	bool bad = u.left_out < 0;
	for (enum tar_news news = 0; news < TAR_NEWS; news++)
		bad = bad || u.news[news];
	return bad ? EXIT_REFUSED : EXIT_OK;
}

static int fetch_file(struct remote *r, const char *job, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	STR_AUTO path = STR_INIT((size_t)4 * TAR_PATH);
	const struct remote_file file = { .name = "standard output", .fd = STDOUT_FILENO };
	struct span rest = span_of(fetch_path);
	str_puts(&path, "/results");
	while (rest.n) {
		str_char(&path, '/');
		query_encode(&path, span_next(&rest, '/'));
	}
	return fetch_ask(r, remote_path(job, str_c(&path), &arena), &file, e) < 0 ? -1 : EXIT_OK;
}

static int fetch_list(struct remote *r, const char *job, struct err *e)
{
	static const char *const HEADS[] = { "SIZE", "MODIFIED", "PATH" };
	struct table t;
	const char *after = "";
	int rc = 0;
	table_begin(&t, HEADS, ARRAY_SIZE(HEADS));
	for (bool more = true; more && rc == 0;) {
		ARENA_AUTO arena = { 0 };
		REPLY_AUTO reply = { 0 };
		struct span page;
		struct span row;
		size_t before = t.n;
		rc = remote_get(r, fetch_route(job, after, &arena), &reply, &page, e);
		struct scan walk = scan_begin(rc == 0 ? scan_get(page, "results") : SPAN("[]"));
		while (scan_item(&walk, &row)) {
			char time[RFC3339_MAX];
			int64_t ms = 0;
			struct span path = scan_text(scan_get(row, "path"), &arena);
			struct span href = scan_text(scan_get(row, "href"), &arena);
			bool above = !scan_get(row, "size").p;
			(void)scan_int(scan_get(row, "modified"), 0, INT64_MAX, &ms); /* else 0 */
			table_number(&t, row, "size");
			table_cell(&t, span_of(rfc3339_put(time, ms, 0)));
			table_cell(&t, span_of(arena_printf(&t.arena, "%.*s%s", (int)path.n, path.p,
			                                    above ? "/" : "")));
			after = arena_printf(&t.arena, "&after=%.*s", (int)href.n, href.p);
		}
		more = rc == 0 && t.n > before && span_is(scan_get(page, "more"), "true");
		r->patient = true; /* many pages may be too many requests at once */
	}
	if (rc == 0)
		return table_print(&t);
	table_done(&t);
	return -1;
}

static int fetch_any(struct remote *r, const char *job, struct span answer, struct err *e)
{
	(void)answer;
	int code = r->o->list                          ? fetch_list(r, job, e)
	           : strcmp(r->o->directory, "-") == 0 ? fetch_file(r, job, e)
	                                               : fetch_results(r, job, e);
	return code < 0 ? remote_no_job(r, job, e) : code;
}

int cmd_fetch(const struct command *c, struct options *o)
{
	const char *colon = strchr(o->files[0], ':');
	fetch_path = colon ? colon + 1 : "";
	if (o->fetches_code && (colon || o->list || o->force))
		return command_usage(c, "--code gives all of the code, to a new directory");
	if (!o->list && !o->directory[0])
		return command_usage(c, "say where to: -o DIR; --list shows what there is");
	if (strcmp(o->directory, "-") == 0 && !o->list && !fetch_path[0])
		return command_usage(c, "-o - is for one file: JOB:PATH -o -");
	if (colon)
		o->files[0] = arena_dup(
		    &o->arena, (struct span){ o->files[0], (size_t)(colon - o->files[0]) });
	fetch_umask = umask(0);
	return o->fetches_code ? remote_job_command(c, o, fetch_job, "/config")
	                       : remote_job_command(c, o, fetch_any, NULL);
}

/* ---- rest-lit backup FILE: a copy of the database of a server with --local --------------------
 */

enum { BACKUP_ERROR_MAX = 64 << 10, BACKUP_SILENCE_S = 600 };

static int backup_save(struct remote *r, const void *name, struct err *e)
{
	FD_AUTO fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, 400, NULL, "%s: %s", (const char *)name, strerrordesc_np(errno));
	const struct remote_file file = { .name = name, .fd = fd };
	REPLY_AUTO reply = { .file = &file };
	const struct client_call call = {
		.method = "GET",
		.path = "/api/v2/machine/backup",
		.max = BACKUP_ERROR_MAX,
		.timeout_ms = INT32_MAX,
		.silence_s = BACKUP_SILENCE_S,
	};
	if (remote_ask(r, &call, 200, &reply, e) == 0 && fsync(fd) == 0)
		return EXIT_OK;
	if (!e->http)
		(void)err_set(e, UNKNOWN_ERROR, "%s: %s", (const char *)name,
		              strerrordesc_np(errno));
	(void)unlink(name); /* a part of the backup is of no use */
	return -1;
}

int cmd_backup(const struct command *c, struct options *o)
{
	(void)c;
	return remote_run(o, NULL, backup_save, o->files[0]);
}
