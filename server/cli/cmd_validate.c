/* rest-lit validate FILE...: all errors of all files, by line. */
#include <stdio.h>
#include <stdlib.h>

#include "schema/schema.h"
#include "server/cli/cli_internal.h"
#include "server/config/setup.h"
#include "server/config/system.h"

enum { FILE_MAX = 16 << 20, OUTPUT_MAX = 1 << 20 };

static void print_findings(const char *file, struct err *e, struct notes *warnings)
{
	STR_AUTO out = STR_INIT(OUTPUT_MAX);
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
