#pragma once
/*
 * What people want to know of a certificate; for messages.  Nothing here decides whether one is
 * to be trusted: that is BearSSL's.
 */
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct certificate {
	const char *name;    /* the subject's common name, else its organisation; "" if none */
	int64_t not_after_s; /* Unix time */
	unsigned n;          /* how many certificates the text has */
};

/* The first certificate of a PEM text; `name` lives in the arena, printable ASCII.  -1 if there
 * is none that can be read.  Pure. */
int certificate_read(struct span pem, struct arena *a, struct certificate *out);
