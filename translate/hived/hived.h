#pragma once
/*
 * HiveD, a scheduler that hands out whole cells of hardware: what its configuration says of the
 * cluster, and what its web service says of the moment.  Pure: texts in, tables out.  What a job
 * gets of it is decided in job_build, by struct facts.
 */
#include "translate/translate.h"

/* The scheduler's own configuration.  Read-only once read, for any number of threads. */
struct hived;
/* What each virtual cluster has at the moment.  The same. */
struct hived_status;

/*
 * Read the scheduler's configuration file (YAML): physicalCluster (skuTypes, cellTypes,
 * physicalCells) and virtualClusters (virtualCells, pinnedCells).  Members that are none of ours
 * are skipped: the file belongs to HiveD.  Lives in the arena; the text may go.  NULL and *e (500,
 * with line and column): what is wrong.
 */
struct hived *hived_read(struct span text, struct arena *a, struct err *e);

/*
 * Read what GET /v1/inspect/clusterstatus/virtualclusters/ of the web service answers (JSON; from
 * outside, so anything may stand in it).  Lives in the arena; the text may go.  NULL and *e (500).
 */
struct hived_status *hived_status_read(struct span text, struct arena *a, struct err *e);

/* Limits, because each job searches the tables; the schema has the same numbers. */
enum { HIVED_VCS_MAX = 1000, HIVED_TYPES_MAX = 1000, HIVED_PINNED_MAX = 10000 };

/* What one cell of a kind has: the unit in which a job gets it. */
struct sku {
	struct span name;
	int64_t cpu, gpu, memory_mb;
};

/*
 * The kinds that jobs of a virtual cluster may ask for; vc.n == 0: all of the cluster.  By the
 * status, if there is one (NULL: none), else by the configuration; a virtual cluster that is in
 * neither has all.  How many; *out lives in the arena, texts are borrowed.
 */
size_t hived_skus(const struct hived *h, const struct hived_status *status, struct span vc,
                  struct arena *a, struct sku **out);

/* The leaf cells that a virtual cluster has, of all types, without those that it has borrowed for
 * opportunistic jobs; status as above.  -1: it is in neither, there is no limit. */
int64_t hived_cells(const struct hived *h, const struct hived_status *status, struct span vc);

/* Is this pinned cell the virtual cluster's?  By the configuration; true where the virtual cluster
 * is not in it. */
bool hived_pins(const struct hived *h, struct span vc, struct span id);

/*
 * The virtual clusters that are in the configuration or the status (NULL: none), each once.  How
 * many; *out lives in the arena, texts are borrowed.
 */
size_t hived_virtual_clusters(const struct hived *h, const struct hived_status *status,
                              struct arena *a, struct span **out);
