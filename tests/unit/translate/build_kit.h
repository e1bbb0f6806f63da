#pragma once
/* Shared by the tests of job_build: a job to change, and the resulting objects. */
#include <stdlib.h>

#include "tests/unit/base/cmocka.h"
#include <jansson.h>

#include "base/doc/yaml.h"
#include "base/enc.h"
#include "tests/lib/at.h"
#include "translate/render/bindings.h"
#include "translate/translate.h"

#define HASH "0123456789abcdef0123456789abcdef"

static const struct submission_mark MARK = {
	.submission = "00112233445566778899aabbccddeeff",
	.instance = "here",
};

static const struct port_request PORTS[] = { { { "ssh", 3 }, 1 }, { { "http", 4 }, 2 } };

struct bench {
	struct settings set;
	const struct template_file *replace; /* templates; NULL: none */
	struct translator *shared;           /* of set and replace; NULL: build makes one */
	struct role role[120];
	struct job job;
	struct facts facts;
	const struct submission_mark *mark;
	struct arena a;
	struct err e;
	struct objects out;
};

static inline void set_up(struct bench *b, enum profile profile)
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
		.dialect = dialect_get(DIALECT_V2),
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

static inline int build(struct bench *b)
{
	struct translator *t = b->shared;
	if (t == NULL)
		t = translator_new(&b->set, b->replace, &b->e);
	if (t == NULL)
		fail_msg("%s", err_msg(&b->e));
	int rc = job_build(t, &b->job, &b->facts, b->mark, &b->a, &b->out, &b->e);
	if (t != b->shared)
		translator_free(t);
	return rc;
}

static inline void tear_down(struct bench *b)
{
	arena_done(&b->a);
	err_done(&b->e);
}

#define BENCH_AUTO __attribute__((cleanup(tear_down))) struct bench
/* One that a function like set_up makes, to the end of the block: BENCH(b, set_up, PROFILE_PLAIN);
 */
#define BENCH(b, how, ...)                                                                         \
	BENCH_AUTO b;                                                                              \
	how(&b, __VA_ARGS__)

static inline void object_done(json_t **v)
{
	json_decref(*v);
}
#define OBJECT_AUTO __attribute__((cleanup(object_done))) json_t

static inline json_t *object(const struct bench *b, size_t i)
{
	struct span body = b->out.v[i].body;
	json_t *v = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(v);
	return v;
}

static inline void built(struct bench *b)
{
	if (build(b) < 0)
		fail_msg("%s", err_msg(&b->e));
}

/* The i-th object that is built. */
static inline json_t *built_object(struct bench *b, size_t i)
{
	built(b);
	return object(b, i);
}

static inline void refused(struct bench *b, int http)
{
	assert_int_equal(build(b), -1);
	assert_int_equal(b->e.http, http);
}

static inline void assert_text(json_t *v, const char *path, const char *want)
{
	const char *got = json_string_value(at(v, path));
	assert_non_null(got);
	assert_string_equal(got, want);
}

#define ROLE "spec/taskRoles/0/"
#define POD  ROLE "task/pod/spec/"
#define APP  POD "containers/0/"
#define INIT POD "initContainers/0/"

static inline const char *env(json_t *framework, const char *container, const char *name)
{
	FREE_AUTO char *path = xasprintf("%senv", container);
	return json_string_value(json_object_get(named(at(framework, path), name), "value"));
}

static inline void give_secrets(struct bench *b)
{
	struct doc *doc = ARENA_NEW(&b->a, struct doc, 1);
	assert_int_equal(yaml_read(SPAN("password: p"), &BUDGET_DEFAULT, &b->a, doc, NULL, &b->e),
	                 0);
	b->job.secrets = &doc->root;
}
