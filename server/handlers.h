#pragma once
/* What the routes do. */
#include "server/request.h"

/* health.c */
void index_get(struct request *r);
void healthz_get(struct request *r);
void readyz_get(struct request *r);

/* submit.c: a v2 job; a v1 or v2 job; and before its body, whether the path's user may. */
void submit_v2(struct request *r);
void submit_v1(struct request *r);
void submit_may(struct request *r);
