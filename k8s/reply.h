#pragma once
/*
 * Reading what an API server answers.  Objects from there are input like any other:
 * every member is optional and of any type.  Pure; private to k8s/.
 */
#include <jansson.h>

#include "base/str.h"

#define JSON_AUTO __attribute__((cleanup(json_auto_done))) json_t
static inline void json_auto_done(json_t **j)
{
	json_decref(*j);
}

/* One JSON object, nested at most 64 deep, without duplicate keys; else NULL.  New reference. */
json_t *reply_parse(struct span body);

/* A text member, "" if it is absent or no text.  Borrowed. */
const char *reply_text(const json_t *object, const char *key);

/* The object carries this submission id, as an annotation or as a label. */
bool reply_is_ours(struct span body, const char *submission_id);
