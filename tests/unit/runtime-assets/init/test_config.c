/* The step that reads the configuration of the job and its secrets. */
#include "runtime-assets/init/init.h"
#include "tests/unit/runtime-assets/world.h"

struct world {
	struct arena a;
	struct init in;
	struct err e;
	struct root root;
};

static void done(struct world *w)
{
	root_remove(&w->root);
	err_done(&w->e);
	arena_done(&w->a);
}

#define WORLD_AUTO __attribute__((cleanup(done))) struct world

static void begin(struct world *w, const char *config)
{
	*w = (struct world){ .root = root_make() };
	w->in.a = &w->a;
	w->in.framework = ARENA_NEW(&w->a, struct init_framework, 1);
	w->in.framework->config = config;
	layout_init(&w->in.at, w->root.path, &w->a);
}

static void put(struct world *w, const char *path, const char *text)
{
	char *folder = arena_dup(&w->a, span_of(path));
	*strrchr(folder, '/') = '\0';
	assert_int_equal(dir_make(folder, 0755, &w->e), 0);
	assert_int_equal(file_write(path, span_of(text), 0644, &w->e), 0);
}

static const char *written(struct world *w)
{
	struct span text;
	const char *path = path_join(&w->a, w->in.at.runtime_d, "job_config.yaml");
	int status = file_read(path, FILE_MOUNTED, 10000, &w->a, &text, &w->e);
	return status == 0 ? arena_dup(&w->a, text) : NULL;
}

TEST(test_step_config_writes_the_text_unchanged)
{
	WORLD_AUTO w;
	begin(&w, "taskRoles: {w: {}} # \xc3\xa4\r\n\n");
	assert_int_equal(step_config(&w.in, &w.e), 0);
	assert_string_equal(written(&w), "taskRoles: {w: {}} # \xc3\xa4\r\n\n\n");
}

/* The malformed text is written, so that a user can read it. */
TEST(test_step_config_writes_malformed_text_too)
{
	WORLD_AUTO w;
	begin(&w, "{[");
	assert_int_equal(step_config(&w.in, &w.e), 0);
	assert_string_equal(written(&w), "{[\n");
	assert_int_equal(w.in.job.doc.root.type, NODE_NULL);
}

TEST(test_step_config_without_a_text_writes_no_file)
{
	WORLD_AUTO w;
	begin(&w, NULL);
	assert_int_equal(step_config(&w.in, &w.e), 0);
	assert_null(written(&w));
}

TEST(test_step_config_of_a_bare_pod_does_nothing)
{
	WORLD_AUTO w;
	begin(&w, NULL);
	w.in.framework = NULL;
	put(&w, w.in.at.secrets, "a: 1\n");
	assert_int_equal(step_config(&w.in, &w.e), 0);
	assert_int_equal(node_get(w.in.job.secrets, "a")->integer, 1);
}

TEST(test_step_config_finds_the_role_of_the_job)
{
	WORLD_AUTO w;
	begin(&w, "taskRoles: {task_1: {instances: 3}}");
	variable("PAI_CURRENT_TASK_ROLE_NAME", "task_1");
	assert_int_equal(step_config(&w.in, &w.e), 0);
	variable("PAI_CURRENT_TASK_ROLE_NAME", NULL);
	assert_int_equal(node_get(w.in.job.role, "instances")->integer, 3);
}

TEST(test_step_config_reads_secrets_and_extension)
{
	WORLD_AUTO w;
	begin(&w, "{}");
	put(&w, w.in.at.secrets, "pin: 0123\nword: \"0123\"\n");
	put(&w, w.in.at.extension, "sshKeys: []\n");
	assert_int_equal(step_config(&w.in, &w.e), 0);
	assert_int_equal(node_get(w.in.job.secrets, "pin")->integer, 83);
	assert_string_equal(node_get(w.in.job.secrets, "word")->text, "0123");
	assert_non_null(node_get(w.in.job.extension, "sshKeys"));
}

TEST(test_step_config_accepts_absent_secrets)
{
	WORLD_AUTO w;
	begin(&w, "{}");
	put(&w, w.in.at.extension, " \n");
	assert_int_equal(step_config(&w.in, &w.e), 0);
	assert_null(w.in.job.secrets);
	assert_null(w.in.job.extension);
}

/* The message has the number of the line, but not its text. */
TEST(test_step_config_refuses_malformed_secrets)
{
	WORLD_AUTO w;
	begin(&w, "{}");
	put(&w, w.in.at.secrets, "a: 1\n\"hunter2\": [hunter2\n");
	assert_int_equal(step_config(&w.in, &w.e), INIT_FAILED);
	assert_non_null(strstr(err_msg(&w.e), "secrets.yaml: line "));
	assert_null(strstr(err_msg(&w.e), "hunter2"));
}

TEST(test_step_config_ignores_a_malformed_extension)
{
	WORLD_AUTO w;
	begin(&w, "{}");
	put(&w, w.in.at.extension, "[");
	assert_int_equal(step_config(&w.in, &w.e), 0);
	assert_null(w.in.job.extension);
}
