#pragma once
/* What the parts of the shelf share: a request on its way, and how it is answered.  Private to
 * shelf*.c. */
#include <jansson.h>

#include "k8s/dirstore/files.h"
#include "k8s/dirstore/shelf.h"
#include "k8s/dirstore/shelf_index.h"

struct shelf {
	struct files files;
	struct shelf_index *index;
	int64_t resource_version;
	const struct local_follower *follower; /* NULL: nobody */
	void *follower_arg;
};

/* What a step of a request came to; FINE, or the words of the API server for it. */
enum fault {
	FINE,
	BAD_REQUEST,
	NOT_FOUND,
	NOT_KEPT,
	ALREADY_EXISTS,
	CONFLICT,
	INVALID,
	OVERSIZE,
	UNWRITABLE,
	INTERNAL
};

/* A request on its way, and its answer. */
struct work {
	struct shelf *shelf;
	const char *namespace_name;
	const char *key; /* its file */
	const struct store_request *r;
	struct answer *out;
};

static inline void json_own_done(json_t **j)
{
	json_decref(*j);
}
#define JSON_OWN  __attribute__((cleanup(json_own_done))) json_t
#define WIPED_STR __attribute__((cleanup(str_wipe))) struct str

/* "" if there is none; borrowed. */
const char *name_of(const struct store_request *r);
const char *text_of(const json_t *object, const char *key);

void put_json(struct str *out, const json_t *j, size_t flags);
/* Its metadata alone; new reference. */
json_t *metadata_of(const json_t *object);

/* Answer with a Status; returns the fault. */
enum fault refuse(struct work *w, enum fault fault, const char *what);
enum fault refuse_errno(struct work *w, int negative);
/* Answer with an object, or with its metadata. */
void answer_object(struct work *w, const json_t *object, int status);

/* Read an object: 0, or a negative errno.  New reference. */
int shelf_load(struct shelf *s, enum object_kind kind, const char *key, json_t **object);

enum fault shelf_list(struct work *w);

/* Tell who follows that it is so now, or gone. */
void shelf_tell(const struct shelf *s, enum object_kind kind, const char *key, const json_t *object,
                bool gone);
