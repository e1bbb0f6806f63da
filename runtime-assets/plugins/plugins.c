/* The plugins of a job: which, in which order, and their scripts; see plugin.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/plugin.h"
#include "runtime-assets/args.h"
#include "runtime-assets/init/init.h"
#include "runtime-assets/plugins/plugin.h"
#include "runtime-assets/shell.h"

static const char PREFIX[] = "com.microsoft.pai.runtimeplugin";

/* ---- the table ------------------------------------------------------------------------------ */

/* Its mounts are made when the job is submitted. */
static int plugin_teamwise_storage(struct plugin *p, struct err *e)
{
	(void)e; /* cannot fail */
	notes_add(&p->all->said, NOWHERE,
	          "plugin %zu (teamwise_storage) does nothing: storages are mounted as volumes",
	          p->number);
	return 0;
}

static plugin_make *const PLUGINS[PLUGIN_MAX] = {
	[PLUGIN_CMD] = plugin_cmd,
	[PLUGIN_SSH] = plugin_ssh,
	[PLUGIN_GIT] = plugin_git,
	[PLUGIN_TENSORBOARD] = plugin_tensorboard,
	[PLUGIN_TEAMWISE_STORAGE] = plugin_teamwise_storage,
};

/* ---- scripts --------------------------------------------------------------------------------- */

void plugins_file(struct plugins *all, const char *path, struct span text, unsigned mode)
{
	if (all->n_files == all->cap_files) {
		all->cap_files = all->cap_files ? 2 * all->cap_files : 8;
		all->file = xrealloc(all->file, all->cap_files * sizeof(*all->file));
	}
	all->file[all->n_files++] = (struct made){ path, text, mode };
}

/* The line that calls a script.  What `ignore` forgives includes `exit`, syntax errors and the
 * like, which end the script's shell whatever it has set: only the caller can forgive those. */
static void put_call(struct str *out, const struct plugin *p, const char *path)
{
	str_puts(out, "\"${PAI_SHELL:-/bin/bash}\" ");
	shell_path(out, path);
	if (p->ignore)
		str_printf(out, " || printf 'plugin %zu failed with %%d, ignored\\n' \"$?\" >&2",
		           p->number);
	str_char(out, '\n');
}

/* plugin_pre3.sh: its text as a file, and its path; NULL if there is nothing to do. */
static const char *add_script(struct plugin *p, const char *kind, const struct str *commands)
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

static int add_scripts(struct plugin *p, struct err *e)
{
	if (p->pre.full || p->post.full)
		return err_set(e, FAILED, "its commands have more than %d bytes", SCRIPT_MAX);
	const char *path = add_script(p, "pre", &p->pre);
	if (path)
		put_call(&p->all->before, p, path);
	path = add_script(p, "post", &p->post);
	if (path) {
		/* The last plugin's comes first. */
		STR_AUTO rest = p->all->after;
		p->all->after = STR_INIT(SCRIPT_MAX);
		put_call(&p->all->after, p, path);
		str_span(&p->all->after, str_view(&rest));
	}
	return 0;
}

/* ---- one plugin ------------------------------------------------------------------------------ */

/* An entry as the author wrote it, in either place. */
struct entry {
	const char *name;
	const struct node *parameters; /* NULL: none */
	bool ignore;
};

static bool is_ignore(const struct node *policy)
{
	return node_is(policy, NODE_TEXT) && strcasecmp(policy->text, "ignore") == 0;
}

static plugin_make *find(const char *name)
{
	for (size_t i = 0; i < PLUGIN_MAX; i++) {
		if (strcmp(PLUGIN_NAMES[i], name) == 0)
			return PLUGINS[i];
	}
	return NULL;
}

static int fill(struct plugin *p, const struct node *parameters, struct node *filled, struct err *e)
{
	*filled = (struct node){ .type = NODE_MAP };
	p->parameters = filled;
	if (!parameters || parameters->type == NODE_NULL)
		return 0;
	if (parameters->type != NODE_MAP)
		return err_set(e, FAILED, "`parameters` must be a mapping");
	return job_fill_tree(p->all->job, parameters, p->all->a, filled, e);
}

/* All that can fail comes before the scripts are added. */
static int make_one(struct plugin *p, const struct entry *entry, struct err *e)
{
	plugin_make *make = find(entry->name);
	struct node filled;
	if (!make)
		return err_set(e, FAILED, "there is no plugin of that name");
	if (fill(p, entry->parameters, &filled, e))
		return -1;
	size_t files = p->all->n_files;
	int rc = make(p, e);
	if (rc == 0)
		rc = add_scripts(p, e);
	if (rc)
		p->all->n_files = files;
	return rc;
}

static int add(struct plugins *all, const struct entry *entry, struct err *e)
{
	char buf[4 * QUOTE_MAX];
	ERR_AUTO why = { 0 };
	struct plugin p = { .all = all,
		            .number = all->n_plugins++,
		            .name = entry->name,
		            .ignore = entry->ignore,
		            .pre = STR_SECRET(SCRIPT_MAX),
		            .post = STR_SECRET(SCRIPT_MAX) };
	int rc = make_one(&p, entry, &why);
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

/* ---- which ones: prerequisites of the role --------------------------------------------------- */

/* The text behind the prefix and one character, or NULL. */
static const char *prerequisite_plugin(const struct node *entry)
{
	const struct node *plugin = node_get(entry, "plugin");
	if (!node_is(plugin, NODE_TEXT) || !span_starts(node_span(plugin), PREFIX))
		return NULL;
	return plugin->n > sizeof(PREFIX) - 1 ? plugin->text + sizeof(PREFIX) : "";
}

/* What is left of a prerequisite are its parameters. */
static const struct node *without_lifted(struct arena *a, const struct node *entry)
{
	struct node *rest = ARENA_NEW(a, struct node, 1);
	struct member *member = ARENA_NEW(a, struct member, entry->n);
	*rest = *entry;
	rest->n = 0;
	for (uint32_t i = 0; i < entry->n; i++) {
		struct span key = member_key(&entry->member[i]);
		if (!span_is(key, "plugin") && !span_is(key, "failurePolicy") &&
		    !span_is(key, "type"))
			member[rest->n++] = entry->member[i];
	}
	rest->member = member;
	return rest;
}

static int add_prerequisite(struct plugins *all, const struct node *name, struct err *e)
{
	const struct node *list = node_get(&all->job->doc.root, "prerequisites");
	const struct node *plugin = NULL;
	const char *plugin_name = NULL;
	char buf[4 * QUOTE_MAX];
	size_t found = 0;
	if (!node_is(name, NODE_TEXT))
		return err_set(e, FAILED, "`prerequisites` of the role must be a list of names");
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *its_name = node_get(&list->item[i], "name");
		if (!node_is(its_name, NODE_TEXT) || !span_eq(node_span(its_name), node_span(name)))
			continue;
		found++;
		if (!plugin_name) {
			plugin = &list->item[i];
			plugin_name = prerequisite_plugin(plugin);
		}
	}
	if (found == 0)
		return err_set(e, FAILED, "prerequisite `%s` of the role is not defined",
		               quote(buf, node_span(name)));
	if (!plugin_name)
		return 0;
	struct entry entry = { plugin_name, without_lifted(all->a, plugin),
		               is_ignore(node_get(plugin, "failurePolicy")) };
	return add(all, &entry, e);
}

static int add_prerequisites(struct plugins *all, struct err *e)
{
	const struct node *names = node_get(all->job->role, "prerequisites");
	if (!names || names->type == NODE_NULL)
		return 0;
	if (names->type != NODE_LIST)
		return err_set(e, FAILED, "`prerequisites` of the role must be a list of names");
	for (uint32_t i = 0; i < names->n && all->n_plugins < PLUGINS_MAX; i++) {
		if (add_prerequisite(all, &names->item[i], e))
			return -1;
	}
	return 0;
}

/* ---- which ones: extras -----------------------------------------------------------------------
 */

/* Is this role one of `taskroles`?  Without that list every role is. */
static bool is_for_role(const struct plugins *all, const struct node *entry)
{
	const struct node *roles = node_get(entry, "taskroles");
	const char *own = all->job->role_name;
	if (!node_is(roles, NODE_LIST))
		return true;
	for (uint32_t i = 0; own && i < roles->n; i++) {
		if (node_is(&roles->item[i], NODE_TEXT) && span_is(node_span(&roles->item[i]), own))
			return true;
	}
	return false;
}

static int add_entry(struct plugins *all, const struct node *entry, struct err *e)
{
	const struct node *name = node_get(entry, "plugin");
	if (!is_for_role(all, entry))
		return 0;
	struct entry it = { node_is(name, NODE_TEXT) ? name->text : "",
		            node_get(entry, "parameters"),
		            is_ignore(node_get(entry, "failurePolicy")) };
	return add(all, &it, e);
}

static int add_entries(struct plugins *all, struct err *e)
{
	const struct node *list = all->entries;
	if (!list || list->type == NODE_NULL)
		return 0;
	if (list->type != NODE_LIST)
		return err_set(e, FAILED, "the plugins of a job must be a list");
	for (uint32_t i = 0; i < list->n && all->n_plugins < PLUGINS_MAX; i++) {
		if (add_entry(all, &list->item[i], e))
			return -1;
	}
	return 0;
}

/* ---- all ----------------------------------------------------------------------------------------
 */

static void add_caller(struct plugins *all, const char *name, const struct str *calls)
{
	STR_AUTO text = STR_INIT(SCRIPT_MAX + 1000);
	shell_header(&text);
	str_span(&text, str_view(calls));
	plugins_file(all, path_join(all->a, all->at->runtime_d, name),
	             arena_span(all->a, str_view(&text)), 0755);
}

int plugins_make(struct plugins *all, struct err *e)
{
	all->before = STR_INIT(SCRIPT_MAX);
	all->after = STR_INIT(SCRIPT_MAX);
	if (add_prerequisites(all, e) || add_entries(all, e))
		return -1;
	if (all->n_plugins >= PLUGINS_MAX)
		return err_set(e, FAILED, "a task can have at most %d plugins", PLUGINS_MAX - 1);
	add_caller(all, "precommands.sh", &all->before);
	add_caller(all, "postcommands.sh", &all->after);
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

/* ---- the step
 * ------------------------------------------------------------------------------------ */

static bool is_bare(const struct init *in)
{
	return in->runtime_config && !in->framework && !in->role_name;
}

bool plugins_job(const struct init *in, struct job *job)
{
	*job = in->job;
	if (!is_bare(in))
		return false;
	job->doc = (struct doc){ .root = *in->runtime_config };
	job->role = NULL;
	const struct node *secrets = node_get(in->runtime_config, "secrets");
	if (!job->secrets && node_is(secrets, NODE_MAP))
		job->secrets = secrets;
	return true;
}

/* tensorboard runs in the first task of the first role; a bare pod is alone, so it is the first. */
static bool is_first_task(const struct init *in)
{
	const char *roles = env_get("PAI_TASK_ROLE_LIST");
	if (is_bare(in))
		return true;
	if (!roles || in->task_index != 0)
		return false;
	struct span first = { roles, strcspn(roles, ",") };
	return (in->job.role_name && span_is(first, in->job.role_name)) ||
	       (in->role_name && span_is(first, in->role_name));
}

static int write_all(const struct plugins *all, struct err *e)
{
	for (size_t i = 0; i < all->n_files; i++) {
		const struct made *f = &all->file[i];
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

int step_plugins(struct init *in, struct err *e)
{
	const char *gang = env_get("GANG_ALLOCATION");
	struct job job;
	bool bare = plugins_job(in, &job);
	/* Better no task than one without the code that a plugin would have brought. */
	if (!bare && in->framework && in->framework->config && job.doc.root.type == NODE_NULL) {
		(void)err_set(e, FAILED,
		              "the job configuration cannot be read, so its plugins are unknown");
		return INIT_FAILED;
	}
	struct plugins all = { .a = in->a,
		               .at = &in->at,
		               .job = &job,
		               .jobssh_off = gang && strcmp(gang, "false") == 0,
		               .first_task = is_first_task(in) };
	all.entries = bare ? node_get(in->runtime_config, "runtimePlugin")
	                   : node_get(node_get(&job.doc.root, "extras"), PREFIX);
	int rc = plugins_make(&all, e);
	for (size_t i = 0; i < all.said.n; i++)
		say(SAY_WARNING, "%s", all.said.v[i].msg);
	if (all.said.dropped)
		say(SAY_WARNING, "%zu more of that kind", all.said.dropped);
	if (rc == 0)
		rc = write_all(&all, e);
	if (rc == 0)
		say(SAY_INFO, "plugins: %zu", all.n_plugins);
	plugins_done(&all);
	return rc ? INIT_FAILED : 0;
}
