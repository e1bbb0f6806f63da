/* What can be asked of HiveD, once its configuration and its status are read; see hived.h. */
#include "translate/hived/hived.h"

#include "translate/hived/hived_cells.h"

const struct hived_vc *hived_vc_find(const struct hived_vcs *all, struct span name)
{
	for (size_t i = 0; i < all->n; i++)
		if (span_eq(all->v[i].name, name))
			return &all->v[i];
	return NULL;
}

void hived_count_add(struct hived_vc *vc, struct span type, int64_t cells)
{
	size_t i = 0;
	while (i < vc->n_counts && !span_eq(vc->counts[i].type, type))
		i++;
	if (i == vc->n_counts)
		vc->counts[vc->n_counts++] = (struct hived_count){ type, 0 };
	if (__builtin_add_overflow(vc->counts[i].cells, cells, &vc->counts[i].cells))
		vc->counts[i].cells = INT64_MAX;
}

/* What it has at the moment, else what it shall have; NULL: nobody says. */
static const struct hived_vc *find(const struct hived *h, const struct hived_status *status,
                                   struct span vc)
{
	const struct hived_vc *now = status ? hived_vc_find(&status->vcs, vc) : NULL;
	return now ? now : hived_vc_find(&h->vcs, vc);
}

static bool has_type(const struct hived_vc *vc, struct span type)
{
	for (size_t i = 0; i < vc->n_counts; i++)
		if (span_eq(vc->counts[i].type, type) && vc->counts[i].cells > 0)
			return true;
	return false;
}

size_t hived_skus(const struct hived *h, const struct hived_status *status, struct span vc,
                  struct arena *a, struct sku **out)
{
	const struct hived_vc *own = vc.n ? find(h, status, vc) : NULL;
	struct sku *v = ARENA_NEW(a, struct sku, h->n_skus);
	size_t n = 0;
	for (size_t i = 0; i < h->n_skus; i++)
		if (!own || has_type(own, h->skus[i].name))
			v[n++] = h->skus[i];
	*out = v;
	return n;
}

int64_t hived_cells(const struct hived *h, const struct hived_status *status, struct span vc)
{
	const struct hived_vc *own = find(h, status, vc);
	int64_t cells = 0;
	if (!own)
		return -1;
	for (size_t i = 0; i < own->n_counts; i++)
		if (__builtin_add_overflow(cells, own->counts[i].cells, &cells))
			return INT64_MAX;
	return cells;
}

bool hived_pins(const struct hived *h, struct span vc, struct span id)
{
	const struct hived_vc *own = hived_vc_find(&h->vcs, vc);
	for (size_t i = 0; own && i < own->n_pinned; i++)
		if (span_eq(own->pinned[i], id))
			return true;
	return !own;
}

size_t hived_virtual_clusters(const struct hived *h, const struct hived_status *status,
                              struct arena *a, struct span **out)
{
	size_t more = status ? status->vcs.n : 0;
	struct span *v = ARENA_NEW(a, struct span, h->vcs.n + more + 1);
	size_t n = 0;
	for (size_t i = 0; i < h->vcs.n; i++)
		v[n++] = h->vcs.v[i].name;
	for (size_t i = 0; i < more; i++)
		if (!hived_vc_find(&h->vcs, status->vcs.v[i].name))
			v[n++] = status->vcs.v[i].name;
	*out = v;
	return n;
}
