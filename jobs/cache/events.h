#pragma once
/*
 * The latest Events of pods, by Framework; listing them for each request would be too expensive.
 * Bounded per Framework and in total bytes; the oldest are dropped first.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/json/scan.h"

struct events;

enum { EVENTS_PER_FRAMEWORK = 64 };

/* Texts are borrowed from the arena; "" if missing. */
struct event {
	struct span uid;       /* of the Event */
	struct span framework; /* its metadata.name, by that of the object */
	struct span role, pod; /* task role and pod, as named in the object; "": of no task */
	struct span pod_uid;   /* of no task: of the Framework */
	struct span type, reason, message, component, host;
	int64_t index; /* of the task; -1: of none */
	int64_t count;
	int64_t first_ms, last_ms; /* since 1970 */
};

struct events *events_new(size_t max_bytes);
void events_free(struct events *e); /* accepts NULL */

/* A valid JSON Event, which is there or was removed; ignored unless it is about a Framework, or a
 * pod named FRAMEWORK-ROLE-INDEX. */
void events_change(struct events *e, struct span object, bool there);
void events_add(struct events *e, const struct event *event); /* texts are copied */
void events_begin(struct events *e); /* a list; its end removes Events that it lacks */
void events_end(struct events *e);

/* Events of a Framework, the latest first, in the arena; returns their number. */
size_t events_of(struct events *e, struct span framework, struct arena *a, struct event **out);
/* Returns true if the Event reports a pull that failed for a cause that no further try mends. */
bool event_is_refusal(const struct event *e);
/* The names of Frameworks that have such Events, in the arena; returns their number. */
size_t events_refusals(struct events *e, struct arena *a, struct span **out);
/* Sets or clears (NULL) the reason why Events are unavailable; initially there is one. */
void events_note_trouble(struct events *e, const char *why);
/* The reason, in the arena; NULL if Events are available. */
const char *events_problem(struct events *e, struct arena *a);

/* Parsing.  Pure; private to k8s/. */
enum { EVENT_TEXT_MAX = 256, EVENT_MESSAGE_MAX = 4096 }; /* bytes; longer texts are cut */

/* The texts of *out live in the arena or are borrowed from the object.  false: it has no uid, or is
 * not about a Framework, or a pod named FRAMEWORK-ROLE-INDEX: twice [a-z0-9]{1,63}, and 0 ... 9999.
 */
bool event_read(struct span object, struct arena *a, struct event *out);
