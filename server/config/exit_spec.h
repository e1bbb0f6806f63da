#pragma once
/*
 * The meaning of exit codes: the built-in runtime-assets/k8s-job-exit-spec.yaml, or the file of
 * --exit-spec.  Immutable after start.
 *
 * Thread: any
 */
#include "base/err.h"

struct exit_spec;
struct exit_entry;

/* How the end of a task relates to the failures of others. */
enum end_kind {
	END_ORIGIN,   /* failed by itself */
	END_KILLED,   /* by a signal: by itself, unless another task had ended before */
	END_FOLLOWED, /* because another task failed */
	END_STOPPED,  /* by the controller, because the attempt was over */
	END_UNCLEAR,  /* the code says little */
};

/* The meaning of codes, or of a text at the end of the output, of a task that ended. */
struct exit_word {
	int64_t code, to; /* of the task, from .. to; 0: any that is END_UNCLEAR */
	const char *text; /* "": whatever the task said */
	const char *why;  /* NULL: END_ORIGIN, END_UNCLEAR */
	enum end_kind kind;
};

/* path "": the built-in specification.  NULL and *e: 400 with the place in the file; 500 if it
 * cannot be read.  Thread: main. */
struct exit_spec *exit_spec_new(const char *path, struct err *e);
/* Thread: main. */
void exit_spec_free(struct exit_spec *s);
/* The words, then the ends, in the order of the specification (of the built-in one if it has none).
 */
const struct exit_word *exit_spec_words(const struct exit_spec *s, size_t *n);
/* The entry of a code, or NULL. */
const struct exit_entry *exit_spec_find(const struct exit_spec *s, int64_t code);
/* Appends the entry of a code as JSON; for an unknown code the entry of 256 (above 0) or -8000,
 * with this code.  final: there are no further attempts, so the solutions do not say to wait for
 * one. */
void exit_spec_json(struct str *out, const struct exit_spec *s, int64_t code, bool final);
