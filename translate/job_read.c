/*
 * The way from text to struct job: reads the document, determines the dialect, checks the schema,
 * lets the dialect fill the job, redacts the secrets.  Later stages run after errors too, so that
 * users see all errors at once.
 */
#include "translate/translate.h"

#include <assert.h>
#include <string.h>

#include "base/enc.h"
#include "translate/hived/hived_plan.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

/* The dialect; NULL and *e. */
static const struct dialect *job_choose_dialect(unsigned set, struct arena *a,
                                                const struct node *root, struct err *e)
{
	struct place where = path_place(a, NULL, root);
	if (!node_is(root, NODE_MAP)) {
		(void)err_at(e, INVALID_PROTOCOL, where, "the document must be a mapping, is %s",
		             node_type_name(root));
		return NULL;
	}
	const struct dialect *d = dialect_of(root, set);
	const struct node *kind = node_get(root, "kind");
	unsigned pai = set & DIALECTS_PAI;
	if (d == NULL && !(kind && node_get(root, "apiVersion")) && pai && (pai & (pai - 1)) == 0)
		d = dialect_get(pai); /* its schema says what is wrong */
	if (d)
		return d;
	if (!kind) {
		(void)err_at(e, INVALID_PROTOCOL, where,
		             "this is no job: it has neither `protocolVersion` (v2) nor `jobName` "
		             "(v1)");
		return NULL;
	}
	/* An object of Kubernetes that is no job, or that is not taken here. */
	where = path_place(a, &PATH_KEY(NULL, SPAN("kind")), kind);
	d = dialect_of(root, DIALECTS_ALL);
	STR_AUTO known = STR_INIT(1024);
	dialects_known(&known);
	if (d)
		(void)err_at(e, INVALID_PROTOCOL, where,
		             "a job of this kind is taken only with --dialects %s", d->name);
	else
		(void)err_at(e, INVALID_PROTOCOL, where,
		             "no job is of kind \"%s\" and apiVersion \"%s\"; known are %sand jobs "
		             "of OpenPAI, which have no `kind`",
		             arena_quoted(a, parse_text(root, "kind")),
		             arena_quoted(a, parse_text(root, "apiVersion")), str_c(&known));
	return NULL;
}

/* Names texts that are taken for jobs by mistake; NULL: it is none of these. */
static const char *job_mistaken(struct span text)
{
	static const char *const SCRIPT[] = { "#!", "#SBATCH", "import ", "from " };
	bool script = false;
	for (struct span rest = text; rest.n && !script;) {
		bool first = rest.n == text.n;
		struct span line = span_next(&rest, '\n');
		for (size_t i = first ? 0 : 1; i < ARRAY_SIZE(SCRIPT); i++)
			script |= span_starts(line, SCRIPT[i]);
	}
	if (script)
		return "this is a script, not a job; a command stands after --: "
		       "rest-lit submit -- python3 train.py";
	bool line = span_chr(text, '\n') == text.n && span_starts(text, "protocolVersion:");
	return line ? "the line ends are missing: curl needs --data-binary for a file, as -d "
	              "removes them"
	            : NULL;
}

static int job_read_dialect(struct parse_context *r, const struct dialect *d, const struct doc *doc,
                            struct span text)
{
	static const char *const SECRET[] = { "secrets", NULL };
	struct job *job = r->job;
	r->code = d->code;
	job->dialect = d;
	r->doc_notes = r->e->notes.n;
	if (d->prepare)
		r->root = d->prepare(r);
	const struct node *shown = d->placeholders ? redact_secrets(r) : r->root;
	if (!shown)
		return -1;
	if (schema_check(schema_get(d->schema), r->root, d->code, SECRET, r->e))
		r->schema_notes = r->e->notes.n;
	struct field in = d->name_in ? field_get(TOP(r), d->name_in) : *TOP(r);
	struct field name = field_get(&in, d->name_key);
	job->name = field_text(&name);
	job->name_where = field_place(r->a, &name);
	job->id = span_of(arena_printf(r->a, "%s~%.*s", job->user, (int)job->name.n, job->name.p));
	md5_hex(job->hash, job->id);
	d->read(r);
	hived_request_read(r);
	ambiguous_scalars_check(r, text);
	if (r->e->http)
		return -1;
	return redact_config(r, shown, doc->json, text);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
struct job *job_read(const struct translator *t, unsigned set, struct span text, const char *user,
                     struct arena *a, struct notes *warnings, struct err *e)
{
	assert(user_name_ok(span_of(user)));
	struct doc doc = { 0 };
	ERR_AUTO err = { 0 }; /* *e may have notes */
	struct parse_context r = {
		.set = translator_settings(t),
		.gpu_type_used = translator_uses_gpu_type(t),
		.a = a,
		.job = ARENA_NEW(a, struct job, 1),
		.root = &doc.root,
		.e = &err,
		.warnings = warnings,
	};
	r.job->user = arena_dup(a, span_of(user));
	const struct dialect *d = NULL;
	if (doc_read(text, &r.set->budget, a, &doc, warnings, &err) == 0 || doc.whole)
		d = job_choose_dialect(set, a, &doc.root, &err);
	const char *mistaken = d ? NULL : job_mistaken(text);
	if (mistaken) {
		err_done(&err);
		(void)err_at(&err, INVALID_PROTOCOL, (struct place){ NULL, 1, 1 }, "%s", mistaken);
	}
	bool good = d && job_read_dialect(&r, d, &doc, text) == 0;
	notes_sort(warnings);
	if (good)
		return r.job;
	if (err.http == 400) /* also of the reader, which knows no dialect */
		err.code = (d ? d : dialect_guess(text, set))->code;
	err_done(e);
	*e = err;
	err = (struct err){ 0 };
	return NULL;
}
