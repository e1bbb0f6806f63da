#pragma once
/* The commands, a file (cmd_*.c) each; main.c has the table. */
#include "base/str.h"
#include "server/options.h"

/* Of commands that ask a server: 1 the job has failed or was stopped, 2 the server refuses, or
 * usage is wrong, 3 there is no server, or it cannot, or the time is over. */
enum { EXIT_OK = 0, EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_SERVER = 3 };

struct command {
	const char *name;
	int (*run)(const struct command *c, int argc, char **argv); /* argv[0] is the command */
	unsigned options;      /* FOR_..., 0 if it takes none */
	const char *arguments; /* behind the options in the usage line; NULL if none */
	const char *summary;
	const char *about; /* a few lines for --help */
	const char *examples;
};

int cmd_serve(const struct command *c, int argc, char **argv);
int cmd_translate(const struct command *c, int argc, char **argv);
int cmd_validate(const struct command *c, int argc, char **argv);
int cmd_submit(const struct command *c, int argc, char **argv);
int cmd_jobs(const struct command *c, int argc, char **argv);
int cmd_show(const struct command *c, int argc, char **argv);
int cmd_stop(const struct command *c, int argc, char **argv);
int cmd_token(const struct command *c, int argc, char **argv);
int cmd_schema(const struct command *c, int argc, char **argv);
int cmd_version(const struct command *c, int argc, char **argv);
/* Not in the help: prints a generated page, for tests/tools/pages. */
int cmd_page(const struct command *c, int argc, char **argv);

/*
 * The options of a command.  -1 to go on; else the exit code, after help or an error was
 * printed.  Call options_done in any case.
 */
int command_options(const struct command *c, struct options *o, int argc, char **argv);
/* --help of a command that takes no options but this one.  -1 to go on, else the exit code. */
int command_plain(const struct command *c, int argc, char **argv);
/* Text on standard output; EXIT_OK, or EXIT_REFUSED if it could not be written. */
int command_print(struct span text);
/* "rest-lit COMMAND: text; see rest-lit COMMAND --help"; EXIT_USAGE. */
int command_usage(const struct command *c, const char *text);
