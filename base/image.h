#pragma once
/*
 * Names of container images, and the dialogue with a registry that tells whether one exists.
 * Pure: who asks sends what `struct image_ask` says and tells the answer; the runtime does so by
 * its own HTTP client, the server by libcurl.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* An image name in its parts; texts live in the arena. */
struct image {
	const char *host;       /* HOST[:PORT] of the registry's API: registry-1.docker.io for the Hub */
	const char *repository; /* with library/ where the Hub has it so */
	const char *reference;  /* digest, else tag, else "latest" */
	bool hub;
};

/* NULL, or what is wrong with the name ("is empty; ..."), static text. */
const char *image_problem(struct span name);
/* 0, or -1 if image_problem() says something. */
int image_parse(struct span name, struct arena *a, struct image *out);

/* Who logs in where.  Texts are borrowed, "" or NULL if not given; not kept. */
struct image_login {
	struct span user, password, registry; /* registry: as in `auth.registryuri` */
};
