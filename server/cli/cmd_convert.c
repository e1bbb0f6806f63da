/* rest-lit convert FILE: a job of any dialect as a v2 job. */
#include "server/cli/cli_internal.h"
#include "server/setup.h"
#include "server/system.h"
#include "translate/translate.h"

enum { FILE_MAX = 16 << 20, OUTPUT_MAX = 64 << 20 };

static int convert_text(const struct options *o, const struct translator *t, const char *file,
                        struct span text)
{
	ARENA_AUTO arena = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	NOTES_AUTO lost = { 0 };
	STR_AUTO out = STR_SECRET(OUTPUT_MAX);
	struct job *job = job_read(t, DIALECTS_ALL, text, setup_user(o), &arena, &warnings, &e);
	if (job)
		(void)job_convert(t, job, &warnings, &lost, &out, &e);
	command_notes(file, "warning: ", &warnings);
	command_notes(file, "warning: ", &lost);
	command_notes(file, "", &e.notes);
	return e.http ? EXIT_REFUSED : command_print(str_view(&out));
}

static int convert_file(const struct options *o)
{
	ERR_AUTO e = { 0 };
	FREE_AUTO char *text = NULL;
	size_t n;
	const char *file = strcmp(o->files[0], "-") == 0 ? "<stdin>" : o->files[0];
	struct translator *t = command_translator(o);
	if (!t)
		return EXIT_USAGE;
	int code = file_read(o->files[0], FILE_MAX, &text, &n, &e) < 0
	               ? complain(&e, NULL, EXIT_USAGE)
	               : convert_text(o, t, file, (struct span){ text, n });
	translator_free(t);
	return code;
}

int cmd_convert(const struct command *c, int argc, char **argv)
{
	struct options o;
	int code = command_options(c, &o, argc, argv);
	if (code < 0)
		code = o.n_files == 1 ? convert_file(&o) : command_usage(c, "name one file");
	options_done(&o);
	return code;
}
