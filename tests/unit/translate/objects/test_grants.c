/* Grants of the profile plain: the request in the job, the facts, and the pod. */
#include "tests/unit/translate/build_kit.h"
#include "tests/unit/translate/facts_kit.h"

#include "schema/schema.h"

enum { ALL = GRANT_FUSE | GRANT_HOST_NETWORK | GRANT_INFINIBAND };

FIXTURE(set_up_schemas)
{
	schema_init();
	return 0;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* The job with these extraContainerOptions, or NULL. */
static struct job *read_options(const char *options, struct arena *a, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	struct settings set;
	translate_settings_default(&set);
	struct translator *t = translator_new(&set, NULL, e);
	const char *text =
	    arena_printf(a,
	                 "protocolVersion: 2\nname: j\ntype: job\n"
	                 "prerequisites: [{name: i, type: dockerimage, uri: ubuntu}]\n"
	                 "taskRoles:\n  w:\n    dockerImage: i\n    commands: [x]\n"
	                 "    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}\n"
	                 "    extraContainerOptions: {%s}\n",
	                 options);
	struct job *job = job_read(t, DIALECT_V2, span_of(text), "alice", a, &warnings, e);
	translator_free(t);
	return job;
}

TEST(test_read_gives_the_grants_a_role_asks_for)
{
	static const struct {
		const char *options;
		unsigned wants;
	} CASES[] = {
		{ "", 0 },
		{ "shmMB: 8", 0 },
		{ "fuse: false, hostNetwork: false, infiniband: false", 0 },
		{ "fuse: true", GRANT_FUSE },
		{ "hostNetwork: true", GRANT_HOST_NETWORK },
		{ "infiniband: true, fuse: true", GRANT_FUSE | GRANT_INFINIBAND },
		{ "anything: {else: 1}", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		const struct job *job = read_options(CASES[i].options, &unit.a, no_err());
		assert_non_null(job);
		assert_int_equal(job->roles[0].wants, CASES[i].wants);
	}
}

TEST(test_read_keeps_the_place_of_a_requested_grant)
{
	const struct job *job = read_options("shmMB: 8, fuse: true", &unit.a, no_err());
	assert_non_null(job);
	const struct place *where = &job->roles[0].wants_where[0];
	assert_string_equal(where->at, "/taskRoles/w/extraContainerOptions/fuse");
	assert_int_equal(where->line, 10);
	assert_int_equal(where->column, 45);
}

TEST(test_read_refuses_grants_that_are_no_booleans)
{
	static const char *const CASES[] = { "fuse: \"true\"", "hostNetwork: 1",
		                             "infiniband: yes please" };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		assert_null(read_options(CASES[i], &unit.a, no_err()));
		assert_int_equal(unit.e.http, 400);
		assert_int_equal(unit.e.notes.n, 1);
		assert_int_equal(unit.e.notes.v[0].line, 10);
	}
}

/* ---- granting ------------------------------------------------------------------------------- */

TEST(test_facts_give_the_grants_of_a_user)
{
	static const struct {
		const char *file;
		unsigned grants;
	} CASES[] = {
		{ "", 0 },
		{ "users: {bob: {}}", 0 },
		{ "overlays: []", 0 },
		{ "overlays: [fuse]", GRANT_FUSE },
		{ "users: {bob: {overlays: [hostNetwork, fuse]}}",
		  GRANT_HOST_NETWORK | GRANT_FUSE },
		{ "users: {eve: {overlays: [fuse]}}", 0 },
		{ "groups: {g: {overlays: [infiniband]}}\nusers: {bob: {groups: [g]}}",
		  GRANT_INFINIBAND },
		{ "groups: {g: {overlays: [infiniband]}}\nusers: {bob: {}}", 0 },
		/* of all of them together */
		{ "overlays: [fuse]\ngroups: {g: {overlays: [infiniband]}, h: {}}\n"
		  "users: {bob: {groups: [h, g], overlays: [hostNetwork]}}",
		  ALL },
		/* administrators have none by being that */
		{ "groups: {g: {admin: true}}\nusers: {bob: {groups: [g]}}", 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct facts f;
		if (facts_read(span_of(CASES[i].file), "bob", &unit.a, &f, no_err()) < 0)
			fail_msg("%s", err_msg(&unit.e));
		assert_int_equal(f.grants, CASES[i].grants);
	}
}

TEST(test_facts_with_unknown_grants_are_refused)
{
	static const char *const CASES[] = { "overlays: [fuze]", "overlays: fuse",
		                             "groups: {g: {overlays: [sudo]}}",
		                             "users: {bob: {overlays: [Infiniband]}}" };
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct facts f;
		assert_int_equal(facts_read(span_of(CASES[i]), "bob", &unit.a, &f, no_err()), -1);
		assert_int_equal(unit.e.notes.v[0].line, 1);
	}
}

/* ---- in the pod ----------------------------------------------------------------------------- */

static void ask(struct bench *b, enum profile profile, unsigned wants, unsigned grants)
{
	set_up(b, profile);
	b->role[0].wants = wants;
	b->role[0].wants_where[0] = (struct place){ "/taskRoles/x/fuse", 9, 2 };
	b->role[0].wants_where[1] = (struct place){ "/taskRoles/x/hostNetwork", 9, 20 };
	b->role[0].wants_where[2] = (struct place){ "/taskRoles/x/infiniband", 9, 40 };
	b->facts.grants = grants;
}

TEST(test_build_refuses_options_that_are_not_granted)
{
	BENCH(b, ask, PROFILE_PLAIN, ALL, GRANT_HOST_NETWORK);
	refused(&b, 403);
	assert_string_equal(b.e.code, "ForbiddenUserError");
	assert_int_equal(b.e.notes.n, 2);
	assert_string_equal(b.e.notes.v[0].at, "/taskRoles/x/fuse");
	assert_string_equal(b.e.notes.v[0].msg,
	                    "`fuse` is not granted to alice; an administrator can grant it to a "
	                    "user or a group, by `overlays: [fuse]`");
	assert_string_equal(b.e.notes.v[1].at, "/taskRoles/x/infiniband");
}

TEST(test_build_plain_grants_one_by_one)
{
	for (unsigned wants = 0; wants <= ALL; wants++) {
		BENCH(b, ask, PROFILE_PLAIN, wants, wants);
		json_auto_t *v = built_object(&b, 0);
		json_t *limits = at(v, APP "resources/limits");
		json_t *security = at(v, APP "securityContext");
		json_t *add = at(security, "capabilities/add");
		assert_int_equal(json_is_true(at(v, POD "hostNetwork")),
		                 (wants & GRANT_HOST_NETWORK) != 0);
		assert_int_equal(at(v, POD "dnsPolicy") != NULL, (wants & GRANT_HOST_NETWORK) != 0);
		assert_int_equal(json_object_get(limits, "github.com/fuse") != NULL,
		                 (wants & GRANT_FUSE) != 0);
		assert_int_equal(json_is_true(at(security, "allowPrivilegeEscalation")),
		                 (wants & GRANT_FUSE) != 0);
		assert_int_equal(json_object_get(limits, "rdma/hca") != NULL,
		                 (wants & GRANT_INFINIBAND) != 0);
		assert_int_equal(json_array_size(add),
		                 ((wants & GRANT_FUSE) != 0) + ((wants & GRANT_INFINIBAND) != 0));
		/* init gets nothing of it */
		assert_null(at(v, INIT "securityContext/capabilities/add"));
	}
}

TEST(test_build_openpai_needs_no_grants)
{
	json_t *pods[2] = { NULL, NULL };
	for (unsigned i = 0; i < 2; i++) {
		BENCH(b, ask, PROFILE_OPENPAI, i ? GRANT_FUSE | GRANT_HOST_NETWORK : 0, 0);
		built(&b);
		pods[i] = object(&b, 0);
	}
	assert_true(json_is_true(at(pods[0], POD "hostNetwork")));
	assert_true(json_equal(pods[0], pods[1]));
	json_decref(pods[0]);
	json_decref(pods[1]);
	BENCH(b, ask, PROFILE_OPENPAI, GRANT_INFINIBAND, 0);
	json_auto_t *v = built_object(&b, 0);
	assert_int_equal(json_integer_value(at(at(v, APP "resources/limits"), "cpu")), 4);
	assert_non_null(json_object_get(at(v, APP "resources/limits"), "rdma/hca"));
}

TEST_GROUP(set_up_schemas, NULL)
