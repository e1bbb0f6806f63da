#pragma once
/* The directory of a task: task.c has its files and the shim, task_spec.c what the shim runs. */
#include "k8s/local/task.h"

enum task_which { TASK_WHICH_INIT, TASK_WHICH_APP, TASK_WHICH_MAX };
extern const char *const TASK_NAMES[TASK_WHICH_MAX];

/* What a task is made of, while it is prepared. */
struct task_making {
	const struct pod *p;
	const struct task_settings *s;
	int dir;
	const char *root; /* DIR/root without sandbox */
	struct arena *a;
	struct err *e;
};

/* "cannot write PATH: No space left on device".  Returns -1. */
int task_failed(struct task_making *m, const char *what, const char *path);

/* Makes a directory below the task's, with its parents. */
int task_make_dir(struct task_making *m, const char *path);
/* Writes a new file, which is not there yet. */
int task_new_file(struct task_making *m, const char *path, struct span text, mode_t mode);

/* The directory of a volume, relative to the task's: without sandbox at its first mount point. */
const char *task_volume_dir(const struct task_making *m, const struct pod_volume *v);
/* Is this mount made?  The ConfigMap with pai-runtime is not, because the machine has its own. */
bool task_mount_needed(const struct pod_mount *mount);

/* Where a container finds its termination message, relative to the task's directory. */
const char *task_message_path(const struct task_making *m, enum task_which which);

/* The text of the file spec; *e on failure. */
int task_spec_write(struct task_making *m, struct str *out);
