#pragma once
/* Plugins of a job in a test: `struct world w = run("- {plugin: cmd, ...}"); ... done(&w);` */
#include "runtime-assets/common/cmdline.h"
#include "runtime-assets/plugins/plugins_internal.h"

#include "tests/unit/base/cmocka.h"

struct world {
	struct arena a;
	struct layout at;
	struct doc secrets, extension;
	struct init_job job;
	struct plugins all;
	struct err e;
	int failed;
};

static inline const struct node *doc(struct world *w, struct doc *d, const char *text)
{
	ERR_AUTO e = { 0 };
	assert_int_equal(doc_read(span_of(text), &BUDGET_DEFAULT, &w->a, d, NULL, &e), 0);
	return &d->root;
}

/* Parameters and prerequisites for all; `config` is the rest of the job. */
static const char COMMON[] =
    "parameters: {p: \"it's\", port: 8081, on: true}\n"
    "prerequisites:\n"
    "  - {type: dockerimage, name: img, uri: x}\n"
    "  - type: script\n"
    "    name: prep\n"
    "    plugin: com.microsoft.pai.runtimeplugin.cmd\n"
    "    failurePolicy: Ignore\n"
    "    callbacks:\n"
    "      - {event: taskStarts, commands: [echo <% $parameters.p %>]}\n"
    "      - {event: taskSucceeds, commands: [echo done]}\n"
    "      - {event: other, commands: [echo never]}\n"
    "  - {type: script, name: odd, plugin: com.microsoft.pai.runtimeplugin}\n";

static inline void begin(struct world *w, const char *config)
{
	STR_AUTO text = STR_INIT(10000);
	STR_AUTO problem = STR_INIT(1000);
	*w = (struct world){ .failed = 0 };
	layout_init(&w->at, "", &w->a);
	str_puts(&text, COMMON);
	str_puts(&text, config);
	w->job.role_name = "worker";
	job_parse_config(&w->job, str_view(&text), &w->a, &problem);
	assert_string_equal(str_c(&problem), "");
	w->job.secrets = doc(w, &w->secrets, "{token: S3CRET-VALUE, list: [S3CRET-VALUE]}");
	w->all = (struct plugins){ .a = &w->a, .at = &w->at, .job = &w->job, .first_task = true };
	w->all.entries =
	    node_get(node_get(&w->job.doc.root, "extras"), "com.microsoft.pai.runtimeplugin");
}

static inline void make(struct world *w)
{
	w->failed = plugins_make(&w->all, &w->e);
	for (size_t i = 0; i < w->all.said.n; i++)
		assert_null(strstr(w->all.said.v[i].msg, "S3CRET"));
	assert_null(strstr(err_msg(&w->e), "S3CRET"));
}

static inline struct world run(const char *plugins)
{
	struct world w;
	STR_AUTO config = STR_INIT(10000);
	str_puts(&config, "taskRoles: {worker: {instances: 1}}\n"
	                  "extras:\n  com.microsoft.pai.runtimeplugin:\n");
	str_puts(&config, plugins);
	begin(&w, str_c(&config));
	w.all.job = &w.job;
	make(&w);
	return w;
}

static inline void done(struct world *w)
{
	plugins_done(&w->all);
	err_done(&w->e);
	arena_done(&w->a);
}

/* Returns the text of a file by the end of its path; "": there is no such file. */
static inline const char *file(const struct world *w, const char *name)
{
	for (size_t i = 0; i < w->all.n_files; i++) {
		struct span path = span_of(w->all.file[i].path);
		size_t n = strlen(name);
		if (path.n > n && strcmp(path.p + path.n - n, name) == 0 &&
		    path.p[path.n - n - 1] == '/')
			return w->all.file[i].text.p;
	}
	return "";
}

/* The calls of a script, without its header. */
static inline const char *calls(const struct world *w, const char *name)
{
	struct span script = span_of(file(w, name));
	struct span body = shell_body(script);
	assert_true(body.n < script.n && body.p[0] == '\n');
	return body.p + 1;
}

/* One plugin, as YAML in flow style; its script before, or why it fails. */
static inline void pre(const char *plugin, const char *want)
{
	STR_AUTO list = STR_INIT(10000);
	str_printf(&list, "    - %s\n", plugin);
	AUTO(done) struct world w = run(str_c(&list));
	assert_string_equal(w.failed ? err_msg(&w.e) : file(&w, "plugin_pre0.sh"), want);
}

/* The same for two worlds that share the arena by value would be wrong: set up by hand. */
static inline void set_extension(struct world *w, const char *extension)
{
	w->job.extension = doc(w, &w->extension, extension);
}
