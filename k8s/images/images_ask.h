#pragma once
/* One image: its dialogue with the registry, by a libcurl handle.  Private to k8s/images/images.c.
 */
#include <curl/curl.h>

#include "base/image/registry.h"
#include "k8s/images/allow.h"
#include "k8s/images/images.h"

struct batch;

/* What all have in common. */
struct check_common {
	struct allow allow;
	const char *ca_file; /* "": the machine's own */
	CURLM *multi;
	size_t active; /* requests under way */
};

enum check_state { CHECK_WAITING, CHECK_ASKING, CHECK_DONE };

struct check {
	struct batch *batch; /* for whoever keeps it */
	struct images_finding *finding;
	enum check_state state;
	struct image image;
	bool strangers; /* without a login: what is found holds for everybody */
	struct registry_dialogue dialogue;
	int64_t start_ms;    /* when to send, while waiting */
	int64_t deadline_ms; /* of all of it */
	/* The rest is its own. */
	struct check_common *common;
	struct registry_ask ask;
	const struct allow_entry *entry;
	bool address_refused;
	CURL *easy;
	struct curl_slist *headers;
	struct str reply_headers, body;
	char error[CURL_ERROR_SIZE];
};

/* Make it; the arena must be wiped.  CHECK_DONE if its registry is not in the list. */
void check_init(struct check *c, struct check_common *common, const struct images_subject *s,
                struct arena *a);
/* Look what is the next request, or that there is none. */
void check_next(struct check *c);
/* Send it. */
void check_send(struct check *c);
/* The transfer has ended: what comes next? */
void check_answered(struct check *c, CURLcode result);
/* No more requests: the reason goes on "whether .. exists is not known: ". */
void check_give_up(struct check *c, const char *why);
/* Free the handle. */
void check_free(struct check *c);
