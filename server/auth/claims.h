#pragma once
/*
 * The inside of a token (JWS, compact), read strictly and before anything of it is believed.
 * libjwt takes duplicate members, numbers that are none, lists instead of objects, and headers
 * that say what must be understood: none of that comes past here.
 */
#include <jansson.h>

#include "base/arena.h"
#include "base/str.h"

struct claims {
	struct arena *arena;
	const char *text;         /* the whole token, NUL-terminated; in the arena */
	struct span signed_part;  /* header and payload, as signed */
	json_t *header, *payload; /* objects without duplicate members; claims_done frees them */
	const char *alg, *kid, *issuer; /* borrowed; kid and issuer are NULL if not there */
	int64_t iat_s, exp_s, nbf_s;    /* -1: not there */
};
#define CLAIMS_AUTO __attribute__((cleanup(claims_done))) struct claims

/* NULL, or what is wrong (static text). */
const char *claims_read(struct span token, struct arena *a, struct claims *out);
void claims_done(struct claims *c);

/* A member that is text, else NULL; borrowed. */
const char *claims_text(const struct claims *c, const char *name);
