#pragma once
/*
 * The dialogue with a registry (Docker Registry HTTP API V2) that tells whether an image exists.
 * A state machine and pure: who asks sends what `struct registry_ask` says, over https with the
 * certificate checked, and tells the answer.
 *
 *	registry_begin(&d, &image, &login, random, arena);
 *	while (registry_next(&d, &ask)) {
 *		sleep(ask.wait_ms);
 *		send it, then registry_reply(&d, &reply, left_ms) or registry_trouble(&d, why);
 *	}
 *	d.verdict, d.sentence
 *
 *	1  HEAD /v2/                         below 400 or 401: there is a registry
 *	2  HEAD /v2/NAME/manifests/REF       without a login; below 300: found
 *	3  GET realm?service=..&scope=..     if 2 was answered 401 with a Bearer challenge
 *	4  HEAD /v2/NAME/manifests/REF       with that token, or with Basic
 *
 * MISSING is said only of what is sure: 404 or 401 of the last request of 2 and 4, 401 of 3.
 * Everything else that is not FOUND is UNSURE.  429 and 5xx are asked again, three times in all.
 *
 * Where a login goes: to the registry that it names, and to the token service which that registry
 * names in its challenge: over https only, whatever host that is (the Hub's is
 * auth.docker.io), for the registry has shown by its certificate that it is the one the
 * login is for, and container runtimes do the same.  Never to where a redirect leads on another
 * host.  Who must not ask just any host looks at ask.authority before sending.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/image/image.h"
#include "base/str.h"

enum {
	REGISTRY_ASKS_MAX = 16,          /* requests of one dialogue; it usually takes 4 */
	REGISTRY_HEADERS_MAX = 16 << 10, /* bytes of the reply's headers worth reading */
	REGISTRY_BODY_MAX = 64 << 10     /* of the token service's answer */
};

/* Addresses of registries and of what they refer to: https only. */
struct registry_place {
	const char *authority; /* HOST[:PORT], for the header Host and for lists of hosts */
	const char *host;      /* to connect to; IPv6 without brackets */
	uint16_t port;
	const char *target; /* path and query */
};

/* HOST[:PORT] that image_host_ok() likes, in its parts; they live in the arena. */
struct registry_place registry_place_at(struct span authority, const char *target, struct arena *a);

/* Read https://HOST[:PORT][/PATH][?QUERY], without a user or a fragment.  -1 if it is anything
 * else. */
int registry_place_read(struct span url, struct arena *a, struct registry_place *out);

/* Printable ASCII that may stand in the first line of a request; no fragment. */
bool registry_target_ok(struct span target);

struct registry_ask {
	const char *method; /* HEAD or GET */
	struct registry_place to;
	const char *const *headers; /* "Name: value", NULL-terminated; may hold the login */
	int64_t wait_ms;            /* before sending */
};

struct registry_reply {
	int status;
	struct span headers; /* raw lines */
	struct span body;    /* of a GET */
};

enum registry_verdict { REGISTRY_FOUND, REGISTRY_MISSING, REGISTRY_UNSURE };

enum registry_stage { STAGE_PING, STAGE_OPEN, STAGE_TOKEN, STAGE_LOGIN, STAGE_DONE };

struct registry_dialogue {
	/* Once registry_next() has said false. */
	enum registry_verdict verdict;
	const char *sentence; /* for people, naming image and registry; "" if found; no secrets */
	/* The rest is its own. */
	bool login_ignored; /* (may be read:) it is for another registry */
	struct arena *a;
	const struct image *image;
	enum registry_stage stage;
	struct registry_place to;
	const char *basic;         /* "Authorization: Basic ...", NULL without a login */
	const char *authorization; /* the header of STAGE_LOGIN */
	const char *headers[4];
	unsigned tries, asks, redirects;
	bool elsewhere; /* a redirect led to another host */
	bool told; /* ... or a challenge did, and the login had been sent: it may be in its name */
	bool last_resort; /* STAGE_LOGIN after a 404 without login, not after a challenge */
	uint32_t random;
	int64_t wait_ms;
};

/* All texts live in the arena, which must be wiped if there is a login.  The login may be NULL and
 * is used if neither user nor password is empty and image_login_fits(); the image is borrowed.
 * `random` is for jitter. */
void registry_begin(struct registry_dialogue *d, const struct image *image,
                    const struct image_login *login, uint32_t random, struct arena *a);

/* The next request, borrowed until the reply is told; false: there is a verdict. */
bool registry_next(struct registry_dialogue *d, struct registry_ask *ask);

/* The answer.  left_ms: how much time there is for all that follows; waiting for longer than
 * that is not begun. */
void registry_reply(struct registry_dialogue *d, const struct registry_reply *r, int64_t left_ms);

/* The host of the next request, for people: not by its name if that could hold the login. */
const char *registry_host(const struct registry_dialogue *d);

/* No answer came, or it may not be asked: UNSURE.  `why` in words that go on: "certificate ...". */
void registry_trouble(struct registry_dialogue *d, const char *why);

/*
 * What a server asks for when it answers 401: WWW-Authenticate (RFC 7235), which may come in
 * several headers with several challenges each, in any case, with quoted strings that hold commas.
 * Pure.
 */
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
