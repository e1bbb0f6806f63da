/* `extras` of v1 and v2 jobs: gang allocation, storages, plugins. Types are checked here too,
 * because the v1 schema leaves extras open. */
#include "translate/dialects/extras.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/pod/plugin.h"
#include "translate/dialects/dialects.h"
#include "translate/dialects/raw_pod.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

enum { STORAGES_MAX = 256 };

static const char PLUGINS[] = "com.microsoft.pai.runtimeplugin";

static const char *const STORAGE_KNOWN[] = { "mountPath", "name", "readOnly", "share", NULL };

struct storages {
	struct parse_context *r;
	struct storage_request *v;
	size_t n;
};

/* entry: a mapping with `mountPath`, or absent; name: a text. */
static void add_storage(struct storages *s, const struct field *entry, const struct field *name)
{
	struct parse_context *r = s->r;
	struct span called = node_span(name->n);
	struct field path = field_get(entry, "mountPath");
	const struct field *where = path.n ? &path : entry;
	if (!names_storage_ok(called)) {
		parse_refuse(r, name, "\"%s\" is not a Kubernetes name",
		             arena_quoted(r->a, called));
		return;
	}
	if (node_is_present(path.n) && path.n->type != NODE_TEXT)
		parse_wrong_type(r, &path, "text");
	struct span mounted = field_text(&path);
	const char *problem = mounted.n ? names_mount_path_problem(mounted) : NULL;
	if (problem)
		parse_refuse(r, &path, "%s %s", arena_quoted(r->a, mounted), problem);
	if (mounted.n == 0)
		mounted = span_of(arena_printf(r->a, "/mnt/%.*s", (int)called.n, called.p));
	size_t same = 0;
	struct span clean = names_mount_path(mounted);
	while (same < s->n && !span_eq(clean, names_mount_path(s->v[same].mount_path)))
		same++;
	if (same < s->n)
		parse_refuse(r, where, "%s is already used", arena_quoted(r->a, clean));
	s->v[s->n++] = (struct storage_request){
		.name = called,
		.mount_path = mounted,
		.where = field_place(r->a, name),
		.mount_where = field_place(r->a, where),
	};
}

static void warn_of_cluster(struct parse_context *r, const struct field *map,
                            const char *const *names)
{
	for (; *names; names++) {
		struct field f = field_get(map, *names);
		if (f.n)
			parse_warn(r, &f, "is ignored: the cluster decides it");
	}
}

static void extras_read_storages(struct storages *s, const struct field *list)
{
	static const char *const IGNORED[] = { "share", "readOnly", NULL };
	struct parse_context *r = s->r;
	for (uint32_t i = 0; i < field_items(list); i++) {
		struct field entry = field_item(list, i);
		struct field name = field_get(&entry, "name");
		if (!node_is(entry.n, NODE_MAP)) {
			parse_wrong_type(r, &entry, "a mapping");
			continue;
		}
		if (node_is_present(name.n) && name.n->type != NODE_TEXT) {
			parse_wrong_type(r, &name, "text");
			continue;
		}
		if (field_text(&name).n == 0) {
			parse_warn(r, &entry, "has no name and is skipped");
			continue;
		}
		add_storage(s, &entry, &name);
		warn_of_cluster(r, &entry, IGNORED);
		suggest_members(r, &entry, STORAGE_KNOWN);
	}
}

static bool storages_too_many(struct parse_context *r, const struct field *list)
{
	bool many = field_items(list) > STORAGES_MAX;
	if (many)
		parse_refuse(r, list, "at most %d storages, here are %u", STORAGES_MAX, list->n->n);
	return many;
}

/* Older form: the first plugin called teamwise_storage. */
static void read_teamwise(struct storages *s, const struct field *plugins)
{
	for (uint32_t i = 0; i < field_items(plugins); i++) {
		struct field plugin = field_item(plugins, i);
		if (!span_is(parse_text(plugin.n, "plugin"), "teamwise_storage"))
			continue;
		struct field parameters = field_get(&plugin, "parameters");
		struct field names = field_get(&parameters, "storageConfigNames");
		s->r->job->storages_default = field_items(&names) == 0;
		if (storages_too_many(s->r, &names))
			return;
		s->v = ARENA_NEW(s->r->a, struct storage_request, field_items(&names));
		for (uint32_t k = 0; k < field_items(&names); k++) {
			struct field name = field_item(&names, k);
			struct field entry = { NULL, name.path, false };
			if (field_text(&name).n)
				add_storage(s, &entry, &name);
		}
		return;
	}
}

static void storages_read(struct parse_context *r, const struct field *extras)
{
	struct storages s = { .r = r };
	struct field list = field_get(extras, "storages");
	struct field plugins = field_get(extras, PLUGINS);
	if (!node_is_present(list.n)) {
		read_teamwise(&s, &plugins);
	} else if (list.n->type != NODE_LIST) {
		parse_wrong_type(r, &list, "a list");
	} else if (!storages_too_many(r, &list)) {
		r->job->storages_default = list.n->n == 0;
		s.v = ARENA_NEW(r->a, struct storage_request, list.n->n);
		extras_read_storages(&s, &list);
	}
	r->job->storages = s.v;
	r->job->n_storages = s.n;
}

/* Returns true if all options are known; a placeholder may become any text. */
static bool git_takes_options(struct span text)
{
	for (text = span_trim(text); text.n > 0; text = span_trim(text)) {
		size_t n = 0;
		while (n < text.n && !strchr(" \t\n", text.p[n]))
			n++;
		struct span word = { text.p, n };
		size_t name_n;
		if (span_starts(word, "-") && span_find(word, 0, "<%") == SIZE_MAX &&
		    !git_clone_option(word, &name_n))
			return false;
		text = (struct span){ text.p + n, text.n - n };
	}
	return true;
}

static void check_git(struct parse_context *r, const struct field *parameters)
{
	struct field uri = field_get(parameters, "repo_uri");
	struct field options = field_get(parameters, "options");
	struct span text = span_trim(field_text(&uri));
	bool spoken = span_find(text, 0, "://") == SIZE_MAX ||
	              span_find(text, 0, "<%") != SIZE_MAX || span_starts(text, "https://") ||
	              span_starts(text, "ssh://");
	if (!spoken)
		parse_warn(r, &uri,
		           "is refused in the pod: plugin git clones by https:// and ssh only");
	for (uint32_t i = 0; i < field_items(&options); i++) {
		struct field option = field_item(&options, i);
		if (!git_takes_options(field_text(&option)))
			parse_warn(r, &option,
			           "is refused in the pod: plugin git takes --depth, --branch, "
			           "--recursive and --single-branch only");
	}
}

static void check_plugin_name(struct parse_context *r, const struct field *plugin)
{
	struct field p = field_get(plugin, "plugin");
	struct guess g = { .name = field_text(&p) };
	for (size_t i = 0; i < PLUGIN_MAX; i++) {
		if (span_is(g.name, PLUGIN_NAMES[i]))
			return;
		guess_try(&g, PLUGIN_NAMES[i]);
	}
	if (g.name.n)
		parse_warn(r, &p, "pai-runtime has no plugin of this name%s",
		           suggest_sentence(r->a, g.best));
}

void job_warn(const struct job *job, const struct facts *f, struct notes *warnings)
{
	if (job->jobssh_where.line && !job->needs_key && !facts_have_keys(f))
		notes_add(warnings, job->jobssh_where,
		          "there is no key pair by which tasks could reach each other, so they "
		          "will fail: put one into `jobSSH` of the extension of user %s",
		          job->user);
	raw_keys_warn(job, f, warnings);
}

static void plugins_check(struct parse_context *r, const struct field *plugins)
{
	for (uint32_t i = 0; i < field_items(plugins); i++) {
		struct field plugin = field_item(plugins, i);
		struct field roles = field_get(&plugin, "taskroles");
		struct field parameters = field_get(&plugin, "parameters");
		struct field jobssh = field_get(&parameters, "jobssh");
		const struct node *userssh = node_get(parameters.n, "userssh");
		struct span name = parse_text(plugin.n, "plugin");
		check_plugin_name(r, &plugin);
		suggest_roles(r, &roles);
		bool on =
		    span_is(field_text(&jobssh), "true") || parse_is_true(parameters.n, "jobssh");
		bool ssh = span_is(name, PLUGIN_NAMES[PLUGIN_SSH]);
		if (ssh && r->job->gang && on)
			r->job->jobssh_where = field_place(r->a, &jobssh);
		if (ssh && (on || (userssh && !span_is(parse_text(userssh, "type"), "none"))))
			r->job->sshd_where = field_place(r->a, &plugin);
		if (span_is(name, PLUGIN_NAMES[PLUGIN_GIT]))
			check_git(r, &parameters);
	}
}

void extras_read(struct parse_context *r)
{
	static const char *const ELSEWHERE[] = { "forceNodes", "enableLocalStorage", NULL };
	const struct int_field most = { "maxDurationSec", 1, INT32_MAX, 0 };
	struct field extras = field_get(TOP(r), "extras");
	struct field gang = field_get(&extras, "gangAllocation");
	struct field duration = field_get(&extras, most.name);
	struct field plugins = field_get(&extras, PLUGINS);
	r->job->extras = extras.n;
	r->job->gang = !(node_is(gang.n, NODE_BOOL) && !gang.n->boolean);
	if (gang.n && gang.n->type != NODE_BOOL)
		parse_wrong_type(r, &gang, "true or false");
	if (duration.n && duration.n->type != NODE_INT)
		parse_wrong_type(r, &duration, "a whole number of seconds");
	r->job->max_duration_s = parse_number(r, &duration, &most);
	/* The error also says if the server allows the job to run that long. */
	if (r->set->max_duration_s && r->job->max_duration_s > r->set->max_duration_s)
		parse_refuse(r, &duration,
		             "must be at most %" PRId64
		             ", the limit for all jobs (--max-duration), is %" PRId64,
		             r->set->max_duration_s, r->job->max_duration_s);
	struct field queue = field_get(&extras, "queue");
	r->job->queue = field_text(&queue);
	r->job->queue_where = field_place(r->a, &queue);
	suggest_members(r, &extras, EXTRAS_KNOWN);
	warn_of_cluster(r, &extras, ELSEWHERE);
	storages_read(r, &extras);
	plugins_check(r, &plugins);
}
