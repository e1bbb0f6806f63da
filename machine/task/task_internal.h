#pragma once
/* The directory of a task: task.c has its files and the shim, task_spec.c what the shim runs. */
#include "machine/task/task.h"

enum task_which { TASK_WHICH_INIT, TASK_WHICH_APP, TASK_WHICH_MAX };

/* What a task is made of, while it is prepared. */
struct task_making {
	const struct pod *p;
	const struct task_settings *s;
	int dir;
	struct arena *a;
	struct err *e;
};

/* Writes a new file, which is not there yet, in the task's directory. */
int task_new_file(struct task_making *m, const char *path, struct span text, mode_t mode);

/* The directory of a volume, relative to the task's: without sandbox at its first mount point. */
const char *task_volume_dir(const struct task_making *m, const struct pod_volume *v);
/* Is this mount made?  The ConfigMap with pai-runtime is not, because the machine has its own. */
bool task_mount_needed(const struct pod_mount *mount);

/* Where a container finds its termination message, relative to the task's directory. */
const char *task_message_path(const struct task_making *m, enum task_which which);

/* Writes the files for the shim, which runtime-assets/shim/shim_internal.h describes. */
int task_spec_write(struct task_making *m);
