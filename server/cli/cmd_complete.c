/*
 * rest-lit complete WORD...: what a shell offers for the last word of a command line, in lines of a
 * word, a tab and its meaning; or one of :command, :directory and :file, which the shell knows.
 * packaging/completion.* call it.  Names of jobs and tags come from the server of the environment,
 * within a second, else there are none.
 */
#include "jobs/store/paths.h"
#include "server/cli/cli_internal.h"
#include "server/serve/routes.h"

enum { WORDS_MAX = 64 << 10, PATH_LIMIT = 4096 };

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

/* ---- words from a server ---- */

struct complete_wanted {
	struct str *out;
	const char *last; /* the beginning of a job's name; NULL: tags are wanted */
};

/* Shells expand other characters of a word. */
static bool complete_safe(struct span word)
{
	return word.n && span_all(word, "A-Za-z0-9._~-");
}

static void complete_put_job(struct str *out, struct span row, const char *user, struct arena *a)
{
	struct span owner = scan_text(scan_get(row, "username"), a);
	struct span name = scan_text(scan_get(row, "name"), a);
	if (!complete_safe(owner) || !complete_safe(name))
		return;
	str_printf(out, "%.*s~%.*s\n", (int)owner.n, owner.p, (int)name.n, name.p);
	if (span_is(owner, user))
		str_printf(out, "%.*s\n", (int)name.n, name.p);
}

static void complete_put_tags(struct str *out, struct span row, struct arena *a)
{
	struct scan walk = scan_begin(scan_get(row, "tags"));
	for (struct span item; scan_item(&walk, &item);) {
		struct span tag = scan_text(item, a);
		const char *line = arena_printf(a, "\n%.*s\n", (int)tag.n, tag.p);
		bool there = strstr(str_c(out), line) || span_starts(str_view(out), line + 1);
		str_puts(out, complete_safe(tag) && !there ? line + 1 : "");
	}
}

/* Appends words of the newest jobs that have the beginning of the name, or of USER~, in them. */
static int complete_ask(struct remote *r, const void *arg, struct err *e)
{
	const struct complete_wanted *w = arg;
	ARENA_AUTO arena = { 0 };
	REPLY_AUTO reply = { 0 };
	STR_AUTO path = STR_INIT(PATH_LIMIT);
	struct span rows;
	struct span name = span_of(w->last ?: "");
	struct span user = span_next(&name, '~');
	const char *self = w->last ? remote_user(r, &arena, e) : "";
	str_puts(&path, "/api/v2/jobs?limit=50&keyword=");
	query_encode(&path, name.n ? name : user);
	if (!self || remote_get(r, str_c(&path), &reply, &rows, e) < 0)
		return -1;
	struct scan walk = scan_begin(rows);
	for (struct span row; scan_item(&walk, &row);) {
		if (w->last)
			complete_put_job(w->out, row, self, &arena);
		else
			complete_put_tags(w->out, row, &arena);
	}
	return EXIT_OK;
}

static void complete_remote(struct str *out, const char *last)
{
	ERR_AUTO e = { 0 };
	struct options o = { 0 };
	bool good = options_parse(&o, FOR_JOBS, 0, NULL, &e) == 0;
	o.timeout_s = 1;
	if (good)
		(void)remote_run(&o, NULL, complete_ask, &(struct complete_wanted){ out, last });
	arena_done(&o.arena);
}

/* ---- words of the tables ---- */

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
	else if (span_is(value, "TAG"))
		complete_remote(out, NULL);
	else if (!out->n && span_is(value, "FILE"))
		str_puts(out, ":file");
}

static void complete_argument(struct str *out, const struct command *c, const char *last)
{
	struct span arguments = span_of(c->arguments ? c->arguments : "");
	if (c->run == cmd_schema)
		schema_names(out, "\n");
	else if (span_starts(arguments, "JOB"))
		complete_remote(out, last);
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
	c = command_find(word[0]);
	while (dashes + 1 < o->n_files && strcmp(word[dashes], "--") != 0)
		dashes++;
	if (strcmp(before, "-o") == 0)
		before = "--output";
	if (c && span_starts(span_of(before), "--"))
		option = option_find(span_of(before + 2), c->options);
	for (const struct command *k = COMMANDS; k < COMMANDS + N_COMMANDS; k++)
		if (o->n_files == 1 && k->summary)
			complete_put(&out, "", k->name, k->summary);
	if (o->n_files == 1)
		return command_print(str_view(&out));
	if (!c)
		return EXIT_OK;
	if (dashes + 1 < o->n_files)
		str_puts(&out, dashes + 2 == o->n_files ? ":command" : ":file");
	else if (option && option->commands & c->options && option->type != OPTION_SWITCH)
		complete_value(&out, option);
	else if (last[0] == '-')
		complete_option(&out, c);
	else
		complete_argument(&out, c, last);
	return command_print(str_view(&out));
}
