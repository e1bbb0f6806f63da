#pragma once
/* A cluster of HiveD's, and what jobs need to be built for it.  For test_hived*.c. */
#include <stdlib.h>

#include "tests/unit/base/cmocka.h"

#include "base/object.h"
#include "translate/hived/hived.h"
#include "translate/translate.h"

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
	"  pinned: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}], pinnedCells: "            \
	"[{pinnedCellId: p-node}]}\n"                                                              \
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

static inline void tear_down(struct bench *b)
{
	arena_done(&b->a);
	err_done(&b->e);
	notes_done(&b->warnings);
	str_done(&b->text);
}
#define BENCH_AUTO __attribute__((cleanup(tear_down))) struct bench
/* One that is set up, to the end of the block. */
#define BENCH(b)                                                                                   \
	BENCH_AUTO b;                                                                              \
	set_up(&b)

static inline const struct hived *config(struct bench *b, const char *text)
{
	const struct hived *h = hived_read(span_of(text), &b->a, &b->e);
	if (!h)
		fail_msg("%s", err_msg(&b->e));
	return h;
}

static inline const struct hived_status *status(struct bench *b, const char *text)
{
	const struct hived_status *s = hived_status_read(span_of(text), &b->a, &b->e);
	if (!s)
		fail_msg("%s", err_msg(&b->e));
	return s;
}

static inline void set_up(struct bench *b)
{
	*b = (struct bench){ .text = STR_INIT(1 << 20) };
	translate_settings_default(&b->set);
	b->set.profile = PROFILE_OPENPAI;
	b->set.priority_class = true;
	b->set.hived = true;
	b->facts = (struct facts){ .any_virtual_cluster = true };
	b->facts.hived = config(b, CONFIG);
}

/* The error with all its places: "LINE:COLUMN: TEXT" lines, of which one must be there. */
static inline void assert_said(struct bench *b, const char *line)
{
	b->text.n = 0;
	for (size_t i = 0; i < b->e.notes.n; i++) {
		str_printf(&b->text, "%u:%u: ", b->e.notes.v[i].line, b->e.notes.v[i].column);
		note_text(&b->text, &b->e.notes.v[i]);
		str_char(&b->text, '\n');
	}
	if (!strstr(str_c(&b->text), line))
		fail_msg("expected \"%s\" in \"%s\"", line, str_c(&b->text));
}
