/* Large jobs: the environment moves to a ConfigMap; jobs that are too large in spite of it. */
#include "tests/unit/translate/build_kit.h"

static void large(struct bench *b, unsigned dialect, size_t roles)
{
	set_up(b, PROFILE_PLAIN);
	b->job.dialect = dialect_get(dialect);
	b->job.n_roles = roles;
	b->job.name = SPAN("\xe8\xae\xad\xe7\xbb\x83");
	b->job.id = SPAN("alice~\xe8\xae\xad\xe7\xbb\x83");
	b->job.data_dir = SPAN("hdfs://\xe6\x95\xb0\xe6\x8d\xae/$(HOME)/$$/\"\\");
	b->job.code_dir = SPAN("$$$(a)$");
}

/* Expands a value in `env` like the kubelet: `$$` becomes `$`; there are no references here. */
static void assert_same_value(const char *in_env, const char *in_map)
{
	STR_AUTO text = STR_INIT(1 << 16);
	for (const char *p = in_env; *p; p++) {
		assert_false(p[0] == '$' && p[1] == '(');
		p += p[0] == '$' && p[1] == '$';
		str_char(&text, *p);
	}
	assert_string_equal(str_c(&text), in_map);
}

/* Every variable of a container is in its list or in the map, with the same value. */
static size_t assert_same_env(json_t *whole, json_t *rest, json_t *data)
{
	size_t i = 0;
	size_t kept = 0;
	size_t moved = 0;
	json_t *v = NULL;
	json_array_foreach (whole, i, v) {
		const char *name = json_string_value(json_object_get(v, "name"));
		json_t *there = json_array_get(rest, kept);
		const char *value = json_string_value(json_object_get(data, name));
		bool stays = json_equal(v, there);
		assert_true(stays != (value != NULL));
		kept += stays;
		moved += !stays;
		if (!stays)
			assert_same_value(json_string_value(json_object_get(v, "value")), value);
	}
	assert_int_equal(kept, json_array_size(rest));
	assert_int_equal(moved, json_object_size(data));
	return moved;
}

static void check_move(unsigned dialect, size_t roles)
{
	BENCH(inside, large, dialect, roles);
	BENCH(moved, large, dialect, roles);
	inside.set.max_env_inline = 64 << 20;
	inside.set.max_object = 64 << 20;
	moved.set.max_env_inline = 0;
	built(&inside);
	built(&moved);
	assert_int_equal(inside.out.n, 1);
	assert_int_equal(moved.out.n, 2);
	OBJECT_AUTO *whole = object(&inside, 0);
	OBJECT_AUTO *map = object(&moved, 0);
	OBJECT_AUTO *f = object(&moved, 1);
	static const char *const CONTAINERS[] = { "containers", "initContainers" };
	for (size_t i = 0; i < roles; i++) {
		for (size_t k = 0; k < 2; k++) {
			char *path = xasprintf("spec/taskRoles/%zu/task/pod/spec/%s/0/env", i,
			                       CONTAINERS[k]);
			size_t n = assert_same_env(at(whole, path), at(f, path), at(map, "data"));
			assert_true(n >= 4 * roles);
			free(path);
			path = xasprintf("spec/taskRoles/%zu/task/pod/spec/%s/0/envFrom", i,
			                 CONTAINERS[k]);
			assert_int_equal(json_array_size(at(f, path)), 1);
			assert_null(at(whole, path));
			free(path);
		}
	}
}

TEST(test_moved_environment_is_the_same)
{
	check_move(DIALECT_V2, 1);
	check_move(DIALECT_V2, 40);
	check_move(DIALECT_V1, 1);
	check_move(DIALECT_V1, 40);
}

static bool moves(unsigned dialect, size_t roles, size_t max)
{
	BENCH(b, large, dialect, roles);
	b.set.max_env_inline = max;
	built(&b);
	return b.out.n == 2;
}

/* Returns the bytes of the environment that would be copied, computed from the containers. */
static size_t copied(unsigned dialect, size_t roles)
{
	BENCH(with, large, dialect, roles);
	BENCH(without, large, dialect, roles);
	with.set.max_env_inline = 64 << 20;
	without.set.max_env_inline = 0;
	built(&with);
	built(&without);
	static const char FROM[] = "\"envFrom\":[{\"configMapRef\":{\"name\":\"" HASH "-env\"}}],";
	return with.out.v[0].body.n - (without.out.v[1].body.n - 2 * roles * (sizeof(FROM) - 1));
}

TEST(test_environment_moves_exactly_above_the_threshold)
{
	static const unsigned DIALECTS[] = { DIALECT_V1, DIALECT_V2 };
	for (size_t i = 0; i < 2; i++) {
		for (size_t roles = 1; roles < 30; roles += 13) {
			size_t n = copied(DIALECTS[i], roles);
			assert_int_equal(n % (2 * roles), 0);
			assert_false(moves(DIALECTS[i], roles, n));
			assert_true(moves(DIALECTS[i], roles, n - 1));
		}
	}
}

TEST(test_default_threshold_is_256_kib)
{
	struct settings s;
	translate_settings_default(&s);
	size_t roles = 1;
	while (!moves(DIALECT_V2, roles, s.max_env_inline))
		roles++;
	assert_int_equal(s.max_env_inline, 256 << 10);
	assert_true(copied(DIALECT_V2, roles) > s.max_env_inline);
	assert_true(copied(DIALECT_V2, roles - 1) <= s.max_env_inline);
}

TEST(test_a_hundred_roles_fit_into_a_framework)
{
	for (enum profile p = PROFILE_PLAIN; p <= PROFILE_OPENPAI; p++) {
		BENCH(b, set_up, p);
		b.job.n_roles = 100;
		for (size_t i = 0; i < 100; i++)
			b.role[i].instances = 50;
		built(&b);
		assert_int_equal(b.out.n, 2);
		assert_true(b.out.v[0].body.n + b.out.v[1].body.n < (size_t)700 << 10);
	}
}

/* The ConfigMap, not the Framework, is too large. */
TEST(test_configmap_that_is_too_large_is_refused)
{
	BENCH(b, large, DIALECT_V2, 100);
	b.set.max_env_inline = 0;
	b.set.max_object = 8000;
	refused(&b, 413);
	assert_non_null(strstr(err_msg(&b.e), "common environment"));
	assert_non_null(strstr(err_msg(&b.e), "8000 bytes"));
	assert_non_null(
	    strstr(err_msg(&b.e), "; fewer task roles or shorter names of them make it smaller"));
}

/* The message names the object that is too large. */
TEST(test_secrets_that_are_too_large_are_named)
{
	BENCH(b, large, DIALECT_V2, 2);
	give_secrets(&b);
	b.job.has_auth = false;
	b.set.max_object = 100;
	refused(&b, 413);
	assert_non_null(strstr(err_msg(&b.e), "the job's secrets"));
	assert_non_null(strstr(err_msg(&b.e), "; fewer or shorter `secrets` make it smaller"));
}

/* Variables of a v1 job's author are in every role; they do not move. */
TEST(test_variables_of_v1_jobs_count_for_each_role)
{
	BENCH(b, large, DIALECT_V1, 20);
	char *value = arena_alloc(&b.a, 100000);
	memset(value, 'x', 100000);
	struct env_var var = { SPAN("A"), { value, 100000 } };
	b.role[7].env = b.role[11].env = &var;
	b.role[7].n_env = b.role[11].n_env = 1;
	b.set.max_object = 200000;
	refused(&b, 413);
	assert_non_null(strstr(b.e.notes.v[0].msg, "`jobEnvs`"));
	assert_non_null(strstr(b.e.notes.v[1].msg, "`role_11`"));
	assert_non_null(strstr(b.e.notes.v[2].msg, "`role_7`"));
}
