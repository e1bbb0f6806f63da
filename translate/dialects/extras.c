/* `extras` of v1 and v2 jobs: gang allocation, storages, plugins. Types are checked here too,
 * because the v1 schema leaves extras open. */
#include <inttypes.h>

#include "base/err.h"
#include "base/plugin.h"
#include "translate/dialects/parse_context.h"
#include "translate/dialects/raw_pod.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

enum { STORAGES_MAX = 256 };

static const char PLUGINS[] = "com.microsoft.pai.runtimeplugin";

static const char *const STORAGE_KNOWN[] = { "mountPath", "name", "readOnly", "share", NULL };

struct storages {
	struct parse_context *r;
	struct storage_request *v;
	size_t n;
};

static void check_mount(struct storages *s, const struct path *p, const struct node *n)
{
	struct parse_context *r = s->r;
	const struct storage_request *last = &s->v[s->n - 1];
	struct span path = names_mount_path(last->mount_path);
	for (size_t i = 0; i + 1 < s->n; i++) {
		if (!span_eq(path, names_mount_path(s->v[i].mount_path)))
			continue;
		parse_refuse(r, p, n, "%s is already used", quoted(r->a, path));
		return;
	}
}

static struct span default_path(struct arena *a, struct span name)
{
	return span_of(arena_printf(a, "/mnt/%.*s", (int)name.n, name.p));
}

static struct span mount_path(struct storages *s, const struct path *p, const struct node *n,
                              struct span name)
{
	if (present(n) && n->type != NODE_TEXT)
		parse_wrong_type(s->r, p, n, "text");
	if (!node_is(n, NODE_TEXT) || n->n == 0)
		return default_path(s->r->a, name);
	const char *problem = names_mount_path_problem(node_span(n));
	if (problem)
		parse_refuse(s->r, p, n, "%s %s", quoted(s->r->a, node_span(n)), problem);
	return node_span(n);
}

static void add_storage(struct storages *s, const struct path *p, const struct path *name_path,
                        const struct node *entry, const struct node *name)
{
	struct parse_context *r = s->r;
	const struct node *path = node_get(entry, "mountPath");
	struct path at = PATH_KEY(p, SPAN("mountPath"));
	if (!names_storage_ok(node_span(name))) {
		parse_refuse(r, name_path, name, "\"%s\" is not a Kubernetes name",
		             quoted(r->a, node_span(name)));
		return;
	}
	s->v[s->n++] = (struct storage_request){
		.name = node_span(name),
		.mount_path = mount_path(s, &at, path, node_span(name)),
		.where = path_place(r->a, name_path, name),
		.mount_where = path ? path_place(r->a, &at, path) : path_place(r->a, p, entry),
	};
	if (path)
		check_mount(s, &at, path);
	else
		check_mount(s, p, entry);
}

static void warn_ignored(struct parse_context *r, const struct path *p, const struct node *entry)
{
	static const char *const IGNORED[] = { "share", "readOnly", NULL };
	for (const char *const *key = IGNORED; *key; key++) {
		struct path at = PATH_KEY(p, span_of(*key));
		const struct node *n = node_get(entry, *key);
		if (n)
			parse_warn(r, &at, n, WARN_CLUSTER);
	}
}

static void extras_read_storages(struct storages *s, const struct path *p, const struct node *list)
{
	for (uint32_t i = 0; i < list->n; i++) {
		const struct node *entry = list->item + i;
		const struct node *name = node_get(entry, "name");
		struct path one = PATH_INDEX(p, i);
		struct path at = PATH_KEY(&one, SPAN("name"));
		if (!node_is(entry, NODE_MAP)) {
			parse_wrong_type(s->r, &one, entry, "a mapping");
		} else if (present(name) && name->type != NODE_TEXT) {
			parse_wrong_type(s->r, &at, name, "text");
		} else if (present(name) && name->n) {
			add_storage(s, &one, &at, entry, name);
			warn_ignored(s->r, &one, entry);
			suggest_members(s->r, &one, entry, STORAGE_KNOWN);
		} else {
			parse_warn(s->r, &one, entry, WARN_NO_NAME);
		}
	}
}

static bool storages_too_many(struct parse_context *r, const struct path *p,
                              const struct node *list)
{
	bool many = node_is(list, NODE_LIST) && list->n > STORAGES_MAX;
	if (many)
		parse_refuse(r, p, list, "at most %d storages, here are %u", STORAGES_MAX, list->n);
	return many;
}

/* Older form: the first plugin called teamwise_storage. */
static void read_teamwise(struct storages *s, const struct path *plugins, const struct node *list)
{
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		if (!span_is(parse_text(list->item + i, "plugin"), "teamwise_storage"))
			continue;
		struct path one = PATH_INDEX(plugins, i);
		struct path parameters = PATH_KEY(&one, SPAN("parameters"));
		struct path p = PATH_KEY(&parameters, SPAN("storageConfigNames"));
		const struct node *names =
		    node_get(node_get(list->item + i, "parameters"), "storageConfigNames");
		uint32_t n = node_is(names, NODE_LIST) ? names->n : 0;
		s->r->job->storages_default = n == 0;
		if (storages_too_many(s->r, &p, names))
			return;
		s->v = ARENA_NEW(s->r->a, struct storage_request, n);
		for (uint32_t k = 0; k < n; k++) {
			struct path at = PATH_INDEX(&p, k);
			const struct node *name = names->item + k;
			if (node_is(name, NODE_TEXT) && name->n)
				add_storage(s, &at, &at, NULL, name);
		}
		return;
	}
}

static void storages_read(struct parse_context *r, const struct path *extras, const struct node *n)
{
	struct storages s = { .r = r };
	const struct node *list = node_get(n, "storages");
	struct path p = PATH_KEY(extras, SPAN("storages"));
	struct path plugins = PATH_KEY(extras, SPAN(PLUGINS));
	if (!present(list)) {
		read_teamwise(&s, &plugins, node_get(n, PLUGINS));
	} else if (list->type != NODE_LIST) {
		parse_wrong_type(r, &p, list, "a list");
	} else if (!storages_too_many(r, &p, list)) {
		r->job->storages_default = list->n == 0;
		s.v = ARENA_NEW(r->a, struct storage_request, list->n);
		extras_read_storages(&s, &p, list);
	}
	r->job->storages = s.v;
	r->job->n_storages = s.n;
}

/* Whether all options are known; a placeholder may become any text. */
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

static bool git_speaks(struct span uri)
{
	uri = span_trim(uri);
	return span_find(uri, 0, "://") == SIZE_MAX || span_find(uri, 0, "<%") != SIZE_MAX ||
	       span_starts(uri, "https://") || span_starts(uri, "ssh://");
}

static void check_git(struct parse_context *r, const struct path *p, const struct node *parameters)
{
	const struct node *uri = node_get(parameters, "repo_uri");
	const struct node *options = node_get(parameters, "options");
	struct path at = PATH_KEY(p, SPAN("repo_uri"));
	struct path list = PATH_KEY(p, SPAN("options"));
	if (node_is(uri, NODE_TEXT) && !git_speaks(node_span(uri)))
		parse_warn(r, &at, uri, WARN_GIT_URI);
	for (uint32_t i = 0; node_is(options, NODE_LIST) && i < options->n; i++) {
		const struct node *option = options->item + i;
		struct path one = PATH_INDEX(&list, i);
		if (node_is(option, NODE_TEXT) && !git_takes_options(node_span(option)))
			parse_warn(r, &one, option, WARN_GIT_OPTION);
	}
}

static void check_plugin_name(struct parse_context *r, const struct path *up, const struct node *n)
{
	struct guess g = { .name = parse_text(n, "plugin") };
	struct path p = PATH_KEY(up, SPAN("plugin"));
	for (size_t i = 0; i < PLUGIN_MAX; i++) {
		if (span_is(g.name, PLUGIN_NAMES[i]))
			return;
		guess_try(&g, PLUGIN_NAMES[i]);
	}
	if (g.name.n && g.best)
		parse_warn(r, &p, node_get(n, "plugin"), WARN_NO_PLUGIN_HINT, g.best);
	else if (g.name.n)
		parse_warn(r, &p, node_get(n, "plugin"), WARN_NO_PLUGIN);
}

static void read_jobssh(struct parse_context *r, const struct path *p,
                        const struct node *parameters)
{
	const struct node *n = node_get(parameters, "jobssh");
	struct path at = PATH_KEY(p, SPAN("jobssh"));
	bool text = node_is(n, NODE_TEXT) && span_is(node_span(n), "true");
	if (r->job->gang && (text || (node_is(n, NODE_BOOL) && n->boolean)))
		r->job->jobssh_where = path_place(r->a, &at, n);
}

static bool has_text(const struct node *map, const char *key)
{
	return span_trim(parse_text(map, key)).n > 0;
}

/* Without the public one, no task lets another in. */
static bool has_keys(const struct facts *f)
{
	const struct node *pair = node_get(f->extension, "jobSSH");
	return has_text(pair, "key") && has_text(pair, "pubKey");
}

bool job_needs_key(const struct job *job, const struct facts *f)
{
	return job->needs_key && !has_keys(f);
}

void job_warn(const struct job *job, const struct facts *f, struct notes *warnings)
{
	if (job->jobssh_where.line && !job->needs_key && !has_keys(f))
		notes_add(warnings, job->jobssh_where,
		          "there is no key pair by which tasks could reach each other, so they "
		          "will fail: put one into `jobSSH` of the extension of user %s",
		          job->user);
	raw_keys_warn(job, f, warnings);
}

static void plugins_check(struct parse_context *r, const struct path *p, const struct node *list)
{
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *n = list->item + i;
		struct path one = PATH_INDEX(p, i);
		struct path parameters = PATH_KEY(&one, SPAN("parameters"));
		struct path roles = PATH_KEY(&one, SPAN("taskroles"));
		check_plugin_name(r, &one, n);
		suggest_roles(r, &roles, node_get(n, "taskroles"));
		if (span_is(parse_text(n, "plugin"), PLUGIN_NAMES[PLUGIN_SSH]))
			read_jobssh(r, &parameters, node_get(n, "parameters"));
		if (span_is(parse_text(n, "plugin"), PLUGIN_NAMES[PLUGIN_GIT]))
			check_git(r, &parameters, node_get(n, "parameters"));
	}
}

/* Whether the server allows the job to run that long is part of the error. */
static void read_max_duration(struct parse_context *r, const struct path *up,
                              const struct node *extras)
{
	const struct int_field field = { "maxDurationSec", 1, INT32_MAX, 0 };
	const struct node *n = node_get(extras, field.name);
	struct path p = PATH_KEY(up, span_of(field.name));
	int64_t most = r->set->max_duration_s;
	if (n && n->type != NODE_INT)
		parse_wrong_type(r, &p, n, "a whole number of seconds");
	r->job->max_duration_s = parse_number(r, &p, n, &field);
	if (most && r->job->max_duration_s > most)
		parse_refuse(r, &p, n,
		             "must be at most %" PRId64
		             ", the limit for all jobs (--max-duration), is %" PRId64,
		             most, r->job->max_duration_s);
}

void extras_read(struct parse_context *r, const struct path *p, const struct node *extras)
{
	struct path at = PATH_KEY(p, SPAN("gangAllocation"));
	const struct node *gang = node_get(extras, "gangAllocation");
	r->job->extras = extras;
	r->job->gang = !(node_is(gang, NODE_BOOL) && !gang->boolean);
	if (gang && gang->type != NODE_BOOL)
		parse_wrong_type(r, &at, gang, "true or false");
	read_max_duration(r, p, extras);
	suggest_members(r, p, extras, EXTRAS_KNOWN);
	storages_read(r, p, extras);
	struct path plugins = PATH_KEY(p, SPAN(PLUGINS));
	plugins_check(r, &plugins, node_get(extras, PLUGINS));
}
