/* The job: reading it, replacing references in its texts, and the step `config`. */
#include "runtime-assets/init/init.h"

#include "base/pod/reference.h"
#include "runtime-assets/common/cmdline.h"

/* A role: v2 has a map by name, v1 a list of roles with `name`. */
struct job_role {
	struct span name;
	const struct node *value;
};

static bool job_role_at(const struct node *roles, size_t i, struct job_role *r)
{
	if (node_is(roles, NODE_MAP)) {
		*r = (struct job_role){ member_key(&roles->member[i]), &roles->member[i].value };
		return true;
	}
	*r = (struct job_role){ span_of(node_text(&roles->item[i], "name")), &roles->item[i] };
	return r->name.n > 0;
}

static const struct node *job_roles(const struct init_job *j)
{
	const struct node *roles = node_get(&j->doc.root, "taskRoles");
	if (!roles) /* a Framework */
		roles = node_get(node_get(&j->doc.root, "spec"), "taskRoles");
	return node_is(roles, NODE_MAP) || node_is(roles, NODE_LIST) ? roles : NULL;
}

static void job_no_config(struct init_job *j, struct str *problem, const char *why)
{
	j->doc = (struct doc){ .root = { .type = NODE_NULL } };
	str_puts(problem, why);
}

void job_parse_config(struct init_job *j, struct span config, struct arena *a, struct str *problem)
{
	ERR_AUTO e = { 0 };
	j->role = NULL;
	if (span_trim(config).n == 0) {
		job_no_config(j, problem, "there is no job configuration");
		return;
	}
	if (doc_read(config, &BUDGET_DEFAULT, a, &j->doc, NULL, &e)) {
		STR_AUTO text = STR_INIT(1000);
		str_printf(&text, "line %u of the job configuration: ", e.notes.v[0].line);
		note_text(&text, &e.notes.v[0]);
		job_no_config(j, problem, str_c(&text));
		return;
	}
	if (j->doc.root.type != NODE_MAP) {
		job_no_config(j, problem, "the job configuration is no mapping");
		return;
	}
	const struct node *roles = job_roles(j);
	struct job_role r;
	for (size_t i = 0; roles && j->role_name && i < roles->n && !j->role; i++) {
		if (job_role_at(roles, i, &r) && span_is(r.name, j->role_name))
			j->role = r.value;
	}
}

const char *job_role_spelling(const struct init_job *j, const char *kubernetes_name,
                              struct arena *a)
{
	const struct node *roles = job_roles(j);
	struct job_role r;
	for (size_t i = 0; roles && *kubernetes_name && i < roles->n; i++) {
		if (!job_role_at(roles, i, &r) ||
		    !span_equals_lower_alnum(r.name, span_of(kubernetes_name)))
			continue;
		char *spelling = arena_dup(a, r.name);
		for (char *c = spelling; *c; c++) {
			if (!is_alnum(*c))
				*c = '_';
		}
		return spelling;
	}
	return NULL;
}

const struct node *job_prerequisite(const struct init_job *j, const char *type, struct span name)
{
	const struct node *list = node_get(&j->doc.root, "prerequisites");
	const struct node *found = NULL;
	for (size_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *p = &list->item[i];
		if (!span_is(name, node_text(p, "name")) ||
		    (type && strcmp(node_text(p, "type"), type) != 0))
			continue;
		if (found)
			return NULL;
		found = p;
	}
	return found;
}

enum { TREE_TEXT_MAX = 4 << 20, SECRET_MAX = 2 << 20 /* more than a Secret has */ };

/* ---- references ---------------------------------------------------------------------------- */

/* `<%`, blanks, `$`, a word and a path, blanks, `%>`. */
struct reference_tag {
	size_t start, end;        /* end is behind `%>` */
	struct span word;         /* `secrets` */
	const struct node *value; /* NULL: it leads nowhere */
	bool path;                /* something follows the word */
	bool good;                /* false: it only begins with `<% $` */
};

struct reference_scan {
	const struct init_job *job;
	struct span text;
	bool secrets; /* only `secrets.PATH` is replaced, by nothing if it is absent */
	/* The next `%>` (or SIZE_MAX) and the blanks before it: kept, so that time is linear. */
	size_t close, content_end;
};

static const struct node *reference_root(const struct init_job *j, struct span word)
{
	static const char *const OF_ROLE[] = { "script", "output", "data" };
	if (span_is(word, "parameters"))
		return node_get(&j->doc.root, "parameters");
	if (span_is(word, "secrets"))
		return j->secrets;
	for (size_t i = 0; i < ARRAY_SIZE(OF_ROLE); i++) {
		const struct node *name = node_get(j->role, OF_ROLE[i]);
		if (span_is(word, OF_ROLE[i]) && node_is(name, NODE_TEXT))
			return job_prerequisite(j, OF_ROLE[i], node_span(name));
	}
	return NULL;
}

/* content: the text behind the `$`.  Only the characters before the first wrong one of a bad tag
 * are looked at, since others may follow up to the same `%>`. */
static void reference_tag_read(const struct init_job *j, struct span content,
                               struct reference_tag *t)
{
	size_t n = 0;
	for (; n < content.n; n++) {
		unsigned char c = (unsigned char)content.p[n];
		if (c < ' ' || c == 0x7f || strchr("<>%", c))
			return;
	}
	if (n == 0 || content.p[0] == '[' || content.p[n - 1] == '.' ||
	    span_find(content, 0, ".[") != SIZE_MAX)
		return;
	struct span part = reference_part(&content);
	t->word = part;
	t->path = content.n > 0;
	t->value = reference_root(j, part);
	t->good = true;
	for (;;) {
		t->good = t->good && part.n && span_chr(part, '[') == part.n &&
		          span_chr(part, ']') == part.n;
		if (content.n == 0)
			return;
		part = reference_part(&content);
		t->value = reference_child(t->value, part);
	}
}

/* Finds the next `<% $`. */
static bool reference_tag_next(struct reference_scan *s, size_t from, struct reference_tag *t)
{
	for (;; from += 2) {
		from = span_find(s->text, from, "<%");
		if (from == SIZE_MAX)
			return false;
		if (s->close < from + 2) {
			s->close = s->content_end = span_find(s->text, from + 2, "%>");
			while (s->close != SIZE_MAX && s->content_end > from + 2 &&
			       is_space(s->text.p[s->content_end - 1]))
				s->content_end--;
		}
		if (s->close == SIZE_MAX)
			return false;
		size_t dollar = from + 2;
		while (dollar < s->content_end && is_space(s->text.p[dollar]))
			dollar++;
		if (dollar >= s->content_end || s->text.p[dollar] != '$')
			continue;
		*t = (struct reference_tag){ .start = from, .end = s->close + 2 };
		struct span content = span_to(s->text, s->content_end);
		reference_tag_read(s->job, span_from(content, dollar + 1), t);
		return true;
	}
}

/* ---- filling -------------------------------------------------------------------------------- */

/* Names the reference, never a value. */
static int reference_tag_error(const struct reference_scan *s, const struct reference_tag *t,
                               const char *why, struct err *e)
{
	char buf[4 * QUOTE_MAX];
	struct span text = { s->text.p + t->start, t->end - t->start };
	return err_set(e, FAILED, "reference `%s` %s", quote(buf, text), why);
}

static int reference_fill(struct reference_scan *s, struct str *out, struct err *e)
{
	struct reference_tag t;
	size_t done = 0; /* of the text */
	for (size_t from = 0; reference_tag_next(s, from, &t) && !out->full;) {
		bool secret = t.good && t.path && span_is(t.word, "secrets");
		from = t.start + 2;
		if (s->secrets && !secret)
			continue;
		str_span(out, span_from(span_to(s->text, t.start), done));
		if (!t.good)
			return reference_tag_error(s, &t, "is not written as $word.key[0]", e);
		if (!t.value && !s->secrets)
			return reference_tag_error(s, &t, "leads nowhere", e);
		if (t.value && !node_put(out, t.value))
			return reference_tag_error(s, &t, "is a mapping or a list, not a text", e);
		done = from = t.end;
	}
	str_span(out, span_from(s->text, done));
	return out->full ? err_set(e, FAILED, "a text has more than %zu bytes with its references",
	                           out->max)
	                 : 0;
}

int job_fill(const struct init_job *j, struct span text, struct str *out, struct err *e)
{
	struct reference_scan s = { .job = j, .text = text };
	return reference_fill(&s, out, e);
}

int job_fill_secrets(const struct init_job *j, struct span text, struct str *out, struct err *e)
{
	struct reference_scan s = { .job = j, .text = text, .secrets = true };
	return reference_fill(&s, out, e);
}

/* ---- trees ---------------------------------------------------------------------------------- */

struct tree_filling {
	const struct init_job *j;
	struct arena *a;
	size_t left; /* bytes of text that may still come */
	struct err *e;
};

/* Trees are no deeper than the reader's budget. */
static int fill_node(struct tree_filling *f, const struct node *in, struct node *out)
{
	*out = *in;
	if (in->type == NODE_TEXT) {
		STR_AUTO text = STR_SECRET(f->left);
		if (job_fill(f->j, node_span(in), &text, f->e))
			return -1;
		f->left -= text.n;
		out->n = (uint32_t)text.n;
		out->text = arena_dup(f->a, str_view(&text));
	}
	if (in->type == NODE_LIST) {
		struct node *item = ARENA_NEW(f->a, struct node, in->n);
		for (uint32_t i = 0; i < in->n; i++) {
			if (fill_node(f, &in->item[i], &item[i]))
				return -1;
		}
		out->item = item;
	}
	if (in->type == NODE_MAP) {
		struct member *member = ARENA_NEW(f->a, struct member, in->n);
		for (uint32_t i = 0; i < in->n; i++) {
			member[i] = in->member[i];
			if (fill_node(f, &in->member[i].value, &member[i].value))
				return -1;
		}
		out->member = member;
	}
	return 0;
}

int job_fill_tree(const struct init_job *j, const struct node *in, struct arena *a,
                  struct node *out, struct err *e)
{
	struct tree_filling f = { j, a, TREE_TEXT_MAX, e };
	struct node filled;
	if (fill_node(&f, in, &filled))
		return -1;
	*out = filled;
	return 0;
}

/* ---- the step `config` ----------------------------------------------------------------------- */

/* A mounted YAML file; NULL if there is none.  No message quotes it. */
static int job_config_read_mounted(const char *path, struct arena *a, const struct node **root,
                                   struct err *e)
{
	ERR_AUTO why = { 0 };
	struct doc doc;
	struct span text;
	int status = file_read(path, FILE_MOUNTED, SECRET_MAX, a, &text, e);
	if (status != 0 || span_trim(text).n == 0)
		return status < 0 ? -1 : 0;
	if (doc_read(text, &BUDGET_DEFAULT, a, &doc, NULL, &why) < 0)
		return err_set(e, FAILED, "%s: line %u cannot be read as YAML", path,
		               why.notes.v[0].line);
	struct node *copy = ARENA_NEW(a, struct node, 1);
	*copy = doc.root;
	*root = copy;
	return 0;
}

static int job_config_read(struct init *in, struct err *e)
{
	STR_AUTO problem = STR_INIT(2048);
	const char *config = in->framework->config;
	if (config) {
		const char *path = path_join(in->a, in->at.runtime_d, "job_config.yaml");
		STR_AUTO text = STR_INIT(FRAMEWORK_MAX + 1);
		str_puts(&text, config);
		str_char(&text, '\n');
		if (dir_make(in->at.runtime_d, 0755, e) < 0 ||
		    file_write(path, str_view(&text), 0644, e) < 0)
			return -1;
	}
	job_parse_config(&in->job, span_of(config ? config : ""), in->a, &problem);
	if (problem.n)
		say_line(SAY_WARNING, "%s", str_c(&problem));
	else if (in->job.role_name && !in->job.role && job_roles(&in->job))
		say_line(SAY_WARNING, "the job configuration has no task role of the name in "
		                      "PAI_CURRENT_TASK_ROLE_NAME");
	return 0;
}

int step_config(struct init *in, struct err *e)
{
	ERR_AUTO why = { 0 };
	in->job.role_name = env_get("PAI_CURRENT_TASK_ROLE_NAME");
	if (job_config_read_mounted(in->at.secrets, in->a, &in->job.secrets, e) < 0)
		return INIT_FAILED;
	/* Keys of the user, which not every job needs. */
	if (job_config_read_mounted(in->at.extension, in->a, &in->job.extension, &why) < 0)
		say_line(SAY_WARNING, "%s", err_msg(&why));
	return in->framework && job_config_read(in, e) < 0 ? INIT_FAILED : 0;
}
