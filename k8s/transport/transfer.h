#pragma once
/* One request on its way to the API server, by a libcurl handle.  Private to k8s/. */
#include <curl/curl.h>

#include "k8s/transport/login.h"
#include "k8s/transport/store.h"

struct transfer {
	struct transfer *next; /* for whoever keeps it */
	void *item;            /* likewise: what it is busy with, NULL if nothing */
	CURL *easy;
	struct str answer; /* the body of the answer; may hold secrets */
	/* The rest is its own. */
	struct span piece[3];     /* of the body */
	size_t now_piece, now_at; /* handed over up to here */
	bool whole;               /* the last byte was handed over */
	struct str precondition;  /* the body of a DELETE */
	struct curl_slist *headers;
	char error[CURL_ERROR_SIZE];
};

/* What all requests of one store have in common. */
struct transfer_common {
	const char *url, *namespace_name;
	struct span authorization; /* the header line, or empty */
	size_t answer_max;
	bool whole_objects; /* this API server does not send metadata alone */
};

/* 0, or -1 and *e (500). */
int transfer_init(struct transfer *t, const struct login *l, struct err *e);
void transfer_done(struct transfer *t);

/* Make the handle ready for a request, whose body is borrowed until transfer_clear.  -1 if
 * its name, namespace or query is none. */
int transfer_prepare(struct transfer *t, const struct store_request *r,
                     const struct transfer_common *c);
/* Forget the request and its answer, wiping them; the connection stays. */
void transfer_clear(struct transfer *t);

/* May it have been executed?  True once the last byte was handed over. */
bool transfer_handed_over(const struct transfer *t);
