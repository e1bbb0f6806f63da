/*
 * rest-lit complete WORD...: what a shell offers for the last word of a command line, in lines of a
 * word, a tab and its meaning; or one of :command, :directory, :file and :job, which the shell
 * knows.  packaging/completion.* call it.
 */
#include "server/cli/cli_internal.h"
#include "server/serve/routes.h"

enum { WORDS_MAX = 64 << 10 };

static void complete_put(struct str *out, const char *dashes, const char *word, const char *meaning)
{
	str_printf(out, "%s%s\t%s\n", dashes, word, meaning);
}

static void complete_option(struct str *out, const struct command *c)
{
	for (const struct option *o = OPTIONS; o < OPTIONS + N_OPTIONS; o++)
		if (o->commands & c->options)
			complete_put(out, "--", o->name, o->help);
	complete_put(out, "--", "help", "print what the command does");
	if (c->options)
		complete_put(out, "--", "help-all", "print all options");
}

static void complete_value(struct str *out, const struct option *o)
{
	struct span value = span_of(o->value);
	if (o->names)
		o->names(out, "\n");
	for (const char *const *c = o->choices; c && *c; c++)
		if (**c)
			complete_put(out, "", *c, "");
	if (!out->n && span_starts(value, "DIR"))
		str_puts(out, ":directory");
	else if (!out->n && span_is(value, "FILE"))
		str_puts(out, ":file");
}

static void complete_argument(struct str *out, const struct command *c)
{
	struct span arguments = span_of(c->arguments ? c->arguments : "");
	if (c->run == cmd_schema)
		schema_names(out, "\n");
	else if (span_starts(arguments, "JOB"))
		str_puts(out, ":job");
	else if (span_starts(arguments, "FILE"))
		str_puts(out, ":file");
}

int cmd_complete(const struct command *c, struct options *o)
{
	STR_AUTO out = STR_INIT(WORDS_MAX);
	const char *const *word = o->files;
	const char *last = word[o->n_files - 1];
	const char *before = o->n_files > 1 ? word[o->n_files - 2] : "";
	size_t dashes = 1; /* the first "--", behind which is another command */
	const struct option *option = NULL;
	c = COMMANDS;
	while (c < COMMANDS + N_COMMANDS && strcmp(c->name, word[0]) != 0)
		c++;
	while (dashes + 1 < o->n_files && strcmp(word[dashes], "--") != 0)
		dashes++;
	if (strcmp(before, "-o") == 0)
		before = "--output";
	if (c < COMMANDS + N_COMMANDS && span_starts(span_of(before), "--"))
		option = option_find(span_of(before + 2), c->options);
	for (const struct command *k = COMMANDS; k < COMMANDS + N_COMMANDS; k++)
		if (o->n_files == 1 && k->summary)
			complete_put(&out, "", k->name, k->summary);
	if (o->n_files == 1)
		return command_print(str_view(&out));
	if (c == COMMANDS + N_COMMANDS)
		return EXIT_OK;
	if (dashes + 1 < o->n_files)
		str_puts(&out, dashes + 2 == o->n_files ? ":command" : ":file");
	else if (option && option->commands & c->options && option->type != OPTION_SWITCH)
		complete_value(&out, option);
	else if (last[0] == '-')
		complete_option(&out, c);
	else
		complete_argument(&out, c);
	return command_print(str_view(&out));
}
