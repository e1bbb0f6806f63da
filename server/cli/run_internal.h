#pragma once
/* rest-lit run: cmd_run.c reads the job and opens what it needs, run.c follows it. */
#include <pthread.h>

#include "machine/store/local.h"
#include "machine/engine/engine.h"
#include "server/cli/cli_internal.h"
#include "server/exit_spec.h"
#include "translate/translate.h"

/* ---- run_dir.c ---- */

struct run_dir {
	char *path, *base; /* base: of all runs of this user */
	int lock;          /* of base */
};

/* Makes a directory for this run.  -1 and *e.  Call run_dir_close in any case. */
int run_dir_open(struct run_dir *d, struct err *e);
/* Others may run now: local_open has locked the directory.  Removes what killed runs have left. */
void run_dir_opened(struct run_dir *d);
/* Removes the directory. */
void run_dir_close(struct run_dir *d);

/* ---- run_logs.c: the output of the tasks ---- */

struct run_logs;

/* stream: print all lines; else only the last ones are kept. */
struct run_logs *run_logs_new(struct engine *engine, struct term *t, const struct options *o,
                              bool stream);
void run_logs_free(struct run_logs *l); /* accepts NULL */
/* Takes a new state of the job: its uid, and as in /api/v2/jobs/USER~NAME. */
void run_logs_update(struct run_logs *l, struct span uid, struct span detail);
/* Reads what there is.  true: there is more. */
bool run_logs_read(struct run_logs *l);
int run_logs_fd(const struct run_logs *l);    /* readable when there may be more */
bool run_logs_over(const struct run_logs *l); /* all logs were read to their ends */
/* What the tasks say; in the arena.  Returns the number of tasks. */
size_t run_logs_tasks(const struct run_logs *l, struct arena *a, const struct task_progress **out);
/* Appends the last lines of a task, indented.  false: it has said nothing. */
bool run_logs_tail(const struct run_logs *l, struct str *out, const char *task);

/* ---- run.c ---- */

/* What other threads tell: the directory's and the engine's. */
struct run_inbox {
	pthread_mutex_t lock;
	int fd;                /* eventfd */
	struct engine *engine; /* gets the Frameworks, too */
	struct str framework;  /* the latest one that was not read */
	struct str notes;      /* lines */
	char *no_image;        /* why pulls fail again and again; NULL */
	bool gone;
};

struct run {
	const struct options *o;
	const char *name, *object; /* of the job and its Framework */
	const struct job *job;
	struct objects *objects;
	const char *submission;
	struct exit_spec *exits;
	struct store *store;
	struct engine *engine;
	struct run_inbox *inbox;
	int signal_fd;
};

/* Submits the job, follows it to its end, and prints what becomes of it.  Returns the exit code. */
int run_follow(struct run *r);
