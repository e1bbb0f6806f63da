/*
 * A job without its secrets, as all users may read it.  The value of `secrets` and literal members
 * of `auth` are replaced in a copy of the tree, from which the stored text is written; a job
 * without secrets is stored as it was sent.  Values that the text has and the tree lacks, because
 * others override them, count as secrets.
 */
#include "translate/reader/redact.h"

#include "base/doc/doc.h"
#include "base/doc/yaml.h"
#include "translate/reader/parse_context.h"

struct redaction {
	struct arena *a;
	bool hides; /* the tree or the text has a secret */
	struct place *shared;
};

enum redact_part { JOB, PREREQUISITES, PREREQUISITE, AUTH, LOGIN, SECRETS, OTHER };

/* The kind of a member of a mapping. */
static enum redact_part redact_part_of(enum redact_part map, struct span key)
{
	if (map == JOB && span_is(key, "secrets"))
		return SECRETS;
	if (map == JOB && span_is(key, "prerequisites"))
		return PREREQUISITES;
	if (map == PREREQUISITES || map == PREREQUISITE)
		return span_is(key, "auth") ? AUTH : OTHER;
	return map == AUTH && !span_is(key, "registryuri") ? LOGIN : OTHER;
}

/* Values of `auth` are none if they are empty, or one reference to a secret. */
static bool redact_is_secret(enum redact_part part, const struct node *n)
{
	struct span text = n->type == NODE_TEXT ? node_span(n) : SPAN("?");
	if (part == SECRETS)
		return !span_is(text, REDACTED);
	return (part == LOGIN || (part == AUTH && n->type != NODE_MAP)) && n->type != NODE_NULL &&
	       text.n && !span_is(text, REDACTED) &&
	       !span_starts(render_only_name(text), "$secrets.");
}

/* The value without its secrets.  shared: it is in a value with an anchor or alias.  The parts
 * bound the depth.  NOLINTNEXTLINE(misc-no-recursion) */
static struct node redact_node(struct redaction *m, const struct node *n, enum redact_part part,
                               bool shared, const struct path *at)
{
	bool list = n->type == NODE_LIST && part == PREREQUISITES;
	struct node copy = *n;
	if (part == OTHER)
		return copy;
	shared |= (n->flags & NODE_SHARED) && part != JOB;
	m->hides |= (n->flags & NODE_OVERRIDES) != 0;
	if (redact_is_secret(part, n)) {
		if ((shared || n->flags & NODE_SHARES) && !m->shared->at)
			*m->shared = path_place(m->a, at, n);
		m->hides = true;
		return (
		    struct node){ .type = NODE_TEXT, .text = REDACTED, .n = sizeof(REDACTED) - 1 };
	}
	if (list) {
		struct node *item = ARENA_NEW(m->a, struct node, n->n);
		for (uint32_t i = 0; i < n->n; i++)
			item[i] =
			    redact_node(m, &n->item[i], PREREQUISITE, shared, &PATH_INDEX(at, i));
		copy.item = item;
	} else if (n->type == NODE_MAP) {
		struct member *member = ARENA_NEW(m->a, struct member, n->n);
		for (uint32_t i = 0; i < n->n; i++) {
			struct span key = member_key(&n->member[i]);
			member[i] = n->member[i];
			member[i].value =
			    redact_node(m, &n->member[i].value, redact_part_of(part, key), shared,
			                &PATH_KEY(at, key));
		}
		copy.member = member;
	}
	return copy;
}

const struct node *redact_tree(const struct node *root, struct arena *a, struct place *shared)
{
	struct redaction m = { .a = a, .shared = shared };
	struct node *copy = ARENA_NEW(a, struct node, 1);
	*shared = (struct place){ NULL, 0, 0 };
	*copy = redact_node(&m, root, JOB, false, NULL);
	return m.hides ? copy : root;
}

const struct node *redact_secrets(struct parse_context *r)
{
	struct place shared;
	const struct node *shown = redact_tree(r->root, r->a, &shared);
	if (!shared.at)
		return shown;
	(void)err_at(r->e, 400, r->code, shared,
	             "has an anchor or an alias, so other parts of the job could show it: write it "
	             "out, and <%% $secrets.NAME %%> where it is needed");
	return NULL;
}

/* ---- the size, and passwords elsewhere ---- */

/* Returns true if the `@` at i ends a literal password: scheme://user:password@host.
 * docker://image:tag@sha256:... has none. */
static bool has_password(struct span t, size_t i)
{
	bool colon = false;
	bool image = span_starts((struct span){ t.p + i, t.n - i }, "@sha256:");
	if (image || (i > 0 && t.p[i - 1] == ':'))
		return false;
	while (i > 0 && t.p[i - 1] > ' ' && !strchr("/@\"'<>$`", t.p[i - 1])) {
		i--;
		colon = colon || t.p[i] == ':';
	}
	return colon && i >= 3 && memcmp(t.p + i - 3, "://", 3) == 0;
}

static bool place_is_before(unsigned line, unsigned column, struct place at)
{
	return line < at.line || (line == at.line && column < at.column);
}

/* Returns true if the last key of the top level before this place is `secrets`. */
static bool is_in_secrets(const struct node *root, struct place at)
{
	const struct member *last = NULL;
	for (uint32_t i = 0; i < root->n; i++) {
		const struct member *k = &root->member[i];
		struct place key = { NULL, k->key_line, k->key_column };
		if (place_is_before(k->key_line, k->key_column, at) &&
		    (!last || place_is_before(last->key_line, last->key_column, key)))
			last = k;
	}
	return last && span_is(member_key(last), "secrets");
}

/* Such URLs stay in the text, because the command needs them. */
static void warn_passwords(struct parse_context *r, struct span text)
{
	struct place at = { NULL, 1, 1 };
	size_t from = 0;
	for (size_t i = 0; (i = span_find(text, i, "@")) != SIZE_MAX; i++) {
		if (!has_password(text, i))
			continue;
		place_advance(&at, text, from, i);
		from = i;
		if (!r->job->secrets || !is_in_secrets(r->root, at))
			notes_add(r->warnings, at,
			          r->job->dialect->placeholders
			              ? "others can read the password in this URL; use <%% "
			                "$secrets.NAME %%>"
			              : "others can read the password in this URL, as it is stored "
			                "with the job");
	}
}

int redact_config(struct parse_context *r, const struct node *shown, bool json, struct span text)
{
	size_t max = r->set->max_annotations;
	STR_AUTO out = STR_INIT(max);
	r->job->config = text;
	r->job->redacted = shown != r->root;
	if (r->job->redacted) {
		(json ? node_json : yaml_write)(&out, shown);
		r->job->config = arena_span(r->a, str_view(&out));
	}
	warn_passwords(r, text);
	if (out.full || r->job->config.n > max)
		return err_at(r->e, 400, r->code, path_place(r->a, NULL, r->root),
		              "the job file%s is larger than %zu bytes and cannot be stored as an "
		              "annotation",
		              r->job->redacted ? ", with its aliases written out," : "", max);
	return 0;
}
