#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "machine/images/images_internal.h"
#include "machine/words.h"

/*
 * A pull, in a directory of its own below tmp: $1 names the repository, $2 the tag or digest, $3 is
 * the key, $4 is not empty for a registry without TLS.  The digest is that of a manifest or of a
 * list, from which skopeo chooses.  Of several pulls of one digest, in several processes too, the
 * first one does the work.  A rename is of no use while the files are not on the disk.
 */
static const char PULL_SCRIPT[] =
    "set -e\n"
    "export HOME=\"$PWD\" TMPDIR=\"$PWD\" XDG_RUNTIME_DIR=\"$PWD\"\n"
    "run() { setpriv --pdeathsig KILL \"$@\"; }\n"
    "login='--retry-times=2 --authfile=/proc/self/fd/3'\n"
    /* Without this file skopeo refuses all. */
    "[ -e /etc/containers/policy.json ] || policy=--insecure-policy\n"
    "run skopeo --command-timeout=30s $policy inspect --raw $login ${4:+--tls-verify=false} "
    "\"$1$2\" >manifest\n"
    "hex=$(sha256sum <manifest)\n"
    "hex=${hex%% *}\n"
    "exec 9>>\"../lock-$hex\"\n"
    "flock 9\n"
    "if [ ! -e \"../../unpacked/$hex\" ]; then\n"
    "	run skopeo $policy copy $login ${4:+--src-tls-verify=false} \"$1@sha256:$hex\" "
    "oci:layout:image\n"
    "	mkdir -m 700 image\n"
    "	: >image/lock\n"
    "	run skopeo $policy inspect --config oci:layout:image >image/config.json\n"
    "	run umoci raw unpack --rootless --image layout:image image/rootfs\n"
    "	du -skx image >size || [ -s size ]\n"
    "	cut -f1 size >image/size\n"
    "	sync -f image\n"
    "	mv -T image \"../../unpacked/$hex\"\n"
    "fi\n"
    "ln -sfn \"$hex\" \"../../refs/$3\"\n";

enum { PULL_LOG_MAX = 8192, PULL_OTHERS = 1 << 30 };

/* ---- start ---- */

/* What skopeo and umoci may know of the environment; files of this user's logins are not there. */
static const char *const *pull_env(struct arena *a)
{
	static const char *const KEPT[] = { "PATH",     "http_proxy",    "https_proxy",
		                            "no_proxy", "HTTP_PROXY",    "HTTPS_PROXY",
		                            "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR" };
	struct words env = { .a = a };
	for (size_t i = 0; i < ARRAY_SIZE(KEPT); i++) {
		const char *value =
		    getenv(KEPT[i]); /* NOLINT(concurrency-mt-unsafe): not changed */
		if (value)
			words_add(&env, arena_printf(a, "%s=%s", KEPT[i], value));
	}
	return env.v;
}

/* Registries on this machine are asked without TLS. */
static bool pull_is_local(const char *host)
{
	static const char *const LOCAL[] = { "localhost", "127.0.0.1", "[::1]" };
	for (size_t i = 0; i < ARRAY_SIZE(LOCAL); i++) {
		size_t n = strlen(LOCAL[i]);
		if (strncmp(host, LOCAL[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
			return true;
	}
	return false;
}

static int pull_run(struct images_item *p, struct err *e)
{
	const struct image *i = &p->image;
	const char *const argv[] = {
		"setpriv",
		"--pdeathsig",
		"KILL",
		"/bin/sh",
		"-c",
		PULL_SCRIPT,
		"pull",
		arena_printf(&p->a, "docker://%s/%s", i->hub ? "docker.io" : i->host,
		             i->repository),
		arena_printf(&p->a, "%c%s", images_by_digest(i) ? '@' : ':', i->reference),
		p->key,
		pull_is_local(i->host) ? "local" : "",
		NULL,
	};
	/* The login is in memory only; skopeo reads /proc/self/fd/3. */
	FD_AUTO login = memfd_create("auth", MFD_CLOEXEC);
	if (login < 0 || fd_write_all(login, p->auth.n ? p->auth : SPAN("{}")) != 0)
		return err_set(e, UNKNOWN_ERROR, "no memory for the login");
	const struct child_command command = {
		.argv = argv, .env = pull_env(&p->a), .dir = p->path, .pass = login
	};
	if (child_start(&p->child, &command, e) != 0)
		return -1;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
	if (epoll_ctl(p->m->epoll, EPOLL_CTL_ADD, p->child.pidfd, &event) == 0)
		return 0;
	child_stop(&p->child);
	return err_set(e, UNKNOWN_ERROR, "epoll: %s", strerrordesc_np(errno));
}

/* A directory of its own, locked before others look at it. */
static int pull_dir(struct images_item *p, struct err *e)
{
	const char *tmp = arena_printf(&p->a, "%s/tmp", p->m->store.path);
	char *fresh = arena_printf(&p->a, "%s/.new-XXXXXX", tmp);
	if (mkdtemp(fresh) != NULL) {
		p->path = arena_printf(&p->a, "%s/pull-%s", tmp, strrchr(fresh, '-') + 1);
		p->dir = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (p->dir >= 0 && flock(p->dir, LOCK_EX) == 0 && rename(fresh, p->path) == 0)
		return 0;
	return err_set(e, UNKNOWN_ERROR, "%s: %s", tmp, strerrordesc_np(errno));
}

static void pull_fail(struct images_item *p, const char *why)
{
	images_say(p, IMAGES_FAILED, "the image %s cannot be pulled: %s", p->name, why);
}

void images_pull_start(struct images_item *p)
{
	ERR_AUTO e = { 0 };
	p->until_ms = clock_ms() + (int64_t)p->m->pull_s * 1000;
	if (pull_dir(p, &e) != 0 || pull_run(p, &e) != 0)
		pull_fail(p, err_msg(&e));
	else
		images_say(p, IMAGES_WAITING, "pulling the image %s", p->name);
}

/* ---- end ---- */

/* skopeo: `time="..." level=fatal msg="text with \" and \\"`; others: the last line. */
const char *images_pull_reason(struct span log, struct arena *a)
{
	enum { REASON_MAX = 400 };
	log = span_trim(log);
	while (span_chr(log, '\n') < log.n)
		(void)span_next(&log, '\n');
	size_t at = span_find(log, 0, "msg=\"");
	log = at == SIZE_MAX ? span_trim(log) : span_from(log, at + 5);
	STR_AUTO out = STR_INIT(REASON_MAX);
	for (size_t i = 0; i < log.n && !out.full; i++) {
		char c = log.p[i];
		if (at != SIZE_MAX && c == '"')
			break;
		if (at != SIZE_MAX && c == '\\' && i + 1 < log.n)
			c = log.p[++i];
		bool control = (unsigned char)c < ' ';
		str_char(&out, control ? ' ' : c); /* NOLINT(bugprone-narrowing-conversions) */
	}
	struct span reason = span_cut(str_view(&out), REASON_MAX);
	return reason.n ? arena_dup(a, reason) : "it gives no reason";
}

static bool pull_unpacks(const struct images_item *p)
{
	return faccessat(p->dir, "image", F_OK, 0) == 0;
}

/* The image is there; it must fit. */
static void pull_finish(struct images_item *p)
{
	ERR_AUTO e = { 0 };
	if (!images_item_take(p)) {
		pull_fail(p, "it was removed again at once");
		return;
	}
	const char *hex = p->status.digest + sizeof("sha256:") - 1;
	if (images_store_room(&p->m->store, hex, &e) == 0) {
		struct image exact = p->image;
		char key[STORE_HEX];
		exact.reference = p->status.digest;
		images_key(key, &exact, p->auth);
		images_store_name(&p->m->store, key, hex);
		return;
	}
	(void)close(p->lock);
	p->lock = -1;
	(void)images_store_drop(&p->m->store, hex);
	pull_fail(p, err_msg(&e));
}

/* The registry has not told what the name means now: what it meant before is used. */
static void pull_use_earlier(struct images_item *p, const char *reason)
{
	struct stat st;
	bool told = fstatat(p->dir, "manifest", &st, 0) == 0 && st.st_size > 0;
	if (told || p->why || p->status.absent || !images_item_take(p))
		return;
	p->status.note =
	    arena_printf(&p->a,
	                 "the registry cannot be asked about the image %s: %s; %s is used, "
	                 "which was pulled before",
	                 p->name, reason, p->status.digest);
}

void images_pull_ended(struct images_item *p)
{
	ARENA_AUTO a = { 0 };
	struct span log;
	(void)epoll_ctl(p->m->epoll, EPOLL_CTL_DEL, p->child.pidfd, NULL);
	int status = child_end(&p->child, PULL_LOG_MAX, &log, &a);
	const char *reason = p->why ? p->why : images_pull_reason(log, &a);
	if (p->why == NULL && status == 0) {
		pull_finish(p);
	} else {
		pull_fail(p, reason);
		p->status.absent = !p->why && !pull_unpacks(p) && image_is_refused(span_of(reason));
		pull_use_earlier(p, reason);
	}
}

void images_pull_stop(struct images_item *p, const char *why)
{
	p->why = why;
	child_kill(&p->child);
}

/* ---- meanwhile ---- */

/* Bytes that have come. */
static uint64_t pull_come(const struct images_item *p)
{
	static const char *const DIRS[] = { "layout", "layout/blobs/sha256" };
	uint64_t sum = 0;
	for (size_t i = 0; i < 2; i++) {
		DIR_AUTO *d = dir_list(p->dir, DIRS[i]);
		for (const char *name; (name = dir_next(d)) != NULL;) {
			struct stat st;
			if (fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			    S_ISREG(st.st_mode))
				sum += (uint64_t)st.st_size;
		}
	}
	return sum;
}

void images_pull_look(struct images_item *p, int64_t now_ms)
{
	const struct images_store *s = &p->m->store;
	uint64_t left = images_store_free(s);
	uint64_t bytes = 0;
	if (pull_unpacks(p)) {
		p->free_before = p->free_before ? p->free_before : left;
		/* Others write, too: the exact size is known at the end. */
		if (p->free_before > left + PULL_OTHERS)
			bytes = p->free_before - left - PULL_OTHERS;
		images_say(p, IMAGES_WAITING, "unpacking the image %s", p->name);
	} else {
		bytes = pull_come(p);
		images_say(p, IMAGES_WAITING, "pulling the image %s: %.0f MB", p->name,
		           (double)bytes / 1e6);
	}
	if (p->why)
		return;
	if (now_ms >= p->until_ms)
		images_pull_stop(p,
		                 arena_printf(&p->a, "it has taken more than %u s", p->m->pull_s));
	else if (left == 0)
		images_pull_stop(p, arena_printf(&p->a, "%s is full; delete files there", s->path));
	else if (bytes > s->limit)
		images_pull_stop(p,
		                 arena_printf(&p->a, "it exceeds the limit of %.1f GB for images",
		                              (double)s->limit / 1e9));
}
