/* The parameter dryRun of a query, and misspellings that are not ignored. */

#include "tests/unit/base/cmocka.h"

#include "base/err.h"
#include "server/http/query.h"
#include "server/submit/submit_internal.h"

TEST(test_query_next_decodes_names_and_values)
{
	static const struct {
		const char *name, *value; /* NULL: no `=` */
	} WANT[] = { { "a", "1" }, { "b c", "&=" }, { "d", NULL },
		     { "", "x" },  { "e", "" },     { "f%zz", "%4" } };
	struct span rest = SPAN("a=1&&b+c=%26%3D&d&=x&e=&f%zz=%4&");
	struct span name;
	struct span value;
	for (size_t i = 0; i < ARRAY_SIZE(WANT); i++) {
		assert_true(query_next(&rest, &unit.a, &name, &value));
		assert_true(span_is(name, WANT[i].name));
		assert_int_equal(value.p != NULL, WANT[i].value != NULL);
		if (value.p && WANT[i].value)
			assert_true(span_is(value, WANT[i].value));
	}
	assert_false(query_next(&rest, &unit.a, &name, &value));
	assert_false(query_next(&rest, &unit.a, &name, &value));
}

TEST(test_dry_run_read_takes_the_known_values)
{
	static const struct {
		const char *query;
		enum dry_run means;
	} CASES[] = {
		{ "", DRY_RUN_NO },
		{ "dryRun=false", DRY_RUN_NO },
		{ "dryRun=true", DRY_RUN_HERE },
		{ "dryRun=server", DRY_RUN_SERVER },
		{ "dryRun=All", DRY_RUN_SERVER },
		{ "x=1&dryRun=true&y", DRY_RUN_HERE },
		{ "%64ryRu%6e=tru%65", DRY_RUN_HERE },
		{ "drain=true&run=1&dry=1&DRY&r=dryrun&try=dryRun", DRY_RUN_NO },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		enum dry_run is = DRY_RUN_SERVER + 1;
		assert_int_equal(dry_run_read(CASES[i].query, &unit.a, &is, no_err()), 0);
		assert_int_equal(is, CASES[i].means);
	}
}

static void refused(const char *query, const char *says)
{
	enum dry_run is = DRY_RUN_NO;
	if (dry_run_read(query, &unit.a, &is, no_err()) == 0)
		fail_msg("%s is taken", query);
	assert_int_equal(unit.e.http, 400);
	assert_string_equal(unit.e.code, "InvalidParametersError");
	assert_non_null(strstr(err_msg(&unit.e), says));
}

TEST(test_dry_run_read_refuses_other_values)
{
	static const char *const VALUES[] = {
		"dryRun",     "dryRun=",     "dryRun=True",  "dryRun=1",       "dryRun=yes",
		"dryRun=all", "dryRun=none", "dryRun=true ", "dryRun=true%00", "dryRun=true,server"
	};
	for (size_t i = 0; i < ARRAY_SIZE(VALUES); i++)
		refused(VALUES[i], "true, server, All");
	refused("dryRun=true&dryRun=true", "repeated");
	refused("dryRun=false&a=b&dryRun=false", "repeated");
}

TEST(test_dry_run_read_refuses_misspelt_names)
{
	static const char *const NAMES[] = {
		"dryrun=true",     "DryRun=true",     "DRYRUN=true",    "dry_run=true",
		"dry-run=true",    "dry%5Frun=true",  "dry+run=true",   "--dry-run=server",
		"?dryRun=true",    "amp;dryRun=true", "dryRun%3Dtrue",  "dryRuns=true",
		"dryRn=true",      "dyrRun=true",     "dryrun",         "a=b?dryRun=true",
		"a=b;dryRun=true", "dryRun[]=true",   "dryRun%00=true", "isDryRun=true",
		"dryRun =true",    "dryrun=false",    "q=&drYrUn",      "drurun=1",
	};
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
		refused(NAMES[i], "nothing was submitted");
}
