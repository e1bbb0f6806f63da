/* The plugins of a job and their scripts; the plugins cmd and tensorboard; the step `command`. */
#include "runtime-assets/plugins/plugins_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/pod/plugin.h"
#include "base/pod/reference.h"
#include "runtime-assets/common/cmdline.h"

static const char PLUGIN_PREFIX[] = "com.microsoft.pai.runtimeplugin";

/* ---- parameters ------------------------------------------------------------------------------ */

int plugin_text(const struct plugin *p, const char *key, struct span *text, struct err *e)
{
	const struct node *n = node_get(p->parameters, key);
	*text = SPAN("");
	if (!n)
		return 0;
	STR_AUTO out = STR_SECRET(SCRIPT_MAX);
	if (!node_put(&out, n))
		return err_set(e, FAILED, "`%s` must be a text", key);
	*text = arena_span(p->all->a, str_view(&out));
	return 0;
}

bool plugin_is_empty(const struct node *n)
{
	return !n || n->type == NODE_NULL || (n->type == NODE_TEXT && n->n == 0);
}

int plugin_bool(const struct plugin *p, const char *key, bool *value, struct err *e)
{
	const struct node *n = node_get(p->parameters, key);
	if (node_is(n, NODE_BOOL))
		*value = n->boolean;
	else if (plugin_is_empty(n) || (n->type == NODE_TEXT && strcasecmp(n->text, "false") == 0))
		*value = false;
	else if (n->type == NODE_TEXT && strcasecmp(n->text, "true") == 0)
		*value = true;
	else
		return err_set(e, FAILED, "`%s` must be true or false", key);
	return 0;
}

int plugin_whole(const struct plugin *p, struct whole_limits w, int64_t *value, struct err *e)
{
	const struct node *n = node_get(p->parameters, w.key);
	if (plugin_is_empty(n) ||
	    (n->type == NODE_TEXT && parse_i64(node_span(n), w.min, w.max, value) == 0))
		return 0;
	if (n->type != NODE_INT || n->integer < w.min || n->integer > w.max)
		return err_set(e, FAILED, "`%s` must be a whole number from %lld to %lld", w.key,
		               (long long)w.min, (long long)w.max);
	*value = n->integer;
	return 0;
}

/* ---- the plugin cmd -------------------------------------------------------------------------- */

/* Commands of the author, verbatim: preCommands and postCommands, or callbacks for the events
 * taskStarts and taskSucceeds; other events are ignored. */

static int cmd_put_list(struct str *out, const struct node *list, const char *key, struct err *e)
{
	if (!list || list->type == NODE_NULL)
		return 0;
	if (list->type != NODE_LIST)
		return err_set(e, FAILED, "`%s` must be a list of commands", key);
	for (uint32_t i = 0; i < list->n; i++) {
		if (!node_put(out, &list->item[i]))
			return err_set(e, FAILED, "`%s[%u]` must be a text", key, i);
		str_char(out, '\n');
	}
	return 0;
}

static int plugin_cmd(struct plugin *p, struct err *e)
{
	const struct node *pre = node_get(p->parameters, "preCommands");
	const struct node *post = node_get(p->parameters, "postCommands");
	const struct node *callbacks = node_get(p->parameters, "callbacks");
	if (callbacks && (pre || post))
		return err_set(
		    e, FAILED,
		    "`callbacks` cannot be together with `preCommands` or `postCommands`");
	if (cmd_put_list(&p->pre, pre, "preCommands", e) ||
	    cmd_put_list(&p->post, post, "postCommands", e))
		return -1;
	if (!callbacks || callbacks->type == NODE_NULL)
		return 0;
	if (callbacks->type != NODE_LIST)
		return err_set(e, FAILED, "`callbacks` must be a list");
	for (uint32_t i = 0; i < callbacks->n; i++) {
		const char *event = node_text(&callbacks->item[i], "event");
		const struct node *commands = node_get(&callbacks->item[i], "commands");
		if (!*event)
			return err_set(e, FAILED, "each of `callbacks` must have an `event`");
		bool starts = strcmp(event, "taskStarts") == 0;
		bool succeeds = strcmp(event, "taskSucceeds") == 0;
		if ((starts || succeeds) &&
		    cmd_put_list(starts ? &p->pre : &p->post, commands, "commands", e))
			return -1;
	}
	return 0;
}

/* ---- the plugin tensorboard ------------------------------------------------------------------ */

/* The first task of the job starts tensorboard in the background.  Its output goes to runtime.log;
 * its failure does not fail the task. */

enum { TENSORBOARD_PORT = 6006 };

/* `logdir` as name:path,name:path, and its first path. */
struct tensorboard_dirs {
	struct str spec;
	struct span first;
	uint32_t n;
};

static int tensorboard_dir(struct plugin *p, struct tensorboard_dirs *d, const struct member *m,
                           struct err *e)
{
	STR_AUTO path = STR_SECRET(SCRIPT_MAX);
	if (!node_put(&path, &m->value) || path.n == 0)
		return err_set(e, FAILED, "the paths in `logdir` must be texts");
	struct span name = member_key(m);
	struct span text = arena_span(p->all->a, str_view(&path));
	/* tensorboard cannot quote them. */
	if (!span_all(name, "^,:") || !span_all(text, "^,"))
		return err_set(e, FAILED,
		               "names in `logdir` must be without `:` and `,`, paths without `,`");
	if (d->n++ == 0)
		d->first = text;
	else
		str_char(&d->spec, ',');
	str_span(&d->spec, name);
	str_char(&d->spec, ':');
	str_span(&d->spec, text);
	return 0;
}

static int tensorboard_dirs(struct plugin *p, struct tensorboard_dirs *d, struct err *e)
{
	const struct node *logdir = node_get(p->parameters, "logdir");
	if (!node_is(logdir, NODE_MAP) || logdir->n == 0)
		return err_set(e, FAILED, "`logdir` must be a mapping of names to paths");
	for (uint32_t i = 0; i < logdir->n; i++) {
		if (tensorboard_dir(p, d, &logdir->member[i], e))
			return -1;
	}
	return 0;
}

/* `1.*) exec tensorboard '--logdir=...' '--port=6006' ;;` */
static void tensorboard_case(struct plugin *p, const char *version, const char *option,
                             struct span value)
{
	STR_AUTO text = STR_SECRET(SCRIPT_MAX);
	str_puts(&text, option);
	str_span(&text, value);
	str_printf(&p->pre, "%s) exec tensorboard ", version);
	shell_word(&p->pre, str_view(&text));
}

static void tensorboard_script(struct plugin *p, const struct tensorboard_dirs *d, int64_t port)
{
	str_puts(&p->pre, "{\n"
	                  "if (: >>\"${RUNTIME_LOG_PIPE:-}\") 2>/dev/null; then exec "
	                  ">>\"$RUNTIME_LOG_PIPE\" 2>&1; fi\n"
	                  "if ! command -v tensorboard >/dev/null 2>&1; then\n"
	                  "pip install tensorboard || pip3 install tensorboard || :\n"
	                  "fi\n"
	                  "v=$(tensorboard --version_tb) || v=\n"
	                  "case \"$v\" in\n");
	tensorboard_case(p, "1.*", "--logdir=", str_view(&d->spec));
	str_printf(&p->pre, " '--port=%lld' ;;\n", (long long)port);
	if (d->n == 1)
		tensorboard_case(p, "2.*", "--logdir=", d->first);
	else
		tensorboard_case(p, "2.*", "--logdir_spec=", str_view(&d->spec));
	str_printf(&p->pre, " '--port=%lld' --bind_all ;;\n", (long long)port);
	str_puts(&p->pre, "*) printf 'tensorboard plugin: there is no tensorboard 1 or 2: %s\\n' "
	                  "\"$v\" >&2 ;;\n"
	                  "esac\n"
	                  "} </dev/null &\n");
}

static int plugin_tensorboard(struct plugin *p, struct err *e)
{
	if (p->parameters->n == 0) { /* as in jobs of OpenPAI */
		say_line(SAY_WARNING,
		         "the plugin tensorboard has no parameters, so it does nothing");
		return 0;
	}
	struct tensorboard_dirs d = { .spec = STR_SECRET(SCRIPT_MAX / 2) };
	int64_t port = TENSORBOARD_PORT;
	int rc = plugin_whole(p, (struct whole_limits){ "port", 1, 65535 }, &port, e);
	if (rc == 0)
		rc = tensorboard_dirs(p, &d, e);
	if (rc == 0 && d.spec.full)
		rc = err_set(e, FAILED, "`logdir` is too long");
	if (rc == 0 && p->all->first_task)
		tensorboard_script(p, &d, port);
	str_wipe(&d.spec);
	return rc;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* The server has added the storages to the pod as volumes. */
static int plugin_teamwise_storage(struct plugin *p, struct err *e)
{
	(void)e; /* cannot fail */
	notes_add(&p->all->said, NOWHERE,
	          "plugin %zu (teamwise_storage) does nothing: storages are mounted as volumes",
	          p->number);
	return 0;
}

#define PLUGIN_FUNCTION(id, name, function) function,
static plugin_make *const PLUGINS[PLUGIN_MAX] = { PLUGIN_ROWS(PLUGIN_FUNCTION) };

/* ---- scripts --------------------------------------------------------------------------------- */

void plugins_file(struct plugins *all, const char *path, struct span text, unsigned mode)
{
	if (all->n_files == all->cap_files) {
		all->cap_files = all->cap_files ? 2 * all->cap_files : 8;
		all->file = xrealloc(all->file, all->cap_files * sizeof(*all->file));
	}
	all->file[all->n_files++] = (struct made_file){ path, text, mode };
}

/* Appends the call of a script.  The caller, not the script, implements `ignore`: `exit` and syntax
 * errors end the shell of the script. */
static void plugins_call(struct str *out, const struct plugin *p, const char *path)
{
	str_puts(out, "\"${PAI_SHELL:-/bin/bash}\" ");
	shell_path(out, path);
	if (p->ignore)
		str_printf(out, " || printf 'plugin %zu failed with %%d, ignored\\n' \"$?\" >&2",
		           p->number);
	str_char(out, '\n');
}

/* Adds plugin_pre3.sh; its path, or NULL if there are no commands. */
static const char *plugins_script(struct plugin *p, const char *kind, const struct str *commands)
{
	struct arena *a = p->all->a;
	if (commands->n == 0)
		return NULL;
	STR_AUTO text = STR_SECRET(SCRIPT_MAX + 100);
	str_printf(&text, "set %co errexit\n", p->ignore ? '+' : '-');
	str_span(&text, str_view(commands));
	if (p->ignore)
		str_puts(&text, "set -o errexit\n");
	const char *path =
	    arena_printf(a, "%s/plugin_%s%zu.sh", p->all->at->runtime_d, kind, p->number);
	plugins_file(p->all, path, arena_span(a, str_view(&text)), 0755);
	return path;
}

static int plugins_scripts(struct plugin *p, struct err *e)
{
	if (p->pre.full || p->post.full)
		return err_set(e, FAILED, "its commands have more than %d bytes", SCRIPT_MAX);
	const char *path = plugins_script(p, "pre", &p->pre);
	if (path)
		plugins_call(&p->all->before, p, path);
	path = plugins_script(p, "post", &p->post);
	if (path) {
		/* Commands run in reverse order. */
		STR_AUTO rest = p->all->after;
		p->all->after = STR_INIT(SCRIPT_MAX);
		plugins_call(&p->all->after, p, path);
		str_span(&p->all->after, str_view(&rest));
	}
	return 0;
}

/* ---- one plugin ------------------------------------------------------------------------------ */

/* An entry of `prerequisites` or of the extras. */
struct plugins_entry {
	const char *name;
	const struct node *parameters; /* NULL: none */
	bool ignore;
};

static bool plugins_ignore(const struct node *entry)
{
	return strcasecmp(node_text(entry, "failurePolicy"), "ignore") == 0;
}

static int plugins_make_one(struct plugin *p, const struct plugins_entry *entry, struct err *e)
{
	const struct node *parameters = entry->parameters;
	size_t kind = 0;
	struct node *filled = ARENA_NEW(p->all->a, struct node, 1);
	filled->type = NODE_MAP;
	while (kind < PLUGIN_MAX && strcmp(PLUGIN_NAMES[kind], entry->name) != 0)
		kind++;
	if (kind == PLUGIN_MAX)
		return err_set(e, FAILED, "there is no plugin of that name");
	bool given = parameters && parameters->type != NODE_NULL;
	if (given && parameters->type != NODE_MAP)
		return err_set(e, FAILED, "`parameters` must be a mapping");
	if (given && job_fill_tree(p->all->job, parameters, p->all->a, filled, e))
		return -1;
	p->parameters = filled;
	size_t files = p->all->n_files;
	int rc = PLUGINS[kind](p, e);
	if (rc == 0)
		rc = plugins_scripts(p, e);
	if (rc)
		p->all->n_files = files;
	return rc;
}

static int plugins_add(struct plugins *all, const struct plugins_entry *entry, struct err *e)
{
	char buf[4 * QUOTE_MAX];
	ERR_AUTO why = { 0 };
	struct plugin p = { .all = all,
		            .number = all->n_plugins++,
		            .ignore = entry->ignore,
		            .pre = STR_SECRET(SCRIPT_MAX),
		            .post = STR_SECRET(SCRIPT_MAX) };
	int rc = plugins_make_one(&p, entry, &why);
	str_wipe(&p.pre);
	str_wipe(&p.post);
	if (rc == 0)
		return 0;
	const char *name = quote(buf, span_of(entry->name));
	if (!entry->ignore)
		return err_set(e, FAILED, "plugin %zu (%s): %s", p.number, name, err_msg(&why));
	notes_add(&all->said, NOWHERE,
	          "plugin %zu (%s) is left out, its failurePolicy is ignore: %s", p.number, name,
	          err_msg(&why));
	return 0;
}

/* ---- prerequisites of the role --------------------------------------------------------------- */

/* The parameters of a prerequisite: its other members. */
static const struct node *prerequisite_parameters(struct arena *a, const struct node *entry)
{
	static const char *const OTHERS[] = { "plugin", "failurePolicy", "type", NULL };
	struct node *rest = ARENA_NEW(a, struct node, 1);
	struct member *member = ARENA_NEW(a, struct member, entry->n);
	*rest = *entry;
	rest->n = 0;
	for (uint32_t i = 0; i < entry->n; i++)
		if (!span_among(member_key(&entry->member[i]), OTHERS))
			member[rest->n++] = entry->member[i];
	rest->member = member;
	return rest;
}

static int plugins_prerequisite(struct plugins *all, const struct node *name, struct err *e)
{
	const struct node *list = node_get(&all->job->doc.root, "prerequisites");
	struct plugins_entry entry = { 0 };
	char buf[4 * QUOTE_MAX];
	bool found = false;
	if (!node_is(name, NODE_TEXT))
		return err_set(e, FAILED, "`prerequisites` of the role must be a list of names");
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n && !entry.name; i++) {
		const struct node *item = &list->item[i];
		const char *plugin = node_text(item, "plugin");
		if (strcmp(node_text(item, "name"), name->text) != 0)
			continue;
		found = true;
		if (!span_starts(span_of(plugin), PLUGIN_PREFIX))
			continue;
		/* The name follows the prefix and a separator. */
		plugin += strlen(PLUGIN_PREFIX);
		entry = (struct plugins_entry){ *plugin ? plugin + 1 : "",
			                        prerequisite_parameters(all->a, item),
			                        plugins_ignore(item) };
	}
	if (!found)
		return err_set(e, FAILED, "prerequisite `%s` of the role is not defined",
		               quote(buf, node_span(name)));
	return entry.name ? plugins_add(all, &entry, e) : 0;
}

static int plugins_prerequisites(struct plugins *all, struct err *e)
{
	const struct node *names = node_get(all->job->role, "prerequisites");
	if (!names || names->type == NODE_NULL)
		return 0;
	if (names->type != NODE_LIST)
		return err_set(e, FAILED, "`prerequisites` of the role must be a list of names");
	for (uint32_t i = 0; i < names->n && all->n_plugins < PLUGINS_MAX; i++) {
		if (plugins_prerequisite(all, &names->item[i], e))
			return -1;
	}
	return 0;
}

/* ---- extras ---------------------------------------------------------------------------------- */

static int plugins_entries(struct plugins *all, struct err *e)
{
	const struct node *list = all->entries;
	const char *own = all->job->role_name;
	if (!list || list->type == NODE_NULL)
		return 0;
	if (list->type != NODE_LIST)
		return err_set(e, FAILED, "the plugins of a job must be a list");
	for (uint32_t i = 0; i < list->n && all->n_plugins < PLUGINS_MAX; i++) {
		const struct node *entry = &list->item[i];
		const struct node *roles = node_get(entry, "taskroles");
		bool ours = !node_is(roles, NODE_LIST); /* without that list, every role is */
		for (uint32_t k = 0; own && !ours && k < roles->n; k++)
			ours = node_is(&roles->item[k], NODE_TEXT) &&
			       span_is(node_span(&roles->item[k]), own);
		struct plugins_entry it = { node_text(entry, "plugin"),
			                    node_get(entry, "parameters"), plugins_ignore(entry) };
		if (ours && plugins_add(all, &it, e))
			return -1;
	}
	return 0;
}

/* ---- all plugins ----------------------------------------------------------------------------- */

static void plugins_caller(struct plugins *all, const char *name, const struct str *calls)
{
	STR_AUTO text = STR_INIT(SCRIPT_MAX + 1000);
	shell_header(&text);
	str_char(&text, '\n');
	str_span(&text, str_view(calls));
	plugins_file(all, path_join(all->a, all->at->runtime_d, name),
	             arena_span(all->a, str_view(&text)), 0755);
}

int plugins_make(struct plugins *all, struct err *e)
{
	all->before = STR_INIT(SCRIPT_MAX);
	all->after = STR_INIT(SCRIPT_MAX);
	const struct plugins_entry ssh = { PLUGIN_NAMES[PLUGIN_SSH], NULL, false };
	if (plugins_prerequisites(all, e) || plugins_entries(all, e))
		return -1;
	if (all->ssh_roles && !all->ssh_made && plugins_add(all, &ssh, e))
		return -1;
	if (all->n_plugins >= PLUGINS_MAX)
		return err_set(e, FAILED, "a task can have at most %d plugins", PLUGINS_MAX - 1);
	plugins_caller(all, "precommands.sh", &all->before);
	plugins_caller(all, "postcommands.sh", &all->after);
	return 0;
}

void plugins_done(struct plugins *all)
{
	str_done(&all->before);
	str_done(&all->after);
	notes_done(&all->said);
	free(all->file);
	all->file = NULL;
	all->n_files = all->cap_files = 0;
}

/* ---- the step -------------------------------------------------------------------------------- */

/* The job of the task, or what RUNTIME_CONFIG of a bare pod says; true: this is one. */
static bool plugins_job(const struct init *in, struct init_job *job)
{
	*job = in->job;
	if (!in->runtime_config || in->framework || in->role_name)
		return false;
	job->doc = (struct doc){ .root = *in->runtime_config };
	job->role = NULL;
	const struct node *secrets = node_get(in->runtime_config, "secrets");
	if (!job->secrets && node_is(secrets, NODE_MAP))
		job->secrets = secrets;
	return true;
}

static int plugins_write(const struct plugins *all, struct err *e)
{
	for (size_t i = 0; i < all->n_files; i++) {
		const struct made_file *f = &all->file[i];
		char *folder = arena_dup(all->a, span_of(f->path));
		*strrchr(folder, '/') = '\0';
		struct stat st;
		if (stat(folder, &st) != 0 && errno == ENOENT && dir_make(folder, 0755, e))
			return -1;
		if (file_write(f->path, f->text, f->mode, e))
			return -1;
	}
	return 0;
}

static int plugins_step_scripts(struct init *in, struct err *e)
{
	const char *gang = env_get("GANG_ALLOCATION");
	const char *roles = env_get("PAI_TASK_ROLE_LIST");
	struct init_job job;
	bool bare = plugins_job(in, &job);
	/* Task 0 of the first role; a bare pod. */
	struct span first = { roles, roles ? strcspn(roles, ",") : 0 };
	bool first_role = roles && ((in->job.role_name && span_is(first, in->job.role_name)) ||
	                            (in->role_name && span_is(first, in->role_name)));
	/* A task without its plugins might run without its code. */
	if (!bare && in->framework && in->framework->config && job.doc.root.type == NODE_NULL) {
		(void)err_set(e, FAILED,
		              "the job configuration cannot be read, so its plugins are unknown");
		return INIT_FAILED;
	}
	struct plugins all = { .a = in->a,
		               .at = &in->at,
		               .job = &job,
		               .jobssh_off = gang && strcmp(gang, "false") == 0,
		               .ssh_roles = in->ssh_roles,
		               .ssh_first = in->ssh_first,
		               .first_task = bare || (first_role && in->task_index == 0) };
	all.entries = bare ? node_get(in->runtime_config, "runtimePlugin")
	                   : node_get(node_get(&job.doc.root, "extras"), PLUGIN_PREFIX);
	int rc = plugins_make(&all, e);
	say_notes(&all.said);
	if (rc == 0)
		rc = plugins_write(&all, e);
	if (rc == 0)
		say_line(SAY_INFO, "plugins: %zu", all.n_plugins);
	plugins_done(&all);
	return rc ? INIT_FAILED : 0;
}

/* ---- the step `command` ---------------------------------------------------------------------- */

/* user.sh is USER_CMD with its secrets, or `commands` of RUNTIME_CONFIG in a bare pod.  The log
 * gets the text without secrets. */

/* `commands` of RUNTIME_CONFIG: a text, or a list of lines. */
static int command_join(const struct node *commands, struct str *out, struct err *e)
{
	if (node_is(commands, NODE_TEXT)) {
		str_span(out, node_span(commands));
		return 0;
	}
	if (!node_is(commands, NODE_LIST) || commands->n == 0)
		return err_set(e, FAILED, "there is no command: neither USER_CMD nor `commands`");
	for (uint32_t i = 0; i < commands->n; i++) {
		if (i)
			str_char(out, '\n');
		if (!node_put(out, &commands->item[i]))
			return err_set(e, FAILED, "`commands[%u]` must be a text", i);
	}
	return 0;
}

static int command_read(const struct init *in, struct user_command *c, struct err *e)
{
	const char *command = env_get("USER_CMD");
	bool bare = plugins_job(in, &c->job);
	STR_AUTO text = STR_INIT(COMMAND_MAX);
	c->a = in->a;
	c->parameters = !command;
	if (command)
		str_puts(&text, command);
	else if (command_join(bare ? node_get(in->runtime_config, "commands") : NULL, &text, e))
		return -1;
	c->text = arena_span(in->a, str_view(&text));
	return text.full ? err_set(e, FAILED, "the command has more than %d bytes", COMMAND_MAX)
	                 : 0;
}

int command_fill(const struct user_command *c, struct span text, struct str *out, struct err *e)
{
	if (c->parameters)
		return job_fill(&c->job, text, out, e);
	if (c->job.secrets)
		return job_fill_secrets(&c->job, text, out, e);
	str_span(out, text);
	return 0;
}

static int plugins_step_command(struct init *in, struct err *e)
{
	struct user_command c;
	STR_AUTO script = STR_SECRET(COMMAND_MAX);
	STR_AUTO lines = STR_INIT(COMMAND_MAX);
	if (command_read(in, &c, e))
		return INIT_FAILED;
	for (struct span rest = c.text; rest.n > 0;) {
		struct span line = span_next(&rest, '\n');
		say_line(SAY_INFO, "command: %.*s", (int)(line.n < 4000 ? line.n : 4000), line.p);
	}
	shell_header(&script);
	if (command_fill(&c, c.text, &script, e))
		return INIT_FAILED;
	if (script.full)
		(void)err_set(e, FAILED, "the command has more than %d bytes", COMMAND_MAX);
	command_lines(&c, str_view(&script), &lines);
	if (script.full ||
	    file_write(path_join(in->a, in->at.runtime_d, "user.sh"), str_view(&script), 0755, e) ||
	    file_write(path_join(in->a, in->at.runtime_d, USER_LINES), str_view(&lines), 0644, e))
		return INIT_FAILED;
	return 0;
}

const struct init_plugins INIT_PLUGINS = { plugins_step_scripts, plugins_step_command };
