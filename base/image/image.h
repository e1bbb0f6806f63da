#pragma once
/*
 * References of container images: [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST], their meaning for a
 * registry, and the registry of a login.  Pure.
 *
 * Thread: any
 */
#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum { IMAGE_MAX = 512 };
/* A job of a command that needs no image, where tasks see the files of the machine, has this one.
 */
#define IMAGE_OF_HOST "host"

/* The parts of an image reference; texts live in the arena. */
struct image {
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

/* Returns true if the message of a failed pull (of containerd, CRI-O, Docker or skopeo) names a
 * cause that no further try mends: the registry has no such image or does not give it to this
 * login, or the reference is invalid.  false if it names a passing cause as well. */
bool image_is_refused(struct span message);

/* The default of Kubernetes: IfNotPresent for a digest or a tag other than latest, else Always. */
const char *image_pull_policy(struct span image);
