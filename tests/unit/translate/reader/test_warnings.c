/* A job for every warning, and good jobs without warnings. */
#include "tests/unit/translate/parse_kit.h"

#include "translate/dialects/raw_pod.h"

#define PARAMETER(value)                                                                           \
	HEAD IMAGE ROLE COMMANDS("'<% $parameters.x %>'") "parameters: {x: " value "}\n"
#define COMMAND(text)                                                                              \
	HEAD IMAGE ROLE COMMANDS("'" text "'") "parameters: {lr: 1, n: null, in: '<% "             \
					       "$parameters.lr %>', s: '<% $secrets.a %>'}\n"
#define AUTH(member)                                                                               \
	HEAD "prerequisites: [{name: i, type: dockerimage, uri: u, auth: {" member                 \
	     "}}]\n" ROLE COMMANDS("echo")
#define RESOURCES(more)                                                                            \
	HEAD IMAGE "taskRoles:\n  w:\n    dockerImage: i\n    resourcePerInstance: {" more         \
		   "}\n" COMMANDS("echo")

#define PLUGIN(entry)    "extras: {com.microsoft.pai.runtimeplugin: [" entry "]}\n"
#define PLUGIN_V1(entry) "\"extras\":{\"com.microsoft.pai.runtimeplugin\":[" entry "]},"

/* The beginning of LINE:COLUMN: PLACE: SENTENCE. */
struct warning_case {
	const char *text, *line;
};

/* clang-format off */
static const struct warning_case CASES[] = {
	{ RESOURCES("cpu: 010, memoryMB: 8, gpu: 0"),
	  "8:32: taskRoles.w.resourcePerInstance.cpu: is 8: a number that begins with 0 is octal here, but decimal in YAML 1.2" },
	{ PARAMETER("017"), "10:17: parameters.x: is 15: " },
	{ PARAMETER("1:30"), "10:17: parameters.x: is 90: a number with `:` is to base 60 here" },
	{ RESOURCES("cpu: 1, memoryMB: 1:30, gpu: 0"), "memoryMB: is 90: " },
	{ PARAMETER("12345678901234567890"), "10:17: parameters.x: is 12345678901234567000: integers beyond 2^53 are rounded" },
	{ V1("\"jobEnvs\":{\"A\":12345678901234567890},", ""), "jobEnvs.A: is 12345678901234567000: " },
	{ PARAMETER("2001-01-01"), "10:17: parameters.x: is text here, but a date for many others; write it in quotes" },
	{ PARAMETER("yes"), "10:17: parameters.x: is text here, but true or false in YAML 1.1; write it in quotes" },
	{ PARAMETER("[a, {b: off}]"), "parameters.x[1].b: is text here, but true or false" },
	{ PARAMETER("08"), "10:17: parameters.x: is text here, but a number in YAML 1.2; write it in quotes" },
	{ PARAMETER("0o17"), "parameters.x: is text here, but a number in YAML 1.2" },
	{ PARAMETER("1.10"), "10:17: parameters.x: becomes 1.1 when it is filled in; in quotes it stays" },
	{ PARAMETER("True"), "parameters.x: becomes true when" },
	{ PARAMETER("1_000"), "parameters.x: becomes 1000 when" },
	{ PARAMETER(".inf"), "parameters.x: becomes Infinity when" },
	{ V1("\"env\":{\"A\":1.50},", ""), "env.A: becomes 1.5 when" },
	{ V2("secrets: {a: 0123}\n"), "10:14: secrets.a: is another number: a number that begins with 0 is octal" },
	{ V2("secrets: {a: {b: 1.50}}\n"), "10:18: secrets.a.b: becomes another text when" },
	{ V1("", ",\"taskNumber\":\"2\""), "taskRoles[0].taskNumber: is text; it is taken as the number 2" },
	{ V2("defaults: {<<: {virtualCluster: a}, <<: {virtualCluster: b}}\n"), "10:37: defaults: `<<` stands twice in this mapping" },
	{ V2("parameters: {?x: 1}\n"), "10:15: parameters.x: the `?` before this key does not belong to it here" },
	{ V2("parameters:\n  x: &a:b 5\n"), "11:6: parameters.x: the name of this anchor ends before the `:` here" },
	{ V2("parameters:\n  x: !!str &a:b 5\n"), "11:6: parameters.x: the name of this anchor ends before the `:` here" },
	{ V1("// here\n", ""), "1:28: comments are not part of JSON; they are skipped" },

	{ COMMAND("<% $parameters.x1y2 %>"), "9:16: taskRoles.w.commands[0]: <% $parameters.x1y2 %> leads to nothing, it is left as it is" },
	{ COMMAND("<% $parameters.lt %>"), "<% $parameters.lt %> leads to nothing, it is left as it is; did you mean `$parameters.lr`?" },
	{ COMMAND("<% parameters.lr %>"), "did you mean `$parameters.lr`?" },
	{ COMMAND("<% $secrets.a %>"), "<% $secrets.a %> leads to nothing, it is left as it is" },
	{ COMMAND("<% $secrets.b %>") "secrets: {abcd: hunter2}\n", "<% $secrets.b %> leads to nothing, nothing is put there" },
	{ COMMAND("<% $secrets.abdc %>") "secrets: {abcd: hunter2}\n", "nothing is put there; did you mean `$secrets.abcd`?" },
	{ COMMAND("<% $secrets.a %>") "secrets: {a: }\n", "<% $secrets.a %> is null, nothing is put there" },
	{ COMMAND("<% $parameters.n %>"), "<% $parameters.n %> is null, it is left as it is" },
	{ COMMAND("<% $parameters.in %>"), "9:16: taskRoles.w.commands[0]: the value of <% $parameters.in %> has a placeholder, too" },
	{ COMMAND("<%& $parameters.lr %>"), "<%& $parameters.lr %> is taken out: only names are filled in, as in <% $parameters.x %>" },
	{ COMMAND("a <%# x %>b<%/ x %>"), "<%# x %> is taken out" },
	{ COMMAND("{{ $parameters.lr }}"), "{{ $... }} is not filled in; write <% $... %>" },
	{ V2("extras: {env: {A: 1.10}}\n"), "10:19: extras.env.A: becomes 1.1 when it is filled in; in quotes it stays" },
	{ V2("extras: {env: {A: '<% $parameters.x %>'}}\n"), "10:19: extras.env.A: is passed on as it is written" },
	{ V2("extras: {env: {A: $HOME/x}}\n"), "10:19: extras.env.A: is passed on as it is written: placeholders and `$` are replaced in commands only" },
	{ V2("extras: {env: {A: 'x${PAI_JOB_NAME}'}}\n"), "10:19: extras.env.A: is passed on" },
	{ V2("extras: {env: {A: $(PAI_JOB_NAME)}}\n"), "10:19: extras.env.A: is passed on" },
	{ V2("extras: {forceNodes: [a]}\n"), "10:22: extras.forceNodes: is ignored: the cluster decides it" },
	{ V2("extras: {enableLocalStorage: true}\n"), "10:30: extras.enableLocalStorage: is ignored" },
	{ V2("  v: {dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}, commands: [b]}\n"),
	  "6:3: taskRoles: the job ends when all tasks of one role have succeeded, and the others are stopped; to wait for all, write `completion: {minSucceededInstances: -1}` into each role" },
	{ V2("extras: {env: {WANDB_API_KEY: abc}}\n"), "extras.env.WANDB_API_KEY: others can read this" },
	{ V1("\"extras\":{\"env\":{\"A\":1}},", ""), "extras.env: has no effect in v1 jobs; write `jobEnvs`" },
	{ COMMAND("echo {{FC_TASK_INDEX}}"), "taskRoles.w.commands: {{FC_...}} is replaced by the FrameworkController" },

	{ V2_ROLE("    completion: {minSucceededInstances: 2}\n"),
	  "9:41: taskRoles.w.completion.minSucceededInstances: is above the number of instances: this never happens" },
	{ V2_ROLE("    completion: {minFailedInstances: 2}\n"), "completion.minFailedInstances: is above" },
	{ V2_ROLE("    taskRetryCount: 1\n"), "taskRoles.w.taskRetryCount: has no effect unless extras.gangAllocation is false" },
	{ RESOURCES("cpu: 1, memoryMB: 8, gpu: 0, ports: {a: 0}"), "resourcePerInstance.ports.a: is 0: no port is found for this label" },
	{ RESOURCES("cpu: 1, memoryMB: 8, gpu: 0, ports: {http: 8080}"), "resourcePerInstance.ports.http: 8080 ports of each task are reserved for this label" },
	{ V1("", ",\"portList\":[{\"label\":\"a\",\"portNumber\":22}]"), "portList[0].portNumber: 22 ports of each task" },
	{ V1("", ",\"portList\":[{\"label\":\"a\",\"portNumber\":0}]"), "portList[0].portNumber: is 0: no port" },
	{ V2_ROLE("    extraContainerOptions: {shmMB: 9}\n"), "extraContainerOptions.shmMB: is above memoryMB (8)" },

	{ V2("deployments: [{name: d, taskRoles: {nope: {}}}]\ndefaults: {deployment: d}\n"), "10:37: deployments[0].taskRoles.nope: there is no such task role" },
	{ V2("deployments: [{name: d, taskRoles: {W: {}}}]\ndefaults: {deployment: d}\n"), "there is no such task role" },
	{ HEAD IMAGE "taskRoles:\n  worker:\n    dockerImage: i\n    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}\n" COMMANDS("a")
	  "deployments: [{name: d, taskRoles: {wroker: {}}}]\ndefaults: {deployment: d}\n",
	  "10:37: deployments[0].taskRoles.wroker: there is no such task role; did you mean `worker`?" },
	{ V2(PLUGIN("{plugin: ssh, taskroles: [w, nope]}")), "10:73: extras[\"com.microsoft.pai.runtimeplugin\"][0].taskroles[1]: there is no such task role" },
	{ V1(PLUGIN_V1("{\"plugin\":\"ssh\",\"taskroles\":[\"n\"]}"), ""), "taskroles[0]: there is no such task role" },
	{ V2(PLUGIN("{plugin: super_scheduler}")), "10:53: extras[\"com.microsoft.pai.runtimeplugin\"][0].plugin: pai-runtime has no plugin of this name" },
	{ V2(PLUGIN("{plugin: teamwiase_storage}")), "pai-runtime has no plugin of this name; did you mean `teamwise_storage`?" },
	{ V2("deployments: [{name: d, taskRoles: {w: {preCommands: [a]}}}]\n"), "10:14: deployments: none of them is in force" },
	{ HEAD "prerequisites: [{name: i, type: dockerimage, uri: u}, {name: d, type: data, uri: []}]\n" ROLE COMMANDS("echo"),
	  "prerequisites[1]: no task role uses this prerequisite" },
	{ V2("extras: {gangAlocation: false}\n"), "10:10: extras.gangAlocation: has no effect; did you mean `gangAllocation`?" },
	{ V2("defaults: {virtualcluster: a}\n"), "did you mean `virtualCluster`?" },
	{ V2_ROLE("    extraContainerOptions: {shmMb: 9}\n"), "did you mean `shmMB`?" },
	{ V2("extras: {storages: [{name: a, mountpath: /x}]}\n"), "did you mean `mountPath`?" },
	{ V2("extras: {com.microsoft.pai.runtimeplugin: [{plugin: git, parameters: {repo_uri: 'http://h/x'}}]}\n"), "parameters.repo_uri: is refused in the pod: plugin git clones by https:// and ssh only" },
	{ MXJOB_LOCAL("  RuntimeId: abcd\n", "template: " TEMPLATE("")), "6:3: spec.RuntimeId: is not kept: it has no meaning here" },
	{ MXJOB_LOCAL("", "template: " TEMPLATE("hostNetwork: true, ")), "spec.replicaSpecs[0].template.spec.hostNetwork: is not kept: the installation decides" },
	{ MXJOB_CHIEF("replicas: 2, template: " TEMPLATE("")), "5:3: spec: 2 replicas must all succeed" },
	{ LAUNCHER("", TEMPLATE("")), "spec.taskRoles[0].task.pod.spec: has no restartPolicy, which is Never here" },
	{ LAUNCHER("", "{spec: {restartPolicy: Never, containers: [{name: a, image: i, command: [echo, j-1]}]}}"), "containers[0].command: has the name j-1, but the Framework is called " },
	{ MXJOB("kubeflow.org/v1alpha1", "", "template: " TEMPLATE("") "}\n  - {mxReplicaType: SCHEDULER, template: {spec: {containers: [{name: mxnet, image: i, command: [x], env: [{name: DMLC_ROLE, value: x}]}]}}"), "env: DMLC_ROLE is set by the job, to scheduler" },
	{ MXJOB_LOCAL("", "template: " TEMPLATE("nodeName: n, ")), "spec.replicaSpecs[0].template.spec.nodeName: is left out: this installation chooses" },
	{ MXJOB_LOCAL("", "template: " TEMPLATE("toleration: [x], ")), "spec.toleration: is left out: pods of tasks do not have it" },
	{ MXJOB_LOCAL("", "template: {metadata: {labels: {FC_X: y, a.b/c: d}}, spec: {containers: [{name: mxnet, image: i, command: [x]}]}}"), "template.metadata.labels.FC_X: is left out: names of this form belong to the cluster" },
	{ MXJOB_LOCAL("", "template: {spec: {containers: [{name: mxnet, image: i, command: [x], resources: {limits: {alpha.kubernetes.io/nvidia-gpu: 1}}}]}}"), "is taken as nvidia.com/gpu" },
	{ V2("extras: {com.microsoft.pai.runtimeplugin: [{plugin: git, parameters: {repo_uri: 'https://h/x', options: [--depth 1, '--filter=blob:none']}}]}\n"), "parameters.options[1]: is refused in the pod: plugin git takes --depth, --branch, --recursive and --single-branch only" },
	{ V2("extras: {storages: [{name: a, readOnly: true}]}\n"), "extras.storages[0].readOnly: is ignored: the cluster decides it" },
	{ V2("extras: {hivedScheduler: {taskRoles: {w: {}}}}\n"), "extras.hivedScheduler: is ignored: the scheduler here is not HiveD" },
	{ V2("extras: {storages: [{}]}\n"), "extras.storages[0]: has no name and is skipped" },

	{ AUTH("password: hunter2"), "4:71: prerequisites[0].auth.password: is left out of the stored job" },
	{ V2("parameters: {db_password: hunter2}\n"), "10:27: parameters.db_password: others can read this" },
	{ V2("parameters: {AWS_SECRET_ACCESS_KEY: hunter2}\n"), "parameters.AWS_SECRET_ACCESS_KEY: others can read this" },
	{ V2("parameters: {apiKey: hunter2}\n"), "parameters.apiKey: others can read this" },
	{ V2("parameters: {u: 'https://me:hunter2@example.org/'}\n"), "10:36: others can read the password in this URL; use <% $secrets.NAME %>" },

	{ V1("\"dataDir\":\"http://me:hunter2@h/\",", ""), "others can read the password in this URL, as it is stored with the job" },

	{ V1("\"codeDir\":\"hdfs://x\",", ""), "codeDir: is not copied into the container; the variable PAI_CODE_DIR has its name" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"killAllOnCompletedTaskNumber\":1,\"taskRoles\":[{\"name\":\"a\",\"command\":\"x\"},"
	  "{\"name\":\"b\",\"command\":\"x\"}]}", "killAllOnCompletedTaskNumber: counts per task role here" },
	{ V1("\"extras\":{\"distributed\":{}},", ""), "extras.distributed: has no effect in v1 jobs" },
	{ V1("\"killAllOnCompletedTaskNumber\":1,", ",\"minFailedTaskCount\":1"), "killAllOnCompletedTaskNumber: is ignored: task roles have their own" },
	{ V1("", ",\"portList\":[{\"label\":\"a\",\"beginAt\":5000}]"), "portList[0].beginAt: is ignored: ports are chosen" },
	{ V1("", ",\"portList\":[{\"label\":\"1.a\"}]"), "portList[0].label: becomes _1_a in names of variables" },
	{ "{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"1\",\"command\":\"x\"},{\"name\":\"b\",\"command\":\"x\"}]}",
	  "1:49: taskRoles[0].name: PAI_TASK_ROLE_1_HOST_LIST has the tasks of this role, not of that at position 1" },
	{ V1("\"gpuType\":\"K80\",", ""), "gpuType: is ignored: nodes are not chosen by it" },
};

/* These jobs give no warning. */
static const char *const QUIET[] = {
	V2(""),
	V1("", ""),
	V2("parameters: {? x: 1, y: &a [a?b], z: [&b, &c]}\n# ?\n"),
	V2("description: yes\nversion: 1.10\ncontributor: off\n"),
	V2("parameters: {x: 1.10, y: yes, d: 2001-01-01}\n"), /* no command uses them */
	V2("extras: {submitFrom: yes, x: [017]}\n"),
	PARAMETER("'1.10'"), PARAMETER("1e-3"), PARAMETER("0.001"), PARAMETER("true"), PARAMETER("-1"), PARAMETER("y"),
	RESOURCES("cpu: 0x10, memoryMB: 1_024, gpu: 0"), /* numbers, and no doubt about them */
	COMMAND("<% $parameters.lr %><%! a comment %>{{ x }}"), COMMAND("{{ FC_TASK_INDEX }}"),
	COMMAND("<% $parameters.s %> <% $secrets.a %>") "secrets: {a: b}\n",
	V2("secrets: {a: '017', b: text}\n"),
	V2("parameters: {max_tokens: a, pad_token: b, password: '<% $secrets.x %>', passwords: c, secret: ''}\n"),
	AUTH("password: '<% $secrets.a %>', username: me") "secrets: {a: b}\n",
	V2_ROLE("    extraContainerOptions: {shmMB: 8, infiniband: true}\n"),
	V2_ROLE("    completion: {minSucceededInstances: -1, minFailedInstances: 1}\n"),
	V2(PLUGIN("{plugin: ssh, taskroles: [w]}, {plugin: cmd}, {plugin: git}, {plugin: tensorboard}, {plugin: teamwise_storage}")),
	RESOURCES("cpu: 1, memoryMB: 8, gpu: 0, ports: {a: 1, b: 19}"),
	V2("extras: {whatever: 1, gang: 2}\n"),
	V2("extras: {com.microsoft.pai.runtimeplugin: [{plugin: git, parameters: {repo_uri: 'git@h:x', options: [--depth, '1', -b, v1, --branch=x --recursive --single-branch]}}]}\n"),
	V2("extras: {com.microsoft.pai.runtimeplugin: [{plugin: cmd, parameters: {repo_uri: 'http://h/x'}}, {plugin: git, parameters: {repo_uri: ssh://h/x}}]}\n"),
	COMMAND("docker://ubuntu:22.04@sha256:aa ftp://joe:@h https://u:`pw`@h https://u:$PW@h"),
	HEAD "prerequisites: [{name: i, type: dockerimage, uri: u}, {name: d, type: data, uri: []}, {name: o, type: output, require: [d]}]\n"
	ROLE "    prerequisites: [o]\n" COMMANDS("echo"),
	"{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"0\",\"command\":\"x\"},{\"name\":\"2\",\"command\":\"x\"}]}",
	V1("\"codeDir\":\"\",\"gpuType\":\"\",", ""),
	"{\"jobName\":\"j\",\"image\":\"i\",\"taskRoles\":[{\"name\":\"m\",\"command\":\"echo {{ $parameters.x }}\"}]}",
};
/* clang-format on */
enum { N_CASES = ARRAY_SIZE(CASES), N_QUIET = ARRAY_SIZE(QUIET) };

enum { ROWS_MAX = 200 };

/* The first column of the rows of docs/WARNINGS.md: sentences with "…" in the places of other
 * texts. */
static size_t read_rows(const char *rows[static ROWS_MAX])
{
	size_t n = 0;
	for (struct span rest = unit_read("docs/WARNINGS.md"); rest.n;) {
		struct span line = span_next(&rest, '\n');
		if (!span_starts(line, "| ") || span_starts(line, "| warning |"))
			continue;
		assert_true(n < ROWS_MAX);
		rows[n++] =
		    arena_dup(&unit.a, span_from(span_to(line, span_find(line, 1, " | ")), 2));
	}
	return n;
}

/* Returns true if the row can stand for this text. */
static bool stands_for(const char *row, const char *text)
{
	static const char ANY[] = "…";
	while (*row && strncmp(row, ANY, strlen(ANY)) != 0)
		if (*row++ != *text++)
			return false;
	if (*row == '\0')
		return *text == '\0';
	row += strlen(ANY);
	for (; *text; text++)
		if (stands_for(row, text))
			return true;
	return stands_for(row, text);
}

TEST(test_each_case_gives_its_warning)
{
	for (size_t i = 0; i < N_CASES; i++)
		assert_warned(CASES[i].text, CASES[i].line);
}

/* Every warning has a row in the document, and every row has a job that gives it. */
TEST(test_document_has_exactly_the_warnings_given)
{
	const char *rows[ROWS_MAX];
	bool said[ROWS_MAX] = { false };
	size_t n = read_rows(rows);
	for (size_t i = 0; i < N_CASES; i++) {
		RUN_AUTO r = run_good(CASES[i].text);
		raw_keys_warn(r.job, &(struct facts){ 0 }, &r.warnings);
		for (size_t k = 0; k < r.warnings.n; k++) {
			size_t row = n; /* from behind, where the longer ones are */
			while (row > 0 && !stands_for(rows[row - 1], r.warnings.v[k].msg))
				row--;
			if (row == 0)
				fail_msg("not in WARNINGS.md: %s", r.warnings.v[k].msg);
			said[row - 1] = true;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (!said[i])
			fail_msg("no case for: %s", rows[i]);
}

TEST(test_good_jobs_give_no_warnings)
{
	for (size_t i = 0; i < N_QUIET; i++)
		assert_quiet(QUIET[i]);
}

TEST(test_warnings_show_no_secret)
{
	static const char *const SECRETS[] = {
		V2("secrets: {a: 12345678901234567891, b: 1.2500, c: 077}\n"),
		AUTH("password: hunter2"),
		V2("parameters: {u: 'https://me:hunter2@x/', password: hunter2}\n"),
	};
	for (size_t i = 0; i < ARRAY_SIZE(SECRETS); i++) {
		RUN_AUTO r = run_good(SECRETS[i]);
		const char *all = notes_lines(&r, &r.warnings);
		assert_true(r.warnings.n > 0);
		static const char *const VALUES[] = { "hunter2", "12345678901234",
			                              "1.25",    " 63",
			                              "077",     NULL };
		for (const char *const *v = VALUES; *v; v++)
			assert_null(strstr(all, *v));
	}
}

/* Warnings are sorted by place and appear once: the lines of a deployment belong to two roles. */
TEST(test_warnings_are_sorted_and_unique)
{
	RUN_AUTO r = run_good(
	    HEAD "deployments: [{name: d, taskRoles: {w: {preCommands: ['<% $parameters.u %>']}, "
		 "no: {}}}]\ndefaults: {deployment: d}\njobRetryCount: 017\n" IMAGE
		 "taskRoles:\n  w: &w\n    dockerImage: i\n    completion: {}\n    "
		 "taskRetryCount: 1\n"
		 "    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}\n"
		 "    commands: ['<% $parameters.v %>']\n  v: *w\n");
	assert_string_equal(
	    notes_lines(&r, &r.warnings),
	    "4:55: deployments[0].taskRoles.w.preCommands[0]: <% $parameters.u %> leads to "
	    "nothing, "
	    "it is left as it is\n"
	    "4:80: deployments[0].taskRoles.no: there is no such task role\n"
	    "6:16: jobRetryCount: is 15: a number that begins with 0 is octal here, but decimal in "
	    "YAML 1.2; write it without the 0, or in quotes if it is text\n"
	    "12:21: taskRoles.w.taskRetryCount: has no effect unless extras.gangAllocation is "
	    "false\n"
	    "12:21: taskRoles.v.taskRetryCount: has no effect unless extras.gangAllocation is "
	    "false\n"
	    "14:16: taskRoles.w.commands[0]: <% $parameters.v %> leads to nothing, it is left as "
	    "it "
	    "is\n"
	    "14:16: taskRoles.v.commands[0]: <% $parameters.v %> leads to nothing, it is left as "
	    "it "
	    "is\n");
	run_done(&r);
	r = run_good(
	    HEAD "deployments: [{name: d, taskRoles: &r {w: {preCommands: [a]}, no: {}, no2: {}}}, "
		 "{name: e, taskRoles: *r}]\n" IMAGE ROLE COMMANDS("echo"));
	assert_int_equal(r.warnings.n, 5);
}

/* Secrets that the task gets at its start are no unresolved placeholders, in any number. */
TEST(test_many_secrets_give_no_warning)
{
	STR_AUTO text = STR_INIT(1 << 16);
	str_puts(&text, HEAD IMAGE ROLE "    commands: ['");
	str_many(&text, "<% $secrets.s %>", 12);
	size_t n = text.n;
	str_puts(&text, "']\nsecrets: {s: x}\n");
	struct run r = run_good(str_c(&text));
	assert_int_equal(r.warnings.n + r.warnings.dropped, 0);
	run_done(&r);
	text.n = n;
	str_puts(&text, "<% $secrets.no %>']\nsecrets: {s: x}\n");
	r = run_good(str_c(&text));
	assert_int_equal(r.warnings.n, 1);
	assert_int_equal(r.warnings.dropped, 0);
	run_done(&r);
}

TEST(test_warnings_beyond_the_limit_are_counted)
{
	STR_AUTO text = STR_INIT(1 << 16);
	str_puts(&text, HEAD IMAGE ROLE COMMANDS("echo") "secrets:\n");
	for (int i = 0; i < NOTES_MAX + 7; i++)
		str_printf(&text, "  s%d: 017\n", i);
	struct run r = run_good(str_c(&text));
	assert_int_equal(r.warnings.n, NOTES_MAX);
	assert_int_equal(r.warnings.dropped, 7);
	run_done(&r);
	text.n = 0;
	str_puts(&text, HEAD IMAGE ROLE "    commands: ['");
	for (int i = 0; i < 12; i++)
		str_printf(&text, "<%% $parameters.p%d %%>", i);
	str_puts(&text, "']\n");
	r = run_good(str_c(&text));
	assert_int_equal(r.warnings.n + r.warnings.dropped, 12);
	run_done(&r);
	text.n = 0;
	str_puts(&text, HEAD IMAGE ROLE COMMANDS("echo"));
	str_many(&text, "# http://me:it@example.org\n", NOTES_MAX + 7);
	r = run_good(str_c(&text));
	assert_int_equal(r.warnings.n, NOTES_MAX);
	assert_int_equal(r.warnings.dropped, 7);
	run_done(&r);
}
