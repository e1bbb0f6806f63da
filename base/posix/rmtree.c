/* Removes trees without recursion: a directory that is not empty is moved to the top of the tree,
 * and emptied there. */
#include "base/posix/rmtree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/fd.h"

enum { TREE_NAMES = 1000 /* tried for a directory that is moved */ };

/* 0: it is gone; 1: it is a directory that is not empty; -1 and errno. */
static int tree_unlink(int dirfd, const char *name)
{
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -1;
	if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return errno == ENOTEMPTY || errno == EEXIST ? 1 : -1;
}

/* The entries of a directory, which gets all permissions: only its owner can do that.  fchmodat
 * cannot be told to follow no link; a descriptor by O_PATH is that of the entry. */
static DIR *tree_list(int dirfd, const char *name)
{
	char proc[64];
	struct stat st;
	FD_AUTO path = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (path < 0 || fstat(path, &st) != 0)
		return NULL;
	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path);
	if ((st.st_mode & S_IRWXU) != S_IRWXU)
		(void)chmod(proc, S_IRWXU); /* opening it fails then */
	return dir_list(path, ".");
}

/* Gives a directory below the top a name there. */
static int tree_move(int from, const char *name, int top)
{
	struct stat st;
	DIR_AUTO *writable = tree_list(from, name); /* its entry `..` changes */
	if (!writable || fstat(dirfd(writable), &st) != 0)
		return -1;
	for (unsigned i = 0; i < TREE_NAMES; i++) {
		char to[64];
		(void)snprintf(to, sizeof(to), ".deep-%llu-%u", (unsigned long long)st.st_ino, i);
		if (renameat(from, name, top, to) == 0)
			return 0;
		if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
			return -1;
	}
	return -1;
}

/* Removes a directory of the top; those in it that are not empty are moved to the top.  1: not yet.
 */
static int tree_empty(int top, const char *name, size_t *budget)
{
	DIR_AUTO *d = tree_list(top, name);
	if (!d)
		return -1;
	for (const char *entry; (entry = dir_next(d)) != NULL; --*budget) {
		if (*budget == 0)
			return 1;
		int rc = tree_unlink(dirfd(d), entry);
		if (rc < 0 || (rc > 0 && tree_move(dirfd(d), entry, top) != 0))
			return -1;
	}
	return errno ? -1 : tree_unlink(top, name);
}

int tree_remove(int dir, const char *name, size_t budget)
{
	for (;;) {
		int rc = tree_unlink(dir, name);
		if (rc <= 0 || budget == 0)
			return rc;
		budget--;
		DIR_AUTO *top = tree_list(dir, name);
		if (!top)
			return -1;
		for (const char *entry; (entry = dir_next(top)) != NULL; budget--) {
			rc = tree_unlink(dirfd(top), entry);
			if (rc > 0)
				rc = tree_empty(dirfd(top), entry, &budget);
			if (rc < 0 || budget == 0)
				return rc < 0 ? -1 : 1;
		}
		if (errno)
			return -1;
	}
}
