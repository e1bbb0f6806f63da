/* How a shelf answers: as an API server does; see shelf_work.h. */
#include "k8s/dirstore/shelf_work.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "k8s/transport/explain.h"
#include "k8s/transport/paths.h"

/* clang-format off */
static const struct {
	const char *reason;
	int status;
	enum store_outcome outcome;
} FAULTS[] = {
	[BAD_REQUEST]    = { "BadRequest",            400, STORE_REFUSED },
	[NOT_FOUND]      = { "NotFound",              404, STORE_NOT_FOUND },
	[NOT_KEPT]       = { "MethodNotAllowed",      405, STORE_REFUSED },
	[ALREADY_EXISTS] = { "AlreadyExists",         409, STORE_EXISTS },
	[CONFLICT]       = { "Conflict",              409, STORE_CONFLICT },
	[INVALID]        = { "Invalid",               422, STORE_REFUSED },
	[OVERSIZE]       = { "RequestEntityTooLarge", 413, STORE_REFUSED },
	[UNWRITABLE]     = { "InsufficientStorage",   507, STORE_REFUSED },
	[INTERNAL]       = { "InternalError",         500, STORE_REFUSED },
};
/* clang-format on */

void answer_done(struct answer *a)
{
	str_wipe(&a->body);
	free(a->message);
	*a = (struct answer){ 0 };
}

void put_json(struct str *out, const json_t *j, size_t flags)
{
	char *text = json_dumps(j, flags);
	assert(text != NULL); /* made from text that was read; memory does not run out */
	size_t n = strlen(text);
	str_put(out, text, n);
	wipe(text, n);
	free(text);
}

const char *name_of(const struct store_request *r)
{
	return r->name ? r->name : "";
}

enum fault refuse(struct work *w, enum fault fault, const char *what)
{
	const struct resource *res = resource_of(w->r->kind);
	struct answer *out = w->out;
	out->status = FAULTS[fault].status;
	out->outcome = FAULTS[fault].outcome;
	free(out->message);
	const char *name = name_of(w->r);
	STR_AUTO action = STR_INIT(1024);
	explain_action(&action, w->r);
	out->message = xasprintf("%s \"%s\": %s", str_c(&action), name, what);
	JSON_OWN *status =
	    json_pack("{s:s, s:s, s:{}, s:s, s:s, s:s, s:{s:s, s:s, s:s}, s:i}", "kind", "Status",
	              "apiVersion", "v1", "metadata", "status", "Failure", "message", out->message,
	              "reason", FAULTS[fault].reason, "details", "name", name, "group", res->group,
	              "kind", res->plural, "code", out->status);
	str_wipe(&out->body);
	out->body = STR_SECRET(FILE_SIZE_MAX);
	put_json(&out->body, status, JSON_COMPACT);
	return fault;
}

enum fault refuse_errno(struct work *w, int negative)
{
	if (negative == -ENOENT)
		return refuse(w, NOT_FOUND, "not found");
	if (negative == -EINVAL || negative == -ENAMETOOLONG)
		return refuse(w, INVALID, "invalid name");
	bool full = negative == -ENOSPC || negative == -EDQUOT || negative == -EROFS;
	return refuse(w, full ? UNWRITABLE : INTERNAL, strerrordesc_np(-negative));
}

const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

json_t *metadata_of(const json_t *object)
{
	return json_pack("{s:s, s:s, s:O}", "kind", "PartialObjectMetadata", "apiVersion",
	                 "meta.k8s.io/v1", "metadata", json_object_get(object, "metadata"));
}

void answer_object(struct work *w, const json_t *object, int status)
{
	const json_t *meta = json_object_get(object, "metadata");
	JSON_OWN *part = w->r->whole ? NULL : metadata_of(object);
	struct answer *out = w->out;
	out->status = status;
	out->outcome = STORE_OK;
	(void)snprintf(out->uid, sizeof(out->uid), "%s", text_of(meta, "uid"));
	(void)snprintf(out->resource_version, sizeof(out->resource_version), "%s",
	               text_of(meta, "resourceVersion"));
	put_json(&out->body, part ? part : object, JSON_COMPACT);
}
