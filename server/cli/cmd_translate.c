/* rest-lit translate, convert and validate: job files, without a server. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "schema/schema.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/config/system.h"
#include "server/submit/submit.h"

enum { FILE_MAX = 16 << 20, OUTPUT_MAX = 512 << 20, PIECE = 32 << 10 };

static void new_line(struct str *out, size_t level)
{
	static const char SPACES[] = "                                ";
	str_char(out, '\n');
	for (size_t left = 2 * level, n; left; left -= n) {
		n = left < sizeof(SPACES) - 1 ? left : sizeof(SPACES) - 1;
		str_put(out, SPACES, n);
	}
}

/* Valid JSON without spaces, with a line for each member and item.  It is printed in pieces: a
 * large buffer costs more than the calls, because each of its pages is new.  EXIT_OK, or not. */
static int print_json(struct span json)
{
	STR_AUTO out = STR_INIT(OUTPUT_MAX);
	size_t level = 0;
	for (size_t i = 0, n; i < json.n; i += n) {
		char c = json.p[i];
		bool opens = c == '{' || c == '[';
		bool closes = c == '}' || c == ']';
		for (n = 1; c == '"' && json.p[i + n] != '"'; n++) /* to the end of a string */
			n += json.p[i + n] == '\\';
		n += c == '"';
		level -= closes;
		if (closes && json.p[i - 1] != c - 2) /* not within {} and [] */
			new_line(&out, level);
		str_put(&out, json.p + i, n);
		level += opens;
		if (c == ',' || (opens && json.p[i + 1] != c + 2))
			new_line(&out, level);
		else if (c == ':')
			str_char(&out, ' ');
		if (out.n < PIECE)
			continue;
		if (command_print(str_view(&out)) != EXIT_OK)
			return EXIT_REFUSED;
		out.n = 0;
	}
	str_char(&out, '\n');
	return command_print(str_view(&out));
}

static int translate_text(const struct options *o, const struct translator *t, struct span text,
                          struct err *e)
{
	ARENA_AUTO arena = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct facts facts;
	struct objects objects;
	const char *file = strcmp(o->files[0], "-") == 0 ? "<stdin>" : o->files[0];
	if (setup_facts(o, setup_user(o), &arena, &facts, e) < 0)
		return print_error_notes(e, o->facts, EXIT_USAGE);
	if (setup_hived(o, &arena, &facts, e) < 0)
		return print_error_notes(e, o->hived_config, EXIT_USAGE);
	if (facts.submitted_ms == 0) /* not in --facts */
		facts.submitted_ms = (int64_t)time(NULL) * 1000;
	struct job *job = job_read(t, DIALECTS_ALL, text, setup_user(o), &arena, &warnings, e);
	if (job) {
		submit_key_seed(job, &arena, &facts);
		job_warn(job, &facts, &warnings);
	}
	command_notes(file, "warning: ", &warnings);
	if (!job || job_build(t, job, &facts, NULL, &arena, &objects, e) < 0) {
		command_notes(file, "", &e->notes);
		return EXIT_REFUSED;
	}
	STR_AUTO list = STR_INIT(OUTPUT_MAX);
	STR_AUTO programs = STR_INIT(OUTPUT_MAX);
	struct object program;
	for (size_t i = 0; o->with_runtime && runtime_object(t, i, &arena, &program); i++) {
		str_puts(&programs, i ? "," : "");
		str_span(&programs, program.body);
	}
	list_json(&list, str_view(&programs), &objects);
	str_char(&list, '}');
	if (strcmp(o->output, "yaml") != 0)
		return print_json(str_view(&list));
	STR_AUTO out = STR_INIT(OUTPUT_MAX);
	list_yaml(&out, str_view(&list));
	return command_print(str_view(&out));
}

static int convert_text(const struct options *o, const struct translator *t, struct span text,
                        struct err *e)
{
	ARENA_AUTO arena = { 0 };
	NOTES_AUTO warnings = { 0 };
	NOTES_AUTO lost = { 0 };
	STR_AUTO out = STR_SECRET(OUTPUT_MAX);
	const char *file = strcmp(o->files[0], "-") == 0 ? "<stdin>" : o->files[0];
	struct job *job = job_read(t, DIALECTS_ALL, text, setup_user(o), &arena, &warnings, e);
	if (job)
		(void)job_convert(t, job, &warnings, &lost, &out, e);
	command_notes(file, "warning: ", &warnings);
	command_notes(file, "warning: ", &lost);
	command_notes(file, "", &e->notes);
	return e->http ? EXIT_REFUSED : command_print(str_view(&out));
}

typedef int text_user(const struct options *o, const struct translator *t, struct span text,
                      struct err *e);

static int translate_command(const struct command *c, struct options *o, text_user *use)
{
	ERR_AUTO e = { 0 };
	FREE_AUTO char *text = NULL;
	size_t n;
	if (strcmp(o->output, "table") == 0)
		return command_usage(c, "--output: json or yaml");
	struct translator *t = command_translator(o);
	if (!t)
		return EXIT_USAGE;
	int code = file_read_or_stdin(o->files[0], FILE_MAX, &text, &n, &e) < 0
	               ? print_error_notes(&e, NULL, EXIT_USAGE)
	               : use(o, t, (struct span){ text, n }, &e);
	translator_free(t);
	return code;
}

int cmd_translate(const struct command *c, struct options *o)
{
	return translate_command(c, o, translate_text);
}

int cmd_convert(const struct command *c, struct options *o)
{
	return translate_command(c, o, convert_text);
}

enum { REPORT_MAX = 1 << 20 };

static void print_findings(const char *file, struct err *e, struct notes *warnings)
{
	STR_AUTO out = STR_INIT(REPORT_MAX);
	notes_sort(&e->notes);
	notes_sort(warnings);
	/* Both by place, at the same place the error first. */
	for (size_t i = 0, w = 0; i < e->notes.n || w < warnings->n;) {
		const struct note *error = i < e->notes.n ? &e->notes.v[i] : NULL;
		const struct note *warning = w < warnings->n ? &warnings->v[w] : NULL;
		bool first =
		    error && (!warning || error->line < warning->line ||
		              (error->line == warning->line && error->column <= warning->column));
		note_line(&out, file, first ? "" : "warning: ", first ? error : warning);
		i += first;
		w += !first;
	}
	if (e->notes.dropped)
		str_printf(&out, "%s: and %zu more\n", file, e->notes.dropped);
	if (warnings->dropped)
		str_printf(&out, "%s: warning: and %zu more\n", file, warnings->dropped);
	if (!e->http)
		str_printf(&out, "%s: valid\n", file);
	(void)command_print(str_view(&out)); /* the exit code reports errors anyway */
}

static int validate_file(const struct translator *t, const char *user, const char *file)
{
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	ARENA_AUTO arena = { 0 };
	FREE_AUTO char *text = NULL;
	size_t n;
	const char *shown = strcmp(file, "-") == 0 ? "<stdin>" : file;
	if (file_read_or_stdin(file, FILE_MAX, &text, &n, &e) < 0)
		return print_error_notes(&e, NULL, EXIT_USAGE);
	(void)job_read(t, DIALECTS_ALL, (struct span){ text, n }, user, &arena, &warnings, &e);
	print_findings(shown, &e, &warnings);
	return e.http ? EXIT_REFUSED : EXIT_OK;
}

int cmd_validate(const struct command *c, struct options *o)
{
	(void)c;
	ERR_AUTO e = { 0 };
	ARENA_AUTO arena = { 0 };
	struct facts facts = { 0 };
	struct translator *t = command_translator(o);
	if (!t)
		return EXIT_USAGE;
	/* Only checks the file: jobs are not built. */
	bool hived_ok = setup_hived(o, &arena, &facts, &e) == 0;
	int worst = hived_ok ? EXIT_OK : print_error_notes(&e, o->hived_config, EXIT_USAGE);
	for (size_t i = 0; hived_ok && i < o->n_files; i++) {
		int code = validate_file(t, setup_user(o), o->files[i]);
		worst = code > worst ? code : worst;
	}
	translator_free(t);
	return worst;
}
