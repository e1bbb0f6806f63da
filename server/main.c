/* rest-lit: finds the command in the table of server/cli/commands.c. */
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "server/cli/commands.h"
#include "server/config/system.h"
#include "server/state/log.h"

static void print_usage(FILE *out)
{
	(void)fputs("Usage: rest-lit COMMAND [OPTION]... [FILE]...\n\n"
	            "Run deep-learning jobs of OpenPAI on this machine, or on Kubernetes.\n\n",
	            out);
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (COMMANDS[i].summary)
			(void)fprintf(out, "  %-11s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
	(void)fputs("\nrest-lit COMMAND --help shows options and an example.\n", out);
}

static void print_unknown_command(const char *name)
{
	char shown[4 * QUOTE_MAX];
	struct guess g = { .name = span_of(name) };
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (COMMANDS[i].summary)
			guess_try(&g, COMMANDS[i].name);
	(void)fprintf(stderr, "rest-lit: unknown command %s", quote(shown, g.name));
	if (g.best) {
		(void)fprintf(stderr, ", did you mean %s? rest-lit --help lists all\n", g.best);
		return;
	}
	(void)fputs("\n\n", stderr);
	print_usage(stderr);
}

/* Executes this program once more, as the same process; only without success it returns.  Signals
 * to stop that are blocked stay so: one that comes meanwhile is not lost, also as process 1. */
static int start_anew(char **argv)
{
	ERR_AUTO e = { 0 };
	(void)execv("/proc/self/exe", argv);
	(void)err_set(&e, UNKNOWN_ERROR, "%m");
	log_event(LOG_ERROR, "/proc/self/exe cannot be executed", "reason", err_msg(&e));
	return EXIT_REFUSED;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	arena_keep_heap();
	process_wipe_json();
	if (strcmp(name, "--version") == 0)
		name = "version";
	if (strcmp(name, "help") == 0 && argc > 2) { /* as COMMAND --help */
		static char help[] = "--help";
		argv[1] = argv[2];
		argv[2] = help;
		argc = 3;
		name = argv[1];
	}
	const struct command *c = command_find(name);
	if (c) {
		int code = command_run(c, argc - 1, argv + 1);
		return code == EXIT_ANEW ? start_anew(argv) : code;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (name[0])
		print_unknown_command(name);
	else
		print_usage(stderr);
	return EXIT_USAGE;
}
