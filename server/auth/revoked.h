#pragma once
/*
 * Tokens that were revoked here, told to all loops of this process: each believes for itself, and
 * must not go on believing what another one knows to be over.  The last REVOKED_KEPT are kept; a
 * loop that has missed more forgets all that it believes.  Any thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "server/auth/stored.h"
#include "server/auth/token.h"

struct revoked;

enum { REVOKED_KEPT = 256 };

struct revoked *revoked_new(void);
void revoked_free(struct revoked *r); /* NULL is nothing */
/* Copied; the id of a token (token.h). */
void revoked_tell(struct revoked *r, const char *id);
/* How many were told so far. */
uint64_t revoked_count(struct revoked *r);
/* Was this one told since there were `count`?  Also true if there were more since than are kept. */
bool revoked_since(struct revoked *r, uint64_t count, const char *id);
/*
 * Call forget(arg, id) for each that was told since *seen, which begins at 0 and moves on; id is
 * NULL if there were more than are kept: forget all.  Costs one atomic read if there is nothing
 * new.
 */
void revoked_hear(struct revoked *r, uint64_t *seen, void (*forget)(void *arg, const char *id),
                  void *arg);

/*
 * Revoke a token, which token_read has found good, on behalf of a request: it is taken out of its
 * user's Secret, or put on the deny list.  This loop forgets it at once; other loops and servers
 * within --token-cache seconds.  *e as stored.h has it, or 400 NotImplementedError: it cannot be
 * revoked here; then it is called at once.  Text and token live as long as the request.
 */
void token_revoke(struct request *r, struct span text, const struct token *t,
                  stored_callback *done);
