/*
 * Any text as HiveD's configuration, as its status, and as a job that it schedules.  Whatever
 * comes: what is read keeps its bounds, and what HiveD is told of a role is YAML that says what it
 * should and nothing more.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/object.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/setting.h"
#include "translate/hived/hived.h"
#include "translate/translate.h"

static const char JOB[] = "protocolVersion: 2\nname: j\ntype: job\n"
			  "prerequisites: [{name: i, type: dockerimage, uri: ubuntu}]\n"
			  "taskRoles:\n"
			  "  w: {dockerImage: i, commands: [x], instances: 3,\n"
			  "      resourcePerInstance: {cpu: 5, memoryMB: 9000, gpu: 0}}\n";
static const char SPEC[] = "hivedscheduler.microsoft.com/pod-scheduling-spec";

static struct setting setting;

static void check_answers(const struct hived *h, const struct hived_status *s)
{
	ARENA_AUTO a = { 0 };
	struct span *vcs;
	struct sku *all;
	size_t n = hived_virtual_clusters(h, s, &a, &vcs);
	size_t most = hived_skus(h, s, (struct span){ "", 0 }, &a, &all);
	assert(most > 0 && hived_cells(h, s, SPAN("no such one")) >= -1);
	for (size_t i = 0; i < most; i++)
		assert(all[i].cpu >= 0 && all[i].gpu >= 0 && all[i].memory_mb >= 0);
	for (size_t i = 0; i < n && i < 100; i++) {
		struct sku *own;
		assert(vcs[i].n == 0 || hived_skus(h, s, vcs[i], &a, &own) <= most);
		assert(hived_cells(h, s, vcs[i]) >= 0);
		(void)hived_pins(h, vcs[i], SPAN("pc1"));
	}
}

static void check_members(const struct node *group)
{
	const struct node *list = node_get(group, "members");
	assert(node_is(node_get(group, "name"), NODE_TEXT) && group->n == 2);
	assert(node_is(list, NODE_LIST) && list->n > 0);
	for (size_t i = 0; i < list->n; i++) {
		const struct node *pods = node_get(&list->item[i], "podNumber");
		const struct node *cells = node_get(&list->item[i], "leafCellNumber");
		assert(node_is(pods, NODE_INT) && pods->integer > 0);
		assert(node_is(cells, NODE_INT) && cells->integer > 0 && list->item[i].n == 2);
	}
}

/* Text or null, and fit to be a name. */
static void check_name(const struct node *n)
{
	assert(n && (n->type == NODE_NULL || (n->type == NODE_TEXT && !strpbrk(n->text, "\n:"))));
}

static void check_spec(json_t *role)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	json_t *annotations = NULL;
	struct doc doc = { 0 };
	assert(json_unpack(role, "{s:{s:{s:{s:o}}}}", "task", "pod", "metadata", "annotations",
	                   &annotations) == 0);
	const json_t *spec = json_object_get(annotations, SPEC);
	struct span text = { json_string_value(spec), json_string_length(spec) };
	assert(doc_read(text, &BUDGET_DEFAULT, &a, &doc, NULL, &e) == 0);
	const struct node *group = node_get(&doc.root, "affinityGroup");
	const struct node *cells = node_get(&doc.root, "leafCellNumber");
	const struct node *priority = node_get(&doc.root, "priority");
	assert(doc.root.n >= 6 && doc.root.n <= 9);
	assert(node_is(node_get(&doc.root, "virtualCluster"), NODE_TEXT));
	assert(node_is(priority, NODE_INT) && priority->integer >= -1 && priority->integer <= 120);
	assert(node_is(cells, NODE_INT) && cells->integer > 0);
	check_name(node_get(&doc.root, "leafCellType"));
	check_name(node_get(&doc.root, "pinnedCellId"));
	if (group->type != NODE_NULL)
		check_members(group);
}

static void check_job(const struct facts *facts, struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct objects out = { 0 };
	struct job *job =
	    job_read(setting.translator, DIALECTS_ALL, text, TEST_USER, &a, &warnings, &e);
	if (!job || job_build(setting.translator, job, facts, NULL, &a, &out, &e) < 0) {
		assert(e.http);
		return;
	}
	struct span body = out.v[out.n - 1].body;
	json_auto_t *framework = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	assert(framework);
	size_t i;
	json_t *role;
	json_array_foreach (json_object_get(json_object_get(framework, "spec"), "taskRoles"), i,
	                    role)
		check_spec(role);
}

static void config(struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct facts facts = setting.facts;
	facts.hived = hived_read(text, &a, &e);
	if (!facts.hived) {
		assert(e.http == 500 && e.notes.n);
		return;
	}
	check_answers(facts.hived, NULL);
	check_job(&facts, span_of(JOB));
}

static void status(struct span text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct facts facts = setting.facts;
	facts.hived_status = hived_status_read(text, &a, &e);
	if (!facts.hived_status) {
		assert(e.http == 500 && e.notes.n);
		return;
	}
	check_answers(facts.hived, facts.hived_status);
	check_job(&facts, span_of(JOB));
}

FUZZ(text)
{
	if (!setting.translator)
		setting_init(&setting, SETTING_HIVED);
	config(text);
	status(text);
	check_job(&setting.facts, text);
}
