/* What all commands share: help, usage errors, output. */
#include <errno.h>
#include <stdio.h>

#include "server/cli/commands.h"
#include "server/setup.h"

enum { HELP_MAX = 64 * 1024 };

static void help_text(struct str *out, const struct command *c, bool all)
{
	str_printf(out, "Usage: rest-lit %s%s%s%s\n\n%s", c->name, c->options ? " [OPTION]..." : "",
	           c->arguments ? " " : "", c->arguments ? c->arguments : "", c->about);
	if (c->options) {
		str_char(out, '\n');
		options_help(out, c->options, all);
	}
	str_printf(out, "\n%s", c->examples);
}

static int print_help(const struct command *c, bool all)
{
	STR_AUTO text = STR_INIT(HELP_MAX);
	help_text(&text, c, all);
	return command_print(str_view(&text));
}

int command_options(const struct command *c, struct options *o, int argc, char **argv)
{
	ERR_AUTO e = { 0 };
	if (options_parse(o, c->options, argc, argv, &e) < 0)
		return complain(&e, o->config, EXIT_USAGE);
	if (o->help)
		return print_help(c, o->help_all);
	return -1;
}

int command_plain(const struct command *c, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return print_help(c, false);
	return -1;
}

int command_print(struct span text)
{
	if (fwrite(text.p, 1, text.n, stdout) == text.n && fflush(stdout) == 0)
		return EXIT_OK;
	char why[128];
	(void)fprintf(stderr, "rest-lit: standard output: %s\n",
	              strerror_r(errno, why, sizeof(why)));
	return EXIT_REFUSED;
}

int command_usage(const struct command *c, const char *text)
{
	(void)fprintf(stderr, "rest-lit %s: %s; see rest-lit %s --help\n", c->name, text, c->name);
	return EXIT_USAGE;
}
