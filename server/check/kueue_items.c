/* The checks of Kueue, where the cluster has it or the file of --facts names queues: its version,
 * the LocalQueues, and whether it would take the pods of jobs, which have no queue, for jobs. */
#include "base/doc/yaml.h"
#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "server/check/check_internal.h"
#include "server/config/setup.h"
#include "translate/facts.h"

#define KUEUE_NAMESPACE "kueue-system"
#define KUEUE_CONFIGMAP "kueue-manager-config"
#define KUEUE_FILE      "options/kueue/check.yaml"
#define KUEUE_PAGE      REST_LIT_DOCS "/CONTROLLER.md#beside-kueue"

enum { TEXT_MAX = 1024 };

/* The number of members or items, 0 if it is not of this type: the configuration is another
 * program's. */
static uint32_t count_of(const struct node *n, enum node_type type)
{
	return node_is(n, type) ? n->n : 0;
}

/* Empty if it is no text. */
static struct span text_of(const struct node *n)
{
	return node_is(n, NODE_TEXT) ? node_span(n) : SPAN("");
}

/* ---- whether Kueue takes pods ---- */

/* matchExpressions[i] of a selector holds for these labels (a JSON object). */
static bool expression_holds(const struct node *x, struct span labels, struct arena *a)
{
	struct span op = text_of(node_get(x, "operator"));
	const struct node *values = node_get(x, "values");
	struct span value = scan_get(labels, node_text(x, "key"));
	bool found = false;
	for (uint32_t i = 0; value.n && i < count_of(values, NODE_LIST); i++)
		found |= span_eq(scan_text(value, a), text_of(&values->item[i]));
	return span_is(op, "In")       ? found
	       : span_is(op, "NotIn")  ? !found
	       : span_is(op, "Exists") ? value.n != 0
	                               : value.n == 0;
}

/* NULL selects every namespace. */
static bool selector_holds(const struct node *selector, struct span labels, struct arena *a)
{
	const struct node *match = node_get(selector, "matchLabels");
	const struct node *expressions = node_get(selector, "matchExpressions");
	bool holds = true;
	for (uint32_t i = 0; i < count_of(match, NODE_MAP); i++) {
		const char *key = arena_dup(a, member_key(&match->member[i]));
		holds &=
		    span_eq(scan_text(scan_get(labels, key), a), text_of(&match->member[i].value));
	}
	for (uint32_t i = 0; i < count_of(expressions, NODE_LIST); i++)
		holds &= expression_holds(&expressions->item[i], labels, a);
	return holds;
}

/* Why Kueue takes pods without a queue in a namespace with these labels, NULL if it leaves them
 * alone; defaults: there is a LocalQueue that is the default. */
static const char *kueue_takes(const struct node *config, struct span labels, bool defaults,
                               struct arena *a)
{
	const struct node *kinds = node_get(node_get(config, "integrations"), "frameworks");
	const struct node *each = node_get(config, "manageJobsWithoutQueueName");
	const char *why = node_is(each, NODE_BOOL) && each->boolean ? "manageJobsWithoutQueueName"
	                  : defaults                                ? "the LocalQueue default"
	                                                            : NULL;
	bool pods = false;
	for (uint32_t i = 0; i < count_of(kinds, NODE_LIST); i++)
		pods |= span_is(text_of(&kinds->item[i]), "pod");
	return pods && selector_holds(node_get(config, "managedJobsNamespaceSelector"), labels, a)
	           ? why
	           : NULL;
}

/* NULL: it cannot be read, which the last answer tells.  Lives in the arena. */
static const struct node *kueue_config(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	struct doc *doc = ARENA_NEW(&c->arena, struct doc, 1);
	const struct store_reply *r =
	    check_get(c, KIND_CONFIGMAP, KUEUE_CONFIGMAP, KUEUE_NAMESPACE);
	if (r->outcome != STORE_OK || !scan_valid(r->body, SCAN_DEPTH_MAX))
		return NULL;
	struct span text =
	    scan_text(scan_path(r->body, "data", "controller_manager_config.yaml"), &c->arena);
	return text.n && yaml_read(text, &BUDGET_DEFAULT, &c->arena, doc, NULL, &e) == 0
	           ? &doc->root
	           : NULL;
}

static void check_kueue_pods(struct check_session *c, size_t queues, bool defaults)
{
	static const char MEND[] = "leave this namespace out in managedJobsNamespaceSelector of "
				   "Kueue, or the kind pod out in integrations; " KUEUE_PAGE;
	const char *space = c->server->namespace_name;
	const struct store_reply *r = check_get(c, KIND_NAMESPACE, space, NULL);
	if (r->outcome != STORE_OK || !scan_valid(r->body, SCAN_DEPTH_MAX)) {
		check_cannot_look(c, "rbac/rbac.yaml");
		return;
	}
	struct span labels = scan_path(r->body, "metadata", "labels");
	const struct node *config = kueue_config(c);
	const char *why = config ? kueue_takes(config, labels, defaults, &c->arena) : NULL;
	if (!config)
		SAY(c, defaults ? CHECK_WARNING : CHECK_SKIPPED,
		    defaults           ? MEND
		    : r->status == 403 ? check_apply(c->server, &c->arena, KUEUE_FILE)
		                       : NULL,
		    "%sthe ConfigMap " KUEUE_CONFIGMAP " in namespace " KUEUE_NAMESPACE
		    " does not tell whether Kueue takes pods of jobs for jobs of its own%s%.*s",
		    defaults ? "there is a LocalQueue default, and " : "", r->message.n ? ": " : "",
		    (int)r->message.n, r->message.p);
	else if (why)
		SAY(c, CHECK_FAILED, MEND,
		    "Kueue takes each pod in namespace %s for a job of its own, by %s: no job "
		    "starts",
		    space, why);
	else
		SAY(c, CHECK_OK, NULL,
		    "version " KUEUE_VERSION " leaves pods of jobs alone; LocalQueues in namespace "
		    "%s: %zu",
		    space, queues);
}

/* ---- the queues of the file of --facts ---- */

/* Returns true if the list (valid JSON) has an object with this name. */
static bool queue_in(struct span list, struct span name, struct arena *a)
{
	struct scan s = scan_begin(scan_get(list, "items"));
	struct span item;
	while (scan_item(&s, &item))
		if (span_eq(scan_text(scan_path(item, "metadata", "name"), a), name))
			return true;
	return false;
}

static void check_kueue_queue(struct check_session *c, struct span list, struct span cluster,
                              const struct node *queue)
{
	struct span name = text_of(queue);
	if (name.n && !queue_in(list, name, &c->arena))
		SAY(c, CHECK_WARNING,
		    "create it, as in k8s/deploy/options/kueue/queues.yaml, or correct the file of "
		    "--facts",
		    "virtual cluster %.*s: there is no LocalQueue %.*s in namespace %s: its jobs "
		    "wait",
		    (int)cluster.n, cluster.p, (int)name.n, name.p, c->server->namespace_name);
}

/* queues: facts.queues, or NULL. */
static void check_kueue_queues(struct check_session *c, const struct node *queues)
{
	const struct store_reply *r =
	    check_ask(c, (struct store_request){ .verb = STORE_LIST, .kind = KIND_LOCAL_QUEUE });
	if (r->outcome != STORE_OK || !scan_valid(r->body, SCAN_DEPTH_MAX)) {
		check_cannot_look(c, KUEUE_FILE);
		return;
	}
	struct span list = r->body;
	for (uint32_t i = 0; i < node_items(queues); i++) {
		const struct node *of = &queues->member[i].value;
		struct span cluster = member_key(&queues->member[i]);
		const struct node *more = node_get(of, "queues");
		check_kueue_queue(c, list, cluster, node_get(of, "queue"));
		for (uint32_t k = 0; k < node_items(more); k++)
			check_kueue_queue(c, list, cluster, &more->item[k]);
	}
	check_kueue_pods(c, scan_count(scan_get(list, "items")),
	                 queue_in(list, SPAN("default"), &c->arena));
}

void check_kueue(struct check_session *c)
{
	ERR_AUTO e = { 0 };
	STR_AUTO served = STR_INIT(TEXT_MAX);
	const struct facts_file *facts = setup_facts_file(c->o, &c->arena, &e);
	const struct node *queues = facts ? facts->queues : NULL; /* a step has told the error */
	const struct member *first = NULL;                        /* with a queue */
	for (uint32_t i = 0; !first && i < node_items(queues); i++)
		if (node_items(&queues->member[i].value))
			first = &queues->member[i];
	int good = check_versions(c, KUEUE_GROUP, KUEUE_VERSION, &served);
	if (good < 0)
		check_cannot_look(c, NULL);
	else if (good)
		check_kueue_queues(c, queues);
	else if (first)
		SAY(c, CHECK_FAILED, "install Kueue 0.15 or later; " KUEUE_PAGE,
		    "virtual cluster %.*s has a queue, but the API server does not serve "
		    "version " KUEUE_VERSION " of Kueue, but %s: its jobs wait",
		    (int)member_key(first).n, member_key(first).p,
		    served.n ? str_c(&served) : "no version");
	else if (served.n)
		SAY(c, CHECK_SKIPPED, "install Kueue 0.15 or later; " KUEUE_PAGE,
		    "the API server serves %s of Kueue: whether that takes pods of jobs is not "
		    "looked at",
		    str_c(&served));
}
