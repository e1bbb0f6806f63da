#pragma once
/* The stages of one translation, each from the text on, so that differences are the split. */
#include "tests/lib/setting.h"

enum stage {
	STAGE_EVENTS, /* libyaml alone: the floor */
	STAGE_READ,   /* + the tree with positions */
	STAGE_SCHEMA, /* + the schema */
	STAGE_RENDER, /* + the job: checks, placeholders filled in, secrets redacted */
	STAGE_WRITE,  /* + the objects: all of it */
	STAGE_MAX
};

extern const char *const STAGE_NAMES[STAGE_MAX];

/* What one run gave, for the table. */
struct stage_result {
	size_t arena; /* bytes handed out */
	size_t out;   /* bytes of all objects */
};

/* Run the stage once; ends the program if the job is refused. */
struct stage_result stage_run(enum stage stage, const struct setting *s, struct span text);
