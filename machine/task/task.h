#pragma once
/*
 * A task of this machine: its directory DIR/pods/UID (0700) and its shim, the process
 * `pai-runtime shim`, which runs the containers and outlives this process.  In the directory:
 *
 *   spec        commands for the shim, see base/pod/shim.h (0600: secrets); in its space the
 *               shim writes the last state
 *   shim        process_identity() of the shim, written by it as a whole
 *   pid         process_identity() of the first process of the command, likewise
 *   state       struct task_state, written by the shim as a whole (write, fsync, rename)
 *   log, log.1  output of the app container in CRI format; log.1 is the older part
 *   init.log    output of init, likewise
 *   root/       files of the app container below /, see `--root` of pai-runtime: volumes at
 *               their first mount points; of a sandbox without an image /tmp
 *   message     the termination message in a sandbox; otherwise it is in root/
 *   volumes/    volumes of which only parts are mounted
 *   upper/ ...  files that a task with an image has changed
 *   shim.error  standard error of the shim
 *
 * Other files in the directory belong to the engine (job).  All functions block on files.
 * Files that a job can reach are opened without following links, and only if they are regular.
 *
 * Thread: worker
 */
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "jobs/framework/framework.h"
#include "machine/task/pod.h"
#include "machine/task/sandbox.h"

struct task_settings {
	const char *dir; /* DIR/pods/UID, absolute */
	bool sandbox;
	/* `runtime`, `rootfs` and `hide`, and of the app container further mounts (--mount, the
	 * directory of `run`, those of GPUs); the rest is set by task_prepare. */
	struct sandbox_spec box;
	/* NAME=VALUE for the app container, of the program that runs this job; not in the pod, as
	 * they can be secret.  Image and pod win.  NULL-terminated or NULL. */
	const char *const *caller_env;
	const char *const *image_env; /* ENV of the image, NULL-terminated; NULL */
	const char *start_directory;  /* of the app container if it has no workingDir; NULL */
	const char *const *env;       /* NAME=VALUE, wins over the pod's; NULL-terminated or NULL */
	const char *cgroup_procs;     /* see cgroup_make; NULL */
	bool whole_log;               /* the log of the app is never shortened */
	const char *note;             /* the first line of the log of the app, in brackets; NULL */
	/* The Framework as JSON, with the addresses of all tasks that init shall know. */
	struct span framework;
	const struct pod_objects *objects;
};

/*
 * Writes the directory, which may exist: volumes, files of Secrets and ConfigMaps, the spec of
 * the shim.  *e (400: the pod cannot run here, 500: the disk) on failure; the directory may be
 * incomplete then.  Calling it again for a task that has not started is allowed.
 */
int task_prepare(const struct pod *p, const struct task_settings *s, struct err *e);

/*
 * Starts the shim in a session of its own.  The descriptors in `keep` (locks of GPUs) are inherited
 * by the shim, not by its children.  tied: the shim stops the task when this thread ends, however
 * it does.  input: the standard input of the command, or 0: it is empty.  Returns a pidfd that is
 * readable when the shim has ended; the caller waits for it then (waitid), and closes it.  -1 and
 * *e.
 */
int task_start(const char *dir, const char *runtime, bool tied, int input, const int *keep,
               size_t n_keep, struct err *e);

enum task_found {
	TASK_NOT_STARTED, /* no shim has started in this directory */
	TASK_ALIVE,       /* *pidfd */
	TASK_GONE         /* its shim has ended or vanished: see task_read_state */
};
/* Finds the shim again after a restart, by pid and start time.  *pidfd belongs to the caller. */
enum task_found task_find(const char *dir, int *pidfd);

enum task_phase { TASK_STARTING, TASK_RUN, TASK_ENDED };

struct task_state {
	enum task_phase phase;
	bool stopped;   /* asked to stop, or tied to a thread that has ended */
	bool started;   /* it runs, or the app has run */
	int64_t ran_ms; /* so long; valid when it is terminated */
	/* init and the app.  Reasons: "Completed", "Error", "ContainerCannotRun", "OutOfResources"
	 * (nothing was executed, because the machine was short of something) ... */
	struct framework_container container[2];
};
/* The state of a task that has not started. */
extern const struct task_state TASK_NEW;

/* The shim renames the file `state` into place at each change.  false: there is none yet, *out is
 * TASK_NEW; or it is damaged. */
bool task_read_state(const char *dir, struct arena *a, struct task_state *out);

/* Asks the shim to stop the containers: SIGTERM, after the grace period SIGKILL.  grace_s < 0: that
 * of the pod. */
void task_stop(int pidfd, int64_t grace_s);
/* SIGKILL to the containers. */
void task_kill(int pidfd);

/* Kills processes that a vanished shim has left: their environment has this FC_POD_UID.  It reads
 * the environments of all processes, so it is not called if a cgroup has them, nor after a shim
 * that has left its last state: that has waited for all its descendants.  Returns the number of
 * processes found. */
int task_kill_leftovers(const char *uid);
