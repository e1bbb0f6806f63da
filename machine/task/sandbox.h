#pragma once
/*
 * The sandbox of a container: the argv of bubblewrap (Debian's 0.8 and newer), with namespaces of
 * its own for mounts, pids, ipc, uts and users; the network is the machine's.
 *
 * The root is a new directory in which each entry of the machine's root is shown read-only, with
 * what sandbox_hide() has replaced by empty directories and files that cannot be opened; or the
 * root of an image below an overlay, writable. Each sandbox has /proc, a /dev with null zero full
 * random urandom tty pts shm and the granted devices, /sys read-only, the machine's resolv.conf,
 * and no capabilities (no_new_privs).
 *
 * All texts are borrowed.
 *
 * Thread: worker
 */
#include "machine/resources/resources.h"

enum { SANDBOX_ARGS_MAX = 8000 /* of sandbox_argv; bubblewrap refuses 9000 */ };

struct sandbox_spec {
	const char *runtime; /* pai-runtime, whose mount-overlay is used */
	/* The root of an image, with which the command has uid and gid 0 inside, else those of this
	 * process.  NULL: the root of the machine. */
	const char *rootfs;
	/* Only with an image: a directory for the files that one container changes in it, see
	 * mount-overlay. */
	const char *overlay;
	const struct sandbox_mount *mounts;
	size_t mounts_n;
	/* Files and directories of the machine that are hidden in the machine's root, and in every
	 * mount whose source is above them. */
	const char *const *hide;
	size_t hide_n;
	uint64_t memory; /* size of each tmpfs, also of /dev/shm; 0: half of the machine's memory */
	const char *cwd; /* in the sandbox; NULL: "/" */
	const char *const *command; /* NULL-terminated; begins with a path in the sandbox */
};

/*
 * The argv, NULL-terminated, in the arena; argv[0] is an absolute path.  The caller executes it
 * with an empty environment (a variable like LD_PRELOAD would act on bubblewrap itself, outside of
 * the sandbox), which is also that of the command, and with PR_SET_PDEATHSIG; the death of
 * bubblewrap kills all processes of the sandbox.  It exits as the command, or with 128 + the signal
 * that ended it, or 1 if the sandbox cannot be made, with a line "bwrap: ..." on stderr.  The
 * command is pid 1 of the sandbox.
 *
 * A mount point that does not exist in a read-only directory is made by showing a new directory in
 * its place, with all entries of the old one.  A directory above a mount point that this process
 * can enter, but not read, is replaced by an empty one.
 *
 * NULL and *e: 400 for a source that does not exist, a path that cannot be a mount point or is in a
 * shared mount, a mount above another one that cannot be read, too many arguments; 503 if
 * bubblewrap is not there.
 */
const char **sandbox_argv(const struct sandbox_spec *spec, struct arena *a, struct err *e);

/* Returns the paths that a sandbox hides, without links: /home, /root, /run, /tmp, /var/tmp, the
 * home of this user, private files of root if this is root, and `more`; not those that do not
 * exist, or contain /usr, /etc, /var or the like.  NULL-terminated, in the arena. */
const char **sandbox_hide(const char *const *more, size_t n, struct arena *a);

/* The home directory of this user, or that of root in an image; in the arena.  A sandbox has it, as
 * an empty directory if it lies in a hidden one. */
const char *sandbox_home(bool image, struct arena *a);

/* Returns true if the path is that of the file on this machine, or leads to it by links. */
bool path_leads_to(const char *path, const char *file);

/* Returns true if `path` is the directory, or below it.  Compares texts only.  Thread: any. */
bool path_within(const char *path, const char *dir);

/* Returns true if `path` is one of the directories, or below one, when symbolic links are followed.
 * Used for mounts that users ask for. */
bool sandbox_hidden(const char *path, const char *const *dirs, size_t n);

/* Starts a trivial sandbox by pai-runtime, as a task is, which takes some ms.  runtime: its
 * absolute path, or NULL.  overlay: in an overlay, as for images, of directories that are made
 * below this one and removed; or NULL.  0, or -1 and *e (503): bubblewrap is missing, or namespaces
 * are forbidden, to which program, and what to do.  Blocks; once at start. */
int sandbox_probe(const char *runtime, const char *overlay, struct err *e);
