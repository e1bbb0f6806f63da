#pragma once
/*
 * Names of container images: [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], what they mean to a
 * registry, and which login is for which registry.  The only grammar of them in this project.
 * Pure.  The dialogue that tells whether an image exists is base/image/registry.h.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum { IMAGE_MAX = 512 };

/* An image name in its parts; texts live in the arena. */
struct image {
	const char *name; /* as it was given */
	const char *host; /* HOST[:PORT] of the registry's API: registry-1.docker.io for the Hub */
	const char *repository; /* with library/ where the Hub has it so */
	const char *reference;  /* digest, else tag, else "latest" */
	bool hub;
};

/* NULL, or what is wrong with the name, fit to follow it: "is empty; ..."; static text. */
const char *image_problem(struct span name);
/* 0, or -1 if image_problem() says something. */
int image_parse(struct span name, struct arena *a, struct image *out);

/* HOST or HOST:PORT: a DNS name (letters of both cases, digits, `-._`), an IPv4 address, or an
 * IPv6 address in brackets. */
bool image_host_ok(struct span host);

/* HOST[:PORT] of a registry as logins name it: `reg.io`, `https://reg.io/v2/`,
 * `http://reg.io:5000`.  Part of the text given; empty if there is none in it. */
struct span image_registry_host(struct span registry);

/* Who logs in where.  Texts are borrowed; not for keeping. */
struct image_login {
	struct span user, password;
	struct span registry; /* as in `auth.registryuri`; empty if not given */
};

/*
 * Is a login for this registry one for the image?  Host and port must be equal, letters of both
 * cases; docker.io, index.docker.io and registry-1.docker.io are one host.  A login that
 * names no registry is for the image's own.
 */
bool image_login_fits(const struct image *i, struct span registry);

/* What a login that names no registry is for, as the key of a pull secret: the Hub's address
 * as Docker writes it, else the image's host.  Lives in the arena, or is static. */
struct span image_default_registry(struct span name, struct arena *a);
