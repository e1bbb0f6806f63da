#pragma once
/*
 * What a store knows of its objects without reading their files: who owns whom, and the labels.
 * Private to k8s/.  One thread at a time.
 */
#include <jansson.h>

#include "base/object.h"
#include "k8s/dirstore/selector.h"

struct dirstore_index;

struct dirstore_index *index_new(void);
void index_free(struct dirstore_index *x);

/* Put in, or again after a change; `key` is the name of its file. */
void index_put(struct dirstore_index *x, enum object_kind kind, const char *key,
               const json_t *meta);
void index_remove(struct dirstore_index *x, const char *uid);

/* Call back for each object of a kind which fits.  The callback changes nothing. */
typedef void index_visit(void *arg, const char *key);
void index_each(const struct dirstore_index *x, enum object_kind kind,
                const struct selector *wanted, index_visit *visit, void *arg);

/* As the garbage collector does: take out what has lost its owner, and what that owned.  `remove`
 * removes the file; if it says false, the object stays till the next time. */
typedef bool index_remover(void *arg, enum object_kind kind, const char *key);
void index_collect(struct dirstore_index *x, index_remover *remove, void *arg);
