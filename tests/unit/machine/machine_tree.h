#pragma once
/* A directory of files that look like /proc, /dev, /sys/fs/cgroup and /etc/cdi. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

static char tree_root[] = "/tmp/rest-lit-machine-XXXXXX";

/* A path in the tree, for one expression. */
#define AT(path) (tree_path((char[300]){ 0 }, (path)))

static inline char *tree_path(char out[300], const char *path)
{
	(void)snprintf(out, 300, "%s/%s", tree_root, path);
	return out;
}

static inline void tree_dirs(const char *path)
{
	FREE_AUTO char *copy = xstrdup(AT(path));
	for (char *p = copy + strlen(tree_root) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
		*p = '\0';
		(void)mkdir(copy, 0755);
	}
}

static inline void tree_put(const char *path, const char *text)
{
	tree_dirs(path);
	int fd = open(AT(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static inline void tree_holds(const char *path, const char *text)
{
	char is[4096] = { 0 };
	int fd = open(AT(path), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && read(fd, is, sizeof(is) - 1) >= 0);
	(void)close(fd);
	assert_string_equal(is, text);
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

static inline int tree_setup(void **state)
{
	(void)state;
	memcpy(tree_root + sizeof(tree_root) - 7, "XXXXXX", 6);
	return mkdtemp(tree_root) ? 0 : -1;
}

static inline int tree_teardown(void **state)
{
	(void)state;
	return nftw(tree_root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
