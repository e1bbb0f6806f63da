/* The exit specification: a list of codes, each with patterns; the first pattern that holds, wins.
 */
#include "base/tree.h"
#include "runtime-assets/exit_inner.h"
#include "runtime-assets/http.h"

struct reader {
	struct exit_spec *s;
	size_t cap;
	int64_t code; /* of the user's command */
	struct arena *a;
	struct notes *warnings;
};

static void warn(struct reader *r, const struct node *n, const char *text)
{
	notes_add(r->warnings, NOWHERE, "exit specification, line %u: %s", n->line, text);
}

static bool is_null(const struct node *n)
{
	return !n || n->type == NODE_NULL;
}

/* A field with a regular expression.  An empty one is as good as none.  false: broken. */
static bool read_regex(struct reader *r, const struct node *pattern, const char *key,
                       const struct regex **out)
{
	ERR_AUTO e = { 0 };
	const struct node *n = node_get(pattern, key);
	if (is_null(n))
		return true;
	if (n->type != NODE_TEXT && n->type != NODE_DATE) {
		notes_add(r->warnings, NOWHERE,
		          "exit specification, line %u: %s is %s, but must be text; the pattern is "
		          "left out",
		          n->line, key, node_type_name(n));
		return false;
	}
	if (n->n == 0)
		return true;
	*out = regex_compile(node_span(n), r->a, &e);
	if (!*out) {
		char buf[4 * QUOTE_MAX];
		notes_add(r->warnings, NOWHERE,
		          "exit specification, line %u: %s '%s': %s; the pattern is left out",
		          n->line, key, quote(buf, node_span(n)), err_msg(&e));
	}
	return *out != NULL;
}

static bool read_gpu(struct reader *r, const struct node *pattern, struct exit_pattern *p)
{
	const struct node *gpu = node_get(pattern, "gpuInfo");
	if (is_null(gpu))
		return true;
	const struct node *ecc = node_get(gpu, "nvidiaDoubleEccError");
	p->has_gpu = true;
	p->gpu_ecc = node_is(ecc, NODE_BOOL) && ecc->boolean;
	if (gpu->type == NODE_MAP && (is_null(ecc) || ecc->type == NODE_BOOL))
		return true;
	warn(r, gpu,
	     "gpuInfo must be a map with nvidiaDoubleEccError, true or false; the pattern is "
	     "left out");
	return false;
}

/* Does the exit code that the pattern asks for, if any, fit?  Patterns for other codes are not
 * even compiled. */
static bool fits_code(struct reader *r, const struct node *pattern)
{
	const struct node *code = node_get(pattern, "exitCode");
	if (is_null(code))
		return true;
	if (code->type != NODE_INT) {
		warn(r, code, "exitCode must be an integer; the pattern is left out");
		return false;
	}
	return code->integer == r->code;
}

static void add(struct reader *r, const struct exit_pattern *p)
{
	if (r->s->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 16;
		struct exit_pattern *v = ARENA_NEW(r->a, struct exit_pattern, cap);
		if (r->s->n)
			memcpy(v, r->s->v, r->s->n * sizeof(*v));
		r->s->v = v;
		r->cap = cap;
	}
	r->s->v[r->s->n++] = *p;
}

static void read_pattern(struct reader *r, const struct node *pattern, int64_t container_code)
{
	struct exit_pattern p = { .container_code = container_code };
	if (pattern->type != NODE_MAP && pattern->type != NODE_NULL) {
		warn(r, pattern, "a pattern must be a map; it is left out");
		return;
	}
	if (fits_code(r, pattern) && read_regex(r, pattern, "userLogRegex", &p.user) &&
	    read_regex(r, pattern, "platformLogRegex", &p.platform) && read_gpu(r, pattern, &p))
		add(r, &p);
}

/* 0 would turn a failure into a success; 200 to 219 mean something to the controller. */
static bool may_end_with(int64_t code)
{
	return (code >= 1 && code <= 199) || (code >= 220 && code <= 255);
}

static void read_code(struct reader *r, const struct node *entry)
{
	const struct node *code = node_get(entry, "containerExitCode");
	const struct node *patterns = node_get(entry, "patterns");
	if (!node_is(code, NODE_INT) || !may_end_with(code->integer)) {
		warn(r, entry,
		     "containerExitCode must be an integer from 1 to 199 or 220 to 255; the entry "
		     "is "
		     "left out");
		return;
	}
	if (is_null(patterns))
		return;
	if (patterns->type != NODE_LIST) {
		warn(r, patterns, "patterns must be a list; the entry is left out");
		return;
	}
	for (uint32_t i = 0; i < patterns->n; i++)
		read_pattern(r, &patterns->item[i], code->integer);
}

void exit_spec_read(struct exit_spec *s, struct span text, int64_t code, struct arena *a,
                    struct notes *warnings)
{
	*s = (struct exit_spec){ 0 };
	struct reader r = { .s = s, .code = code, .a = a, .warnings = warnings };
	struct budget budget = BUDGET_DEFAULT;
	NOTES_AUTO odd = { 0 }; /* of no interest: who wrote it is not here */
	ERR_AUTO e = { 0 };
	struct doc doc;
	if (span_trim(text).n == 0)
		return;
	if (text.n > EXIT_SPEC_MAX) {
		notes_add(warnings, NOWHERE, "the exit specification is larger than %d bytes",
		          EXIT_SPEC_MAX);
		return;
	}
	if (doc_read(text, &budget, a, &doc, &odd, &e)) {
		const struct note *n = &e.notes.v[0];
		notes_add(warnings, NOWHERE, "the exit specification cannot be read: line %u: %s",
		          n->line, n->msg);
		return;
	}
	if (doc.root.type == NODE_NULL)
		return;
	if (doc.root.type != NODE_LIST) {
		notes_add(warnings, NOWHERE, "the exit specification must be a list, it is %s",
		          node_type_name(&doc.root));
		return;
	}
	for (uint32_t i = 0; i < doc.root.n; i++)
		read_code(&r, &doc.root.item[i]);
}

/* ---- which pattern holds ------------------------------------------------------------------------
 */

/* A log, and which patterns can match in it at all. */
struct searched {
	struct text *text;
	bool *possible;
};

struct matcher {
	const struct exit_input *in;
	struct searched user, platform;
	int ecc; /* -1: not asked yet */
	bool late;
};

static void search_all(struct matcher *m, struct searched *log, const struct regex **re, size_t n,
                       struct arena *a)
{
	log->possible = ARENA_NEW(a, bool, n + 1);
	const struct regex_set *set = regex_set_new(re, n, a);
	if (regex_set_scan(set, log->text, m->in->deadline_ms, log->possible) == REGEX_LATE)
		m->late = true;
}

static bool holds_in(struct matcher *m, const struct searched *log, const struct regex *re,
                     size_t number, struct match *where)
{
	if (!re)
		return true;
	if (!log->possible[number])
		return false;
	enum regex_found found = regex_search(re, log->text, m->in->deadline_ms, where);
	m->late = m->late || found == REGEX_LATE;
	return found == REGEX_FOUND;
}

static bool holds_for_gpu(struct matcher *m, const struct exit_pattern *p)
{
	if (!p->has_gpu)
		return true;
	if (m->ecc < 0)
		m->ecc = ecc_errors(m->in->root ? m->in->root : "", m->in->deadline_ms);
	return (m->ecc == 1) == p->gpu_ecc;
}

void exit_spec_match(const struct exit_spec *s, struct exit_case *c, struct exit_verdict *out)
{
	ARENA_AUTO a = { 0 };
	struct matcher m = { .in = c->in,
		             .user.text = &c->user.text,
		             .platform.text = &c->platform.text,
		             .ecc = -1 };
	const struct regex **re = ARENA_NEW(&a, const struct regex *, 2 * s->n + 1);
	for (size_t i = 0; i < s->n; i++) {
		re[i] = s->v[i].user;
		re[s->n + i] = s->v[i].platform;
	}
	*out = (struct exit_verdict){ .code = EXIT_UNKNOWN };
	search_all(&m, &m.user, re, s->n, &a);
	search_all(&m, &m.platform, re + s->n, s->n, &a);
	for (size_t i = 0; i < s->n && !m.late; i++) {
		const struct exit_pattern *p = &s->v[i];
		struct exit_verdict v = { .code = p->container_code, .pattern = p };
		if (holds_in(&m, &m.user, p->user, i, &v.user) &&
		    holds_in(&m, &m.platform, p->platform, i, &v.platform) &&
		    holds_for_gpu(&m, p)) {
			*out = v;
			return;
		}
	}
	if (m.late)
		notes_add(c->warnings, NOWHERE,
		          "the patterns of the exit specification took too long; none was taken");
}
