/* Quantities of Kubernetes. */

#include "tests/unit/base/cmocka.h"

#include "base/quantity.h"

TEST(test_quantity_milli_reads_suffixes_and_refuses_others)
{
	static const struct {
		const char *text;
		int64_t milli;
	} ROWS[] = {
		{ "2", 2000 },
		{ "100m", 100 },
		{ "0.1", 100 },
		{ "0.0001", 1 },
		{ "1Ki", 1024000 },
		{ "1k", 1000000 },
		{ "1e3", 1000000 },
		{ "2E", INT64_MAX },
		{ "1Pi", INT64_C(1000) << 50 },
		{ "1Ei", INT64_MAX },
		{ "1Kii", -1 },
		{ "1mi", -1 },
		{ "1K", -1 },
		{ "1e", -1 },
		{ "9999999999999999Ei", INT64_MAX },
		{ "1.5Gi", 1610612736000 },
		{ "8192Mi", 8589934592000 },
		{ "", -1 },
		{ "x", -1 },
		{ "-1", -1 },
		{ "1.2.3", -1 },
		{ "1x", -1 },
		{ "9999999999999999999", -1 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		if (quantity_milli(span_of(ROWS[i].text)) != ROWS[i].milli)
			fail_msg("%s", ROWS[i].text);
	}
}
