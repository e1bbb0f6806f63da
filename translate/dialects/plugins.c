/* What plugins would refuse in the pod, told when the job is submitted. */
#include "translate/dialects/plugins.h"

#include "base/plugin.h"
#include "schema/suggest.h"
#include "translate/dialects/hint.h"
#include "translate/dialects/warnings.h"

/* Are all words that look like options known?  A placeholder may become anything. */
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

static void check_git(struct reading *r, const struct path *p, const struct node *parameters)
{
	const struct node *uri = node_get(parameters, "repo_uri");
	const struct node *options = node_get(parameters, "options");
	struct path at = PATH_KEY(p, SPAN("repo_uri"));
	struct path list = PATH_KEY(p, SPAN("options"));
	if (node_is(uri, NODE_TEXT) && !git_speaks(node_span(uri)))
		reading_warn(r, &at, uri, WARN_GIT_URI);
	for (uint32_t i = 0; node_is(options, NODE_LIST) && i < options->n; i++) {
		const struct node *option = options->item + i;
		struct path one = PATH_INDEX(&list, i);
		if (node_is(option, NODE_TEXT) && !git_takes_options(node_span(option)))
			reading_warn(r, &one, option, WARN_GIT_OPTION);
	}
}

static void check_plugin_name(struct reading *r, const struct path *up, const struct node *n)
{
	struct guess g = { .name = reading_text(n, "plugin") };
	struct path p = PATH_KEY(up, SPAN("plugin"));
	for (size_t i = 0; i < PLUGIN_MAX; i++) {
		if (span_is(g.name, PLUGIN_NAMES[i]))
			return;
		guess_try(&g, PLUGIN_NAMES[i]);
	}
	if (g.name.n && g.best)
		reading_warn(r, &p, node_get(n, "plugin"), WARN_NO_PLUGIN_HINT, g.best);
	else if (g.name.n)
		reading_warn(r, &p, node_get(n, "plugin"), WARN_NO_PLUGIN);
}

static void read_jobssh(struct reading *r, const struct path *p, const struct node *parameters)
{
	const struct node *n = node_get(parameters, "jobssh");
	struct path at = PATH_KEY(p, SPAN("jobssh"));
	bool text = node_is(n, NODE_TEXT) && span_is(node_span(n), "true");
	if (r->job->gang && (text || (node_is(n, NODE_BOOL) && n->boolean)))
		r->job->jobssh_where = path_place(r->a, &at, n);
}

void job_warn(const struct job *job, const struct facts *f, struct notes *warnings)
{
	const struct node *key = node_get(node_get(f->extension, "jobSSH"), "key");
	bool has_key = node_is(key, NODE_TEXT) && span_trim(node_span(key)).n > 0;
	if (job->jobssh_where.line && !has_key)
		notes_add(
		    warnings, job->jobssh_where,
		    "there is no key by which tasks could reach each other, so they will fail: "
		    "put a key pair into `jobSSH` of the extension of user %s",
		    job->user);
}

void plugins_check(struct reading *r, const struct path *p, const struct node *list)
{
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *n = list->item + i;
		struct path one = PATH_INDEX(p, i);
		struct path parameters = PATH_KEY(&one, SPAN("parameters"));
		struct path roles = PATH_KEY(&one, SPAN("taskroles"));
		check_plugin_name(r, &one, n);
		hint_roles(r, &roles, node_get(n, "taskroles"));
		if (span_is(reading_text(n, "plugin"), PLUGIN_NAMES[PLUGIN_SSH]))
			read_jobssh(r, &parameters, node_get(n, "parameters"));
		if (span_is(reading_text(n, "plugin"), PLUGIN_NAMES[PLUGIN_GIT]))
			check_git(r, &parameters, node_get(n, "parameters"));
	}
}
