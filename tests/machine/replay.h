#pragma once
/*
 * replay feeds the stimuli of a recorded trace to FrameworkController's machine and compares what
 * becomes of the Framework with what the controller made of it.  replay.c is the program and the
 * comparison, stage.c the API server with its objects and stimuli, symbols.c gives uids and times
 * the symbols of traces.
 */
#include <jansson.h>

#include "k8s/framework/framework.h"
#include "k8s/transport/reply.h"

/* ---- symbols.c ---- */

struct symbols {
	json_t *by_uid, *by_symbol; /* uids of roles and tasks; their symbols */
	json_t *counts;             /* uids seen of each object */
	int64_t times[4096];        /* of each step */
	size_t steps;
};

void symbols_begin(struct symbols *s);
void symbols_end(struct symbols *s);
/* The next symbol of an object: "uid(configmap#1)"; new reference. */
json_t *symbols_next(struct symbols *s, const char *what);
/* Names the uids of a status that was stored.  It is plain (see symbols_plain). */
void symbols_learn(struct symbols *s, json_t *status);
/* A copy of a value with symbols for uids and times; and the reverse. */
json_t *symbols_shown(struct symbols *s, json_t *v);
json_t *symbols_meant(struct symbols *s, json_t *v);
/* A copy of a status in which compressed roles are inflated, as a trace shows them. */
json_t *symbols_plain(const json_t *status);
/* Roles of a shown status. */
json_t *symbols_roles(const json_t *status);
/* Shows in `after` long lists in short, where `like` does. */
void symbols_shorten(json_t *after, const json_t *like);

/* RFC 6902: add, replace, remove, test.  false: it does not fit. */
bool patch_apply(json_t **value, const json_t *patch);

/* ---- stage.c ---- */

struct stage {
	const struct framework_config *config;
	const json_t *trace, *step; /* `step` is the one that is played */
	struct symbols symbols;
	json_t *framework;         /* NULL: there is none */
	json_t *configmaps, *pods; /* by name */
	json_t *refusals;          /* left in this step, by name of the pod */
	json_t *transitions;       /* of this step: [who, from, to] */
	json_t *requests;          /* of this step, without updates of the Framework */
	struct framework *machine; /* NULL: the controller does not run, or has no Framework */
	bool down;
	bool unsaved; /* the status could not be stored */
	bool stale;   /* the next sync still goes by the spec before this step */
	bool changed; /* an object has changed since the last sync */
	int64_t now_s, wake_s;
	/* Texts that the machine borrows. */
	struct framework_container containers[64];
};

void stage_begin(struct stage *st, const struct framework_config *config, const json_t *trace);
void stage_end(struct stage *st);
/* Plays one step: its stimulus, then syncs until nothing changes.  -1 and *e: it cannot be played.
 */
int stage_play(struct stage *st, const json_t *step, struct err *e);
/* What is there, as a trace shows it; new reference. */
json_t *stage_after(struct stage *st);
