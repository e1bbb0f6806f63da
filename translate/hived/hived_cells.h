#pragma once
/*
 * What the configuration of HiveD and its web service are read into: virtual clusters, and how many
 * leaf cells of which types they have.  For hived*.c only.
 */
#include "translate/hived/hived.h"

struct hived_count {
	struct span type;
	int64_t cells;
};

struct hived_vc {
	struct span name;
	struct hived_count *counts; /* each type once */
	size_t n_counts;
	struct span *pinned; /* ids of pinned cells, by the configuration */
	size_t n_pinned;
};

struct hived_vcs {
	struct hived_vc *v;
	size_t n;
};

struct hived {
	struct sku *skus; /* in the order of the file */
	size_t n_skus;
	struct hived_vcs vcs;
};

struct hived_status {
	struct hived_vcs vcs;
};

/* The virtual clusters of a file may be so large and so deep. */
#define HIVED_BUDGET ((struct budget){ 64, 2000000, 32u << 20, 1024 })

/* They are searched through for each job; the schema has the same numbers. */
enum { HIVED_VCS_MAX = 1000, HIVED_TYPES_MAX = 1000, HIVED_PINNED_MAX = 10000 };

/* NULL if it is not there. */
const struct hived_vc *hived_vc_find(const struct hived_vcs *all, struct span name);
/* Of that type there are so many more; there must be room for one more type. */
void hived_count_add(struct hived_vc *vc, struct span type, int64_t cells);
