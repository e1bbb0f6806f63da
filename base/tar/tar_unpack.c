/* Writes the entries of an archive below a directory, which may have been changed by others. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "base/tar/tar_internal.h"

enum { SAME_NS = 1000000, NAMES_LEAST = 1024, LARGE = 16 << 20 };

/* ---- the names so far: a table with open addressing, at most half full ---- */

static uint64_t *tar_names_slot(const struct tar_names *names, uint64_t hash)
{
	size_t i = hash & (names->cap - 1);
	while (names->v[i] && names->v[i] != hash)
		i = (i + 1) & (names->cap - 1);
	return &names->v[i];
}

static uint64_t tar_names_hash(const struct tar_names *names, const char *path, size_t n)
{
	return hash_bytes(&names->key, (struct span){ path, n }) | 1;
}

static void tar_names_grow(struct tar_names *names)
{
	struct tar_names old = *names;
	if (names->n * 2 < names->cap)
		return;
	if (!names->cap)
		names->key = hash_key_new();
	names->cap = names->cap ? 2 * names->cap : NAMES_LEAST;
	names->v = xcalloc(names->cap, sizeof(*names->v));
	for (size_t i = 0; i < old.cap; i++)
		if (old.v[i])
			*tar_names_slot(names, old.v[i]) = old.v[i];
	free(old.v);
}

/* Adds the entry.  -1 and *e: it is there already, or its directory is not. */
static int tar_names_add(struct tar_names *names, const struct tar_entry *entry, struct err *e)
{
	char as_directory[TAR_PATH + 2];
	char shown[4 * QUOTE_MAX];
	size_t n = strlen(entry->path);
	const char *slash = strrchr(entry->path, '/');
	memcpy(as_directory, entry->path, n);
	as_directory[n] = '/';
	tar_names_grow(names);
	uint64_t *file = tar_names_slot(names, tar_names_hash(names, as_directory, n));
	uint64_t *directory = tar_names_slot(names, tar_names_hash(names, as_directory, n + 1));
	size_t above = slash ? (size_t)(slash - entry->path) + 1 : 0;
	(void)quote(shown, span_of(entry->path));
	if (*file || *directory)
		return err_set(e, 502, NULL, "the server sends \"%s\" twice", shown);
	if (above && !*tar_names_slot(names, tar_names_hash(names, entry->path, above)))
		return err_set(e, 502, NULL, "the server sends \"%s\" without its directory",
		               shown);
	if (strcmp(slash ? slash + 1 : entry->path, TAR_PART) == 0)
		return err_set(e, 502, NULL,
		               "\"%s\" has a name that fetch uses for incomplete files", shown);
	bool is_file = entry->kind == TAR_FILE;
	*(is_file ? file : directory) = tar_names_hash(names, as_directory, n + !is_file);
	names->n++;
	return 0;
}

/* ---- entries ---- */

static void tar_say(struct tar_unpack *u, enum tar_news news)
{
	u->news[news]++;
	if (u->say)
		u->say(u->arg, u->path, news);
}

void tar_unpack_end(struct tar_unpack *u)
{
	if (u->file) {
		(void)close(u->file - 1); /* it goes */
		(void)unlinkat(u->parent - 1, TAR_PART, 0);
	}
	if (u->parent)
		(void)close(u->parent - 1); /* a directory holds no data */
	u->file = u->parent = 0;
	free(TAKE(u->names.v));
}

static int tar_make_directory(int parent, const char *name, const char *path, struct err *e)
{
	struct stat st;
	if (mkdirat(parent, name, 0777) == 0)
		return 0;
	if (errno != EEXIST)
		return path_failed(path, "cannot be made", e);
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return 0;
	errno = ENOTDIR;
	return path_failed(
	    path, "is there, but no directory of its own: remove it, or name another one", e);
}

/* Refuses a large file before it fills the disk. */
static int tar_has_room(const struct tar_entry *entry, int parent, struct err *e)
{
	struct statvfs disk;
	if (entry->size < LARGE || fstatvfs(parent, &disk) < 0 ||
	    entry->size / (int64_t)disk.f_frsize < (int64_t)disk.f_bavail)
		return 0;
	errno = ENOSPC;
	return path_failed(entry->path, "cannot be written", e);
}

/* Begins a file, unless it is there. */
static int tar_begin_file(struct tar_unpack *u, const char *name, const struct tar_entry *entry,
                          struct err *e)
{
	struct stat st;
	mode_t mode = entry->executable ? 0777 : 0666;
	bool there = fstatat(u->parent - 1, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (there && S_ISREG(st.st_mode) && st.st_size == entry->size) {
		int64_t ns = (int64_t)st.st_mtim.tv_sec * NS_OF_S + st.st_mtim.tv_nsec;
		if (llabs(ns - entry->time_ns) < SAME_NS) {
			u->same++;
			return 0;
		}
	}
	if (there && (!u->force || S_ISDIR(st.st_mode))) {
		tar_say(u, TAR_OTHER);
		return 0;
	}
	if (tar_has_room(entry, u->parent - 1, e) < 0)
		return -1;
	(void)unlinkat(u->parent - 1, TAR_PART, 0); /* of a fetch that was interrupted */
	u->file = 1 + openat(u->parent - 1, TAR_PART,
	                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return u->file ? 0 : path_failed(entry->path, "cannot be written", e);
}

static int tar_unpack_entry(void *arg, const struct tar_entry *entry, struct err *e)
{
	struct tar_unpack *u = arg;
	const char *name;
	if (u->ended)
		return err_set(e, 502, NULL, "the archive goes on after its end");
	if (tar_names_add(&u->names, entry, e) < 0)
		return -1;
	memcpy(u->path, entry->path, strlen(entry->path) + 1);
	u->time_ns = entry->time_ns;
	if (u->parent)
		(void)close(u->parent - 1); /* a directory holds no data */
	u->parent = 1 + fd_open_above(u->dir, u->path, &name);
	if (!u->parent)
		return path_failed(u->path,
		                   "cannot be written: its directory is a link, or not there", e);
	return entry->kind == TAR_DIRECTORY ? tar_make_directory(u->parent - 1, name, u->path, e)
	                                    : tar_begin_file(u, name, entry, e);
}

static int tar_unpack_data(void *arg, struct span bytes, struct err *e)
{
	struct tar_unpack *u = arg;
	if (!u->file)
		return 0;
	u->bytes += (int64_t)bytes.n;
	return fd_write_all(u->file - 1, bytes) == 0 ? 0
	                                             : path_failed(u->path, "cannot be written", e);
}

static int tar_unpack_complete(void *arg, struct err *e)
{
	struct tar_unpack *u = arg;
	const char *slash = strrchr(u->path, '/');
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
		                          { u->time_ns / NS_OF_S, u->time_ns % NS_OF_S } };
	if (!u->file)
		return 0;
	int fd = u->file - 1;
	bool good = futimens(fd, times) == 0;
	u->file = 0;
	good = close(fd) == 0 && good &&
	       renameat(u->parent - 1, TAR_PART, u->parent - 1, slash ? slash + 1 : u->path) == 0;
	if (!good) {
		(void)path_failed(u->path, "cannot be written", e);
		(void)unlinkat(u->parent - 1, TAR_PART, 0);
		return -1;
	}
	u->files++;
	return 0;
}

/* "shrank", "grew", "changed"; or "end N", where N is what was left out. */
static int tar_unpack_note(void *arg, const char *text, struct err *e)
{
	static const char *const NOTES[] = {
		[TAR_SHRANK] = "shrank", [TAR_GREW] = "grew", [TAR_CHANGED] = "changed"
	};
	struct tar_unpack *u = arg;
	for (enum tar_news news = 0; news < TAR_OTHER; news++)
		if (strcmp(text, NOTES[news]) == 0 && !u->ended) {
			tar_say(u, news);
			return 0;
		}
	u->ended = !u->ended && strncmp(text, "end ", 4) == 0 &&
	           parse_i64(span_of(text + 4), -1, INT64_MAX, &u->left_out) == 0;
	return u->ended ? 0 : err_set(e, 502, NULL, "the archive has a note that is unknown");
}

struct tar_sink tar_unpack_sink(struct tar_unpack *u)
{
	return (struct tar_sink){ tar_unpack_entry, tar_unpack_data, tar_unpack_complete,
		                  tar_unpack_note, u };
}
