/* Changes of a job that are written as options: --name, --set, --env, --secret. */
#include <stdlib.h>

#include "base/doc/yaml.h"
#include "base/enc.h"
#include "base/pod/reference.h"
#include "schema/schema.h"
#include "server/compose/compose.h"
#include "server/config/setup.h"
#include "translate/job/dialect.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

enum { VALUE_MAX = 1 << 20 };

/* NAME and VALUE of a text; value->p is NULL without `=`.  No message has the value. */
static int vary_split(const char *option, const char *text, struct span *name, struct span *value,
                      struct err *e)
{
	char shown[4 * QUOTE_MAX];
	struct span all = span_of(text);
	*name = span_to(all, span_chr(all, '='));
	*value = name->n < all.n ? span_from(all, name->n + 1) : (struct span){ NULL, 0 };
	if (name->n && span_all(*name, "A-Za-z0-9_.-") && !is_digit(name->p[0]))
		return 0;
	return err_set(e, 400, NULL,
	               "%s: must begin with a name of letters, digits and _, no digit first; the "
	               "name is \"%s\"",
	               option, quote(shown, *name));
}

/* The value with quotes as YAML has it, as JSON. */
static int vary_value(struct str *out, const char *option, struct span value, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	ARENA_AUTO arena = { 0 };
	struct node n = { .type = NODE_LIST };
	bool quoted = value.n && (value.p[0] == '"' || value.p[0] == '\'');
	const struct node *read = quoted ? doc_quiet(value, &BUDGET_DEFAULT, &arena) : &n;
	if (value.n == 0)
		n = (struct node){ .type = NODE_TEXT, .text = "" };
	else if (!quoted && !strchr("[]{}&*!|>%@`#,", value.p[0]) && utf8_plain(value))
		yaml_resolve_plain(&n, value, &arena);
	if (!node_scalar(&arena, read ?: &n).p && !node_is(read, NODE_NULL))
		return err_set(e, 400, NULL,
		               "%s: must be one value as YAML has it: text, a number, true, false "
		               "or null; other text in quotes, '\"...\"'; is \"%s\"",
		               option, quote(shown, value));
	node_json(out, read);
	return 0;
}

int job_text_v2(const struct job_text *t, const char *option, struct arena *a, struct doc *doc,
                struct err *e)
{
	struct budget budget = BUDGET_DEFAULT;
	if (doc_read((struct span){ t->text, t->n }, &budget, a, doc, NULL, e) < 0)
		return -1;
	const struct dialect *d = dialect_of(&doc->root, DIALECTS_ALL);
	if (!d || d->placeholders)
		return 0;
	return err_set(e, 400, NULL,
	               "%s needs a v2 job, and %s is in dialect %s; convert it first: rest-lit "
	               "convert %s > job.yaml",
	               option, t->file, d->name, t->named ? t->file : "FILE");
}

int job_text_set(struct job_text *t, const char *option, struct span name_text, struct span value,
                 struct err *e)
{
	ARENA_SECRET arena = { 0 };
	STR_AUTO json = STR_INIT(VALUE_MAX);
	STR_AUTO known = STR_INIT(VALUE_MAX);
	struct doc doc = { 0 };
	const char *name = arena_dup(&arena, name_text);
	struct guess guess = { .name = name_text };
	if (job_text_v2(t, option, &arena, &doc, e) < 0)
		return -1;
	const struct node *all = node_get(&doc.root, "parameters");
	for (uint32_t i = 0; node_is(all, NODE_MAP) && i < all->n; i++) {
		guess_try(&guess, all->member[i].key);
		str_printf(&known, "%s%s", i ? ", " : "", all->member[i].key);
	}
	if (!known.n && t->quoted)
		return err_set(e, 400, NULL,
		               "%s: the command does not use %s; write <%% $parameters.%s %%> into "
		               "one of its words",
		               option, name, name);
	if (!known.n)
		return err_set(e, 400, NULL,
		               "%s: %s has no `parameters`; write `parameters: { %s: 0 }` into it, "
		               "and <%% $parameters.%s %%> into the command",
		               option, t->file, name, name);
	if (!node_get(all, name))
		return err_set(e, 400, NULL, "%s: %s has no parameter %s%s%s%s it has %s", option,
		               t->file, name, guess.best ? ", did you mean " : ";",
		               guess.best ?: "", guess.best ? "?" : "", str_c(&known));
	if (vary_value(&json, option, value, e) < 0)
		return -1;
	if (t->quoted && memchr(json.p, '\'', json.n))
		return err_set(e, 400, NULL,
		               "%s: a value of %s has a single quote, which cannot be put into a "
		               "command; use --env %s=VALUE, and the variable in the command",
		               option, name, name);
	const char *const path[] = { "parameters", name, NULL };
	return job_text_put(t, path, str_view(&json), e);
}

struct span job_text_secret(struct span text, size_t *at)
{
	static const char ROOT[] = "$secrets.";
	while ((*at = span_find(text, *at, "<%")) != SIZE_MAX) {
		*at = span_skip_class(text, *at + 2, " \t");
		size_t end = span_find(text, *at, "%>");
		if (end == SIZE_MAX)
			break;
		struct span name = span_from(span_to(text, end), *at);
		if (!span_starts(name, ROOT))
			continue;
		name = span_trim(span_from(name, strlen(ROOT)));
		*at = end;
		return reference_part(&name);
	}
	*at = text.n;
	return (struct span){ "", 0 };
}

/* How a job uses a secret. */
struct secret_use {
	bool filled;   /* a placeholder names it */
	bool variable; /* extras.secretEnv does */
};
static const char *const SECRET_ENV[] = { "extras", "secretEnv", NULL };

static int vary_secret_use(const struct job_text *t, const char *name, struct secret_use *use,
                           struct err *e)
{
	ARENA_SECRET arena = { 0 };
	STR_AUTO json = STR_SECRET(SUBMIT_FILE_MAX);
	struct doc doc;
	struct span used;
	if (job_text_v2(t, "--secret", &arena, &doc, e) < 0)
		return -1;
	const struct node *names = node_get(node_get(&doc.root, SECRET_ENV[0]), SECRET_ENV[1]);
	for (uint32_t i = 0; node_is(names, NODE_LIST) && i < names->n; i++)
		use->variable |= node_is(&names->item[i], NODE_TEXT) &&
		                 span_is(node_span(&names->item[i]), name);
	for (uint32_t i = 0; node_is(&doc.root, NODE_MAP) && i < doc.root.n; i++)
		if (!span_is(member_key(&doc.root.member[i]), "secrets"))
			node_json(&json, &doc.root.member[i].value);
	for (size_t at = 0; (used = job_text_secret(str_view(&json), &at)).n;)
		use->filled |= span_is(used, name);
	return 0;
}

/* Bytes that a job file cannot have, also as escapes. */
static bool vary_is_binary(struct span value)
{
	uint32_t c = 0;
	unsigned n;
	bool odd = utf8_check(value) < value.n;
	for (size_t i = 0; !odd && i < value.n; i += n) {
		c = utf8_decode((const unsigned char *)value.p + i, value.n - i, &n);
		odd = (c >= 0x7f && utf8_is_control(c)) || c == 0xfeff || (c & 0xfffe) == 0xfffe;
	}
	return odd;
}

/* A secret that no placeholder names is a variable: any bytes. */
static int vary_secret(struct job_text *t, const char *name, struct span value, struct err *e)
{
	const char *const path[] = { "secrets", name, NULL };
	ARENA_AUTO arena = { 0 };
	STR_AUTO json = STR_SECRET((size_t)2 * VALUE_MAX);
	struct secret_use use = { false };
	struct settings settings;
	if (vary_secret_use(t, name, &use, e) < 0)
		return -1;
	if (!use.filled && vary_is_binary(value)) {
		str_puts(&json, "{\"base64\":\"");
		str_base64(&json, value);
		str_puts(&json, "\"}");
	} else {
		str_json(&json, value);
	}
	if (job_text_put(t, path, str_view(&json), e) < 0)
		return -1;
	if (use.filled || use.variable)
		return 0;
	translate_settings_default(&settings);
	if (names_identifier_ok(span_of(name)) &&
	    !parse_secret_env_reserved(&settings, span_of(name)))
		return job_text_change(t, SECRET_ENV,
		                       span_of(arena_printf(&arena, "[\"%s\"]", name)), true, e);
	return err_set(e, 400, NULL,
	               "--secret: no placeholder <%% $secrets.%s %%> uses it, and it cannot be the "
	               "variable %s: names of variables have letters, digits and _, and PATH and "
	               "those that begin with LD_, PAI_, FC_ or KUBERNETES_ are not for jobs",
	               name, name);
}

/* --env or --secret: a variable, as text. */
static int vary_variable(struct job_text *t, bool secret, const char *text, struct err *e)
{
	ARENA_SECRET arena = { 0 };
	STR_AUTO json = STR_INIT(VALUE_MAX);
	struct settings settings;
	struct doc doc;
	struct span name;
	struct span value;
	const char *option = secret ? "--secret" : "--env";
	if (vary_split(option, text, &name, &value, e) < 0 ||
	    job_text_v2(t, option, &arena, &doc, e) < 0)
		return -1;
	const char *key = arena_dup(&arena, name);
	const char *const in_env[] = { "extras", "env", key, NULL };
	translate_settings_default(&settings);
	if (!secret && parse_env_reserved(&settings, name))
		return err_set(e, 400, NULL,
		               "--env: %s belongs to the system, as names that begin with PAI_, "
		               "FC_ or KUBERNETES_, and variables of devices, do",
		               key);
	const char *here = value.p ? NULL : getenv(key); /* NOLINT: one thread */
	if (!value.p && !here)
		return err_set(e, 400, NULL, "%s: %s is not set here; write %s=VALUE", option, key,
		               key);
	value = here ? span_of(here) : value;
	if (secret)
		return vary_secret(t, key, value, e);
	str_json(&json, value);
	return job_text_put(t, in_env, str_view(&json), e);
}

int job_text_vary(struct job_text *t, const struct options *o, struct err *e)
{
	struct span name;
	struct span value;
	int rc = o->name[0] ? job_text_rename(t, o->name, e) : 0;
	for (size_t i = 0; rc == 0 && i < o->set.n; i++) {
		if (vary_split("--set", o->set.v[i], &name, &value, e) < 0)
			return -1;
		if (!value.p)
			return err_set(e, 400, NULL, "--set: write %s=VALUE", o->set.v[i]);
		rc = job_text_set(t, "--set", name, value, e);
	}
	for (size_t i = 0; rc == 0 && i < o->env.n; i++)
		rc = vary_variable(t, false, o->env.v[i], e);
	for (size_t i = 0; rc == 0 && i < o->secret.n; i++)
		rc = vary_variable(t, true, o->secret.v[i], e);
	return rc;
}

int job_text_shown(const struct job_text *t, const struct options *o, struct arena *a,
                   struct span *out, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	schema_init();
	struct translator *translator = setup_translator(o, a, e);
	struct job *job = translator
	                      ? job_read(translator, DIALECTS_ALL, (struct span){ t->text, t->n },
	                                 "user", a, &warnings, e)
	                      : NULL;
	if (job)
		*out = arena_span(a, job->config);
	translator_free(translator);
	return job ? 0 : -1;
}
