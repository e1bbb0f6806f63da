#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "k8s/local/images_internal.h"
#include "k8s/local/tree.h"

enum {
	STORE_FILE_MAX = 4 << 20,
	STORE_SWEEP = 500, /* files removed at once: some ms */
	STORE_DIR = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW
};

static int images_store_sub(const char *path, const char *name, struct err *e)
{
	ARENA_AUTO a = { 0 };
	const char *dir = arena_printf(&a, "%s/%s", path, name);
	int fd = mkdir(dir, 0700) == 0 || errno == EEXIST ? open(dir, STORE_DIR) : -1;
	if (fd < 0)
		(void)err_set(e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
	return fd;
}

int images_store_open(struct images_store *s, const char *dir, uint64_t limit, struct err *e)
{
	*s = (struct images_store){ .unpacked = -1, .refs = -1, .tmp = -1, .limit = limit };
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
	s->path = realpath(dir, NULL);
	if (s->path == NULL)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
	s->unpacked = images_store_sub(s->path, "unpacked", e);
	s->refs = s->unpacked < 0 ? -1 : images_store_sub(s->path, "refs", e);
	s->tmp = s->refs < 0 ? -1 : images_store_sub(s->path, "tmp", e);
	s->sweeping = true;
	if (s->tmp >= 0)
		return 0;
	images_store_close(s);
	return -1;
}

void images_store_close(struct images_store *s)
{
	fd_cleanup(&s->unpacked);
	fd_cleanup(&s->refs);
	fd_cleanup(&s->tmp);
	free(s->path);
}

struct span images_file_read(int dir, const char *path, struct arena *a)
{
	char *text = arena_alloc(a, STORE_FILE_MAX + 1);
	ssize_t n = fd_read_at(dir, path, text, STORE_FILE_MAX + 1);
	return (struct span){ text, n > 0 ? (size_t)n : 0 };
}

int images_file_write(int dir, const char *path, struct span text)
{
	FD_AUTO fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -1 : fd_write_all(fd, text);
}

/* The file `lock` of an image, locked; -1: it is not there, or in use. */
static int images_store_lock(const struct images_store *s, const char *hex, int how)
{
	char path[STORE_HEX + 8];
	(void)snprintf(path, sizeof(path), "%s/lock", hex);
	int fd = openat(s->unpacked, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat mine;
	struct stat there;
	/* It could have been removed between open and flock. */
	if (fd >= 0 && flock(fd, how | LOCK_NB) == 0 && fstat(fd, &mine) == 0 &&
	    fstatat(s->unpacked, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	    mine.st_ino == there.st_ino)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

bool images_store_take(struct images_store *s, const char *hex, int *lock)
{
	*lock = images_store_lock(s, hex, LOCK_SH);
	if (*lock >= 0)
		(void)futimens(*lock, NULL);
	return *lock >= 0;
}

/* Moves an image to tmp, where it is removed in steps; false: it is in use. */
static bool images_store_drop(struct images_store *s, const char *hex)
{
	FD_AUTO lock = images_store_lock(s, hex, LOCK_EX);
	if (lock < 0)
		return false;
	char name[STORE_HEX + 16];
	(void)snprintf(name, sizeof(name), "old-%d-%s", (int)getpid(), hex);
	s->sweeping = true;
	return renameat(s->unpacked, hex, s->tmp, name) == 0;
}

int images_store_add(struct images_store *s, int pull, const char *hex, struct err *e)
{
	if (renameat(pull, "image", s->unpacked, hex) == 0)
		return 0;
	int saved = errno;
	if (saved == EEXIST || saved == ENOTEMPTY)
		return 0;
	return err_set(e, UNKNOWN_ERROR, "%s/unpacked/%s: %s", s->path, hex,
	               strerrordesc_np(saved));
}

/* ---- size ---- */

uint64_t images_store_free(const struct images_store *s)
{
	struct statvfs fs;
	if (fstatvfs(s->tmp, &fs) != 0)
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
	char path[STORE_HEX + 8];
	char text[32];
	int64_t kib = 0;
	(void)snprintf(path, sizeof(path), "%s/size", hex);
	(void)fd_read_at(s->unpacked, path, text, sizeof(text));
	(void)parse_i64(span_of(text), 0, INT64_MAX / 1024, &kib);
	return (uint64_t)kib * 1024;
}

/* By the time of the last use in ns; of equal ones, as one tick of the clock gives, by name. */
static bool images_store_before(int64_t a, const char *a_hex, int64_t b, const char *b_hex)
{
	return a != b ? a < b : strcmp(a_hex, b_hex) < 0;
}

/* The bytes of all images; `oldest` becomes the least recently used one after `oldest`, which was
 * used at *when; "" if there is none. */
static uint64_t images_store_look(const struct images_store *s, char oldest[static STORE_HEX],
                                  int64_t *when)
{
	uint64_t sum = 0;
	const int64_t after = *when;
	char last[STORE_HEX];
	DIR_AUTO *d = dir_list(s->unpacked, ".");
	memcpy(last, oldest, STORE_HEX);
	oldest[0] = '\0';
	for (const char *name; (name = dir_next(d)) != NULL;) {
		char path[STORE_HEX + 8];
		struct stat st;
		if (strlen(name) != STORE_HEX - 1)
			continue;
		sum += images_store_size(s, name);
		(void)snprintf(path, sizeof(path), "%.64s/lock", name);
		if (fstatat(s->unpacked, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		int64_t used = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
		if (images_store_before(after, last, used, name) &&
		    (oldest[0] == '\0' || images_store_before(used, name, *when, oldest))) {
			memcpy(oldest, name, STORE_HEX);
			*when = used;
		}
	}
	return sum;
}

int images_store_room(struct images_store *s, uint64_t bytes, struct err *e)
{
	int64_t when = 0;
	char oldest[STORE_HEX] = "";
	for (;;) {
		uint64_t sum = images_store_look(s, oldest, &when);
		if (bytes <= s->limit && sum <= s->limit - bytes)
			return 0;
		if (oldest[0] == '\0')
			return err_set(
			    e, UNKNOWN_ERROR,
			    "it needs %.1f GB, and %.1f of the %.1f GB for images are in use",
			    (double)bytes / 1e9, (double)sum / 1e9, (double)s->limit / 1e9);
		(void)images_store_drop(s, oldest);
	}
}

/* ---- names ---- */

bool images_store_ref(const struct images_store *s, const char *key, char hex[static STORE_HEX])
{
	struct stat st;
	if (fd_read_at(s->refs, key, hex, STORE_HEX) != STORE_HEX - 1)
		return false;
	if (fstatat(s->unpacked, hex, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	(void)unlinkat(s->refs, key, 0);
	return false;
}

void images_store_set_ref(const struct images_store *s, const char *key, const char *hex)
{
	char name[STORE_HEX + 16];
	(void)snprintf(name, sizeof(name), ".%d-%s", (int)getpid(), key);
	(void)unlinkat(s->refs, name, 0);
	if (images_file_write(s->refs, name, span_of(hex)) == 0)
		(void)renameat(s->refs, name, s->refs, key);
}

/* ---- tmp ---- */

/* 0: gone or of somebody else; 1: there is more. */
static int images_store_sweep_one(const struct images_store *s, const char *name)
{
	FD_AUTO fd = openat(s->tmp, name, STORE_DIR);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		return 0;
	return tree_remove(s->tmp, name, STORE_SWEEP) == 1;
}

void images_store_sweep(struct images_store *s)
{
	DIR_AUTO *d = dir_list(s->tmp, ".");
	s->sweeping = false;
	for (const char *name; !s->sweeping && (name = dir_next(d)) != NULL;) {
		if (name[0] != '.')
			s->sweeping = images_store_sweep_one(s, name) == 1;
	}
}
