/*
 * PUT and GET /api/v2/code/{sha256}, and GET /api/v2/jobs/{job}/code.
 *
 * An upload: code_check_head, before the body -> on one machine code_sink takes its parts into a
 * file -> code_put, when it is complete -> code_check_upload and code_keep on a thread
 * (http/edit.h) -> code_found.
 */
#include "server/code/job_code.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/hash.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "base/posix/rmtree.h"
#include "jobs/cache/cache.h"
#include "server/cluster/gc.h"
#include "server/config/options.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"

enum {
	PIECE = 256 << 10,
	SYNC = 64 << 20,       /* bytes between two writes to the disk, which then take short */
	UPLOADS_OF_USER = 4,   /* at a time, of CODE_UPLOADS */
	ROOM_LEFT = 256 << 20, /* of the disk, for the database and the logs of jobs */
	EARLY = 1 << 20,       /* a refusal does not wait for the rest of a larger body */
	JOBS_NAMED = 5,
};

#define CODE_NAME_MUST "the name of code is the SHA-256 of its tar, 64 digits 0-9a-f"

int64_t code_unpacked_max(const struct server *s)
{
	return s->code_directory ? CODE_MACHINE : CODE_CLUSTER;
}

static void code_answer(struct str *out, const struct code_archive *c)
{
	json_put_open(out, NULL, '{');
	json_put_text(out, "sha256", c->sha256);
	json_put_int(out, "bytes", c->bytes);
	json_put_int(out, "unpackedBytes", c->unpacked);
	json_put_int(out, "entries", c->entries);
	str_puts(out, "}\n");
}

static struct code_store code_edit_store(struct edit *t)
{
	const struct server *s = t->r->loop->server;
	struct code_store store =
	    gc_code_store(s, t->caller, clock_ms() + s->options->deadline_s * 1000);
	store.arena = &t->arena;
	return store;
}

/* ---- the body of an upload ----------------------------------------------------------- */

/* Lives in the arena of the request. */
struct code_upload {
	struct server *server;
	unsigned long long *place; /* of code_uploads; NULL: none */
	char *directory;           /* in code_directory, with the file `part`; NULL: a cluster */
	int fd;                    /* of the file; -1 */
	int fault;                 /* errno */
	int64_t coming;
	struct code_archive want;
	struct code_full full;
	bool new;
};

static void code_sink(struct request *r, struct span part)
{
	struct code_upload *u = r->state;
	if (!u->fault && fd_write_all(u->fd, part) < 0)
		u->fault = errno;
}

/* Gives its place back, if it has one. */
static void code_upload_leave(struct code_upload *u)
{
	LOCK_AUTO(&u->server->code_lock);
	if (u->place)
		*u->place = 0;
	u->place = NULL;
}

/* However the request has ended. */
static void code_upload_end(void *arg)
{
	struct code_upload *u = arg;
	code_upload_leave(u);
	fd_cleanup(&u->fd);
	if (u->directory)
		(void)tree_remove(AT_FDCWD, u->directory, SIZE_MAX); /* else the next start does */
	atomic_fetch_sub(&u->server->code_coming, u->coming);
}

/* Takes a place for an upload.  -1 and *e. */
static int code_upload_admit(struct request *r, struct code_upload *u, struct err *e)
{
	struct server *s = u->server;
	static const struct hash_key NO_SECRET;
	unsigned long long user = hash_bytes(&NO_SECRET, span_of(r->user)) | 1;
	int own = 0;
	request_on_end(r, code_upload_end, u);
	LOCK_AUTO(&s->code_lock);
	for (size_t i = 0; i < CODE_UPLOADS; i++) {
		own += s->code_uploads[i] == user;
		if (!s->code_uploads[i] && !u->place)
			u->place = &s->code_uploads[i];
	}
	if (own >= UPLOADS_OF_USER) {
		u->place = NULL;
		answer_header(r, "Retry-After", "2");
		return err_set(e, 429, "TooManyRequestsError",
		               "%d uploads of code of this user are under way; try again",
		               UPLOADS_OF_USER);
	}
	if (u->place)
		*u->place = user;
	return u->place ? 0
	                : err_set(e, UNAVAILABLE, "%d uploads of code are under way; try again",
	                          CODE_UPLOADS);
}

/* Makes the file of an upload.  -1 and *e. */
static int code_upload_open(struct request *r, struct code_upload *u, struct err *e)
{
	struct server *s = u->server;
	struct statvfs disk;
	char random[17];
	u->coming = (int64_t)r->head.length;
	int64_t coming = atomic_fetch_add(&s->code_coming, u->coming) + u->coming;
	random_hex(random, (sizeof(random) - 1) / 2);
	u->directory = arena_printf(&r->arena, "%s/" CODE_UPLOAD "%s", s->code_directory, random);
	if (statvfs(s->code_directory, &disk) == 0 &&
	    (int64_t)(disk.f_bavail * disk.f_frsize) < coming + ROOM_LEFT)
		return err_set(
		    e, 507, "NoRoomError",
		    "the disk of %s has %lld MiB left, and %d MiB beside the code are for "
		    "the database and logs; an administrator must make room",
		    s->code_directory, (long long)(disk.f_bavail * disk.f_frsize >> 20),
		    ROOM_LEFT >> 20);
	if (mkdir(u->directory, 0700) == 0)
		u->fd = open(arena_printf(&r->arena, "%s/part", u->directory),
		             O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (u->fd < 0)
		return err_set(e, UNAVAILABLE, "%s: %s", u->directory, strerrordesc_np(errno));
	r->sink = code_sink;
	return 0;
}

void code_check_head(struct request *r)
{
	ERR_AUTO e = { 0 };
	struct code_upload *u = ARENA_NEW(&r->arena, struct code_upload, 1);
	*u = (struct code_upload){ .server = r->loop->server, .fd = -1 };
	r->state = u;
	r->reply.close = r->head.chunked || r->head.length > EARLY; /* if it is refused here */
	if (!code_sha_ok(r->args[0]))
		answer_bad(r, CODE_NAME_MUST, r->args[0]);
	else if (r->head.chunked)
		answer_refuse(r, 411, "LengthRequiredError",
		              "an upload of code needs the header Content-Length");
	else if (code_upload_admit(r, u, &e) < 0 ||
	         (u->server->code_directory && code_upload_open(r, u, &e) < 0))
		answer_error(r, &e);
	else
		r->reply.close = false;
}

/* ---- checking and keeping it, on a thread -------------------------------------------- */

/* Hands the archive to its reader in pieces, and writes the file of one machine to the disk. */
static int code_read_all(struct edit *t, struct code_reader *reader)
{
	const struct code_upload *u = t->r->state;
	FREE_AUTO char *buffer = xmalloc(PIECE);
	struct span body = str_view(&t->r->body);
	for (int64_t at = 0;;) {
		struct span piece = { buffer, 0 };
		if (u->directory) {
			ssize_t n = pread(u->fd, buffer, PIECE, at);
			bool sync = n > 0 ? at / SYNC != (at + n) / SYNC : n == 0;
			if (n < 0 || (sync && fsync(u->fd) < 0))
				return err_set(&t->e, UNAVAILABLE, "the code cannot be stored: %s",
				               strerrordesc_np(errno));
			piece.n = (size_t)n;
		} else {
			piece = span_to(body, body.n < PIECE ? body.n : PIECE);
			body = span_from(body, piece.n);
		}
		if (piece.n == 0)
			return 0;
		if (!caller_wait(t->caller, -1, 0))
			return err_set(&t->e, UNAVAILABLE, "this server is shutting down");
		if (code_reader_feed(reader, piece, &t->e) < 0)
			return -1;
		at += (int64_t)piece.n;
	}
}

/* Fills the facts of u->want. */
static int code_check_upload(struct edit *t, struct code_upload *u)
{
	const struct code_limits limits = { CODE_ENTRIES, code_unpacked_max(u->server) };
	const struct code_sink nothing = { .arg = NULL };
	struct span name = t->r->args[0];
	struct code_facts facts;
	struct code_reader *reader = code_reader_new(&limits, &nothing);
	int failed = code_read_all(t, reader) < 0 || code_reader_end(reader, &facts, &t->e) < 0;
	code_reader_free(reader);
	if (failed)
		return -1;
	if (!span_is(name, facts.sha256))
		return err_set(&t->e, 400, "InvalidCodeError",
		               "the SHA-256 of the tar is %s, but the path has %.*s", facts.sha256,
		               (int)name.n, name.p);
	u->want.unpacked = facts.bytes;
	u->want.entries = facts.entries;
	return 0;
}

/* Appends " (195 KiB: sweep-1, sweep-2 and 998 more)" if jobs name the archive. */
static void code_name_jobs(struct str *out, const struct code_upload *u, size_t i)
{
	CACHE_VIEW_AUTO *view = cache_view(u->server->cache);
	struct view_walk walk = { .view = view };
	uint64_t key = job_entry_key(span_of(u->full.largest[i].name + strlen("code-")));
	size_t n = 0;
	for (const struct job_entry *job; (job = view_next(&walk)) != NULL;) {
		if (job->archive != key || n++ >= JOBS_NAMED)
			continue;
		if (n == 1)
			str_printf(out, " (%lld KiB: ",
			           (long long)(u->full.largest[i].bytes + 1023) / 1024);
		str_printf(out, "%s%s", n > 1 ? ", " : "", job->job);
	}
	if (n > JOBS_NAMED)
		str_printf(out, " and %zu more", n - JOBS_NAMED);
	str_puts(out, n ? ")" : "");
}

/* The error of a limit: what the user can delete. */
static void code_explain_full(struct edit *t, const struct code_upload *u)
{
	const struct code_full *f = &u->full;
	STR_AUTO text = STR_INIT(REPLY_MAX);
	str_printf(&text,
	           "there is no room for this code: %s may have %lld KiB compressed. Code that no "
	           "job names goes %lld minutes after its last use; delete jobs whose code is not "
	           "needed",
	           f->all ? "all users together" : "a user", (long long)(f->limit >> 10),
	           (long long)(u->server->options->code_age_s / 60));
	for (size_t i = 0; i < f->n; i++)
		code_name_jobs(&text, u, i);
	err_done(&t->e);
	(void)err_set(&t->e, 413, "CodeQuotaError", "%s", str_c(&text));
}

static void code_keep_upload(struct edit *t)
{
	struct code_upload *u = t->r->state;
	struct span packed = str_view(&t->r->body);
	char name[CODE_OBJECT + 1];
	char digest[CODE_SHA + 1] = "";
	if (u->fault) {
		(void)err_set(&t->e, UNAVAILABLE, "the code cannot be stored: %s",
		              strerrordesc_np(u->fault));
		return;
	}
	if (code_check_upload(t, u) < 0)
		return;
	code_object_name(name, t->r->user, t->r->args[0]);
	if (u->directory)
		packed = span_from(span_of(strrchr(u->directory, '/')), 1);
	else
		sha256_hex(digest, packed);
	u->want.name = name;
	u->want.user = t->r->user;
	u->want.sha256 = t->r->args[0];
	u->want.digest = span_of(digest);
	u->want.bytes = (int64_t)t->r->received;
	u->want.parts = u->directory ? 1 : (u->want.bytes + CODE_PART - 1) / CODE_PART;
	struct code_store s = code_edit_store(t);
	int kept = code_keep(&s, &u->want, packed, &u->full, &t->e);
	u->new = kept > 0;
	if (kept < 0 && t->e.http == 413)
		code_explain_full(t, u);
	if (kept >= 0)
		code_answer(&t->body, &u->want);
}

static void code_found(struct edit *t)
{
	const struct code_upload *u = t->r->state; /* NULL: it was only asked for */
	answer_json(t->r, u && u->new ? 201 : 200);
}

void code_put(struct request *r)
{
	edit_start(r, code_keep_upload, code_found, NULL);
}

/* ---- asking for it ------------------------------------------------------------------- */

static void code_renew(struct edit *t)
{
	char name[CODE_OBJECT + 1];
	struct code_store s = code_edit_store(t);
	struct code_archive c;
	code_object_name(name, t->r->user, t->r->args[0]);
	if (code_find(&s, name, true, &c, &t->e) == 0)
		code_answer(&t->body, &c);
}

void code_get(struct request *r)
{
	if (code_sha_ok(r->args[0]))
		edit_start(r, code_renew, code_found, NULL);
	else
		answer_bad(r, CODE_NAME_MUST, r->args[0]);
}

/* ---- the code of a job --------------------------------------------------------------- */

/* Lives in the arena of the request. */
struct code_sending {
	const char *name, *user;
	char sha256[CODE_SHA + 1];
	int fd; /* of one machine; -1 */
};

static void code_read_kept(struct edit *t)
{
	struct code_sending *x = t->arg;
	struct code_store s = code_edit_store(t);
	struct code_archive c;
	int failed = code_find(&s, x->name, false, &c, &t->e);
	/* The label of a Framework may be another program's. */
	if (!failed && strcmp(c.user, x->user) != 0)
		failed = err_set(&t->e, NO_CODE, "the code of this job is not its owner's");
	if (failed)
		return;
	(void)snprintf(x->sha256, sizeof(x->sha256), "%.*s", (int)c.sha256.n, c.sha256.p);
	if (s.directory) {
		x->fd = open(arena_printf(&t->arena, "%s/%s/part", s.directory, c.name),
		             O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (x->fd < 0)
			(void)err_set(&t->e, NO_CODE, "the file of this code cannot be read: %s",
			              strerrordesc_np(errno));
		return;
	}
	str_done(&t->body);
	t->body = STR_INIT(CODE_CLUSTER_PACKED);
	for (int64_t i = 0; i < c.parts && !t->e.http; i++) {
		ARENA_AUTO a = { 0 };
		struct span bytes;
		s.arena = &a;
		if (code_part(&s, &c, i, &bytes, &t->e) == 0)
			str_span(&t->body, bytes);
	}
}

static void code_more(struct stream *s, void *arg)
{
	const struct code_sending *x = arg;
	stream_put_file(s, x->fd);
}

static void code_send(struct edit *t)
{
	static const struct stream_calls CALLS = { .more = code_more, .finishes = true };
	struct request *r = t->r;
	const struct code_sending *x = t->arg;
	answer_header(r, "ETag", arena_printf(&r->arena, "\"%s\"", x->sha256));
	if (x->fd >= 0) {
		(void)stream_open(r, 200, "application/gzip", &CALLS, t->arg); /* or answered */
		return;
	}
	r->reply.status = 200;
	r->reply.type = "application/gzip";
	answer_hold(r);
	answer_send(r);
}

static void code_sending_end(void *arg)
{
	const struct code_sending *x = arg;
	fd_cleanup(&x->fd);
}

static void job_code_doc(struct request *r, const struct job_entry *job, struct span doc)
{
	struct span label =
	    scan_text(scan_path(doc, "metadata", "labels", "rest-lit/code"), &r->arena);
	struct code_sending *x = ARENA_NEW(&r->arena, struct code_sending, 1);
	*x = (struct code_sending){ .user = job->user, .fd = -1 };
	x->name = arena_printf(&r->arena, "code-%.*s", (int)label.n, label.p);
	if (label.n + strlen("code-") != CODE_OBJECT || !span_all(label, "0-9a-f")) {
		answer_refuse(r, NO_CODE, "this job has no code of a directory");
	} else if (answer_has_room(r)) {
		request_on_end(r, code_sending_end, x);
		edit_start(r, code_read_kept, code_send, x);
	}
}

void job_code_get(struct request *r)
{
	job_find_doc(r, job_code_doc);
}
