#pragma once
/* Tokens that shall not be good any more. */
#include "server/auth/stored.h"
#include "server/auth/token.h"

/*
 * Revoke a token, which token_read has found good, on behalf of a request: it is taken out of its
 * user's Secret, or put on the deny list.  This loop forgets it at once; other loops and servers
 * within --token-cache seconds.  *e as stored.h has it, or 400 NotImplementedError: it cannot be
 * revoked here; then it is called at once.  Text and token live as long as the request.
 */
void revoke(struct request *r, struct span text, const struct token *t, stored_callback *done);
