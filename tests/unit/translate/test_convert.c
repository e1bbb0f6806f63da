/* Jobs of all dialects, written as jobs of protocol 2. */
#include "tests/unit/translate/parse_kit.h"

#include "base/enc.h"

/* A job, what was lost, and the converted job, read again. */
struct converted {
	struct run from, to;
	struct notes lost;
	struct str yaml;
	struct err e;
};

static int convert_with(struct converted *c, struct translator *t, const char *text)
{
	*c = (struct converted){ .yaml = STR_INIT(1 << 24) };
	c->from = run_with(t, text);
	if (c->from.job == NULL)
		fail_msg("refused: %s", notes_lines(&c->from, &c->from.err.notes));
	int rc = job_convert(t, c->from.job, &c->from.warnings, &c->lost, &c->yaml, &c->e);
	if (rc == 0)
		c->to = run_with(t, str_c(&c->yaml));
	assert_true(rc || c->to.job);
	return rc;
}

static void convert_good(struct converted *c, const char *text)
{
	if (convert_with(c, run_translator_default(), text))
		fail_msg("not converted: %s", err_msg(&c->e));
}

static void convert_done(struct converted *c)
{
	run_done(&c->from);
	if (c->to.translator)
		run_done(&c->to);
	notes_done(&c->lost);
	str_done(&c->yaml);
	err_done(&c->e);
}

/* Expects this line (LINE:COLUMN: SENTENCE) among the losses, and the sentence in a comment. */
static void assert_lost(const char *text, const char *line, const char *comment)
{
	AUTO(convert_done) struct converted c;
	convert_good(&c, text);
	assert_within(notes_lines(&c.from, &c.lost), line);
	assert_within(str_c(&c.yaml), comment);
}

#define CONVERT_OLD                                                                                \
	"# - variables that only v1 jobs have are set in the commands that mention them, and "     \
	"nowhere else\n"

static const char CONVERTED[] = "protocolVersion: 2\n"
				"name: \"on\"\n"
				"type: job\n"
				"jobRetryCount: 3\n"
				"prerequisites:\n"
				"  - name: \"y\"\n"
				"    type: dockerimage\n"
				"    uri: i:1\n"
				"taskRoles:\n"
				"  \"y\":\n"
				"    instances: 2\n"
				"    completion:\n"
				"      minFailedInstances: 1\n"
				"      minSucceededInstances: -1\n"
				"    taskRetryCount: 0\n"
				"    dockerImage: \"y\"\n"
				"    resourcePerInstance:\n"
				"      cpu: 1\n"
				"      memoryMB: 100\n"
				"      gpu: 1\n"
				"      ports:\n"
				"        p: 1\n"
				"        ssh: 1\n"
				"        http: 1\n"
				"    extraContainerOptions:\n"
				"      shmMB: 64\n"
				"    commands:\n"
				"      - \"export A='it'\\\\''s $HOME'\"\n"
				"      - \"export PAI_TASK_ROLE_INDEX="
				"\\\"$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX\\\"\"\n"
				"      - \"export PAI_DATA_DIR='hdfs://d'\"\n"
				"      - |-\n"
				"        export PAI_TASK_ROLE_0_HOST_LIST="
				"\"$PAI_TASK_ROLE_y_HOST_LIST\"\n"
				"        a=$PAI_TASK_ROLE_INDEX\n"
				"        echo <% $parameters.less %>% b\n"
				"defaults:\n"
				"  virtualCluster: vc\n"
				"parameters:\n"
				"  less: \"<\"\n"
				"extras:\n"
				"  gangAllocation: false\n"
				"  x:\n"
				"    - 1.5\n"
				"    - null\n"
				"    - \"null\"\n";

TEST(test_convert_writes_the_expected_v2_text)
{
	AUTO(convert_done) struct converted c;
	convert_good(
	    &c, "{\"jobName\":\"on\",\"image\":\"i:1\",\"retryCount\":3,\"dataDir\":\"hdfs://d\","
		"\"virtualCluster\":\"vc\",\"env\":{\"A\":\"it's $HOME\"},"
		"\"extras\":{\"gangAllocation\":false,\"x\":[1.5,null,\"null\"]},"
		"\"taskRoles\":[{\"name\":\"y\",\"command\":\"a=$PAI_TASK_ROLE_INDEX\\n"
		"echo <% b\",\"taskNumber\":2,\"gpuNumber\":1,\"portList\":[{\"label\":\"p\"}]}]}");
	const char *text = strstr(str_c(&c.yaml), "protocolVersion");
	assert_string_equal(text, CONVERTED);
	assert_within(str_c(&c.yaml),
	              "# Written by `rest-lit convert` from a v1 job. Lost or changed:\n");
	assert_within(str_c(&c.yaml), CONVERT_OLD);
	assert_false(c.to.job->gang);
}

/* v1 sets all of these variables; without them, a command with `set -u` would fail. */
TEST(test_convert_keeps_empty_directories_as_variables)
{
	AUTO(convert_done) struct converted c;
	convert_good(
	    &c, "{\"jobName\":\"j\",\"image\":\"i\",\"codeDir\":\"\",\"outputDir\":\"hdfs://o\","
		"\"taskRoles\":[{\"name\":\"m\",\"command\":\"ls $PAI_DATA_DIR "
		"${PAI_CODE_DIR}\"},{\"name\":\"n\",\"command\":\"ls\"}]}");
	assert_true(span_starts(c.to.job->roles[0].command,
	                        "export PAI_DATA_DIR=''\nexport PAI_OUTPUT_DIR='hdfs://o'\n"
	                        "export PAI_CODE_DIR=''\n"));
	assert_true(span_starts(c.to.job->roles[1].command, "export PAI_OUTPUT_DIR='hdfs://o'\n"));
	assert_int_equal(span_find(c.to.job->roles[1].command, 0, "DATA_DIR"), SIZE_MAX);
}

#define SHA "a123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(test_convert_v2_keeps_the_values)
{
	AUTO(convert_done) struct converted c;
	convert_good(&c,
	             V2("secrets: {s: hunter2}\nparameters: {d: 2001-01-01, r: 1.10}\n"
	                "extras: {env: {A: 1, B: '$(x)'}, code: {sha256: " SHA ", path: /src}}\n"
	                "# a comment\n"));
	const char *text = str_c(&c.yaml);
	assert_int_equal(strncmp(text, "protocolVersion: 2\nname: j\n", 27), 0);
	assert_within(text, "secrets:\n  s: hunter2\n");
	assert_within(text, "d: \"2001-01-01\"\n  r: 1.1\n");
	assert_within(text, "  env:\n    A: 1\n    B: $(x)\n  code:\n    sha256: " SHA "\n");
	assert_int_equal(c.lost.n, 0);
}

TEST(test_convert_reports_values_that_v2_does_not_have)
{
	assert_lost("{\"jobName\":\"a.b\",\"image\":\"i\",\n\"taskRoles\":[{\"name\":\"m\","
	            "\"command\":\"x\"}]}",
	            "1:12: jobName: v2 does not take this name; it becomes a_b\n",
	            "# - line 1: jobName: v2 does not take this name; it becomes a_b\n");
	assert_lost("{\"jobName\":\"a\",\"image\":\"i\",\"extras\":{\"x\":1},\n"
	            "\"taskRoles\":[{\"name\":\"1-b\",\"command\":\"x \"}]}",
	            "2:22: taskRoles[0].name: v2 does not take this name; it becomes _1_b, but not "
	            "in `extras`\n",
	            "it becomes _1_b, but not in `extras`\n");
	assert_lost(V1("\n\"retryCount\":-1,", ""),
	            "2:14: retryCount: retryPolicy becomes {fancyRetryPolicy: true, maxRetryCount: "
	            "2147483647} in v2\n",
	            "# - line 2: retryCount: retryPolicy becomes");
	assert_lost("{\"jobName\":\"a\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"m\","
	            "\"command\":\"x\\n \"}]}",
	            "taskRoles[0].name: the command loses the blanks at its ends\n",
	            "the command loses the blanks at its ends\n");
	/* warnings of the reader are comments, too */
	assert_lost(V1("\"gpuType\":\"k80\",", ""), "", "gpuType: is ignored");
}

/* The working directory and plain variables of a pod become commands. */
TEST(test_convert_writes_pod_settings_as_commands)
{
	AUTO(convert_done) struct converted c;
	convert_good(
	    &c,
	    LAUNCHER("", "{metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: "
	                 "[{name: m, image: i, command: [a, $(A), b], workingDir: \"/it's\",\n"
	                 "    env: [{name: A, value: \"1 $B\"}, {name: B, value: x$(A)}, {name: C, "
	                 "valueFrom: {fieldRef: {fieldPath: metadata.name}}}],\n"
	                 "    resources: {limits: {memory: 1Gi}},\n"
	                 "    ports: [{containerPort: 80}]}]}}"));
	const char *lost = notes_lines(&c.from, &c.lost);
	assert_within(lost, "6:5: spec.taskRoles[0]: `ports` of the pod cannot be said in v2\n");
	assert_within(lost, "`labels` of the pod cannot be said in v2\n");
	assert_within(lost, "6:5: spec.taskRoles[0]: variable B cannot be said in v2\n");
	assert_within(lost, "6:5: spec.taskRoles[0]: variable C cannot be said in v2\n");
	assert_within(lost, "numbers where the pod has no limit: cpu 0, memoryMB 1024\n");
	assert_true(span_is(c.to.job->roles[0].command, "cd '/it'\\''s'\nexport A='1 $B'\n"
	                                                "exec 'a' ''\"${A}\"'' 'b'"));
	assert_int_equal(c.to.job->roles[0].min_succeeded, -1);
}

/* v1 does not check these, v2 does. */
TEST(test_convert_refuses_extras_that_v2_refuses)
{
	AUTO(convert_done) struct converted c;
	assert_int_equal(
	    convert_with(&c, run_translator_default(), V1("\"extras\":{\"submitFrom\":1},", "")),
	    -1);
	assert_int_equal(c.e.http, 400);
	assert_within(notes_lines(&c.from, &c.e.notes),
	              "0:0: extras.submitFrom: cannot be said in a v2 job: must be text, is ");
}

/* Line breaks in a warning do not end its comment. */
TEST(test_convert_comments_stay_on_one_line)
{
	RUN_AUTO r = run_good(V1("", ""));
	NOTES_AUTO warnings = { 0 };
	NOTES_AUTO lost = { 0 };
	notes_add(&warnings, (struct place){ "/x", 3, 4 },
	          "a\nname: b\r\xc2\x85name: c\xe2\x80\xa8name: d\xe2\x80\xa9name: e");
	assert_int_equal(job_convert(r.translator, r.job, &warnings, &lost, &r.text, &r.err), 0);
	assert_within(str_c(&r.text), "# - line 3: x: a?name: b??name: c?name: d?name: e\n");
}

/* ---- texts that YAML or the reader could take as something else ---- */

/* clang-format off */
static const char *const CONVERT_TEXTS[] = {
	"yes", "NO", "on", "y", "null", "Null", "~", "true", "0x10", "010", "0o7", "1_000",
	"1:30", "1e3", ".5", "+1", "-1", ".inf", ".NaN", "e5", "2001-01-01",
	"2001-01-01 00:00:00", "=", "<<", "- a", "-", "? a", ": a", "a: b", "a:", "a #b", "#a",
	"|", "|2", ">-", "%YAML 1.1", "@a", "`a`", "!!str a", "!a", "&a b", "*a", "{a: b}",
	"[a]", "a, b", "'a'", "\"a\"", "it's", "\\", "\\n", "---", "---\na", "...\nb", "a\n\nb",
	"a\n  b\n c", "a\n\tb", "a\tb", "a\r\nb", "a\rb", "a \nb", "a\\\nb", "\xc2\x85 a",
	"a\xc2\x85z", "a\xe2\x80\xa8z", "\xef\xbb\xbfz", "a\xef\xbb\xbf", "\x7f", "\x01",
	"\xc2\xa0", "\xf0\x9f\x98\x80", "a\n# b", "# b\na", "$(A) $$ ${B}", "<%", "%>",
	"<% $parameters.x %>", "<%= <% %> =%>", "<<%", "<%<%", "<% $secrets.a %>", "<%#a%>",
	"{{FC_TASK_INDEX}}", "a\n<%\nb", "cat <<E\n  a\nE",
};
/* clang-format on */

static void check_value(struct span value)
{
	AUTO(convert_done) struct converted c;
	STR_AUTO text = STR_INIT(1 << 16);
	str_puts(&text, "{\"jobName\":\"j\",\"image\":\"i\",\"env\":{\"V\":");
	str_json(&text, value);
	str_puts(&text, "},\"taskRoles\":[{\"name\":\"m\",\"command\":");
	str_json(&text, value);
	str_puts(&text, "}]}");
	convert_good(&c, str_c(&text));
	/* The command line that sets V, as a shell would read it, then the command. */
	struct span want = span_trim(c.from.job->roles[0].command);
	struct span got = c.to.job->roles[0].command;
	assert_true(span_starts(got, "export V='"));
	size_t i = 10;
	for (size_t k = 0; k < value.n; k++, i++) {
		assert_true(got.p[i] == value.p[k]);
		if (value.p[k] == '\'') {
			assert_true(span_starts(span_from(got, i), "'\\''"));
			i += 3;
		}
	}
	assert_true(span_starts(span_from(got, i), "'\n"));
	assert_true(span_eq(span_from(got, i + 2), want));
	assert_int_equal(c.to.warnings.n, span_find(value, 0, "{{FC_") == SIZE_MAX ? 0 : 1);
}

TEST(test_convert_quotes_texts_that_read_back_the_same)
{
	for (size_t i = 0; i < ARRAY_SIZE(CONVERT_TEXTS); i++)
		check_value(span_of(CONVERT_TEXTS[i]));
	/* any of them together, in an order that is the same each time */
	uint32_t random = 1;
	for (int round = 0; round < 1000; round++) {
		STR_AUTO text = STR_INIT(1 << 16);
		for (size_t n = 0; n < 2 + (size_t)round % 5; n++) {
			random = random * 1664525 + 1013904223;
			str_puts(&text, CONVERT_TEXTS[(random >> 16) % (sizeof(CONVERT_TEXTS) /
			                                                sizeof(CONVERT_TEXTS[0]))]);
			if (random >> 30 == 1)
				str_char(&text, random & 0x8000 ? '\n' : ' ');
		}
		check_value(str_view(&text));
	}
}
