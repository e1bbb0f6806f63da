/* Groups, for the profile page of OpenPAI's portal; and lists that its pages ask for and that are
 * empty here. */
#include "server/accounts/account.h"
#include "server/features.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/users/people.h"
#include "server/users/roster.h"

/* ---- groups ---------------------------------------------------------------------------------- */

static void put_group_list(struct str *out, const char *key, const struct node *list)
{
	str_puts(out, key);
	if (node_is(list, NODE_LIST))
		node_json(out, list);
	else
		str_puts(out, "[]");
}

/* has: of the file, or NULL: nothing but its name is known. */
static void put_group(struct str *out, struct span name, const struct node *has)
{
	const struct node *description = node_get(has, "description");
	const struct node *admin = node_get(has, "admin");
	str_puts(out, "{\"groupname\":");
	str_json(out, name);
	str_puts(out, ",\"description\":");
	str_json(out, node_is(description, NODE_TEXT) ? node_span(description) : SPAN(""));
	str_puts(out, ",\"externalName\":\"\",\"extension\":{\"acls\":{");
	if (has) {
		bool is_admin = node_is(admin, NODE_BOOL) && admin->boolean;
		str_printf(out, "\"admin\":%s", is_admin ? "true" : "false");
		put_group_list(out, ",\"virtualClusters\":", node_get(has, "virtualClusters"));
		put_group_list(out, ",\"storageConfigs\":", node_get(has, "storages"));
	}
	str_puts(out, "}}}");
}

void groups_get(struct request *r)
{
	struct str *out = &r->reply.body;
	if (!people_ready(r))
		return;
	if (r->who->admin && strcmp(r->loop->server->options->users, "openpai") == 0) {
		roster_groups(r);
		return;
	}
	const struct facts_file *file = account_file(r->loop->has->accounts);
	const struct span *names = r->who->groups;
	size_t n = r->who->n_groups;
	struct span *all = NULL;
	if (r->who->admin) {
		n = facts_file_groups(file, &r->arena, &all);
		names = all;
	}
	str_char(out, '[');
	for (size_t i = 0; names && i < n; i++) {
		str_puts(out, i ? "," : "");
		put_group(out, names[i], facts_file_group(file, names[i]));
	}
	str_char(out, ']');
	people_send(r);
}

/* ---- what is empty here ---------------------------------------------------------------------- */

void alerts_get(struct request *r)
{
	str_puts(&r->reply.body, "[]");
	people_send(r);
}

static void empty_list(struct request *r, const char *kind)
{
	if (!r->who->admin) {
		answer_refuse(r, FORBIDDEN, "nodes and pods are shown to administrators only");
		return;
	}
	str_printf(&r->reply.body,
	           "{\"apiVersion\":\"v1\",\"kind\":\"%s\",\"metadata\":{},\"items\":[]}", kind);
	people_send(r);
}

void nodes_get(struct request *r)
{
	empty_list(r, "NodeList");
}

void pods_get(struct request *r)
{
	empty_list(r, "PodList");
}
