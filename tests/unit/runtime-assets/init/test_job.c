/* The job: its text, roles and prerequisites. */
#include "runtime-assets/init/init.h"

#include "tests/unit/base/cmocka.h"

struct world {
	struct arena a;
	struct init_job job;
	struct str problem;
};

static struct world read_job(const char *config, const char *role)
{
	struct world w = { .problem = STR_INIT(1000) };
	w.job.role_name = role;
	job_parse_config(&w.job, span_of(config), &w.a, &w.problem);
	return w;
}

static void done(struct world *w)
{
	str_done(&w->problem);
	arena_done(&w->a);
}

static const char V2[] = "protocolVersion: 2\n"
			 "prerequisites:\n"
			 "  - {type: dockerimage, name: img, uri: 'u:1'}\n"
			 "  - {type: data, name: set, uri: [x]}\n"
			 "  - {type: script, name: set}\n"
			 "  - {type: data, name: twice}\n"
			 "  - {type: data, name: twice}\n"
			 "taskRoles:\n"
			 "  Task-Role.1: {instances: 1}\n"
			 "  worker: {instances: 2}\n";

TEST(test_job_read_finds_the_role)
{
	AUTO(done) struct world w = read_job(V2, "worker");
	assert_string_equal(str_c(&w.problem), "");
	assert_int_equal(node_get(w.job.role, "instances")->integer, 2);
}

TEST(test_job_read_finds_a_role_by_its_exact_name_only)
{
	AUTO(done) struct world w = read_job(V2, "Worker");
	assert_null(w.job.role);
}

TEST(test_job_read_without_a_role_name_has_no_role)
{
	AUTO(done) struct world w = read_job(V2, NULL);
	assert_null(w.job.role);
	assert_true(node_is(&w.job.doc.root, NODE_MAP));
}

TEST(test_job_read_finds_roles_of_v1)
{
	struct world w =
	    read_job("{\"taskRoles\": [{}, {\"name\": \"a_b\", \"taskNumber\": 3}]}", "a_b");
	assert_int_equal(node_get(w.job.role, "taskNumber")->integer, 3);
	assert_string_equal(job_role_spelling(&w.job, "ab", &w.a), "a_b");
	done(&w);
}

static void unreadable(const char *config, const char *why)
{
	AUTO(done) struct world w = read_job(config, "worker");
	assert_non_null(strstr(str_c(&w.problem), why));
	assert_int_equal(w.job.doc.root.type, NODE_NULL);
	assert_null(w.job.role);
	assert_null(job_role_spelling(&w.job, "worker", &w.a));
	assert_null(job_prerequisite(&w.job, NULL, SPAN("img")));
}

TEST(test_job_read_errors_name_the_problem)
{
	unreadable("", "no job configuration");
	unreadable(" \n", "no job configuration");
	unreadable("[1]", "no mapping");
	unreadable("b: 1\na: [1", "line 3");
	unreadable("taskRoles: {a: 1, a: 2}", "taskRoles");
}

TEST(test_job_read_ignores_malformed_roles)
{
	static const char *const ODD[] = { "taskRoles: worker", "taskRoles: [worker]",
		                           "taskRoles: 3", "taskRoles:", "taskRoles: [{name: 1}]" };
	for (size_t i = 0; i < sizeof(ODD) / sizeof(*ODD); i++) {
		AUTO(done) struct world w = read_job(ODD[i], "worker");
		assert_string_equal(str_c(&w.problem), "");
		assert_null(w.job.role);
		assert_null(job_role_spelling(&w.job, "worker", &w.a));
	}
}

TEST(test_job_role_spelling_gives_the_name_in_the_job)
{
	AUTO(done) struct world w = read_job(V2, NULL);
	assert_string_equal(job_role_spelling(&w.job, "taskrole1", &w.a), "Task_Role_1");
	assert_string_equal(job_role_spelling(&w.job, "worker", &w.a), "worker");
	assert_null(job_role_spelling(&w.job, "taskrole", &w.a));
	assert_null(job_role_spelling(&w.job, "taskrole12", &w.a));
	assert_null(job_role_spelling(&w.job, "", &w.a));
}

TEST(test_job_role_spelling_replaces_characters_beyond_ascii)
{
	AUTO(done) struct world w = read_job("taskRoles: {w\xc3\xa9: {}}", NULL);
	assert_string_equal(job_role_spelling(&w.job, "w", &w.a), "w__");
}

TEST(test_job_prerequisite_is_found_by_type_and_name)
{
	AUTO(done) struct world w = read_job(V2, NULL);
	assert_string_equal(
	    node_get(job_prerequisite(&w.job, "dockerimage", SPAN("img")), "uri")->text, "u:1");
	assert_non_null(job_prerequisite(&w.job, NULL, SPAN("img")));
	assert_null(job_prerequisite(&w.job, "data", SPAN("img")));
	assert_null(job_prerequisite(&w.job, NULL, SPAN("im")));
}

TEST(test_job_prerequisite_must_be_the_only_one)
{
	AUTO(done) struct world w = read_job(V2, NULL);
	assert_null(job_prerequisite(&w.job, "data", SPAN("twice")));
	assert_null(job_prerequisite(&w.job, NULL, SPAN("set")));
	assert_non_null(job_prerequisite(&w.job, "data", SPAN("set")));
}
