#pragma once
/*
 * hived/: HiveD, a scheduler that assigns whole cells of hardware. This header reads its
 * configuration and its status, and answers queries; hived_plan.c decides the cells of a job.
 * Pure.
 *
 * Thread: any
 */
#include "translate/job/settings.h"

/* The scheduler's configuration. Immutable, shared by threads. */
struct hived;
/* The current contents of the virtual clusters. Immutable too. */
struct hived_status;

/*
 * Reads the configuration file (YAML): physicalCluster (skuTypes, cellTypes, physicalCells) and
 * virtualClusters (virtualCells, pinnedCells); other members are ignored. Lives in the arena; the
 * text may go. NULL and *e (500, with line and column).
 */
struct hived *hived_read(struct span text, struct arena *a, struct err *e);

/* Reads the answer of GET /v1/inspect/clusterstatus/virtualclusters/ (JSON, untrusted). Lives in
 * the arena; the text may go. NULL and *e (500). */
struct hived_status *hived_status_read(struct span text, struct arena *a, struct err *e);

/* Limits, because each job searches the tables; the schema has the same numbers. */
enum { HIVED_VCS_MAX = 1000, HIVED_TYPES_MAX = 1000, HIVED_PINNED_MAX = 10000 };

/* Resources of one leaf cell of a type. */
struct sku {
	struct span name;
	int64_t cpu, gpu, memory_mb;
};

/*
 * The types that jobs of a virtual cluster may request; vc.n == 0: all of the cluster. The status
 * decides (NULL: none), else the configuration; an unknown virtual cluster has all. Returns their
 * number; *out lives in the arena, texts are borrowed.
 */
size_t hived_skus(const struct hived *h, const struct hived_status *status, struct span vc,
                  struct arena *a, struct sku **out);

/* Leaf cells of a virtual cluster, of all types, without cells borrowed for opportunistic jobs;
 * status as above. -1: unknown virtual cluster, no limit. */
int64_t hived_cells(const struct hived *h, const struct hived_status *status, struct span vc);

/* Returns true if, by the configuration, the pinned cell belongs to the virtual cluster; also for
 * an unknown virtual cluster. */
bool hived_pins(const struct hived *h, struct span vc, struct span id);

/* The virtual clusters of the configuration and the status (NULL: none), each once. Returns
 * their number; *out lives in the arena, texts are borrowed. */
size_t hived_virtual_clusters(const struct hived *h, const struct hived_status *status,
                              struct arena *a, struct span **out);
