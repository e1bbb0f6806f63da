#pragma once
/*
 * Objects in a directory, with the manners of an API server: the same answers
 * to create, get, patch and delete, uid and resourceVersion, and the garbage
 * collector's care for what an owner leaves behind.  Private to k8s/.  One thread at
 * a time; blocks.
 */
#include "k8s/transport/store.h"

struct dirstore;

/* What became of one request.  Owns its texts; answer_done frees and wipes them. */
struct answer {
	enum store_outcome outcome;
	int status;
	struct str body;
	char uid[40], resource_version[24];
	char *message; /* NULL if all went well */
};

/* NULL and *e (500).  Dependents whose owner is gone are removed. */
struct dirstore *dirstore_open(const char *dir, struct err *e);
void dirstore_close(struct dirstore *s);
/* See local_follow. */
void dirstore_follow(struct dirstore *s, const struct local_follower *f, void *arg);

void dirstore_do(struct dirstore *s, const char *namespace_name, const struct store_request *r,
                 struct answer *out);
void answer_done(struct answer *a);
