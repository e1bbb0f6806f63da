#pragma once
/*
 * What HiveD is told of a job: how many cells each role gets, and which roles belong together.  For
 * translate/ only.
 */
#include "translate/render/bindings.h"

struct hived_share {
	int64_t cells;     /* leaf cells of one instance */
	struct span group; /* USER~JOB/GROUP; n == 0: none */
};

struct hived_plan {
	int64_t priority;
	const struct hived_request *request; /* never NULL */
	const struct hived_role *roles;      /* what the job says of each; never NULL */
	const struct hived_share *share;     /* of each role */
};

/*
 * Into s->hived; it stays NULL if the scheduler is not HiveD.  Call it when it is known that the
 * user may use the virtual cluster: messages tell what it has.  -1 and *e (400): all that HiveD
 * cannot do.
 */
int hived_plan_make(struct scope *s, struct err *e);
