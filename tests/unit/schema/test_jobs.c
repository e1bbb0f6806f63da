/* The schemas of jobs and facts: what they say.  tests/golden has the files of the corpus. */
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

#define JOB_HEAD "protocolVersion: 2\nname: a\ntype: job\n"
#define JOB_ROLE                                                                                   \
	"taskRoles:\n  w:\n    dockerImage: i\n    commands: [x]\n"                                \
	"    resourcePerInstance: {cpu: 1, gpu: 0, memoryMB: 1}\n"

TEST(test_schemas_of_jobs_and_facts_explain_mistakes)
{
	static const struct {
		enum schema_name schema;
		const char *doc, *notes; /* "": valid */
	} CASES[] = {
		{ SCHEMA_V2, JOB_HEAD JOB_ROLE "secrets: \"******\"\n",
		  "9:10: secrets: must be a mapping, is text; the masked text of a downloaded "
		  "job cannot be submitted again: put the secrets back in\n" },
		{ SCHEMA_V2, JOB_HEAD JOB_ROLE "prerequisites: [{name: p, type: image, uri: x}]\n",
		  "9:33: prerequisites[0].type: must be one of \"script\", \"output\", \"data\" or "
		  "\"dockerimage\", is \"image\"\n" },
		{ SCHEMA_V2,
		  JOB_HEAD JOB_ROLE "prerequisites: [{name: p, type: dockerimage, url: x}]\n",
		  "9:46: prerequisites[0].url: unknown key `url`, did you mean `uri`?\n" },
		{ SCHEMA_V2, JOB_HEAD JOB_ROLE "    intances: 2\n",
		  "9:5: taskRoles.w.intances: unknown key `intances`, did you mean "
		  "`instances`?\n" },
		{ SCHEMA_V2, JOB_HEAD JOB_ROLE "  a b: {}\n",
		  "9:3: taskRoles[\"a b\"]: bad name \"a b\": may only have letters, digits and _, "
		  "and must begin with a letter or _\n" },
		{ SCHEMA_V2,
		  JOB_HEAD JOB_ROLE "extras:\n  com.microsoft.pai.runtimeplugin:\n"
		                    "  - plugin: cmd\n    parameters: {preCommands: x}\n",
		  "12:31: extras[\"com.microsoft.pai.runtimeplugin\"][0].parameters.preCommands: "
		  "must be a list, is text \"x\"\n" },
		{ SCHEMA_V1,
		  "{\"jobName\":\"a\",\"image\":\"i\",\"taskRoles\":[\n"
		  "{\"name\":\"w\",\"command\":\"x\",\"minFailedTaskCount\":0}]}",
		  "2:48: taskRoles[0].minFailedTaskCount: must not be 0\n" },
		{ SCHEMA_FACTS, "{\"submittedAt\":\"today\"}",
		  "1:16: submittedAt: must be a time in UTC such as 2026-11-20T10:25:38Z, is "
		  "\"today\"\n" },
		{ SCHEMA_FACTS, "{\"users\":{\"a b\":{}}}",
		  "1:11: users[\"a b\"]: bad name \"a b\": user names have letters, digits, _, . "
		  "and -, a letter or digit at both ends, 63 characters at most\n" },
		{ SCHEMA_FACTS,
		  "{\"virtualClusters\":[\"default\"],\"storages\":[{\"name\":\"nfs\","
		  "\"default\":true,\"share\":false,\"readOnly\":true}],"
		  "\"users\":{\"alice\":{\"virtualClusters\":[],\"storages\":[\"nfs\"],"
		  "\"extension\":{\"a\":1}}},\"submittedAt\":\"2026-11-20T10:25:38Z\"}",
		  "" },
		{ SCHEMA_FACTS, "{\"submittedAt\":1795170338000}", "" },
		{ SCHEMA_FACTS, "{}", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		assert_notes(schema_get(CASES[i].schema), CASES[i].doc, CASES[i].notes);
}
