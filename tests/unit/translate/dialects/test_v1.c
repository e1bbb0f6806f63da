/* Jobs of protocol version 1. */
#include "tests/unit/translate/parse_kit.h"

TEST(test_v1_jobs_have_the_defaults)
{
	RUN_AUTO r = run_good(V1("", ""));
	const struct job *job = r.job;
	const struct role *m = &job->roles[0];
	assert_ptr_equal(job->dialect, dialect_get(DIALECT_V1));
	assert_span(job->id, "alice~j");
	assert_span(job->virtual_cluster, "default");
	assert_true(job->fancy_retry && job->gang);
	assert_int_equal(job->retry_max, 0);
	assert_int_equal(m->instances, 1);
	assert_int_equal(m->cpu, 1);
	assert_int_equal(m->memory_mb, 100);
	assert_int_equal(m->gpu, 0);
	assert_int_equal(m->min_failed, 1);
	assert_int_equal(m->min_succeeded, -1);
	assert_span(m->image, "i");
	assert_span(m->command,
	            "export PAI_TASK_ROLE_0_HOST_LIST=\"$PAI_TASK_ROLE_m_HOST_LIST\"\nx");
}

TEST(test_all_fields_of_v1_are_read)
{
	RUN_AUTO r = run_good(V1("\"retryCount\":-2,\"virtualCluster\":\"vc1\",",
	                         ",\"taskNumber\":4,\"cpuNumber\":2,\"memoryMB\":200,\"shmMB\":200,"
	                         "\"gpuNumber\":3,\"minFailedTaskCount\":-1,"
	                         "\"minSucceededTaskCount\":4,\"portList\":[{\"label\":\"http\","
	                         "\"portNumber\":2},{\"label\":\"w\",\"beginAt\":0}]"));
	const struct role *m = &r.job->roles[0];
	assert_false(r.job->fancy_retry);
	assert_int_equal(r.job->retry_max, -2);
	assert_span(r.job->virtual_cluster, "vc1");
	assert_int_equal(m->instances, 4);
	assert_int_equal(m->cpu, 2);
	assert_int_equal(m->memory_mb, 200);
	assert_int_equal(m->shm_mb, 200);
	assert_int_equal(m->gpu, 3);
	assert_int_equal(m->min_failed, -1);
	assert_int_equal(m->min_succeeded, 4);
	assert_int_equal(m->n_ports, 3);
	assert_span(m->ports[0].label, "http");
	assert_int_equal(m->ports[0].count, 2);
	assert_span(m->ports[1].label, "w");
	assert_span(m->ports[2].label, "ssh");
	assert_int_equal(r.job->total_gpu, 12);
}

TEST(test_numbers_as_text_are_read_with_a_warning)
{
	const char *text =
	    V1("\"retryCount\":\"-1\",",
	       ",\"taskNumber\":\"2\",\"portList\":[{\"label\":\"a\",\"beginAt\":\"0\"}]");
	struct run r = run_good(text);
	assert_int_equal(r.job->roles[0].instances, 2);
	assert_int_equal(r.job->retry_max, -1);
	run_done(&r);
	assert_warned(text, "taskRoles[0].taskNumber: is text; it is taken as the number 2");
	assert_refused(V1("", ",\"taskNumber\":\"2.0\""), "taskRoles[0].taskNumber: ");
	assert_refused(V1("", ",\"taskNumber\":\"20000\""), "taskNumber: must be at most 10000");
}

TEST(test_comments_do_not_change_texts)
{
	static const char TEXT[] = "{ // who\n \"jobName\": \"j\", /* what */ \"image\": \"i\",\n"
				   "\"taskRoles\":[{\"name\":\"m\",\"command\":\"a // b\"}]}";
	RUN_AUTO r = run_good(TEXT);
	assert_non_null(strstr(r.job->roles[0].command.p, "\na // b"));
	assert_non_null(strstr(r.job->config.p, "// who"));
	assert_warned(TEXT, "comment");
}

/* ---- environment -------------------------------------------------------------------------- */

TEST(test_env_of_the_role_overrides_that_of_the_job)
{
	RUN_AUTO r =
	    run_good(V1("\"jobEnvs\":{\"A\":1,\"B\":true,\"C\":\"x\"},\"env\":{\"B\":0.5},",
	                ",\"env\":{\"C\":\"y$(z)\",\"PAI_SSH_PUB_KEY\":\"k\"}"));
	const struct role *m = &r.job->roles[0];
	assert_int_equal(m->n_env, 4);
	assert_span(m->env[0].name, "A");
	assert_span(m->env[0].value, "1");
	assert_span(m->env[1].value, "0.5");
	assert_span(m->env[2].value, "y$(z)"); /* dollars are doubled when it is written */
	assert_span(m->env[3].name, "PAI_SSH_PUB_KEY");
}

TEST(test_env_with_reserved_names_is_refused)
{
	static const char *const NAMES[] = { "PAI_JOB_NAME",
		                             "FC_X",
		                             "KUBERNETES_PORT",
		                             "NVIDIA_VISIBLE_DEVICES",
		                             "1A",
		                             "A;id",
		                             "A=B",
		                             "",
		                             NULL };
	for (const char *const *name = NAMES; *name; name++) {
		char *text =
		    xasprintf("{\"jobName\":\"j\",\"image\":\"i\",\"jobEnvs\":{\"%s\":\"v\"},"
		              "\"taskRoles\":[{\"name\":\"m\",\"command\":\"x\"}]}",
		              *name);
		assert_refused(text, "jobEnvs");
		free(text);
	}
	assert_refused(V1("\"env\":{\"A\":null},", ""), "env.A: ");
	assert_refused(V1("\"env\":{\"A\":[]},", ""), "env.A: ");
}

TEST(test_env_of_the_job_is_reported_once)
{
	RUN_AUTO r = run_job("{\"jobName\":\"j\",\"image\":\"i\",\"env\":{\"FC_A\":\"v\"},"
	                     "\"taskRoles\":[{\"name\":\"m\",\"command\":\"x\"},"
	                     "{\"name\":\"n\",\"command\":\"x\"}]}");
	assert_int_equal(r.err.notes.n, 1);
	assert_string_equal(r.err.notes.v[0].at, "/env/FC_A");
	assert_string_equal(r.err.code, "InvalidParametersError");
}

/* ---- directories
 * ------------------------------------------------------------------------------------ */

TEST(test_directories_have_their_variables_replaced)
{
	struct settings s;
	translate_settings_default(&s);
	s.fs_uri = "hdfs://h:9000";
	struct run r = run_settings(
	    &s, V1("\"dataDir\":\"$PAI_DEFAULT_FS_URI/$PAI_USERNAME/$PAI_JOB_NAME/"
	           "$PAI_USER_NAME,$PAI_USERNAMES$PAI_DEFAULT_FS_URI\",\"codeDir\":\"/c\",",
	           ""));
	assert_non_null(r.job);
	assert_span(r.job->data_dir,
	            "hdfs://h:9000/alice/j/alice,$PAI_USERNAMES$PAI_DEFAULT_FS_URI");
	assert_span(r.job->output_dir, "");
	assert_span(r.job->code_dir, "/c");
	run_done(&r);
	assert_refused(V1("\"codeDir\":\"a\\nb\",", ""), "codeDir: must be one line");
}

/* No byte behind the text is read as the name of a variable.  A text of this length has its own
 * block of memory, so that the sanitizers notice such a read. */
TEST(test_directory_that_ends_in_a_dollar_is_read)
{
	enum { LENGTH = 100007 };
	STR_AUTO dir = STR_INIT(LENGTH);
	STR_AUTO job = STR_INIT(LENGTH + 10000);
	while (dir.n + 1 < LENGTH)
		str_char(&dir, 'x');
	str_char(&dir, '$');
	str_printf(&job, V1("\"dataDir\":\"%s\",", ""), str_c(&dir));
	RUN_AUTO r = run_good(str_c(&job));
	assert_span(r.job->data_dir, str_c(&dir));
}

TEST(test_fetch_code_adds_commands_that_copy_the_code)
{
	struct settings s;
	translate_settings_default(&s);
	s.fetch_code = true;
	RUN_AUTO r = run_settings(&s, V1("\"codeDir\":\"/c\",", ""));
	assert_non_null(
	    strstr(r.job->roles[0].command.p, "hdfs dfs -copyToLocal \"$PAI_CODE_DIR\""));
	run_done(&r);
	r = run_settings(&s, V1("", ""));
	assert_null(strstr(r.job->roles[0].command.p, "hdfs"));
}

TEST(test_host_lists_are_exported_by_role_index)
{
	RUN_AUTO r = run_good("{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":["
	                      "{\"name\":\"ps_server\",\"command\":\"x\"},"
	                      "{\"name\":\"1\",\"command\":\"y\"}]}");
	/* the runtime itself sets PAI_TASK_ROLE_1_HOST_LIST for a role called 1 */
	assert_span(r.job->roles[1].command,
	            "export PAI_TASK_ROLE_0_HOST_LIST=\"$PAI_TASK_ROLE_psserver_HOST_LIST\"\ny");
}

/* ---- killAllOnCompletedTaskNumber
 * ------------------------------------------------------------------- */

struct kill_case {
	const char *k;
	const char *roles; /* taskNumber of the two roles, and more */
	int failed[2], succeeded[2];
	const char *warning;
};

#define TWO(a, b)                                                                                  \
	"{\"name\":\"ps\",\"command\":\"x\",\"taskNumber\":" a "},"                                \
	"{\"name\":\"w\",\"command\":\"x\",\"taskNumber\":" b "}"

TEST(test_kill_all_becomes_completion_policies)
{
	static const struct kill_case CASES[] = {
		{ "0", TWO("2", "3"), { 1, 1 }, { -1, -1 }, NULL },
		{ "5", TWO("2", "3"), { 1, 1 }, { -1, -1 }, NULL },
		{ "2", TWO("2", "3"), { 1, 1 }, { 2, 2 }, "counts per task role here" },
		{ "3", TWO("2", "3"), { 1, 1 }, { -1, 3 }, "counts per task role here" },
		{ "4", TWO("2", "3"), { 1, 1 }, { -1, -1 }, "counts per task role here" },
		{ "9",
		  TWO("2", "3,\"minSucceededTaskCount\":1"),
		  { 1, 1 },
		  { -1, 1 },
		  "is ignored: task roles have their own" },
		{ "1", TWO("2,\"minFailedTaskCount\":2", "3"), { 2, 1 }, { -1, -1 }, "is ignored" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		const struct kill_case *c = &CASES[i];
		FREE_AUTO char *text =
		    xasprintf("{\"jobName\":\"j\",\"image\":\"i\","
		              "\"killAllOnCompletedTaskNumber\":%s,\"taskRoles\":[%s]}",
		              c->k, c->roles);
		AUTO(run_done) struct run r = run_good(text);
		for (size_t k = 0; k < 2; k++) {
			assert_int_equal(r.job->roles[k].min_failed, c->failed[k]);
			assert_int_equal(r.job->roles[k].min_succeeded, c->succeeded[k]);
		}
		assert_int_equal(r.warnings.n, c->warning != NULL);
		if (c->warning)
			assert_within(notes_lines(&r, &r.warnings), c->warning);
	}
}

TEST(test_kill_all_with_one_role_gives_no_warning)
{
	const char *text = V1("\"killAllOnCompletedTaskNumber\":2,", ",\"taskNumber\":3");
	struct run r = run_good(text);
	assert_int_equal(r.job->kill_all, 2);
	assert_int_equal(r.job->roles[0].min_succeeded, 2);
	run_done(&r);
	assert_quiet(text);
}

/* ---- what is refused
 * --------------------------------------------------------------------------------- */

TEST(test_v1_refuses_values_out_of_range)
{
	static const struct {
		const char *text, *line;
	} CASES[] = {
		{ V1("\"killAllOnCompletedTaskNumber\":5,", ",\"taskNumber\":2"),
		  "killAllOnCompletedTaskNumber: must be at most 2 (all tasks), is 5" },
		{ V1("", ",\"shmMB\":200"),
		  "taskRoles[0].shmMB: must be at most memoryMB (100), is 200" },
		{ V1("", ",\"minFailedTaskCount\":2"),
		  "minFailedTaskCount: must be at most taskNumber" },
		{ V1("", ",\"minSucceededTaskCount\":0"), "minSucceededTaskCount: " },
		{ V1("", ",\"portList\":[{\"label\":\"a\",\"beginAt\":65530,\"portNumber\":100}]"),
		  "taskRoles[0].portList[0]: beginAt + portNumber is beyond 65535" },
		{ V1("", ",\"portList\":[{\"label\":\"a\"},{\"label\":\"a\"}]"),
		  "portList[1].label: a is already used" },
		{ V1("", ",\"portList\":[{\"label\":\"a.b\"},{\"label\":\"a~b\"}]"),
		  "portList[1].label: a_b is already used" },
		{ V1("", ",\"portList\":[{\"label\":\"http\",\"portNumber\":0}]"),
		  "portNumber: must be at least 1" },
		{ V1("\"authFile\":\"hdfs://x\",", ""), "authFile: must be empty" },
		{ "{\"jobName\":\"j\",\"image\":\"<your image>\",\"taskRoles\":[{\"name\":\"m\","
		  "\"command\":\"x\"}]}",
		  "image: \"<your image>\" is not an image reference" },
		{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"a.b\",\"command\":"
		  "\"x\"},"
		  "{\"name\":\"a~b\",\"command\":\"x\"}]}",
		  "1:78: taskRoles[1].name: roles a.b and a~b both become ab" },
		{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"a;id\","
		  "\"command\":\"x\"}]}",
		  "taskRoles[0].name: " },
		{ V1("\"extras\":{\"gangAllocation\":\"no\"},", ""),
		  "extras.gangAllocation: must be true or false, is text" },
		{ V1("\"extras\":{\"maxDurationSec\":\"60\"},", ""),
		  "extras.maxDurationSec: must be a whole number of seconds, is text" },
		{ V1("\"extras\":{\"maxDurationSec\":0},", ""),
		  "extras.maxDurationSec: must be at least 1, is 0" },
		{ V1("\"extras\":{\"storages\":[1]},", ""),
		  "extras.storages[0]: must be a mapping" },
		{ V1("\"retryCount\":-3,", ""), "retryCount: must be at least -2, is -3" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_refused(CASES[i].text, CASES[i].line);
}

TEST(test_v1_errors_have_the_code_of_v1)
{
	RUN_AUTO r = run_job(V1("", ",\"taskNumber\":0"));
	assert_string_equal(r.err.code, "InvalidParametersError");
	run_done(&r);
	NOTES_AUTO warnings = { 0 };
	r = run_good(V1("", ""));
	struct span broken = SPAN("{\"jobName\": ");
	assert_null(
	    job_read(r.translator, DIALECT_V1, broken, "alice", &unit.a, &warnings, no_err()));
	assert_string_equal(unit.e.code, "InvalidParametersError");
}

TEST(test_names_with_dots_become_object_names)
{
	RUN_AUTO r = run_good("{\"jobName\":\"a.b~c-D\",\"image\":\"i\",\"taskRoles\":[{\"name\":"
	                      "\"A~b.c-d\",\"command\":\"x\"}]}");
	assert_span(r.job->id, "alice~a.b~c-D");
	assert_string_equal(r.job->roles[0].object_name, "abcd");
	assert_string_equal(r.job->roles[0].variable, "A_b_c_d");
}

TEST(test_gpu_type_must_be_a_label_value)
{
	struct run r = run_good(V1("\"gpuType\":\"Tesla-K80\",", ""));
	assert_true(span_is(r.job->gpu_type, "Tesla-K80"));
	run_done(&r);
	static const char *const WRONG[] = { "Tesla K80", "-K80", "a/b", "\\u00e9" };
	for (size_t i = 0; i < ARRAY_SIZE(WRONG); i++) {
		FREE_AUTO char *text = xasprintf(V1("\"gpuType\":\"%s\",", ""), WRONG[i]);
		r = run_job(text);
		assert_null(r.job);
		assert_string_equal(r.err.code, "InvalidParametersError");
		assert_within(notes_lines(&r, &r.err.notes), "gpuType");
		run_done(&r);
	}
}

TEST(test_v1_fields_without_effect_give_warnings)
{
	assert_quiet(V1("\"gpuType\":\"\",\"authFile\":\"\",\"virtualCluster\":\"\",", ""));
	assert_warned(V1("\"gpuType\":\"K80\",", ""), "gpuType: is ignored");
	assert_warned(V1("", ",\"portList\":[{\"label\":\"a\",\"beginAt\":5000}]"),
	              "taskRoles[0].portList[0].beginAt: is ignored");
	assert_warned(V1("", ",\"portList\":[{\"label\":\"1.a\"}]"),
	              "portList[0].label: becomes _1_a in names of variables");
	assert_warned(V1("\"dataDir\":\"{{FC_POD_NAME}}\",", ""),
	              "dataDir: {{FC_...}} is replaced");
	assert_warned(V1("\"env\":{\"A\":\"{{FC_POD_NAME}}\"},", ""),
	              "env.A: {{FC_...}} is replaced");
}
