/* The ConfigMap of an archive: reading, finding, listing; and its parts. */
#include "jobs/code/keep_internal.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/time.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"

enum { QUERY_MAX = 3 * CONTINUE_MAX + 1024, PAGE = 500, PAGES_MAX = 100 };

enum store_outcome code_ask(struct code_store *s, struct store_request r, struct arena *a,
                            struct store_reply *reply)
{
	r.kind = r.kind ?: KIND_CONFIGMAP;
	r.deadline_ms = s->deadline_ms;
	return store_call(s->caller, &r, a, reply);
}

int code_fail(struct store_request r, const struct store_reply *reply, struct err *e)
{
	r.kind = KIND_CONFIGMAP;
	if (reply->outcome == STORE_REFUSED)
		explain_refusal(e, &r, reply);
	else
		(void)err_set(e, UNAVAILABLE,
		              "the API server has not stored or found the code in time; try again");
	return -1;
}

bool code_archive_read(struct span object, struct arena *a, struct code_archive *out)
{
	struct span meta = scan_get(object, "metadata");
	struct span notes = scan_get(meta, "annotations");
	struct span facts = scan_text(scan_get(notes, "rest-lit/archive"), a);
	const struct {
		const char *key;
		int64_t *to, max;
	} numbers[] = {
		{ "bytes", &out->bytes, CODE_MACHINE },
		{ "unpackedBytes", &out->unpacked, CODE_MACHINE },
		{ "entries", &out->entries, CODE_ENTRIES },
		{ "parts", &out->parts, CODE_MACHINE / CODE_PART + 1 },
	};
	*out = (struct code_archive){
		.name = arena_dup(a, scan_text(scan_get(meta, "name"), a)),
		.uid = arena_dup(a, scan_text(scan_get(meta, "uid"), a)),
		.version = arena_dup(a, scan_text(scan_get(meta, "resourceVersion"), a)),
		.complete = scan_text(scan_get(notes, "rest-lit/complete"), a).n > 0,
	};
	if (!scan_valid(facts, SCAN_DEPTH_MAX))
		return false;
	out->user = arena_dup(a, scan_text(scan_get(facts, "user"), a));
	out->sha256 = scan_text(scan_get(facts, "sha256"), a);
	out->digest = scan_text(scan_get(facts, "packedSha256"), a);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!scan_int(scan_get(facts, numbers[i].key), 0, numbers[i].max, numbers[i].to))
			return false;
	char name[CODE_OBJECT + 1];
	code_object_name(name, out->user, out->sha256);
	return strcmp(name, out->name) == 0 &&
	       scan_time_ms(scan_get(notes, "rest-lit/last-use"), &out->used_ms);
}

const char *code_renewal(const char *uid, struct arena *a)
{
	char now[RFC3339_MAX];
	(void)rfc3339_put(now, clock_wall_ms(), 3);
	return uid ? arena_printf(a,
	                          "{\"metadata\":{\"uid\":\"%s\",\"annotations\":{"
	                          "\"rest-lit/last-use\":\"%s\",\"rest-lit/complete\":\"true\"}}}",
	                          uid, now)
	           : arena_printf(
			 a, "{\"metadata\":{\"annotations\":{\"rest-lit/last-use\":\"%s\"}}}", now);
}

bool code_archive_usable(const struct code_archive *c, const char *directory)
{
	FREE_AUTO char *file = xasprintf("%s/%s/part", directory ?: "", c->name);
	return c->complete && (!directory || faccessat(AT_FDCWD, file, R_OK, 0) == 0);
}

int code_look(struct code_store *s, const char *name, struct arena *a, struct code_archive *out,
              struct err *e)
{
	struct store_reply reply;
	struct store_request r = { .verb = STORE_GET, .name = name };
	enum store_outcome outcome = code_ask(s, r, a, &reply);
	if (outcome == STORE_NOT_FOUND)
		return 0;
	if (outcome != STORE_OK)
		return code_fail(r, &reply, e);
	return code_archive_read(reply.body, a, out)
	           ? 1
	           : err_set(e, UNKNOWN_ERROR,
	                     "the ConfigMap %s is not one of this server: an administrator must "
	                     "remove it",
	                     name);
}

/* Sends a change.  1; 0: the object is gone or has changed; -1 and *e. */
static int code_change(struct code_store *s, struct store_request r, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct store_reply reply;
	enum store_outcome outcome = code_ask(s, r, &a, &reply);
	if (outcome == STORE_NOT_FOUND || outcome == STORE_CONFLICT || reply.status == 422)
		return 0;
	return outcome == STORE_OK ? 1 : code_fail(r, &reply, e);
}

int code_complete(struct code_store *s, const struct code_archive *c, struct err *e)
{
	ARENA_AUTO a = { 0 };
	struct span patch = span_of(code_renewal(c->uid, &a));
	struct store_request r = { .verb = STORE_PATCH, .name = c->name, .body = { patch } };
	return code_change(s, r, e);
}

int code_delete(struct code_store *s, const char *name, const char *uid, const char *version,
                struct err *e)
{
	struct store_request r = {
		.verb = STORE_DELETE, .name = name, .uid = uid, .resource_version = version
	};
	return code_change(s, r, e);
}

int code_find(struct code_store *s, const char *name, bool renew, struct code_archive *out,
              struct err *e)
{
	int there = code_look(s, name, s->arena, out, e);
	if (there > 0)
		there = code_archive_usable(out, s->directory);
	if (there > 0 && renew)
		there = code_complete(s, out, e);
	return there < 0 ? -1
	       : there   ? 0
	                 : err_set(e, NO_CODE, "this code is not kept here; upload it first");
}

/* ---- all archives -------------------------------------------------------------------- */

int code_list(struct code_store *s, code_each *each, void *arg, struct err *e)
{
	STR_AUTO token = STR_INIT(CONTINUE_MAX);
	for (size_t pages = 0; pages < PAGES_MAX && (pages == 0 || token.n); pages++) {
		ARENA_AUTO a = { 0 };
		STR_AUTO selector = STR_INIT(QUERY_MAX);
		STR_AUTO query = STR_INIT(QUERY_MAX);
		struct store_reply reply;
		struct code_archive one;
		str_printf(&selector, "rest-lit/instance=%s,rest-lit/keeps=code", s->instance);
		str_printf(&query, "limit=%d&continue=", PAGE);
		query_encode(&query, str_view(&token));
		str_puts(&query, "&labelSelector=");
		query_encode(&query, str_view(&selector));
		/* The database has no selectors: what is no archive is skipped. */
		struct store_request r = { .verb = STORE_LIST,
			                   .query = s->directory ? NULL : str_c(&query) };
		if (code_ask(s, r, &a, &reply) != STORE_OK)
			return code_fail(r, &reply, e);
		token.n = 0;
		struct span items = reply_items(reply.body, &token);
		if (!items.p)
			return err_set(e, UNKNOWN_ERROR,
			               "the answer of the API server is not a list");
		struct scan walk = scan_begin(items);
		for (struct span item; scan_item(&walk, &item);)
			if (code_archive_read(item, &a, &one))
				each(arg, &one);
	}
	return 0;
}

/* ---- parts --------------------------------------------------------------------------- */

int code_part(struct code_store *s, const struct code_archive *c, int64_t i, struct span *bytes,
              struct err *e)
{
	struct arena *a = s->arena;
	struct store_reply reply;
	struct store_request r = { .verb = STORE_GET,
		                   .name = arena_printf(a, "%s-%lld", c->name, (long long)i),
		                   .whole = true };
	enum store_outcome outcome = code_ask(s, r, a, &reply);
	if (outcome != STORE_OK && outcome != STORE_NOT_FOUND)
		return code_fail(r, &reply, e);
	struct span text = scan_text(scan_path(reply.body, "binaryData", "part"), a);
	if (outcome == STORE_NOT_FOUND || base64_decode(a, text, bytes) < 0)
		return err_set(e, NO_CODE, "a part of this code is missing");
	return 0;
}
