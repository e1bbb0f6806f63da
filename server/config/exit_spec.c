/* Reads the exit specification into entries that are JSON already, and into words about ends. */
#include "server/config/exit_spec.h"

#include <stdlib.h>

#include "base/doc/tree.h"
#include "base/embed.h"
#include "server/config/system.h"

EMBED(exit_spec, "runtime-assets/k8s-job-exit-spec.yaml");

/* A solution of the built-in specification that applies only while the controller retries. */
#define WAIT_FOR_NEXT "Wait for the next attempt"

enum {
	FILE_MAX = 1 << 20,
	ENTRY_MAX = 64 << 10, /* bytes of an entry as JSON */
	WORDS_MAX = 256,      /* further ones are left out */
	ANY_FAILURE = 256,    /* entry for codes above 0 that have none */
	ANY_OTHER = -8000,    /* entry for other codes that have none */
};

struct exit_entry {
	int64_t code;
	/* The JSON after the code: `,"phrase":"Succeeded","issuer":...}`; and the same for a final
	 * result, without WAIT_FOR_NEXT. */
	struct span rest, rest_final;
};

struct exit_spec {
	struct arena arena;
	struct exit_entry *v; /* by code */
	size_t n;
	const struct exit_entry *any_failure, *any_other;
	struct exit_word *word;
	size_t words;
};

static int exit_spec_compare_codes(const void *a, const void *b)
{
	int64_t x = ((const struct exit_entry *)a)->code;
	int64_t y = ((const struct exit_entry *)b)->code;
	return (x > y) - (x < y);
}

const struct exit_entry *exit_spec_find(const struct exit_spec *s, int64_t code)
{
	const struct exit_entry key = { .code = code };
	return bsearch(&key, s->v, s->n, sizeof(*s->v), exit_spec_compare_codes);
}

/* Members that clients need.  Other members are copied unchecked. */
static const struct {
	const char *key;
	enum node_type type;
	bool required;
} MEMBERS[] = {
	{ "code", NODE_INT, true },       { "phrase", NODE_TEXT, true },
	{ "type", NODE_TEXT, false },     { "issuer", NODE_TEXT, false },
	{ "causer", NODE_TEXT, false },   { "stage", NODE_TEXT, false },
	{ "behavior", NODE_TEXT, false }, { "reaction", NODE_TEXT, false },
	{ "reason", NODE_TEXT, false },   { "repro", NODE_LIST, false },
	{ "solution", NODE_LIST, false }, { "pattern", NODE_MAP, false },
};

static int exit_spec_check_members(const struct node *n, const struct path *at, struct arena *a,
                                   struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(MEMBERS); i++) {
		const struct node type = { .type = (uint8_t)MEMBERS[i].type };
		const struct path here = PATH_KEY(at, span_of(MEMBERS[i].key));
		const struct node *v = node_get(n, MEMBERS[i].key);
		if (!v && MEMBERS[i].required)
			return err_at(e, INVALID_PARAMETERS, path_place(a, at, n), "%s is missing",
			              MEMBERS[i].key);
		if (v && v->type != type.type)
			return err_at(e, INVALID_PARAMETERS, path_place(a, &here, v),
			              "must be %s, is %s", node_type_name(&type),
			              node_type_name(v));
		for (uint32_t k = 0; v && v->type == NODE_LIST && k < v->n; k++)
			if (v->item[k].type != NODE_TEXT)
				return err_at(e, INVALID_PARAMETERS, path_place(a, &here, v),
				              "must be a list of texts");
	}
	return 0;
}

/* final: solutions are without WAIT_FOR_NEXT. */
static void exit_spec_write_rest(struct str *out, const struct node *n, bool final)
{
	for (uint32_t i = 0; i < n->n; i++) {
		const struct node *value = &n->member[i].value;
		if (span_is(member_key(&n->member[i]), "code"))
			continue;
		str_char(out, ',');
		str_json(out, member_key(&n->member[i]));
		str_char(out, ':');
		if (!final || !span_is(member_key(&n->member[i]), "solution")) {
			node_json(out, value);
			continue;
		}
		const char *between = "[";
		for (uint32_t k = 0; k < value->n; k++) {
			if (span_is(node_span(&value->item[k]), WAIT_FOR_NEXT))
				continue;
			str_puts(out, between);
			node_json(out, &value->item[k]);
			between = ",";
		}
		str_puts(out, *between == '[' ? "[]" : "]");
	}
	str_char(out, '}');
}

static int exit_spec_read_entry(const struct node *n, const struct path *at, struct exit_spec *s,
                                struct err *e)
{
	if (!node_is(n, NODE_MAP))
		return err_at(e, INVALID_PARAMETERS, path_place(&s->arena, at, n),
		              "must be a mapping, is %s", node_type_name(n));
	if (exit_spec_check_members(n, at, &s->arena, e) < 0)
		return -1;
	STR_AUTO text = STR_INIT(ENTRY_MAX);
	STR_AUTO final = STR_INIT(ENTRY_MAX);
	exit_spec_write_rest(&text, n, false);
	exit_spec_write_rest(&final, n, true);
	if (text.full)
		return err_at(e, INVALID_PARAMETERS, path_place(&s->arena, at, n), "is too long");
	s->v[s->n++] = (struct exit_entry){
		.code = node_get(n, "code")->integer,
		.rest = arena_span(&s->arena, str_view(&text)),
		.rest_final = arena_span(&s->arena, str_view(&final)),
	};
	return 0;
}

static int exit_spec_check_codes(struct exit_spec *s, const struct path *at,
                                 const struct node *list, struct err *e)
{
	for (size_t i = 1; i < s->n; i++) {
		if (s->v[i - 1].code == s->v[i].code)
			return err_at(e, INVALID_PARAMETERS, path_place(&s->arena, at, list),
			              "the code %lld is repeated", (long long)s->v[i].code);
	}
	s->any_failure = exit_spec_find(s, ANY_FAILURE);
	s->any_other = exit_spec_find(s, ANY_OTHER);
	if (!s->any_failure || !s->any_other)
		return err_at(
		    e, INVALID_PARAMETERS, path_place(&s->arena, at, list),
		    "has no entry for code %d, which is used for all codes without an entry",
		    s->any_failure ? ANY_OTHER : ANY_FAILURE);
	return 0;
}

/* Groups of other kinds are pai-runtime's, unless they have a reason: then END_FOLLOWED. */
static const char *const END_KINDS[] = { [END_ORIGIN] = "ORIGIN",
	                                 [END_KILLED] = "KILLED",
	                                 [END_STOPPED] = "STOPPED",
	                                 [END_UNCLEAR] = "UNCLEAR",
	                                 [END_FOLLOWED] = "FOLLOWED" };

static void exit_spec_read_word(const struct node *group, struct span text, struct exit_spec *s)
{
	const struct node *why = node_get(group, "why");
	const struct node *code = node_get(group, "code");
	const struct node *to = node_get(group, "to") ?: code;
	const struct node *name = node_get(group, "kind");
	enum end_kind kind = END_FOLLOWED;
	for (enum end_kind i = 0; i < ARRAY_SIZE(END_KINDS) && node_is(name, NODE_TEXT); i++)
		kind = span_is(node_span(name), END_KINDS[i]) ? i : kind;
	bool explained = kind != END_ORIGIN && kind != END_UNCLEAR;
	if (s->words == WORDS_MAX || !node_is(name, NODE_TEXT) ||
	    (explained && !node_is(why, NODE_TEXT)))
		return;
	s->word[s->words++] = (struct exit_word){
		.code = node_is(code, NODE_INT) ? code->integer : 0,
		.to = node_is(to, NODE_INT) ? to->integer : 0,
		.text = arena_dup(&s->arena, text),
		.why = explained ? arena_dup(&s->arena, node_span(why)) : NULL,
		.kind = kind,
	};
}

/* The words and ends of a file; of the built-in specification if it has none. */
static void exit_spec_read_words(const struct node *root, struct exit_spec *s)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc = { 0 };
	const struct node *words = node_get(root, "words");
	const struct node *ends = node_get(root, "ends");
	if ((!node_is(words, NODE_LIST) || !node_is(ends, NODE_LIST)) &&
	    doc_read(EMBEDDED(exit_spec), &BUDGET_DEFAULT, &a, &doc, NULL, &e) == 0) {
		words = node_is(words, NODE_LIST) ? words : node_get(&doc.root, "words");
		ends = node_is(ends, NODE_LIST) ? ends : node_get(&doc.root, "ends");
	}
	s->word = ARENA_NEW(&s->arena, struct exit_word, WORDS_MAX);
	for (uint32_t i = 0; node_is(words, NODE_LIST) && i < words->n; i++) {
		const struct node *texts = node_get(&words->item[i], "texts");
		for (uint32_t k = 0; node_is(texts, NODE_LIST) && k < texts->n; k++)
			if (node_is(&texts->item[k], NODE_TEXT))
				exit_spec_read_word(&words->item[i], node_span(&texts->item[k]), s);
	}
	for (uint32_t i = 0; node_is(ends, NODE_LIST) && i < ends->n; i++)
		exit_spec_read_word(&ends->item[i], SPAN(""), s);
}

static int exit_spec_read_spec(struct span text, struct exit_spec *s, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct doc doc;
	if (doc_read(text, &BUDGET_DEFAULT, &a, &doc, NULL, e) < 0)
		return -1;
	const struct path at = PATH_KEY(NULL, SPAN("spec"));
	const struct node *list = node_get(&doc.root, "spec");
	if (!node_is(list, NODE_LIST))
		return err_at(e, INVALID_PARAMETERS, path_place(&a, NULL, &doc.root),
		              "must be a mapping with a list named spec");
	s->v = ARENA_NEW(&s->arena, struct exit_entry, list->n + 1);
	for (uint32_t i = 0; i < list->n; i++) {
		const struct path item = PATH_INDEX(&at, i);
		if (exit_spec_read_entry(&list->item[i], &item, s, e) < 0)
			return -1;
	}
	exit_spec_read_words(&doc.root, s);
	qsort(s->v, s->n, sizeof(*s->v), exit_spec_compare_codes);
	return exit_spec_check_codes(s, &at, list, e);
}

struct exit_spec *exit_spec_new(const char *path, struct err *e)
{
	FREE_AUTO char *file = NULL;
	struct span text = EMBEDDED(exit_spec);
	if (path[0]) {
		if (file_read_or_stdin(path, FILE_MAX, &file, &text.n, e) < 0)
			return NULL;
		text.p = file;
	}
	struct exit_spec *s = xcalloc(1, sizeof(*s));
	if (exit_spec_read_spec(text, s, e) == 0)
		return s;
	exit_spec_free(s);
	return NULL;
}

void exit_spec_free(struct exit_spec *s)
{
	if (!s)
		return;
	arena_done(&s->arena);
	free(s);
}

/* The specification is opaque elsewhere. */
const struct exit_word *exit_spec_words(const struct exit_spec *s, size_t *n)
{
	*n = s->words;
	return s->word;
}

void exit_spec_json(struct str *out, const struct exit_spec *s, int64_t code, bool final)
{
	const struct exit_entry *entry = exit_spec_find(s, code);
	if (!entry)
		entry = code > 0 ? s->any_failure : s->any_other;
	str_puts(out, "{\"code\":");
	str_int(out, code);
	str_span(out, final ? entry->rest_final : entry->rest);
}
