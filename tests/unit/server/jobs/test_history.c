/* Ended attempts: the written ConfigMap, and its checks when it is read back. */

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "base/embed.h"
#include "base/json/scan.h"
#include "server/cluster/history.h"

EMBED(waiting, "tests/data/frameworks/17-retry-waiting.json");
EMBED(posted, "tests/data/frameworks/00-posted.json");
EMBED(large, "tests/data/frameworks/23-compressed-1600-tasks.json");

enum { TEXT_MAX = 4 << 20, MUCH = 256 << 10 };

struct kept {
	struct arena a;
	struct str out;
	char uid[64];
	struct span status; /* that it was written of */
};

/* Writes the history of a Framework; false: there is none. */
static bool keep(struct kept *k, struct span text, size_t max)
{
	struct job_entry *job = job_entry_new(text);
	struct span doc;
	*k = (struct kept){ .out = STR_INIT(TEXT_MAX) };
	assert_non_null(job);
	assert_true(job_entry_doc(job, &k->a, &doc));
	k->status = scan_path(doc, "status", "attemptStatus");
	(void)snprintf(k->uid, sizeof(k->uid), "%s", job->uid);
	bool written = history_write(&k->out, job, doc, max, &k->a);
	job_entry_drop(job);
	return written;
}

static bool read_back(const struct kept *k, int64_t attempt, struct arena *a, struct span *status)
{
	return history_read(str_view(&k->out), k->uid, attempt, a, status);
}

static void done(struct kept *k)
{
	str_done(&k->out);
	arena_done(&k->a);
}

TEST(test_history_is_read_back_for_the_same_attempt_only)
{
	AUTO(done) struct kept k;
	struct span read;
	assert_true(keep(&k, EMBEDDED(waiting), MUCH));
	assert_true(read_back(&k, 0, &k.a, &read));
	assert_true(span_eq(read, k.status));
	/* Another attempt, or another Framework of the same name. */
	assert_false(read_back(&k, 1, &k.a, &read));
	assert_false(history_read(str_view(&k.out), "another", 0, &k.a, &read));
	assert_false(history_read(SPAN("{}"), k.uid, 0, &k.a, &read));
	assert_false(history_read(SPAN("{"), k.uid, 0, &k.a, &read));
}

TEST(test_history_object_is_immutable_and_owned)
{
	AUTO(done) struct kept k;
	const char *kind = NULL;
	const char *owner = NULL;
	int immutable = 0;
	assert_true(keep(&k, EMBEDDED(waiting), MUCH));
	json_auto_t *v = json_loadb(k.out.p, k.out.n, JSON_REJECT_DUPLICATES, NULL);
	assert_int_equal(json_unpack(v, "{s:s, s:b, s:{s:[{s:s}]}}", "kind", &kind, "immutable",
	                             &immutable, "metadata", "ownerReferences", "uid", &owner),
	                 0);
	assert_string_equal(kind, "ConfigMap");
	assert_string_equal(owner, k.uid);
	assert_true(immutable);
}

TEST(test_history_of_a_framework_without_status_is_absent)
{
	AUTO(done) struct kept k;
	assert_false(keep(&k, EMBEDDED(posted), MUCH));
	assert_int_equal(k.out.n, 0);
}

/* The shortened history stays readable. */
TEST(test_history_that_is_too_large_loses_its_tasks)
{
	AUTO(done) struct kept k;
	struct span read;
	assert_true(keep(&k, EMBEDDED(large), 4096));
	assert_true(k.out.n < 8192);
	assert_true(read_back(&k, 0, &k.a, &read));
	assert_int_equal(scan_type(scan_get(read, "taskRoleStatuses")), SCAN_NONE);
	assert_int_equal(scan_type(scan_get(read, "id")), SCAN_NUMBER);
}

/* With any byte changed, reading fails or gives the same status. */
TEST(test_history_that_is_damaged_is_refused_or_the_same)
{
	AUTO(done) struct kept k;
	struct span read;
	assert_true(keep(&k, EMBEDDED(waiting), MUCH));
	for (size_t i = 0; i < k.out.n; i += 7) {
		char was = k.out.p[i];
		k.out.p[i] = was == 'A' ? 'B' : 'A';
		if (read_back(&k, 0, &unit.a, &read))
			assert_true(span_eq(read, k.status));
		k.out.p[i] = was;
	}
}
