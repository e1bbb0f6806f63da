/* Members of JSON. */

#include "tests/unit/base/cmocka.h"

#include <math.h>

#include "base/json/put.h"

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
		json_put_figure(&out, NULL, ROWS[i].value);
		assert_string_equal(str_c(&out), ROWS[i].wanted);
	}
}
