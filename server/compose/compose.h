#pragma once
/*
 * Job files from what people give on the command line: a file and changes of it (job_text.c), a
 * command, a directory, the combinations of a sweep.  Nothing here sends requests.  Errors are for
 * people and name the option.  One thread.
 */
#include "base/err.h"
#include "base/str.h"
#include "server/config/options.h"

/* ---- job_text.c ---- */

struct job_text {
	const char *file; /* for messages */
	char *text;       /* allocated */
	size_t n;
	bool named; /* a file with a name that people can change */
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
 * Sets the member at a path of at most 8 keys, which ends with NULL, to a JSON value; where a
 * mapping is and the value is an object, its members one by one.  Missing mappings are made;
 * comments and the rest stay.  The result is read again: it has the value and no other difference.
 * -1 and *e, with the place in the text, which stays: it has mistakes, or this part of it cannot be
 * changed by a program.  No message has the value.
 *
 *	const char *const path[] = { "extras", "code", NULL };
 *	job_text_put(&t, path, SPAN("{\"path\":\"/a\"}"), e);
 */
int job_text_put(struct job_text *t, const char *const path[], struct span json, struct err *e);
