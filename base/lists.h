#pragma once
/*
 * Files of lists of texts, which are commands and variables of processes.  A file has documents, a
 * document lists: its number of bytes, then of each list the number of texts and the texts.  All of
 * these, numbers too, end with NUL.
 *
 * Thread: any
 */
#include <sys/types.h>

#include "base/arena.h"

enum { LISTS_MAX = 16 << 20 /* bytes of a document */ };

/* The number of texts; 0 for NULL. */
size_t lists_count(const char *const *list);

/* Appends a document of n NULL-terminated lists; NULL: an empty one. */
void lists_put(struct str *out, const char *const *const *lists, size_t n);

/* Reads the document of n lists at *at, and moves it behind it.  The lists, NULL-terminated, and
 * their texts are in the arena.  -1 and errno; EBADMSG: it is no such document. */
int lists_read(int fd, off_t *at, char ***lists, size_t n, struct arena *a);
