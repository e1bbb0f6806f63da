/*
 * Files that survive a crash; see dirstore_internal.h.  Other users must not be able to plant links
 * or to read objects, so links are not followed, and the directory must be private.
 */
#include "machine/store/dirstore_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/fd.h"
#include "k8s/transport/paths.h"

static const char SUFFIX[] = ".json";
static const char TEMPORARY[] = ".new-";
enum { NAME_ROOM = 300, KEY_MAX = 253, LOCK_WAITS = 100, LOCK_WAIT_MS = 20, ASIDE_MAX = 100 };

/* ---- file names -------------------------------------------------------------------- */

const char *key_name(const char *key)
{
	const char *mark = strchr(key, '~');
	return mark ? mark + 1 : key;
}

struct span key_namespace(const char *key)
{
	const char *name = key_name(key);
	return name == key ? SPAN("") : (struct span){ key, (size_t)(name - key) - 1 };
}

/* Both parts are segments, and the key is not too long for a file name. */
static bool key_ok(const char *key)
{
	struct span ns = key_namespace(key);
	if (!segment_ok(key_name(key)) || strlen(key) > KEY_MAX)
		return false;
	if (ns.n == 0)
		return key_name(key) == key;
	FREE_AUTO char *copy = xstrndup(ns.p, ns.n);
	return segment_ok(copy);
}

static int file_name(char out[static NAME_ROOM], const char *key)
{
	if (!key_ok(key))
		return -EINVAL;
	(void)snprintf(out, NAME_ROOM, "%s%s", key, SUFFIX);
	return 0;
}

/* The key of the object that a file holds; false for any other file. */
static bool object_key(char key[static NAME_ROOM], const char *file)
{
	size_t n = strlen(file);
	size_t suffix = sizeof(SUFFIX) - 1;
	if (n <= suffix || n >= NAME_ROOM || strcmp(file + n - suffix, SUFFIX) != 0)
		return false;
	memcpy(key, file, n - suffix);
	key[n - suffix] = '\0';
	return key_ok(key);
}

/* ---- directories ------------------------------------------------------------------- */

/* Why a directory that is open as fd cannot be used, or NULL. */
static const char *directory_fault(int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return strerrordesc_np(errno);
	if (st.st_uid != geteuid())
		return "it belongs to another user";
	if ((st.st_mode & 077) != 0)
		return "it is open to other users (needs chmod 0700)";
	return NULL;
}

static int files_open_directory(int at, const char *path, const char **fault)
{
	if (mkdirat(at, path, 0700) != 0 && errno != EEXIST) {
		*fault = strerrordesc_np(errno);
		return -1;
	}
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		bool other = errno == ELOOP || errno == ENOTDIR;
		*fault = other ? "it is not a directory" : strerrordesc_np(errno);
		return -1;
	}
	*fault = directory_fault(fd);
	if (*fault == NULL)
		return fd;
	(void)close(fd);
	return -1;
}

/* Removes files that were being written at a crash. */
static void remove_leftovers(int dir)
{
	DIR_AUTO *d = dir_list(dir, ".");
	for (const char *name; (name = dir_next(d)) != NULL;) {
		if (strncmp(name, TEMPORARY, sizeof(TEMPORARY) - 1) == 0)
			(void)unlinkat(dir, name, 0); /* the next start tries again */
	}
}

static int open_kinds(struct files *f, const char *path, struct err *e)
{
	for (enum object_kind k = 0; k < KIND_MADE; k++) {
		const char *fault = NULL;
		f->dir[k] = files_open_directory(f->root, resource_of(k)->plural, &fault);
		if (f->dir[k] < 0)
			return err_set(e, UNKNOWN_ERROR, "%s/%s: %s", path, resource_of(k)->plural,
			               fault);
		remove_leftovers(f->dir[k]);
	}
	if (fsync(f->root) != 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", path, strerrordesc_np(errno));
	return 0;
}

int files_open(struct files *f, const char *path, struct err *e)
{
	const char *fault = NULL;
	*f = FILES_CLOSED;
	f->root = files_open_directory(AT_FDCWD, path, &fault);
	if (f->root < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", path, fault);
	/* A child of a killed server has the lock, too, until it has executed its program. */
	int waits = LOCK_WAITS;
	while (flock(f->root, LOCK_EX | LOCK_NB) != 0) {
		if (waits-- > 0) {
			clock_sleep(LOCK_WAIT_MS);
			continue;
		}
		files_close(f);
		return err_set(e, UNKNOWN_ERROR, "%s is in use by another process", path);
	}
	remove_leftovers(f->root);
	if (open_kinds(f, path, e) != 0) {
		files_close(f);
		return -1;
	}
	return 0;
}

void files_close(struct files *f)
{
	for (enum object_kind k = 0; k < KIND_MADE; k++)
		fd_cleanup(&f->dir[k]);
	fd_cleanup(&f->root); /* releases the lock */
	*f = FILES_CLOSED;
}

/* ---- files ------------------------------------------------------------------------- */

int files_read(const struct files *f, enum object_kind kind, const char *key, struct str *out)
{
	char file[NAME_ROOM];
	int bad = file_name(file, key);
	if (bad)
		return bad;
	if (fd_read_str(f->dir[kind], file, out) == 0)
		return 0;
	return errno == EBADMSG ? -EIO : -errno; /* of a file system: nothing about the content */
}

static int files_sync(const struct files *f, int fd)
{
	return f->transient || fsync(fd) == 0 ? 0 : -errno;
}

/* Write and sync a new file, whose name goes to `temporary`. */
static int write_temporary(const struct files *f, int dir, char temporary[static NAME_ROOM],
                           struct span text)
{
	char digits[33];
	random_hex(digits, 16);
	(void)snprintf(temporary, NAME_ROOM, "%s%s", TEMPORARY, digits);
	FD_AUTO fd =
	    openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	return fd_write_all(fd, text) == 0 ? files_sync(f, fd) : -errno;
}

int files_write(const struct files *f, enum object_kind kind, const char *key, struct span text)
{
	char file[NAME_ROOM];
	char temporary[NAME_ROOM];
	int dir = f->dir[kind];
	int bad = file_name(file, key);
	if (bad)
		return bad;
	bad = write_temporary(f, dir, temporary, text);
	if (bad == 0 && renameat(dir, temporary, dir, file) != 0)
		bad = -errno;
	if (bad) {
		(void)unlinkat(dir, temporary, 0); /* else the next start removes it */
		return bad;
	}
	return files_sync(f, dir);
}

int files_probe(const struct files *f)
{
	char temporary[NAME_ROOM];
	static const char BLOCK[4096];
	int bad = write_temporary(f, f->root, temporary, (struct span){ BLOCK, sizeof(BLOCK) });
	(void)unlinkat(f->root, temporary, 0); /* absent if it could not be made */
	return bad;
}

int files_remove(const struct files *f, enum object_kind kind, const char *key)
{
	char file[NAME_ROOM];
	int bad = file_name(file, key);
	if (bad)
		return bad;
	if (unlinkat(f->dir[kind], file, 0) != 0)
		return -errno;
	return files_sync(f, f->dir[kind]);
}

int files_set_aside(const struct files *f, enum object_kind kind, const char *key)
{
	char file[NAME_ROOM];
	int bad = file_name(file, key);
	if (bad)
		return bad;
	if (mkdirat(f->root, "damaged", 0700) != 0 && errno != EEXIST)
		return -errno;
	bad = -EEXIST; /* the object of this name was damaged before */
	for (int i = 0; i < ASIDE_MAX && bad == -EEXIST; i++) {
		FREE_AUTO char *to = xasprintf(i ? "damaged/%s-%s.%d" : "damaged/%s-%s",
		                               resource_of(kind)->plural, file, i);
		/* Nobody else makes one: this process has the lock.  RENAME_NOREPLACE is not on
		 * NFS. */
		if (faccessat(f->root, to, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
			bad = renameat(f->dir[kind], file, f->root, to) == 0 ? 0 : -errno;
	}
	return bad ? bad : files_sync(f, f->dir[kind]);
}

int files_each(const struct files *f, enum object_kind kind, files_visit *visit, void *arg)
{
	DIR_AUTO *d = dir_list(f->dir[kind], ".");
	if (d == NULL)
		return -errno;
	char key[NAME_ROOM];
	for (const char *file; (file = dir_next(d)) != NULL;) {
		if (object_key(key, file))
			visit(arg, kind, key);
	}
	return 0;
}
