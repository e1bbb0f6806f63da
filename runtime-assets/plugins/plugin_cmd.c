/*
 * Plugin cmd: commands of the author, verbatim.  preCommands and postCommands, or callbacks with
 * the events taskStarts and taskSucceeds; other events are for nobody here.
 */
#include "runtime-assets/files.h"
#include "runtime-assets/plugins/plugin.h"

static int put_commands(struct str *out, const struct node *list, const char *key, struct err *e)
{
	if (!list || list->type == NODE_NULL)
		return 0;
	if (list->type != NODE_LIST)
		return err_set(e, FAILED, "`%s` must be a list of commands", key);
	for (uint32_t i = 0; i < list->n; i++) {
		if (!job_scalar(&list->item[i], out))
			return err_set(e, FAILED, "`%s[%u]` must be a text", key, i);
		str_char(out, '\n');
	}
	return 0;
}

static int put_callback(struct plugin *p, const struct node *callback, struct err *e)
{
	const struct node *event = node_get(callback, "event");
	const struct node *commands = node_get(callback, "commands");
	if (!node_is(event, NODE_TEXT))
		return err_set(e, FAILED, "each of `callbacks` must have an `event`");
	if (span_is(node_span(event), "taskStarts"))
		return put_commands(&p->pre, commands, "commands", e);
	if (span_is(node_span(event), "taskSucceeds"))
		return put_commands(&p->post, commands, "commands", e);
	return 0;
}

int plugin_cmd(struct plugin *p, struct err *e)
{
	const struct node *pre = node_get(p->parameters, "preCommands");
	const struct node *post = node_get(p->parameters, "postCommands");
	const struct node *callbacks = node_get(p->parameters, "callbacks");
	if (callbacks && (pre || post))
		return err_set(
		    e, FAILED,
		    "`callbacks` cannot be together with `preCommands` or `postCommands`");
	if (put_commands(&p->pre, pre, "preCommands", e) ||
	    put_commands(&p->post, post, "postCommands", e))
		return -1;
	if (!callbacks || callbacks->type == NODE_NULL)
		return 0;
	if (callbacks->type != NODE_LIST)
		return err_set(e, FAILED, "`callbacks` must be a list");
	for (uint32_t i = 0; i < callbacks->n; i++) {
		if (put_callback(p, &callbacks->item[i], e))
			return -1;
	}
	return 0;
}
