#pragma once
/*
 * Lists of words, which are the arguments or the variables (NAME=VALUE) of a process.
 *
 * Thread: own
 */
#include "base/arena.h"

struct words {
	struct arena *a;
	const char **v; /* NULL-terminated; NULL while it is empty */
	size_t n, room;
};

/* Borrows the text. */
void words_add(struct words *w, const char *text);
/* Adds all of a NULL-terminated list, which may be NULL. */
void words_add_all(struct words *w, const char *const *list);
/* Adds the texts that are its arguments. */
#define WORDS_ADD(w, ...) words_add_all((w), (const char *const[]){ __VA_ARGS__, NULL })

/* Adds a variable, or puts it in the place of the one with this name. */
void words_set(struct words *w, const char *variable);
void words_set_all(struct words *w, const char *const *list);

/* Replaces $(NAME) as Kubernetes does: by the value of a known variable; $$ is $, and anything else
 * stays. */
const char *words_expand(const struct words *w, const char *text);
