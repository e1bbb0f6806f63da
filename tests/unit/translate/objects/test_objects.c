/* Marks, side objects, the common environment, limits. */
#include "tests/unit/translate/build_kit.h"

/* ---- marks and side objects ------------------------------------------------------------------ */

static void make_owned(struct bench *b, enum profile profile)
{
	static const struct registry_login LOGINS[] = {
		{ { "q.io", 4 }, { "", 0 }, { "", 0 } }, { { "r.io", 4 }, { "u2", 2 }, { "p2", 2 } }
	};
	set_up(b, profile);
	give_secrets(b);
	b->job.has_auth = true;
	b->job.logins = LOGINS;
	b->job.n_logins = 2;
	b->set.priority_class = true;
	b->mark = &MARK;
	built(b);
}

/* Compares the value of a key of a Secret. */
static void assert_secret(struct bench *b, size_t i, const char *key, const char *want)
{
	OBJECT_AUTO *v = object(b, i);
	struct span bytes;
	const char *data = json_string_value(json_object_get(at(v, "data"), key));
	assert_non_null(data);
	assert_int_equal(base64_decode(&b->a, span_of(data), &bytes), 0);
	if (!span_is(bytes, want))
		fail_msg("%.*s", (int)bytes.n, bytes.p);
}

TEST(test_build_with_a_mark_sets_create_and_owners)
{
	BENCH(b, make_owned, PROFILE_PLAIN);
	assert_int_equal(b.out.n, 4);
	OBJECT_AUTO *f = object(&b, 3);
	assert_text(f, "spec/executionType", "Create");
	assert_int_equal(b.out.v[3].uid_at, 0);
	for (size_t i = 0; i < b.out.n; i++) {
		OBJECT_AUTO *v = object(&b, i);
		json_t *meta = at(v, "metadata");
		assert_string_equal(json_string_value(json_object_get(
					json_object_get(meta, "labels"), "rest-lit/instance")),
		                    "here");
		assert_string_equal(
		    json_string_value(json_object_get(json_object_get(meta, "annotations"),
		                                      "rest-lit/submission")),
		    MARK.submission);
	}
}

TEST(test_build_gives_the_place_of_the_uid)
{
	BENCH(b, make_owned, PROFILE_OPENPAI);
	for (size_t i = 0; i < 2; i++) {
		const struct object *o = &b.out.v[i];
		FREE_AUTO char *text =
		    xasprintf("%.*sUID%s", (int)o->uid_at, o->body.p, o->body.p + o->uid_at);
		json_auto_t *v = json_loads(text, 0, NULL);
		assert_text(v, "metadata/ownerReferences/0/uid", "UID");
		assert_text(v, "metadata/ownerReferences/0/name", HASH);
		assert_int_equal(json_object_size(at(v, "metadata/ownerReferences/0")), 4);
	}
	assert_int_equal(b.out.v[2].kind, KIND_PRIORITYCLASS);
	assert_int_equal(b.out.v[2].uid_at, 0);
}

/* A label or annotation of the i-th object, NULL if it has none. */
static char *mark_of(const struct bench *b, size_t i, const char *where, const char *key)
{
	OBJECT_AUTO *v = object(b, i);
	const char *text =
	    json_string_value(json_object_get(json_object_get(at(v, "metadata"), where), key));
	char *copy = text ? xstrdup(text) : NULL;
	return copy;
}

static void assert_mark(const struct bench *b, size_t i, const char *where, const char *key,
                        const char *want)
{
	FREE_AUTO char *is = mark_of(b, i, where, key);
	if (want == NULL)
		assert_null(is);
	else
		assert_string_equal(is ? is : "(none)", want);
}

TEST(test_build_marks_only_a_framework_in_creation)
{
	BENCH(owned, make_owned, PROFILE_PLAIN);
	assert_mark(&owned, 3, "labels", "rest-lit/creating", "true");
	for (size_t i = 0; i < 3; i++)
		assert_mark(&owned, i, "labels", "rest-lit/creating", NULL);
	BENCH(alone, set_up, PROFILE_PLAIN);
	alone.mark = &MARK;
	built(&alone);
	assert_mark(&alone, 0, "labels", "rest-lit/instance", "here");
	assert_mark(&alone, 0, "labels", "rest-lit/creating", NULL);
	OBJECT_AUTO *f = object(&alone, 0);
	assert_text(f, "spec/executionType", "Start");
	static const struct submission_mark TOGETHER = { .submission =
		                                             "00112233445566778899aabbccddeeff",
		                                         .instance = "here",
		                                         .at_once = true };
	owned.mark = &TOGETHER;
	built(&owned);
	assert_mark(&owned, 3, "labels", "rest-lit/creating", NULL);
	OBJECT_AUTO *together = object(&owned, 3);
	assert_text(together, "spec/executionType", "Start");
}

TEST(test_build_puts_idempotency_on_the_framework_only)
{
	static const struct submission_mark KEYED = {
		.submission = "00112233445566778899aabbccddeeff",
		.instance = "here",
		.idempotency = "ab-cd",
		.request = "r-1",
	};
	BENCH(b, make_owned, PROFILE_PLAIN);
	assert_mark(&b, 3, "annotations", "rest-lit/idempotency", NULL);
	assert_mark(&b, 3, "annotations", "rest-lit/request-id", NULL);
	b.mark = &KEYED;
	built(&b);
	assert_mark(&b, 3, "annotations", "rest-lit/idempotency", "ab-cd");
	assert_mark(&b, 3, "annotations", "rest-lit/request-id", "r-1");
	for (size_t i = 0; i < 3; i++) {
		assert_mark(&b, i, "annotations", "rest-lit/idempotency", NULL);
		assert_mark(&b, i, "annotations", "rest-lit/request-id", NULL);
	}
}

/* It belongs to no namespace; the label tells the janitor the namespace of its Framework. */
TEST(test_build_priority_class_names_the_namespace)
{
	BENCH(b, make_owned, PROFILE_PLAIN);
	assert_mark(&b, 2, "labels", "rest-lit/namespace", "default");
	assert_mark(&b, 3, "labels", "rest-lit/namespace", NULL);
}

TEST(test_build_secrets_have_logins_and_values)
{
	BENCH(b, make_owned, PROFILE_PLAIN);
	assert_secret(
	    &b, 0, ".dockerconfigjson",
	    "{\"auths\":{\"q.io\":{\"auth\":\"Og==\"},\"r.io\":{\"auth\":\"dTI6cDI=\"}}}");
	assert_secret(&b, 1, "secrets.yaml", "password: p\n");
}

/* A preview has no mark, and shows only that secrets exist. */
TEST(test_preview_masks_the_values_of_secrets)
{
	static const struct {
		const char *key, *text;
	} WANT[] = {
		{ ".dockerconfigjson", "{\"auths\":{\"******\":{\"auth\":\"******\"}}}" },
		{ "secrets.yaml", "******" },
		{ "userExtensionSecrets.yaml", "******" },
	};
	BENCH(b, make_owned, PROFILE_PLAIN);
	b.facts.extension = b.job.secrets;
	struct translator *t = translator_new(&b.set, NULL, &b.e);
	assert_int_equal(job_preview(t, &b.job, &b.facts, &b.a, &b.out, &b.e), 0);
	translator_free(t);
	assert_int_equal(b.out.n, 5);
	for (size_t i = 0; i < 3; i++) {
		OBJECT_AUTO *v = object(&b, i);
		assert_int_equal(json_object_size(at(v, "data")), 1);
		assert_secret(&b, i, WANT[i].key, WANT[i].text);
		assert_int_equal(b.out.v[i].uid_at, 0);
		assert_null(at(v, "metadata/ownerReferences"));
	}
	OBJECT_AUTO *f = object(&b, 4);
	assert_text(f, "spec/executionType", "Start");
}

#define SEED "00000000000000000000000000000000000000000000000000000000000000ff"

/* Only the keys of an extension are kept; a job that needs a key pair gets a seed if the user has
 * none. */
TEST(test_build_adds_a_seed_where_the_user_has_no_key_pair)
{
	static const struct {
		const char *extension, *want;
	} CASES[] = {
		{ "githubPAT: secret\nsshKeys: []\n", "sshKeys: []\n" }, /* needs no key */
		{ NULL, "jobSSH:\n  seed: \"" SEED "\"\n" },
		{ "githubPAT: secret\nsshKeys: []\njobSSH: {pubKey: x, key: ' '}\n",
		  "jobSSH:\n  seed: \"" SEED "\"\nsshKeys: []\n" },
		{ "jobSSH: {key: z}\n", "jobSSH:\n  seed: \"" SEED "\"\n" },
		{ "jobSSH: {pubKey: x, key: z}\n", "jobSSH:\n  pubKey: x\n  key: z\n" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		BENCH(b, set_up, PROFILE_PLAIN);
		struct doc doc;
		const char *text = CASES[i].extension;
		if (text)
			assert_int_equal(
			    yaml_read(span_of(text), &BUDGET_DEFAULT, &b.a, &doc, NULL, &b.e), 0);
		b.facts.extension = text ? &doc.root : NULL;
		b.job.needs_key = i > 0;
		b.facts.key_seed = i > 0 ? SEED : NULL;
		built(&b);
		assert_secret(&b, 0, "userExtensionSecrets.yaml", CASES[i].want);
		for (size_t k = 1; k < b.out.n; k++)
			assert_null(memmem(b.out.v[k].body.p, b.out.v[k].body.n, SEED, 64));
		OBJECT_AUTO *f = object(&b, b.out.n - 1);
		assert_non_null(named(at(f, POD "volumes"), "user-extension-secrets"));
	}
}

/* ---- the common environment moves --------------------------------------------------------- */

TEST(test_build_moves_a_large_environment_as_a_whole)
{
	BENCH(inside, set_up, PROFILE_PLAIN);
	BENCH(moved, set_up, PROFILE_PLAIN);
	inside.job.n_roles = moved.job.n_roles = 5;
	inside.job.dialect = moved.job.dialect = dialect_get(DIALECT_V1);
	inside.job.code_dir = moved.job.code_dir = SPAN("$$(a)");
	moved.set.max_env_inline = 100;
	built(&inside);
	built(&moved);
	assert_int_equal(moved.out.v[0].kind, KIND_CONFIGMAP);
	OBJECT_AUTO *whole = object(&inside, 0);
	OBJECT_AUTO *f = object(&moved, 1);
	OBJECT_AUTO *map = object(&moved, 0);
	size_t i = 0;
	size_t found = 0;
	json_t *v = NULL;
	json_array_foreach (at(whole, APP "env"), i, v) {
		const char *name = json_string_value(json_object_get(v, "name"));
		if (named(at(f, APP "env"), name))
			continue;
		const char *value = json_string_value(json_object_get(at(map, "data"), name));
		assert_non_null(value);
		found++;
		/* Dollars in a ConfigMap are not expanded. */
		assert_string_equal(value, strcmp(name, "PAI_CODE_DIR") == 0
		                               ? "$$(a)"
		                               : json_string_value(json_object_get(v, "value")));
	}
	assert_int_equal(found, json_object_size(at(map, "data")));
	assert_text(f, APP "envFrom/0/configMapRef/name", HASH "-env");
	assert_text(f, INIT "envFrom/0/configMapRef/name", HASH "-env");
}

TEST(test_build_many_roles_stay_small)
{
	BENCH(b, set_up, PROFILE_OPENPAI);
	b.job.n_roles = 120;
	built(&b);
	assert_int_equal(b.out.n, 2);
	assert_true(b.out.v[1].body.n < (size_t)120 * 4096);
}

/* ---- limits ------------------------------------------------------------------------------- */

TEST(test_build_too_large_names_the_heaviest_roles)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	b.job.n_roles = 10;
	b.set.max_object = 60000;
	char *long_command = arena_alloc(&b.a, 20000);
	memset(long_command, 'x', 20000);
	b.role[4].command = (struct span){ long_command, 20000 };
	refused(&b, 413);
	assert_int_equal(b.e.notes.n, 4);
	assert_non_null(strstr(b.e.notes.v[1].msg, "role_4"));
	assert_string_equal(b.e.notes.v[1].at, "/taskRoles/x");
}

TEST(test_build_accepts_an_object_of_exactly_the_limit)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	built(&b);
	b.set.max_object = b.out.v[0].body.n;
	built(&b);
	b.set.max_object--;
	assert_int_equal(build(&b), -1);
}

TEST(test_build_refuses_annotations_that_are_too_large)
{
	BENCH(b, set_up, PROFILE_PLAIN);
	b.set.max_annotations = 520;
	refused(&b, 400);
	assert_string_equal(b.e.notes.v[0].at, "");
}

TEST(test_build_is_the_same_twice)
{
	BENCH(b, make_owned, PROFILE_PLAIN);
	BENCH(c, make_owned, PROFILE_PLAIN);
	for (size_t i = 0; i < b.out.n; i++)
		assert_true(span_eq(b.out.v[i].body, c.out.v[i].body));
}
