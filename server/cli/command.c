/* Help, usage and output of all commands, and the small commands version, page and schema. */
#include "server/cli/cli_internal.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <yaml.h>

#include "schema/schema.h"
#include "server/config/setup.h"
#include "server/controller/controller_metrics.h"
#include "server/http/loop.h"
#include "server/serve/metrics.h"
#include "server/serve/routes.h"
#include "server/serve/start.h"
#include "translate/job/dialect.h"

enum { HELP_MAX = 64 * 1024 };

void command_put_about(struct str *out, const struct command *c)
{
	const char *status = strstr(c->about, "Exit status:") ?: "";
	str_put(out, c->about, strlen(c->about) - strlen(status));
	if (c->run == cmd_schema) {
		str_puts(out, "NAME is one of ");
		schema_names(out, ", ");
		str_puts(out, ".\n");
	}
	if (c->arguments && span_starts(span_of(c->arguments), "JOB"))
		str_puts(out, "JOB is USER~NAME, or NAME for one of your own jobs.\n");
	str_puts(out, status);
}

const struct command *command_find(const char *name)
{
	const struct command *c = COMMANDS;
	while (c < COMMANDS + N_COMMANDS && strcmp(c->name, name) != 0)
		c++;
	return c < COMMANDS + N_COMMANDS ? c : NULL;
}

static int command_help(const struct command *c, bool all)
{
	STR_AUTO out = STR_INIT(HELP_MAX);
	str_printf(&out, "Usage: rest-lit %s%s%s%s\n\n", c->name, c->options ? " [OPTION]..." : "",
	           c->arguments ? " " : "", c->arguments ? c->arguments : "");
	command_put_about(&out, c);
	if (c->options) {
		str_char(&out, '\n');
		options_help(&out, c->options, all);
	}
	str_char(&out, '\n');
	bool several = strchr(c->examples, '\n')[1] != '\0';
	if (c->examples[0] == ' ')
		str_puts(&out, several ? "Examples:\n" : "Example:\n");
	str_puts(&out, c->examples);
	return command_print(str_view(&out));
}

int command_run(const struct command *c, int argc, char **argv)
{
	ERR_AUTO e = { 0 };
	struct options o = { 0 };
	int code;
	if (c->options) {
		(void)options_parse(&o, c->options, argc, argv, &e); /* the error is in e */
	} else {
		o.files = ARENA_NEW(&o.arena, const char *, (size_t)argc);
		for (int i = 1; i < argc; i++) {
			o.help |= c->summary &&
			          (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0);
			o.files[o.n_files++] = argv[i];
		}
	}
	int wrong = EXIT_USAGE;
	for (int i = 1; i < argc && c->options == FOR_RUN; i++)
		wrong = strcmp(argv[i], "--") == 0 ? EXIT_NO_COMMAND : wrong;
	if (e.http) {
		code = print_error_notes(&e, o.config, wrong);
	} else if (o.help) {
		code = command_help(c, o.help_all);
	} else if (o.n_files < c->least || o.n_files > c->most) {
		(void)command_usage(c, c->wanted);
		code = wrong;
	} else {
		code = c->run(c, &o);
	}
	arena_done(&o.arena);
	return code;
}

int command_service(struct options *o, int (*run)(struct service *s))
{
	struct service *s = xcalloc(1, sizeof(*s));
	s->options = *o;
	s->signal_fd = s->server.ended_fd = -1;
	int code = run(s);
	*o = s->options; /* its arena may have grown */
	free(s);
	return code;
}

int command_print(struct span text)
{
	if (fwrite(text.p, 1, text.n, stdout) == text.n && fflush(stdout) == 0)
		return EXIT_OK;
	char why[128];
	(void)fprintf(stderr, "rest-lit: standard output: %s\n",
	              strerror_r(errno, why, sizeof(why)));
	return EXIT_REFUSED;
}

int command_usage(const struct command *c, const char *text)
{
	(void)fprintf(stderr, "rest-lit %s: %s; see rest-lit %s --help\n", c->name, text, c->name);
	return EXIT_USAGE;
}

struct translator *command_translator(struct options *o)
{
	ERR_AUTO e = { 0 };
	struct translator *t = NULL;
	schema_init();
	if (user_name_ok(span_of(setup_user(o))))
		t = setup_translator(o, &o->arena, &e);
	else
		(void)err_set(&e, 400, NULL, "--user: \"%s\" is no user name", setup_user(o));
	if (!t)
		(void)print_error_notes(&e, NULL, EXIT_USAGE);
	return t;
}

void command_notes(const char *file, const char *prefix, const struct notes *notes)
{
	STR_AUTO out = STR_INIT(HELP_MAX);
	for (size_t i = 0; i < notes->n; i++)
		note_line(&out, file, prefix, &notes->v[i]);
	if (notes->dropped)
		str_printf(&out, "%s: %sand %zu more\n", file, prefix, notes->dropped);
	(void)fwrite(str_c(&out), 1, out.n, stderr); /* errors cannot be reported */
}

/* rest-lit version */

/* The libraries inside, as packaging/portable lists them: a line each with the version of Debian.
 * The program that `make` links has none. */
extern const char PORTABLE_PARTS[] __attribute__((weak));

int cmd_version(const struct command *c, struct options *o)
{
	(void)c;
	(void)o;
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
	STR_AUTO out = STR_INIT(PATH_MAX + 1024);
	str_printf(&out, "rest-lit %s\nlibmicrohttpd %s, jansson %s, libyaml %s\n",
	           REST_LIT_VERSION, http_version(), jansson_version_str(),
	           yaml_get_version_string());
	if (n > 0)
		str_printf(&out, "%.*s\n", (int)n, self);
	if (PORTABLE_PARTS != NULL)
		str_printf(&out, "libraries inside, with the versions of Debian:\n%s",
		           PORTABLE_PARTS);
	return command_print(str_view(&out));
}

/* rest-lit page NAME, or page man COMMAND: a page of documentation, generated from tables. */

enum { PAGE_MAX = 1 << 20 };

static void metrics_pages(struct str *out)
{
	metrics_page(out);
	str_puts(out, "\n## The controller\n\n"
	              "`GET /metrics` of `rest-lit controller --listen`, from the table in\n"
	              "server/controller/controller_metrics.c.\n\n");
	metrics_rows(out, CONTROLLER_METRICS, N_CONTROLLER_METRICS);
}

static const struct {
	const char *name;
	void (*write)(struct str *out);
} PAGES[] = {
	{ "options", options_page },         { "routes", routes_page },
	{ "parameters", parameters_page },   { "list-parameters", list_parameters_page },
	{ "openapi", openapi_page },         { "translation", translation_page },
	{ "config-schema", options_schema }, { "templates", templates_page },
	{ "metrics", metrics_pages },        { "man", manual_page },
};

int cmd_page(const struct command *c, struct options *o)
{
	bool man = o->n_files == 2 && strcmp(o->files[0], "man") == 0;
	const struct command *of = man ? command_find(o->files[1]) : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(PAGES); i++) {
		if (strcmp(o->files[0], PAGES[i].name) != 0 ||
		    (o->n_files == 2 && !(of && of->summary)))
			continue;
		STR_AUTO out = STR_INIT(PAGE_MAX);
		if (of)
			manual_command_page(&out, of);
		else
			PAGES[i].write(&out);
		return command_print(str_view(&out));
	}
	return command_usage(c, c->wanted);
}

/* rest-lit schema NAME */

int cmd_schema(const struct command *c, struct options *o)
{
	STR_AUTO out = STR_INIT(PAGE_MAX);
	if (!schema_named(&out, span_of(o->files[0])))
		return command_usage(c, "there is no such schema");
	return command_print(str_view(&out));
}

void note_line(struct str *out, const char *file, const char *prefix, const struct note *n)
{
	char buf[4 * QUOTE_MAX];
	str_puts(out, file);
	if (n->line)
		str_printf(out, ":%u:%u", n->line, n->column);
	str_printf(out, ": %s", prefix);
	/* The members of the pointer are untrusted text. */
	const char *at = n->at ? n->at : "";
	while (*at == '/') {
		const char *end = strchrnul(++at, '/');
		str_printf(out, "/%s", quote(buf, (struct span){ at, (size_t)(end - at) }));
		at = end;
	}
	str_printf(out, "%s%s\n", n->at && n->at[0] ? ": " : "", n->msg);
}
