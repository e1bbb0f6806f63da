/* pai-runtime: one program, a table of subcommands. */
#include <stdio.h>
#include <string.h>

#include "runtime-assets/commands.h"
#include "runtime-assets/relro.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} COMMANDS[] = {
	{ "init", cmd_init, "prepare the pod: wait for all tasks, environment, plugins" },
	{ "run", cmd_run, "run the prepared command, keep its logs, explain its failure" },
	{ "exit", cmd_exit, "explain an exit code by the logs, as run does at the end" },
	{ "sshd", cmd_sshd, "plugin ssh: configure and start sshd" },
	{ "ssh-barrier", cmd_ssh_barrier, "plugin ssh: wait until all tasks can be reached" },
	{ "git-move", cmd_git_move, "plugin git: clone a repository into a directory" },
	{ "check-api", cmd_check_api, "does this pod's way to the API server work?" },
	{ "version", cmd_version, "the version, what it was built from, where it came from" },
};
enum { N_COMMANDS = sizeof(COMMANDS) / sizeof(COMMANDS[0]) };

static int usage(FILE *out, int status)
{
	fputs("usage: pai-runtime COMMAND [OPTION...]\n\n", out);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", COMMANDS[i].name, COMMANDS[i].help);
	fputs("\nCalled as `runtime` without a command it is `run`.\n"
	      "pai-runtime COMMAND --help says more.\n",
	      out);
	return status;
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(COMMANDS[i].name, name) == 0)
			return &COMMANDS[i];
	}
	return NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

int main(int argc, char **argv)
{
	static char run[] = "run";
	relro_apply();
	if (argc == 1 && argv[0] && strcmp(base_name(argv[0]), "runtime") == 0) {
		char *alone[] = { run, NULL };
		return cmd_run(1, alone);
	}
	if (argc < 2)
		return usage(stderr, 2);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
		return usage(stdout, 0);
	const struct command *c = find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
	if (!c) {
		fprintf(stderr, "pai-runtime: there is no command of that name\n");
		return usage(stderr, 2);
	}
	return c->run(argc - 1, argv + 1);
}
