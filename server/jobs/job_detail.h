#pragma once
/*
 * What the files that show a job in full share (job_show.h).  Everything is read where it lies;
 * values of a wrong type are shown as null.
 */
#include "base/json/scan.h"
#include "server/jobs/job_find.h"
#include "server/jobs/job_show.h"

enum {
	SHOWN_ROLES = 1024,        /* of a job; more are not shown */
	SHOWN_TASKS = 20000,       /* likewise, of all roles */
	SHOWN_LABELS = 256,        /* of ports of a role */
	SHOWN_PORTS = 200000,      /* of all tasks; those that follow have {} */
	SHOWN_READABLE = 1 << 20,  /* bytes of tasks' diagnostics that are made readable */
	DIAGNOSTICS_MAX = 64 << 10 /* of which one is made readable */
};

/* One answer that is being written. */
struct shower {
	struct str *out;
	const struct job_shown *s;
	struct arena *a;
	size_t readable; /* bytes of diagnostics that are left of SHOWN_READABLE */
	size_t ports;    /* ports that are left of SHOWN_PORTS */
	/* The latest diagnostics, as they came and as they were written: tasks often share them. */
	struct span same_in;
	size_t same_at, same_n;
};

/* `,"key":` and the value.  Keys are literals with all of that. */
void show_null(struct shower *w, const char *key);
void show_text(struct shower *w, const char *key, struct span value);
void show_int(struct shower *w, const char *key, struct span value);
void show_number(struct shower *w, const char *key, int64_t n);
void show_time(struct shower *w, const char *key, struct span value);
void show_ms(struct shower *w, const char *key, int64_t ms); /* JOB_ENTRY_NONE: null */
void show_word(struct shower *w, const char *key, const char *text);
/* The first of two times that is one. */
void show_either(struct shower *w, const char *key, struct span first, struct span second);
/* Percent-encoded, as one segment of a path. */
void show_segment(struct str *out, struct span text);

/* ---- the end of an attempt, of a job or a task ---- */

struct outcome {
	bool has_code;
	int64_t code;
	struct span phrase, type, trigger; /* type is its name */
	struct span diagnostics;           /* as it lies */
};
struct outcome outcome_read(struct span completion_status);
/* The entry of its code, or null. */
void show_exit_spec(struct shower *w, const char *key, const struct outcome *o);

/* Diagnostics in parts; p is NULL for what is not there.  In the arena. */
struct said {
	struct span summary; /* text */
	struct span runtime; /* what pai-runtime said: a JSON object */
};
struct said said_read(struct span diagnostics, bool with_runtime, struct arena *a);
/* The end of both objects that have it: by runtime or by launcher, and the brace. */
void show_who_said(struct shower *w, const struct said *said);
/* {"container":null,"runtime":..,"launcher":..}, or null. */
void show_messages(struct shower *w, const char *key, const struct said *said);
/* The summary of a task's. */
void show_diagnostics(struct shower *w, const char *key, struct span diagnostics);

/* ---- ports ---- */

struct label {
	struct span json; /* with its quotes */
	struct span text;
	int64_t start, count;
};
/* What the annotation of a role's pods says; n is 0 if that is nothing, or nonsense. */
struct ports {
	bool hashed;
	int64_t start, end;
	size_t n;
	struct label *v;
};
struct ports ports_read(struct span annotation, struct arena *a);
/* {"ssh":"20000","http":"20001,20002"} of one task; pod is its uid, without quotes. */
void show_ports(struct shower *w, const struct ports *p, struct span pod, int64_t index);

/* ---- tasks ---- */

/* The attemptStatus that is shown, to be walked into (scan_inside); its members. */
enum attempt_member {
	ATTEMPT_ID,
	ATTEMPT_STARTED,
	ATTEMPT_RAN,
	ATTEMPT_ENDED,
	ATTEMPT_INSTANCE,
	ATTEMPT_OUTCOME,
	ATTEMPT_MEMBERS
};
struct span shown_attempt(const struct job_shown *s);
void attempt_members(struct span attempt, struct span v[static ATTEMPT_MEMBERS]);

/* {"worker":{"taskRoleStatus":..,"taskStatuses":[..]}}.  -1 and *e (500): too large. */
int show_roles(struct shower *w, struct span attempt, struct err *e);
/* ---- the rest ---- */

struct shower shower_of(struct str *out, const struct job_shown *s, struct arena *a);
enum job_state shown_attempt_state(const struct job_shown *s, const struct outcome *o);
void show_code(struct shower *w, const char *key, const struct outcome *o);
/* `,"appExitTriggerMessage":` and so on; `,"appExitDiagnostics":`, `,"appExitMessages":` */
void show_trigger(struct shower *w, const struct outcome *o);
void show_said(struct shower *w, const struct said *said);
/* `,"waitingReason":` if there is one. */
void show_waiting(struct shower *w);
/* Inflated if it has to be.  -1 and *e (500). */
int attempt_roles(struct span attempt, struct arena *a, struct span *roles, struct err *e);
