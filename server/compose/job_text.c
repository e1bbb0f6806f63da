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
	ERR_AUTO ignored = { 0 };
	struct budget budget = BUDGET_DEFAULT;
	return doc_read(text, &budget, a, doc, NULL, &ignored) == 0;
}

/* ---- places in a text ---- */

/* The byte at a line and a column, which counts characters; the end if the text is shorter. */
static size_t text_offset(struct span text, unsigned line, unsigned column)
{
	size_t i = span_starts(text, "\xef\xbb\xbf") ? 3 : 0;
	for (unsigned l = 1; l < line && i < text.n; i++)
		l += text.p[i] == '\n';
	for (unsigned c = 1; c < column && i < text.n; c++)
		for (i++; i < text.n && ((unsigned char)text.p[i] & 0xc0) == 0x80;)
			i++;
	return i;
}

/* The end of a scalar; SIZE_MAX: a list, a mapping, a block of lines, an alias, a tag. */
static size_t text_scalar_end(struct span text, const struct node *v)
{
	size_t at = text_offset(text, v->line, v->column);
	char first = (char)(at < text.n ? text.p[at] : 0);
	if (v->type == NODE_LIST || v->type == NODE_MAP || (first && strchr("|>&*!", first)))
		return SIZE_MAX;
	for (size_t i = at + 1; (first == '"' || first == '\'') && i < text.n; i++) {
		bool twice = first == '\'' && i + 1 < text.n && text.p[i + 1] == first;
		if (text.p[i] == first && !twice)
			return i + 1;
		i += first == '"' ? text.p[i] == '\\' : text.p[i] == first;
	}
	if (v->type != NODE_TEXT && v->type != NODE_DATE)
		return span_skip_class(text, at, "^ \t\r\n,}]");
	bool same = v->n <= text.n - at && memcmp(text.p + at, v->text, v->n) == 0;
	return same ? at + v->n : SIZE_MAX;
}

/* ---- changes ---- */

/* A part of a text and what takes its place. */
struct text_edit {
	size_t from, to; /* SIZE_MAX: not found */
	struct str fresh;
};

static void text_splice(struct job_text *t, const struct text_edit *edit)
{
	struct span text = { t->text, t->n };
	STR_AUTO out = STR_SECRET(text.n + edit->fresh.n + 1);
	str_span(&out, span_to(text, edit->from));
	str_span(&out, str_view(&edit->fresh));
	str_span(&out, span_from(text, edit->to));
	t->moved |= memchr(str_view(&edit->fresh).p, '\n', edit->fresh.n) != NULL;
	memory_wipe(t->text, t->n);
	free(t->text);
	t->n = out.n;
	t->text = str_take(&out);
}

const char *job_text_name(const struct job_text *t, struct arena *a)
{
	ARENA_SECRET arena = { 0 };
	struct doc doc = { 0 };
	if (!job_text_doc((struct span){ t->text, t->n }, &arena, &doc))
		return "";
	const struct dialect *d = dialect_of(&doc.root, DIALECTS_ALL);
	const struct node *name = d ? dialect_name_of(d, &doc.root) : NULL;
	return node_is(name, NODE_TEXT) ? arena_dup(a, node_span(name)) : "";
}

/* A short key could be a word that readers take for something else: yes, null. */
static void edit_put_key(struct str *out, const char *key, bool quoted)
{
	if (!quoted && strlen(key) > 5 && is_alnum(key[0]) && !is_digit(key[0]) &&
	    span_all(span_of(key), "A-Za-z0-9_-"))
		str_puts(out, key);
	else
		str_json(out, span_of(key));
	str_puts(out, ": ");
}

/* The value, within objects for the keys that are missing. */
static void edit_put_value(struct str *out, const char *const keys[], struct span json)
{
	size_t n = 0;
	for (; keys[n]; n++) {
		str_char(out, '{');
		edit_put_key(out, keys[n], true);
	}
	str_span(out, json);
	while (n-- > 0)
		str_char(out, '}');
}

/* A line break, and blanks up to a column. */
static void edit_put_break(struct text_edit *edit, struct span text, unsigned column)
{
	str_puts(&edit->fresh, span_find(text, 0, "\r\n") == SIZE_MAX ? "\n" : "\r\n");
	for (unsigned i = 1; i < column; i++)
		str_char(&edit->fresh, ' ');
}

/* Makes a new first member of a map. */
static void edit_insert(struct text_edit *edit, struct span text, const struct node *map,
                        const char *const keys[], struct span json)
{
	size_t at = text_offset(text, map->line, map->column);
	bool flow = at < text.n && text.p[at] == '{';
	size_t first =
	    map->n ? text_offset(text, map->member[0].key_line, map->member[0].key_column) : at + 1;
	edit->from = edit->to = flow || (map->n && first == at) ? first : SIZE_MAX;
	if (edit->to >= text.n)
		return;
	edit_put_key(&edit->fresh, keys[0], flow);
	edit_put_value(&edit->fresh, keys + 1, json);
	if (flow) {
		str_puts(&edit->fresh, map->n ? ", " : "");
		return;
	}
	edit_put_break(edit, text, map->column);
}

/* The second tree has the value at the path, and differs from the first in nothing else. */
static bool edit_is_right(const struct node *old, const struct node *fresh,
                          const char *const path[], const struct node *value)
{
	if (!*path)
		return node_equal(fresh, value);
	if (!node_is(fresh, NODE_MAP))
		return false;
	const struct node *before = node_is(old, NODE_MAP) ? node_get(old, *path) : NULL;
	for (uint32_t i = 0; node_is(old, NODE_MAP) && i < old->n; i++) {
		const struct member *now = node_member(fresh, member_key(&old->member[i]));
		if (!now || (&old->member[i].value != before &&
		             !node_equal(&old->member[i].value, &now->value)))
			return false;
	}
	return fresh->n == (node_is(old, NODE_MAP) ? old->n : 0) + !before &&
	       edit_is_right(before, node_get(fresh, *path), path + 1, value);
}

/* Makes the change, and keeps it if the text then has the value at the path and nothing else is
 * another. */
static bool edit_try(struct job_text *t, const struct text_edit *edit, const struct node *old,
                     const char *const path[], const struct node *value)
{
	ARENA_SECRET arena = { 0 };
	struct doc fresh = { 0 };
	struct job_text changed = *t;
	changed.text = xstrndup(t->text, t->n);
	text_splice(&changed, edit);
	bool right = job_text_doc((struct span){ changed.text, changed.n }, &arena, &fresh) &&
	             edit_is_right(old, &fresh.root, path, value);
	job_text_wipe(right ? t : &changed);
	if (right)
		*t = changed;
	return right;
}

/* The list with the item of a list of one before its own, in the arena. */
static const struct node *edit_longer(const struct node *list, const struct node *one,
                                      struct arena *a)
{
	struct node *longer = ARENA_NEW(a, struct node, 1);
	struct node *item = ARENA_NEW(a, struct node, list->n + 1);
	item[0] = one->item[0];
	for (uint32_t i = 0; i < list->n; i++)
		item[i + 1] = list->item[i];
	*longer = (struct node){ .type = NODE_LIST, .n = list->n + 1, .item = item };
	return longer;
}

/* Writes the item of a list of one, which is JSON, before those of a list. */
static void edit_prepend(struct text_edit *edit, struct span text, const struct node *list,
                         struct span json)
{
	size_t at = text_offset(text, list->line, list->column);
	bool flow = at < text.n && text.p[at] == '[';
	if (!flow && (at >= text.n || text.p[at] != '-'))
		return;
	edit->from = edit->to = at + flow;
	str_puts(&edit->fresh, flow ? "" : "- ");
	str_span(&edit->fresh, span_from(span_to(json, json.n - 1), 1));
	if (flow)
		str_puts(&edit->fresh, list->n ? ", " : "");
	else
		edit_put_break(edit, text, list->column);
}

int job_text_change(struct job_text *t, const char *const path[], struct span json, bool add,
                    struct err *e)
{
	ARENA_SECRET arena = { 0 };
	struct doc doc = { 0 };
	struct span text = { t->text, t->n };
	struct budget budget = BUDGET_DEFAULT;
	struct text_edit edit = { .to = SIZE_MAX, .fresh = STR_SECRET(SUBMIT_FILE_MAX) };
	if (doc_read(text, &budget, &arena, &doc, NULL, e) < 0)
		return -1;
	const struct node *value = doc_quiet(json, &budget, &arena);
	const struct node *at = &doc.root;
	size_t i = 0;
	for (const struct node *next; path[i] && (next = node_get(at, path[i])); i++)
		at = next;
	if (path[i] && node_is(at, NODE_MAP)) {
		edit_insert(&edit, text, at, path + i, json);
	} else if (add && !path[i] && node_is(at, NODE_LIST)) {
		edit_prepend(&edit, text, at, json);
		value = edit_longer(at, value, &arena);
	} else if (i && (!path[i] || node_is(at, NODE_NULL))) {
		edit.from = text_offset(text, at->line, at->column);
		edit.to = text_scalar_end(text, at);
		str_puts(&edit.fresh, edit.from && text.p[edit.from - 1] == ':' ? " " : "");
		edit_put_value(&edit.fresh, path + i, json);
	}
	bool done = value && edit.to <= text.n && edit_try(t, &edit, &doc.root, path, value);
	str_wipe(&edit.fresh);
	if (done)
		return 0;
	STR_AUTO name = STR_INIT(AT_MAX);
	for (i = 0; path[i]; i++)
		str_printf(&name, "%s%s", i ? "." : "", path[i]);
	return err_at(e, 400, NULL, (struct place){ NULL, at->line, at->column },
	              "%s cannot be changed here; write it by hand, or write %s as a plain mapping "
	              "and its values on one line, without anchors, aliases and tags",
	              str_c(&name), path[0]);
}

int job_text_put(struct job_text *t, const char *const path[], struct span json, struct err *e)
{
	return job_text_change(t, path, json, false, e);
}

int job_text_rename(struct job_text *t, const char *name, struct err *e)
{
	ARENA_SECRET arena = { 0 };
	struct doc doc = { 0 };
	if (!job_text_doc((struct span){ t->text, t->n }, &arena, &doc))
		return 0;
	const struct dialect *d = dialect_of(&doc.root, DIALECTS_ALL);
	const char *key = d ? d->name_key : "name";
	const char *const path[] = { d && d->name_in ? d->name_in : key,
		                     d && d->name_in ? key : NULL, NULL };
	STR_AUTO json = STR_INIT(AT_MAX);
	str_json(&json, span_of(name));
	return job_text_put(t, path, str_view(&json), e);
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
