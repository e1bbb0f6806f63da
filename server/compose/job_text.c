/* The text of a job: reading, and changes that keep the rest of it. */
#include "server/compose/compose.h"

#include <stdlib.h>
#include <string.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "server/config/system.h"
#include "translate/job/dialect.h"

bool job_text_doc(struct span text, struct arena *a, struct doc *doc)
{
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO ignored = { 0 };
	struct budget budget = BUDGET_DEFAULT;
	return doc_read(text, &budget, a, doc, &warnings, &ignored) == 0;
}

/* The bytes of a scalar and its quotes; n is 0 if it is written with escapes, anchors and so on. */
static struct span submit_scalar(struct span text, const struct node *v)
{
	const struct span none = { text.p, 0 };
	size_t i = span_starts(text, "\xef\xbb\xbf") ? 3 : 0;
	for (unsigned line = 1; line < v->line && i < text.n; i++)
		line += text.p[i] == '\n';
	for (unsigned column = 1; column < v->column && i < text.n; column++)
		for (i++; i < text.n && ((unsigned char)text.p[i] & 0xc0) == 0x80;)
			i++;
	bool quoted = i < text.n && (text.p[i] == '"' || text.p[i] == '\'');
	size_t end = i + quoted + v->n;
	if (end + quoted > text.n || memcmp(text.p + i + quoted, v->text, v->n) != 0)
		return none;
	if (quoted && text.p[end] != text.p[i])
		return none;
	return (struct span){ text.p + i, end + quoted - i };
}

int job_text_rename(struct job_text *t, const char *name, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	struct doc doc = { 0 };
	struct span text = { t->text, t->n };
	if (!job_text_doc(text, &arena, &doc))
		return 0;
	const struct dialect *d = dialect_of(&doc.root, DIALECTS_ALL);
	const struct node *old = d ? dialect_name_of(d, &doc.root) : node_get(&doc.root, "name");
	bool known = node_is(old, NODE_TEXT) && !(old->flags & NODE_ALIASED);
	struct span at = known ? submit_scalar(text, old) : (struct span){ text.p, 0 };
	if (at.n == 0)
		return err_set(e, 400, NULL,
		               "--name: no name is found in %s that can be replaced; write it as "
		               "name: NAME",
		               t->file);
	size_t before = (size_t)(at.p - text.p);
	STR_AUTO fresh = STR_SECRET(text.n + strlen(name) + 2);
	str_span(&fresh, span_to(text, before));
	str_json(&fresh, span_of(name));
	str_span(&fresh, span_from(text, before + at.n));
	memory_wipe(t->text, t->n);
	free(t->text);
	t->n = fresh.n;
	t->text = str_take(&fresh);
	return 0;
}

int job_text_read(struct job_text *t, const struct options *o, struct err *e)
{
	*t = (struct job_text){ .file = o->files[0], .named = true };
	if (strcmp(t->file, "-") == 0)
		*t = (struct job_text){ .file = "<stdin>" };
	return file_read_or_stdin(o->files[0], SUBMIT_FILE_MAX, &t->text, &t->n, e);
}

void job_text_wipe(struct job_text *t)
{
	if (t->text)
		memory_wipe(t->text, t->n);
	free(TAKE(t->text));
}
