/*
 * The input is a job: all that init makes of its plugins.  No message ever holds a secret; scripts
 * that are all ours (no commands of the author in them) are words that every shell can read: each
 * quote is closed, and no text of the job stands outside of quotes.
 */
#include "runtime-assets/plugins/plugins_internal.h"
#include "tests/fuzz/fuzz.h"

static const char SECRETS[] =
    "{a: PLANTED-SECRET, b: [PLANTED-SECRET, 'PLANTED-SECRET it''s \"q\"'], "
    "uri: 'https://u:PLANTED-SECRET@h/r', key: ssh-rsa PLANTEDSECRET}";
static const char EXTENSION[] = "{jobSSH: {key: PLANTED-SECRET, pubKey: ssh-rsa AAAA}, "
				"sshKeys: [{value: ssh-rsa AAAA x}]}";

static const struct node *parse(const char *text, struct doc *doc, struct arena *a)
{
	ERR_AUTO e = { 0 };
	int failed = doc_read(span_of(text), &BUDGET_DEFAULT, a, doc, NULL, &e);
	assert(!failed);
	return &doc->root;
}

static void silent(const char *message)
{
	assert(strstr(message, "PLANTED") == NULL);
}

/* Behind the closing quote of a word that begins at s[i]; \' between two parts is ours. */
static size_t quoted(struct span s, size_t i)
{
	for (;;) {
		const char *end = memchr(s.p + i + 1, '\'', s.n - i - 1);
		assert(end); /* every quote is closed */
		i = (size_t)(end - s.p) + 1;
		if (i + 1 >= s.n || s.p[i] != '\\' || s.p[i + 1] != '\'')
			return i;
		i += 2;
		assert(i < s.n && s.p[i] == '\'');
	}
}

/* What stands outside of quotes is of these characters. */
static void check_line_words(struct span s)
{
	for (size_t i = 0; i < s.n;) {
		if (s.p[i] == '\'') {
			i = quoted(s, i);
			continue;
		}
		char c = s.p[i++];
		assert((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr(" /-.+\n", c));
	}
}

/* As a shell reads it, a script ends outside of all quotes. */
static void check_balance(struct span s)
{
	char quote = 0;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\' && quote != '\'')
			i++;
		else if (quote == s.p[i])
			quote = 0;
		else if (!quote && (s.p[i] == '\'' || s.p[i] == '"'))
			quote = s.p[i];
	}
	assert(quote == 0);
}

static void check_script(const struct made_file *f)
{
	check_balance(f->text);
	/* Those of ssh and git are nothing but calls of this program. */
	if (span_starts(f->text, "set -o errexit\n/usr/local/pai/runtime ") ||
	    span_starts(f->text, "set +o errexit\n/usr/local/pai/runtime "))
		check_line_words(f->text);
}

static bool has_commands(const struct node *entries)
{
	for (uint32_t i = 0; node_is(entries, NODE_LIST) && i < entries->n; i++) {
		const struct node *name = node_get(&entries->item[i], "plugin");
		if (node_is(name, NODE_TEXT) && span_is(node_span(name), "cmd"))
			return true;
	}
	return false;
}

static void check_files(const struct plugins *all)
{
	bool commands = has_commands(all->entries) || node_get(all->job->role, "prerequisites");
	for (size_t i = 0; i < all->n_files; i++) {
		const struct made_file *f = &all->file[i];
		assert(span_starts(span_of(f->path), "/usr/local/pai/") && !strstr(f->path, ".."));
		assert((f->mode & 0022) == 0);
		assert(!memchr(f->text.p, 0, f->text.n));
		if (!commands && strstr(f->path, "/runtime.d/"))
			check_script(f);
	}
}

FUZZ(config)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	STR_AUTO problem = STR_INIT(4096);
	struct layout at;
	struct doc secrets = { 0 };
	struct doc extension = { 0 };
	struct init_job job = { .role_name = "worker" };
	/* What the author writes down himself is no secret. */
	if (span_find(config, 0, "PLANTED") != SIZE_MAX)
		return;
	layout_init(&at, "", &a);
	job_parse_config(&job, config, &a, &problem);
	job.secrets = parse(SECRETS, &secrets, &a);
	job.extension = parse(EXTENSION, &extension, &a);
	struct plugins all = { .a = &a, .at = &at, .job = &job, .first_task = true };
	all.entries =
	    node_get(node_get(&job.doc.root, "extras"), "com.microsoft.pai.runtimeplugin");
	int failed = plugins_make(&all, &e);
	assert(!failed == !*err_msg(&e));
	silent(err_msg(&e));
	silent(str_c(&problem));
	for (size_t i = 0; i < all.said.n; i++)
		silent(all.said.v[i].msg);
	check_files(&all);
	plugins_done(&all);
}
