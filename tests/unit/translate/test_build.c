/* From struct job and facts to objects: both profiles, marks, limits, facts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/enc.h"
#include "base/yaml.h"
#include "translate/bindings.h"

#define HASH "0123456789abcdef0123456789abcdef"

static const struct mark MARK = { "00112233445566778899aabbccddeeff", "here" };

static const struct port_request PORTS[] = { { { "ssh", 3 }, 1 }, { { "http", 4 }, 2 } };

/* ---- a job to change, and what became of it ------------------------------------------------ */

struct bench {
	struct settings set;
	struct role role[120];
	struct job job;
	struct facts facts;
	const struct mark *mark;
	struct arena a;
	struct err e;
	struct objects out;
};

static void set_up(struct bench *b, enum profile profile)
{
	*b = (struct bench){ 0 };
	translate_settings_default(&b->set);
	b->set.profile = profile;
	for (size_t i = 0; i < 120; i++) {
		const char *name = arena_printf(&b->a, "role_%zu", i);
		b->role[i] = (struct role){
			.name = span_of(name),
			.object_name = arena_printf(&b->a, "role%zu", i),
			.variable = name,
			.instances = 3,
			.min_failed = 1,
			.min_succeeded = 3,
			.cpu = 4,
			.memory_mb = 1024,
			.gpu = 1,
			.ports = PORTS,
			.n_ports = 2,
			.image = SPAN("img"),
			.command = SPAN("run"),
			.index = i,
			.where = { "/taskRoles/x", 7, 3 },
		};
	}
	b->job = (struct job){
		.dialect = DIALECT_V2,
		.user = "alice",
		.name = SPAN("train"),
		.id = SPAN("alice~train"),
		.hash = HASH,
		.virtual_cluster = SPAN("default"),
		.virtual_cluster_where = { "/defaults/virtualCluster", 4, 5 },
		.fancy_retry = true,
		.gang = true,
		.roles = b->role,
		.n_roles = 1,
		.total_tasks = 3,
		.config = SPAN("name: \"train\"\n"),
	};
	b->facts = (struct facts){ .any_virtual_cluster = true };
}

static int build(struct bench *b)
{
	struct translator *t = translator_new(&b->set, NULL, &b->e);
	if (t == NULL)
		fail_msg("%s", err_msg(&b->e));
	int rc = job_build(t, &b->job, &b->facts, b->mark, &b->a, &b->out, &b->e);
	translator_free(t);
	return rc;
}

static void tear_down(struct bench *b)
{
	arena_done(&b->a);
	err_done(&b->e);
}

#define BENCH_AUTO __attribute__((cleanup(tear_down))) struct bench

static json_t *object(const struct bench *b, size_t i)
{
	struct span body = b->out.v[i].body;
	json_t *v = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(v);
	return v;
}

static void built(struct bench *b)
{
	if (build(b) < 0)
		fail_msg("%s", err_msg(&b->e));
}

/* The value at "spec/taskRoles/0/name"; borrowed. */
static json_t *at(json_t *v, const char *path)
{
	FREE_AUTO char *copy = xstrdup(path);
	char *rest = NULL;
	for (char *key = strtok_r(copy, "/", &rest); v && key; key = strtok_r(NULL, "/", &rest)) {
		int64_t i = 0;
		bool index = parse_i64(span_of(key), 0, 1000, &i) == 0;
		v = index ? json_array_get(v, (size_t)i) : json_object_get(v, key);
	}
	return v;
}

static void assert_text(json_t *v, const char *path, const char *want)
{
	const char *got = json_string_value(at(v, path));
	assert_non_null(got);
	assert_string_equal(got, want);
}

#define ROLE "spec/taskRoles/0/"
#define POD  ROLE "task/pod/spec/"
#define APP  POD "containers/0/"
#define INIT POD "initContainers/0/"

/* The element of a list with that name; borrowed. */
static json_t *named(json_t *list, const char *name)
{
	size_t i = 0;
	json_t *v = NULL;
	json_array_foreach (list, i, v)
		if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0)
			return v;
	return NULL;
}

static const char *env(json_t *framework, const char *container, const char *name)
{
	FREE_AUTO char *path = xasprintf("%senv", container);
	return json_string_value(json_object_get(named(at(framework, path), name), "value"));
}

static void give_secrets(struct bench *b)
{
	struct doc *doc = ARENA_NEW(&b->a, struct doc, 1);
	NOTES_AUTO w = { 0 };
	assert_int_equal(yaml_read(SPAN("password: p"), &BUDGET_DEFAULT, &b->a, doc, &w, &b->e), 0);
	b->job.secrets = &doc->root;
}

/* ---- templates ----------------------------------------------------------------------------- */

static void test_translator_every_hole_is_used(void **state)
{
	(void)state;
	static const struct hole_group *const ALL[] = { &FRAMEWORK_HOLES, &ROLE_HOLES, &ENV_HOLES,
		                                        &STORAGE_HOLES, &SECRET_HOLES };
	for (size_t g = 0; g < sizeof(ALL) / sizeof(*ALL); g++)
		for (size_t i = 0; i < ALL[g]->n; i++) {
			const struct hole *h = &ALL[g]->v[i];
			FREE_AUTO char *hole =
			    xasprintf(h->type == HOLE_LIST ? "${*%s}" : "${%s}", h->name);
			bool used = false;
			int profile = 0;
			struct span text;
			for (size_t k = 0; template_nth(k, &profile, &text); k++)
				used |= memmem(text.p, text.n, hole, strlen(hole)) != NULL;
			if (!used)
				fail_msg("no template has %s", hole);
		}
}

static void test_translator_every_combination_compiles(void **state)
{
	(void)state;
	for (unsigned bits = 0; bits < 1 << 8; bits++) {
		BENCH_AUTO b;
		set_up(&b, bits & 1 ? PROFILE_OPENPAI : PROFILE_PLAIN);
		b.set.runtime_pull_secret = bits & 2 ? "pull" : "";
		b.role[0].gpu = bits & 4 ? 0 : 1;
		b.role[0].infiniband = bits & 8;
		b.role[0].image_auth = b.job.has_auth = bits & 16;
		b.set.max_env_inline = bits & 32 ? 10 : 1 << 20;
		if (bits & 64)
			give_secrets(&b);
		b.facts.extension = bits & 128 ? b.job.secrets : NULL;
		b.job.dialect = bits % 3 ? DIALECT_V2 : DIALECT_V1;
		b.mark = bits % 5 ? &MARK : NULL;
		built(&b);
		for (size_t i = 0; i < b.out.n; i++) {
			assert_null(memmem(b.out.v[i].body.p, b.out.v[i].body.n, "${", 2));
			json_decref(object(&b, i));
		}
	}
}

static void test_translator_environment_is_documented(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ENV_ROWS; i++) {
		STR_AUTO name = STR_INIT(256);
		const char *role = strstr(ENV_ROWS[i].name, "$role");
		size_t n = role ? (size_t)(role - ENV_ROWS[i].name) : strlen(ENV_ROWS[i].name);
		str_puts(&name, "- name: ");
		str_put(&name, ENV_ROWS[i].name, n);
		str_puts(&name, role ? "${role.suffix}\n" : "\n");
		bool used = false;
		int profile = 0;
		struct span text;
		for (size_t k = 0; template_nth(k, &profile, &text); k++)
			used |= memmem(text.p, text.n, name.p, name.n) != NULL;
		if (!used)
			fail_msg("no template has %s", ENV_ROWS[i].name);
	}
}

static void test_translator_refuses_unknown_template(void **state)
{
	(void)state;
	ERR_AUTO e = { 0 };
	struct settings set;
	translate_settings_default(&set);
	const struct template_file replace[] = { { "taskrol.yaml", SPAN("a: 1") }, { 0 } };
	assert_null(translator_new(&set, replace, &e));
	assert_non_null(strstr(err_msg(&e), "taskrol.yaml"));
}

static void test_translator_names_file_and_line_of_a_replaced_template(void **state)
{
	(void)state;
	ERR_AUTO e = { 0 };
	struct settings set;
	translate_settings_default(&set);
	const struct template_file replace[] = {
		{ "priorityclass.yaml", SPAN("kind: X\nvalue: ${job.prio}\n") }, { 0 }
	};
	assert_null(translator_new(&set, replace, &e));
	assert_int_equal(e.http, 500);
	assert_non_null(strstr(err_msg(&e), "priorityclass.yaml, line 2"));
	assert_non_null(strstr(err_msg(&e), "job.prio"));
}

static void test_translator_checks_overlays_against_a_replaced_base(void **state)
{
	(void)state;
	ERR_AUTO e = { 0 };
	struct settings set;
	translate_settings_default(&set);
	const struct template_file replace[] = {
		{ "taskrole.yaml",
		  SPAN("name: ${role.objectName}\ntask:\n  pod: {spec: {containers: []}}\n") },
		{ 0 }
	};
	assert_null(translator_new(&set, replace, &e));
	assert_non_null(strstr(err_msg(&e), "cpu-only.yaml"));
}

static void test_translator_refuses_empty_port_range(void **state)
{
	(void)state;
	ERR_AUTO e = { 0 };
	struct settings set;
	translate_settings_default(&set);
	set.port_end = set.port_start;
	assert_null(translator_new(&set, NULL, &e));
}

/* ---- the Framework ------------------------------------------------------------------------- */

static void test_build_without_mark_is_one_framework_that_starts(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	built(&b);
	assert_int_equal(b.out.n, 1);
	json_t *f = object(&b, 0);
	assert_text(f, "spec/executionType", "Start");
	assert_null(at(f, "metadata/labels/rest-lit\\/instance"));
	assert_null(memmem(b.out.v[0].body.p, b.out.v[0].body.n, "rest-lit/", 9));
	json_decref(f);
}

static void test_build_plain_asks_nothing_of_the_node(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	built(&b);
	json_t *f = object(&b, 0);
	assert_null(at(f, POD "hostNetwork"));
	assert_null(at(f, POD "priorityClassName"));
	assert_null(at(f, POD "affinity"));
	assert_null(at(f, APP "securityContext/capabilities/add"));
	assert_true(json_is_false(at(f, POD "automountServiceAccountToken")));
	assert_null(named(at(f, APP "volumeMounts"), "api-access"));
	assert_non_null(named(at(f, INIT "volumeMounts"), "api-access"));
	assert_null(memmem(b.out.v[0].body.p, b.out.v[0].body.n, "hostPath", 8));
	json_decref(f);
}

static void test_build_plain_names_the_api_server(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	built(&b);
	json_t *f = object(&b, 0);
	assert_string_equal(env(f, INIT, "KUBE_APISERVER_ADDRESS"),
	                    "https://kubernetes.default.svc");
	json_decref(f);
}

static void test_build_cpu_only_names_no_device(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	b.role[0].gpu = 0;
	built(&b);
	json_t *f = object(&b, 0);
	assert_null(json_object_get(at(f, APP "resources/limits"), "nvidia.com/gpu"));
	assert_string_equal(env(f, APP, "NVIDIA_VISIBLE_DEVICES"), "none");
	json_decref(f);
}

static void test_build_openpai_has_a_priority_class_if_asked(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_OPENPAI);
	b.set.priority_class = true;
	b.facts.submitted_ms = 1795170338000;
	built(&b);
	assert_int_equal(b.out.n, 2);
	assert_int_equal(b.out.v[0].kind, KIND_PRIORITYCLASS);
	assert_string_equal(b.out.v[0].name, HASH "-priority");
	json_t *p = object(&b, 0), *f = object(&b, 1);
	assert_int_equal(json_integer_value(at(p, "value")), -2125464066);
	assert_text(f, POD "priorityClassName", HASH "-priority");
	json_decref(p);
	json_decref(f);
}

static void test_build_ports_are_json_in_a_text(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	built(&b);
	json_t *f = object(&b, 0);
	json_t *annotations = at(f, ROLE "task/pod/metadata/annotations");
	assert_string_equal(
	    json_string_value(json_object_get(annotations, "rest-server/port-scheduling-spec")),
	    "{\"schedulePortStart\":15000,\"schedulePortEnd\":40000,\"ports\":"
	    "{\"ssh\":{\"count\":1},\"http\":{\"count\":2}}}");
	json_decref(f);
}

static void test_build_command_doubles_dollars(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	b.role[0].command = SPAN("echo $$ $(X) $Y ${job.user}");
	built(&b);
	json_t *f = object(&b, 0);
	assert_string_equal(env(f, INIT, "USER_CMD"), "echo $$$$ $$(X) $Y ${job.user}");
	json_decref(f);
}

static void test_build_image_check_warns_with_logins(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	b.job.n_roles = 2;
	b.role[1].image_auth = true;
	built(&b);
	json_t *f = object(&b, 0);
	assert_string_equal(env(f, INIT, "IMAGE_CHECK"), "fail");
	assert_string_equal(
	    env(f, "spec/taskRoles/1/task/pod/spec/initContainers/0/", "IMAGE_CHECK"), "warn");
	json_decref(f);
}

/* ---- first generation ------------------------------------------------------------------------ */

static const struct env_var OWN[] = { { { "MY", 2 }, { "$(X)", 4 } } };

static void make_v1(struct bench *b)
{
	set_up(b, PROFILE_PLAIN);
	b->job.dialect = DIALECT_V1;
	b->job.data_dir = SPAN("hdfs://$(x)");
	b->job.kill_all = 2;
	b->role[0].env = OWN;
	b->role[0].n_env = 1;
	b->role[0].min_failed_given = true;
	built(b);
}

static void test_build_v1_has_both_spellings(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_v1(&b);
	json_t *f = object(&b, 0);
	assert_string_equal(env(f, APP, "PAI_TASK_ROLE_TASK_COUNT_role_0"), "3");
	assert_string_equal(env(f, APP, "PAI_TASK_ROLE_TASK_COUNT_role0"), "3");
	assert_string_equal(env(f, APP, "PAI_RESOURCE_role0"),
	                    "cpu_count:4,memMB:1024,shmMB:64,gpu_count:1");
	assert_string_equal(env(f, APP, "PAI_MIN_FAILED_INSTANCE_role0"), "1");
	assert_string_equal(env(f, APP, "PAI_MIN_SUCCEEDED_INSTANCE_role0"), "");
	json_decref(f);
}

static void test_build_v1_directories_double_dollars(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_v1(&b);
	json_t *f = object(&b, 0);
	assert_string_equal(env(f, APP, "PAI_DATA_DIR"), "hdfs://$$(x)");
	assert_string_equal(env(f, APP, "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM"), "2");
	json_decref(f);
}

static void test_build_v1_own_variables_come_first_and_not_to_init(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_v1(&b);
	json_t *f = object(&b, 0);
	assert_text(f, APP "env/0/name", "MY");
	assert_text(f, APP "env/0/value", "$$(X)");
	assert_null(env(f, INIT, "MY"));
	json_decref(f);
}

static void test_build_v1_shared_memory_is_64(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_v1(&b);
	json_t *f = object(&b, 0);
	assert_text(named(at(f, POD "volumes"), "dshm"), "emptyDir/sizeLimit", "64Mi");
	json_decref(f);
}

/* ---- marks and side objects ------------------------------------------------------------------ */

static void make_owned(struct bench *b, enum profile profile)
{
	static const struct registry_login LOGINS[] = {
		{ { "r.io", 4 }, { "u", 1 }, { "p", 1 } },
		{ { "q.io", 4 }, { "", 0 }, { "", 0 } },
		{ { "r.io", 4 }, { "u2", 2 }, { "p2", 2 } }
	};
	set_up(b, profile);
	give_secrets(b);
	b->job.has_auth = true;
	b->job.logins = LOGINS;
	b->job.n_logins = 3;
	b->set.priority_class = true;
	b->mark = &MARK;
	built(b);
}

static void test_build_mark_makes_create_and_owners(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_owned(&b, PROFILE_PLAIN);
	assert_int_equal(b.out.n, 4);
	json_t *f = object(&b, 3);
	assert_text(f, "spec/executionType", "Create");
	assert_int_equal(b.out.v[3].uid_at, 0);
	json_decref(f);
	for (size_t i = 0; i < b.out.n; i++) {
		json_t *v = object(&b, i);
		json_t *meta = at(v, "metadata");
		assert_string_equal(json_string_value(json_object_get(
					json_object_get(meta, "labels"), "rest-lit/instance")),
		                    "here");
		assert_string_equal(
		    json_string_value(json_object_get(json_object_get(meta, "annotations"),
		                                      "rest-lit/submission")),
		    MARK.submission);
		json_decref(v);
	}
}

static void test_build_uid_belongs_at_uid_at(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_owned(&b, PROFILE_OPENPAI);
	for (size_t i = 0; i < 2; i++) {
		const struct object *o = &b.out.v[i];
		FREE_AUTO char *text =
		    xasprintf("%.*sUID%s", (int)o->uid_at, o->body.p, o->body.p + o->uid_at);
		json_t *v = json_loads(text, 0, NULL);
		assert_text(v, "metadata/ownerReferences/0/uid", "UID");
		assert_text(v, "metadata/ownerReferences/0/name", HASH);
		assert_int_equal(json_object_size(at(v, "metadata/ownerReferences/0")), 4);
		json_decref(v);
	}
	assert_int_equal(b.out.v[2].kind, KIND_PRIORITYCLASS);
	assert_int_equal(b.out.v[2].uid_at, 0);
}

static void test_build_mark_alone_still_starts(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	b.mark = &MARK;
	built(&b);
	json_t *f = object(&b, 0);
	assert_text(f, "spec/executionType", "Start");
	json_decref(f);
}

static void test_build_registry_secret_keeps_the_later_login(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_owned(&b, PROFILE_PLAIN);
	json_t *v = object(&b, 0);
	const char *data = json_string_value(json_object_get(at(v, "data"), ".dockerconfigjson"));
	struct span bytes;
	assert_int_equal(base64_decode(&b.a, span_of(data), &bytes), 0);
	assert_true(span_is(
	    bytes, "{\"auths\":{\"q.io\":{\"auth\":\"Og==\"},\"r.io\":{\"auth\":\"dTI6cDI=\"}}}"));
	json_decref(v);
}

static void test_build_job_secrets_are_yaml(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_owned(&b, PROFILE_PLAIN);
	json_t *v = object(&b, 1);
	struct span bytes;
	const char *data = json_string_value(json_object_get(at(v, "data"), "secrets.yaml"));
	assert_int_equal(base64_decode(&b.a, span_of(data), &bytes), 0);
	assert_true(span_is(bytes, "password: p\n"));
	json_decref(v);
}

static void test_build_extension_keeps_only_keys(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	struct doc *doc = ARENA_NEW(&b.a, struct doc, 1);
	NOTES_AUTO w = { 0 };
	assert_int_equal(yaml_read(SPAN("githubPAT: secret\nsshKeys: []\n"), &BUDGET_DEFAULT, &b.a,
	                           doc, &w, &b.e),
	                 0);
	b.facts.extension = &doc->root;
	built(&b);
	json_t *v = object(&b, 0);
	struct span bytes;
	const char *data =
	    json_string_value(json_object_get(at(v, "data"), "userExtensionSecrets.yaml"));
	assert_int_equal(base64_decode(&b.a, span_of(data), &bytes), 0);
	assert_true(span_is(bytes, "sshKeys: []\n"));
	json_decref(v);
}

/* ---- the common environment moves -------------------------------------------------------------
 */

static void test_build_environment_moves_whole(void **state)
{
	(void)state;
	BENCH_AUTO inside, moved;
	set_up(&inside, PROFILE_PLAIN);
	set_up(&moved, PROFILE_PLAIN);
	inside.job.n_roles = moved.job.n_roles = 5;
	inside.job.dialect = moved.job.dialect = DIALECT_V1;
	inside.job.code_dir = moved.job.code_dir = SPAN("$$(a)");
	moved.set.max_env_inline = 100;
	built(&inside);
	built(&moved);
	assert_int_equal(moved.out.v[0].kind, KIND_CONFIGMAP);
	json_t *whole = object(&inside, 0), *f = object(&moved, 1), *map = object(&moved, 0);
	size_t i = 0, found = 0;
	json_t *v = NULL;
	json_array_foreach (at(whole, APP "env"), i, v) {
		const char *name = json_string_value(json_object_get(v, "name"));
		if (named(at(f, APP "env"), name))
			continue;
		const char *value = json_string_value(json_object_get(at(map, "data"), name));
		assert_non_null(value);
		found++;
		/* Nothing expands dollars in a ConfigMap. */
		assert_string_equal(value, strcmp(name, "PAI_CODE_DIR") == 0
		                               ? "$$(a)"
		                               : json_string_value(json_object_get(v, "value")));
	}
	assert_int_equal(found, json_object_size(at(map, "data")));
	assert_text(f, APP "envFrom/0/configMapRef/name", HASH "-env");
	assert_text(f, INIT "envFrom/0/configMapRef/name", HASH "-env");
	json_decref(whole);
	json_decref(f);
	json_decref(map);
}

static void test_build_many_roles_stay_small(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_OPENPAI);
	b.job.n_roles = 120;
	built(&b);
	assert_int_equal(b.out.n, 2);
	assert_true(b.out.v[1].body.n < 120 * 4096);
}

/* ---- limits ------------------------------------------------------------------------------------
 */

static void test_build_too_large_names_the_heaviest_roles(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	b.job.n_roles = 10;
	b.set.max_object = 60000;
	char *long_command = arena_alloc(&b.a, 20000);
	memset(long_command, 'x', 20000);
	b.role[4].command = (struct span){ long_command, 20000 };
	assert_int_equal(build(&b), -1);
	assert_int_equal(b.e.http, 413);
	assert_int_equal(b.e.notes.n, 4);
	assert_non_null(strstr(b.e.notes.v[1].msg, "role_4"));
	assert_string_equal(b.e.notes.v[1].at, "/taskRoles/x");
}

static void test_build_fits_exactly(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	built(&b);
	b.set.max_object = b.out.v[0].body.n;
	built(&b);
	b.set.max_object--;
	assert_int_equal(build(&b), -1);
}

static void test_build_refuses_what_annotations_cannot_hold(void **state)
{
	(void)state;
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	b.set.max_annotations = 520;
	assert_int_equal(build(&b), -1);
	assert_int_equal(b.e.http, 400);
	assert_string_equal(b.e.notes.v[0].at, "");
}

/* ---- facts
 * --------------------------------------------------------------------------------------- */

static void test_build_virtual_cluster_not_granted(void **state)
{
	(void)state;
	static const struct span VC[] = { { "a", 1 }, { "b", 1 } };
	BENCH_AUTO b;
	set_up(&b, PROFILE_PLAIN);
	b.facts.any_virtual_cluster = false;
	b.facts.virtual_clusters = VC;
	b.facts.n_virtual_clusters = 2;
	assert_int_equal(build(&b), -1);
	assert_int_equal(b.e.http, 403);
	assert_string_equal(b.e.code, "ForbiddenUserError");
	assert_string_equal(b.e.notes.v[0].at, "/defaults/virtualCluster");
	b.job.virtual_cluster = SPAN("b");
	err_done(&b.e);
	b.e = (struct err){ 0 };
	built(&b);
}

static const struct storage_fact STORAGES[] = {
	{ .name = { "nfs", 3 }, .share = true, .is_default = true },
	{ .name = { "own", 3 }, .share = false, .read_only = true, .is_default = true },
	{ .name = { "other", 5 }, .share = true },
	{ .name = { "PAI_SHARE", 9 }, .share = true },
};

static void make_storages(struct bench *b, enum profile profile, const struct storage_request *v,
                          size_t n)
{
	set_up(b, profile);
	b->facts.storages = STORAGES;
	b->facts.n_storages = 4;
	b->job.storages_given = true;
	b->job.storages = v;
	b->job.n_storages = n;
}

static void test_build_empty_storages_are_the_defaults(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_storages(&b, PROFILE_PLAIN, NULL, 0);
	built(&b);
	json_t *f = object(&b, 0);
	json_t *own = named(at(f, APP "volumeMounts"), "own-volume");
	assert_text(own, "mountPath", "/mnt/own");
	assert_text(own, "subPath", "alice");
	assert_null(at(named(at(f, APP "volumeMounts"), "nfs-volume"), "subPath"));
	assert_null(named(at(f, POD "volumes"), "other-volume"));
	assert_true(json_is_true(
	    at(named(at(f, POD "volumes"), "own-volume"), "persistentVolumeClaim/readOnly")));
	assert_null(
	    at(named(at(f, POD "volumes"), "nfs-volume"), "persistentVolumeClaim/readOnly"));
	json_decref(f);
}

static void test_build_no_storages_mount_nothing(void **state)
{
	(void)state;
	BENCH_AUTO b;
	make_storages(&b, PROFILE_PLAIN, NULL, 0);
	b.job.storages_given = false;
	built(&b);
	json_t *f = object(&b, 0);
	assert_null(named(at(f, POD "volumes"), "nfs-volume"));
	json_decref(f);
}

static void test_build_one_storage_twice_is_one_volume(void **state)
{
	(void)state;
	static const struct storage_request TWICE[] = {
		{ .name = { "nfs", 3 } }, { .name = { "nfs", 3 }, .mount_path = { "/data", 5 } }
	};
	BENCH_AUTO b;
	make_storages(&b, PROFILE_PLAIN, TWICE, 2);
	built(&b);
	json_t *f = object(&b, 0);
	size_t i = 0, mounts = 0, volumes = 0;
	json_t *v = NULL;
	json_array_foreach (at(f, APP "volumeMounts"), i, v)
		mounts += strcmp(json_string_value(json_object_get(v, "name")), "nfs-volume") == 0;
	json_array_foreach (at(f, POD "volumes"), i, v)
		volumes += strcmp(json_string_value(json_object_get(v, "name")), "nfs-volume") == 0;
	assert_int_equal(mounts, 2);
	assert_int_equal(volumes, 1);
	json_decref(f);
}

static void test_build_unknown_storage_is_404(void **state)
{
	(void)state;
	static const struct storage_request UNKNOWN[] = {
		{ .name = { "nix", 3 }, .where = { "/extras/storages/0/name", 9, 1 } }
	};
	BENCH_AUTO b;
	make_storages(&b, PROFILE_PLAIN, UNKNOWN, 1);
	assert_int_equal(build(&b), -1);
	assert_int_equal(b.e.http, 404);
	assert_string_equal(b.e.code, "NoStorageError");
	assert_int_equal(b.e.notes.v[0].line, 9);
}

static void test_build_one_path_twice_is_400(void **state)
{
	(void)state;
	static const struct storage_request SAME[] = { { .name = { "nfs", 3 } },
		                                       { .name = { "other", 5 },
		                                         .mount_path = { "/mnt/nfs/", 9 },
		                                         .mount_where = { "/x", 5, 1 } } };
	BENCH_AUTO b;
	make_storages(&b, PROFILE_PLAIN, SAME, 2);
	assert_int_equal(build(&b), -1);
	assert_int_equal(b.e.http, 400);
	assert_string_equal(b.e.notes.v[0].at, "/x");
}

static void test_build_volume_names_are_labels_in_plain(void **state)
{
	(void)state;
	static const struct storage_request SHARE[] = { { .name = { "PAI_SHARE", 9 } } };
	BENCH_AUTO b, o;
	make_storages(&b, PROFILE_PLAIN, SHARE, 1);
	make_storages(&o, PROFILE_OPENPAI, SHARE, 1);
	built(&b);
	built(&o);
	json_t *plain = object(&b, 0), *openpai = object(&o, 0);
	json_t *list = at(plain, POD "volumes");
	const char *name = json_string_value(
	    json_object_get(json_array_get(list, json_array_size(list) - 1), "name"));
	assert_memory_equal(name, "pai-share-", 10);
	assert_int_equal(strlen(name), strlen("pai-share-12345678-volume"));
	assert_non_null(named(at(openpai, POD "volumes"), "PAI_SHARE-volume"));
	json_decref(plain);
	json_decref(openpai);
}

static void test_build_is_the_same_twice(void **state)
{
	(void)state;
	BENCH_AUTO b, c;
	make_owned(&b, PROFILE_PLAIN);
	make_owned(&c, PROFILE_PLAIN);
	for (size_t i = 0; i < b.out.n; i++)
		assert_true(span_eq(b.out.v[i].body, c.out.v[i].body));
}

static void test_translation_page_names_every_hole(void **state)
{
	(void)state;
	STR_AUTO page = STR_INIT(1 << 20);
	translation_page(&page);
	assert_false(page.full);
	assert_non_null(strstr(page.p, "| `role.shmMB` | number | OpenPAI |"));
	assert_non_null(strstr(page.p, "PAI_TASK_ROLE_NO"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_translator_every_hole_is_used),
		cmocka_unit_test(test_translator_every_combination_compiles),
		cmocka_unit_test(test_translator_environment_is_documented),
		cmocka_unit_test(test_translator_refuses_unknown_template),
		cmocka_unit_test(test_translator_names_file_and_line_of_a_replaced_template),
		cmocka_unit_test(test_translator_checks_overlays_against_a_replaced_base),
		cmocka_unit_test(test_translator_refuses_empty_port_range),
		cmocka_unit_test(test_build_without_mark_is_one_framework_that_starts),
		cmocka_unit_test(test_build_plain_asks_nothing_of_the_node),
		cmocka_unit_test(test_build_plain_names_the_api_server),
		cmocka_unit_test(test_build_cpu_only_names_no_device),
		cmocka_unit_test(test_build_openpai_has_a_priority_class_if_asked),
		cmocka_unit_test(test_build_ports_are_json_in_a_text),
		cmocka_unit_test(test_build_command_doubles_dollars),
		cmocka_unit_test(test_build_image_check_warns_with_logins),
		cmocka_unit_test(test_build_v1_has_both_spellings),
		cmocka_unit_test(test_build_v1_directories_double_dollars),
		cmocka_unit_test(test_build_v1_own_variables_come_first_and_not_to_init),
		cmocka_unit_test(test_build_v1_shared_memory_is_64),
		cmocka_unit_test(test_build_mark_makes_create_and_owners),
		cmocka_unit_test(test_build_uid_belongs_at_uid_at),
		cmocka_unit_test(test_build_mark_alone_still_starts),
		cmocka_unit_test(test_build_registry_secret_keeps_the_later_login),
		cmocka_unit_test(test_build_job_secrets_are_yaml),
		cmocka_unit_test(test_build_extension_keeps_only_keys),
		cmocka_unit_test(test_build_environment_moves_whole),
		cmocka_unit_test(test_build_many_roles_stay_small),
		cmocka_unit_test(test_build_too_large_names_the_heaviest_roles),
		cmocka_unit_test(test_build_fits_exactly),
		cmocka_unit_test(test_build_refuses_what_annotations_cannot_hold),
		cmocka_unit_test(test_build_virtual_cluster_not_granted),
		cmocka_unit_test(test_build_empty_storages_are_the_defaults),
		cmocka_unit_test(test_build_no_storages_mount_nothing),
		cmocka_unit_test(test_build_one_storage_twice_is_one_volume),
		cmocka_unit_test(test_build_unknown_storage_is_404),
		cmocka_unit_test(test_build_one_path_twice_is_400),
		cmocka_unit_test(test_build_volume_names_are_labels_in_plain),
		cmocka_unit_test(test_build_is_the_same_twice),
		cmocka_unit_test(test_translation_page_names_every_hole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
