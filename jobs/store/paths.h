#pragma once
/*
 * The API paths of all kinds of objects.
 *
 *	STR_AUTO url = STR_INIT(2048);
 *	if (path_write(&url, KIND_SECRET, namespace_name, name) < 0)
 *		return err_set(e, INVALID_PARAMETERS, "the name is not one of Kubernetes");
 *	str_puts(&url, "?fieldManager=");
 *	query_encode(&url, SPAN("rest-lit"));
 *
 * Paths are appended; the str bounds them.  Pure.
 *
 * Thread: any
 */
#include <stdbool.h>

#include "base/object.h"
#include "base/str.h"

/* Objects, and lists, of which the API server sends the metadata alone. */
#define METADATA_TYPE      "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
#define METADATA_LIST_TYPE "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

/* Kueue serves this version since 0.15. */
#define KUEUE_GROUP   "kueue.x-k8s.io"
#define KUEUE_VERSION "v1beta2"

struct resource {
	const char *kind;   /* "Framework" */
	const char *group;  /* "frameworkcontroller.microsoft.com", "" for the core group */
	const char *plural; /* "frameworks" */
	bool namespaced;
	const char *version; /* of the group; NULL: v1 */
};

const struct resource *resource_of(enum object_kind kind);

/* Appends "frameworks.frameworkcontroller.microsoft.com", the name that `kubectl auth can-i`
 * uses. */
void resource_name(struct str *out, enum object_kind kind);

/* A Kubernetes name that is safe as path segment and file name: [a-z0-9] first and last, [a-z0-9.-]
 * between, no "..", at most 253 bytes. */
bool segment_ok(const char *name);

/* Appends the path of an object, or of its collection if name is NULL; namespace_name NULL: that
 * of all namespaces, of a collection only.  -1, and nothing is appended, if namespace_name or name
 * is not segment_ok. */
int path_write(struct str *out, enum object_kind kind, const char *namespace_name,
               const char *name);

/* Appends a value of a query or a segment of a path, percent-encoded. */
void query_encode(struct str *out, struct span text);
