/* The step that reads the configuration of the job and its secrets. */
#include "runtime-assets/init/init.h"
#include "tests/unit/runtime-assets/world.h"

static struct init in;

static void begin(const char *config)
{
	in = (struct init){ .a = &unit.a };
	in.framework = ARENA_NEW(&unit.a, struct init_framework, 1);
	in.framework->config = config;
	layout_init(&in.at, unit_path(""), &unit.a);
}

static void put(const char *path, const char *text)
{
	char *folder = arena_dup(&unit.a, span_of(path));
	*strrchr(folder, '/') = '\0';
	assert_int_equal(dir_make(folder, 0755, no_err()), 0);
	assert_int_equal(file_write(path, span_of(text), 0644, no_err()), 0);
}

static const char *written(void)
{
	struct span text;
	const char *path = path_join(&unit.a, in.at.runtime_d, "job_config.yaml");
	int status = file_read(path, FILE_MOUNTED, 10000, &unit.a, &text, no_err());
	return status == 0 ? arena_dup(&unit.a, text) : NULL;
}

TEST(test_step_config_writes_the_text_unchanged)
{
	begin("taskRoles: {w: {}} # \xc3\xa4\r\n\n");
	assert_int_equal(step_config(&in, no_err()), 0);
	assert_string_equal(written(), "taskRoles: {w: {}} # \xc3\xa4\r\n\n\n");
}

/* The malformed text is written, so that a user can read it. */
TEST(test_step_config_writes_malformed_text_too)
{
	begin("{[");
	assert_int_equal(step_config(&in, no_err()), 0);
	assert_string_equal(written(), "{[\n");
	assert_int_equal(in.job.doc.root.type, NODE_NULL);
}

TEST(test_step_config_without_a_text_writes_no_file)
{
	begin(NULL);
	assert_int_equal(step_config(&in, no_err()), 0);
	assert_null(written());
}

TEST(test_step_config_of_a_bare_pod_does_nothing)
{
	begin(NULL);
	in.framework = NULL;
	put(in.at.secrets, "a: 1\n");
	assert_int_equal(step_config(&in, no_err()), 0);
	assert_int_equal(node_get(in.job.secrets, "a")->integer, 1);
}

TEST(test_step_config_finds_the_role_of_the_job)
{
	begin("taskRoles: {task_1: {instances: 3}}");
	variable("PAI_CURRENT_TASK_ROLE_NAME", "task_1");
	assert_int_equal(step_config(&in, no_err()), 0);
	variable("PAI_CURRENT_TASK_ROLE_NAME", NULL);
	assert_int_equal(node_get(in.job.role, "instances")->integer, 3);
}

TEST(test_step_config_reads_secrets_and_extension)
{
	begin("{}");
	put(in.at.secrets, "pin: 0123\nword: \"0123\"\n");
	put(in.at.extension, "sshKeys: []\n");
	assert_int_equal(step_config(&in, no_err()), 0);
	assert_int_equal(node_get(in.job.secrets, "pin")->integer, 83);
	assert_string_equal(node_get(in.job.secrets, "word")->text, "0123");
	assert_non_null(node_get(in.job.extension, "sshKeys"));
}

TEST(test_step_config_accepts_absent_secrets)
{
	begin("{}");
	put(in.at.extension, " \n");
	assert_int_equal(step_config(&in, no_err()), 0);
	assert_null(in.job.secrets);
	assert_null(in.job.extension);
}

/* The message has the number of the line, but not its text. */
TEST(test_step_config_refuses_malformed_secrets)
{
	begin("{}");
	put(in.at.secrets, "a: 1\n\"hunter2\": [hunter2\n");
	assert_int_equal(step_config(&in, no_err()), INIT_FAILED);
	assert_non_null(strstr(err_msg(&unit.e), "secrets.yaml: line "));
	assert_null(strstr(err_msg(&unit.e), "hunter2"));
}

TEST(test_step_config_ignores_a_malformed_extension)
{
	begin("{}");
	put(in.at.extension, "[");
	assert_int_equal(step_config(&in, no_err()), 0);
	assert_null(in.job.extension);
}
