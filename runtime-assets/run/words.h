#pragma once
/*
 * A script that needs no shell: for images that have none.  Understood is one simple command of
 * plain, 'single' and "double" quoted words without anything that a shell would have to do.
 */
#include "base/arena.h"
#include "base/str.h"

enum words {
	WORDS_NONE,   /* nothing to do: only the header that init writes, comments, blank lines */
	WORDS_SIMPLE, /* one command: its words can be given to execvp */
	WORDS_SHELL   /* anything else */
};

/* Read a script as init writes it.  With WORDS_SIMPLE, *argv is the NULL-terminated command, in the
 * arena. */
enum words words_read(struct span script, struct arena *a, char ***argv);
