#include "translate/hived.h"

struct hived *hived_read(struct span text, struct arena *a, struct err *e)
{
	(void)text;
	(void)a;
	(void)err_set(e, UNKNOWN_ERROR, "not yet");
	return NULL;
}

struct hived_status *hived_status_read(struct span text, struct arena *a, struct err *e)
{
	(void)text;
	(void)a;
	(void)err_set(e, UNKNOWN_ERROR, "not yet");
	return NULL;
}

size_t hived_skus(const struct hived *h, const struct hived_status *status, struct span vc,
                  struct arena *a, struct sku **out)
{
	(void)h;
	(void)status;
	(void)vc;
	(void)a;
	*out = NULL;
	return 0;
}

size_t hived_virtual_clusters(const struct hived *h, const struct hived_status *status,
                              struct arena *a, struct span **out)
{
	(void)h;
	(void)status;
	(void)a;
	*out = NULL;
	return 0;
}
