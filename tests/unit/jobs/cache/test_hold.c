/* The annotation of held jobs: what is read, what is not, and what a held job does next. */
#include "jobs/cache/hold.h"
#include "tests/unit/base/cmocka.h"

static bool good(const char *text)
{
	ARENA_AUTO a = { 0 };
	struct hold h;
	return hold_read(span_of(text), &a, &h);
}

TEST(test_hold_is_written_and_read)
{
	ARENA_AUTO a = { 0 };
	STR_AUTO one = STR_INIT(HOLD_TEXT_MAX);
	STR_AUTO two = STR_INIT(HOLD_TEXT_MAX);
	struct hold_after after[] = { { SPAN("f1"), SPAN("u-1"), SPAN("alice~\"a"), false },
		                      { SPAN("f2"), SPAN("u-2"), SPAN("bob~b"), true } };
	const struct hold h = { true, 1796079600000, SPAN("trial"), 4, after, 2 };
	struct hold read;
	hold_put(&one, &h);
	assert_true(hold_read(str_view(&one), &a, &read));
	hold_put(&two, &read);
	assert_string_equal(str_c(&one), str_c(&two));
	assert_string_equal(
	    str_c(&one), "{\"by\":true,\"after\":[{\"framework\":\"f1\",\"uid\":\"u-1\",\"job\":"
			 "\"alice~\\\"a\"},{\"framework\":\"f2\",\"uid\":\"u-2\",\"job\":\"bob~b\","
			 "\"any\":true}],\"begin\":1796079600000,\"tag\":\"trial\",\"max\":4}");
}

TEST(test_hold_that_is_malformed_is_not_read)
{
	static const char *const BAD[] = {
		"",
		"x",
		"[]",
		"null",
		"{",
		"{\"after\":{}}",
		"{\"after\":[1]}",
		"{\"after\":[{}]}",
		"{\"after\":[{\"framework\":\"a/b\",\"uid\":\"u\",\"job\":\"j\"}]}",
		"{\"after\":[{\"framework\":\"..\",\"uid\":\"u\",\"job\":\"j\"}]}",
		"{\"after\":[{\"framework\":\"f\",\"uid\":\"\",\"job\":\"j\"}]}",
		"{\"after\":[{\"framework\":\"f\\u0000\",\"uid\":\"u\",\"job\":\"j\"}]}",
		"{\"begin\":-1}",
		"{\"begin\":\"x\"}",
		"{\"max\":1}",
		"{\"tag\":\"a\"}",
		"{\"max\":0,\"tag\":\"a\"}",
		"{\"max\":1,\"tag\":\"\"}",
	};
	for (size_t i = 0; i < ARRAY_SIZE(BAD); i++)
		if (good(BAD[i]))
			fail_msg("%s", BAD[i]);
	assert_true(good("{}"));
	assert_true(good("{\"max\":1,\"tag\":\"a\",\"later\":[]}"));
	STR_AUTO many = STR_INIT(HOLD_TEXT_MAX);
	str_puts(&many, "{\"after\":[");
	for (int i = 0; i <= HOLD_AFTER_MAX; i++)
		str_puts(&many, i ? ",{\"framework\":\"f\",\"uid\":\"u\",\"job\":\"j\"}"
		                  : "{\"framework\":\"f\",\"uid\":\"u\",\"job\":\"j\"}");
	str_puts(&many, "]}");
	assert_false(good(str_c(&many)));
}

/* ---- what it does next ---- */

static void put(struct cache *c, const char *uid, const char *state, int code)
{
	static int version;
	STR_AUTO text = STR_INIT(4096);
	str_printf(
	    &text,
	    "{\"metadata\":{\"name\":\"f\",\"uid\":\"%s\",\"resourceVersion\":\"%d\"},\"status\":{"
	    "\"state\":\"%s\",\"attemptStatus\":{\"completionStatus\":{\"code\":%d}}}}",
	    uid, ++version, state, code);
	cache_put(c, job_entry_new(str_view(&text)));
}

static enum hold_verdict next(struct cache *c, bool any, uint64_t gone, const char *words)
{
	struct hold_after after = { SPAN("f"), SPAN("u"), SPAN("alice~a"), any };
	const struct hold h = { .after = &after, .n_after = 1 };
	STR_AUTO why = STR_INIT(1024);
	CACHE_VIEW_AUTO *view = cache_view(c);
	enum hold_verdict v = hold_judge(&h, view, 1000, gone, &why).verdict;
	if (!strstr(str_c(&why), words))
		fail_msg("%s, not %s", str_c(&why), words);
	assert_true(v != HOLD_STARTS || why.n == 0);
	return v;
}

TEST(test_hold_waits_for_what_it_names)
{
	struct cache *c = cache_new(1 << 20);
	assert_int_equal(next(c, false, 0, "being looked for"), HOLD_ASKS);
	assert_int_equal(next(c, false, 1, "alice~a, whose success it waits for, was deleted"),
	                 HOLD_STOPS);
	assert_int_equal(next(c, true, 1, ""), HOLD_STARTS);
	put(c, "u", "AttemptRunning", 0);
	assert_int_equal(next(c, false, 0, "after alice~a, which runs"), HOLD_WAITS);
	assert_int_equal(next(c, true, 0, "which runs"), HOLD_WAITS);
	put(c, "u", "Completed", 0);
	assert_int_equal(next(c, false, 0, ""), HOLD_STARTS);
	put(c, "u", "Completed", 1);
	assert_int_equal(next(c, false, 0, "has failed"), HOLD_STOPS);
	assert_int_equal(next(c, true, 0, ""), HOLD_STARTS);
	put(c, "u", "Completed", -210);
	assert_int_equal(next(c, false, 0, "was stopped"), HOLD_STOPS);
	put(c, "another", "AttemptRunning", 0); /* the name is used again, or the view is old */
	assert_int_equal(next(c, false, 0, "being looked for"), HOLD_ASKS);
	assert_int_equal(next(c, false, 1, "was deleted"), HOLD_STOPS);
	cache_free(c);
}

TEST(test_hold_waits_for_time_and_people)
{
	struct cache *c = cache_new(1 << 20);
	CACHE_VIEW_AUTO *view = cache_view(c);
	STR_AUTO why = STR_INIT(1024);
	assert_int_equal(
	    hold_judge(&(struct hold){ .begin_ms = 1001 }, view, 1000, 0, &why).verdict,
	    HOLD_WAITS);
	assert_string_equal(str_c(&why), "begins at 1970-01-01T00:00:01Z");
	assert_int_equal(
	    hold_judge(&(struct hold){ .begin_ms = 1000 }, view, 1000, 0, &why).verdict,
	    HOLD_STARTS);
	assert_int_equal(
	    hold_judge(&(struct hold){ .by = true, .begin_ms = 1 }, view, 1000, 0, &why).verdict,
	    HOLD_WAITS);
	view_drop(view);
	view = NULL;
	cache_free(c);
}
