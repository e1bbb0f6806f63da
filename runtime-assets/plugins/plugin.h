#pragma once
/*
 * Plugins of a job: what its author wants to happen before and after the command.  Nothing runs
 * at init, neither a shell nor git: a plugin only writes commands into scripts, which `run` starts
 * in the user's container.  The scripts are plain POSIX (bash, dash, busybox sh); what needs more
 * is a subcommand of this program, which stands at layout.program there.
 *
 * runtime.d/plugin_pre<N>.sh and plugin_post<N>.sh hold the commands of plugin N; precommands.sh
 * calls the first in order, postcommands.sh the second in reverse.
 *
 * Modes.  A script may hold a secret, but which user the command runs as is not known at init (it
 * is in the image), and who cannot read it cannot run it: 0755, never writable by others.  The
 * volume belongs to this pod alone.  The private key of ssh is 0600: only root's sshd needs it.
 */
#include "runtime-assets/init/job.h"
#include "runtime-assets/layout.h"

/* A file that init has to write. */
struct made {
	const char *path;
	struct span text;
	unsigned mode;
};

struct plugins {
	/* What is known; the caller's. */
	struct arena *a;
	const struct layout *at;
	const struct job *job;
	const struct node *entries; /* extras["com.microsoft.pai.runtimeplugin"]; may be NULL */
	bool jobssh_off;            /* GANG_ALLOCATION is "false": tasks do not know each other */
	bool first_task;            /* task 0 of the first role: tensorboard runs there only */
	/* What was made of it. */
	struct notes said; /* warnings: ignored failures, what is no longer there */
	struct made *file;
	size_t n_files, cap_files;
	size_t n_plugins;
	struct str before, after; /* texts of precommands.sh and postcommands.sh */
};

/*
 * Make all scripts.  0; -1 and *e: a plugin cannot be, and its failurePolicy is not `ignore`.
 * Texts live in the arena; plugins_done frees the rest.  No message holds a value of the job's
 * secrets.  Pure: writes nothing.
 */
int plugins_make(struct plugins *all, struct err *e);
void plugins_done(struct plugins *all);

/* The job that plugins and command of this pod refer to: in->job, or what RUNTIME_CONFIG says in
 * its place (docs/RUNTIME.md, "A pod without PAI"): then true. */
struct init;
bool plugins_job(const struct init *in, struct job *job);

/* ---- for the plugins themselves ------------------------------------------------------------ */

enum { SCRIPT_MAX = 4 << 20, PLUGINS_MAX = 1000 };

struct plugin {
	struct plugins *all;
	size_t number;
	const char *name;
	bool ignore;                   /* failurePolicy */
	const struct node *parameters; /* a map, references filled in */
	struct str pre, post;          /* commands, each ends in a newline */
};

/* Adds commands; -1 and *e, which names the parameter and not its value. */
typedef int plugin_make(struct plugin *p, struct err *e);
plugin_make plugin_cmd, plugin_ssh, plugin_git, plugin_tensorboard;

/* init shall write this file; path and text live in the arena. */
void plugins_file(struct plugins *all, const char *path, struct span text, unsigned mode);

/* The parameter as text, NULL (n is 0) if it is absent, null or empty; -1 and *e for a map or list.
 */
int plugin_text(const struct plugin *p, const char *key, struct span *text, struct err *e);
/* true and false, also as text (a reference gives text); absent is false. */
int plugin_bool(const struct plugin *p, const char *key, bool *value, struct err *e);
/* A whole number within min..max, also as text; *value is left alone if absent. */
struct whole {
	const char *key;
	int64_t min, max;
};
int plugin_whole(const struct plugin *p, struct whole w, int64_t *value, struct err *e);
