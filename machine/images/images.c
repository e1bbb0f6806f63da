/* Pulls images by a script around skopeo and umoci, and shares them by locks and links in a
 * directory. */
#include "machine/images/images.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/image/image.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/rmtree.h"
#include "machine/images/images_internal.h"
#include "machine/words.h"

enum {
	IMAGES_AT_ONCE = 2,  /* pulls */
	IMAGES_QUEUE = 1000, /* pulls that wait */
	IMAGES_SWEEP = 500,  /* files removed at once: some ms */
	IMAGES_SWEEP_MS = 5,
	IMAGES_RESERVE = 1 << 30, /* bytes of the file system */
	IMAGES_TICK_MS = 1000,
	IMAGES_PULL_S = 3600, /* with unpacking */
	IMAGES_LOG_MAX = 8192,
	PULL_NOT_TOLD = 3, /* exit status: the registry has not told what the name means */
	PULL_NOT_COPIED = 4,
	IMAGES_CONFIG_MAX = 4 << 20,
	IMAGES_ENV_MAX = 1000
};

/*
 * The directory:
 *
 *   unpacked/HEX/   an image, by the SHA-256 of its manifest or list of manifests: rootfs/,
 *                   config.json, size (KiB, as text), lock (its users hold LOCK_SH; its
 *                   modification time is the last use)
 *   refs/KEY        a link to HEX, the image that a name meant when a login pulled it
 *   tmp/            pulls, locks of digests that are pulled, and images that are being removed; a
 *                   locked one is in use
 */

/*
 * A pull, in a directory of its own below tmp: $1 names the repository, $2 the tag or digest, $3 is
 * the key.  Registries on this machine are asked without TLS.  The digest is that of a manifest or
 * of a list, from which skopeo chooses.  The first of several pulls of one digest does the work.  A
 * rename is of no use while the files are not on the disk.
 */
static const char PULL_SCRIPT[] =
    "set -e\n"
    "export HOME=\"$PWD\" TMPDIR=\"$PWD\" XDG_RUNTIME_DIR=\"$PWD\"\n"
    "run() { setpriv --pdeathsig KILL \"$@\"; }\n"
    "login='--retry-times=2 --authfile=/proc/self/fd/3'\n"
    "case $1 in\n"
    "docker://localhost[:/]* | docker://127.0.0.1[:/]* | 'docker://[::1]'[:/]*) plain=yes ;;\n"
    "esac\n"
    /* skopeo refuses all images without this file. */
    "[ -e /etc/containers/policy.json ] || policy=--insecure-policy\n"
    "run skopeo --command-timeout=30s $policy inspect --raw $login "
    "${plain:+--tls-verify=false} \"$1$2\" >manifest || exit 3\n"
    "hex=$(sha256sum manifest | cut -c-64)\n"
    "exec 9>>\"../lock-$hex\"\n"
    "flock 9\n"
    "if [ ! -e \"../../unpacked/$hex\" ]; then\n"
    "	run skopeo $policy copy $login ${plain:+--src-tls-verify=false} \"$1@sha256:$hex\" "
    "oci:layout:image || exit 4\n"
    "	mkdir -m 700 image\n"
    "	: >image/lock\n"
    "	run skopeo $policy inspect --config oci:layout:image >image/config.json\n"
    "	run umoci raw unpack --rootless --image layout:image image/rootfs\n"
    "	du -skx image | cut -f1 >image/size\n" /* some directories cannot be read */
    "	sync -f image\n"
    "	mv -T image \"../../unpacked/$hex\"\n"
    "fi\n"
    "ln -sfn \"$hex\" \"../../refs/${3%\"$2\"}@sha256:$hex\"\n"
    "ln -sfn \"$hex\" \"../../refs/$3\"\n";

int images_probe(struct err *e)
{
	static const char *const NEEDED[] = { "skopeo", "umoci" };
	ARENA_AUTO a = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++) {
		if (program_find(NEEDED[i], &a) == NULL)
			return err_set(e, UNAVAILABLE,
			               "images cannot be pulled: %s is not in PATH: %s", NEEDED[i],
			               program_install("skopeo umoci", &a));
	}
	return 0;
}

/* ---- the directory ---- */

/* The file `lock` of an image, locked; -1: it is not there, or in use. */
static int image_lock(const struct images *m, const char *hex, int how)
{
	FREE_AUTO char *path = xasprintf("%s/unpacked/%s/lock", m->path, hex);
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && flock(fd, how | LOCK_NB) == 0)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

int images_make_room(struct images *m, const char *hex, struct err *e)
{
	FREE_AUTO char *all = xasprintf("%s/unpacked", m->path);
	char oldest[IMAGES_HEX]; /* of those that nobody uses; "" */
	int64_t sum;             /* KiB */
	int64_t own = 0;
	bool moved;
	do {
		int64_t first = INT64_MAX; /* its last use, ns */
		DIR_AUTO *d = dir_list(AT_FDCWD, all);
		sum = 0;
		*oldest = '\0';
		for (const char *name; (name = dir_next(d)) != NULL;) {
			FREE_AUTO char *file = xasprintf("%s/size", name);
			FD_AUTO lock = image_lock(m, name, LOCK_EX);
			char text[32];
			int64_t kib = 0;
			struct stat st = { 0 };
			(void)fd_read_at(dirfd(d), file, text, sizeof(text));
			(void)parse_i64(span_trim(span_of(text)), 0, INT32_MAX, &kib);
			sum += kib;
			own = strcmp(name, hex) == 0 ? kib : own;
			(void)fstat(lock, &st);
			int64_t ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
			if (lock >= 0 && ns < first) {
				first = ns;
				(void)snprintf(oldest, sizeof(oldest), "%s", name);
			}
		}
		if ((uint64_t)sum * 1024 <= m->limit)
			return 0;
		FREE_AUTO char *from = xasprintf("%s/%s", all, oldest);
		FREE_AUTO char *to = xasprintf("%s/tmp/old-%d-%s", m->path, (int)getpid(), oldest);
		m->sweeping = true;
		moved = *oldest && rename(from, to) == 0;
	} while (moved);
	return err_set(
	    e, UNKNOWN_ERROR, "it needs %.1f GB, and %.1f of the %.1f GB for images are in use",
	    (double)own * 1024 / 1e9, (double)(sum - own) * 1024 / 1e9, (double)m->limit / 1e9);
}

struct images *images_new(const char *dir, uint64_t bytes, int epoll, void (*changed)(void *arg),
                          struct err *e)
{
	static const char *const DIRS[] = { "", "/unpacked", "/refs", "/tmp" };
	ERR_AUTO in_use = { 0 };
	struct images *m = xcalloc(1, sizeof(*m));
	*m = (struct images){ .path = xstrdup(dir),
		              .limit = bytes,
		              .sweeping = true,
		              .epoll = epoll,
		              .changed = changed };
	TAILQ_INIT(&m->items);
	int bad = images_probe(e);
	for (size_t i = 0; i < ARRAY_SIZE(DIRS) && !bad; i++) {
		FREE_AUTO char *path = xasprintf("%s%s", dir, DIRS[i]);
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			bad = err_set(e, UNKNOWN_ERROR, "%s: %s", path, strerrordesc_np(errno));
	}
	if (bad) {
		images_free(m);
		return NULL;
	}
	(void)images_make_room(m, "", &in_use); /* the limit can be another one than before */
	return m;
}

/* ---- images that somebody wants ---- */

__attribute__((format(printf, 3, 4))) static void
image_notify(struct images_item *p, enum images_state state, const char *fmt, ...)
{
	const struct images_use *u;
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(p->text, sizeof(p->text), fmt, args);
	va_end(args);
	p->status = (struct images_status){ .state = state, .text = p->text, .lock = -1 };
	LIST_FOREACH(u, &p->uses, next)
	p->m->changed(u->arg);
}

void images_config_read(struct span text, struct arena *a, struct images_status *out)
{
	struct span config = scan_valid(text, SCAN_DEPTH_MAX) ? scan_get(text, "config") : SPAN("");
	struct span dir = scan_text(scan_get(config, "WorkingDir"), a);
	struct scan list = scan_begin(scan_get(config, "Env"));
	struct words env = { .a = a };
	for (struct span item; env.n < IMAGES_ENV_MAX && scan_item(&list, &item);) {
		struct span word = scan_text(item, a);
		if (span_chr(word, '=') < word.n && span_chr(word, '\0') == word.n)
			words_add(&env, arena_dup(a, word));
	}
	out->env = env.v;
	out->directory = span_starts(dir, "/") ? arena_dup(a, dir) : NULL;
}

/* An image that is there becomes READY; false: it is not. */
static bool image_take(struct images_item *p)
{
	const char *link = arena_printf(&p->a, "%s/refs/%s", p->m->path, p->key);
	(void)!readlink(link, p->hex, sizeof(p->hex) - 1);
	int lock = image_lock(p->m, p->hex, LOCK_SH);
	if (lock < 0)
		return false;
	(void)futimens(lock, NULL);
	image_notify(p, IMAGES_READY, "%s", "");
	p->status.lock = lock;
	p->status.digest = arena_printf(&p->a, "sha256:%s", p->hex);
	p->status.rootfs = arena_printf(&p->a, "%s/unpacked/%s/rootfs", p->m->path, p->hex);
	STR_AUTO config = STR_INIT(IMAGES_CONFIG_MAX);
	const char *path = arena_printf(&p->a, "%s/unpacked/%s/config.json", p->m->path, p->hex);
	(void)fd_read_str(AT_FDCWD, path, &config);
	images_config_read(str_view(&config), &p->a, &p->status);
	return true;
}

/* ---- a pull begins ---- */

static void pull_stop(struct images_item *p)
{
	p->m->running -= p->child.pidfd >= 0;
	if (p->child.pidfd >= 0)
		child_stop(&p->child);
	p->m->sweeping |= p->dir >= 0;
	fd_cleanup(&p->dir);
	p->dir = -1;
}

static void pull_fail(struct images_item *p, const char *why)
{
	pull_stop(p);
	image_notify(p, IMAGES_FAILED, "the image %s cannot be pulled: %s", p->name, why);
}

/* FAILED afterwards if no child can be started. */
static void pull_start(struct images_item *p)
{
	/* Files of this user's logins are not named here. */
	static const char *const KEPT[] = { "PATH",     "http_proxy",   "https_proxy",
		                            "no_proxy", "HTTP_PROXY",   "HTTPS_PROXY",
		                            "NO_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE",
		                            NULL };
	ERR_AUTO e = { 0 };
	struct words env = { .a = &p->a };
	char *dir = arena_printf(&p->a, "%s/tmp/pull-XXXXXX", p->m->path);
	const char *const argv[] = { "setpriv",    "--pdeathsig", "KILL", "/bin/sh",
		                     "-c",         PULL_SCRIPT,   "pull", p->where,
		                     p->reference, p->key,        NULL };
	for (char *const *v = environ; *v; v++) {
		if (span_among(span_to(span_of(*v), strcspn(*v, "=")), KEPT))
			words_add(&env, *v);
	}
	/* The login is in memory only; skopeo reads /proc/self/fd/3. */
	FD_AUTO login = memfd_create("auth", MFD_CLOEXEC);
	const struct child_command command = {
		.argv = argv, .env = env.v, .dir = dir, .pass = login
	};
	p->until_ms = clock_ms() + IMAGES_PULL_S * 1000LL;
	p->dir = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	/* Locked, so that it is not removed. */
	if (p->dir < 0 || flock(p->dir, LOCK_EX | LOCK_NB) != 0 || login < 0 ||
	    fd_write_all(login, p->auth.n ? p->auth : SPAN("{}")) != 0) {
		(void)err_set(&e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
	} else if (child_start(&p->child, &command, &e) == 0) {
		p->m->running++;
		/* epoll_ctl fails only without memory; then the end of the pull is seen a second
		 * later. */
		struct epoll_event event = { .events = EPOLLIN };
		(void)epoll_ctl(p->m->epoll, EPOLL_CTL_ADD, p->child.pidfd, &event);
		image_notify(p, IMAGES_WAITING, "pulling the image %s", p->name);
	}
	if (p->child.pidfd < 0)
		pull_fail(p, err_msg(&e));
}

/* ---- its end ---- */

/* skopeo: `time="..." level=fatal msg="text with \" and \\"`; others: the last line. */
const char *images_pull_reason(struct span log, struct arena *a)
{
	enum { REASON_MAX = 400 };
	log = span_trim(log);
	while (span_chr(log, '\n') < log.n)
		(void)span_next(&log, '\n');
	size_t at = span_find(log, 0, "msg=\"");
	struct span said = span_from(log, at == SIZE_MAX ? log.n : at + 4);
	struct scan quoted = { said.p, said.p + said.n, '\0' };
	if (scan_value(&quoted, &said) && scan_valid(said, 1))
		log = scan_text(said, a);
	char *reason = arena_dup(a, span_cut(log, REASON_MAX));
	for (char *c = reason; *c; c++) {
		if (*c > 0 && *c < ' ')
			*c = ' ';
	}
	return *reason ? reason : "it gives no reason";
}

/* The image is here, and must fit; or the registry has not told what the name means now, then what
 * it meant before is used. */
static void pull_end(struct images_item *p)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	ERR_AUTO in_use = { 0 };
	struct span log;
	p->m->running--;
	int code = child_end(&p->child, IMAGES_LOG_MAX, &log, &a);
	const char *reason = code ? images_pull_reason(log, &a) : "it was removed again at once";
	bool absent =
	    (code == PULL_NOT_TOLD || code == PULL_NOT_COPIED) && image_is_refused(span_of(reason));
	if (absent || (code && code != PULL_NOT_TOLD) || !image_take(p)) {
		pull_fail(p, reason);
		p->status.absent = absent;
	} else if (code) {
		p->status.note = arena_printf(
		    &p->a,
		    "the registry cannot be asked about the image %s: %s; %s is used, which was "
		    "pulled before",
		    p->name, reason, p->status.digest);
	} else if (images_make_room(p->m, p->hex, &e) != 0) {
		(void)close(p->status.lock);
		(void)images_make_room(p->m, "", &in_use); /* removes it */
		pull_fail(p, err_msg(&e));
	}
	pull_stop(p);
}

/* ---- meanwhile ---- */

/* Bytes that have come. */
static uint64_t pull_bytes(const struct images_item *p)
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

/* READY or FAILED afterwards if its child has ended, or if the disk or the time is used up; the
 * size of what is unpacked is known at the end.  `now_ms`: writes the text with the progress, too;
 * 0: does not. */
static void pull_check(struct images_item *p, int64_t now_ms)
{
	const struct images *m = p->m;
	struct pollfd child = { .fd = p->child.pidfd, .events = POLLIN };
	bool ended = poll(&child, 1, 0) > 0;
	if (ended)
		pull_end(p);
	if (ended || now_ms == 0)
		return;
	uint64_t bytes = pull_bytes(p);
	if (faccessat(p->dir, "image", F_OK, 0) == 0)
		image_notify(p, IMAGES_WAITING, "unpacking the image %s", p->name);
	else
		image_notify(p, IMAGES_WAITING, "pulling the image %s: %.0f MB", p->name,
		             (double)bytes / 1e6);
	struct statvfs fs = { 0 };
	(void)statvfs(m->path, &fs);
	uint64_t reserve = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	reserve = reserve < IMAGES_RESERVE ? reserve : IMAGES_RESERVE;
	if (now_ms >= p->until_ms)
		pull_fail(p, arena_printf(&p->a, "it has taken more than %d s", IMAGES_PULL_S));
	else if ((uint64_t)fs.f_bavail * fs.f_frsize <= reserve)
		pull_fail(p, arena_printf(&p->a, "%s is full; delete files there", m->path));
	else if (bytes > m->limit)
		pull_fail(p, arena_printf(&p->a, "it exceeds the limit of %.1f GB for images",
		                          (double)m->limit / 1e9));
}

/* ---- requests ---- */

static void image_free(struct images_item *p)
{
	pull_stop(p);
	fd_cleanup(&p->status.lock);
	arena_wipe(&p->a);
	free(p);
}

static struct images_item *image_new(struct images *m, struct span image, struct span auth)
{
	struct images_item *p = xcalloc(1, sizeof(*p));
	struct image parts;
	char hex[IMAGES_HEX];
	p->m = m;
	p->dir = -1;
	p->child = CHILD_NONE;
	p->key = p->reference = "";
	p->name = arena_dup(&p->a, image);
	p->auth = arena_span(&p->a, auth);
	if (image_parse(image, &p->a, &parts) != 0) {
		char q[4 * QUOTE_MAX];
		image_notify(p, IMAGES_FAILED, "the image name \"%s\" %s", quote(q, image),
		             image_problem(image));
		p->status.absent = true;
		return p;
	}
	bool digest = strncmp(parts.reference, "sha256:", 7) == 0;
	p->where = arena_printf(&p->a, "docker://%s/%s", parts.hub ? "docker.io" : parts.host,
	                        parts.repository);
	p->reference = arena_printf(&p->a, "%c%s", digest ? '@' : ':', parts.reference);
	sha256_hex(hex, span_of(arena_printf(&p->a, "%s\n%.*s", p->where, (int)auth.n, auth.p)));
	p->key = arena_printf(&p->a, "%s%s", hex, p->reference);
	image_notify(p, IMAGES_WAITING, "waiting for other images, then pulling the image %s",
	             p->name);
	return p;
}

struct images_use *images_request(struct images *m, struct span image, struct span auth, void *arg)
{
	struct images_item *p = image_new(m, image, auth);
	struct images_item *same;
	struct images_use *u = xcalloc(1, sizeof(*u));
	unsigned waiting = 0;
	TAILQ_FOREACH(same, &m->items, next)
	{
		waiting += same->status.state == IMAGES_WAITING;
		if (same->status.state == IMAGES_WAITING && strcmp(same->key, p->key) == 0)
			break;
	}
	if (same) {
		image_free(p);
		p = same;
	} else {
		TAILQ_INSERT_TAIL(&m->items, p, next);
		if ((*p->reference != '@' || !image_take(p)) && p->status.state == IMAGES_WAITING &&
		    waiting >= IMAGES_QUEUE)
			image_notify(p, IMAGES_FAILED,
			             "%u images wait to be pulled, more are not allowed", waiting);
	}
	*u = (struct images_use){ .item = p, .arg = arg };
	LIST_INSERT_HEAD(&p->uses, u, next);
	return u;
}

const struct images_status *images_status(const struct images_use *u)
{
	return &u->item->status;
}

void images_release(struct images_use *u)
{
	if (u == NULL)
		return;
	struct images_item *p = u->item;
	LIST_REMOVE(u, next);
	free(u);
	if (LIST_EMPTY(&p->uses)) {
		TAILQ_REMOVE(&p->m->items, p, next);
		image_free(p);
	}
}

void images_free(struct images *m)
{
	if (m == NULL)
		return;
	for (struct images_item *p; (p = TAILQ_FIRST(&m->items)) != NULL;)
		images_release(LIST_FIRST(&p->uses));
	free(m->path);
	free(m);
}

/* ---- turns ---- */

int images_run_once(struct images *m)
{
	int64_t now = clock_ms();
	bool look = now >= m->look_ms;
	struct images_item *p;
	if (look)
		m->look_ms = now + IMAGES_TICK_MS;
	TAILQ_FOREACH(p, &m->items, next)
	{
		if (p->child.pidfd >= 0)
			pull_check(p, look ? now : 0);
		else if (p->status.state == IMAGES_WAITING && m->running < IMAGES_AT_ONCE)
			pull_start(p);
	}
	FREE_AUTO char *tmp = xasprintf("%s/tmp", m->path);
	DIR_AUTO *d = m->sweeping ? dir_list(AT_FDCWD, tmp) : NULL;
	m->sweeping = false;
	for (const char *name; d && !m->sweeping && (name = dir_next(d)) != NULL;) {
		FD_AUTO fd = openat(dirfd(d), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		/* A locked directory stays. */
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
			m->sweeping = tree_remove(dirfd(d), name, IMAGES_SWEEP) == 1;
	}
	return m->sweeping ? IMAGES_SWEEP_MS : m->running ? IMAGES_TICK_MS : -1;
}
