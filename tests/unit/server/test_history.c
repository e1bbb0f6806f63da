/* Attempts that are over: what is written of them, and what is believed when it is read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/embed.h"
#include "base/scan.h"
#include "server/history_text.h"

EMBED(waiting, "tests/data/frameworks/17-retry-waiting.json");
EMBED(posted, "tests/data/frameworks/00-posted.json");
EMBED(large, "tests/data/frameworks/23-compressed-1600-tasks.json");

enum { TEXT_MAX = 4 << 20, MUCH = 256 << 10 };

/* What is written of a Framework; false if nothing is. */
static bool write_it(struct span text, size_t max, struct str *out, char uid[64],
                     struct span *status, struct arena *a)
{
	struct cached *job = cached_new(text);
	struct span doc;
	assert_non_null(job);
	assert_true(cached_doc(job, a, &doc));
	*status = scan_path(doc, "status", "attemptStatus");
	(void)snprintf(uid, 64, "%s", job->uid);
	bool written = history_write(out, job, doc, max, a);
	cached_drop(job);
	return written;
}

static void test_name(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	assert_string_equal(history_name(&a, "abc", 12), "abc-attempt-12");
}

static void test_read_back(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	char uid[64];
	struct span status, read;
	assert_true(write_it(EMBEDDED(waiting), MUCH, &out, uid, &status, &a));
	assert_true(history_read(str_view(&out), uid, 0, &a, &read));
	assert_true(span_eq(read, status));
	/* Another attempt, or another Framework of the same name. */
	assert_false(history_read(str_view(&out), uid, 1, &a, &read));
	assert_false(history_read(str_view(&out), "another", 0, &a, &read));
	assert_false(history_read(SPAN("{}"), uid, 0, &a, &read));
	assert_false(history_read(SPAN("{"), uid, 0, &a, &read));
}

static void test_owner(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	char uid[64];
	struct span status;
	assert_true(write_it(EMBEDDED(waiting), MUCH, &out, uid, &status, &a));
	json_auto_t *v = json_loadb(out.p, out.n, JSON_REJECT_DUPLICATES, NULL);
	const char *kind = NULL, *owner = NULL;
	int immutable = 0;
	assert_int_equal(json_unpack(v, "{s:s, s:b, s:{s:[{s:s}]}}", "kind", &kind, "immutable",
	                             &immutable, "metadata", "ownerReferences", "uid", &owner),
	                 0);
	assert_string_equal(kind, "ConfigMap");
	assert_string_equal(owner, uid);
	assert_true(immutable);
}

static void test_nothing_there(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	char uid[64];
	struct span status;
	assert_false(write_it(EMBEDDED(posted), MUCH, &out, uid, &status, &a));
	assert_int_equal(out.n, 0);
}

/* What is too large loses its tasks, and stays readable. */
static void test_too_large(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	char uid[64];
	struct span status, read;
	assert_true(write_it(EMBEDDED(large), 4096, &out, uid, &status, &a));
	assert_true(out.n < 8192);
	assert_true(history_read(str_view(&out), uid, 0, &a, &read));
	assert_int_equal(scan_type(scan_get(read, "taskRoleStatuses")), SCAN_NONE);
	assert_int_equal(scan_type(scan_get(read, "id")), SCAN_NUMBER);
}

/* Damaged in one place or the other, it is refused or the same; never more. */
static void test_damaged(void **state)
{
	(void)state;
	ARENA_AUTO a = { 0 };
	STR_AUTO out = STR_INIT(TEXT_MAX);
	char uid[64];
	struct span status, read;
	assert_true(write_it(EMBEDDED(waiting), MUCH, &out, uid, &status, &a));
	for (size_t i = 0; i < out.n; i += 7) {
		ARENA_AUTO b = { 0 };
		char was = out.p[i];
		out.p[i] = was == 'A' ? 'B' : 'A';
		if (history_read(str_view(&out), uid, 0, &b, &read))
			assert_true(span_eq(read, status));
		out.p[i] = was;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),      cmocka_unit_test(test_read_back),
		cmocka_unit_test(test_owner),     cmocka_unit_test(test_nothing_there),
		cmocka_unit_test(test_too_large), cmocka_unit_test(test_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
