/* The submitted job as JSON without secrets, stored by any server. */

#include "tests/unit/base/cmocka.h"

#include "server/jobs/jobs_internal.h"

static const struct {
	const char *text, *json; /* NULL: it is no job */
} ROWS[] = {
	{ "{}", "{}" },
	{ "a: 1\nb: [x, '1', 1.10, 0x10, true, ~, 2001-02-03]\n",
	  "{\"a\":1,\"b\":[\"x\",\"1\",1.1,16,true,null,\"2001-02-03\"]}" },
	{ "{\"n\": 9007199254740993, \"f\": 1e21, \"z\": 1.0} // as JavaScript has it",
	  "{\"n\":9007199254740992,\"f\":1e+21,\"z\":1}" },
	{ "a: &x {k: v}\nb: *x\n", "{\"a\":{\"k\":\"v\"},\"b\":{\"k\":\"v\"}}" },
	{ "secrets: {password: hunter2}\nname: x\n", "{\"secrets\":\"******\",\"name\":\"x\"}" },
	{ "secrets: \"******\"\n", "{\"secrets\":\"******\"}" },
	{ "secrets: ~\n", "{\"secrets\":\"******\"}" },
	{ "a: {secrets: shown}\n", "{\"a\":{\"secrets\":\"shown\"}}" },
	{ "prerequisites: [{auth: {username: u, password: p, registryuri: r, x: ~}}]",
	  "{\"prerequisites\":[{\"auth\":{\"username\":\"******\",\"password\":\"******\","
	  "\"registryuri\":\"r\",\"x\":null}}]}" },
	{ "prerequisites: [{auth: {password: <% $secrets.p %>, y: <% $parameters.p %>, z: {a: "
	  "b}}}]",
	  "{\"prerequisites\":[{\"auth\":{\"password\":\"<% $secrets.p %>\",\"y\":\"******\","
	  "\"z\":\"******\"}}]}" },
	{ "prerequisites: [{auth: hunter2, name: n}, 7]",
	  "{\"prerequisites\":[{\"auth\":\"******\",\"name\":\"n\"},7]}" },
	{ "prerequisites: {auth: hunter2, i: 1}",
	  "{\"prerequisites\":{\"auth\":\"******\",\"i\":1}}" },
	{ "prerequisites: text", "{\"prerequisites\":\"text\"}" },
	{ "", NULL },
	{ "[1]", NULL },
	{ "text", NULL },
	{ "a: [", NULL },
	{ "\xff", NULL },
};

TEST(test_config_json_has_no_secrets)
{
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		STR_AUTO out = STR_INIT(1000);
		bool good = config_json(&out, span_of(ROWS[i].text), &unit.a);
		assert_int_equal(good, ROWS[i].json != NULL);
		if (good)
			assert_string_equal(str_c(&out), ROWS[i].json);
	}
}
