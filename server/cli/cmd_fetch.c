/* The code of jobs: that of `submit --code` and `resubmit` on its way to the server, and
 * rest-lit fetch --code JOB -o DIR. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/doc/tree.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "server/cli/cli_internal.h"
#include "server/compose/compose.h"
#include "translate/job/dialect.h"

enum {
	ANSWER_MAX = 1 << 20,
	ATTEMPT_MS = 60000,
	SLOWEST = 64, /* bytes per ms */
	SILENCE_S = 120
};

static mode_t fetch_umask; /* of the user */

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

/* The name in the directory of the code where the job has its results; NULL: none there. */
static const char *code_results(const struct node *its)
{
	const struct node *path = node_get(its, "path");
	if (!node_is(its, NODE_MAP) && !(node_is(its, NODE_BOOL) && its->boolean))
		return NULL;
	return node_is(path, NODE_TEXT) ? path->text : "results";
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
	const char *results = code_results(node_get(node_get(&doc.root, "extras"), "results"));
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

static int fetch_job(struct remote *r, const char *job, struct span config, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	const char *name = r->o->directory;
	struct span sha = code_of_config(config, &arena);
	if (!sha.n)
		return err_set(e, 404, NULL, "%s has no code: it was submitted without --code",
		               job);
	(void)umask(fetch_umask); /* process_harden has set 077 */
	bool made = mkdir(name, 0777) == 0;
	FD_AUTO dir = made || errno == EEXIST ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir < 0)
		return err_set(e, 400, NULL, "%s: %m", name);
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

int cmd_fetch(const struct command *c, struct options *o)
{
	if (!o->fetches_code || !o->directory[0])
		return command_usage(c, "say what to fetch, and where to: --code -o DIR");
	fetch_umask = umask(0);
	return remote_job_command(c, o, fetch_job, "/config");
}
