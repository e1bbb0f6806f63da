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

bool images_store_full(const struct images *m)
{
	struct statvfs fs = { 0 };
	(void)statvfs(m->path, &fs);
	uint64_t reserve = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	reserve = reserve < STORE_RESERVE ? reserve : STORE_RESERVE;
	return (uint64_t)fs.f_bavail * fs.f_frsize <= reserve;
}

int images_store_room(struct images *m, const char *hex, struct err *e)
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
			FD_AUTO lock = images_store_lock(m, name, LOCK_EX);
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
