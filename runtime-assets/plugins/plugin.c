/* Parameters of plugins; see plugin.h. */
#include "runtime-assets/plugins/plugin.h"

#include <strings.h>

#include "runtime-assets/files.h"

int plugin_text(const struct plugin *p, const char *key, struct span *text, struct err *e)
{
	const struct node *n = node_get(p->parameters, key);
	*text = SPAN("");
	if (!n)
		return 0;
	STR_AUTO out = STR_SECRET(SCRIPT_MAX);
	if (!job_scalar(n, &out))
		return err_set(e, FAILED, "`%s` must be a text", key);
	*text = arena_span(p->all->a, str_view(&out));
	return 0;
}

static bool is_empty(const struct node *n)
{
	return !n || n->type == NODE_NULL || (n->type == NODE_TEXT && n->n == 0);
}

int plugin_bool(const struct plugin *p, const char *key, bool *value, struct err *e)
{
	const struct node *n = node_get(p->parameters, key);
	if (node_is(n, NODE_BOOL))
		*value = n->boolean;
	else if (is_empty(n) || (n->type == NODE_TEXT && strcasecmp(n->text, "false") == 0))
		*value = false;
	else if (n->type == NODE_TEXT && strcasecmp(n->text, "true") == 0)
		*value = true;
	else
		return err_set(e, FAILED, "`%s` must be true or false", key);
	return 0;
}

int plugin_whole(const struct plugin *p, struct whole w, int64_t *value, struct err *e)
{
	const struct node *n = node_get(p->parameters, w.key);
	int64_t found = 0;
	if (is_empty(n))
		return 0;
	bool ok = n->type == NODE_INT && n->integer >= w.min && n->integer <= w.max;
	if (ok)
		found = n->integer;
	else if (n->type == NODE_TEXT)
		ok = parse_i64(node_span(n), w.min, w.max, &found) == 0;
	if (!ok)
		return err_set(e, FAILED, "`%s` must be a whole number from %lld to %lld", w.key,
		               (long long)w.min, (long long)w.max);
	*value = found;
	return 0;
}
