/* Moves files to free names below damaged/, and refuses a directory whose database is gone. */
#include "machine/store/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/time.h"
#include "machine/store/local_internal.h"

enum { OWNER_MAX = 200, LOST_MAX = 1 << 20, ASIDE_TRIES = 100, LOSSES_TOLD = 20 };

static bool aside_owner_ok(struct span owner)
{
	return owner.n > 0 && owner.n <= OWNER_MAX && owner.p[0] != '.' &&
	       span_only_alnum_or(owner, "-._~@+");
}

bool aside_has(const char *dir, struct span owner)
{
	FREE_AUTO char *path = xasprintf("%s/damaged/%.*s", dir, (int)owner.n, owner.p);
	return aside_owner_ok(owner) && access(path, F_OK) == 0;
}

char *aside_name(const char *dir, struct span owner, const char *from)
{
	struct span label = !owner.p || aside_owner_ok(owner) ? owner : SPAN("unknown");
	FREE_AUTO char *above =
	    xasprintf("%s/damaged%s%.*s", dir, owner.p ? "/" : "", (int)label.n, label.p);
	FREE_AUTO char *file = xstrdup(from);
	for (char *slash; (slash = strchr(file, '/')) != NULL;)
		*slash = '-';
	if (dir_make_all(above, 0700) < 0)
		return NULL;
	for (int i = 0; i < ASIDE_TRIES; i++) {
		FREE_AUTO char *end = i ? xasprintf(".%d", i) : xstrdup("");
		FREE_AUTO char *to = xasprintf("%s/%s%s", above, file, end);
		if (faccessat(AT_FDCWD, to, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
			return xstrdup(to + strlen(dir) + 1);
	}
	errno = EEXIST;
	return NULL;
}

char *aside_move(const char *dir, const char *from, struct span owner)
{
	FREE_AUTO char *to = aside_name(dir, owner, from);
	FREE_AUTO char *source = xasprintf("%s/%s", dir, from);
	FREE_AUTO char *target = xasprintf("%s/%s", dir, to ?: "");
	return to && rename(source, target) == 0 ? TAKE(to) : NULL;
}

const char *aside_note(const char *dir, const char *sentence)
{
	static atomic_uint told; /* of this process, which has one such directory */
	char now[RFC3339_MAX];
	struct stat st;
	FREE_AUTO char *above = xasprintf("%s/damaged", dir);
	FREE_AUTO char *path = xasprintf("%s/" LOST_FILE, dir);
	(void)mkdir(above, 0700); /* may be there */
	FD_AUTO fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	FREE_AUTO char *line = xasprintf("%s %s\n", rfc3339_put(now, clock_wall_ms(), 0), sentence);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size < LOST_MAX)
		(void)fd_write_all(fd, span_of(line)); /* the server's log has it, too */
	unsigned before = told++;
	return before < LOSSES_TOLD    ? sentence
	       : before == LOSSES_TOLD ? "further losses are in " LOST_FILE " only"
	                               : NULL;
}

/* ---- a directory without its database ---------------------------------------------- */

int64_t aside_log_size(const struct database *d)
{
	struct stat st;
	return fstatat(d->root, DB_FILE "-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
}

int aside_refuse(const struct database *d, const char *what, struct err *e)
{
	static const char *const DIRS[] = { "logs", "pods", "code", "results" };
	STR_AUTO found = STR_INIT(1024);
	int64_t log = aside_log_size(d);
	for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++) {
		DIR_AUTO *list = dir_list(d->root, DIRS[i]);
		if (dir_next(list))
			str_printf(&found, "%s%s/", found.n ? ", " : "", DIRS[i]);
	}
	if (log > 0)
		str_printf(&found, "%s" DB_FILE "-wal (%lld bytes)", found.n ? ", " : "",
		           (long long)log);
	if (found.n == 0)
		return 0;
	return err_set(e, UNKNOWN_ERROR,
	               "%s: %s, but there are files of jobs: %s; nothing was changed. Put "
	               "store.db back, or a backup of it (rest-lit backup); to begin anew, move "
	               "all of these, and store.db, to another place",
	               d->path, what, str_c(&found));
}

int aside_check_database(const struct database *d, struct err *e)
{
	struct stat st;
	bool there = fstatat(d->root, DB_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (there && (!S_ISREG(st.st_mode) || st.st_size > 0))
		return 0;
	return aside_refuse(d, there ? "store.db is empty" : "there is no store.db", e) ?: 1;
}

int aside_open(struct database *d, const char *dir, struct err *e)
{
	struct stat st;
	const char *fault = NULL;
	d->root = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d->root < 0 || fstat(d->root, &st) != 0 || !(d->path = realpath(dir, NULL)))
		fault = errno == ELOOP || errno == ENOTDIR ? "it is not a directory"
		                                           : strerrordesc_np(errno);
	else if (st.st_uid != geteuid())
		fault = "it belongs to another user";
	else if ((st.st_mode & 077) != 0)
		fault = "it is open to other users (needs chmod 0700)";
	if (fault)
		return err_set(e, UNKNOWN_ERROR, "%s: %s", dir, fault);
	return 0;
}

int aside_check(const char *dir, struct err *e)
{
	struct database d = { .root = -1 };
	bool absent = access(dir, F_OK) != 0 && errno == ENOENT;
	int none = absent ? 1 : aside_open(&d, dir, e) ?: aside_check_database(&d, e);
	free(d.path);
	fd_cleanup(&d.root);
	return none;
}
