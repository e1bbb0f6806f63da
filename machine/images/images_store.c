#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rmtree.h"
#include "machine/images/images_internal.h"
#include "machine/words.h"

enum {
	STORE_SWEEP = 500, /* files removed at once: some ms */
	STORE_PATH = STORE_HEX + 32
};

int images_store_open(struct images_store *s, const char *dir, uint64_t limit, struct err *e)
{
	static const char *const SUBS[] = { "unpacked", "refs", "tmp" };
	*s = (struct images_store){ .dir = -1, .limit = limit, .sweeping = true };
	bool there = mkdir(dir, 0700) == 0 || errno == EEXIST;
	s->path = there ? realpath(dir, NULL) : NULL;
	s->dir = s->path ? open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	there = s->dir >= 0;
	for (size_t i = 0; i < 3 && there; i++)
		there = mkdirat(s->dir, SUBS[i], 0700) == 0 || errno == EEXIST;
	if (!there) {
		(void)err_set(e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
		images_store_close(s);
		return -1;
	}
	ERR_AUTO in_use = { 0 };
	(void)images_store_room(s, "", &in_use); /* the limit can be another one than before */
	return 0;
}

void images_store_close(struct images_store *s)
{
	fd_cleanup(&s->dir);
	free(s->path);
}

/* The file `lock` of an image, locked; -1: it is not there, or in use. */
static int images_store_lock(const struct images_store *s, const char *hex, int how)
{
	char path[STORE_PATH];
	(void)snprintf(path, sizeof(path), "unpacked/%s/lock", hex);
	int fd = openat(s->dir, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat mine;
	struct stat there;
	/* It could have been removed between open and flock. */
	if (fd >= 0 && flock(fd, how | LOCK_NB) == 0 && fstat(fd, &mine) == 0 &&
	    fstatat(s->dir, path, &there, AT_SYMLINK_NOFOLLOW) == 0 && mine.st_ino == there.st_ino)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

int images_store_take(const struct images_store *s, const char *key, char hex[static STORE_HEX])
{
	char path[STORE_PATH];
	(void)snprintf(path, sizeof(path), "refs/%s", key);
	if (readlinkat(s->dir, path, hex, STORE_HEX) != STORE_HEX - 1)
		return -1;
	hex[STORE_HEX - 1] = '\0';
	int lock = images_store_lock(s, hex, LOCK_SH);
	if (lock >= 0)
		(void)futimens(lock, NULL);
	return lock;
}

void images_store_name(const struct images_store *s, const char *key, const char *hex)
{
	char path[STORE_PATH];
	(void)snprintf(path, sizeof(path), "refs/%s", key);
	(void)!symlinkat(hex, s->dir, path); /* without it the registry is asked */
}

bool images_store_drop(struct images_store *s, const char *hex)
{
	FD_AUTO lock = images_store_lock(s, hex, LOCK_EX);
	if (lock < 0)
		return false;
	char from[STORE_PATH];
	char to[STORE_PATH];
	(void)snprintf(from, sizeof(from), "unpacked/%s", hex);
	(void)snprintf(to, sizeof(to), "tmp/old-%d-%s", (int)getpid(), hex);
	s->sweeping = true;
	return renameat(s->dir, from, s->dir, to) == 0;
}

/* ---- size ---- */

uint64_t images_store_free(const struct images_store *s)
{
	struct statvfs fs;
	if (fstatvfs(s->dir, &fs) != 0)
		return 0;
	uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	uint64_t reserve = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	const uint64_t most = UINT64_C(1) << 30;
	if (reserve > most)
		reserve = most;
	return free_bytes > reserve ? free_bytes - reserve : 0;
}

static uint64_t images_store_size(const struct images_store *s, const char *hex)
{
	char path[STORE_PATH];
	char text[32];
	int64_t kib = 0;
	(void)snprintf(path, sizeof(path), "unpacked/%s/size", hex);
	(void)fd_read_at(s->dir, path, text, sizeof(text));
	(void)parse_i64(span_trim(span_of(text)), 0, INT64_MAX / 1024, &kib);
	return (uint64_t)kib * 1024;
}

static int images_store_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int images_store_room(struct images_store *s, const char *hex, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct words used = { .a = &a }; /* time of the last use, then HEX */
	uint64_t sum = 0;
	DIR_AUTO *d = dir_list(s->dir, "unpacked");
	for (const char *name; (name = dir_next(d)) != NULL;) {
		struct stat st;
		const char *lock = arena_printf(&a, "unpacked/%s/lock", name);
		if (strlen(name) != STORE_HEX - 1 ||
		    fstatat(s->dir, lock, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		sum += images_store_size(s, name);
		words_add(&used, arena_printf(&a, "%012lld.%09ld %s", (long long)st.st_mtim.tv_sec,
		                              st.st_mtim.tv_nsec, name));
	}
	if (used.n)
		qsort(used.v, used.n, sizeof(*used.v), images_store_order);
	for (size_t i = 0; i < used.n && sum > s->limit; i++) {
		const char *old = strchr(used.v[i], ' ') + 1;
		uint64_t bytes = images_store_size(s, old);
		sum -= images_store_drop(s, old) ? bytes : 0;
	}
	if (sum <= s->limit)
		return 0;
	uint64_t bytes = images_store_size(s, hex);
	return err_set(e, UNKNOWN_ERROR,
	               "it needs %.1f GB, and %.1f of the %.1f GB for images are in use",
	               (double)bytes / 1e9, (double)(sum - bytes) / 1e9, (double)s->limit / 1e9);
}

/* ---- tmp ---- */

/* Is there more of it?  What is locked stays. */
static bool images_store_sweep_one(int tmp, const char *name)
{
	FD_AUTO fd = openat(tmp, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		return false;
	return tree_remove(tmp, name, STORE_SWEEP) == 1;
}

void images_store_sweep(struct images_store *s)
{
	DIR_AUTO *d = dir_list(s->dir, "tmp");
	s->sweeping = false;
	for (const char *name; !s->sweeping && (name = dir_next(d)) != NULL;)
		s->sweeping = name[0] != '.' && images_store_sweep_one(dirfd(d), name);
}
