/* HiveD: its configuration and status, and what jobs become by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/object.h"
#include "translate/hived_cells.h"
#include "translate/job.h"

/* Two kinds of nodes with GPUs, and nodes without. */
#define CLUSTER                                                                                    \
	"kubeApiServerAddress: http://10.0.0.1:8080\n"                                             \
	"physicalCluster:\n"                                                                       \
	"  skuTypes:\n"                                                                            \
	"    K80: {gpu: 1, cpu: 4, memory: 8192Mi}\n"                                              \
	"    V100: {gpu: 1, cpu: 6, memory: 32Gi}\n"                                               \
	"    CPU: {cpu: 2, memory: 4Gi}\n"                                                         \
	"  cellTypes:\n"                                                                           \
	"    K80-PAIR: {childCellType: K80, childCellNumber: 2}\n"                                 \
	"    K80-NODE: {childCellType: K80-PAIR, childCellNumber: 2, isNodeLevel: true}\n"         \
	"    3-K80-NODE: {childCellType: K80-NODE, childCellNumber: 3}\n"                          \
	"    V100-NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}\n"            \
	"    CPU-NODE: {childCellType: CPU, childCellNumber: 10, isNodeLevel: true}\n"             \
	"  physicalCells:\n"                                                                       \
	"    - cellType: 3-K80-NODE\n"                                                             \
	"      cellChildren:\n"                                                                    \
	"        - cellAddress: w1\n"                                                              \
	"        - {cellAddress: w2, pinnedCellId: p-node}\n"                                      \
	"        - cellAddress: w3\n"                                                              \
	"          cellChildren: [{pinnedCellId: p-pair}, {cellAddress: 1}]\n"                     \
	"    - {cellType: V100-NODE, cellAddress: 10.0.0.7}\n"                                     \
	"    - {cellType: CPU-NODE, cellAddress: 8, cellChildren: null}\n"
#define CLUSTERS                                                                                   \
	"virtualClusters:\n"                                                                       \
	"  default:\n"                                                                             \
	"    virtualCells:\n"                                                                      \
	"      - {cellType: 3-K80-NODE.K80-NODE, cellNumber: 1}\n"                                 \
	"      - {cellType: V100-NODE, cellNumber: 1}\n"                                           \
	"  pins:\n"                                                                                \
	"    virtualCells: [{cellType: 3-K80-NODE.K80-NODE.K80-PAIR, cellNumber: 1}]\n"            \
	"    pinnedCells: [{pinnedCellId: p-node}, {pinnedCellId: p-pair}]\n"                      \
	"  mixed: {virtualCells: [{cellType: K80, cellNumber: 1}, {cellType: CPU-NODE, "           \
	"cellNumber: "                                                                             \
	"1}]}\n"                                                                                   \
	"  empty: {}\n"                                                                            \
	"  nothing:\n"
#define CONFIG CLUSTER CLUSTERS

struct bench {
	struct arena a;
	struct err e;
	struct notes warnings;
	struct settings set;
	struct facts facts;
	struct objects out;
	struct str text;
};

static void tear_down(struct bench *b)
{
	arena_done(&b->a);
	err_done(&b->e);
	notes_done(&b->warnings);
	str_done(&b->text);
}
#define BENCH_AUTO __attribute__((cleanup(tear_down))) struct bench

static const struct hived *config(struct bench *b, const char *text)
{
	const struct hived *h = hived_read(span_of(text), &b->a, &b->e);
	if (!h)
		fail_msg("%s", err_msg(&b->e));
	return h;
}

static const struct hived_status *status(struct bench *b, const char *text)
{
	const struct hived_status *s = hived_status_read(span_of(text), &b->a, &b->e);
	if (!s)
		fail_msg("%s", err_msg(&b->e));
	return s;
}

static void set_up(struct bench *b)
{
	*b = (struct bench){ .text = STR_INIT(1 << 20) };
	translate_settings_default(&b->set);
	b->set.profile = PROFILE_OPENPAI;
	b->set.priority_class = true;
	b->set.hived = true;
	b->facts = (struct facts){ .any_virtual_cluster = true };
	b->facts.hived = config(b, CONFIG);
}

/* ---- the configuration ----------------------------------------------------------------------- */

static const char *sku_names(struct bench *b, const struct hived_status *s, const char *vc)
{
	struct sku *v = NULL;
	size_t n = hived_skus(b->facts.hived, s, span_of(vc), &b->a, &v);
	STR_AUTO names = STR_INIT(1000);
	for (size_t i = 0; i < n; i++)
		str_printf(&names, "%.*s ", (int)v[i].name.n, v[i].name.p);
	return arena_dup(&b->a, str_view(&names));
}

static void test_config_cells(void **state)
{
	(void)state;
	static const struct {
		const char *vc;
		int64_t cells;
		const char *skus;
	} CASES[] = {
		{ "default", 12, "K80 V100 " }, { "pins", 8, "K80 " },
		{ "mixed", 11, "K80 CPU " },    { "empty", 0, "" },
		{ "nothing", 0, "" },           { "unheard-of", -1, "K80 V100 CPU " },
		{ "", -1, "K80 V100 CPU " },
	};
	BENCH_AUTO b;
	set_up(&b);
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		struct span vc = span_of(CASES[i].vc);
		assert_int_equal(hived_cells(b.facts.hived, NULL, vc), CASES[i].cells);
		assert_string_equal(sku_names(&b, NULL, CASES[i].vc), CASES[i].skus);
	}
}

static void test_config_pinned(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	assert_true(hived_pins(b.facts.hived, SPAN("pins"), SPAN("p-node")));
	assert_true(hived_pins(b.facts.hived, SPAN("pins"), SPAN("p-pair")));
	assert_false(hived_pins(b.facts.hived, SPAN("pins"), SPAN("p")));
	assert_false(hived_pins(b.facts.hived, SPAN("default"), SPAN("p-node")));
	assert_true(hived_pins(b.facts.hived, SPAN("unheard-of"), SPAN("p-node")));
}

static void test_config_memory(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t mb;
	} CASES[] = {
		{ "1Ti", 1048576 },   { "54Gi", 55296 }, { "56334Mi", 56334 },
		{ "2048Ki", 2 },      { "2047Ki", 1 },   { "1048576", 1 },
		{ "\"1048576\"", 1 }, { "1048575", 0 },  { "1T", 953674 },
		{ "1G", 953 },        { "100M", 95 },    { "2000K", 1 },
		{ "2000k", 1 },       { "0", 0 },        { "8000000Ti", 8388608000000 },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		BENCH_AUTO b = { 0 };
		struct sku *v = NULL;
		const char *text = arena_printf(
		    &b.a, "physicalCluster: {skuTypes: {A: {memory: %s}}}\nvirtualClusters: {}\n",
		    CASES[i].text);
		const struct hived *h = config(&b, text);
		assert_int_equal(hived_skus(h, NULL, SPAN(""), &b.a, &v), 1);
		assert_int_equal(v->memory_mb, CASES[i].mb);
		assert_int_equal(v->cpu, 0);
		assert_int_equal(v->gpu, 0);
	}
}

static void assert_config_refused(const char *text, const char *line)
{
	BENCH_AUTO b = { .text = STR_INIT(1 << 20) };
	assert_null(hived_read(span_of(text), &b.a, &b.e));
	assert_int_equal(b.e.http, 500);
	for (size_t i = 0; i < b.e.notes.n; i++) {
		str_printf(&b.text, "%u:%u: ", b.e.notes.v[i].line, b.e.notes.v[i].column);
		note_text(&b.text, &b.e.notes.v[i]);
		str_char(&b.text, '\n');
	}
	if (!strstr(str_c(&b.text), line))
		fail_msg("expected \"%s\" in \"%s\"", line, str_c(&b.text));
}

#define ONE "physicalCluster:\n  skuTypes: {A: {cpu: 1, memory: 1Gi}}\n"
#define VCS "virtualClusters: {}\n"

static void test_config_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *line;
	} CASES[] = {
		{ " \n", "the file is empty" },
		{ "5\n", "must be" },
		{ "a: [\n", "2:1: " },
		{ "physicalCluster: {}\n" VCS, "1:18: physicalCluster: misses the key `skuTypes`" },
		{ ONE, "misses the key `virtualClusters`" },
		{ "physicalCluster: {skuTypes: {A: {cpu: many}}}\n" VCS,
		  "1:39: physicalCluster.skuTypes.A.cpu: " },
		{ "physicalCluster: {skuTypes: {A: {memory: 1.5Gi}}}\n" VCS,
		  "1:42: physicalCluster.skuTypes.A.memory: must be a whole number" },
		{ "physicalCluster: {skuTypes: {A: {memory: 999999999999999Ti}}}\n" VCS,
		  "1:42: physicalCluster.skuTypes.A.memory: SKU type `A` has too much memory" },
		{ ONE "  cellTypes: {B: {childCellType: B, childCellNumber: 2}}\n" VCS,
		  "3:18: physicalCluster.cellTypes.B: cell type `B` is made of itself" },
		{ ONE "  cellTypes:\n    B: {childCellType: C, childCellNumber: 1}\n"
		      "    C: {childCellType: B, childCellNumber: 1}\n" VCS,
		  "5:8: physicalCluster.cellTypes.C: cell type `C` is made of itself" },
		/* leads into a circle that it is no part of */
		{ ONE "  cellTypes:\n    B: {childCellType: C, childCellNumber: 1}\n"
		      "    C: {childCellType: C, childCellNumber: 1}\n" VCS,
		  "4:8: physicalCluster.cellTypes.B: cell type `B` has more than 64 levels" },
		{ ONE "  cellTypes:\n    B: {childCellType: C, childCellNumber: 1000000}\n"
		      "    C: {childCellType: A, childCellNumber: 1000000}\n" VCS,
		  "4:8: physicalCluster.cellTypes.B: cell type `B` has more than 2147483647 leaf "
		  "cells" },
		{ ONE "virtualClusters:\n  v: {virtualCells: [{cellType: A.B, cellNumber: 1}]}\n",
		  "4:33: virtualClusters.v.virtualCells[0].cellType: cell type `B` is not there" },
		{ ONE "virtualClusters:\n  v: {pinnedCells: [{pinnedCellId: x}]}\n",
		  "4:36: virtualClusters.v.pinnedCells[0].pinnedCellId: pinned cell `x` is not in "
		  "physicalCells" },
		{ ONE "  physicalCells: [{pinnedCellId: x}]\n" VCS,
		  "3:34: physicalCluster.physicalCells[0].pinnedCellId: pinned cell `x` has no "
		  "known cellType" },
		{ ONE "  physicalCells: [{cellType: A, pinnedCellId: x}, {cellType: A, "
		      "pinnedCellId: x}]\n" VCS,
		  "pinned cell `x` is there twice" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++)
		assert_config_refused(CASES[i].text, CASES[i].line);
}

/* ---- the status ------------------------------------------------------------------------------ */

#define LEAF "{\"cellPriority\":-2}"

static void test_status(void **state)
{
	(void)state;
	static const struct {
		const char *cells;
		int64_t count;
		const char *skus;
	} CASES[] = {
		{ "[]", 0, "" },
		{ "[{\"leafCellType\":\"K80\",\"cellChildren\":[" LEAF "," LEAF "]}]", 2, "K80 " },
		/* free cells have -2, and are the virtual cluster's; borrowed ones -1 */
		{ "[{\"leafCellType\":\"K80\",\"cellPriority\":-2},"
		  "{\"leafCellType\":\"V100\",\"cellPriority\":-1,\"cellChildren\":[" LEAF "]},"
		  "{\"leafCellType\":\"CPU\",\"cellPriority\":100}]",
		  2, "K80 CPU " },
		{ "[{\"leafCellType\":\"K80\",\"cellChildren\":[{\"cellPriority\":-1},"
		  "{\"leafCellType\":\"V100\",\"cellChildren\":null},{\"cellChildren\":[]}]}]",
		  2, "K80 V100 " },
		/* a type that no SKU has is counted, and not offered */
		{ "[{\"leafCellType\":\"A100\"},{\"leafCellType\":\"K80\"}]", 2, "K80 " },
		/* what has a wrong type is left out */
		{ "[7,null,\"x\",[],{},{\"leafCellType\":7},{\"leafCellType\":\"K80\"},"
		  "{\"leafCellType\":\"K80\",\"cellPriority\":\"-1\"},"
		  "{\"leafCellType\":\"K80\",\"cellPriority\":0.5},"
		  "{\"leafCellType\":\"K80\",\"cellChildren\":{}}]",
		  1, "K80 " },
	};
	BENCH_AUTO b;
	set_up(&b);
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		const char *text = arena_printf(&b.a, "{\"default\":%s}", CASES[i].cells);
		const struct hived_status *s = status(&b, text);
		int64_t cells = hived_cells(b.facts.hived, s, SPAN("default"));
		assert_int_equal(cells, CASES[i].count);
		assert_string_equal(sku_names(&b, s, "default"), CASES[i].skus);
	}
}

static void test_status_goes_before_config(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	const struct hived_status *s =
	    status(&b, "{\"new\":[{\"leafCellType\":\"CPU\"}],\"pins\":5}");
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("new")), 1);
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("default")), 12);
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("pins")), 8);
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("other")), -1);
	struct span *names = NULL;
	assert_int_equal(hived_virtual_clusters(b.facts.hived, s, &b.a, &names), 6);
	assert_memory_equal(names[0].p, "default", 7);
	assert_memory_equal(names[5].p, "new", 3);
}

static void test_status_refused(void **state)
{
	(void)state;
	static const char *const TEXTS[] = { "",        "[]",          "null", "default: []",
		                             "{\"a\":", "{\"\xff\":1}" };
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
		BENCH_AUTO b = { 0 };
		assert_null(hived_status_read(span_of(TEXTS[i]), &b.a, &b.e));
		assert_int_equal(b.e.http, 500);
	}
}

static void test_status_is_bounded(void **state)
{
	(void)state;
	BENCH_AUTO b = { 0 };
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, "{\"a\":");
	for (int i = 0; i < 10000; i++)
		str_puts(&text, "[{\"cellChildren\":");
	assert_null(hived_status_read(str_view(&text), &b.a, &b.e));
	assert_int_equal(b.e.http, 500);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

#define HEAD                                                                                       \
	"protocolVersion: 2\nname: j\ntype: job\n"                                                 \
	"prerequisites: [{name: i, type: dockerimage, uri: ubuntu}]\ntaskRoles:\n"
#define ROLE(name, more)   "  " name ": {dockerImage: i, commands: [x], " more "}\n"
#define ASKS(cpu, mb, gpu) "resourcePerInstance: {cpu: " #cpu ", memoryMB: " #mb ", gpu: " #gpu "}"
#define VC(name)           "defaults: {virtualCluster: " name "}\n"
#define HIVED(more)        "extras: {hivedScheduler: {" more "}}\n"

/* The Framework; NULL and b->e. */
static json_t *framework(struct bench *b, const char *text)
{
	struct translator *t = translator_new(&b->set, NULL, &b->e);
	assert_non_null(t);
	err_done(&b->e);
	b->e = (struct err){ 0 };
	notes_done(&b->warnings);
	b->warnings = (struct notes){ 0 };
	struct job *job =
	    job_read(t, DIALECT_AUTO, span_of(text), "alice", &b->a, &b->warnings, &b->e);
	int rc = job ? job_build(t, job, &b->facts, NULL, &b->a, &b->out, &b->e) : -1;
	translator_free(t);
	if (rc < 0)
		return NULL;
	struct span body = b->out.v[b->out.n - 1].body;
	return json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
}

static json_t *pod(json_t *framework, size_t role)
{
	json_t *roles = json_object_get(json_object_get(framework, "spec"), "taskRoles");
	return json_object_get(json_object_get(json_array_get(roles, role), "task"), "pod");
}

/* What HiveD is told of a role. */
static const char *spec(json_t *framework, size_t role)
{
	json_t *annotations =
	    json_object_get(json_object_get(pod(framework, role), "metadata"), "annotations");
	return json_string_value(
	    json_object_get(annotations, "hivedscheduler.microsoft.com/pod-scheduling-spec"));
}

static void assert_spec(struct bench *b, const char *text, size_t role, const char *want)
{
	json_t *f = framework(b, text);
	if (!f)
		fail_msg("%s", err_msg(&b->e));
	assert_string_equal(spec(f, role), want);
	json_decref(f);
}

static void assert_cells(struct bench *b, const char *text, int64_t want)
{
	json_t *f = framework(b, text);
	if (!f)
		fail_msg("%s", err_msg(&b->e));
	const char *at = strstr(spec(f, 0), "\nleafCellNumber: ");
	const char *line = arena_printf(&b->a, "\nleafCellNumber: %lld\n", (long long)want);
	if (strncmp(at, line, strlen(line)) != 0)
		fail_msg("expected %s in %s", line, spec(f, 0));
	json_decref(f);
}

static void assert_refused(struct bench *b, const char *text, const char *line)
{
	json_t *f = framework(b, text);
	assert_null(f);
	assert_int_equal(b->e.http, 400);
	b->text.n = 0;
	for (size_t i = 0; i < b->e.notes.n; i++) {
		str_printf(&b->text, "%u:%u: ", b->e.notes.v[i].line, b->e.notes.v[i].column);
		note_text(&b->text, &b->e.notes.v[i]);
		str_char(&b->text, '\n');
	}
	if (!strstr(str_c(&b->text), line))
		fail_msg("expected \"%s\" in \"%s\"", line, str_c(&b->text));
}

static void test_cells(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t cells;
	} CASES[] = {
		/* the least of K80 and V100: 1 gpu, 4 cpu, 8192 MiB */
		{ HEAD ROLE("w", ASKS(1, 1, 1)), 1 },
		{ HEAD ROLE("w", ASKS(4, 8192, 1)), 1 },
		{ HEAD ROLE("w", ASKS(5, 8192, 1)), 2 },
		{ HEAD ROLE("w", ASKS(4, 8193, 1)), 2 },
		{ HEAD ROLE("w", ASKS(1, 1, 8)), 8 },
		{ HEAD ROLE("w", ASKS(1, 1, 0)), 1 },
		{ HEAD ROLE("w", ASKS(0, 1, 0)), 1 },
		{ HEAD ROLE("w", ASKS(9, 1, 0)), 3 },
		/* of one type */
		{ HEAD ROLE("w", ASKS(6, 32768, 1)) HIVED("taskRoles: {w: {skuType: V100}}"), 1 },
		{ HEAD ROLE("w", ASKS(6, 32769, 1)) HIVED("taskRoles: {w: {skuType: V100}}"), 2 },
		{ HEAD ROLE("w", ASKS(6, 1, 1)) HIVED("taskRoles: {w: {skuType: K80}}"), 2 },
		{ HEAD ROLE("w", ASKS(5, 1, 0)) VC("mixed") HIVED("taskRoles: {w: {skuType: CPU}}"),
		  3 },
		/* without a type: no more cpu in a cell than any has */
		{ HEAD ROLE("w", ASKS(5, 1, 0)) VC("mixed"), 3 },
		/* what is opportunistic may have all types: 2 cpu in a cell of CPU */
		{ HEAD ROLE("w", ASKS(4, 1, 0)) HIVED("jobPriorityClass: oppo"), 2 },
		{ HEAD ROLE("w", ASKS(4, 1, 0)) VC("unheard-of"), 2 },
		{ HEAD ROLE("w", ASKS(2147483647, 1, 0)) VC("unheard-of")
		      HIVED("taskRoles: {w: {skuType: CPU}}"),
		  1073741824 },
	};
	BENCH_AUTO b;
	set_up(&b);
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++)
		assert_cells(&b, CASES[i].text, CASES[i].cells);
}

static void test_spec(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	/* all of one group, if nobody names one */
	assert_spec(&b, HEAD ROLE("w", ASKS(1, 1, 2) ", instances: 3") ROLE("ps", ASKS(1, 1, 0)), 1,
	            "virtualCluster: default\npriority: 10\npinnedCellId: null\n"
	            "leafCellType: null\nleafCellNumber: 1\n"
	            "affinityGroup:\n  name: alice~j/default\n  members:\n"
	            "    - podNumber: 3\n      leafCellNumber: 2\n"
	            "    - podNumber: 1\n      leafCellNumber: 1\n");
	/* with groups, those without one are alone; the switches */
	static const char GROUPS[] =
	    HEAD ROLE("a", ASKS(1, 1, 1)) ROLE("b", ASKS(1, 1, 1)) ROLE("c", ASKS(1, 1, 2)) HIVED(
		"jobPriorityClass: prod, gangReleaseEnable: true, lazyPreemptionEnable: false, "
		"ignoreK8sSuggestedNodes: true, taskRoles: {c: {affinityGroupName: g/1, skuType: "
		"V100}, a: {affinityGroupName: g/1, skuType: V100}}");
	assert_spec(&b, GROUPS, 1,
	            "virtualCluster: default\npriority: 100\npinnedCellId: null\n"
	            "leafCellType: null\nleafCellNumber: 1\ngangReleaseEnable: true\n"
	            "lazyPreemptionEnable: false\nignoreK8sSuggestedNodes: true\n"
	            "affinityGroup: null\n");
	assert_spec(&b, GROUPS, 2,
	            "virtualCluster: default\npriority: 100\npinnedCellId: null\n"
	            "leafCellType: V100\nleafCellNumber: 2\ngangReleaseEnable: true\n"
	            "lazyPreemptionEnable: false\nignoreK8sSuggestedNodes: true\n"
	            "affinityGroup:\n  name: alice~j/g/1\n  members:\n"
	            "    - podNumber: 1\n      leafCellNumber: 1\n"
	            "    - podNumber: 1\n      leafCellNumber: 2\n");
	/* without gang allocation nothing belongs together */
	assert_spec(
	    &b,
	    HEAD ROLE("w", ASKS(1, 1, 1)) VC(
		"pins") "extras: {gangAllocation: false, hivedScheduler: {jobPriorityClass: crit, "
			"taskRoles: {w: {pinnedCellId: p-node}}}}\n",
	    0,
	    "virtualCluster: pins\npriority: 120\npinnedCellId: p-node\n"
	    "leafCellType: null\nleafCellNumber: 1\naffinityGroup: null\n");
}

/* Names that mean something in YAML stay names. */
static void test_spec_names(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	json_t *f = framework(
	    &b, HEAD ROLE("w", ASKS(1, 1, 0)) VC("\"007\"")
		    HIVED("taskRoles: {w: {pinnedCellId: \"true\", affinityGroupName: \"1\"}}"));
	assert_non_null(f);
	assert_string_equal(spec(f, 0),
	                    "virtualCluster: \"007\"\npriority: 10\npinnedCellId: \"true\"\n"
	                    "leafCellType: null\nleafCellNumber: 1\n"
	                    "affinityGroup:\n  name: alice~j/1\n  members:\n"
	                    "    - podNumber: 1\n      leafCellNumber: 1\n");
	json_decref(f);
}

static const struct {
	const char *text, *line;
} REFUSED[] = {
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: P100}}"),
	  "7:52: extras.hivedScheduler.taskRoles.w.skuType: there is no SKU type `P100`; "
	  "there are K80, V100, CPU\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: CPU}}"),
	  "skuType: virtual cluster default has no SKU type `CPU`; it has K80, V100\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: K80, pinnedCellId: p}}"),
	  "taskRoles.w.pinnedCellId: Taskrole w has both skuType and pinnedCellId, only "
	  "one is allowed.\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {x: {}}"),
	  "7:39: extras.hivedScheduler.taskRoles.x: Taskrole x does not exist.\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {pinnedCellId: p-node}}"),
	  "taskRoles.w.pinnedCellId: virtual cluster default has no pinned cell "
	  "`p-node`\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) VC("pins")
	      HIVED("jobPriorityClass: oppo, taskRoles: {w: {pinnedCellId: p-node}}"),
	  "pinnedCellId: jobs of priority class oppo cannot use pinned cells\n" },
	{ HEAD ROLE("a", ASKS(1, 1, 1)) ROLE("b", ASKS(1, 1, 1))
	      HIVED("taskRoles: {a: {affinityGroupName: g, skuType: K80}, b: "
	            "{affinityGroupName: g}}"),
	  "taskRoles.b.affinityGroupName: Taskroles a and b are in one affinity group: "
	  "they must have the same skuType and pinnedCellId\n" },
	/* a resource of which there is none */
	{ HEAD ROLE("w", ASKS(1, 1, 3)) VC("mixed"),
	  "6:3: taskRoles.w: asks for 3 gpu; there are SKU types without any: say "
	  "`skuType` in extras.hivedScheduler.taskRoles (K80, CPU)\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 3)) VC("mixed") HIVED("taskRoles: {w: {skuType: CPU}}"),
	  "6:3: taskRoles.w: asks for 3 gpu; SKU type `CPU` has none\n" },
	/* 12 there are */
	{ HEAD ROLE("a", ASKS(1, 1, 1) ", instances: 5") ROLE("b", ASKS(1, 1, 4) ", instances: 2"),
	  "7:3: taskRoles.b: Job requests 13 SKUs, exceeds maximum 12 SKUs in VC "
	  "default.\n" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) VC("empty"),
	  "7:28: defaults.virtualCluster: virtual cluster empty has no cells of a type in "
	  "skuTypes\n" },
	/* names go into a text of YAML */
	{ HEAD ROLE("w", ASKS(1, 1, 1))
	      HIVED("taskRoles: {w: {pinnedCellId: \"x\\npriority: 1000\"}}"),
	  "taskRoles.w.pinnedCellId: \"x\\npriority: 1000\" must be at most 255 letters" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: \"a: b\"}}"),
	  "taskRoles.w.skuType: \"a: b\" must be" },
	{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {affinityGroupName: -x}}"),
	  "taskRoles.w.affinityGroupName: \"-x\" must be" },
	/* v1 has no schema for this */
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"jobPriorityClass\":\"high\"}}}",
	  "extras.hivedScheduler.jobPriorityClass: must be one of crit, prod, test, oppo, "
	  "is \"high\"\n" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"gangReleaseEnable\":1}}}",
	  "gangReleaseEnable: must be true or false, is an integer\n" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"taskRoles\":{\"w\":{\"skuType\":7}}}}"
	  "}",
	  "taskRoles.w.skuType: must be text, is an integer\n" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"w\",\"command\":"
	  "\"x\"}],\"extras\":{\"hivedScheduler\":{\"taskRoles\":{\"v\":{}}}}}",
	  "taskRoles.v: Taskrole v does not exist.\n" },
};

static void test_refused(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	for (size_t i = 0; i < sizeof(REFUSED) / sizeof(*REFUSED); i++)
		assert_refused(&b, REFUSED[i].text, REFUSED[i].line);
}

/* Exactly what there is; what need not start at once; what owns nothing; what nobody limits. */
static void test_quota_kept(void **state)
{
	(void)state;
	static const char *const TEXTS[] = {
		HEAD ROLE("a", ASKS(1, 1, 1) ", instances: 4")
		    ROLE("b", ASKS(1, 1, 4) ", instances: 2"),
		HEAD ROLE("a", ASKS(1, 1, 1) ", instances: 13") "extras: {gangAllocation: false}\n",
		HEAD ROLE("a", ASKS(1, 1, 0) ", instances: 13") HIVED("jobPriorityClass: oppo"),
		HEAD ROLE("a", ASKS(1, 1, 0) ", instances: 13") VC("unheard-of"),
	};
	BENCH_AUTO b;
	set_up(&b);
	for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++)
		assert_cells(&b, TEXTS[i], 1);
}

/* What virtual clusters have now counts, not what they shall have. */
static void test_status_counts(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	b.facts.hived_status =
	    status(&b, "{\"default\":[{\"leafCellType\":\"CPU\",\"cellChildren\":[{},{}]}]}");
	assert_cells(&b, HEAD ROLE("w", ASKS(4, 1, 0)), 2);
	assert_refused(&b, HEAD ROLE("w", ASKS(5, 1, 0)),
	               "Job requests 3 SKUs, exceeds maximum 2 SKUs in VC default.\n");
	assert_refused(&b, HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("taskRoles: {w: {skuType: K80}}"),
	               "virtual cluster default has no SKU type `K80`; it has CPU\n");
}

/* Who may not use the virtual cluster is not told what it has. */
static void test_forbidden_first(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	b.facts.any_virtual_cluster = false;
	assert_null(framework(&b, HEAD ROLE("w", ASKS(1, 1, 1) ", instances: 99")));
	assert_int_equal(b.e.http, 403);
	assert_int_equal(b.e.notes.n, 1);
}

/* ---- pods ------------------------------------------------------------------------------------ */

static const char V1[] = "{\"jobName\":\"j\",\"image\":\"i\",\"jobEnvs\":{\"A\":\"1\"%s},"
			 "\"taskRoles\":[{\"name\":\"w\",\"command\":\"x\",\"gpuNumber\":1}]}";

static json_t *app(json_t *framework)
{
	json_t *pod_spec = json_object_get(pod(framework, 0), "spec");
	return json_array_get(json_object_get(pod_spec, "containers"), 0);
}

/* The elements of env from the end: "NAME=value", or "NAME<-path". */
static const char *env_from_end(struct bench *b, json_t *framework, size_t i)
{
	json_t *all = json_object_get(app(framework), "env");
	json_t *one = json_array_get(all, json_array_size(all) - 1 - i);
	const char *name = json_string_value(json_object_get(one, "name"));
	const char *value = json_string_value(json_object_get(one, "value"));
	json_t *from = json_object_get(json_object_get(one, "valueFrom"), "fieldRef");
	const char *path = json_string_value(json_object_get(from, "fieldPath"));
	return arena_printf(&b->a, "%s%s%s", name, value ? "=" : "<-", value ? value : path);
}

static void test_pod(void **state)
{
	(void)state;
	static const char *const TEXTS[] = { HEAD ROLE("w", ASKS(1, 1, 1)),
		                             HEAD ROLE("w", ASKS(1, 1, 0)) };
	for (int i = 0; i < 4; i++) {
		BENCH_AUTO b;
		set_up(&b);
		bool gpu = i % 2 == 0;
		b.set.profile = i < 2 ? PROFILE_PLAIN : PROFILE_OPENPAI;
		b.set.hived_scheduler = "bees";
		b.set.hived_device_env = "FIRST,SECOND";
		json_t *f = framework(&b, TEXTS[!gpu]);
		assert_non_null(f);
		json_t *limits = json_object_get(json_object_get(app(f), "resources"), "limits");
		const char *enable = "hivedscheduler.microsoft.com/pod-scheduling-enable";
		assert_int_equal(json_integer_value(json_object_get(limits, enable)), 1);
		assert_null(json_object_get(limits, "nvidia.com/gpu"));
		assert_string_equal(json_string_value(json_object_get(
					json_object_get(pod(f, 0), "spec"), "schedulerName")),
		                    "bees-ds-default");
		const char *path =
		    "metadata.annotations['hivedscheduler.microsoft.com/pod-leaf-cell-isolation']";
		const char *says = gpu ? arena_printf(&b.a, "<-%s", path) : "=none";
		assert_string_equal(env_from_end(&b, f, 0), arena_printf(&b.a, "SECOND%s", says));
		assert_string_equal(env_from_end(&b, f, 1), arena_printf(&b.a, "FIRST%s", says));
		assert_string_not_equal(env_from_end(&b, f, 2), "NVIDIA_VISIBLE_DEVICES=none");
		json_decref(f);
	}
}

/* Authors of v1 jobs set variables, but not those. */
static void test_devices_are_reserved(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	b.set.hived_device_env = "GIVEN,TAKEN";
	json_t *f = framework(&b, arena_printf(&b.a, V1, ",\"GIVE\":\"1\",\"TAKEN2\":\"1\""));
	assert_non_null(f);
	json_decref(f);
	assert_refused(&b, arena_printf(&b.a, V1, ",\"TAKEN\":\"0\""),
	               "jobEnvs.TAKEN: is reserved and cannot be set\n");
	assert_refused(&b, arena_printf(&b.a, V1, ",\"GIVEN\":\"0\""),
	               "jobEnvs.GIVEN: is reserved and cannot be set\n");
}

/* As OpenPAI: 126 less the priority in the high byte. */
static void test_priority(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		json_int_t value;
	} CASES[] = {
		{ HEAD ROLE("w", ASKS(1, 1, 1)), -((116 << 24) + 1) },
		{ HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("jobPriorityClass: crit"), -((6 << 24) + 1) },
		{ HEAD ROLE("w", ASKS(1, 1, 0)) HIVED("jobPriorityClass: oppo"),
		  -((127 << 24) + 1) },
	};
	BENCH_AUTO b;
	set_up(&b);
	b.facts.submitted_ms = 16000;
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		json_decref(framework(&b, CASES[i].text));
		assert_int_equal(b.e.http, 0);
		struct span body = b.out.v[0].body;
		json_t *v = json_loadb(body.p, body.n, 0, NULL);
		assert_int_equal(json_integer_value(json_object_get(v, "value")), CASES[i].value);
		json_decref(v);
	}
}

/* Another scheduler: the job is checked as far as its text goes, and warned. */
static void test_without_hived(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b);
	b.facts.hived = NULL;
	b.set.hived = false;
	json_t *f = framework(&b, HEAD ROLE("w", ASKS(1, 1, 1))
	                              HIVED("taskRoles: {w: {skuType: P100, pinnedCellId: x}}"));
	assert_non_null(f);
	assert_null(spec(f, 0));
	assert_null(json_object_get(json_object_get(pod(f, 0), "spec"), "schedulerName"));
	assert_int_equal(b.warnings.n, 1);
	assert_string_equal(b.warnings.v[0].msg, "is ignored: the scheduler here is not HiveD");
	json_decref(f);
	b.facts.hived = config(&b, CONFIG);
	b.set.hived = true;
	json_decref(framework(&b, HEAD ROLE("w", ASKS(1, 1, 1)) HIVED("jobPriorityClass: test")));
	assert_int_equal(b.warnings.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config_cells),
		cmocka_unit_test(test_config_pinned),
		cmocka_unit_test(test_config_memory),
		cmocka_unit_test(test_config_refused),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_status_goes_before_config),
		cmocka_unit_test(test_status_refused),
		cmocka_unit_test(test_status_is_bounded),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_spec),
		cmocka_unit_test(test_spec_names),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_quota_kept),
		cmocka_unit_test(test_status_counts),
		cmocka_unit_test(test_forbidden_first),
		cmocka_unit_test(test_pod),
		cmocka_unit_test(test_devices_are_reserved),
		cmocka_unit_test(test_priority),
		cmocka_unit_test(test_without_hived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
