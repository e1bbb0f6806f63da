/* Which bytes the header Range asks for. */

#include "tests/unit/base/cmocka.h"

#include "server/http/query.h"

#define HUGE "99999999999999999999999999"

static const struct {
	const char *header;
	size_t size;
	enum range range;
	size_t from, n;
} CASES[] = {
	{ "bytes=0-0", 10, RANGE_PART, 0, 1 },
	{ "bytes=0-9", 10, RANGE_PART, 0, 10 },
	{ "bytes=2-4", 10, RANGE_PART, 2, 3 },
	{ "bytes=2-400", 10, RANGE_PART, 2, 8 },
	{ "bytes=2-" HUGE, 10, RANGE_PART, 2, 8 },
	{ "bytes=2-18446744073709551615", 10, RANGE_PART, 2, 8 },
	{ "bytes=9-", 10, RANGE_PART, 9, 1 },
	{ "bytes=0-", 10, RANGE_PART, 0, 10 },
	{ "bytes=-3", 10, RANGE_PART, 7, 3 },
	{ "bytes=-10", 10, RANGE_PART, 0, 10 },
	{ "bytes=-" HUGE, 10, RANGE_PART, 0, 10 },
	{ " BYTES= 1-2 ", 10, RANGE_PART, 1, 2 },
	{ "bytes=007-08", 10, RANGE_PART, 7, 2 },
	{ "bytes=10-", 10, RANGE_NONE, 0, 0 },
	{ "bytes=10-20", 10, RANGE_NONE, 0, 0 },
	{ "bytes=" HUGE "-", 10, RANGE_NONE, 0, 0 },
	{ "bytes=-0", 10, RANGE_NONE, 0, 0 },
	{ "bytes=0-", 0, RANGE_NONE, 0, 0 },
	{ "bytes=-0", 0, RANGE_NONE, 0, 0 },
	{ "bytes=-5", 0, RANGE_WHOLE, 0, 0 },
	{ NULL, 10, RANGE_WHOLE, 0, 0 },
	{ "", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=-", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=5", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=5-4", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=50-40", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=0-1,3-4", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=0-1-2", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=--1", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=+1-2", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes=a-b", 10, RANGE_WHOLE, 0, 0 },
	{ "bytes 0-1", 10, RANGE_WHOLE, 0, 0 },
	{ "lines=0-1", 10, RANGE_WHOLE, 0, 0 },
};

TEST(test_range_read)
{
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		size_t from = 0;
		size_t n = 0;
		enum range range = range_read(CASES[i].header, CASES[i].size, &from, &n);
		if (range != CASES[i].range || from != CASES[i].from || n != CASES[i].n)
			fail_msg("%s of %zu: %d, %zu, %zu", CASES[i].header, CASES[i].size,
			         (int)range, from, n);
	}
}
