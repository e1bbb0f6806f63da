#pragma once
/*
 * Recorded traces.  scene.c is the API server with its objects and the stimuli, compare.c compares
 * what is there after a step with the record, symbols.c gives uids and times the symbols of traces,
 * trace_file.c reads files.  stage.c puts FrameworkController's machine on a scene, and replay.c
 * is that program; tests/controller puts the rules of the controller there.
 */
#include <jansson.h>

#include "jobs/framework/framework.h"
#include "jobs/store/reply.h"

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
json_t *symbols_shown(const struct symbols *s, json_t *v);
json_t *symbols_meant(struct symbols *s, json_t *v);
/* A status in which compressed roles are inflated, as a trace shows them; new reference. */
json_t *symbols_plain(json_t *status);
/* Roles of a shown status. */
json_t *symbols_roles(const json_t *status);
/* Shows in `after` long lists in short, where `like` does. */
void symbols_shorten(json_t *after, const json_t *like);

/* RFC 6902: add, replace, remove, test.  false: it does not fit. */
bool patch_apply(json_t **value, const json_t *patch);

/* ---- scene.c ---- */

/* The API server: its objects, and the stimuli of a trace, which change them. */
struct scene {
	const json_t *trace, *step; /* `step` is the one that is played */
	struct symbols symbols;
	json_t *framework;         /* NULL: there is none */
	json_t *configmaps, *pods; /* by name */
	json_t *refusals;          /* left in this step, by name of the pod */
	json_t *transitions;       /* of this step: [who, from, to] */
	json_t *requests;          /* of this step, without updates of the Framework */
	int64_t version;           /* the newest resourceVersion */
	/* What the stimulus has done: the controller does not run; it was started anew; the
	 * Framework has changed; but the next sync still goes by the spec before. */
	bool down, started, put, stale;
	bool changed; /* set by each change of an object */
	/* Called for each change, if not NULL; gone: the object is no more. */
	void (*event)(void *arg, const json_t *object, bool gone);
	void *event_arg;
	int64_t now_s;
};

void scene_begin(struct scene *sc, const json_t *trace);
void scene_end(struct scene *sc);
/* Begins a step, a second after the one before: its stimulus.  -1 and *e: it cannot be played. */
int scene_play(struct scene *sc, const json_t *step, struct err *e);
/* This step is later than a second after the one before. */
void scene_set_time(struct scene *sc, int64_t now_s);
/* What is there, as a trace shows it; new reference. */
json_t *scene_after(const struct scene *sc);

/* Objects as they are kept: deletionTimestamp is a number.  All results are borrowed. */
json_t *scene_metadata(const json_t *object);
const char *scene_uid(const json_t *object);
const char *scene_owner(const json_t *object); /* uid of the controlling owner */
bool scene_dying(const json_t *object);
const char *scene_phase(const json_t *pod);
const char *scene_node(const json_t *pod);
json_t *scene_kind(struct scene *sc, bool pods); /* by name */

/* Requests of the controller: POST (takes the reference), whose result is the uid, and DELETE of
 * what is there. */
const char *scene_take_create(struct scene *sc, bool pod, const char *name, json_t *object);
void scene_take_delete(struct scene *sc, bool pod, const char *name, bool force);
void scene_delete_framework(struct scene *sc, const char *propagation);
/* Takes off finalizers; a dying object is gone then, and any pod. */
void scene_release(struct scene *sc, bool pod, const char *name);
bool scene_owner_lives(const struct scene *sc, const json_t *pod);
/* The Framework is this now; false: the schema refuses it. */
bool scene_store(struct scene *sc, json_t *framework);
/* The answer that the trace has for a creation of this pod: {code, error}; NULL: that of this API
 * server.  New reference. */
json_t *scene_refusal(struct scene *sc, const char *name);
/* A Status as the API server writes it, from its reason and message; new reference. */
json_t *scene_status(const json_t *error, const char *name, int code);

/* ---- compare.c ---- */

struct comparison {
	const char *file;
	const struct scene *scene;
	json_t *status;   /* of the record, with all changes applied */
	json_t *repeated; /* requests of the step before that were still being repeated */
	json_t *raced;    /* tasks whose -101 may have either text, as members */
	bool shows;       /* prints what is there after each step */
	bool different;
};

void compare_begin(struct comparison *c, const char *file, const struct scene *scene);
void compare_end(struct comparison *c);
/* After a step was played; prints each difference to stderr. */
void compare_step(struct comparison *c, bool transitions);
/* Instead: the recorded `after` of this step, with its change applied; NULL: there is none.  New
 * reference. */
json_t *compare_recorded(struct comparison *c);
/* Prints a difference. */
void compare_differ(struct comparison *c, const char *what, const char *at, const json_t *want,
                    const json_t *got);

/* ---- trace_file.c ---- */

enum trace_result { TRACE_EQUAL, TRACE_DIFFERENT, TRACE_UNREADABLE };
typedef int trace_player(const char *file, json_t *trace, const struct framework_config *config);
/* Plays the files that the arguments name; the worst result. */
int trace_main(int argc, char **argv, trace_player *play);

/* ---- stage.c ---- */

/* The machine on a scene. */
struct stage {
	struct scene scene;
	const struct framework_config *config;
	struct framework *machine; /* NULL: the controller does not run, or has no Framework */
	bool unsaved;              /* the status could not be stored */
	int64_t wake_s;
	/* Texts that the machine borrows. */
	struct framework_container containers[64];
};

void stage_begin(struct stage *st, const struct framework_config *config, const json_t *trace);
void stage_end(struct stage *st);
/* Plays one step: its stimulus, then syncs until nothing changes.  -1 and *e: it cannot be played.
 */
int stage_play(struct stage *st, const json_t *step, struct err *e);
