#pragma once
/*
 * Asks a registry (Docker Registry HTTP API V2) whether an image exists.  A pure state machine: the
 * caller sends each request (https only, with the certificate checked) and passes the reply back.
 *
 *	registry_begin(&d, &image, &login, random, arena);
 *	while (registry_next(&d, &ask)) {
 *		sleep(ask.wait_ms);
 *		send it, then registry_reply(&d, &reply, left_ms) or registry_trouble(&d, why);
 *	}
 *	d.verdict, d.sentence
 *
 *	1  HEAD /v2/                         below 400, or 401: it is a registry
 *	2  HEAD /v2/NAME/manifests/REF       without a login; below 300: found
 *	3  GET realm?service=..&scope=..     if 2 was answered with 401 and a Bearer challenge
 *	4  HEAD /v2/NAME/manifests/REF       with that token, or with Basic
 *
 * The verdict is MISSING only for 404 or 401 to the last request of 2 and 4, and 401 to 3; it is
 * UNSURE for all other failures.  Requests are repeated after 429 and 5xx, three times in all.
 *
 * The login is sent to its registry, and over https to the token service that the registry's
 * challenge names (auth.docker.io for the Hub), as container runtimes do.  It is never sent to
 * another host after a redirect.  A caller that restricts hosts checks ask.authority before it
 * sends.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/image/image.h"
#include "base/str.h"

enum {
	REGISTRY_ASKS_MAX = 16,          /* requests of one dialogue, usually 4 */
	REGISTRY_HEADERS_MAX = 16 << 10, /* bytes of the headers of a reply */
	REGISTRY_BODY_MAX = 64 << 10     /* of the reply of the token service */
};

/* An https address. */
struct registry_place {
	const char *authority; /* HOST[:PORT], for the header Host and lists of hosts */
	const char *host;      /* to connect to; IPv6 without brackets */
	uint16_t port;
	const char *target; /* path and query */
};

/* Splits a HOST[:PORT] that image_host_ok() accepts; the parts live in the arena. */
struct registry_place registry_place_at(struct span authority, const char *target, struct arena *a);

/* Parses https://HOST[:PORT][/PATH][?QUERY] without user and fragment.  -1 for anything else. */
int registry_place_read(struct span url, struct arena *a, struct registry_place *out);

/* Valid in the request line: printable ASCII, no fragment. */
bool registry_target_ok(struct span target);

struct registry_ask {
	const char *method; /* HEAD or GET */
	struct registry_place to;
	const char *const *headers; /* "Name: value", NULL-terminated; can contain the login */
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
	/* Valid when registry_next() has returned false. */
	enum registry_verdict verdict;
	const char *sentence; /* names image and registry, no secrets; "" if found */
	bool login_ignored;   /* the login is for another registry */
	/* Private. */
	struct arena *a;
	const struct image *image;
	enum registry_stage stage;
	struct registry_place to;
	const char *basic;         /* "Authorization: Basic ...", NULL without a login */
	const char *authorization; /* header of STAGE_LOGIN */
	const char *headers[4];
	unsigned tries, asks, redirects;
	bool elsewhere; /* a redirect has led to another host */
	bool told;      /* a reply to the login chose the host, whose name can contain the login */
	bool last_resort; /* STAGE_LOGIN after a 404 without a challenge */
	uint32_t random;
	int64_t wait_ms;
};

/* All texts live in the arena, which the caller wipes if there is a login.  The login can be NULL;
 * it is used if user and password are not empty and image_login_fits().  The image is borrowed.
 * `random` is for jitter. */
void registry_begin(struct registry_dialogue *d, const struct image *image,
                    const struct image_login *login, uint32_t random, struct arena *a);

/* The next request, borrowed until the reply; false: there is a verdict. */
bool registry_next(struct registry_dialogue *d, struct registry_ask *ask);

/* The reply.  left_ms: the remaining time; no longer wait is begun. */
void registry_reply(struct registry_dialogue *d, const struct registry_reply *r, int64_t left_ms);

/* The host of the next request for messages; without its name if that can contain the login. */
const char *registry_host(const struct registry_dialogue *d);

/* There is no reply, or the host is not allowed: UNSURE.  `why` continues a sentence. */
void registry_trouble(struct registry_dialogue *d, const char *why);

/*
 * The challenges of a 401 reply (WWW-Authenticate, RFC 7235): the schemes, and the parameters of
 * the first Bearer challenge, decoded, in the arena, "" if absent.
 */
struct challenges {
	bool basic, bearer, other;
	struct span realm, service, scope;
};

/* Reads all WWW-Authenticate headers among the lines, each ended by CR LF.  The rest of a malformed
 * header is ignored; values with control characters count as absent. */
void challenges_read(struct span headers, struct arena *a, struct challenges *out);

/* The trimmed value of the nth header of this name (any case); p is NULL if there is none. */
struct span header_value(struct span headers, const char *name, unsigned nth);
