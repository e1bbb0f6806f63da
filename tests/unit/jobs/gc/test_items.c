/* Cutting lists into items. */
#include "tests/unit/base/cmocka.h"
#include "tests/unit/jobs/kit.h"

#include "base/json/scan.h"
#include "jobs/store/reply.h"

struct seen {
	struct str names; /* metadata of the items: "a,b," */
	struct str more;
	int result;
};

static struct seen cut(const char *list, size_t n)
{
	struct seen s = { STR_INIT(4096), STR_INIT(CONTINUE_MAX), 0 };
	/* The memory has exactly this size, so that a sanitizer reports reads beyond it. */
	FREE_AUTO char *copy = xmalloc(n + 1);
	memcpy(copy, list, n);
	FREE_AUTO char *exact = xrealloc(TAKE(copy), n ? n : 1);
	struct span items = reply_items((struct span){ exact, n }, &s.more);
	struct span item;
	s.result = items.p ? 0 : -1;
	for (struct scan walk = scan_begin(items); scan_item(&walk, &item);) {
		str_span(&s.names, scan_text(scan_get(item, "name"), &unit.a));
		str_char(&s.names, ',');
	}
	return s;
}

static void forget(struct seen *s)
{
	str_done(&s->names);
	str_done(&s->more);
}

static void assert_cut(const char *list, const char *names, const char *more)
{
	struct seen s = cut(list, strlen(list));
	assert_int_equal(s.result, 0);
	assert_string_equal(str_c(&s.names), names);
	assert_string_equal(str_c(&s.more), more);
	forget(&s);
}

TEST(test_reply_items_are_those_of_the_list)
{
	/* Takes members in both orders. */
	assert_cut("{\"kind\":\"L\",\"items\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
	           "\"metadata\":{\"continue\":\"t\"}}",
	           "a,b,", "t");
	assert_cut(" { \"metadata\" : { } , \"items\" : [ { \"name\" : \"a\" } ] } \n", "a,", "");
	/* Takes empty lists. */
	assert_cut("{\"items\":[]}", "", "");
	assert_cut("{\"items\":[ ],\"metadata\":{\"continue\":null}}", "", "");
	assert_cut("{\"items\":null}", "", "");
	/* Ignores brackets in texts. */
	assert_cut("{\"x\":\"]}\\\"{[\",\"items\":[{\"q\":\"}],\\\\\",\"name\":\"a\"},"
	           "{\"name\":\"b\",\"l\":[[{\"c\":\"[\"}]]}]}",
	           "a,b,", "");
	/* Keeps items that are no objects. */
	assert_cut("{\"items\":[1,\"x\",null,[],{\"name\":\"z\"}]}", ",,,,z,", "");
}

TEST(test_reply_items_refuse_text_that_is_no_list)
{
	static const char *const BAD[] = { "",
		                           "x",
		                           "[]",
		                           "{}",
		                           "{\"a\"}",
		                           "{\"items\":{}}",
		                           "{\"a\":",
		                           "{\"items\":[{\"name\":\"a\"}",
		                           "{\"i",
		                           "{\"items\":[,]}",
		                           "{\"items\":[{\"a\":}]}" };
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
		struct seen s = cut(BAD[i], strlen(BAD[i]));
		if (s.result == 0)
			fail_msg("taken for a list: %s", BAD[i]);
		forget(&s);
	}
}

/* A list cut at any byte is an error, and no byte beyond its end is read. */
TEST(test_reply_items_refuse_truncated_lists)
{
	static const char LIST[] = "{\"metadata\":{\"continue\":\"t\\\\\"},\"items\":[{\"name\":"
				   "\"a\",\"x\":[1,{}]},{\"name\":\"b\"}]}";
	for (size_t n = 0; n < sizeof(LIST) - 1; n++) {
		struct seen s = cut(LIST, n);
		assert_int_equal(s.result, -1);
		forget(&s);
	}
	assert_cut(LIST, "a,b,", "t\\");
}

TEST(test_reply_items_drop_a_token_that_is_too_long)
{
	STR_AUTO list = STR_INIT(1 << 16);
	str_puts(&list, "{\"items\":[],\"metadata\":{\"continue\":\"");
	str_many(&list, "a", CONTINUE_MAX + 1);
	str_puts(&list, "\"}}");
	assert_cut(str_c(&list), "", "");
}
