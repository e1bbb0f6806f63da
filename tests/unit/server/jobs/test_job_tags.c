/* Tags and lists of tags. */

#include "tests/unit/base/cmocka.h"

#include "jobs/cache/job_entry.h"
#include "server/jobs/jobs_internal.h"

TEST(test_tag_ok_takes_1_to_63_bytes_of_text)
{
	char longest[JOB_ENTRY_TAG_MAX + 1];
	memset(longest, 'x', sizeof(longest));
	assert_true(job_entry_tag_ok(SPAN("dev")));
	assert_true(job_entry_tag_ok(SPAN(" two words ")));
	assert_true(job_entry_tag_ok(SPAN("\xc3\xa4")));
	assert_true(job_entry_tag_ok((struct span){ longest, JOB_ENTRY_TAG_MAX }));
	assert_false(job_entry_tag_ok((struct span){ longest, JOB_ENTRY_TAG_MAX + 1 }));
	assert_false(job_entry_tag_ok(SPAN("")));
	assert_false(job_entry_tag_ok(SPAN("a\tb")));
	assert_false(job_entry_tag_ok(SPAN("a\x7f")));
	assert_false(job_entry_tag_ok(SPAN("a\xc2\x85"
	                                   "b")));
	assert_false(job_entry_tag_ok(SPAN("a\xe2\x80\xae\xe2\x80\xac"))); /* U+202E, U+202C */
	assert_false(job_entry_tag_ok(SPAN("\xe2\x81\xa6\xe2\x81\xa9")));  /* U+2066, U+2069 */
}

static const struct {
	const char *list, *tag;
	const char *result;
	enum tags_changed is;
	bool with;
} ROWS[] = {
	{ "[]", "a", "[\"a\"]", TAGS_CHANGED, true },
	{ "[\"a\"]", "b", "[\"a\",\"b\"]", TAGS_CHANGED, true },
	{ "[\"a\",\"b\"]", "a", NULL, TAGS_AS_BEFORE, true },
	{ "[\"\\\"\"]", "\\", "[\"\\\"\",\"\\\\\"]", TAGS_CHANGED, true },
	{ "[\"\\u00e4\"]", "\xc3\xa4", NULL, TAGS_AS_BEFORE, true },
	{ "[]", "a", NULL, TAGS_AS_BEFORE, false },
	{ "[\"a\"]", "a", "[]", TAGS_CHANGED, false },
	{ "[\"a\",\"b\",\"a\"]", "a", "[\"b\"]", TAGS_CHANGED, false },
	{ "[\"a\",\"b\",\"c\"]", "b", "[\"a\",\"c\"]", TAGS_CHANGED, false },
	{ "[\"ab\"]", "a", NULL, TAGS_AS_BEFORE, false },
};

TEST(test_tags_are_added_and_removed)
{
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		STR_AUTO out = STR_INIT(1000);
		enum tags_changed is = tags_change(&out, span_of(ROWS[i].list),
		                                   span_of(ROWS[i].tag), ROWS[i].with, &unit.a);
		assert_int_equal(is, ROWS[i].is);
		if (ROWS[i].result)
			assert_string_equal(str_c(&out), ROWS[i].result);
	}
}
