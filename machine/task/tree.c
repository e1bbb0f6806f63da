#include "machine/task/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

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
	FD_AUTO path = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (path < 0)
		return -1;
	char proc[64];
	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path);
	return chmod(proc, S_IRWXU) == 0 ? openat(dirfd, name, TREE_LIST) : -1;
}

static int tree_entry(struct tree_walk *w, int dirfd, const char *name, unsigned depth);

/* Removes what is in a directory; consumes fd.  0, 1 or -1 like tree_remove. */
static int tree_empty(struct tree_walk *w, int fd, unsigned depth)
{
	DIR_AUTO *d = fdopendir(fd);
	if (d == NULL) {
		fd_cleanup(&fd);
		return -1;
	}
	for (const char *name; (name = dir_next(d)) != NULL;) {
		int rc = tree_entry(w, fd, name, depth + 1);
		if (rc != 0)
			return rc;
	}
	return errno ? -1 : 0;
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
	if (depth == 0)
		w->top = fd;
	return tree_empty(w, fd, depth);
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
	struct tree_walk w = { -1, budget };
	return tree_entry(&w, dirfd, name, 0);
}
