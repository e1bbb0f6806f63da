/* Flags, environment and configuration file into struct options. */
#include "server/options.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/tree.h"
#include "server/file.h"

enum { CONFIG_MAX = 1 << 20, NAME_LIMIT = 64 };

/* Where a value was given, for messages: "--listen", "REST_LIT_LISTEN", or a place in the file. */
struct origin {
	const char *what;
	struct place where;
};

static void *field(struct options *o, const struct option *option)
{
	return (char *)o + option->at;
}

static int wrong(const struct origin *from, struct err *e, const char *text)
{
	return err_at(e, 400, "InvalidOption", from->where, "%s: %s", from->what, text);
}

/* The same, and what was found. */
static int unfit(const struct origin *from, struct err *e, const char *must, const char *value)
{
	char shown[4 * QUOTE_MAX];
	return err_at(e, 400, "InvalidOption", from->where, "%s: %s, is \"%s\"", from->what, must,
	              quote(shown, span_of(value)));
}

static int set_text(struct options *o, const struct option *option, const char *value,
                    const struct origin *from, struct err *e)
{
	if (option->form && !option_fits(option->form, span_of(value)))
		return strchr(value, '@') /* there may be a password before it */
		           ? wrong(from, e, option->form->must)
		           : unfit(from, e, option->form->must, value);
	*(const char **)field(o, option) = value;
	return 0;
}

static int set_choice(struct options *o, const struct option *option, const char *value,
                      const struct origin *from, struct err *e)
{
	STR_AUTO list = STR_INIT(256);
	for (const char *const *c = option->choices; *c; c++) {
		if (strcmp(value, *c) == 0) {
			*(const char **)field(o, option) = *c;
			return 0;
		}
		/* "" is what nobody needs to say. */
		if (**c)
			str_printf(&list, "%s%s", list.n ? " or " : "must be ", *c);
	}
	return unfit(from, e, str_c(&list), value);
}

/* "64KiB" -> 65536; only for bytes. */
static int number_of(struct span text, bool bytes, int64_t *out)
{
	int64_t unit = 1;
	if (bytes && text.n > 3 && memcmp(text.p + text.n - 2, "iB", 2) == 0) {
		char c = text.p[text.n - 3];
		unit = c == 'K' ? 1024 : c == 'M' ? INT64_C(1) << 20 : 0;
		text.n -= 3;
	}
	int64_t n;
	if (unit == 0 || parse_i64(text, 0, INT64_MAX >> 20, &n) < 0)
		return -1;
	*out = n * unit;
	return 0;
}

static int set_number(struct options *o, const struct option *option, const char *value,
                      const struct origin *from, struct err *e)
{
	bool bytes = option->type == OPTION_BYTES;
	int64_t n;
	if (number_of(span_of(value), bytes, &n) < 0 || n < option->min || n > option->max) {
		STR_AUTO text = STR_INIT(256);
		str_printf(&text, "must be a number from %ld to %ld", (long)option->min,
		           (long)option->max);
		if (option->unit || bytes)
			str_printf(&text, " (%s)",
			           option->unit ? option->unit : "bytes; 64KiB and 2MiB will do");
		return unfit(from, e, str_c(&text), value);
	}
	*(int64_t *)field(o, option) = n;
	return 0;
}

static int set_switch(struct options *o, const struct option *option, const char *value,
                      const struct origin *from, struct err *e)
{
	bool on = strcmp(value, "true") == 0;
	if (!on && strcmp(value, "false") != 0)
		return unfit(from, e, "must be true or false", value);
	*(bool *)field(o, option) = on;
	return 0;
}

static int set(struct options *o, const struct option *option, const char *value,
               const struct origin *from, struct err *e)
{
	switch (option->type) {
	case OPTION_TEXT:
		return set_text(o, option, value, from, e);
	case OPTION_CHOICE:
		return set_choice(o, option, value, from, e);
	case OPTION_NUMBER:
	case OPTION_BYTES:
		return set_number(o, option, value, from, e);
	case OPTION_SWITCH:
		return set_switch(o, option, value, from, e);
	case OPTION_TYPE_MAX:
		break;
	}
	assert(option->type < OPTION_TYPE_MAX);
	return -1;
}

static void set_defaults(struct options *o)
{
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++) {
		if (p->type == OPTION_TEXT || p->type == OPTION_CHOICE)
			*(const char **)field(o, p) = p->text;
		else if (p->type != OPTION_SWITCH)
			*(int64_t *)field(o, p) = p->number;
	}
}

/* A scalar of the file as text, as it would stand on the command line. */
static const char *value_text(struct options *o, const struct node *n)
{
	switch ((enum node_type)n->type) {
	case NODE_TEXT:
	case NODE_DATE:
		return n->text;
	case NODE_BOOL:
		return n->boolean ? "true" : "false";
	case NODE_INT:
		return arena_printf(&o->arena, "%ld", (long)n->integer);
	case NODE_NULL:
	case NODE_REAL:
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return NULL;
}

static void unknown_key(const struct member *m, struct err *e)
{
	char name[4 * QUOTE_MAX];
	struct place where = { NULL, m->key_line, m->key_column };
	(void)err_at(e, 400, "InvalidOption", where, "there is no option \"%s\"",
	             quote(name, member_key(m)));
}

/* Options that other commands take are let pass, so that one file serves all commands. */
static void set_from_member(struct options *o, unsigned command, const struct member *m,
                            struct err *e)
{
	const struct option *option = option_find(member_key(m));
	if (!option || strcmp(option->name, "config") == 0) {
		unknown_key(m, e);
		return;
	}
	struct origin from = { option->name, { NULL, m->value.line, m->value.column } };
	const char *value = value_text(o, &m->value);
	if (!value)
		(void)wrong(&from, e, "must be one value; of several, with commas between them");
	else if (option->commands & command)
		(void)set(o, option, value, &from, e);
}

/* Only comments and blanks: a file in which all is commented out, which is no document. */
static bool says_nothing(const char *text)
{
	while (*text) {
		text += strspn(text, " \t\r\n");
		if (*text && *text != '#')
			return false;
		text += strcspn(text, "\n");
	}
	return true;
}

static int read_config(struct options *o, unsigned command, struct err *e)
{
	FREE_AUTO char *text = NULL;
	size_t n;
	if (file_read(o->config, CONFIG_MAX, &text, &n, e) < 0)
		return -1;
	struct doc doc;
	NOTES_AUTO warnings = { 0 };
	struct budget budget = BUDGET_DEFAULT;
	if (says_nothing(text))
		return 0;
	if (doc_read((struct span){ text, n }, &budget, &o->arena, &doc, &warnings, e) < 0)
		return -1;
	if (doc.root.type != NODE_MAP)
		return err_set(e, 400, "InvalidOption",
		               "%s: must be a mapping from option to value", o->config);
	for (uint32_t i = 0; i < doc.root.n; i++)
		set_from_member(o, command, &doc.root.member[i], e);
	return e->http ? -1 : 0;
}

static int read_environment(struct options *o, unsigned command, struct err *e)
{
	for (const struct option *p = OPTIONS; p < OPTIONS + N_OPTIONS; p++) {
		STR_AUTO name = STR_INIT(NAME_LIMIT);
		option_variable(&name, p);
		const char *value =
		    getenv(str_c(&name)); /* NOLINT(concurrency-mt-unsafe): at start */
		struct origin from = { str_c(&name), NOWHERE };
		if (value && (p->commands & command) && set(o, p, value, &from, e) < 0)
			return -1;
	}
	return 0;
}

struct cursor {
	int i, argc;
	char **argv;
};

static int unknown_flag(const char *flag, struct span name, struct err *e)
{
	const struct option *option = option_find(name);
	if (option)
		return err_set(e, 400, "InvalidOption", "%s is no option of this command", flag);
	return err_set(e, 400, "InvalidOption", "unknown option %s; --help-all lists them", flag);
}

static const char *flag_value(struct cursor *c, const struct option *option, const char *equals)
{
	if (equals)
		return equals + 1;
	if (option->type == OPTION_SWITCH)
		return "true";
	return c->i + 1 < c->argc ? c->argv[++c->i] : NULL;
}

static int read_flag(struct options *o, unsigned command, struct cursor *c, struct err *e)
{
	const char *flag = c->argv[c->i];
	const char *equals = strchr(flag, '=');
	struct span name = { flag + 2, equals ? (size_t)(equals - flag) - 2 : strlen(flag) - 2 };
	if (strcmp(flag, "-o") == 0)
		name = SPAN("output");
	const struct option *option = option_find(name);
	if (!option || !(option->commands & command))
		return unknown_flag(flag, name, e);
	const char *value = flag_value(c, option, equals);
	if (!value)
		return err_set(e, 400, "InvalidOption", "%s needs a value: %s", flag,
		               option->value);
	const char *what = arena_printf(&o->arena, "--%s", option->name);
	return set(o, option, value, &(struct origin){ what, NOWHERE }, e);
}

static int read_argument(struct options *o, unsigned command, struct cursor *c, struct err *e)
{
	const char *arg = c->argv[c->i];
	if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
		o->help = true;
	else if (strcmp(arg, "--help-all") == 0)
		o->help = o->help_all = true;
	else if (arg[0] == '-' && arg[1] != '\0')
		return read_flag(o, command, c, e);
	else
		o->files[o->n_files++] = arg;
	return 0;
}

static int read_flags(struct options *o, unsigned command, int argc, char **argv, struct err *e)
{
	bool only_files = false;
	o->n_files = 0;
	for (struct cursor c = { 1, argc, argv }; c.i < argc; c.i++) {
		if (only_files)
			o->files[o->n_files++] = argv[c.i];
		else if (strcmp(argv[c.i], "--") == 0)
			only_files = true;
		else if (read_argument(o, command, &c, e) < 0)
			return -1;
	}
	return 0;
}

int options_parse(struct options *o, unsigned command, int argc, char **argv, struct err *e)
{
	*o = (struct options){ 0 };
	o->files = ARENA_NEW(&o->arena, const char *, (size_t)argc + 1);
	set_defaults(o);
	/* Twice: the first reading finds --config, the second lets flags win over the file. */
	if (read_environment(o, command, e) < 0 || read_flags(o, command, argc, argv, e) < 0)
		return -1;
	if (o->help || o->config[0] == '\0')
		return 0;
	if (read_config(o, command, e) < 0)
		return -1;
	if (read_environment(o, command, e) < 0)
		return -1;
	return read_flags(o, command, argc, argv, e);
}

void options_done(struct options *o)
{
	arena_done(&o->arena);
}
