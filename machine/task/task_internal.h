#pragma once
/* The directory of a task: task.c has its files and the shim, task_spec.c what the shim runs. */
#include "machine/task/task.h"

/* What a task is made of, while it is prepared. */
struct task_making {
	const struct pod *p;
	const struct task_settings *s;
	/* pai-runtime init reads the patterns of exit codes from this volume, which are put where
	 * it would copy them to: into this one, the work volume.  NULL: there is none. */
	const struct pod_volume *patterns, *work;
	const char *home; /* of the app container */
	int dir;
	struct arena *a;
	struct err *e;
};

/* Writes a new file, which is not there yet, in the task's directory. */
int task_new_file(struct task_making *m, const char *path, struct span text, mode_t mode);

/* The directory of a volume, relative to the task's: at its first mount point in root. */
const char *task_volume_dir(const struct task_making *m, const struct pod_volume *v);

/* Writes the file for the shim, which base/shim.h describes. */
int task_spec_write(struct task_making *m);
