#pragma once
/* rest-lit run: cmd_run.c reads the options, run.c has the server in this process. */
#include <pthread.h>

#include "machine/engine/engine.h"
#include "server/cli/cli_internal.h"
#include "server/serve/start.h"

enum { RUN_TASKS_MAX = 256 /* tasks whose output is read */ };

/* Begins as zeros, except `service`, `exit_code`, own.exit_code, and of `engine` cwd, mounts, env,
 * results and once. */
struct run {
	struct service *service;
	struct engine_settings engine;
	struct own_server own;
	const char *path, *base;  /* its directory, and that of all runs of this user; NULL: none */
	int fd;                   /* of path, locked */
	int notes[2];             /* a pipe with the messages of the engine */
	int stop_fd;              /* the other end of service->signal_fd */
	_Atomic(char *) no_image; /* reason why pulls fail again and again; NULL */
	int exit_code;            /* of a command */
	struct exec_call *pty;    /* --pty: the command, which is a session in the task; NULL */
	int pty_code;             /* the exit status of the session; -1: it has not ended */
	const char *results;      /* directory of a command; NULL: none */
	bool made_results;        /* ... and it was made here, so it goes if nothing is in it */
	bool serves;
	pthread_t thread;
};

/* Starts a server for jobs on this machine, with the options of service; r->own is for remote_run.
 * -1 and *e.  The caller calls run_end in any case. */
int run_start(struct run *r, struct err *e);
/* Ends the server and with it the tasks, and removes all files.  Descriptors stay open: the process
 * ends. */
void run_end(struct run *r);
