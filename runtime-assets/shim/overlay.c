/*
 * `pai-runtime mount-overlay LOWER DIR -- PROGRAM ARGUMENTS...`: mounts an overlay file system at
 * DIR/merged in new user and mount namespaces and executes the program there, as root of the
 * namespace.  Changed files are in DIR/upper; DIR/work belongs to the overlay.  Bubblewrap before
 * 0.11 cannot mount overlays.
 *
 * The kernel does it since 5.11, if the file system of DIR has extended attributes; otherwise
 * fuse-overlayfs does, which is killed when this process (the program, then) ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/posix/child.h"
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/shim/shim_internal.h"

enum { OVERLAY_FUSE = 0x65735546 /* f_type of a FUSE file system */, OVERLAY_WAIT_MS = 10000 };

struct overlay_mount {
	const char *lower, *upper, *work, *merged;
};

static int overlay_put(const char *path, const char *text, struct err *e)
{
	FD_AUTO fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || fd_write_all(fd, span_of(text)) != 0)
		return err_set(e, FAILED, "%s: %s", path, strerror(errno));
	return 0;
}

static int overlay_namespaces(struct err *e)
{
	pid_t parent = getppid();
	char user[64];
	char group[64];
	(void)snprintf(user, sizeof(user), "0 %u 1", (unsigned)geteuid());
	(void)snprintf(group, sizeof(group), "0 %u 1", (unsigned)getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return err_set(e, FAILED, "new namespaces: %s", strerror(errno));
	/* Taken away by unshare(). */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		return err_set(e, FAILED, "the parent process has ended");
	if (overlay_put("/proc/self/setgroups", "deny", e) != 0 ||
	    overlay_put("/proc/self/uid_map", user, e) != 0 ||
	    overlay_put("/proc/self/gid_map", group, e) != 0)
		return -1;
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
		return err_set(e, FAILED, "mount namespace: %s", strerror(errno));
	return 0;
}

/* Paths may contain the separators of mount options, numbers of descriptors do not.  -1 and errno.
 */
static int overlay_kernel(const struct overlay_mount *o)
{
	char options[160];
	FD_AUTO lower = open(o->lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
	FD_AUTO upper = open(o->upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
	FD_AUTO work = open(o->work, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (lower < 0 || upper < 0 || work < 0)
		return -1;
	(void)snprintf(
	    options, sizeof(options),
	    "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,"
	    "userxattr",
	    lower, upper, work);
	return mount("overlay", o->merged, "overlay", 0, options);
}

/* Commas separate options of fuse-overlayfs, colons its lower directories. */
static void overlay_escaped(struct str *out, const char *name, const char *path)
{
	str_puts(out, name);
	for (; *path; path++) {
		if (strchr(",:\\", *path))
			str_char(out, '\\');
		str_char(out, *path);
	}
}

/* error: why the kernel cannot. */
static int overlay_fuse(const struct overlay_mount *o, int error, struct arena *a, struct err *e)
{
	const char *program = program_find("fuse-overlayfs", a);
	STR_AUTO options = STR_INIT(16384);
	overlay_escaped(&options, "lowerdir=", o->lower);
	overlay_escaped(&options, ",upperdir=", o->upper);
	overlay_escaped(&options, ",workdir=", o->work);
	pid_t parent = getpid();
	pid_t child = program ? fork() : -1;
	if (program && child < 0)
		return err_set(e, FAILED, "fork: %s", strerror(errno));
	if (child == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* fuse-overlayfs would write warnings about options into the log of the task. */
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (null >= 0)
			(void)dup2(null, 2);
		/* The shim takes their end for the start of the command. */
		for (int fd = SHIM_REPORT_FD; fd <= SHIM_INIT_FD; fd++)
			(void)close(fd);
		if (getppid() == parent)
			(void)execl(program, program, "-f", "-o", str_c(&options), o->merged,
			            (char *)NULL);
		_exit(127);
	}
	for (int ms = 0; child > 0 && ms < OVERLAY_WAIT_MS; ms += 5) {
		struct statfs fs;
		if (statfs(o->merged, &fs) == 0 && (unsigned long)fs.f_type == OVERLAY_FUSE)
			return 0;
		if (waitpid(child, NULL, WNOHANG) == child)
			break;
		(void)poll(NULL, 0, 5);
	}
	return err_set(e, FAILED, "overlay at %s: the kernel: %s; fuse-overlayfs %s", o->merged,
	               strerror(error), program ? "cannot mount it either" : "is not installed");
}

int cmd_mount_overlay(int argc, char **argv)
{
	if (argc < 5 || strcmp(argv[3], "--") != 0) {
		(void)fputs("usage: pai-runtime mount-overlay LOWER DIR -- PROGRAM ARGUMENTS...\n",
		            stderr);
		return 2;
	}
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	const char *const made[] = { path_join(&a, argv[2], "upper"),
		                     path_join(&a, argv[2], "work"),
		                     path_join(&a, argv[2], "merged") };
	const struct overlay_mount o = { argv[1], made[0], made[1], made[2] };
	for (size_t i = 0; i < ARRAY_SIZE(made) && !e.http; i++) {
		if (mkdir(made[i], 0755) != 0 && errno != EEXIST)
			(void)err_set(&e, FAILED, "%s: %s", made[i], strerror(errno));
	}
	if (!e.http && overlay_namespaces(&e) == 0 &&
	    (overlay_kernel(&o) == 0 || overlay_fuse(&o, errno, &a, &e) == 0)) {
		(void)execv(argv[4], argv + 4);
		(void)err_set(&e, FAILED, "%s: %s", argv[4], strerror(errno));
	}
	(void)fprintf(stderr, "mount-overlay: %s\n", err_msg(&e));
	return 1;
}
