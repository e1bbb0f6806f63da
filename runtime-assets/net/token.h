#pragma once
/*
 * The token of a service account.  What it says of itself is for messages only: nothing of it is
 * verified, and no part of the token itself ever stands in one.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum { TOKEN_MAX = 16384 };

/* Append the token in a file to `out`, which should be a STR_SECRET.  -1 and *e if there is none,
 * if it is longer than TOKEN_MAX, or has a character in it that could end a header line. */
int token_append(const char *file, struct str *out, struct err *e);

struct token_claims {
	const char *account, *namespace_name; /* of the service account; NULL: not said */
	int64_t issued_s, expires_s;          /* Unix time; 0: not said */
};

/* What is in the second part of a JWT; -1 if it is none.  Texts in the arena, with only the
 * characters of Kubernetes' names.  Pure. */
int token_claims(struct span jwt, struct arena *a, struct token_claims *out);

/* What the file and the token in it say: "service account default/runtime-account, expires in
 * 59 min, file written 35 s ago".  now_s is Unix time.  *c may be NULL; it and the text hold
 * what could be found out.  Never fails. */
void token_describe(const char *file, int64_t now_s, struct arena *a, struct token_claims *c,
                    struct str *out);

/* "35 s", "12 min", "3 h", "4 d". */
void duration_text(struct str *out, int64_t seconds);
