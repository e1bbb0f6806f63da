#pragma once
/*
 * image/ parses references of container images (this file) and asks registries for images
 * (registry.h).
 *
 * References: [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], their meaning for a registry, and the
 * registry of a login.  Pure.
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum { IMAGE_MAX = 512 };

/* The parts of an image reference; texts live in the arena. */
struct image {
	const char *name; /* as given */
	const char *host; /* HOST[:PORT] of the registry's API: registry-1.docker.io for the Hub */
	const char *repository; /* with library/ for official images of the Hub */
	const char *reference;  /* digest, else tag, else "latest" */
	bool hub;
};

/* NULL, or the problem as a predicate of the name: "is empty; ..."; static text. */
const char *image_problem(struct span name);
/* 0, or -1 if image_problem() is not NULL. */
int image_parse(struct span name, struct arena *a, struct image *out);

/* HOST or HOST:PORT: a DNS name (letters of both cases, digits, `-._`), an IPv4 address, or an
 * IPv6 address in brackets. */
bool image_host_ok(struct span host);

/* HOST[:PORT] of a registry in the notations of logins: `reg.io`, `https://reg.io/v2/`,
 * `http://reg.io:5000`.  Part of the argument; can be empty. */
struct span image_registry_host(struct span registry);

/* A login.  Texts are borrowed. */
struct image_login {
	struct span user, password;
	struct span registry; /* `auth.registryuri`; empty if absent */
};

/*
 * Whether a login for this registry is for the image: host and port are equal, without regard to
 * case; docker.io, index.docker.io and registry-1.docker.io are one host.  A login without a
 * registry is for every image.
 */
bool image_login_fits(const struct image *i, struct span registry);

/* The registry of a login that names none, as the key of a pull secret: the address of the Hub as
 * Docker writes it, else the host of the image.  In the arena, or static. */
struct span image_default_registry(struct span name, struct arena *a);
