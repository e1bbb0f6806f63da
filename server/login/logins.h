#pragma once
/*
 * The tokens of a user of commands, by server: in $XDG_CONFIG_HOME/rest-lit/tokens, else
 * ~/.config/rest-lit/tokens, mode 0600.  They come from a password or from an issuer: the device
 * flow of RFC 8628, with the addresses of OpenID Connect Discovery.  An issuer's token is renewed
 * before it expires, by one command at a time, since a refresh token may be used once only.
 *
 *	struct span token;
 *	if (login_token("https://rest-lit.example.com", &arena, &token, &e) < 0)
 *		return print_error_notes(&e, NULL, EXIT_USAGE);
 *	use(token);  // "": nobody has logged in at this server
 *
 * Calls block, for at most a minute per request.  The caller wipes arenas.
 *
 * Thread: main
 */
#include "base/arena.h"
#include "base/err.h"

/* Texts are "" if there are none. */
struct login_entry {
	struct span token;
	int64_t end_s; /* the token expires then, seconds since 1970; 0: unknown, or never */
	struct span refresh, endpoint, client; /* of an issuer: how it is renewed */
};

/* The token for this server, renewed if need be.  -1 and *e: 400, the file cannot be read, or the
 * issuer refuses to renew it, so the user has to log in again; 503. */
int login_token(const char *server, struct arena *a, struct span *token, struct err *e);
/* Stores what a login has given, or forgets it (NULL).  -1 and *e: 400. */
int login_store(const char *server, const struct login_entry *entry, struct err *e);

/* ---- device.c ---- */

struct device_login {
	const char *issuer, *client;
	/* Tells the user to open an address and enter a code. */
	void (*show)(const char *url, const char *code);
};

/* Until the user has agreed, or the code has expired.  -1 and *e: 400, with the
 * issuer's reason; 503: it does not answer. */
int device_run(const struct device_login *d, struct arena *a, struct login_entry *out,
               struct err *e);
/* A new token for entry->refresh.  -1 and *e: 400, it is refused; 503. */
int device_renew(struct login_entry *entry, struct arena *a, struct err *e);
