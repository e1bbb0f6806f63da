#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "k8s/local/images_internal.h"
#include "k8s/local/words.h"

enum { PULL_OUT_MAX = 4 << 20, PULL_LOG_MAX = 8192, PULL_ARGS = 16 };

static void __attribute__((format(printf, 2, 3)))
pull_fail(struct images_pull *p, const char *fmt, ...)
{
	char why[1024];
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	p->step = PULL_FAILED;
	p->why = arena_dup(&p->a, span_of(why));
}

/* What skopeo and umoci may know of the environment; files of this user's logins are not there. */
static const char **pull_env(struct images_pull *p)
{
	static const char *const KEPT[] = { "PATH",     "http_proxy",    "https_proxy",
		                            "no_proxy", "HTTP_PROXY",    "HTTPS_PROXY",
		                            "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
		                            "LANG" };
	static const char *const OWN[] = { "HOME", "TMPDIR", "XDG_RUNTIME_DIR" };
	struct words env = { .a = &p->a };
	for (size_t i = 0; i < sizeof(KEPT) / sizeof(KEPT[0]); i++) {
		const char *value =
		    getenv(KEPT[i]); /* NOLINT(concurrency-mt-unsafe): not changed */
		if (value)
			words_add(&env, arena_printf(&p->a, "%s=%s", KEPT[i], value));
	}
	for (size_t i = 0; i < sizeof(OWN) / sizeof(OWN[0]); i++)
		words_add(&env, arena_printf(&p->a, "%s=%s", OWN[i], p->path));
	return env.v;
}

/* The login in memory only; the program reads /proc/self/fd/3. */
static int pull_login(const struct images_pull *p)
{
	int fd = memfd_create("auth", MFD_CLOEXEC);
	if (fd >= 0 && fd_write_all(fd, p->auth.n ? p->auth : SPAN("{}")) == 0)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

static void pull_run(struct images_pull *p, enum pull_step step, const char *const *argv,
                     bool login)
{
	ERR_AUTO e = { 0 };
	FD_AUTO fd = login ? pull_login(p) : -1;
	if (login && fd < 0) {
		pull_fail(p, "no memory for the login");
		return;
	}
	const struct child_command command = {
		.argv = argv, .env = pull_env(p), .dir = p->path, .pass = login ? fd : 0
	};
	if (child_start(&p->child, &command, &e) != 0) {
		pull_fail(p, "%s", err_msg(&e));
		return;
	}
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = p };
	if (epoll_ctl(p->m->epoll, EPOLL_CTL_ADD, p->child.pidfd, &event) != 0) {
		child_stop(&p->child);
		pull_fail(p, "epoll: %s", strerrordesc_np(errno));
		return;
	}
	p->step = step;
}

/* ---- the steps ---- */

/* Registries on this machine are asked without TLS. */
static bool pull_is_local(const char *host)
{
	static const char *const LOCAL[] = { "localhost", "127.0.0.1", "[::1]" };
	for (size_t i = 0; i < sizeof(LOCAL) / sizeof(LOCAL[0]); i++) {
		size_t n = strlen(LOCAL[i]);
		if (strncmp(host, LOCAL[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
			return true;
	}
	return false;
}

static void pull_skopeo(struct images_pull *p, enum pull_step step)
{
	const char *argv[PULL_ARGS] = { p->m->skopeo };
	size_t n = 1;
	if (access("/etc/containers/policy.json", F_OK) != 0)
		argv[n++] = "--insecure-policy"; /* otherwise skopeo refuses all */
	argv[n++] = step == PULL_INSPECT ? "inspect" : "copy";
	argv[n++] = "--retry-times=2";
	argv[n++] = "--authfile=/proc/self/fd/3";
	if (step == PULL_INSPECT)
		argv[n++] = "--raw";
	if (pull_is_local(p->image.host))
		argv[n++] = step == PULL_INSPECT ? "--tls-verify=false" : "--src-tls-verify=false";
	const char *host = p->image.hub ? "docker.io" : p->image.host;
	bool digest = *p->hex || strncmp(p->image.reference, "sha256:", 7) == 0;
	const char *reference =
	    *p->hex ? arena_printf(&p->a, "sha256:%s", p->hex) : p->image.reference;
	argv[n++] = arena_printf(&p->a, "docker://%s/%s%c%s", host, p->image.repository,
	                         digest ? '@' : ':', reference);
	if (step == PULL_COPY)
		argv[n++] = "oci:layout:image";
	pull_run(p, step, argv, true);
}

static void pull_umoci(struct images_pull *p)
{
	ARENA_AUTO a = { 0 };
	struct span config;
	FD_AUTO layout = openat(p->dir, "layout", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (layout < 0 || images_layout_config(layout, &a, &config) != 0) {
		pull_fail(p, "its configuration cannot be read");
		return;
	}
	if (mkdirat(p->dir, "image", 0700) != 0 ||
	    images_file_write(p->dir, "image/config.json", config) != 0 ||
	    images_file_write(p->dir, "image/lock", SPAN("")) != 0) {
		pull_fail(p, "%s: %s", p->path, strerrordesc_np(errno));
		return;
	}
	/* A rename is of no use while the files are not on the disk. */
	static const char SCRIPT[] = "\"$0\" raw unpack --rootless --image layout:image "
				     "image/rootfs >&2 && { sync -f image; du -skx image || :; }";
	const char *const argv[] = { "/bin/sh", "-c", SCRIPT, p->m->umoci, NULL };
	p->free_before = images_store_free(&p->m->store);
	pull_run(p, PULL_UNPACK, argv, false);
}

static void pull_finish(struct images_pull *p)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct span out = child_text(p->child.out, 64, false, &a);
	int64_t kib = -1;
	size_t n = span_chr(out, '\t');
	(void)parse_i64(span_to(out, n), 0, INT64_MAX / 1024, &kib);
	if (kib < 0 || images_file_write(p->dir, "image/size", span_to(out, n)) != 0) {
		pull_fail(p, "its size cannot be found out");
		return;
	}
	if (images_store_room(&p->m->store, (uint64_t)kib * 1024, &e) != 0 ||
	    images_store_add(&p->m->store, p->dir, p->hex, &e) != 0) {
		pull_fail(p, "%s", err_msg(&e));
		return;
	}
	p->step = PULL_DONE;
}

/* The manifest is there. */
static void pull_inspected(struct images_pull *p)
{
	ARENA_AUTO a = { 0 };
	struct span text = child_text(p->child.out, PULL_OUT_MAX, false, &a);
	const char *why = NULL;
	char hex[STORE_HEX];
	int rc = images_manifest_read(text, hex, &p->bytes, &why);
	if (rc < 0 || (rc == 1 && p->chosen)) {
		pull_fail(p, "its manifest %s", why ? why : "is a list of lists");
		return;
	}
	if (rc == 1) {
		p->chosen = true;
		memcpy(p->hex, hex, sizeof(p->hex));
		pull_skopeo(p, PULL_INSPECT);
		return;
	}
	sha256_hex(p->hex, text);
	p->step = PULL_WAIT;
}

static void pull_copy(struct images_pull *p)
{
	ERR_AUTO e = { 0 };
	if (images_store_room(&p->m->store, p->bytes, &e) != 0) {
		pull_fail(p, "%s", err_msg(&e));
		return;
	}
	uint64_t left = images_store_free(&p->m->store);
	if (left / 2 < p->bytes) {
		pull_fail(p,
		          "it has %.1f GB, packed, and %s has room for %.1f GB; delete files there",
		          (double)p->bytes / 1e9, p->m->store.path, (double)left / 1e9);
		return;
	}
	pull_skopeo(p, PULL_COPY);
}

/* A directory of its own, locked before others look at it. */
static int pull_dir(struct images_pull *p)
{
	const char *tmp = arena_printf(&p->a, "%s/tmp", p->m->store.path);
	char *fresh = arena_printf(&p->a, "%s/.new-XXXXXX", tmp);
	if (mkdtemp(fresh) == NULL)
		return -1;
	p->path = arena_printf(&p->a, "%s/pull-%s", tmp, strrchr(fresh, '-') + 1);
	p->dir = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->dir < 0 || flock(p->dir, LOCK_EX) != 0 || rename(fresh, p->path) != 0)
		return -1;
	return 0;
}

void images_pull_start(struct images_pull *p)
{
	if (p->step == PULL_WAIT) {
		struct stat st;
		if (images_busy(p->m, p))
			return;
		if (fstatat(p->m->store.unpacked, p->hex, &st, AT_SYMLINK_NOFOLLOW) == 0)
			p->step = PULL_DONE;
		else
			pull_copy(p);
		return;
	}
	p->until_ms = clock_ms() + (int64_t)p->m->pull_s * 1000;
	if (pull_dir(p) != 0) {
		pull_fail(p, "%s/tmp: %s", p->m->store.path, strerrordesc_np(errno));
		return;
	}
	pull_skopeo(p, PULL_INSPECT);
}

/* Does the registry say that there is no such image, or no right to it? */
static bool pull_says_absent(struct span log)
{
	static const char *const WORDS[] = {
		"manifest unknown", "name unknown", "not known to registry",
		"unauthorized",     "denied",       "invalid username/password"
	};
	for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++) {
		if (span_find(log, 0, WORDS[i]) != SIZE_MAX)
			return true;
	}
	return false;
}

void images_pull_ended(struct images_pull *p)
{
	(void)epoll_ctl(p->m->epoll, EPOLL_CTL_DEL, p->child.pidfd, NULL);
	int status = child_reap(&p->child);
	struct child ended = p->child;
	if (p->why) {
		p->step = PULL_FAILED;
	} else if (status != 0) {
		struct span log = child_text(ended.log, PULL_LOG_MAX, true, &p->a);
		bool asked = p->step == PULL_INSPECT || p->step == PULL_COPY;
		p->absent = asked && pull_says_absent(log);
		pull_fail(p, "%s", images_log_reason(log, &p->a));
	} else if (p->step == PULL_INSPECT) {
		pull_inspected(p);
	} else if (p->step == PULL_COPY) {
		pull_umoci(p);
	} else {
		pull_finish(p);
	}
	if (p->child.pidfd < 0)
		p->child = CHILD_NONE;
	child_done(&ended);
}

void images_pull_stop(struct images_pull *p, const char *why)
{
	p->why = why;
	if (p->child.pidfd >= 0)
		child_kill(&p->child);
	else
		p->step = PULL_FAILED;
}

void images_pull_check(struct images_pull *p, int64_t now_ms)
{
	if (p->why || p->step == PULL_QUEUED)
		return;
	uint64_t left = images_store_free(&p->m->store);
	if (now_ms >= p->until_ms)
		images_pull_stop(p,
		                 arena_printf(&p->a, "it has taken more than %u s", p->m->pull_s));
	else if (left == 0 && p->step >= PULL_COPY)
		images_pull_stop(
		    p, arena_printf(&p->a, "%s is full; delete files there", p->m->store.path));
	else if (p->step == PULL_UNPACK && p->free_before > left &&
	         p->free_before - left > p->m->store.limit)
		images_pull_stop(p, arena_printf(&p->a, "unpacked, it exceeds the limit of %.1f GB",
		                                 (double)p->m->store.limit / 1e9));
}

uint64_t images_pull_come(const struct images_pull *p)
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

void images_pull_free(struct images_pull *p)
{
	p->m->store.sweeping |= p->dir >= 0;
	fd_cleanup(&p->dir);
	arena_wipe(&p->a);
	free(p);
}
