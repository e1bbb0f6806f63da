/* Identifiers of jobs in requests. */

#include "tests/unit/base/cmocka.h"

#include "base/enc.h"
#include "server/jobs/jobs_internal.h"

/* USER~NAME is the MD5 of all of it; only the first ~ splits. */
TEST(test_read_splits_an_id_at_the_first_tilde)
{
	struct job_id id;
	char hash[33];
	md5_hex(hash, SPAN("alice~mnist~2"));
	assert_true(job_id_read(SPAN("alice~mnist~2"), &unit.a, &id));
	assert_true(span_is(id.user, "alice") && span_is(id.job, "mnist~2"));
	assert_string_equal(id.name, hash);
	assert_null(id.alias);
}

TEST(test_read_refuses_ids_without_user_or_name)
{
	struct job_id id;
	static const char *const IDS[] = { "", "~x", "alice~", "-a~x", "a b~x", "---", "~" };
	for (size_t i = 0; i < ARRAY_SIZE(IDS); i++)
		if (job_id_read(span_of(IDS[i]), &unit.a, &id))
			fail_msg("\"%s\" is the id of a job", IDS[i]);
	char *long_id = arena_alloc(&unit.a, JOB_ID_MAX + 1);
	memset(long_id, 'a', JOB_ID_MAX + 1);
	assert_false(job_id_read((struct span){ long_id, JOB_ID_MAX + 1 }, &unit.a, &id));
}

/* Frameworks of other programs have their own name, or one by OpenPAI's rule. */
TEST(test_read_accepts_names_of_other_frameworks)
{
	static const struct {
		const char *id, *name, *alias;
	} ROWS[] = {
		{ "train", "train", NULL },
		{ "my-train", "my-train", "mytrain" },
		{ "My_Train", NULL, "mytrain" },
		{ "unknownTrain", NULL, "train" },
		{ "unknowntrain", "unknowntrain", "train" },
		{ "../x", NULL, "x" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		struct job_id id;
		assert_true(job_id_read(span_of(ROWS[i].id), &unit.a, &id));
		assert_null(id.user.p);
		if (ROWS[i].name)
			assert_string_equal(id.name, ROWS[i].name);
		else
			assert_null(id.name);
		if (ROWS[i].alias)
			assert_string_equal(id.alias, ROWS[i].alias);
		else
			assert_null(id.alias);
	}
}

/* {user} and {job}: user names have no ~. */
TEST(test_pair_refuses_a_tilde_in_the_user)
{
	struct job_id id;
	char hash[33];
	md5_hex(hash, SPAN("bob~x.y"));
	assert_true(job_id_pair(SPAN("bob"), SPAN("x.y"), &unit.a, &id));
	assert_string_equal(id.name, hash);
	assert_false(job_id_pair(SPAN("bob~x"), SPAN("y"), &unit.a, &id));
	assert_false(job_id_pair(SPAN("bob"), SPAN(""), &unit.a, &id));
}

/* The stored names decide, not the name of the object. */
TEST(test_fits_compares_the_stored_names)
{
	struct job_id id;
	const struct job_entry edge = { .user = "alice", .job = "edge", .name = "0123" };
	const struct job_entry other = {
		.user = "", .maker = "", .job = "train", .name = "train", .legacy = true
	};
	const struct job_entry owned = { .user = "bob", .job = "t", .name = "t", .legacy = true };
	assert_true(job_id_read(SPAN("alice~edge"), &unit.a, &id));
	assert_true(job_id_fits(&id, &edge, false));
	assert_true(job_id_read(SPAN("unknown~0123"), &unit.a, &id));
	assert_false(job_id_fits(&id, &edge, false));
	assert_true(job_id_read(SPAN("alice~Edge"), &unit.a, &id));
	assert_false(job_id_fits(&id, &edge, false));
	assert_true(job_id_read(SPAN("0123"), &unit.a, &id)); /* that of a job is not its id */
	assert_false(job_id_fits(&id, &edge, false));
	assert_false(job_id_fits(&id, &edge, true));
	assert_true(job_id_fits(&id, &other, false));
	assert_true(job_id_fits(&id, &other, true));
	assert_true(job_id_pair(SPAN("unknown"), SPAN("train"), &unit.a, &id));
	assert_true(job_id_fits(&id, &other, true));
	assert_false(job_id_fits(&id, &owned, true));
	assert_true(job_id_pair(SPAN("bob"), SPAN("train"), &unit.a, &id));
	assert_false(job_id_fits(&id, &other, true));
	assert_true(job_id_fits(&id, &owned, true));
}
