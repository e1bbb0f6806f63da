#pragma once
/* rest-lit run: cmd_run.c reads the options, run.c has the server in this process. */
#include <pthread.h>

#include "machine/engine/engine.h"
#include "server/cli/cli_internal.h"
#include "server/start.h"

/* ---- run_dir.c ---- */

struct run_dir {
	struct arena arena;
	const char *path, *base; /* base: of all runs of this user; NULL: none yet */
	int fd;                  /* of path, locked */
};

/* Makes a directory for this run, and removes what killed runs have left.  -1 and *e.  Call
 * run_dir_close in any case. */
int run_dir_open(struct run_dir *d, struct err *e);
/* Removes the directory. */
void run_dir_close(struct run_dir *d);

/* ---- run.c ---- */

enum { RUN_TASKS_MAX = 256 /* whose output is read */ };

/* Begins as zeros, except `service`, and cwd and mounts of `engine`. */
struct run {
	struct service *service;
	struct engine_settings engine;
	struct own_server own;
	struct run_dir dir;
	int notes[2];             /* a pipe: what the engine says */
	int stop_fd;              /* the other end of service->signal_fd */
	_Atomic(char *) no_image; /* why pulls fail again and again; NULL */
	bool serves;
	pthread_t thread;
};

/* Starts a server for jobs on this machine, with the options of service; r->own is for remote_run.
 * -1 and *e.  Call run_end in any case. */
int run_start(struct run *r, struct err *e);
/* Ends the server and with it the tasks, and removes all files.  Descriptors stay open: the process
 * ends. */
void run_end(struct run *r);
