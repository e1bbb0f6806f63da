/* GET /api/v2/jobs/{job}/results, a list or an archive, and .../results/{path}, a file. */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <time.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/scan.h"
#include "base/pod/results.h"
#include "base/posix/fd.h"
#include "jobs/store/paths.h"
#include "machine/engine/engine.h"
#include "server/accounts/account.h"
#include "server/auth/auth.h"
#include "server/auth/mac.h"
#include "server/auth/token.h"
#include "server/config/options.h"
#include "server/http/edit.h"
#include "server/http/loop.h"
#include "server/http/stream.h"
#include "server/jobs/jobs.h"
#include "server/results/results_internal.h"

#define NO_RESULTS    404, "NoResultsError"
#define NO_SUCH_RANGE 416, "RangeNotSatisfiableError"

/* Lives in the arena of the request. */
struct results_asked {
	struct results_slots *all;
	struct results_slot *place;
	const char *job, *uid; /* of the Framework */
	struct stat st;        /* BYTES: the file */
};

enum { LIST_PREFIX, LIST_AFTER, LIST_LIMIT, LIST_ARCHIVE, LIST_TOKEN };
/* clang-format off */
#define RESULTS_TOKEN                                                                              \
	{ .name = LINK_PARAMETER,                                                                  \
	  .doc = "The `token` of a list: for `--log-link-lifetime` a request with it, about the results of this job, needs no other token." }
const struct parameter RESULTS_LIST[] = {
	[LIST_PREFIX] = { .name = "prefix", .example = "checkpoints",
	  .must = "a relative path without `.` and `..`",
	  .doc = "Only this file, or this directory and what is in it." },
	[LIST_AFTER] = { .name = "after", .example = "checkpoints/1.pt",
	  .doc = "Of a list: only paths behind this one, in the order of their bytes: the `href` of the last row, to go on." },
	[LIST_LIMIT] = { .name = "limit", .max = RESULTS_PAGE, .absent = "1000",
	  .doc = "Of a list: rows at most." },
	[LIST_ARCHIVE] = { .name = "archive", .values = "tar",
	  .doc = "Instead of a list, the files themselves as a tar (pax). It has regular files and directories only. Comments behind a file say that it `changed`, `grew` (it is cut) or `shrank` (it is filled up with zeros) while it was read; behind the two blocks of zeros at the end, `end N` says how many entries were left out." },
	[LIST_TOKEN] = RESULTS_TOKEN,
	{ .name = NULL },
};
const struct parameter RESULT_FILE[] = {
	RESULTS_TOKEN,
	{ .name = "Range", .header = true,
	  .doc = "One range of bytes, as in `bytes=-1000`." },
	{ .name = NULL },
};
/* clang-format on */

/*
 * ---- links ----
 *
 * A token is base64url of: HMAC-SHA256, uid of the Framework, user, time of expiry, separated by
 * NUL.  The MAC covers these and the job.
 */

/* If there is no token secret, links are valid in this process only. */
static void link_mac(const struct request *r, struct span said, unsigned char out[static MAC_BYTES])
{
	unsigned char key[MAC_BYTES];
	const struct span parts[] = { r->args[0], said };
	const struct keyring *keys = r->loop->server->keyring ? keyring_of(r->loop) : NULL;
	if (!keys || !keyring_derive(keys, "results-link", key))
		memcpy(key, r->loop->server->link_key, MAC_BYTES);
	mac_of(key, parts, ARRAY_SIZE(parts), out);
	memory_wipe(key, sizeof(key));
}

static void link_make(const struct request *r, const char *uid, char out[static RESULTS_LINK])
{
	unsigned char mac[MAC_BYTES];
	STR_AUTO said = STR_INIT(RESULTS_LINK / 2);
	STR_AUTO bytes = STR_INIT(RESULTS_LINK / 2 + MAC_BYTES);
	STR_AUTO text = STR_INIT(RESULTS_LINK - 1);
	str_put(&said, uid, strlen(uid) + 1);
	str_put(&said, r->user, strlen(r->user) + 1);
	str_int(&said, (int64_t)time(NULL) + r->loop->server->options->log_link_lifetime_s);
	link_mac(r, str_view(&said), mac);
	str_put(&bytes, (const char *)mac, MAC_BYTES);
	str_span(&bytes, str_view(&said));
	str_base64(&text, str_view(&bytes)); /* as base64url, without padding */
	for (size_t i = 0; i <= text.n && i < RESULTS_LINK; i++) {
		char c = str_c(&text)[i];
		out[i] = (char)(c == '+' ? '-' : c == '/' ? '_' : c == '=' ? '\0' : c);
	}
}

/* The uid of a valid link, whose user becomes that of the request; NULL: r is answered. */
static const char *link_check(struct request *r, struct span token)
{
	unsigned char mac[MAC_BYTES];
	struct span bytes = { NULL, 0 };
	int64_t expires_s = 0;
	if (token.n < RESULTS_LINK && base64url_decode(&r->arena, token, &bytes) == 0 &&
	    bytes.n > MAC_BYTES) {
		struct span said = span_from(bytes, MAC_BYTES);
		const char *uid = arena_dup(&r->arena, span_to(said, span_chr(said, '\0')));
		link_mac(r, said, mac);
		if (gnutls_memcmp(mac, bytes.p, MAC_BYTES) == 0) {
			(void)span_next(&said, '\0');
			r->user = arena_dup(&r->arena, span_next(&said, '\0'));
			(void)parse_i64(said, 0, INT64_MAX, &expires_s); /* else it has expired */
			if ((int64_t)time(NULL) < expires_s)
				return uid;
		}
	}
	answer_refuse(r, FORBIDDEN,
	              "this link is not valid, or has expired: request the list once more");
	return NULL;
}

/* ---- opening, on a thread -------------------------------------------------------------------- */

static int results_no_entry(struct edit *t, const char *path)
{
	char shown[4 * QUOTE_MAX];
	return err_set(&t->e, NO_RESULTS, "the results have no %s \"%s\"",
	               ((struct results_asked *)t->arg)->place->kind == RESULTS_BYTES
	                   ? "file"
	                   : "file or directory",
	               quote(shown, span_of(path)));
}

static void results_open_asked(struct edit *t)
{
	struct results_asked *x = t->arg;
	struct results_slot *p = x->place;
	const struct engine *engine = t->r->loop->server->engine;
	const char *dir;
	enum results_state state = engine_results(engine, span_of(x->uid), &t->arena, &dir);
	if (state == RESULTS_KEPT)
		p->dir = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->dir < 0) {
		(void)err_set(&t->e, NO_RESULTS,
		              state == RESULTS_DELETED
		                  ? "the results of this job were deleted, because there were too "
		                    "many (serve --keep-results)"
		                  : "this job has no results: it has none (extras.results), or has "
		                    "not started yet");
		return;
	}
	if (p->kind == RESULTS_BYTES) {
		p->file = results_open_file(p->dir, p->path, &x->st);
		if (p->file < 0)
			(void)results_no_entry(t, p->path);
		return;
	}
	FD_AUTO seen = results_open(p->dir, p->path[0] ? p->path : ".", O_PATH);
	if (seen < 0 || fstat(seen, &x->st) < 0 ||
	    (!S_ISREG(x->st.st_mode) && !S_ISDIR(x->st.st_mode)))
		(void)results_no_entry(t, p->path);
}

/* ---- sending --------------------------------------------------------------------------------- */

static void results_stream(struct request *r, const struct results_asked *x, int status,
                           const char *type)
{
	static const struct stream_calls CALLS = { .finishes = true };
	struct stream *s = stream_open(r, status, type, &CALLS, NULL);
	if (!s)
		return; /* r is answered, or a HEAD */
	if (results_send(x->all, x->place) == 0)
		stream_from(s, x->place->in);
	else
		stream_cut(s);
}

/* Nothing that a job has written is shown in the origin of the page. */
static void results_guard(struct request *r, const char *name)
{
	STR_AUTO text = STR_INIT(3 * TAR_PATH + 100);
	str_puts(&text, "attachment; filename*=UTF-8''");
	query_encode(&text, span_of(name));
	answer_header(r, "Content-Disposition", str_c(&text));
	answer_header(r, "Content-Security-Policy", "sandbox; default-src 'none'");
}

static void result_answer(struct edit *t)
{
	struct request *r = t->r;
	struct results_asked *x = t->arg;
	struct results_slot *p = x->place;
	const char *slash = strrchr(p->path, '/');
	size_t from = 0;
	size_t size = (size_t)x->st.st_size;
	size_t n = size;
	results_guard(r, slash ? slash + 1 : p->path);
	answer_header(r, "Accept-Ranges", "bytes");
	if (answer_unchanged(r, arena_printf(&r->arena, "W/\"%llx-%llx-%llx\"",
	                                     (unsigned long long)x->st.st_ino,
	                                     (unsigned long long)x->st.st_mtim.tv_sec * 1000000000 +
	                                         (unsigned long long)x->st.st_mtim.tv_nsec,
	                                     (unsigned long long)size)))
		return;
	/* Ranges are for GET.  The ETag is weak, so no If-Range is true. */
	bool may = strcmp(r->method, "GET") == 0 && !request_header(r, "If-Range");
	enum range_result range =
	    range_read(may ? request_header(r, "Range") : NULL, size, &from, &n);
	if (range == RANGE_NONE) {
		answer_header(r, "Content-Range", arena_printf(&r->arena, "bytes */%zu", size));
		answer_refuse(r, NO_SUCH_RANGE, "the file ends before this range");
		return;
	}
	if (range == RANGE_PART)
		answer_header(
		    r, "Content-Range",
		    arena_printf(&r->arena, "bytes %zu-%zu/%zu", from, from + n - 1, size));
	p->from = (int64_t)from;
	p->bytes = r->reply.length = (int64_t)n;
	if (n > 0) {
		results_stream(r, x, range == RANGE_PART ? 206 : 200, "application/octet-stream");
		return;
	}
	r->reply.status = 200;
	r->reply.type = "application/octet-stream";
	answer_send(r);
}

static void results_answer(struct edit *t)
{
	struct request *r = t->r;
	const struct results_asked *x = t->arg;
	bool tar = x->place->kind == RESULTS_TAR;
	if (tar)
		results_guard(r, arena_printf(&r->arena, "%s.tar", x->job));
	else
		link_make(r, x->uid, x->place->token);
	results_stream(r, x, 200, tar ? "application/x-tar" : "application/json; charset=utf-8");
}

/* ---- the request ----------------------------------------------------------------------------- */

static void results_request_end(void *arg)
{
	const struct results_asked *x = arg;
	results_leave(x->all, x->place);
}

/* Begins to answer about the job of this Framework. */
static void results_begin(struct request *r, const char *uid)
{
	struct results_asked *x = r->state;
	struct results_slot *p = x->place; /* as asked, in the arena */
	x->uid = uid;
	x->all = r->loop->server->results;
	x->place = results_take(x->all, r->user, p->kind);
	if (!x->place) {
		answer_refuse(
		    r, UNAVAILABLE,
		    "too many results are being sent, of this user (2) or of all (8); try "
		    "again");
		return;
	}
	request_on_end(r, results_request_end, x);
	memcpy(x->place->path, p->path, sizeof(p->path));
	memcpy(x->place->after, p->after, sizeof(p->after));
	x->place->limit = p->limit;
	edit_start(r, results_open_asked, p->kind == RESULTS_BYTES ? result_answer : results_answer,
	           x);
}

/* The first item of a list in JSON that has this text as a member; p is NULL without one. */
static struct span results_item(struct span list, const char *key, struct span text, bool within,
                                struct arena *a)
{
	struct scan walk = scan_begin(list);
	for (struct span item; scan_item(&walk, &item);) {
		struct span value = scan_text(scan_get(item, key), a);
		if (within ? span_find(value, 0, text.p) < value.n : span_eq(value, text))
			return item;
	}
	return (struct span){ NULL, 0 };
}

/* On a cluster: says where the results are; the cache does not have the volumes of pods. */
static void results_elsewhere(void *arg, const struct store_reply *reply)
{
	struct request *r = arg;
	struct span role;
	struct span container;
	bool good = reply->outcome == STORE_OK && scan_valid(reply->body, SCAN_DEPTH_MAX);
	struct scan roles =
	    scan_begin(good ? scan_path(reply->body, "spec", "taskRoles") : SPAN("[]"));
	bool any = scan_item(&roles, &role);
	struct span pod = any ? scan_path(role, "task", "pod", "spec") : role;
	struct scan containers = scan_begin(any ? scan_get(pod, "containers") : SPAN("[]"));
	while (scan_item(&containers, &container)) {
		struct span mount = results_item(scan_get(container, "volumeMounts"), "subPath",
		                                 SPAN(RESULTS_CLAIM "/"), true, &r->arena);
		struct span name = scan_text(scan_get(mount, "name"), &r->arena);
		struct span volume =
		    results_item(scan_get(pod, "volumes"), "name", name, false, &r->arena);
		struct span claim =
		    scan_text(scan_path(volume, "persistentVolumeClaim", "claimName"), &r->arena);
		struct span path = scan_text(scan_get(mount, "subPath"), &r->arena);
		if (!mount.p)
			continue;
		answer_refuse(r, NO_RESULTS,
		              arena_printf(&r->arena,
		                           "the results of this job are not on the server, but in "
		                           "the storage %.*s, in the directory %.*s",
		                           (int)claim.n, claim.p, (int)path.n, path.p));
		return;
	}
	if (good)
		answer_refuse(r, NO_RESULTS, "this job has no results (extras.results)");
	else
		answer_refuse(r, UNAVAILABLE, "the API server does not answer; try again");
}

static void results_job_found(struct request *r, const struct job_entry *job)
{
	if (r->loop->server->engine)
		results_begin(r, arena_dup(&r->arena, span_of(job->uid)));
	else if (r->loop->store)
		job_store_get(r, KIND_FRAMEWORK, job->name, results_elsewhere, r);
	else
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
}

static struct results_asked *results_ask(struct request *r, enum results_kind kind)
{
	struct results_asked *x = ARENA_NEW(&r->arena, struct results_asked, 1);
	x->place = ARENA_NEW(&r->arena, struct results_slot, 1);
	x->place->kind = kind;
	x->place->limit = RESULTS_PAGE;
	const char *tilde = memchr(r->args[0].p, '~', r->args[0].n);
	x->job = tilde ? tilde + 1 : r->args[0].p;
	r->state = x;
	return x;
}

/* The path of a file or directory, with any bytes; "" only if it may be.  false: r is answered. */
static bool results_path_take(struct request *r, struct span path, char out[static TAR_PATH + 1])
{
	if (!path.p)
		path = SPAN("");
	bool good = path.n <= TAR_PATH && !memchr(path.p, '\0', path.n);
	if (good && path.n) {
		memcpy(out, path.p, path.n);
		out[path.n] = '\0';
	}
	if (good && (!path.n || tar_path_ok(out)))
		return true;
	answer_bad(r, "the path of a result must be relative, without `.` and `..`", path);
	return false;
}

static void results_admit(struct request *r)
{
	struct span token;
	if (!parameter_find(r, &RESULTS_LIST[LIST_TOKEN], &token)) {
		job_find(r, results_job_found);
		return;
	}
	const char *uid = link_check(r, token);
	if (uid && !r->loop->server->engine)
		answer_refuse(r, NO_RESULTS, "this server has no results");
	else if (uid)
		results_begin(r, uid);
}

void results_get(struct request *r)
{
	ERR_AUTO e = { 0 };
	struct span value;
	bool tar = parameter_find(r, &RESULTS_LIST[LIST_ARCHIVE], &value);
	int index = tar ? parameter_index(&RESULTS_LIST[LIST_ARCHIVE], value) : 0;
	struct results_slot *p = results_ask(r, tar ? RESULTS_TAR : RESULTS_ROWS)->place;
	if (index < 0)
		(void)parameter_refuse(&RESULTS_LIST[LIST_ARCHIVE], value, &e);
	if (!e.http && parameter_find(r, &RESULTS_LIST[LIST_LIMIT], &value) &&
	    parameter_number(&RESULTS_LIST[LIST_LIMIT], value, &p->limit, &e) == 0 && !p->limit)
		p->limit = RESULTS_PAGE;
	if (e.http) {
		answer_error(r, &e);
		return;
	}
	if (parameter_find(r, &RESULTS_LIST[LIST_PREFIX], &value)) {
		while (value.n && value.p[value.n - 1] == '/')
			value.n--;
		if (!results_path_take(r, value, p->path))
			return;
	}
	if (parameter_find(r, &RESULTS_LIST[LIST_AFTER], &value) &&
	    !results_path_take(r, value, p->after))
		return;
	results_admit(r);
}

void result_get(struct request *r)
{
	struct results_asked *x = results_ask(r, RESULTS_BYTES);
	if (results_path_take(r, r->args[1], x->place->path))
		results_admit(r);
}
