/* Label selectors of a directory: what is read, and what is refused rather than passed over. */
/* cmocka wants these four first */
#include "tests/unit/base/cmocka.h"

#include "machine/store/local_internal.h"

static bool fits(const char *query, const char *labels)
{
	struct selector s;
	assert_int_equal(selector_read(&s, query), 0);
	return selector_fits(&s, span_of(labels));
}

TEST(test_no_query_is_all)
{
	assert_true(fits(NULL, "{}"));
	assert_true(fits("", "[1]"));
	assert_true(fits("limit=5&continue=abc&resourceVersion=0", "{}"));
}

TEST(test_terms_must_all_fit)
{
	assert_true(fits("labelSelector=a%3Db%2Cc", "{\"a\":\"b\",\"c\":\"\"}"));
	assert_false(fits("labelSelector=a%3Db%2Cc", "{\"a\":\"b\"}"));
	assert_false(fits("labelSelector=a%3Db%2Cc", "{\"a\":\"x\",\"c\":\"\"}"));
	assert_true(fits("labelSelector=a=b", "{\"a\":\"b\"}"));
	assert_true(fits("labelSelector=a=", "{\"a\":\"\"}"));
}

TEST(test_labels_of_any_type)
{
	assert_false(fits("labelSelector=a", "{\"a\":1}"));
	assert_false(fits("labelSelector=a", "[]"));
}

TEST(test_what_is_not_known_is_refused)
{
	static const char *const QUERIES[] = {
		"labelSelector=!a",
		"labelSelector=a+in+(b)",
		"labelSelector=a%2",
		"labelSelector=a%00",
		"labelSelector=,",
		"labelSelector=a,,b",
		"fieldSelector=a=b",
		"watch=1",
		"labelSelector=a&labelSelector=b",
		"&labelSelector=a",
		"labelSelector==b",
		"labelSelector=1,2,3,4,5,6,7,8,9",
	};
	struct selector s;
	for (size_t i = 0; i < sizeof(QUERIES) / sizeof(QUERIES[0]); i++)
		assert_int_equal(selector_read(&s, QUERIES[i]), -1);
}

TEST(test_text_is_bounded)
{
	char query[2 * SELECTOR_TEXT];
	struct selector s;
	(void)snprintf(query, sizeof(query), "labelSelector=%0*d", SELECTOR_TEXT - 1, 0);
	assert_int_equal(selector_read(&s, query), 0);
	(void)snprintf(query, sizeof(query), "labelSelector=%0*d", SELECTOR_TEXT, 0);
	assert_int_equal(selector_read(&s, query), -1);
}
