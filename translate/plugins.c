/* What plugins would refuse in the pod, told when the job is submitted. */
#include "translate/plugins.h"

#include "translate/warnings.h"

/* Those of runtime-assets/plugin_git.c. */
static const char *const GIT_OPTIONS[] = {
	"--depth", "--branch", "-b", "--recursive", "--recurse-submodules", "--single-branch"
};

static bool git_takes_option(struct span word)
{
	size_t equals = span_find(word, 0, "=");
	struct span name = { word.p, equals == SIZE_MAX ? word.n : equals };
	for (size_t i = 0; i < sizeof(GIT_OPTIONS) / sizeof(*GIT_OPTIONS); i++) {
		if (span_is(name, GIT_OPTIONS[i]))
			return true;
	}
	return false;
}

/* Are all words that look like options known?  A placeholder may become anything. */
static bool git_takes_options(struct span text)
{
	for (text = span_trim(text); text.n > 0; text = span_trim(text)) {
		size_t n = 0;
		while (n < text.n && !strchr(" \t\n", text.p[n]))
			n++;
		struct span word = { text.p, n };
		if (span_starts(word, "-") && span_find(word, 0, "<%") == SIZE_MAX &&
		    !git_takes_option(word))
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

void plugins_check(struct reading *r, const struct path *p, const struct node *list)
{
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		struct path one = PATH_INDEX(p, i);
		struct path parameters = PATH_KEY(&one, SPAN("parameters"));
		if (span_is(reading_text(list->item + i, "plugin"), "git"))
			check_git(r, &parameters, node_get(list->item + i, "parameters"));
	}
}
