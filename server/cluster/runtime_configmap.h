#pragma once
/*
 * The ConfigMaps with pai-runtime, one for each architecture, which all pods need: they are created
 * (--runtime=configmap), and no job is accepted before.
 *
 * Thread: worker
 */
#include "jobs/store/call.h"
#include "server/state/log.h"
#include "server/state/server.h"
#include "translate/translate.h"

/* pai-runtime for one architecture. */
struct program_configmap {
	struct object object; /* the ConfigMap */
	const char *problem;  /* as server->runtime_problem */
	bool done;            /* in this check */
};

struct runtime_configmap {
	struct server *server;
	struct caller *caller;
	struct program_configmap program[RUNTIME_PROGRAMS];
	size_t n; /* 0: by image */
};

/* Makes the objects, in the arena, and sets server->runtime_problem. */
void runtime_configmap_begin(struct runtime_configmap *d, struct server *s, struct caller *caller,
                             struct arena *a);
/* Creates those that are missing, at first all, and returns the number of those to be tried again.
 */
size_t runtime_configmap_publish(struct runtime_configmap *d, bool first);

/* ---- for all ConfigMaps that the server creates ---- */

/* Sends a request for a ConfigMap, and waits for its answer. */
enum store_outcome configmap_ask(struct caller *c, struct store_request r, struct arena *a,
                                 struct store_reply *reply);
/* Logs an event of a ConfigMap. */
struct configmap_event {
	enum log_level level;
	const char *event, *name;
	struct span why;  /* its reason */
	const char *mend; /* NULL: unknown */
};
void configmap_log(const struct server *s, const struct configmap_event *e);
/* The remedy of such a refusal, in the arena: the rights; NULL: unknown. */
const char *configmap_mend(const struct server *s, struct arena *a,
                           const struct store_reply *reply);
