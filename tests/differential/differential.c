/*
 * What we say of many jobs.  In: documents, each as its length in bytes, a line feed, and the
 * bytes.  Out: a line each, the list of notes as JSON; [] if the job is accepted.
 *
 * Run in the top folder of the source tree.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "schema/schema.h"
#include "tests/lib/setting.h"

static void judge(const struct setting *s, struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	json_t *notes = json_array();
	(void)job_read(s->translator, DIALECT_V2, text, TEST_USER, &a, &warnings, &e);
	for (size_t i = 0; i < e.notes.n; i++) {
		const struct note *n = &e.notes.v[i];
		(void)json_array_append_new(notes, json_pack("[s,s]", n->at ? n->at : "", n->msg));
	}
	(void)json_dumpf(notes, stdout, JSON_COMPACT);
	(void)putchar('\n');
	json_decref(notes);
}

int main(void)
{
	struct setting s;
	setting_init(&s, SETTING_BASE);
	size_t n;
	while (scanf("%zu", &n) == 1 && getchar() == '\n') { /* NOLINT(cert-err34-c): our own */
		FREE_AUTO char *text = xmalloc(n + 1);
		if (fread(text, 1, n, stdin) != n)
			return 1;
		judge(&s, (struct span){ text, n });
	}
	setting_done(&s);
	return ferror(stdin) || fflush(stdout) ? 1 : 0;
}
