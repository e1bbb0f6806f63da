#pragma once
/*
 * Builds the parts that commands need from options: translator, facts, HiveD configuration, user.
 *
 *	struct facts facts;
 *	struct translator *t = setup_translator(o, &o->arena, &e);
 *	if (!t || setup_facts(o, setup_user(o), &arena, &facts, &e) < 0)
 *		return print_error_notes(&e, o->facts, EXIT_USAGE);
 *	translator_free(t);
 *
 * Errors have file and line.  Called at start only, because it reads files.
 *
 * Thread: main
 */
#include "server/config/options.h"
#include "translate/translate.h"

struct facts_file;

/* A translator with the settings and templates of the options, whose texts live there and in the
 * arena; free with translator_free. NULL and *e with file and line. */
struct translator *setup_translator(const struct options *o, struct arena *a, struct err *e);

/* The file of --facts, in the arena; NULL and *e. */
struct facts_file *setup_facts_file(const struct options *o, struct arena *a, struct err *e);
/* The facts of --facts for a user, or the defaults; the texts live in the arena. */
int setup_facts(const struct options *o, const char *user, struct arena *a, struct facts *f,
                struct err *e);

/* The configuration of --hived-config, if any, into *f; it lives in the arena. */
int setup_hived(const struct options *o, struct arena *a, struct facts *f, struct err *e);

/* The login at the API server that the options name; see login_new. */
struct login *setup_login(const struct options *o, struct err *e);

/* options->user, else $USER if that is a user name, else "user". */
const char *setup_user(const struct options *o);

/* Prints an error to standard error, each note on a line: "rest-lit: FILE:LINE:COLUMN: text". file
 * may be NULL.  Returns `code`. */
int print_error_notes(const struct err *e, const char *file, int code);
/* Appends all notes: "FILE:LINE:COLUMN: text; ...".  Thread: any. */
void setup_put_error(struct str *out, const char *file, const struct err *e);

/* Refuses combinations of options that contradict each other or are not safe.  loopback,
 * output_loopback: of --listen and --output-listen (true if absent).  -1 and *e (400): the first.
 * Thread: any. */
int options_check(const struct options *o, bool loopback, bool output_loopback, struct err *e);

/* Jobs run on this machine: --local, and not --engine=none.  Thread: any. */
bool options_run_here(const struct options *o);

/* --keep-results in bytes; 0: none; -1: it is neither.  Thread: any. */
int64_t options_keep_results(const struct options *o);

/* --output-listen has TLS: --output-url is not the http:// of a test.  Thread: any. */
bool options_output_tls(const struct options *o);

/*
 * Reads pai-runtime for ConfigMaps (--runtime=configmap) into out->program: the files in
 * options->runtime_binary, one for each architecture, or the file pai-runtime beside this program
 * or in ../lib/rest-lit.  The texts live in the arena.  With --runtime=image, out->n_programs is 0.
 * -1 and *e (400).
 */
int runtime_programs_load(const struct options *o, struct arena *a, struct settings *out,
                          struct err *e);
/* The one program for this machine: options->runtime_binary, or that file, in the arena.  NULL and
 * *e (400): several files, or one that cannot be read. */
const char *runtime_program_path(const struct options *o, struct arena *a, struct err *e);
/* The architecture of a static 64-bit ELF program, as Kubernetes names it.  NULL and *e (400): not
 * a program, dynamically linked, incomplete, or of another machine.  Thread: any. */
const char *elf_check_arch(struct span file, struct err *e);
