#pragma once
/*
 * Paths and files of a pod.  Files may be shared with the code of the job's author, so links are
 * not followed unless a function says so.
 *
 *	struct span text;
 *	if (file_need(path, FILE_THEIRS, 1 << 20, a, &text, e))
 *		return -1;
 *	return file_write(path_join(a, at->runtime_d, "copy"), text, 0644, e);
 *
 * Texts live in the arena, and are bounded by the caller.  Errors name the file; their code is
 * FAILED.  These calls block.
 *
 * Thread: main
 */
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/posix/fd.h"

#define FAILED 500, "RuntimeError"

/* Exit status of a program that cannot be started, or is not there, as shells have it. */
enum { NOT_STARTED = 126, NOT_FOUND = 127 };

/* All paths.  They are a contract with the server (docs/RUNTIME.md).  `--root DIR` puts DIR before
 * each of them; generated scripts contain it. */
struct layout {
	const char *root;       /* "" in a pod */
	const char *work;       /* /usr/local/pai: volume shared by init and app */
	const char *program;    /* /usr/local/pai/runtime: this program, for the app container */
	const char *runtime_d;  /* /usr/local/pai/runtime.d: environment and scripts */
	const char *framework;  /* /usr/local/pai/framework.json */
	const char *ssh_secret; /* /usr/local/pai/ssh-secret */
	const char *code;       /* /usr/local/pai/code */
	const char *parts;      /* /usr/local/pai-code: mounts of the archive, 0/part, 1/part ... */
	const char *logs;       /* /usr/local/pai/logs/$FC_POD_UID, else $HOSTNAME, else task */
	const char *config;     /* /usr/local/pai-config: mount of the exit specification */
	const char *secrets;    /* /usr/local/pai/secrets/secrets.yaml; may be absent */
	const char *extension; /* /usr/local/pai/user-extension-secrets/userExtensionSecrets.yaml */
	const char *account;   /* /var/run/secrets/kubernetes.io/serviceaccount */
	const char *output;    /* /var/run/secrets/rest-lit: token and ca.crt for the upload */
	const char *termination;      /* /tmp/pai-termination-log of the app container */
	const char *init_termination; /* /dev/termination-log of the init container */
	const char *passwd_home;      /* /root: home directory of sshd's user */
};

/* All paths below a root, in the arena.  FC_POD_UID and HOSTNAME count only if they consist of
 * [A-Za-z0-9._-]. */
void layout_init(struct layout *l, const char *root, struct arena *a);

/* The private key of the job, in layout.ssh_secret; and a directory in layout.work that the ssh
 * plugin makes, with ssh and scp for images that lack them. */
#define SSH_PRIVATE "ssh-privatekey"
#define SSH_BIN     "bin"

/* A file in layout.runtime_d: the line of the job for each line of user.sh. */
#define USER_LINES "user.lines"

/* "dir/name" in the arena. */
const char *path_join(struct arena *a, const char *dir, const char *name);

/* Opens a regular file without following links or waiting for a fifo; `flags` are added.
 * A file that is created has mode 0644.  -1 and errno, EINVAL if it is not a regular file. */
int file_open(const char *path, int flags);

/* Writes a temporary file beside `path` and renames it: `path` is complete with exactly this mode,
 * or unchanged. */
int file_write(const char *path, struct span text, mode_t mode, struct err *e);

enum file_kind {
	FILE_MOUNTED, /* mounted by the kubelet or written by this program: links are followed */
	FILE_THEIRS   /* the author's code could have replaced it: links are an error */
};

/* Reads at most `max` bytes of a regular file into the arena.  0; 1 if it does not exist (*text is
 * empty); -1 and *e. */
int file_read(const char *path, enum file_kind kind, size_t max, struct arena *a, struct span *text,
              struct err *e);

/* The same, but -1 and *e also if it does not exist. */
int file_need(const char *path, enum file_kind kind, size_t max, struct arena *a, struct span *text,
              struct err *e);

/* The same; empty if it cannot be read. */
struct span file_text(const char *path, enum file_kind kind, size_t max, struct arena *a);

/* Makes a directory, its last part with this mode, and its parents.  It may exist. */
int dir_make(const char *path, mode_t mode, struct err *e);

/* Returns true if the name matches the pattern of *, ?, [a-z], [!a] and \, as fnmatch without
 * flags, for bytes.  An unfinished [ matches nothing. */
bool glob_matches(const char *pattern, const char *name);

/* Disables core files, for a process that holds secrets. */
void file_disable_core_dumps(void);
