/* Messages about common mistakes in v2 jobs, and their places. */
#include "tests/unit/translate/parse_kit.h"

TEST(test_logins_are_trimmed)
{
	RUN_AUTO r = run_good(
	    HEAD "prerequisites: [{name: i, type: dockerimage, uri: u, auth: {username: ' bob ', "
		 "password: '<% $secrets.p %>', registryuri: '<% $secrets.r %>'}}]\n" ROLE COMMANDS(
		     "x") "secrets: {p: \"hunter2\\n\", r: \"reg.io\\r\\n\"}\n");
	assert_span(r.job->logins[0].username, "bob");
	assert_span(r.job->logins[0].password, "hunter2");
	assert_span(r.job->logins[0].registry, "reg.io");
}

/* A job with logins to so many registries. */
static void put_logins(struct str *out, int n)
{
	str_puts(out, HEAD "prerequisites:\n- {name: i, type: dockerimage, uri: u}\n");
	for (int i = 0; i < n; i++)
		str_printf(out,
		           "- {name: i%d, type: dockerimage, uri: r%d.io/x, auth: {username: a}}\n",
		           i, i);
	str_puts(out, ROLE COMMANDS("x"));
}

TEST(test_more_than_256_logins_are_refused)
{
	STR_AUTO good = STR_INIT(1 << 20);
	STR_AUTO bad = STR_INIT(1 << 20);
	put_logins(&good, 256);
	put_logins(&bad, 257);
	struct run r = run_good(str_c(&good));
	assert_int_equal(r.job->n_logins, 256);
	run_done(&r);
	assert_refused(str_c(&bad),
	               "prerequisites[257].auth: is for one registry too many: at most 256");
}

TEST(test_jobssh_without_a_key_pair_is_reported)
{
	static const char JOB_SSH[] = V2("extras: {com.microsoft.pai.runtimeplugin: [{plugin: ssh, "
	                                 "parameters: {jobssh: true}}]}\n");
	struct facts f = { 0 };
	const struct member pair[] = {
		{ .key = "key", .key_n = 3, .value = { .type = NODE_TEXT, .n = 1, .text = "k" } },
		{ .key = "pubKey",
		  .key_n = 6,
		  .value = { .type = NODE_TEXT, .n = 1, .text = "p" } },
	};
	for (uint32_t n = 0; n <= 2; n++) {
		const struct member ssh = { .key = "jobSSH",
			                    .key_n = 6,
			                    .value = { .type = NODE_MAP, .n = n, .member = pair } };
		const struct node extension = { .type = NODE_MAP, .n = 1, .member = &ssh };
		RUN_AUTO r = run_good(JOB_SSH);
		f.extension = n > 0 ? &extension : NULL;
		job_warn(r.job, &f, &r.warnings);
		if (n < 2)
			assert_within(notes_lines(&r, &r.warnings),
			              "jobssh: there is no key pair by which tasks could reach");
		else
			assert_int_equal(r.warnings.n, 0);
	}
}

TEST(test_more_than_256_port_labels_are_refused)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"m\","
	                "\"command\":\"x\",\"portList\":[");
	for (int i = 0; i < 257; i++)
		str_printf(&text, "%s{\"label\":\"p%d\"}", i ? "," : "", i);
	str_puts(&text, "]}]}");
	assert_refused(str_c(&text), "portList: at most 256 labels, here are 257");
}

#define JOB(prerequisites, resources, commands, more)                                              \
	HEAD "prerequisites:\n- name: img\n  type: dockerimage\n  uri: u\n" prerequisites          \
	     "taskRoles:\n  worker:\n    dockerImage: img\n" resources                             \
	     "    commands:\n" commands more
#define RESOURCE "    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}\n"
#define ECHO     "    - echo\n"
/* Line 11 of the job. */
#define LINE(text) JOB("", "    " text "\n" RESOURCE, ECHO, "")

/* Returns all messages about the job, warnings last: one note for each mistake. */
struct message_case {
	const char *text, *says;
};

#define BLANK                                                                                      \
	"this character looks like a blank, but is another one (a no-break space, say): write a "  \
	"blank\n"
#define QUOTES                                                                                     \
	"must be text, is a mapping; text with a `: ` in it needs quotes, or a line of its own "   \
	"below `|`\n"

/* clang-format off */
static const struct message_case LINES[] = {
	{ LINE("instances:1"), "11:14: a blank is missing behind this `:`\n" },
	{ JOB("", "    resourcePerInstance:\n      cpu:1\n      memoryMB: 8\n      gpu: 0\n", ECHO, ""), "12:10: a blank is missing behind this `:`\n" },
	{ JOB("", "    resourcePerInstance:\n      cpu: 1\n      memoryMB: 8\n      gpu:0\n", ECHO, ""), "14:10: a blank is missing behind this `:`\n" },
	{ JOB("", "    resourcePerInstance: {cpu:1, memoryMB: 8, gpu: 0}\n", ECHO, ""),
	  "11:27: taskRoles.worker.resourcePerInstance[\"cpu:1\"]: unknown key `cpu:1`: a blank is missing behind the `:`\n" },
	{ LINE("instances\xef\xbc\x9a 1"), "11:14: this is a full-width colon: write `:` and a blank\n" },
	{ LINE("instances\xef\xbc\x9a""1"), "11:14: this is a full-width colon: write `:` and a blank\n" },
	{ JOB("", "  \xc2\xa0 instances: 1\n" RESOURCE, ECHO, ""), "11:3: " BLANK },
	{ JOB("", "\xe3\x80\x80\xe2\x80\x83instances: 1\n\n" RESOURCE, ECHO, ""), "11:1: " BLANK },
	{ LINE("instances:\xc2\xa0""1"), "11:15: " BLANK },
	{ JOB("", RESOURCE, "    -\xc2\xa0" "echo\n", ""), "13:6: " BLANK },
	{ JOB("", RESOURCE, "    -echo\n", ""), "13:5: a blank is missing behind this `-`\n" },
	{ JOB("", RESOURCE, "    - echo a\n    -echo b\n", ""), "14:5: a blank is missing behind this `-`\n" },
	{ JOB("", RESOURCE, "      -echo\n", ""), "13:7: taskRoles.worker.commands: must be a list, is text \"-echo\"; a blank is missing behind the `-`\n" },
	{ JOB("", RESOURCE, "    - echo step: done\n", ""), "13:7: taskRoles.worker.commands[0]: " QUOTES },
	{ JOB("", RESOURCE, "    - echo step:\n", ""), "13:7: taskRoles.worker.commands[0]: " QUOTES },
	{ JOB("", RESOURCE, "    - {a: b, c: d}\n", ""), "13:7: taskRoles.worker.commands[0]: must be text, is a mapping\n" },
	/* Innocent lines before the mistake. */
	{ JOB("", RESOURCE, "    - |\n      curl a:b\n      -v\n     c: d\n", ""), "16:6: a key is expected here: the indentation does not fit that of the keys before\n" },
	{ JOB("", RESOURCE, "    - http://a\n    - b c: d: e\n", ""),
	  "14:13: a `:` with a value is not allowed here (wrong indentation, or text with a `: ` that needs quotes)\n" },
};

static const struct message_case VALUES[] = {
	{ JOB("", "    resourcePerInstance: {cpu: 1, memoryMB: 8Gi, gpu: 0}\n", ECHO, ""),
	  "11:45: taskRoles.worker.resourcePerInstance.memoryMB: must be an integer, is text \"8Gi\": it counts MiB, write 8192\n" },
	{ JOB("", "    resourcePerInstance: {cpu: 1, memoryMB: 512 MB, gpu: 0}\n", ECHO, ""), ".memoryMB: must be an integer, is text \"512 MB\": it counts MiB, write 512\n" },
	{ JOB("", "    resourcePerInstance: {cpu: 1, memoryMB: 1t, gpu: 0}\n", ECHO, ""), "write 1048576\n" },
	{ JOB("", "    resourcePerInstance: {cpu: 1, memoryMB: 8Gig, gpu: 0}\n", ECHO, ""), "must be an integer, is text \"8Gig\"\n" },
	{ LINE("extraContainerOptions: {shmMB: 1g}"), "11:36: taskRoles.worker.extraContainerOptions.shmMB: must be an integer, is text \"1g\": it counts MiB, write 1024\n" },
	{ V1("", ",\"memoryMB\":\"4GB\""), "must be an integer, is text \"4GB\": it counts MiB, write 4096\n" },
};

/* Unknown references; a mistake in their target is not reported for each of them. */
static const struct message_case REFERENCES[] = {
	{ LINE("output: x"), "11:13: taskRoles.worker.output: there is no output prerequisite \"x\"\n" },
	{ LINE("prerequisites: [mig]"), "11:21: taskRoles.worker.prerequisites[0]: there is no prerequisite \"mig\"; did you mean `img`?\n" },
	{ JOB("- {name: set, type: data, uri: []}\n", "    data: sett\n" RESOURCE, "    - <% $data.uri[0] %>\n", ""),
	  "12:11: taskRoles.worker.data: there is no data prerequisite \"sett\"; did you mean `set`?\n" },
	{ HEAD "prerequisites:\n- {name: img, type: dockerimag, uri: u}\ntaskRoles:\n  w:\n    dockerImage: img\n" RESOURCE "    commands: [a]\n",
	  "5:21: prerequisites[0].type: must be one of \"script\", \"output\", \"data\" or \"dockerimage\", is \"dockerimag\"\n" },
	{ HEAD "prerequisites:\n- {name: img, type: dockerimage, uri: u}\ntaskRoles:\n  w:\n    dockrImage: img\n" RESOURCE "    commands: [a]\n",
	  "8:5: taskRoles.w.dockrImage: unknown key `dockrImage`, did you mean `dockerImage`?\n" },
	{ JOB("- {name: set, type: data, uri: []}\n", "    dta: set\n" RESOURCE, "    - echo\n", ""),
	  "12:5: taskRoles.worker.dta: unknown key `dta`, did you mean `data`?\n" },
	{ HEAD "prerequisites:\n- {nmae: img, type: dockerimage, uri: u}\ntaskRoles:\n  w:\n    dockerImage: img\n" RESOURCE "    commands: [a]\n",
	  "5:4: prerequisites[0].nmae: unknown key `nmae`, did you mean `name`?\n" },
	{ HEAD "prerequisite:\n- {name: img, type: dockerimage, uri: u}\ntaskRoles:\n  w:\n    dockerImage: img\n" RESOURCE "    commands: [a]\n",
	  "4:1: prerequisite: unknown key `prerequisite`, did you mean `prerequisites`?\n" },
	{ HEAD "prerequisites:\n- {name: img, type: dockerimage, uri: u}\ntaskRole:\n  w:\n    dockerImage: img\n" RESOURCE "    commands: [a]\n",
	  "6:1: taskRole: unknown key `taskRole`, did you mean `taskRoles`?\n" },
	{ JOB("", RESOURCE, "    - <% $parameters.a %>\n    - <% $parameters.b %>\n", "parameter: {a: 1}\n"),
	  "15:1: parameter: unknown key `parameter`, did you mean `parameters`?\n" },
	{ JOB("  auth: {username: a, password: <% $secrets.pw %>}\n", RESOURCE, "    - <% $secrets.pw %>\n", "secret: {pw: x}\n"),
	  "15:1: secret: unknown key `secret`, did you mean `secrets`?\n" },
	{ JOB("  auth: {username: a, password: <% $secrets.pww %>}\n", RESOURCE, ECHO, "secrets: {pwd: x}\n"),
	  "8:33: prerequisites[0].auth.password: there is no $secrets.pww to fill in; did you mean `$secrets.pwd`?\n" },
	{ JOB("", RESOURCE, ECHO, "deployments: [{name: prod, taskRoles: {worker: {}}}]\ndefaults: {deployment: pord}\n"),
	  "15:24: defaults.deployment: there is no deployment \"pord\"; did you mean `prod`?\n" },
	{ JOB("", RESOURCE, ECHO, "deployment: [{name: prod, taskRoles: {worker: {}}}]\ndefaults: {deployment: prod}\n"),
	  "14:1: deployment: unknown key `deployment`, did you mean `deployments`?\n" },
	{ JOB("", RESOURCE, ECHO, "extras: {hivedScheduler: {taskRoles: {wroker: {}}}}\n"), "Taskrole wroker does not exist. Did you mean `worker`?\n" },
};

static const struct message_case OLD[] = {
	{ JOB("", RESOURCE, ECHO, "retryCount: 1\n"), "14:1: retryCount: unknown key `retryCount`: in jobs of protocol 2 it is `jobRetryCount`\n" },
	{ JOB("", RESOURCE, ECHO, "virtualCluster: a\n"), "in jobs of protocol 2 it is `defaults.virtualCluster`\n" },
	{ JOB("", RESOURCE, ECHO, "hivedScheduler: {}\n"), "14:1: hivedScheduler: unknown key `hivedScheduler`: it is a member of `extras`\n" },
	{ JOB("", RESOURCE, ECHO, "env: {A: 1}\n"), "14:1: env: unknown key `env`: it is a member of `extras`\n" },
	{ LINE("taskNumber: 1"), "11:5: taskRoles.worker.taskNumber: unknown key `taskNumber`: in jobs of protocol 2 it is `instances`\n" },
	{ LINE("cpuNumber: 1\n    command: x"), "cpuNumber`: in jobs of protocol 2 it is `resourcePerInstance.cpu`\n12:5: taskRoles.worker.command: unknown key `command`: in jobs of protocol 2 it is `commands`, a list\n" },
};
/* clang-format on */

/* `exact`: there are no other messages. */
static void check_messages(const struct message_case *v, size_t n, bool exact)
{
	for (size_t i = 0; i < n; i++) {
		RUN_AUTO r = run_job(v[i].text);
		notes_sort(&r.err.notes);
		(void)notes_lines(&r, &r.err.notes);
		const char *all = notes_lines(&r, &r.warnings);
		if (exact && *v[i].says >= '0' && *v[i].says <= '9')
			assert_string_equal(all, v[i].says);
		else
			assert_within(all, v[i].says);
	}
}
#define CHECK(cases, exact) check_messages(cases, sizeof(cases) / sizeof(*(cases)), exact)

TEST(test_mistakes_are_explained_as_expected)
{
	/* Mistakes of syntax are explained. */
	CHECK(LINES, true);
	/* Mistakes in values are explained. */
	CHECK(VALUES, true);
	/* Unknown references give suggestions. */
	CHECK(REFERENCES, true);
	/* Keys of v1 in v2 jobs are explained. */
	CHECK(OLD, true);
}

TEST(test_texts_that_are_no_jobs_are_named)
{
	static const struct message_case CASES[] = {
		{ "#!/bin/bash\n#SBATCH --gres=gpu:1\nsrun x\n",
		  "1:1: this is a script, not a job; " },
		{ "#SBATCH -n 1\nx: {\n", "1:1: this is a script, not a job; " },
		{ "import os\nfor i in x:\n    print(i)\n", "submit -- python3 train.py\n" },
		{ "\"\"\"It trains: well\"\"\"\nfrom a import b\nb()\n",
		  "this is a script, not a job; " },
		{ "protocolVersion: 2name: jtype: jobtaskRoles:  w:",
		  "1:1: the line ends are missing: curl needs --data-binary for a file, as -d "
		  "removes them\n" },
		{ "jobName: j image: i", "" },
		{ "imports: [\n", "" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		RUN_AUTO r = run_job(CASES[i].text);
		const char *all = notes_lines(&r, &r.err.notes);
		assert_null(r.job);
		assert_within(all, CASES[i].says);
		if (!*CASES[i].says && (strstr(all, "script") || strstr(all, "curl")))
			fail_msg("%s", all);
	}
}

TEST(test_duplicate_keys_hide_no_other_error)
{
	static const struct message_case CASES[] = {
		{ JOB("", "    instances: 0\n    instances: 1\n    foo: 1\n" RESOURCE, ECHO,
		      "defaults: {}\ndefaults: {}\n"),
		  "11:16: taskRoles.worker.instances: must be at least 1, is 0\n"
		  "12:5: taskRoles.worker.instances: duplicate key \"instances\": it stands on "
		  "line 11 "
		  "and again on line 12\n"
		  "13:5: taskRoles.worker.foo: unknown key `foo`\n"
		  "18:1: defaults: duplicate key \"defaults\": it stands on line 17 and again on "
		  "line "
		  "18\n" },
		{ V1("\"retryCount\":1,\"retryCount\":2,\"foo\":1,", ""),
		  "1:43: retryCount: duplicate key \"retryCount\": it stands on line 1 and again "
		  "on "
		  "line 1\n1:58: foo: unknown key `foo`\n" },
		/* The tree lacks one of the secrets then, which a message could show. */
		{ JOB("", "    foo: 1\n" RESOURCE, ECHO, "secrets: {a: b}\nsecrets: {a: c}\n"),
		  "16:1: secrets: duplicate key \"secrets\": it stands on line 15 and again on "
		  "line "
		  "16\n" },
	};
	CHECK(CASES, true);
}
