#include "k8s/local/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Directories below this depth are moved up, which bounds recursion and open descriptors. */
enum { TREE_DEPTH = 16, TREE_LIST = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

struct tree_walk {
	int top; /* where deep directories are moved to */
	size_t budget;
};

/* A directory without permissions gets them: only its owner can do that. */
static int tree_open(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, TREE_LIST);
	struct stat st;
	bool locked =
	    fd < 0 ? errno == EACCES : fstat(fd, &st) == 0 && (st.st_mode & S_IRWXU) != S_IRWXU;
	if (!locked)
		return fd;
	if (fd >= 0) {
		(void)fchmod(fd, S_IRWXU);
		return fd;
	}
	/* fchmodat cannot be told to follow no link; a descriptor by O_PATH is that of the entry.
	 */
	int path = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (path < 0)
		return -1;
	char proc[64];
	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path);
	fd = chmod(proc, S_IRWXU) == 0 ? openat(dirfd, name, TREE_LIST) : -1;
	int saved = errno;
	(void)close(path);
	errno = saved;
	return fd;
}

static int tree_entry(struct tree_walk *w, int dirfd, const char *name, unsigned depth);

/* Removes what is in a directory; consumes fd.  0, 1 or -1 like tree_remove. */
static int tree_empty(struct tree_walk *w, int fd, unsigned depth)
{
	DIR *d = fdopendir(fd);
	if (d == NULL) {
		(void)close(fd);
		return -1;
	}
	int rc = 0;
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(d); /* NOLINT(concurrency-mt-unsafe) */
		if (entry == NULL) {
			rc = errno ? -1 : 0;
			break;
		}
		const char *name = entry->d_name;
		if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
			continue;
		rc = tree_entry(w, fd, name, depth + 1);
		if (rc != 0)
			break;
	}
	int saved = errno;
	(void)closedir(d);
	errno = saved;
	return rc;
}

/* Moves a deep directory to the top under a name that nothing has there. */
static int tree_move_up(struct tree_walk *w, int dirfd, const char *name, int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return -1;
	for (unsigned tries = 0; tries < 1000; tries++) {
		char to[64];
		(void)snprintf(to, sizeof(to), ".deep-%llu-%u", (unsigned long long)st.st_ino,
		               tries);
		if (renameat2(dirfd, name, w->top, to, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* Removes a directory that is not empty. */
static int tree_dir(struct tree_walk *w, int dirfd, const char *name, unsigned depth)
{
	int fd = tree_open(dirfd, name);
	if (fd < 0)
		return -1;
	if (depth >= TREE_DEPTH) {
		int rc = tree_move_up(w, dirfd, name, fd);
		(void)close(fd);
		return rc;
	}
	bool top = depth == 0;
	if (top)
		w->top = fd;
	int rc = tree_empty(w, fd, depth);
	if (top)
		w->top = -1;
	return rc;
}

static int tree_entry(struct tree_walk *w, int dirfd, const char *name, unsigned depth)
{
	while (w->budget > 0) {
		w->budget--;
		if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
			return 0;
		if (errno != EISDIR && errno != EPERM)
			return -1;
		if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -1;
		/* Again: what was moved up is in it now. */
		int rc = tree_dir(w, dirfd, name, depth);
		if (rc != 0)
			return rc;
	}
	return 1;
}

int tree_remove(int dirfd, const char *name, size_t budget)
{
	struct tree_walk w = { .top = -1, .budget = budget };
	return tree_entry(&w, dirfd, name, 0);
}
