/* The schemas of jobs and facts against real files. */
#include "kit.h"

#include <malloc.h>

TEST(test_schema_get_compiles_all_schemas)
{
	schema_init();
	for (int i = 0; i < SCHEMA_NAME_MAX; i++) {
		assert_non_null(schema_get((enum schema_name)i));
		assert_non_null(schema_text((enum schema_name)i).p);
	}
	/* A count such as {0,251} in a pattern takes half a MiB. */
	assert_true(mallinfo2().uordblks < 1 << 20);
}

TEST(test_schema_text_of_an_unknown_schema_is_null)
{
	assert_null(schema_text(SCHEMA_NAME_MAX).p);
}

static int is_visible(const struct dirent *f)
{
	return f->d_name[0] != '.';
}

/* Returns the names of the refused files of a folder, with a blank before each. */
static struct str refused_files(enum schema_name schema, const char *folder, int *files)
{
	struct str names = STR_INIT(FILE_MAX);
	struct dirent **list = NULL;
	*files = scandir(folder, &list, is_visible, alphasort);
	for (int i = 0; i < *files; i++) {
		ERR_AUTO e = { 0 };
		STR_AUTO path = STR_INIT(4096);
		str_printf(&path, "%s/%s", folder, list[i]->d_name);
		STR_AUTO text = load_file(str_c(&path));
		if (check_text(schema_get(schema), str_view(&text), &e) < 0)
			str_printf(&names, " %s", list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return names;
}

TEST(test_v2_valid_files_are_accepted)
{
	int files;
	STR_AUTO refused = refused_files(SCHEMA_V2, "tests/corpus/v2-valid", &files);
	assert_string_equal(str_c(&refused), "");
	assert_int_equal(files, 265);
}

/* Every file but one, which refers to a prerequisite that it lacks: no schema can say that. */
TEST(test_v2_invalid_files_are_refused)
{
	int files;
	size_t refused = 0;
	STR_AUTO names = refused_files(SCHEMA_V2, "tests/corpus/v2-invalid", &files);
	for (const char *p = str_c(&names); *p; p++)
		refused += *p == ' ';
	assert_int_equal(files, 82);
	assert_int_equal(refused, 81);
	assert_null(strstr(str_c(&names), " rt-git_repo_test_job.yaml"));
}

/* Two files misspell a key, two have a number as text, which is converted before the check. */
TEST(test_v1_valid_files_are_accepted)
{
	static const char *const REFUSED[] = {
		" pai-doc-job-tutorial-readme-b5-r5.json",
		" pai-doc-job-tutorial-readme-b5-r6.json",
		" pai-doc-serving-readme-b2.json",
		" pai-serving.tensorflow-r3.json",
	};
	int files;
	size_t length = 0;
	STR_AUTO names = refused_files(SCHEMA_V1, "tests/corpus/v1-valid", &files);
	for (size_t i = 0; i < ARRAY_SIZE(REFUSED); i++) {
		assert_non_null(strstr(str_c(&names), REFUSED[i]));
		length += strlen(REFUSED[i]);
	}
	assert_int_equal(names.n, length);
	assert_int_equal(files, 190);
}

#define JOB_HEAD "protocolVersion: 2\nname: a\ntype: job\n"
#define JOB_ROLE                                                                                   \
	"taskRoles:\n  w:\n    dockerImage: i\n    commands: [x]\n"                                \
	"    resourcePerInstance: {cpu: 1, gpu: 0, memoryMB: 1}\n"

TEST(test_v2_masked_secrets_are_explained)
{
	assert_notes(schema_get(SCHEMA_V2), JOB_HEAD JOB_ROLE "secrets: \"******\"\n",
	             "9:10: secrets: must be a mapping, is text; the masked text of a downloaded "
	             "job cannot be submitted again: put the secrets back in\n");
}

TEST(test_v2_prerequisite_of_unknown_type_is_refused)
{
	assert_notes(
	    schema_get(SCHEMA_V2),
	    JOB_HEAD JOB_ROLE "prerequisites: [{name: p, type: image, uri: x}]\n",
	    "9:33: prerequisites[0].type: must be one of \"script\", \"output\", \"data\" or "
	    "\"dockerimage\", is \"image\"\n");
}

TEST(test_v2_prerequisite_error_follows_its_type)
{
	assert_notes(schema_get(SCHEMA_V2),
	             JOB_HEAD JOB_ROLE "prerequisites: [{name: p, type: dockerimage, url: x}]\n",
	             "9:46: prerequisites[0].url: unknown key `url`, did you mean `uri`?\n");
}

TEST(test_v2_misspelt_key_of_a_role_gives_a_suggestion)
{
	assert_notes(schema_get(SCHEMA_V2), JOB_HEAD JOB_ROLE "    intances: 2\n",
	             "9:5: taskRoles.w.intances: unknown key `intances`, did you mean "
	             "`instances`?\n");
}

TEST(test_v2_bad_role_name_is_explained)
{
	assert_notes(
	    schema_get(SCHEMA_V2), JOB_HEAD JOB_ROLE "  a b: {}\n",
	    "9:3: taskRoles[\"a b\"]: bad name \"a b\": may only have letters, digits and _, "
	    "and must begin with a letter or _\n");
}

TEST(test_v2_plugin_parameters_are_checked_by_plugin)
{
	assert_notes(
	    schema_get(SCHEMA_V2),
	    JOB_HEAD JOB_ROLE "extras:\n  com.microsoft.pai.runtimeplugin:\n"
			      "  - plugin: cmd\n    parameters: {preCommands: x}\n",
	    "12:31: extras[\"com.microsoft.pai.runtimeplugin\"][0].parameters.preCommands: "
	    "must be a list, is text \"x\"\n");
}

TEST(test_v1_min_failed_task_count_is_never_zero)
{
	assert_notes(schema_get(SCHEMA_V1),
	             "{\"jobName\":\"a\",\"image\":\"i\",\"taskRoles\":[\n"
	             "{\"name\":\"w\",\"command\":\"x\",\"minFailedTaskCount\":0}]}",
	             "2:48: taskRoles[0].minFailedTaskCount: must not be 0\n");
}

TEST(test_facts_with_known_keys_are_accepted)
{
	assert_notes(schema_get(SCHEMA_FACTS),
	             "{\"virtualClusters\":[\"default\"],\"storages\":[{\"name\":\"nfs\","
	             "\"default\":true,\"share\":false,\"readOnly\":true}],"
	             "\"users\":{\"alice\":{\"virtualClusters\":[],\"storages\":[\"nfs\"],"
	             "\"extension\":{\"a\":1}}},\"submittedAt\":\"2026-11-20T10:25:38Z\"}",
	             "");
	assert_notes(schema_get(SCHEMA_FACTS), "{\"submittedAt\":1795170338000}", "");
	assert_notes(schema_get(SCHEMA_FACTS), "{}", "");
}

TEST(test_facts_errors_say_what_is_expected)
{
	assert_notes(schema_get(SCHEMA_FACTS), "{\"submittedAt\":\"today\"}",
	             "1:16: submittedAt: must be a time in UTC such as 2026-11-20T10:25:38Z, is "
	             "\"today\"\n");
	assert_notes(
	    schema_get(SCHEMA_FACTS), "{\"users\":{\"a b\":{}}}",
	    "1:11: users[\"a b\"]: bad name \"a b\": user names have letters, digits, _, . "
	    "and -, a letter or digit at both ends, 63 characters at most\n");
}
