#pragma once
/*
 * The commands of rest-lit; commands.c has their table.  A command is one file cmd_*.c, which uses
 * cli_internal.h: command.c (help, options, small commands), remote.c and remote_job.c (requests to
 * a server), term.c (output), progress.c, job_view.c, log_mux.c and wait.c (following a job). Begin
 * with cmd_logs.c.
 *
 * Thread: main
 */
#include "base/str.h"
#include "server/config/options.h"

/* Commands that send requests return 1 if the job has failed or was stopped, 2 after a refusal or
 * wrong usage, 3 if the server does not answer or --timeout is over. */
enum { EXIT_OK = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_SERVER = 3 };
/* Instead of an exit status: execute this program once more, with the same arguments. */
enum { EXIT_ANEW = -1 };
/* `run -- COMMAND` has failed before the command, or could not learn its end. */
enum { EXIT_NO_COMMAND = 125 };

/* The arguments that are not options are o->files.  Returns the exit code. */
struct command;
typedef int command_runner(const struct command *c, struct options *o);

struct command {
	const char *name;
	command_runner *run;
	unsigned options;      /* FOR_..., 0 if it takes none */
	size_t least, most;    /* other arguments */
	const char *wanted;    /* error text for another number of arguments */
	const char *arguments; /* after the options in the usage line; NULL if none */
	const char *summary;   /* NULL: not for users */
	const char *about;     /* a few lines for --help */
	const char *examples;  /* after two blanks each, or with headings */
};

extern const struct command COMMANDS[];
extern const size_t N_COMMANDS;
/* The command of that name, or NULL. */
const struct command *command_find(const char *name);
/* Runs a command with its arguments; argv[0] is its name.  Returns the exit code. */
int command_run(const struct command *c, int argc, char **argv);
/* Appends what the help says that a command does, with a sentence about its argument and the exit
 * status at the end. */
void command_put_about(struct str *out, const struct command *c);

command_runner cmd_serve, cmd_controller, cmd_check, cmd_translate, cmd_validate, cmd_convert,
    cmd_run, cmd_submit, cmd_jobs, cmd_show, cmd_stop, cmd_logs, cmd_wait, cmd_events, cmd_delete,
    cmd_resubmit, cmd_fetch, cmd_keep, cmd_release, cmd_login, cmd_logout, cmd_backup, cmd_token,
    cmd_schema, cmd_version, cmd_top, cmd_usage, cmd_report, cmd_exec, cmd_open;
/* Not in the help: prints a generated page, for tests/tools/pages; prints the words that a shell
 * offers, for packaging/completion.*. */
command_runner cmd_page, cmd_complete;
