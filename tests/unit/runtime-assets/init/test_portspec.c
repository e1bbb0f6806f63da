/* Ports of tasks: the numbers that OpenPAI's runtime computes, and annotations that are none. */
#include "runtime-assets/init/init_internal.h"

#include "tests/unit/base/cmocka.h"

#define HASHED(start, end, ports)                                                                  \
	"{\"schedulePortStart\":" #start ",\"schedulePortEnd\":" #end ",\"ports\":" ports "}"

static struct portspec read_good(const char *json, struct arena *a)
{
	struct portspec p;
	ERR_AUTO e = { 0 };
	if (portspec_read(json, 9, a, &p, &e) < 0)
		fail_msg("%s: %s", json, err_msg(&e));
	return p;
}

static void refused(const char *json, int64_t last, const char *why)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct portspec p;
	if (portspec_read(json, last, &a, &p, &e) == 0)
		fail_msg("%s is taken", json);
	if (!strstr(err_msg(&e), why))
		fail_msg("%s: %s", json, err_msg(&e));
}

TEST(test_portspec_port_hashed)
{
	static const struct {
		const char *uid, *label;
		int64_t i, start, end;
		uint16_t port;
	} CASES[] = {
		{ "f1020521-9bda-11ea-830b-000d3ab25bb6", "tcp", 0, 20000, 40000, 29877 },
		{ "f1020521-9bda-11ea-830b-000d3ab25bb6", "ssh", 0, 20000, 40000, 39080 },
		{ "f102a4a7-9bda-11ea-830b-000d3ab25bb6", "mpi", 1, 20000, 40000, 21891 },
		{ "a0000000-0000-0000-0000-000000000000", "http", 0, 15000, 40000, 39661 },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
		struct portspec p = { .range = { CASES[i].start, CASES[i].end } };
		struct port_label l = { .name = CASES[i].label, .count = 2 };
		assert_int_equal(portspec_port(&p, &l, (struct port_source){ CASES[i].uid, NULL },
		                               0, CASES[i].i),
		                 CASES[i].port);
	}
}

/* The end is not one of the ports. */
TEST(test_portspec_port_range_of_one)
{
	struct portspec p = { .range = { 65535, 65536 } };
	struct port_label l = { .name = "x", .count = 1 };
	for (int64_t i = 0; i < 100; i++)
		assert_int_equal(portspec_port(&p, &l, (struct port_source){ "uid", NULL }, 0, i),
		                 65535);
}

TEST(test_portspec_port_sequential)
{
	ARENA_AUTO a = { 0 };
	struct portspec p = read_good("{\"http\":{\"start\":5000,\"count\":3}}", &a);
	assert_true(p.sequential);
	assert_int_equal(portspec_port(&p, &p.label[0], (struct port_source){ 0 }, 1, 0), 5003);
	assert_int_equal(portspec_port(&p, &p.label[0], (struct port_source){ 0 }, 1, 2), 5005);
}

TEST(test_portspec_read_keeps_the_order)
{
	ARENA_AUTO a = { 0 };
	struct portspec p = read_good(
	    HASHED(1, 2, "{\"z\":{\"count\":2},\"a\":{\"count\":0},\"m\":{\"count\":1.0}}"), &a);
	assert_false(p.sequential);
	assert_int_equal(p.n, 3);
	assert_string_equal(p.label[0].name, "z");
	assert_string_equal(p.label[2].name, "m");
	assert_int_equal(p.total, 3);
}

TEST(test_portspec_read_none)
{
	ARENA_AUTO a = { 0 };
	assert_int_equal(read_good(NULL, &a).n, 0);
	assert_int_equal(read_good(HASHED(1, 2, "{}"), &a).n, 0);
	assert_int_equal(read_good("{}", &a).n, 0);
}

TEST(test_portspec_read_refuses)
{
	static const char *const CASES[][2] = {
		{ "", "not valid JSON" },
		{ "[]", "no mapping" },
		{ "7", "no mapping" },
		{ HASHED(2, 2, "{}"), "schedulePortEnd is not above schedulePortStart" },
		{ HASHED(3, 2, "{}"), "schedulePortEnd is not above schedulePortStart" },
		{ HASHED(0, 2, "{}"), "schedulePortStart is no number from 1" },
		{ HASHED(1, 65537, "{}"), "schedulePortEnd is no number" },
		{ HASHED(1.5, 3, "{}"), "schedulePortStart is no number" },
		{ HASHED("1", 3, "{}"), "schedulePortStart is no number" },
		{ HASHED(1, 3, "[]"), "no mapping" },
		{ HASHED(1, 3, "{\"a\":{\"count\":-1}}"), "\"a\": count is no number" },
		{ HASHED(1, 3, "{\"a\":{\"count\":1.5}}"), "\"a\": count is no number" },
		{ HASHED(1, 3, "{\"a\":{\"count\":true}}"), "\"a\": count is no number" },
		{ HASHED(1, 3, "{\"a\":{}}"), "\"a\": count is no number" },
		{ HASHED(1, 3, "{\"a\":1}"), "\"a\": count is no number" },
		{ HASHED(1, 3, "{\"a\":{\"count\":1},\"a\":{\"count\":1}}"), "a" },
		{ HASHED(1, 3, "{\"a\":{\"count\":40000},\"b\":{\"count\":40000}}"),
		  "more than 65536 ports" },
		{ "{\"schedulePortStart\":1,\"ports\":{}}", "\"schedulePortStart\": count" },
		{ "{\"a\":{\"count\":1}}", "\"a\": start is no number" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++)
		refused(CASES[i][0], 0, CASES[i][1]);
}

/* The last port of the last task decides. */
TEST(test_portspec_read_sequence_above_65535)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	struct portspec p;
	const char *json = "{\"a\":{\"start\":65000,\"count\":67}}";
	assert_int_equal(portspec_read(json, 7, &a, &p, &e), 0); /* 65000 + 8 * 67 is 65536 */
	refused(json, 8, "ports above 65535");
	refused("{\"a\":{\"start\":65535,\"count\":65535}}", INT64_MAX / 2, "ports above 65535");
}

TEST(test_portspec_name_ok)
{
	static const char *const GOOD[] = { "a", "_", "Z9_", "http", "p2p" };
	static const char *const BAD[] = { "", "9", "a-b", "a b", "a'", "a\nb", "\xc3\xa4", "a$" };
	for (size_t i = 0; i < sizeof(GOOD) / sizeof(GOOD[0]); i++)
		assert_true(portspec_name_ok(GOOD[i]));
	for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
		assert_false(portspec_name_ok(BAD[i]));
}

int main(void)
{
	static const struct CMUnitTest TESTS[] = {
		cmocka_unit_test(test_portspec_port_hashed),
		cmocka_unit_test(test_portspec_port_range_of_one),
		cmocka_unit_test(test_portspec_port_sequential),
		cmocka_unit_test(test_portspec_read_keeps_the_order),
		cmocka_unit_test(test_portspec_read_none),
		cmocka_unit_test(test_portspec_read_refuses),
		cmocka_unit_test(test_portspec_read_sequence_above_65535),
		cmocka_unit_test(test_portspec_name_ok),
	};
	return cmocka_run_group_tests(TESTS, NULL, NULL);
}
