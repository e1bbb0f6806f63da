/* Steps of init that only move files: logs of an earlier run, the work volume, this program. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime-assets/init/init.h"

enum {
	PRELOGS_MAX = 10000,        /* earlier runs of one pod that are kept apart */
	CLEAN_DEPTH_MAX = 64,       /* nesting of directories that cleaning follows */
	EXIT_SPEC_MAX = 1024 * 1024 /* a ConfigMap has no more */
};

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}
#define DIR_AUTO __attribute__((cleanup(close_dir))) DIR

/* A directory below `at`, not by a link; NULL and errno. */
static DIR *open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	DIR *dir = fdopendir(fd);
	if (!dir)
		close(fd);
	return dir;
}

/* ---- logs ---------------------------------------------------------------------------- */

/* What an earlier run of this pod left: files, links and so on, and the logs of the command.  Other
 * directories are the author's business. */
static bool is_earlier_log(int dir, const char *name)
{
	struct stat st;
	if (is_dots(name) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return span_starts(span_of(name), "user-");
	return strcmp(name, "init.log") != 0;
}

/* Make the first directory prelog_N that is not there yet; its descriptor, or -1 and errno. */
static int make_prelog(int dir, char name[static 32])
{
	for (unsigned i = 0; i < PRELOGS_MAX; i++) {
		snprintf(name, 32, "prelog_%u", i);
		if (mkdirat(dir, name, 0755) == 0)
			return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* Move them; how many, or -1 and errno if there is no place for them. */
static int keep_earlier_logs(DIR *dir, char prelog[static 32])
{
	FD_AUTO to = -1;
	int moved = 0;
	for (struct dirent *d; (d = readdir(dir));) {
		if (!is_earlier_log(dirfd(dir), d->d_name))
			continue;
		if (to < 0 && (to = make_prelog(dirfd(dir), prelog)) < 0)
			return -1;
		if (renameat(dirfd(dir), d->d_name, to, d->d_name) == 0)
			moved++;
		else
			say(SAY_WARNING, "cannot keep the earlier log %s: %s", d->d_name,
			    strerror(errno));
	}
	return moved;
}

/* Something else where the directory belongs was put there; what the node lacks is not the fault of
 * the job, which then goes on without logs, as `run` does. */
static bool is_in_the_way(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

int step_logs(struct init *in, struct err *e)
{
	ERR_AUTO why = { 0 };
	/* Whoever the command runs as must be able to write there. */
	if (dir_make(in->at.logs, 0777, &why)) {
		if (is_in_the_way(in->at.logs)) {
			err_move(e, &why);
			return INIT_FAILED;
		}
		say(SAY_WARNING, "there will be no logs: %s", err_msg(&why));
		return 0;
	}
	DIR_AUTO *dir = open_dir(AT_FDCWD, in->at.logs);
	char prelog[32];
	int moved = dir ? keep_earlier_logs(dir, prelog) : -1;
	if (moved < 0)
		say(SAY_WARNING, "cannot keep the earlier logs in %s: %s", in->at.logs,
		    strerror(errno));
	if (moved > 0)
		say(SAY_INFO, "logs of an earlier run are in %s/%s", in->at.logs, prelog);
	return 0;
}

/* ---- clean --------------------------------------------------------------------------- */

/* Mounts below the work volume, which are not ours to clean. */
static const char *const KEPT[] = { "logs", "user-extension-secrets", "secrets", "token-secrets" };

static bool is_kept(const char *name)
{
	for (size_t i = 0; i < sizeof(KEPT) / sizeof(KEPT[0]); i++) {
		if (strcmp(name, KEPT[i]) == 0)
			return true;
	}
	return is_dots(name);
}

struct cleaning {
	dev_t device;   /* of the work volume: whatever is on another one is mounted there */
	unsigned stuck; /* what could not be removed */
};

static void remove_entry(struct cleaning *c, int dir, const char *name, int depth);

/* Depth is bounded: each level holds a descriptor. */
static void remove_below(struct cleaning *c, int dir, const char *name, int depth)
{
	DIR_AUTO *below = depth < CLEAN_DEPTH_MAX ? open_dir(dir, name) : NULL;
	if (!below) {
		c->stuck++;
		return;
	}
	for (struct dirent *d; (d = readdir(below));) {
		if (!is_dots(d->d_name))
			remove_entry(c, dirfd(below), d->d_name, depth + 1);
	}
}

/* Something may be mounted there from the same device, so directories are first removed as if they
 * were empty: EBUSY comes before ENOTEMPTY, and then nothing in it is ours. */
static void remove_entry(struct cleaning *c, int dir, const char *name, int depth)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_dev != c->device)
		return;
	int flags = S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0;
	if (unlinkat(dir, name, flags) == 0 || errno == EBUSY)
		return;
	if (errno != ENOTEMPTY && errno != EEXIST) {
		c->stuck++;
		return;
	}
	remove_below(c, dir, name, depth);
	/* What keeps it from being empty is a mount, or was counted. */
	(void)unlinkat(dir, name, flags);
}

int step_clean(struct init *in, struct err *e)
{
	struct stat st;
	/* A volume keeps its mode: the kubelet gave it one by which the user of the command, who
	 * may be another than ours, can write there. */
	if (stat(in->at.work, &st) != 0 && dir_make(in->at.work, 0755, e))
		return INIT_FAILED;
	DIR_AUTO *work = open_dir(AT_FDCWD, in->at.work);
	if (!work || fstat(dirfd(work), &st) != 0) {
		err_set(e, FAILED, "cannot clean %s: %s", in->at.work, strerror(errno));
		return INIT_FAILED;
	}
	struct cleaning c = { .device = st.st_dev };
	for (struct dirent *d; (d = readdir(work));) {
		if (!is_kept(d->d_name))
			remove_entry(&c, dirfd(work), d->d_name, 0);
	}
	if (c.stuck > 0)
		say(SAY_WARNING, "%u files in %s could not be removed", c.stuck, in->at.work);
	return 0;
}

/* ---- install, exitspec ------------------------------------------------------------------ */

int step_install(struct init *in, struct err *e)
{
	if (dir_make(in->at.runtime_d, 0755, e) ||
	    file_copy("/proc/self/exe", in->at.program, 0755, e))
		return INIT_FAILED;
	return 0;
}

int step_exitspec(struct init *in, struct err *e)
{
	static const char NAME[] = "runtime-exit-spec.yaml";
	const char *from = path_join(in->a, in->at.config, NAME);
	const char *to = path_join(in->a, in->at.runtime_d, NAME);
	ERR_AUTO why = { 0 };
	struct span spec;
	int got = file_read(from, FILE_MOUNTED, EXIT_SPEC_MAX, in->a, &spec, &why);
	if (got != 0) {
		say(SAY_WARNING, "no exit specification, failures will only have a code: %s",
		    got < 0 ? err_msg(&why) : arena_printf(in->a, "%s is not there", from));
		spec = SPAN("[]\n");
	}
	return file_write(to, spec, 0644, e) ? INIT_FAILED : 0;
}
