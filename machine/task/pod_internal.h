#pragma once
/* Reading a pod: pod.c has the containers, pod_volumes.c the volumes and mounts. */
#include <jansson.h>

#include "machine/task/pod.h"

struct pod_reader {
	const struct pod_settings *s;
	const json_t *root;
	struct pod *pod;
	struct arena *a;
	struct err *e;
	char quoted[4 * QUOTE_MAX];
};

/* "this pod cannot run on one machine: ...".  Returns -1. */
int pod_refuse(struct pod_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The text as an error may show it; valid until the next call. */
const char *pod_shown(struct pod_reader *r, const char *text);

/* A copy of a text member; "" if it is absent. */
char *pod_text(struct pod_reader *r, const json_t *object, const char *key);

/* The object that has a member `key` with its name. */
int pod_source_read(struct pod_reader *r, const json_t *object, const char *key, bool secret,
                    const char *needs, struct pod_source *s);

/* A path in its normal form, without `.`, `..` and empty parts. */
int pod_path(struct pod_reader *r, const char *text, bool absolute, const char **out);

int pod_volumes_read(struct pod_reader *r, const json_t *spec);
int pod_mounts_read(struct pod_reader *r, const json_t *object, struct pod_container *c);
