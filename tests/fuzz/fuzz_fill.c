/*
 * The first line of the input is YAML, the values of parameters and secrets; the rest is a text
 * with references.  It fills to the same twice, text without marks stays as it is, and neither way
 * of filling ever tells a value in its error.
 */
#include "runtime-assets/init/init.h"
#include "tests/fuzz/fuzz.h"

enum { OUT_MAX = 1 << 20 };

typedef int filler(const struct init_job *j, struct span text, struct str *out, struct err *e);

static void check(filler *fill, const struct init_job *j, struct span text)
{
	STR_AUTO one = STR_INIT(OUT_MAX);
	STR_AUTO two = STR_INIT(OUT_MAX);
	ERR_AUTO e = { 0 };
	ERR_AUTO again = { 0 };
	int failed = fill(j, text, &one, &e);
	assert(fill(j, text, &two, &again) == failed);
	assert(span_eq(str_view(&one), str_view(&two)));
	assert(strcmp(err_msg(&e), err_msg(&again)) == 0);
	/* Values are found in errors only if the text itself has them. */
	if (span_find(text, 0, "PLANTED") == SIZE_MAX)
		assert(strstr(err_msg(&e), "PLANTED") == NULL);
	if (span_find(text, 0, "<%") == SIZE_MAX)
		assert(!failed && span_eq(str_view(&one), text));
	if (failed)
		assert(*err_msg(&e));
}

static void check_tree(const struct init_job *j, const struct node *tree, struct arena *a)
{
	ERR_AUTO e = { 0 };
	struct node filled = { .n = 77 };
	if (job_fill_tree(j, tree, a, &filled, &e))
		assert(filled.n == 77 && *err_msg(&e));
	else
		assert(filled.type == tree->type &&
		       (filled.type == NODE_TEXT || filled.n == tree->n));
}

FUZZ(all)
{
	size_t line = span_find(all, 0, "\n");
	if (line == SIZE_MAX || memchr(all.p, 0, all.n))
		return;
	struct span text = { all.p + line + 1, all.n - line - 1 };
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc values = { 0 };
	if (doc_read((struct span){ all.p, line }, &BUDGET_DEFAULT, &a, &values, NULL, &e))
		return;
	struct member member = { .key = "parameters", .key_n = 10, .value = values.root };
	struct init_job j = { .secrets = &values.root };
	j.doc.root = (struct node){ .type = NODE_MAP, .n = 1, .member = &member };
	check(job_fill, &j, text);
	check(job_fill_secrets, &j, text);
	check_tree(&j, &values.root, &a);
}
