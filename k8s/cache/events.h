#pragma once
/*
 * The last Events of pods, by the Framework that they are of: what the API server keeps for an
 * hour and nobody may list once per request.  Bounded: so many of a Framework, so many bytes in
 * all; the oldest go first.  Any thread; a lock that is held for copies.
 */
#include "base/arena.h"
#include "base/json/scan.h"

struct events;

enum { EVENTS_PER_FRAMEWORK = 64 };

/* Texts are borrowed from the arena that it was read into; "" if there is none. */
struct event {
	struct span uid;       /* of the Event */
	struct span framework; /* metadata.name of it, by the pod's name */
	struct span role, pod; /* task role as the object has it; name of the pod */
	struct span pod_uid;
	struct span type, reason, message, component, host;
	int64_t index; /* of the task */
	int64_t count;
	int64_t first_ms, last_ms; /* since 1970 */
};

struct events *events_new(size_t max_bytes);
void events_free(struct events *e); /* NULL is nothing */

/* One Event (JSON, valid); passed over unless it is of a pod named FRAMEWORK-ROLE-INDEX. */
void events_put(struct events *e, struct span object);
void events_remove(struct events *e, struct span object);
void events_begin(struct events *e); /* a list: what is not in it by its end is gone */
void events_end(struct events *e);

/* Those of one Framework, the last one first; how many.  *out lives in the arena. */
size_t events_of(struct events *e, struct span framework, struct arena *a, struct event **out);
/* Until this is called, and after trouble, nothing is known. */
void events_trouble(struct events *e, const char *why); /* NULL: all is well */
/* Why nothing is known, in the arena; NULL if all is. */
const char *events_problem(struct events *e, struct arena *a);

/* One Event of Kubernetes, read.  Pure; private to k8s/. */
enum { EVENT_TEXT_MAX = 256, EVENT_MESSAGE_MAX = 4096 }; /* bytes; what is longer is cut */

/* The parts of a pod's name FRAMEWORK-ROLE-INDEX: two of [a-z0-9]{1,63}, and 0 ... 9999.  Borrowed
 * from it.  false if it is none. */
bool event_pod_name(struct span pod, struct span *framework, struct span *role, int64_t *index);
/* Into *out, whose texts live in the arena or are borrowed from the object.  false: it is not of
 * such a pod, or has no uid. */
bool event_read(struct span object, struct arena *a, struct event *out);
