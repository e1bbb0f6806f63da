/* The exit specification: a list of codes with patterns.  The first pattern that matches decides.
 */
#include <signal.h>

#include "base/doc/tree.h"
#include "runtime-assets/exit/exit_internal.h"

struct exit_spec_reader {
	struct exit_table *s;
	int64_t code; /* of the user's command */
	struct arena *a;
	struct notes *warnings;
};

static void spec_warn(struct exit_spec_reader *r, const struct node *n, const char *text)
{
	notes_add(r->warnings, NOWHERE, "exit specification, line %u: %s", n->line, text);
}

static bool spec_is_null(const struct node *n)
{
	return !n || n->type == NODE_NULL;
}

/* An empty expression equals none.  false: not valid. */
static bool spec_regex(struct exit_spec_reader *r, const struct node *pattern, const char *key,
                       struct regex **out)
{
	ERR_AUTO e = { 0 };
	const struct node *n = node_get(pattern, key);
	if (spec_is_null(n))
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

/* A warning about a pattern that is not valid, and its place; NULL: it is valid, or for another
 * exit code. */
static const char *spec_pattern(struct exit_spec_reader *r, const struct node *pattern,
                                struct exit_pattern *p, const struct node **at)
{
	const struct node *code = node_get(pattern, "exitCode");
	const struct node *part = node_get(pattern, "userLogPart");
	const struct node *unless = node_get(pattern, "unlessWord");
	const struct node *gpu = node_get(pattern, "gpuInfo");
	const struct node *ecc = node_get(gpu, "nvidiaDoubleEccError");
	*at = pattern;
	if (pattern->type != NODE_MAP && pattern->type != NODE_NULL)
		return "a pattern must be a map; it is left out";
	*at = code;
	p->has_code = !spec_is_null(code);
	if (p->has_code && code->type != NODE_INT)
		return "exitCode must be an integer; the pattern is left out";
	/* Patterns for other codes are not compiled. */
	if ((p->has_code && code->integer != r->code) ||
	    !spec_regex(r, pattern, "userLogRegex", &p->user))
		return NULL;
	p->final = p->user && !spec_is_null(part);
	*at = part;
	if (!spec_is_null(part) && strcmp(node_text(pattern, "userLogPart"), "finalError") != 0)
		return "userLogPart must be finalError, or absent; the pattern is left out";
	p->unless_network = strcmp(node_text(pattern, "unlessWord"), "NETWORK") == 0;
	*at = unless;
	if (!spec_is_null(unless) && !p->unless_network)
		return "unlessWord must be NETWORK, or absent; the pattern is left out";
	if (!spec_regex(r, pattern, "platformLogRegex", &p->platform))
		return NULL;
	p->has_gpu = !spec_is_null(gpu);
	p->gpu_ecc = node_is(ecc, NODE_BOOL) && ecc->boolean;
	*at = gpu;
	if (p->has_gpu && (gpu->type != NODE_MAP || !(spec_is_null(ecc) || ecc->type == NODE_BOOL)))
		return "gpuInfo must be a map with nvidiaDoubleEccError, true or false; the "
		       "pattern is left out";
	r->s->v[r->s->n++] = *p;
	return NULL;
}

static const char *const WORD_NAMES[WORD_KINDS] = {
	[WORD_REPORTS] = "REPORTS", [WORD_FOLLOWS] = "FOLLOWS",       [WORD_THREAD] = "THREAD",
	[WORD_IGNORED] = "IGNORED", [WORD_SIGNAL] = "SIGNAL",         [WORD_CRASH] = "CRASH",
	[WORD_SUMMARY] = "SUMMARY", [WORD_ERROR] = "ERROR",           [WORD_ABOVE] = "ABOVE",
	[WORD_HINT] = "HINT",       [WORD_NOISE] = "NOISE",           [WORD_LAUNCHER] = "LAUNCHER",
	[WORD_RANK] = "RANK",       [WORD_LOCAL_RANK] = "LOCAL_RANK", [WORD_OUTSIDE] = "OUTSIDE",
	[WORD_NETWORK] = "NETWORK", [WORD_WARNING] = "WARNING",       [WORD_BELOW] = "BELOW",
};

/* Kinds of the server's are skipped. */
static void spec_words(struct exit_spec_reader *r, const struct node *words)
{
	size_t n = 0;
	for (uint32_t i = 0; i < words->n; i++) {
		const struct node *texts = node_get(&words->item[i], "texts");
		if (!*node_text(&words->item[i], "kind") || !node_is(texts, NODE_LIST)) {
			spec_warn(r, words, "words must be maps with kind and a list texts");
			return;
		}
		n += texts->n;
	}
	struct text_patterns *out = &r->s->words;
	*out = (struct text_patterns){ .v = ARENA_NEW(r->a, struct word, n + 1) };
	for (uint32_t i = 0; i < words->n; i++) {
		const struct node *texts = node_get(&words->item[i], "texts");
		const struct node *key = node_get(&words->item[i], "key");
		const char *name = node_text(&words->item[i], "kind");
		enum word_kind kind = WORD_CAUSE + 1;
		while (kind < WORD_KINDS && strcmp(name, WORD_NAMES[kind]) != 0)
			kind++;
		for (uint32_t k = 0; k < texts->n && kind < WORD_KINDS; k++) {
			const struct node *text = &texts->item[k];
			if (text->type == NODE_TEXT && text->n)
				out->v[out->n++] =
				    (struct word){ kind, arena_dup(r->a, node_span(text)),
					           node_is(key, NODE_TEXT) ? key->text : NULL };
		}
	}
}

static void spec_code(struct exit_spec_reader *r, const struct node *entry)
{
	const struct node *code = node_get(entry, "containerExitCode");
	const struct node *patterns = node_get(entry, "patterns");
	const struct node *words = node_get(entry, "words");
	if (node_is(words, NODE_LIST)) {
		spec_words(r, words);
		return;
	}
	/* 0 would mean success; 200 to 219 have a meaning for the controller. */
	int64_t n = node_is(code, NODE_INT) ? code->integer : 0;
	if (n < 1 || n > 255 || (n >= 200 && n <= 219)) {
		spec_warn(r, entry,
		          "containerExitCode must be an integer from 1 to 199 or 220 to 255; the "
		          "entry is left out");
		return;
	}
	if (spec_is_null(patterns))
		return;
	if (patterns->type != NODE_LIST) {
		spec_warn(r, patterns, "patterns must be a list; the entry is left out");
		return;
	}
	bool permanent = strcmp(node_text(entry, "behavior"), "PERMANENT") == 0;
	for (uint32_t i = 0; i < patterns->n; i++) {
		const struct node *at;
		struct exit_pattern p = { .container_code = n, .permanent = permanent };
		const char *problem = spec_pattern(r, &patterns->item[i], &p, &at);
		if (problem)
			spec_warn(r, at, problem);
	}
}

void exit_spec_read(struct exit_table *s, struct span text, int64_t code, struct arena *a,
                    struct notes *warnings)
{
	*s = (struct exit_table){ 0 };
	struct exit_spec_reader r = { .s = s, .code = code, .a = a, .warnings = warnings };
	ERR_AUTO e = { 0 };
	struct doc doc;
	if (span_trim(text).n == 0)
		return;
	if (text.n > EXIT_SPEC_MAX) {
		notes_add(warnings, NOWHERE, "the exit specification is larger than %d bytes",
		          EXIT_SPEC_MAX);
		return;
	}
	if (doc_read(text, &BUDGET_DEFAULT, a, &doc, NULL, &e)) {
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
	size_t most = 0;
	for (uint32_t i = 0; i < doc.root.n; i++) {
		const struct node *patterns = node_get(&doc.root.item[i], "patterns");
		most += node_is(patterns, NODE_LIST) ? patterns->n : 0;
	}
	s->v = ARENA_NEW(a, struct exit_pattern, most + 1);
	for (uint32_t i = 0; i < doc.root.n; i++)
		spec_code(&r, &doc.root.item[i]);
}

/* ---- matching -------------------------------------------------------------------------------- */

/* A log, and the patterns that can match in it. */
struct searched {
	struct regex_text *text;
	bool *possible;
};

struct matcher {
	const struct exit_input *in;
	struct searched user, platform;
	struct searched final; /* the text of the final error that decides */
	struct text_span final_text;
	size_t final_at;    /* its position in the log */
	size_t final_after; /* in it, a match must end behind */
	bool final_last;    /* the last line that matches decides */
	struct final_error error;
	size_t chosen; /* the number of that text */
	int ecc;       /* -1: not asked yet */
	bool late;
};

static void match_search(struct matcher *m, struct searched *log, struct regex **re, size_t n,
                         struct arena *a)
{
	log->possible = ARENA_NEW(a, bool, n + 1);
	size_t used = 0;
	for (size_t i = 0; i < n; i++)
		used += re[i] != NULL;
	if (used == 0)
		return;
	const struct regex_set *set = regex_set_new(re, n, a);
	if (regex_set_scan(set, log->text, m->in->deadline_ms, log->possible) == REGEX_LATE)
		m->late = true;
}

static bool match_in_log(struct matcher *m, const struct searched *log, struct regex *re,
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

/* The whole line of the first match in the final error, or of the last one. */
static bool match_final(struct matcher *m, struct regex *re, size_t number, struct match *where)
{
	struct span text = m->final_text.span;
	struct text_span rest = m->final_text;
	struct searched log = { &rest.text, m->final.possible };
	struct match next;
	bool found = false;
	for (size_t from = 0; from < text.n && match_in_log(m, &log, re, number, &next);) {
		size_t end = next.end + from;
		while (end > next.start + from && text.p[end - 1] == '\n')
			end--;
		size_t start = end;
		while (start > 0 && !strchr("\r\n", text.p[start - 1]))
			start--;
		while (end < text.n && !strchr("\r\n", text.p[end]))
			end++;
		struct span line = { text.p + start, end - start };
		struct match whole;
		if (end > m->final_after &&
		    !(m->final_last && final_error_line(&m->error, line, WORD_WARNING, &whole))) {
			*where = (struct match){ m->final_at + start, m->final_at + end };
			found = true;
		}
		if (found && !m->final_last)
			break;
		from = end + 1;
		regex_text_of(&rest, span_from(text, from < text.n ? from : text.n));
	}
	return found;
}

/* The first text of the final error in which an expression is found decides.  The program survived
 * errors before the last one in the last lines of output. */
static void match_choose_final(struct matcher *m, struct regex **re, size_t n, struct arena *a)
{
	const struct regex_set *set = regex_set_new(re, n, a);
	m->final.text = &m->final_text.text;
	m->final.possible = ARENA_NEW(a, bool, n + 1);
	for (m->chosen = 0; m->chosen < m->error.texts && !m->late; m->chosen++) {
		enum final_part part = m->error.text[m->chosen].part;
		struct span text = final_error_text(&m->error, m->chosen, &m->final_at);
		struct match line = { 0 };
		if (part == PART_OUTPUT)
			(void)final_error_line(&m->error, text, WORD_ERROR, &line);
		m->final_after = line.start;
		m->final_last = part != PART_ALL;
		regex_text_of(&m->final_text, text);
		memset(m->final.possible, 0, n * sizeof(bool));
		m->late = regex_set_scan(set, m->final.text, m->in->deadline_ms,
		                         m->final.possible) == REGEX_LATE;
		for (size_t i = 0; i < n && !m->late; i++) {
			if (re[i] && match_final(m, re[i], i, &line))
				return;
		}
	}
	memset(m->final.possible, 0, n * sizeof(bool));
}

/* Returns true if the pattern is for an exit code alone, without logs. */
static bool match_is_code(const struct exit_pattern *p)
{
	return p->has_code && !p->user && !p->platform && !p->has_gpu;
}

/* The first pattern that matches; in the last lines, of those up to the first one that is not about
 * the final error, the one whose line is the last.  Patterns that ask for an exit code and a text
 * precede those that ask for an exit code only.  by_log: those that ask for an exit code do not
 * count. */
static void match_first(struct matcher *m, const struct exit_table *s, bool by_log,
                        struct exit_verdict *out)
{
	bool coded = false;
	for (size_t i = 0; i < s->n && !m->late; i++) {
		const struct exit_pattern *p = &s->v[i];
		struct exit_verdict v = { .code = p->container_code,
			                  .pattern = p,
			                  .has_user = p->user != NULL,
			                  .has_platform = p->platform != NULL };
		if ((by_log && p->has_code) || (coded && (!p->has_code || match_is_code(p))) ||
		    !(p->final ? match_final(m, p->user, i, &v.user)
		               : match_in_log(m, &m->user, p->user, i, &v.user)) ||
		    !match_in_log(m, &m->platform, p->platform, i, &v.platform))
			continue;
		if (p->has_gpu && m->ecc < 0)
			m->ecc = ecc_errors(m->in->root ? m->in->root : "", m->in->deadline_ms);
		if (p->has_gpu && (m->ecc == 1) != p->gpu_ecc)
			continue;
		bool last = p->final && m->final_last;
		if (!out->has_user || (last && v.user.start > out->user.start))
			*out = v;
		coded = coded || (match_is_code(p) && out->pattern == p);
		if (!last && !coded)
			return;
	}
}

/* The end of a log has a word of what ends a command from outside. */
static bool match_outside(const struct matcher *m, struct log_text *log)
{
	enum { END_MAX = 4096 };
	char end[END_MAX];
	struct match line;
	size_t n = log->text.size < END_MAX ? log->text.size : END_MAX;
	log_text_copy(log, log->text.size - n, n, end);
	return final_error_line(&m->error, (struct span){ end, n }, WORD_OUTSIDE, &line);
}

/* A signal that asks to end is often only how a launcher or a trap ended the command: a cause in
 * the final error that every try would meet precedes it, unless it came from outside, or after
 * progress. */
static void match_cause(struct matcher *m, const struct exit_table *s, struct exit_case *c,
                        struct exit_verdict *out)
{
	struct exit_verdict cause = { .code = EXIT_UNKNOWN };
	int64_t signal = c->in->code - 128;
	bool asks = signal == SIGINT || signal == SIGQUIT || signal == SIGKILL || signal == SIGTERM;
	if (!asks || m->error.progress || !out->pattern || !match_is_code(out->pattern) ||
	    match_outside(m, &c->user) || match_outside(m, &c->platform))
		return;
	match_first(m, s, true, &cause);
	const struct exit_pattern *p = cause.pattern;
	struct match sign;
	if (p && p->permanent && p->final &&
	    !(p->unless_network && final_error_network(&m->error, &sign)))
		*out = cause;
}

void exit_spec_match(const struct exit_table *s, struct exit_case *c, struct exit_verdict *out)
{
	ARENA_AUTO a = { 0 };
	struct matcher m = { .in = c->in,
		             .user.text = &c->user.text,
		             .platform.text = &c->platform.text,
		             .ecc = -1 };
	struct regex **re = ARENA_NEW(&a, struct regex *, 3 * s->n + 1);
	for (size_t i = 0; i < s->n; i++) {
		re[i] = s->v[i].final ? NULL : s->v[i].user;
		re[s->n + i] = s->v[i].platform;
		re[2 * s->n + i] = s->v[i].final ? s->v[i].user : NULL;
	}
	*out = (struct exit_verdict){ .code = EXIT_UNKNOWN };
	match_search(&m, &m.user, re, s->n, &a);
	match_search(&m, &m.platform, re + s->n, s->n, &a);
	struct final_error *f = &m.error;
	final_error_read(f, &c->user, &s->words, c->in->code, &a);
	match_choose_final(&m, re + 2 * s->n, s->n, &a);
	match_first(&m, s, false, out);
	struct match sign;
	if (out->pattern && out->pattern->unless_network && final_error_network(f, &sign))
		*out =
		    (struct exit_verdict){ .code = EXIT_UNKNOWN, .has_user = true, .user = sign };
	match_cause(&m, s, c, out);
	bool final = out->pattern && out->pattern->final;
	out->rank = final_error_rank(f, final ? out->user.start : SIZE_MAX);
	/* The line to quote where the match has none of its own: after SIGABRT the program itself
	 * has printed the reason, and the message of an exception may begin in a line of its own.
	 */
	bool exception = final && m.chosen == 0 && f->decided;
	bool aborted =
	    final && f->aborted && !f->signalled && f->text[m.chosen].part == PART_REPORTS;
	if (s->words.n && (!out->has_user || exception || aborted))
		out->has_user = final_error_quote(f, exception ? 1 : c->in->code, &out->user);
	if (final || out->has_user)
		final_error_below(f, &out->user);
	out->handled = f->handled;
	if (m.late)
		notes_add(c->warnings, NOWHERE,
		          "the patterns of the exit specification took too long; none was taken");
}
