#pragma once
/*
 * What one loop believes of tokens, and until when: by the SHA-256 of their text, so that no token
 * is kept.  Bounded: the oldest gives way.  One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "server/accounts/account.h"

enum { BELIEFS_MAX = 4096, BELIEF_KEY = 32, BELIEF_ID = 65 };

struct belief {
	unsigned char key[BELIEF_KEY]; /* SHA-256 of the token's text */
	int64_t until_ms;              /* by clock_ms */
	const char *refused;           /* why it is not good, static text; NULL if it is */
	char user[ACCOUNT_NAME];
	char id[BELIEF_ID]; /* what it is revoked by */
	bool application;
	bool reviewed;        /* of a service account, which is never an admin */
	int64_t iat_s, exp_s; /* -1: not said */
};

struct beliefs;

struct beliefs *beliefs_new(size_t max);
void beliefs_free(struct beliefs *all);

/* What is believed at this time (two clocks: clock_ms, and seconds since 1970, for exp), or
 * NULL.  Borrowed until the next call. */
const struct belief *beliefs_find(struct beliefs *all, const unsigned char key[static BELIEF_KEY],
                                  int64_t now_ms, int64_t now_s);
/* Copied; replaces what was believed of this token. */
void beliefs_add(struct beliefs *all, const struct belief *b);
/* Of all tokens with this id. */
void beliefs_forget(struct beliefs *all, const char *id);
void beliefs_forget_all(struct beliefs *all);
size_t beliefs_count(const struct beliefs *all);
