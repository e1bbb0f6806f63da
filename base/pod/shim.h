#pragma once
/*
 * The contract of the server and `pai-runtime shim`: the file `spec` in the directory of a task,
 * see machine/task/task.h.  It has three documents of lists.h: the values that the shim itself
 * needs; the command app, in the sandbox if there is one; the command init before it.  The last two
 * are not for the environment of bubblewrap, on which a variable like LD_PRELOAD would act.
 *
 * A command whose first word is empty is one of pai-runtime, with the other words as arguments:
 * `run` as app, `init` as init.
 *
 * Thread: any
 */
enum {
	SHIM_HEAD,
	SHIM_ARGV /* the command that the shim executes; ends in `shim --exec DIRECTORY` */,
	SHIM_LISTS
};

enum shim_head {
	SHIM_FORMAT,  /* SHIM_FORMAT_NOW */
	SHIM_GRACE,   /* seconds between SIGTERM and SIGKILL */
	SHIM_SANDBOX, /* "sandbox": bubblewrap comes before that; or "" */
	SHIM_INITS,   /* "init", if there is one, or "" */
	SHIM_CGROUP,  /* cgroup.procs of a cgroup that the command joins, or "" */
	SHIM_MESSAGE, /* path of app's termination message, relative to the directory */
	SHIM_MARK,    /* a variable by which the processes of this task are found */
	SHIM_NOTE,    /* the first line of the log of app, or "" */
	SHIM_WHOLE,   /* "whole": the log is never shortened; or "" */
	SHIM_PROGRAM, /* path of pai-runtime in the sandbox, see session.h */
	SHIM_HEADS
};
#define SHIM_FORMAT_NOW "shim 6"

enum {
	APP_ENV,
	APP_COMMAND,
	APP_SAME, /* "DEVICE:INODE:PATH": the file to be mounted at the path */
	APP_LISTS
};

enum { INIT_ENV, INIT_COMMAND /* none */, INIT_FRAMEWORK /* one text */, INIT_LISTS };
