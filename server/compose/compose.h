#pragma once
/*
 * Job files from what people give on the command line: a file and changes of it (job_text.c), a
 * command, a directory, the combinations of a sweep.  Nothing here sends requests.  Errors are for
 * people and name the option.
 *
 * Thread: main
 */
#include "base/code/code.h"
#include "base/err.h"
#include "base/str.h"
#include "machine/resources/amounts.h"
#include "server/config/options.h"

/* ---- job_text.c ---- */

struct job_text {
	const char *file; /* for messages */
	char *text;       /* allocated */
	size_t n;
	bool named;  /* a file with a name that people can change */
	bool quoted; /* of a command: parameters are in single quotes of a shell */
	bool moved;  /* lines were added: they are no longer those of the file */
};

/* Reads o->files[0].  -1 and *e.  The caller calls job_text_wipe in any case. */
enum { SUBMIT_FILE_MAX = 16 << 20 };
int job_text_read(struct job_text *t, const struct options *o, struct err *e);
void job_text_wipe(struct job_text *t); /* it may have secrets */
/* Reads the text as a document, in the arena; the server explains its mistakes. */
struct doc;
bool job_text_doc(struct span text, struct arena *a, struct doc *doc);
/* Writes another name into the text.  An invalid text stays: the server explains it.  -1 and *e. */
int job_text_rename(struct job_text *t, const char *name, struct err *e);
/*
 * Sets the member at a path, which ends with NULL, to a JSON value.  Missing mappings are made;
 * comments and the rest stay.  The result is read again: it has the value and no other difference.
 * -1 and *e, with the place in the text, which stays: it has mistakes, or this part of it cannot be
 * changed by a program.  No message has the value.
 *
 *	const char *const path[] = { "extras", "code", "path", NULL };
 *	job_text_put(&t, path, SPAN("\"/a\""), e);
 */
int job_text_put(struct job_text *t, const char *const path[], struct span json, struct err *e);
/* Its name; "" if the text has none.  In the arena. */
const char *job_text_name(const struct job_text *t, struct arena *a);

/* ---- vary.c ---- */

/* Reads the text as a document, in the arena.  option: for messages.  -1 and *e: it has mistakes,
 * or is no v2 job. */
int job_text_v2(const struct job_text *t, const char *option, struct arena *a, struct doc *doc,
                struct err *e);
/* Gives a parameter of a v2 job a value, a scalar as YAML has it.  option: for messages.  -1 and
 * *e: no v2 job, no such parameter, which names those that there are, no scalar. */
int job_text_set(struct job_text *t, const char *option, struct span name, struct span value,
                 struct err *e);
/* --name, --set, --env and --secret.  -1 and *e; a place is one in the text. */
int job_text_vary(struct job_text *t, const struct options *o, struct err *e);
/* The stored form of a job, in the arena: the text; with secrets, it is written anew with "******"
 * in their places.  -1 and *e: it is no valid job. */
int job_text_shown(const struct job_text *t, const struct options *o, struct arena *a,
                   struct span *out, struct err *e);

/* ---- sweep.c ---- */

enum { SWEEP_MAX = 200 };

/* The jobs of --sweep; without it n_values is 0, and it is one job with the name it has. */
struct sweep {
	struct sweep_values *values;
	size_t n_values, n;
	const char **name;
};

/* base: the common beginning of the names.  -1 and *e: the form, the number, a name that is too
 * long or occurs twice. */
int sweep_read(struct sweep *s, const struct options *o, const char *base, struct arena *a,
               struct err *e);
/* Writes the values and the name of a job (from 0) into a copy of the text.  The caller calls
 * job_text_wipe in any case. */
int sweep_apply(const struct sweep *s, size_t job, const struct job_text *t, struct job_text *out,
                struct err *e);

/* ---- command_job.c ---- */

/* The place where a command shall run. */
struct command_place {
	const char *image;      /* IMAGE_OF_HOST: none, the files of the machine */
	struct amounts machine; /* zeros: those of a cluster, which is not known */
	bool alone;             /* no other job is counted there: without GPUs there is no limit */
	bool results;           /* the job asks for a directory for them; o->results: always */
};

/*
 * Makes the job file of o->command: a v2 job of one task, with what o asks for.  The task executes
 * exactly these words; in them, `<% $parameters.NAME %>` of --set and --sweep remains, and these
 * parameters are null.  A --secret is a variable; `<% $secrets.NAME %>` of it is refused.  Without
 * --gpus it gets 4 CPUs and 8 GiB, with it so much for each GPU, on a known machine the share of
 * its GPUs.  -1 and *e.  The caller calls job_text_wipe in any case.
 */
int compose_command(struct job_text *t, const struct options *o, const struct command_place *place,
                    struct err *e);
/* Refuses options for a command beside a file.  -1 and *e. */
int compose_check_file(const struct options *o, struct err *e);
/* The current directory, in the arena; NULL and *e: it is the home directory or above it, unless
 * `any` may be used.  way: an option that names another one, for the message. */
const char *compose_directory(bool any, const char *way, struct arena *a, struct err *e);

/* ---- directory.c ---- */

/* The bytes and entries that a server takes. */
struct code_room {
	int64_t packed, unpacked, entries;
};

/* The files of a directory as an archive. */
struct code_pack {
	struct str packed; /* the caller's */
	struct code_facts facts;
	char commit[CODE_SHA + 1]; /* of git; "": no repository, or nothing is committed */
	bool changed;              /* there are other files */
};

/*
 * Packs a directory (docs/CODE.md has the rules): in a git repository the files that git lists,
 * else all; without those of .rest-litignore, and without the entry `results` (NULL: there is
 * none), where tasks find the results.  Runs git.  Twice the same files give the same hash.  Files
 * that may be secrets are left out with a warning.  -1 and *e (400 with all mistakes; 413: there is
 * more than room, with the largest files).
 */
int directory_pack(const char *name, const char *results, const struct code_room *room,
                   struct code_pack *out, struct notes *warnings, struct err *e);
