#pragma once
/* What all loops of one server share: made before the threads start, then only read. */
#include <stdatomic.h>

#include "server/options.h"
#include "translate/translate.h"

struct login;
struct local;
struct images;

enum phase {
	PHASE_RUN,
	PHASE_DRAIN, /* /readyz says 503, all else goes on */
	PHASE_STOP   /* no new connections; what is under way is finished */
};

/* Whether pai-runtime is where pods will look for it; see delivery.h. */
enum delivery_state {
	DELIVERY_READY, /* or nothing to deliver */
	DELIVERY_PENDING,
	DELIVERY_UNREACHABLE,
	DELIVERY_FORBIDDEN,
	DELIVERY_REFUSED,
	DELIVERY_FOREIGN, /* something else has its name */
	DELIVERY_STATE_MAX
};

struct server {
	const struct options *options;
	struct translator *translator;
	struct facts facts;  /* of options->user; submitted_ms is set for each job */
	struct login *login; /* one of these two */
	struct local *local;
	struct images *images; /* NULL: images are not checked */
	const char *namespace_name;
	uint16_t port;
	atomic_int delivery; /* enum delivery_state */
	atomic_int phase;
	int ended_fd; /* an eventfd: each loop adds 1 when it has ended */
};
