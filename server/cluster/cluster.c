#include "server/cluster/cluster.h"

#include <stdlib.h>

#include "machine/store/local.h"
#include "server/state/counts.h"
#include "server/state/log.h"

struct store *cluster_store(struct server *s, const struct store_limits *limits, struct err *e)
{
	struct store *store = s->local ? store_local_new(s->local, limits, e)
	                               : store_api_new(s->login, s->namespace_name, limits, e);
	if (store)
		store_count(store, counts_store(s->counts));
	return store;
}

void cluster_log_trouble(char **last, const char *why, const char *event, const char *good)
{
	if (why && (!*last || strcmp(why, *last) != 0))
		log_event(LOG_WARN, event, "why", why);
	else if (!why && *last)
		log_event(LOG_INFO, good, NULL, NULL);
	free(*last);
	*last = why ? xstrdup(why) : NULL;
}
