/* Ports of tasks: the numbers that OpenPAI's runtime computes, and malformed annotations. */
#include "base/pod/portspec.h"

#include "tests/unit/base/cmocka.h"

#define HASHED(start, end, ports)                                                                  \
	"{\"schedulePortStart\":" #start ",\"schedulePortEnd\":" #end ",\"ports\":" ports "}"

static struct portspec read_good(const char *json, struct arena *a)
{
	struct portspec p;
	if (portspec_read(span_of(json), 9, a, &p, no_err()) < 0)
		fail_msg("%s: %s", json, err_msg(&unit.e));
	return p;
}

static void refused(const char *json, int64_t last, const char *why)
{
	struct portspec p;
	if (portspec_read(span_of(json), last, &unit.a, &p, no_err()) == 0)
		fail_msg("%s is taken", json);
	if (!strstr(err_msg(&unit.e), why))
		fail_msg("%s: %s", json, err_msg(&unit.e));
}

TEST(test_port_hashed_equals_the_ports_of_openpai)
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
		{ "uid", "x", 0, 65535, 65536, 65535 }, /* the end is not one of the ports */
		{ "uid", "x", 99, 65535, 65536, 65535 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_int_equal(port_hashed((struct port_range){ CASES[i].start, CASES[i].end },
		                             span_of(CASES[i].uid), span_of(CASES[i].label),
		                             CASES[i].i),
		                 CASES[i].port);
}

TEST(test_portspec_read_keeps_the_order)
{
	struct portspec p = read_good(
	    HASHED(1, 2, "{\"z\":{\"count\":2},\"a\":{\"count\":0},\"m\":{\"count\":1.0}}"),
	    &unit.a);
	assert_false(p.sequential);
	assert_int_equal(p.n, 3);
	assert_string_equal(p.label[0].name, "z");
	assert_string_equal(p.label[2].name, "m");
	assert_int_equal(p.total, 3);
}

TEST(test_portspec_read_takes_an_empty_object)
{
	assert_int_equal(read_good(HASHED(1, 2, "{}"), &unit.a).n, 0);
	assert_int_equal(read_good("{}", &unit.a).n, 0);
}

TEST(test_portspec_read_refuses_invalid_ranges_and_types)
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
		{ HASHED(1, 3, "{\"a\":{\"count\":1},\"a\":{\"count\":1}}"),
		  "\"a\": it is there twice" },
		{ HASHED(1, 3, "{\"a\":{\"count\":40000},\"b\":{\"count\":40000}}"),
		  "more than 65536 ports" },
		{ "{\"schedulePortStart\":1,\"ports\":{}}", "\"schedulePortStart\": count" },
		{ "{\"a\":{\"count\":1}}", "\"a\": start is no number" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		refused(CASES[i][0], 0, CASES[i][1]);
}

/* The result has the valid ports; the error names the first invalid one. */
TEST(test_portspec_read_keeps_valid_ports_beside_an_error)
{
	struct portspec p;
	STR_AUTO long_name = STR_INIT(1000);
	str_puts(&long_name, "{\"");
	while (long_name.n < 2 + PORT_LABEL_MAX + 1)
		str_char(&long_name, 'x');
	str_puts(&long_name, "\":{\"start\":1,\"count\":1},\"a\":7,"
	                     "\"b\":{\"start\":1,\"count\":1},\"c\":{\"count\":1}}");
	assert_int_equal(portspec_read(str_view(&long_name), -1, &unit.a, &p, no_err()), -1);
	assert_non_null(strstr(err_msg(&unit.e), "no name of up to 256 bytes"));
	assert_int_equal(p.n, 1);
	assert_string_equal(p.label[0].name, "b");
	assert_int_equal(p.total, 1);
}

/* The last port of the last task decides. */
TEST(test_portspec_read_refuses_sequences_above_65535)
{
	struct portspec p;
	const char *json = "{\"a\":{\"start\":65000,\"count\":67}}";
	assert_int_equal(portspec_read(span_of(json), 7, &unit.a, &p, no_err()),
	                 0); /* 65000 + 8 * 67 is 65536 */
	refused(json, 8, "ports above 65535");
	refused("{\"a\":{\"start\":65535,\"count\":65535}}", INT64_MAX / 2, "ports above 65535");
	json = "{\"a\":{\"start\":65535,\"count\":3}}";
	assert_int_equal(portspec_read(span_of(json), -1, &unit.a, &p, no_err()),
	                 0); /* not asked for */
}
