#pragma once
/* Plugins of a job, which run in its pods.  Here they are only looked at. */
#include "translate/dialects/reading.h"

/* Warn of what a plugin in this list would refuse in the pod. */
void plugins_check(struct reading *r, const struct path *p, const struct node *list);
