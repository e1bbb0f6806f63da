/*
 * Any text as a Framework that somebody has stored: it is kept, or it has no name; what is kept is
 * JSON again, and its tasks are a list or there are none.  Text that is no JSON only has to be
 * survived.
 */
#include "base/enc.h"
#include "base/gzip.h"
#include "base/json/scan.h"
#include "jobs/cache/job_entry.h"
#include "jobs/framework/view.h"
#include "tests/fuzz/fuzz.h"

enum { DEPTH = 64 };

static void check_texts(const struct job_entry *c)
{
	assert(c->name[0] && strlen(c->name) <= 253 && strlen(c->job) <= 255);
	assert(strlen(c->user) <= 255 && strlen(c->cluster) <= 255 && c->cluster[0]);
	assert(strlen(c->sub_state) <= 64 && strlen(c->execution) <= 16);
	assert(scan_valid(span_of(c->tags), 1) && scan_type(span_of(c->tags)) == SCAN_ARRAY);
	assert(scan_count(span_of(c->tags)) <= JOB_ENTRY_TAGS_MAX);
	assert(c->tasks >= 0 && c->roles >= 0 && c->gpus >= 0 && c->retries >= 0);
	assert(!c->broken || c->state == JOB_UNKNOWN);
}

/* UTF-8 in, UTF-8 out. */
static void check_utf8(const struct job_entry *c)
{
	const char *const texts[] = { c->name,      c->uid,      c->job,
		                      c->user,      c->cluster,  c->sub_state,
		                      c->execution, c->priority, c->resource_version };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct span t = span_of(texts[i]);
		assert(utf8_check(t) == t.n);
	}
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	struct span out;
	bool valid = scan_valid(text, DEPTH);
	(void)gzip_unpack(text, 1 << 20, 200, &a, &out);
	struct job_entry *c = job_entry_new(text);
	if (!c)
		return;
	struct span doc;
	bool there = job_entry_doc(c, &a, &doc);
	assert(there); /* no input is so large */
	if (valid) {
		check_texts(c);
		check_utf8(c);
		assert(scan_valid(doc, DEPTH));
	}
	struct fw_view f;
	struct fw_walk w;
	fw_view_read(scan_get(doc, "status"), &a, &f);
	(void)fw_walk_begin(&w, &f, &a); /* else no role follows */
	while (fw_walk_role(&w))
		while (fw_walk_task(&w, &f))
			;
	struct job_entry *bare = job_entry_without_doc(c);
	assert(job_entry_same(c, bare));
	job_entry_drop(bare);
	job_entry_drop(c);
}
