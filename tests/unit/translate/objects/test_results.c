/* Pods of jobs that have results. */
#include "tests/unit/translate/build_kit.h"

static const struct storage_fact STORAGES[] = {
	{ .name = { "slow", 4 }, .share = true },
	{ .name = { "read", 4 }, .is_default = true, .share = true, .read_only = true },
	{ .name = { "nfs", 3 }, .is_default = true, .share = true },
	{ .name = { "own", 3 }, .is_default = true },
};

static void give_results(struct bench *b, enum results_place place)
{
	set_up(b, PROFILE_PLAIN);
	b->set.results = place;
	b->facts.storages = STORAGES;
	b->facts.n_storages = ARRAY_SIZE(STORAGES);
	b->job.results = (struct job_results){ .wanted = true,
		                               .path = SPAN("/src/results"),
		                               .link = SPAN("x"),
		                               .where = { "/extras/results", 9, 3 } };
}

/* The mount at /src/results. */
static json_t *results_mount(json_t *framework)
{
	size_t i = 0;
	json_t *v = NULL;
	json_array_foreach (at(framework, APP "volumeMounts"), i, v)
		if (strcmp(json_string_value(json_object_get(v, "mountPath")), "/src/results") == 0)
			return v;
	fail_msg("no mount");
	return NULL;
}

static const char *results_claim(json_t *framework)
{
	const char *volume = json_string_value(json_object_get(results_mount(framework), "name"));
	return json_string_value(
	    at(named(at(framework, POD "volumes"), volume), "persistentVolumeClaim/claimName"));
}

TEST(test_results_of_one_machine_are_a_claim_of_their_own)
{
	BENCH(b, give_results, RESULTS_ON_MACHINE);
	b.job.code =
	    (struct job_code){ .sha256 = SPAN("0123456789abcdef0123456789abcdef0123456789ab"
		                              "cdef0123456789abcdef"),
		               .path = SPAN("/src") };
	OBJECT_AUTO *f = built_object(&b, 0);
	assert_string_equal(results_claim(f), "rest-lit-results");
	assert_null(json_object_get(results_mount(f), "subPath"));
	assert_string_equal(env(f, APP, "PAI_RESULTS_DIR"), "/src/results");
	assert_string_equal(env(f, INIT, "PAI_RESULTS_DIR"), "/src/results");
	assert_string_equal(env(f, APP, "PAI_RESULTS_LINK"), "x");
	assert_int_equal(json_array_size(at(f, INIT "volumeMounts")), 6); /* no results */
}

TEST(test_results_of_a_cluster_are_in_the_first_default_storage_to_write_to)
{
	BENCH(b, give_results, RESULTS_IN_STORAGE);
	OBJECT_AUTO *f = built_object(&b, 0);
	assert_string_equal(results_claim(f), "nfs");
	FREE_AUTO char *want =
	    xasprintf("rest-lit-results/alice/%.*s", (int)b.job.name.n, b.job.name.p);
	assert_text(results_mount(f), "subPath", want);
	/* One that is mounted, too, has one volume; one of a user's own is that of the user. */
	BENCH(own, give_results, RESULTS_IN_STORAGE);
	own.facts.storages = STORAGES + 3;
	own.facts.n_storages = 1;
	own.job.storages_default = true;
	OBJECT_AUTO *g = built_object(&own, 0);
	FREE_AUTO char *below =
	    xasprintf("alice/rest-lit-results/alice/%.*s", (int)own.job.name.n, own.job.name.p);
	assert_text(results_mount(g), "subPath", below);
	assert_text(named(at(g, APP "volumeMounts"), "own-volume"), "subPath", "alice");
	size_t n = 0;
	size_t i = 0;
	json_t *v = NULL;
	json_array_foreach (at(g, POD "volumes"), i, v)
		n += json_object_get(v, "persistentVolumeClaim") != NULL;
	assert_int_equal(n, 1);
}

TEST(test_results_without_a_place_are_400)
{
	BENCH(none, give_results, RESULTS_IN_STORAGE);
	none.facts.n_storages = 2;
	refused(&none, 400);
	assert_int_equal(none.e.notes.v[0].line, 9);
	assert_non_null(strstr(none.e.notes.v[0].msg, "alice has no default storage"));
	BENCH(off, give_results, RESULTS_NOWHERE);
	refused(&off, 400);
	assert_non_null(strstr(off.e.notes.v[0].msg, "--keep-results none"));
	BENCH(twice, give_results, RESULTS_ON_MACHINE);
	const struct storage_request same = { .name = { "nfs", 3 },
		                              .mount_path = SPAN("/src/results/") };
	twice.job.storages = &same;
	twice.job.n_storages = 1;
	refused(&twice, 400);
}

TEST(test_job_without_results_names_none)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	b.set.results = RESULTS_ON_MACHINE;
	built(&b);
	assert_null(memmem(b.out.v[0].body.p, b.out.v[0].body.n, "RESULTS", 7));
	assert_null(memmem(b.out.v[0].body.p, b.out.v[0].body.n, "results", 7));
}
