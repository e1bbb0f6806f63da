/* Members of JSON. */

#include "tests/unit/base/cmocka.h"

#include <math.h>
#include <stdlib.h>

#include "base/json/put.h"
#include "base/json/scan.h"

TEST(test_figures_have_at_most_four_decimals)
{
	static const struct {
		double value;
		const char *wanted;
	} ROWS[] = {
		{ 0, "0" },
		{ 0.00004, "0" },
		{ 0.00005, "0.0001" },
		{ 0.1, "0.1" },
		{ 2.5, "2.5" },
		{ 12.3456, "12.3456" },
		{ 12.34567, "12.3457" },
		{ 0.99996, "1" },
		{ 10.01, "10.01" },
		{ 1572864, "1572864" },
		{ 1e300, "900000000000000" },
		{ -0.0, "0" },
		{ -1, "null" },
		{ -1e-9, "null" },
		{ NAN, "null" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		STR_AUTO out = STR_INIT(64);
		str_char(&out, '{');
		json_put_figure(&out, "n", ROWS[i].value);
		str_char(&out, '}');
		struct span read = scan_get(str_view(&out), "n");
		assert_true(span_is(read, ROWS[i].wanted));
		bool known = strcmp(ROWS[i].wanted, "null") != 0;
		assert_true(scan_figure(read) == (known ? strtod(ROWS[i].wanted, NULL) : -1));
	}
}

TEST(test_figure_of_another_type_is_unknown)
{
	struct span object = SPAN("{\"a\":\"1\",\"b\":true,\"c\":[1],\"d\":{}}");
	static const char *const KEYS[] = { "a", "b", "c", "d", "absent" };
	for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
		assert_true(scan_figure(scan_get(object, KEYS[i])) == -1);
}
