#pragma once
/*
 * pai-runtime: the program in the pods of a job.  Begin with runtime-assets/main.c, which has the
 * table of commands; init/ prepares the pod, run/ runs the command, exit/ explains its failure,
 * plugins/ has the runtime plugins, net/ the HTTP client.  Paths and files are in files.h.
 *
 * This header: command lines and shell words.
 *
 *	const char *root = "";
 *	bool help = false;
 *	const struct arg table[] = { { "--root", &root, NULL }, { "--help", NULL, &help }, { 0 } };
 *	int i = args_take(table, 1, argc, argv);
 *	if (i < argc)
 *		return args_misused("init", argv[i]);
 *
 * Values are borrowed from argv.  All functions but args_* are pure.
 *
 * Thread: main
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/enc.h"
#include "base/str.h"

/* The commands.  argv[0] is the name of the command; they return the exit status, or MISUSED. */
int cmd_run_task(int argc, char **argv);
int cmd_exit(int argc, char **argv);
int cmd_sshd(int argc, char **argv);
int cmd_ssh_barrier(int argc, char **argv);
int cmd_git_move(int argc, char **argv);
int cmd_check_api(int argc, char **argv);
int cmd_mount_overlay(int argc, char **argv);
int cmd_shim(int argc, char **argv);

/* How commands are called; main() prints it for `COMMAND --help`. */
extern const char RUN_USAGE[], EXIT_USAGE[], SSHD_USAGE[], BARRIER_USAGE[], CLONE_USAGE[],
    CHECK_USAGE[];

/* Runs sshd, ssh or scp if argv[0] is one of these names, and sets the exit status; false
 * otherwise. */
bool dropbear_run(int argc, char **argv, int *status);

/* An option with an argument (value) or without (flag); the other member is NULL.  An entry
 * without a name ends a table. */
struct arg {
	const char *name;
	const char **value;
	bool *flag;
};

/* Parses options from argv[i] on.  Returns the index of the first argument that is not an option
 * of the table or lacks its value, or argc. */
int args_take(const struct arg *table, int i, int argc, char **argv);

/* Prints to standard error which argument is wrong; NULL: one is missing.  Returns MISUSED, after
 * which main() prints how the command is called. */
int args_misused(const char *command, const char *argument);
enum { MISUSED = -1 };

/* An environment variable; NULL if it is unset or empty. */
const char *env_get(const char *name);

/* Appends a path: bare if it needs no quotes, else as a shell_word. */
void shell_path(struct str *out, const char *path);

/* Appends the beginning of the first line of user.sh, precommands.sh and postcommands.sh: errexit,
 * nounset and pipefail.  Commands follow on the same line, so that shells count their lines.  If
 * errexit ends bash, it has written to descriptor SHELL_REPORT_FD of `run` where. */
void shell_header(struct str *out);
enum { SHELL_REPORT_FD = 101 };
/* Returns the text after the header; all of the text if it has none. */
struct span shell_body(struct span script);

enum argv_kind {
	ARGV_NONE,   /* only the header that init writes, comments and blank lines */
	ARGV_SIMPLE, /* one command of plain or quoted words: needs no shell */
	ARGV_SHELL   /* anything else */
};

/* Splits a script, for images without a shell.  If it returns ARGV_SIMPLE, *argv is the
 * NULL-terminated command, in the arena. */
enum argv_kind argv_split(struct span script, struct arena *a, char ***argv);
