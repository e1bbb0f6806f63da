#pragma once
/*
 * The cells of HiveD that a job asks for, and the variables of templates that show them.
 *
 * Thread: any
 */
#include "translate/reader/parse_context.h"
#include "translate/render/bindings.h"

extern const struct variable_group HIVED_VARIABLES;

/* `extras.hivedScheduler`, after the roles. */
void hived_request_read(struct parse_context *r);

struct hived_share {
	int64_t cells;
	struct span group; /* USER~JOB/GROUP; n == 0: none */
};

struct hived_plan {
	int64_t priority;
	const struct hived_request *request; /* never NULL */
	const struct hived_role *roles;      /* per role; never NULL */
	const struct hived_share *share;     /* per role */
};

/* Sets s->hived, or leaves NULL without HiveD. Requires a permitted virtual cluster, because
 * messages name its contents. -1 and *e (400). */
int hived_plan_make(struct scope *s, struct err *e);
