#pragma once
/*
 * The commands of rest-lit; commands.c has their table.  A command is one file cmd_*.c, which uses
 * cli_internal.h: command.c (help, options, small commands), remote.c and remote_job.c (requests to
 * a server), term.c (output), progress.c, job_view.c, log_mux.c and wait.c (following a job). Begin
 * with cmd_events.c.
 *
 * Thread: main
 */
#include "base/str.h"
#include "server/config/options.h"

/* Commands that send requests return 1 if the job has failed or was stopped, 2 after a refusal or
 * wrong usage, 3 if the server does not answer or --timeout is over. */
enum { EXIT_OK = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_SERVER = 3 };
/* `run -- COMMAND` has failed before the command, or could not learn its end. */
enum { EXIT_NO_COMMAND = 125 };

struct command {
	const char *name;
	/* The arguments that are not options are o->files.  Returns the exit code. */
	int (*run)(const struct command *c, struct options *o);
	unsigned options;      /* FOR_..., 0 if it takes none */
	size_t least, most;    /* other arguments */
	const char *wanted;    /* error text for another number of arguments */
	const char *arguments; /* after the options in the usage line; NULL if none */
	const char *summary;   /* NULL: not for users */
	const char *about;     /* a few lines for --help */
	const char *examples;
};

extern const struct command COMMANDS[];
extern const size_t N_COMMANDS;
/* Runs a command with its arguments; argv[0] is its name.  Returns the exit code. */
int command_run(const struct command *c, int argc, char **argv);
/* Appends the sentence with the names that the argument may be, if it is one of a list. */
void command_put_names(struct str *out, const struct command *c);

int cmd_serve(const struct command *c, struct options *o);
int cmd_controller(const struct command *c, struct options *o);
int cmd_check(const struct command *c, struct options *o);
int cmd_translate(const struct command *c, struct options *o);
int cmd_validate(const struct command *c, struct options *o);
int cmd_convert(const struct command *c, struct options *o);
int cmd_run(const struct command *c, struct options *o);
int cmd_submit(const struct command *c, struct options *o);
int cmd_jobs(const struct command *c, struct options *o);
int cmd_show(const struct command *c, struct options *o);
int cmd_stop(const struct command *c, struct options *o);
int cmd_logs(const struct command *c, struct options *o);
int cmd_wait(const struct command *c, struct options *o);
int cmd_events(const struct command *c, struct options *o);
int cmd_delete(const struct command *c, struct options *o);
int cmd_resubmit(const struct command *c, struct options *o);
int cmd_fetch(const struct command *c, struct options *o);
int cmd_backup(const struct command *c, struct options *o);
int cmd_token(const struct command *c, struct options *o);
int cmd_schema(const struct command *c, struct options *o);
int cmd_version(const struct command *c, struct options *o);
/* Not in the help: prints a generated page, for tests/tools/pages; prints the words that a shell
 * offers, for packaging/completion.*. */
int cmd_page(const struct command *c, struct options *o);
int cmd_complete(const struct command *c, struct options *o);
