#pragma once
/*
 * What a server asks for when it answers 401: WWW-Authenticate (RFC 7235), which may come in
 * several headers with several challenges each, in any case, with quoted strings that hold commas.
 * Pure.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Which schemes were offered, and the parameters of the first Bearer; these live in the arena,
 * without quotes and escapes, and are "" if not given. */
struct challenges {
	bool basic, bearer, other;
	struct span realm, service, scope;
};

/* Reads all WWW-Authenticate headers among the lines (each ended by CR LF).  The rest of a
 * header behind what is malformed is passed over; texts with control characters count as not given.
 */
void challenges_read(struct span headers, struct arena *a, struct challenges *out);

/* The value of the nth header of this name (any case), without white space around it; p is NULL
 * if there is none. */
struct span header_value(struct span headers, const char *name, unsigned nth);
