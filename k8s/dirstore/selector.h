#pragma once
/* Which objects a LIST asks a directory for: the label selector of its query.  Pure; private to
 * k8s/. */
#include <jansson.h>

#include "base/str.h"

enum { SELECTOR_TERMS = 8, SELECTOR_TEXT = 1024 };

/* One condition on the labels of an object; both texts in the selector's own memory. */
struct selector_term {
	const char *key;
	const char *value; /* NULL: any */
};

struct selector {
	struct selector_term term[SELECTOR_TERMS];
	size_t n;
	char text[SELECTOR_TEXT];
};

/*
 * From a query as it stands in a URL (NULL: all objects).  labelSelector is read, as KEY=VALUE and
 * KEY, joined by commas; limit, continue and resourceVersion are passed over, since a directory
 * always answers with all there is.  -1: anything else, which would answer with too much.
 */
int selector_read(struct selector *s, const char *query);
bool selector_fits(const struct selector *s, const json_t *labels);
