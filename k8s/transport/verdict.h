#pragma once
/* What an exchange with the API server came to.  Pure; private to k8s/. */
#include <jansson.h>

#include "k8s/transport/store.h"

/* How one HTTP exchange went. */
struct exchange {
	bool complete;        /* libcurl got a whole answer */
	bool handed_over;     /* the last byte of the request was given away, or it had none */
	bool permanent;       /* it will fail again: a certificate that does not fit, say */
	bool too_large;       /* more than we want to read */
	bool just_connected;  /* the API server may still be loading its rules */
	int status;           /* 0 if there is none */
	const json_t *answer; /* the body as JSON, or NULL */
};

struct verdict {
	enum store_outcome outcome;
	bool again; /* safe to repeat, and worth it */
};

struct verdict verdict_of(const struct store_request *r, const struct exchange *x);
