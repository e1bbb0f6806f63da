/* Reads the files that options name, and builds translator, facts and configuration of HiveD. */
#include "server/config/setup.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "jobs/store/store.h"
#include "server/config/system.h"
#include "translate/facts.h"
#include "translate/hived/hived.h"

enum {
	TEMPLATE_MAX = 1 << 20,
	TEMPLATES_MAX = 64,
	FACTS_MAX = 16 << 20,
	HIVED_MAX = 16 << 20,
	LINE_LIMIT = 8192
};

static void setup_put_note(struct str *out, const char *file, const struct note *n)
{
	if (file && n->line)
		str_printf(out, "%s:%u:%u: ", file, n->line, n->column);
	else if (file && n->at)
		str_printf(out, "%s: ", file);
	note_text(out, n);
}

int print_error_notes(const struct err *e, const char *file, int code)
{
	for (size_t i = 0; i < e->notes.n; i++) {
		STR_AUTO text = STR_INIT(LINE_LIMIT);
		setup_put_note(&text, file, &e->notes.v[i]);
		(void)fprintf(stderr, "rest-lit: %s\n", str_c(&text));
	}
	if (e->notes.dropped)
		(void)fprintf(stderr, "rest-lit: and %zu more\n", e->notes.dropped);
	return code;
}

void setup_put_error(struct str *out, const char *file, const struct err *e)
{
	for (size_t i = 0; i < e->notes.n; i++) {
		str_puts(out, i ? "; " : "");
		setup_put_note(out, file, &e->notes.v[i]);
	}
}

/* The kernel gives ports from here on to connections, so one that a task is to listen on can be in
 * use by another program of this machine.  `end` if they begin at or below `start`. */
static int64_t setup_port_end(int64_t start, int64_t end)
{
	ERR_AUTO e = { 0 };
	FREE_AUTO char *text = NULL;
	size_t n = 0;
	int64_t low;
	if (file_read_or_stdin("/proc/sys/net/ipv4/ip_local_port_range", 64, &text, &n, &e) < 0)
		return end;
	struct span rest = { text, n };
	return parse_i64(span_next(&rest, '\t'), start + 1, end, &low) == 0 ? low : end;
}

static int setup_settings(struct settings *s, const struct options *o, struct arena *a,
                          struct err *e)
{
	translate_settings_default(s);
	while (strcmp(o->profile, PROFILE_NAMES[s->profile]) != 0)
		s->profile++;
	if (o->namespace_name[0])
		s->namespace_name = o->namespace_name;
	if (o->runtime_image[0])
		*(strcmp(o->runtime, "configmap") == 0 ? &s->runtime_init_image
		                                       : &s->runtime_image) = o->runtime_image;
	s->runtime_pull_secret = o->runtime_pull_secret;
	s->service_account = o->service_account;
	s->apiserver_uri = o->apiserver_uri;
	s->output_url = o->output_url;
	s->device = o->device;
	s->fs_uri = o->fs_uri;
	s->hived = o->hived_config[0] != '\0';
	s->hived_scheduler = o->hived_scheduler;
	s->hived_device_env = o->hived_device_env;
	s->port_start = o->port_start;
	s->port_end =
	    options_run_here(o) ? setup_port_end(o->port_start, o->port_end) : o->port_end;
	s->priority_class = o->priority_class && !o->local[0]; /* nothing there would use it */
	if (options_run_here(o))
		s->results = options_keep_results(o) ? RESULTS_ON_MACHINE : RESULTS_NOWHERE;
	s->fetch_code = o->fetch_code;
	s->max_command = (size_t)o->max_command;
	s->max_rendered = (size_t)o->max_rendered;
	s->max_object = (size_t)o->max_object;
	s->max_annotations = (size_t)o->max_annotations;
	s->max_env_inline = (size_t)o->max_env_inline;
	s->max_roles = o->max_roles;
	s->max_instances = o->max_instances;
	s->max_tasks = o->max_tasks;
	s->max_duration_s = o->max_duration_s;
	s->budget = (struct budget){ .depth = (size_t)o->max_depth,
		                     .nodes = (size_t)o->max_nodes,
		                     .text = (size_t)o->max_text,
		                     .key = (size_t)o->max_key };
	return runtime_programs_load(o, a, s, e);
}

static void setup_close_dir(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir); /* cannot lose data: the directory was only read */
}

/* The templates of a directory; NULL-terminated. */
static int setup_read_templates(const char *dir, struct arena *a, struct template_file *files,
                                struct err *e)
{
	__attribute__((cleanup(setup_close_dir))) DIR *d = opendir(dir);
	if (!d)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", dir);
	size_t n = 0;
	for (const struct dirent *entry;
	     (entry = readdir(d));) { /* NOLINT(concurrency-mt-unsafe) */
		const char *dot = strrchr(entry->d_name, '.');
		/* No template is named .yml, so translator_new reports such a file. */
		if (entry->d_name[0] == '.' || !dot ||
		    (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0))
			continue;
		if (n == TEMPLATES_MAX)
			return err_set(e, UNKNOWN_ERROR, "%s: too many templates", dir);
		FREE_AUTO char *path = xasprintf("%s/%s", dir, entry->d_name);
		STR_AUTO text = STR_INIT(TEMPLATE_MAX);
		struct stat st;
		if (file_read_regular(path, &text, &st, e) < 0)
			return -1;
		files[n].name = arena_dup(a, span_of(entry->d_name));
		files[n++].text = arena_span(a, str_view(&text));
	}
	return 0;
}

struct translator *setup_translator(const struct options *o, struct arena *a, struct err *e)
{
	struct settings settings;
	struct template_file files[TEMPLATES_MAX + 1] = { 0 };
	if (setup_settings(&settings, o, a, e) < 0)
		return NULL;
	if (o->templates[0] && setup_read_templates(o->templates, a, files, e) < 0)
		return NULL;
	return translator_new(&settings, o->templates[0] ? files : NULL, e);
}

struct facts_file *setup_facts_file(const struct options *o, struct arena *a, struct err *e)
{
	FREE_AUTO char *text = NULL;
	size_t n = 0;
	if (o->facts[0] && file_read_or_stdin(o->facts, FACTS_MAX, &text, &n, e) < 0)
		return NULL;
	return facts_file_read((struct span){ text ? text : "", n }, a, e);
}

int setup_facts(const struct options *o, const char *user, struct arena *a, struct facts *f,
                struct err *e)
{
	struct facts_user own;
	const struct facts_file *file = setup_facts_file(o, a, e);
	if (!file)
		return -1;
	facts_file_user(file, span_of(user), false, a, &own);
	*f = own.facts;
	return 0;
}

int setup_hived(const struct options *o, struct arena *a, struct facts *f, struct err *e)
{
	FREE_AUTO char *text = NULL;
	size_t n = 0;
	if (!o->hived_config[0])
		return 0;
	if (file_read_or_stdin(o->hived_config, HIVED_MAX, &text, &n, e) < 0)
		return -1;
	f->hived = hived_read((struct span){ text, n }, a, e);
	return f->hived ? 0 : -1;
}

static const char *text_or_null(const char *text)
{
	return text[0] ? text : NULL;
}

struct login *setup_login(const struct options *o, struct err *e)
{
	return login_new(
	    &(struct login_options){
		.kubeconfig = text_or_null(o->kubeconfig),
		.context = text_or_null(o->context),
		.apiserver = text_or_null(o->apiserver),
		.ca_file = text_or_null(o->apiserver_ca),
		.token_file = text_or_null(o->apiserver_token_file),
		.namespace_name = text_or_null(o->namespace_name),
	    },
	    e);
}

const char *setup_user(const struct options *o)
{
	if (o->user[0])
		return o->user;
	const char *user = getenv("USER"); /* NOLINT(concurrency-mt-unsafe): at start */
	const struct passwd *entry = user ? NULL : getpwuid(geteuid()); /* NOLINT: likewise */
	user = entry ? entry->pw_name : user;
	return user && user_name_ok(span_of(user)) ? user : "user";
}
