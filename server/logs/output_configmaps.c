/*
 * Kept outputs as ConfigMaps: one per output, and the index of a job.  To put one:
 *
 *	CREATE or PATCH of the index -> CREATE of the output, and GET and DELETE of those displaced
 *
 * The index is written first, so that new outputs have room within the limit.  If the server is
 * killed in between, a repeated put finds its line and continues; a displaced output then goes
 * with the job.
 */
#include "server/logs/logs_internal.h"

#include <stdlib.h>

#include "base/enc.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/str.h"
#include "jobs/store/store.h"
#include "server/cluster/history.h"
#include "server/jobs/jobs.h"

enum { LINES_MAX = 256 << 10, OBJECT_MAX = 1 << 20 };

#define DATA_KEY       "output.gz"
#define NOTE_POD       "rest-lit/pod-uid"
#define NOTE_SHA       "rest-lit/sha256"
#define NOTE_EXIT_CODE "rest-lit/exit-code"
#define NOTE_DROPPED   "rest-lit/dropped"

char *output_name(struct arena *a, const struct output_id *id)
{
	return arena_printf(a, "%s-output-%.*s-%lld-%lld-%lld", id->framework, (int)id->role.n,
	                    id->role.p, (long long)id->index, (long long)id->attempt,
	                    (long long)id->retry);
}

/* The index of a job: "FRAMEWORK-output". */
static char *output_index_name(struct arena *a, const char *framework)
{
	return arena_printf(a, "%s-output", framework);
}

/* The beginning of a ConfigMap, within its metadata. */
static void output_open(struct str *out, const struct output_id *id, const char *name,
                        const char *history)
{
	str_puts(out, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{");
	json_put_word(out, "name", name);
	json_put_open(out, "labels", '{');
	json_put_word(out, "rest-lit/history", history);
	json_put_word(out, "FC_FRAMEWORK_NAME", id->framework);
	str_puts(out, "},");
	history_owner(out, id->framework, id->framework_uid);
}

/* ---- an output ---- */

void output_write(struct str *out, const struct output_id *id, const struct output_facts *facts,
                  struct span packed, struct arena *a)
{
	output_open(out, id, output_name(a, id), "output");
	json_put_open(out, "annotations", '{');
	json_put_word(out, NOTE_POD, id->pod_uid);
	json_put_word(out, NOTE_SHA, facts->sha);
	str_printf(out, ",\"" NOTE_EXIT_CODE "\":\"%lld\",\"" NOTE_DROPPED "\":\"%lld\"}},",
	           (long long)facts->exit_code, (long long)facts->dropped);
	str_puts(out, "\"immutable\":true,\"binaryData\":{\"" DATA_KEY "\":\"");
	str_base64(out, packed);
	str_puts(out, "\"}}");
}

static int64_t output_number(struct span notes, const char *key, struct arena *a)
{
	int64_t n = 0;
	(void)parse_i64(scan_text(scan_get(notes, key), a), INT64_MIN, INT64_MAX, &n); /* else 0 */
	return n;
}

bool output_read(struct span configmap, const struct output_id *id, struct arena *a,
                 struct output_facts *facts, struct span *frames)
{
	struct span bytes;
	struct span text;
	if (!scan_valid(configmap, HISTORY_DEPTH) ||
	    !history_is_owned(configmap, id->framework_uid, a))
		return false;
	struct span notes = scan_path(configmap, "metadata", "annotations");
	struct span sha = scan_text(scan_get(notes, NOTE_SHA), a);
	struct span packed = scan_text(scan_path(configmap, "binaryData", DATA_KEY), a);
	if ((id->pod_uid[0] && !span_is(scan_text(scan_get(notes, NOTE_POD), a), id->pod_uid)) ||
	    sha.n != OUTPUT_SHA || base64_decode(a, packed, &bytes) < 0 ||
	    !output_unpack(bytes, a, &text))
		return false;
	*facts = (struct output_facts){ .exit_code = output_number(notes, NOTE_EXIT_CODE, a),
		                        .dropped = output_number(notes, NOTE_DROPPED, a) };
	memcpy(facts->sha, sha.p, OUTPUT_SHA);
	*frames = text;
	return true;
}

#define LINES_KEY "outputs"
enum { ENTRIES_READ_MAX = 4 * OUTPUTS_MAX };

/* ---- reading and writing ---- */

bool output_index_read(struct span configmap, const char *framework_uid, struct arena *a,
                       struct output_index *out)
{
	*out = (struct output_index){ ARENA_NEW(a, struct output_entry, ENTRIES_READ_MAX + 1), 0 };
	if (!configmap.n)
		return true;
	if (!scan_valid(configmap, HISTORY_DEPTH) || !history_is_owned(configmap, framework_uid, a))
		return false;
	struct span rest = scan_text(scan_path(configmap, "data", LINES_KEY), a);
	while (rest.n && out->n < ENTRIES_READ_MAX) {
		struct output_entry *e = &out->v[out->n];
		struct span line = span_next(&rest, '\n');
		*e = (struct output_entry){ .role = span_next(&line, ' ') };
		int64_t *const numbers[] = { &e->index, &e->attempt, &e->retry, &e->bytes };
		bool good = e->role.n > 0;
		for (size_t i = 0; i < ARRAY_SIZE(numbers) && good; i++)
			good = parse_i64(span_next(&line, ' '), 0, INT32_MAX, numbers[i]) == 0;
		e->failed = span_is(line, "failed");
		out->n += good && (e->failed || span_is(line, "succeeded"));
	}
	return true;
}

void output_index_lines(struct str *out, const struct output_index *x)
{
	for (size_t i = 0; i < x->n; i++) {
		const struct output_entry *e = &x->v[i];
		if (!e->displaced)
			str_printf(out, "%.*s %lld %lld %lld %lld %s\n", (int)e->role.n, e->role.p,
			           (long long)e->index, (long long)e->attempt, (long long)e->retry,
			           (long long)e->bytes, e->failed ? "failed" : "succeeded");
	}
}

void output_index_write(struct str *out, const struct output_id *id, struct span version,
                        struct span lines, struct arena *a)
{
	output_open(out, id, output_index_name(a, id->framework), "outputs");
	if (version.n)
		json_put_text(out, "resourceVersion", version);
	str_puts(out, "},\"data\":{");
	json_put_text(out, LINES_KEY, lines);
	str_puts(out, "}}");
}

/* ---- requests ---- */

static void output_ask(struct output_call *c, struct store_request q)
{
	q.kind = KIND_CONFIGMAP;
	q.whole = true;
	q.user = c->user;
	q.urgent = !c->user;
	q.deadline_ms = c->deadline_ms;
	q.arg = c;
	store_request(c->store, &q);
}

static void output_fail(struct output_call *c, const struct store_reply *reply)
{
	c->done(c, job_store_silent(reply) ? OUTPUT_BUSY : OUTPUT_REFUSED, reply->message);
}

static void output_index_answered(void *arg, const struct store_reply *reply)
{
	struct output_call *c = arg;
	bool there = reply->outcome == STORE_OK;
	c->version = there ? arena_dup(c->a, reply->resource_version) : "";
	if (!there && reply->outcome != STORE_NOT_FOUND)
		output_fail(c, reply);
	else if (output_index_read(there ? reply->body : SPAN(""), c->id.framework_uid, c->a,
	                           &c->index))
		c->done(c, OUTPUT_DONE, SPAN(""));
	else
		c->done(c, OUTPUT_OTHER,
		        SPAN("outputs of an earlier job of this name still exist"));
}

void output_list(struct output_call *c)
{
	output_ask(c, (struct store_request){ .verb = STORE_GET,
	                                      .name = output_index_name(c->a, c->id.framework),
	                                      .done = output_index_answered });
}

static void output_answered(void *arg, const struct store_reply *reply)
{
	struct output_call *c = arg;
	ARENA_AUTO a = { 0 }; /* much larger than what the caller copies */
	if (job_store_silent(reply))
		c->done(c, OUTPUT_BUSY, reply->message);
	else if (reply->outcome == STORE_OK &&
	         output_read(reply->body, &c->id, &a, &c->facts, &c->frames))
		c->done(c, OUTPUT_DONE, SPAN(""));
	else
		c->done(c, OUTPUT_ABSENT, reply->message);
}

void output_get(struct output_call *c)
{
	c->frames = SPAN("");
	output_ask(c, (struct store_request){ .verb = STORE_GET,
	                                      .name = output_name(c->a, &c->id),
	                                      .done = output_answered });
}

/* To put one: output_keep -> output_index_stored -> output_make -> output_made ->
 * [output_compared]. */
static store_callback output_index_stored, output_made, output_compared;

static void output_make(struct output_call *c)
{
	str_done(&c->body);
	c->body = STR_INIT(OBJECT_MAX);
	output_write(&c->body, &c->id, &c->facts, c->packed, c->a);
	output_ask(c, (struct store_request){ .verb = STORE_CREATE,
	                                      .name = output_name(c->a, &c->id),
	                                      .body = { str_view(&c->body) },
	                                      .done = output_made });
}

void output_keep(struct output_call *c)
{
	STR_AUTO lines = STR_INIT(LINES_MAX);
	if (output_index_find(&c->index, &c->entry)) {
		output_make(c);
		return;
	}
	c->index.v[c->index.n++] = c->entry;
	output_index_lines(&lines, &c->index);
	str_done(&c->body);
	c->body = STR_INIT((size_t)2 * LINES_MAX);
	output_index_write(&c->body, &c->id, span_of(c->version), str_view(&lines), c->a);
	output_ask(c, (struct store_request){ .verb = c->version[0] ? STORE_PATCH : STORE_CREATE,
	                                      .name = output_index_name(c->a, c->id.framework),
	                                      .body = { str_view(&c->body) },
	                                      .done = output_index_stored });
}

/* An output that no line of the index names any more.  Nobody waits for its deletion. */
struct displaced_output {
	struct arena a;
	struct store *store;
	const char *framework_uid;
	struct store_request request;
};

static void output_removed(void *arg, const struct store_reply *reply)
{
	struct displaced_output *d = arg;
	(void)reply;
	arena_done(&d->a);
	free(d);
}

/* Deletes it by its uid: a newer job of this name may have an output of the same name. */
static void output_displaced_found(void *arg, const struct store_reply *reply)
{
	struct displaced_output *d = arg;
	if (reply->outcome != STORE_OK || !scan_valid(reply->body, HISTORY_DEPTH) ||
	    !history_is_owned(reply->body, d->framework_uid, &d->a)) {
		output_removed(d, reply);
		return;
	}
	d->request.verb = STORE_DELETE;
	d->request.uid = arena_dup(&d->a, reply->uid);
	d->request.done = output_removed;
	store_request(d->store, &d->request);
}

static void outputs_delete_displaced(const struct output_call *c)
{
	for (size_t i = 0; i < c->index.n; i++) {
		const struct output_entry *e = &c->index.v[i];
		struct output_id id = c->id;
		if (!e->displaced)
			continue;
		id.role = e->role;
		id.index = e->index;
		id.attempt = e->attempt;
		id.retry = e->retry;
		struct displaced_output *d = xcalloc(1, sizeof(*d));
		d->store = c->store;
		d->framework_uid = arena_dup(&d->a, span_of(id.framework_uid));
		d->request = (struct store_request){ .verb = STORE_GET,
			                             .kind = KIND_CONFIGMAP,
			                             .name = output_name(&d->a, &id),
			                             .deadline_ms = c->deadline_ms,
			                             .done = output_displaced_found,
			                             .arg = d };
		store_request(d->store, &d->request);
	}
}

static void output_index_stored(void *arg, const struct store_reply *reply)
{
	struct output_call *c = arg;
	if (reply->outcome == STORE_OK) {
		output_make(c);
		outputs_delete_displaced(c);
	} else if (reply->outcome == STORE_EXISTS || reply->outcome == STORE_CONFLICT ||
	           reply->outcome == STORE_NOT_FOUND) {
		c->done(c, OUTPUT_OUTDATED, reply->message);
	} else {
		output_fail(c, reply);
	}
}

static void output_made(void *arg, const struct store_reply *reply)
{
	struct output_call *c = arg;
	str_done(&c->body);
	if (reply->outcome == STORE_OK)
		c->done(c, OUTPUT_DONE, SPAN(""));
	else if (reply->outcome == STORE_EXISTS)
		output_ask(c, (struct store_request){ .verb = STORE_GET,
		                                      .name = output_name(c->a, &c->id),
		                                      .done = output_compared });
	else
		output_fail(c, reply);
}

/* Compares with the existing output of this attempt. */
static void output_compared(void *arg, const struct store_reply *reply)
{
	struct output_call *c = arg;
	ARENA_AUTO a = { 0 };
	struct output_facts facts;
	if (reply->outcome != STORE_OK)
		output_fail(c, reply);
	else if (output_read(reply->body, &c->id, &a, &facts, &c->frames) &&
	         strcmp(facts.sha, c->facts.sha) == 0)
		c->done(c, OUTPUT_DONE, SPAN(""));
	else
		c->done(c, OUTPUT_OTHER, SPAN("another output of this task attempt is kept"));
}
