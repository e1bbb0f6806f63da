#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "machine/images/images_internal.h"
#include "machine/task/tree.h"

enum {
	STORE_SWEEP = 500,      /* files removed at once: some ms */
	STORE_RESERVE = 1 << 30 /* bytes */
};

int images_store_open(struct images *m, struct err *e)
{
	static const char *const DIRS[] = { "", "/unpacked", "/refs", "/tmp" };
	for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++) {
		FREE_AUTO char *dir = xasprintf("%s%s", m->path, DIRS[i]);
		if (mkdir(dir, 0700) != 0 && errno != EEXIST)
			return err_set(e, UNKNOWN_ERROR, "%s: %s", dir, strerrordesc_np(errno));
	}
	ERR_AUTO in_use = { 0 };
	(void)images_store_room(m, "", &in_use); /* the limit can be another one than before */
	return 0;
}

int images_store_lock(const struct images *m, const char *hex, int how)
{
	FREE_AUTO char *path = xasprintf("%s/unpacked/%s/lock", m->path, hex);
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && flock(fd, how | LOCK_NB) == 0)
		return fd;
	fd_cleanup(&fd);
	return -1;
}

bool images_store_drop(struct images *m, const char *hex)
{
	FD_AUTO lock = images_store_lock(m, hex, LOCK_EX);
	FREE_AUTO char *from = xasprintf("%s/unpacked/%s", m->path, hex);
	FREE_AUTO char *to = xasprintf("%s/tmp/old-%d-%s", m->path, (int)getpid(), hex);
	m->sweeping = true;
	return lock >= 0 && rename(from, to) == 0;
}

uint64_t images_store_free(const struct images *m)
{
	struct statvfs fs = { 0 };
	(void)statvfs(m->path, &fs);
	uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	uint64_t reserve = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	reserve = reserve < STORE_RESERVE ? reserve : STORE_RESERVE;
	return free_bytes > reserve ? free_bytes - reserve : 0;
}

static uint64_t images_store_size(const struct images *m, const char *hex)
{
	FREE_AUTO char *path = xasprintf("%s/unpacked/%s/size", m->path, hex);
	char text[32];
	int64_t kib = 0;
	(void)fd_read_at(AT_FDCWD, path, text, sizeof(text));
	(void)parse_i64(span_trim(span_of(text)), 0, INT64_MAX / 1024, &kib);
	return (uint64_t)kib * 1024;
}

/* The bytes of all images, and the one that nobody uses and that was used least recently, or "". */
static uint64_t images_store_look(const struct images *m, char oldest[static IMAGES_HEX])
{
	uint64_t sum = 0;
	struct timespec first = { .tv_sec = INT64_MAX };
	FREE_AUTO char *path = xasprintf("%s/unpacked", m->path);
	DIR_AUTO *d = dir_list(AT_FDCWD, path);
	*oldest = '\0';
	for (const char *name; (name = dir_next(d)) != NULL;) {
		FD_AUTO lock = images_store_lock(m, name, LOCK_EX);
		struct stat st = { .st_mtim.tv_sec = INT64_MAX };
		(void)fstat(lock, &st);
		struct timespec used = st.st_mtim;
		sum += images_store_size(m, name);
		if (used.tv_sec < first.tv_sec ||
		    (used.tv_sec == first.tv_sec && used.tv_nsec < first.tv_nsec)) {
			first = used;
			(void)snprintf(oldest, IMAGES_HEX, "%s", name);
		}
	}
	return sum;
}

int images_store_room(struct images *m, const char *hex, struct err *e)
{
	char oldest[IMAGES_HEX];
	uint64_t sum;
	do {
		sum = images_store_look(m, oldest);
		if (sum <= m->limit)
			return 0;
	} while (*oldest && images_store_drop(m, oldest));
	uint64_t bytes = images_store_size(m, hex);
	return err_set(e, UNKNOWN_ERROR,
	               "it needs %.1f GB, and %.1f of the %.1f GB for images are in use",
	               (double)bytes / 1e9, (double)(sum - bytes) / 1e9, (double)m->limit / 1e9);
}

/* What is locked stays. */
void images_store_sweep(struct images *m)
{
	FREE_AUTO char *path = xasprintf("%s/tmp", m->path);
	DIR_AUTO *d = dir_list(AT_FDCWD, path);
	m->sweeping = false;
	for (const char *name; !m->sweeping && (name = dir_next(d)) != NULL;) {
		FD_AUTO fd = openat(dirfd(d), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
			m->sweeping = tree_remove(dirfd(d), name, STORE_SWEEP) == 1;
	}
}
