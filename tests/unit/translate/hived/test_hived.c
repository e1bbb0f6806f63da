/* HiveD: its configuration and status. */
#include "tests/unit/translate/hived_kit.h"

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

TEST(test_config_gives_cells_and_skus_of_clusters)
{
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
	BENCH(b);
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct span vc = span_of(CASES[i].vc);
		assert_int_equal(hived_cells(b.facts.hived, NULL, vc), CASES[i].cells);
		assert_string_equal(sku_names(&b, NULL, CASES[i].vc), CASES[i].skus);
	}
}

TEST(test_config_gives_pinned_cells_of_clusters)
{
	BENCH(b);
	assert_true(hived_pins(b.facts.hived, SPAN("pins"), SPAN("p-node")));
	assert_true(hived_pins(b.facts.hived, SPAN("pins"), SPAN("p-pair")));
	assert_false(hived_pins(b.facts.hived, SPAN("pins"), SPAN("p")));
	assert_false(hived_pins(b.facts.hived, SPAN("default"), SPAN("p-node")));
	assert_true(hived_pins(b.facts.hived, SPAN("unheard-of"), SPAN("p-node")));
}

TEST(test_config_memory_is_converted_to_mib)
{
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
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
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
	assert_said(&b, line);
}

#define ONE "physicalCluster:\n  skuTypes: {A: {cpu: 1, memory: 1Gi}}\n"
#define VCS "virtualClusters: {}\n"

TEST(test_config_errors_name_their_place)
{
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
		{ "physicalCluster: {skuTypes: {A: {memory: 1e20}}}\n" VCS,
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
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_config_refused(CASES[i].text, CASES[i].line);
}

TEST(test_config_refuses_too_many_pinned_cells)
{
	BENCH_AUTO b = { 0 };
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, ONE "  physicalCells:\n");
	for (int i = 0; i < HIVED_PINNED_MAX; i++)
		str_printf(&text, "    - {cellType: A, pinnedCellId: p%d}\n", i);
	size_t n = text.n;
	str_puts(&text, VCS);
	(void)config(&b, str_c(&text));
	text.n = n;
	str_puts(&text, "    - {cellType: A, pinnedCellId: more}\n" VCS);
	assert_config_refused(str_c(&text), "pinned cell `more` is one too many");
}

/* ---- the status ------------------------------------------------------------------------------ */

#define LEAF "{\"cellPriority\":-2}"

TEST(test_status_gives_cells_and_skus_of_clusters)
{
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
		{ "[{\"leafCellType\":\"A\"},{\"leafCellType\":\"B\"},{\"leafCellType\":\"C\"},"
		  "{\"leafCellType\":\"D\"},{\"leafCellType\":\"K80\"},{\"leafCellType\":\"A\"}]",
		  6, "K80 " },
		/* a type that no SKU has is counted, and not offered */
		{ "[{\"leafCellType\":\"A100\"},{\"leafCellType\":\"K80\"}]", 2, "K80 " },
		/* what has a wrong type is left out */
		{ "[7,null,\"x\",[],{},{\"leafCellType\":7},{\"leafCellType\":\"K80\"},"
		  "{\"leafCellType\":\"K80\",\"cellPriority\":\"-1\"},"
		  "{\"leafCellType\":\"K80\",\"cellPriority\":0.5},"
		  "{\"leafCellType\":\"K80\",\"cellChildren\":{}}]",
		  1, "K80 " },
	};
	BENCH(b);
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		const char *text = arena_printf(&b.a, "{\"default\":%s}", CASES[i].cells);
		const struct hived_status *s = status(&b, text);
		int64_t cells = hived_cells(b.facts.hived, s, SPAN("default"));
		assert_int_equal(cells, CASES[i].count);
		assert_string_equal(sku_names(&b, s, "default"), CASES[i].skus);
	}
}

TEST(test_status_overrides_the_configuration)
{
	BENCH(b);
	const struct hived_status *s =
	    status(&b, "{\"new\":[{\"leafCellType\":\"CPU\"}],\"pins\":5}");
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("new")), 1);
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("default")), 12);
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("pins")), 8);
	assert_int_equal(hived_cells(b.facts.hived, s, SPAN("other")), -1);
	struct span *names = NULL;
	assert_int_equal(hived_virtual_clusters(b.facts.hived, s, &b.a, &names), 7);
	assert_memory_equal(names[0].p, "default", 7);
	assert_memory_equal(names[6].p, "new", 3);
}

TEST(test_status_that_is_invalid_is_refused)
{
	static const char *const TEXTS[] = { "",        "[]",          "null", "default: []",
		                             "{\"a\":", "{\"\xff\":1}" };
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		BENCH_AUTO b = { 0 };
		assert_null(hived_status_read(span_of(TEXTS[i]), &b.a, &b.e));
		assert_int_equal(b.e.http, 500);
	}
}

static void assert_status_refused(const char *text, const char *says)
{
	BENCH_AUTO b = { 0 };
	assert_null(hived_status_read(span_of(text), &b.a, &b.e));
	assert_int_equal(b.e.http, 500);
	if (!strstr(err_msg(&b.e), says))
		fail_msg("\"%s\" does not say %s", err_msg(&b.e), says);
}

/* Each job searches them linearly, so their number has a limit. */
TEST(test_status_refuses_too_many_types_and_clusters)
{
	BENCH_AUTO b = { 0 };
	STR_AUTO types = STR_INIT(1 << 20);
	STR_AUTO vcs = STR_INIT(1 << 20);
	for (int i = 0; i < HIVED_TYPES_MAX; i++)
		str_printf(&types, "%s{\"leafCellType\":\"t%d\"}", i ? "," : "{\"v\":[", i);
	for (int i = 0; i < HIVED_VCS_MAX; i++)
		str_printf(&vcs, "%s\"v%d\":[]", i ? "," : "{", i);
	const char *most = arena_printf(&b.a, "%s,{\"leafCellType\":\"t0\"}]}", str_c(&types));
	const struct hived_status *s = status(&b, most);
	assert_int_equal(hived_cells(NULL, s, SPAN("v")), HIVED_TYPES_MAX + 1);
	(void)status(&b, arena_printf(&b.a, "%s}", str_c(&vcs)));
	assert_status_refused(arena_printf(&b.a, "%s,{\"leafCellType\":\"x\"}]}", str_c(&types)),
	                      "virtual cluster `v` has leaf cells of more than 1000 types");
	assert_status_refused(arena_printf(&b.a, "%s,\"x\":[]}", str_c(&vcs)),
	                      "there are more than 1000 virtual clusters");
}

/* The text may be large; the values that are kept for its lifetime are small. */
TEST(test_status_keeps_little_of_a_large_text)
{
	BENCH_AUTO b = { 0 };
	STR_AUTO text = STR_INIT(1 << 20);
	for (int i = 0; i < 5000; i++)
		str_printf(&text, "%s{\"leafCellType\":\"t\",\"cellAddress\":\"%d\"}",
		           i ? "," : "{\"v\":[", i);
	str_puts(&text, "]}");
	(void)status(&b, str_c(&text));
	text.n = 0;
	str_puts(&text, ONE "  physicalCells:\n");
	for (int i = 0; i < 5000; i++)
		str_printf(&text, "    - {cellType: A, cellAddress: \"%d\"}\n", i);
	str_puts(&text, VCS);
	(void)config(&b, str_c(&text));
	assert_in_range(b.a.used, 0, 4096);
}

TEST(test_status_refuses_deep_nesting)
{
	BENCH_AUTO b = { 0 };
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, "{\"a\":");
	str_many(&text, "[{\"cellChildren\":", 10000);
	assert_null(hived_status_read(str_view(&text), &b.a, &b.e));
	assert_int_equal(b.e.http, 500);
}
