/* Jobs of protocol version 2: defaults, errors and warnings. */
#include "tests/unit/translate/parse_kit.h"

/* ---- defaults ----------------------------------------------------------------------------- */

TEST(test_completion_of_zero_means_the_default)
{
	RUN_AUTO r = run_good(V2_ROLE("    instances: 3\n    completion: {minFailedInstances: 0, "
	                              "minSucceededInstances: null}\n"));
	assert_int_equal(r.job->roles[0].min_failed, 1);
	assert_int_equal(r.job->roles[0].min_succeeded, 3);
}

TEST(test_max_duration_is_read_from_extras)
{
	RUN_AUTO r = run_good(V2_ROLE("") "extras: {maxDurationSec: 90}");
	assert_int_equal(r.job->max_duration_s, 90);
	run_done(&r);
	r = run_good(V2_ROLE("") "extras: {}");
	assert_int_equal(r.job->max_duration_s, 0);
}

TEST(test_env_of_extras_is_that_of_every_role)
{
	RUN_AUTO r = run_good(HEAD IMAGE ROLE COMMANDS(
	    "echo") "  x:\n    dockerImage: i\n"
	            "    resourcePerInstance: {cpu: 1, memoryMB: 8, gpu: 0}\n" COMMANDS(
			"echo") "extras: {env: {A: 1, B: true, _c: '$(x) $$', D: 0.5, E: '', "
	                        "PAI_SSH_PUB_KEY: k}}\n");
	static const char *const WANT[] = {
		"A", "1", "B", "true", "_c", "$(x) $$", "D", "0.5", "E", "", "PAI_SSH_PUB_KEY", "k"
	};
	for (size_t i = 0; i < r.job->n_roles; i++) {
		assert_int_equal(r.job->roles[i].n_env, ARRAY_SIZE(WANT) / 2);
		for (size_t k = 0; k < ARRAY_SIZE(WANT) / 2; k++) {
			assert_span(r.job->roles[i].env[k].name, WANT[2 * k]);
			assert_span(r.job->roles[i].env[k].value, WANT[2 * k + 1]);
		}
	}
}

TEST(test_secret_env_names_secrets_with_a_value)
{
	static const struct refusal CASES[] = {
		{ V2("extras: {secretEnv: [K]}"), "10:22: extras.secretEnv[0]: K must be text" },
		{ V2("extras: {secretEnv: [K]}\nsecrets: {K: [1]}"), "K must be text" },
		{ V2("extras: {secretEnv: [PAI_K]}\nsecrets: {PAI_K: 1}"), "PAI_K is reserved" },
		{ V2("extras: {secretEnv: [a-b]}\nsecrets: {a-b: 1}"),
		  "must be a name of an environment variable" },
		{ V2("extras: {secretEnv: K}\nsecrets: {K: 1}"), "extras.secretEnv: " },
		{ NULL, NULL },
	};
	assert_all_refused(CASES);
	RUN_AUTO r =
	    run_good(V2("extras: {secretEnv: [K, L]}\nsecrets: {K: hunter2, L: 5, M: [x]}"));
	assert_true(job_has_secrets(r.job));
}

TEST(test_env_of_more_than_256_variables_is_refused)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, V2("extras:\n  env:\n"));
	for (int i = 0; i < 256; i++)
		str_printf(&text, "    A%d: 1\n", i);
	RUN_AUTO good = run_good(str_c(&text));
	assert_int_equal(good.job->roles[0].n_env, 256);
	str_puts(&text, "    B: 1\n");
	assert_refused(str_c(&text), "extras.env: at most 256 variables, here are 257");
}

TEST(test_env_value_longer_than_linux_takes_is_refused)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, V2("extras: {env: {A: \""));
	str_many(&text, "x", 131071);
	str_puts(&text, "\"}}");
	assert_refused(str_c(&text), "extras.env.A: is longer than 131071 bytes");
}

#define SHA        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CODE(more) V2("extras: {code: {sha256: " SHA more "}}")

TEST(test_code_of_extras_has_its_defaults)
{
	RUN_AUTO r = run_good(CODE(""));
	assert_span(r.job->code.sha256, SHA);
	assert_span(r.job->code.path, "/workspace");
	assert_span(r.job->code.commit, "");
	assert_false(r.job->code.changed);
	RUN_AUTO all = run_good(CODE(", path: /usr/src/app/, commit: v1.0-2_g, changed: true"));
	assert_span(all.job->code.path, "/usr/src/app");
	assert_span(all.job->code.commit, "v1.0-2_g");
	assert_true(all.job->code.changed);
	RUN_AUTO none = run_good(V2(""));
	assert_int_equal(none.job->code.sha256.n, 0);
}

TEST(test_results_of_extras_are_in_the_working_directory)
{
	static const struct {
		const char *text, *path, *link;
	} ROWS[] = {
		{ V2("extras: {results: true}"), "/workspace/results", "results" },
		{ V2("extras: {results: {}}"), "/workspace/results", "results" },
		{ V2("extras: {results: {path: out-1.x_y}}"), "/workspace/out-1.x_y", "out-1.x_y" },
		{ V2("extras: {results: {path: /srv/out/}}"), "/srv/out", "" },
		{ CODE("}, results: {"), "/workspace/results", "" },
		{ CODE(", path: /src}, results: {path: out"), "/src/out", "" },
		{ CODE(", path: /src}, results: {path: /srcs"), "/srcs", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
		RUN_AUTO r = run_good(ROWS[i].text);
		assert_true(r.job->results.wanted);
		assert_span(r.job->results.path, ROWS[i].path);
		assert_span(r.job->results.link, ROWS[i].link);
	}
	static const char *const NONE[] = { V2(""), V2("extras: {results: false}") };
	for (size_t i = 0; i < ARRAY_SIZE(NONE); i++) {
		RUN_AUTO r = run_good(NONE[i]);
		assert_false(r.job->results.wanted);
	}
	static const struct refusal CASES[] = {
		{ V2("extras: {results: yes please}"), "extras.results: " },
		{ V2("extras: {results: {path: a/b}}"),
		  "extras.results.path: a/b must be one name" },
		{ V2("extras: {results: {path: ..}}"), "must be one name" },
		{ V2("extras: {results: {path: ''}}"), "must be one name" },
		{ V2("extras: {results: {path: /etc}}"), "/etc " },
		{ V2("extras: {results: {path: /a/../b}}"), "/a/../b " },
		{ V2("extras: {results: {to: x}}"), "extras.results" },
		{ CODE("}, results: {path: /workspace"), "in the directory of the code" },
		{ CODE("}, results: {path: /workspace/x"), "in the directory of the code" },
		{ CODE(", path: /a/b}, results: {path: /a"), "in the directory of the code" },
		{ NULL, NULL },
	};
	assert_all_refused(CASES);
}

TEST(test_command_has_its_placeholders_replaced)
{
	RUN_AUTO r = run_good(
	    HEAD "prerequisites:\n"
		 "- {name: i, type: dockerimage, uri: ubuntu}\n"
		 "- {name: d, type: data, uri: [hdfs://0, 'x y']}\n"
		 "- {name: i, type: script, uri: s}\n" ROLE "    data: d\n    script: i\n" COMMANDS(
		     "'<% $data.uri[1] %> <% $script.uri %> <% $parameters.p %> '") //
	    "parameters: {p: 1.50}\n");
	assert_span(r.job->roles[0].command, "x y s 1.5");
}

TEST(test_secrets_in_commands_stay_placeholders)
{
	const char *text =
	    HEAD IMAGE ROLE COMMANDS("'<% $secrets.s[0] %>'") "secrets: {s: [hunter2]}";
	struct run r = run_good(text);
	assert_span(r.job->roles[0].command, "<% $secrets.s[0] %>");
	assert_non_null(r.job->secrets);
	assert_true(job_has_secrets(r.job));
	run_done(&r);
	assert_quiet(text);
}

TEST(test_role_by_alias_has_its_own_command)
{
	RUN_AUTO r = run_good(
	    HEAD IMAGE "taskRoles:\n  v: &v\n    dockerImage: i\n    resourcePerInstance: {cpu: "
		       "1, memoryMB: 8, gpu: 2}\n    instances: 4\n    commands: [main]\n"
		       "  w: *v\n"
		       "deployments: [{name: d, taskRoles: {v: {preCommands: [pre]}}}]\n"
		       "defaults: {deployment: d}\n");
	assert_span(r.job->roles[0].command, "pre\nmain");
	assert_span(r.job->roles[1].command, "main");
	assert_int_equal(r.job->total_tasks, 8);
	assert_int_equal(r.job->total_gpu, 16);
}

TEST(test_logins_are_joined_by_registry)
{
	RUN_AUTO r = run_good(
	    HEAD "prerequisites:\n"
		 "- {name: i, type: dockerimage, uri: ubuntu, auth: {username: u, password: '<% "
		 "$secrets.p %>!'}}\n"
		 "- {name: j, type: dockerimage, uri: a, auth: {username: v, registryuri: "
		 "docker.io}}\n"
		 "- {name: k, type: dockerimage, uri: a, auth: {username: w, registryuri: "
		 "docker.io}}\n"
		 "- {name: l, type: dockerimage, uri: reg.io/a, auth: {username: u, password: p, "
		 "registryuri: 'https://reg.io'}}\n" ROLE COMMANDS("x") "secrets: {p: 0123}\n");
	assert_true(r.job->has_auth && r.job->roles[0].image_auth);
	assert_int_equal(r.job->n_logins, 3);
	assert_span(r.job->roles[0].image, "ubuntu"); /* others are unused */
	assert_span(r.job->logins[0].registry, "https://index.docker.io/v1/");
	assert_span(r.job->logins[0].password, "83!"); /* 0123 is octal */
	assert_span(r.job->logins[1].username, "w");
	assert_span(r.job->logins[2].password, "p");
}

/* A login without `registryuri` is for the registry of the image. */
TEST(test_logins_without_a_registry_use_that_of_the_image)
{
	RUN_AUTO r = run_good(
	    HEAD
	    "prerequisites:\n"
	    "- {name: i, type: dockerimage, uri: 'reg.io:5000/a', auth: {username: u}}\n"
	    "- {name: j, type: dockerimage, uri: docker.io/a/b, auth: {username: v, registryuri: "
	    "''}}\n" ROLE COMMANDS("x"));
	assert_int_equal(r.job->n_logins, 2);
	assert_span(r.job->logins[0].registry, "reg.io:5000");
	assert_span(r.job->logins[1].registry, "https://index.docker.io/v1/");
}

TEST(test_storages_have_names_and_mount_paths)
{
	RUN_AUTO r = run_good(V2("extras: {storages: [{name: a}, {name: a, mountPath: /data}, "
	                         "{mountPath: /x}]}\n"));
	assert_false(r.job->storages_default);
	assert_int_equal(r.job->n_storages, 2);
	assert_span(r.job->storages[0].mount_path, "/mnt/a");
	assert_span(r.job->storages[1].mount_path, "/data");
	assert_string_equal(r.job->storages[1].mount_where.at, "/extras/storages/1/mountPath");
}

TEST(test_storages_of_the_older_plugin_are_read)
{
	RUN_AUTO r =
	    run_good(V2("extras:\n  com.microsoft.pai.runtimeplugin:\n"
	                "  - {plugin: ssh}\n"
	                "  - {plugin: teamwise_storage, parameters: {storageConfigNames: [a, b]}}\n"
	                "  - {plugin: teamwise_storage, parameters: {storageConfigNames: [c]}}\n"));
	assert_int_equal(r.job->n_storages, 2);
	assert_span(r.job->storages[1].name, "b");
}

TEST(test_storages_of_the_older_plugin_mean_the_defaults)
{
	RUN_AUTO r = run_good(V2("extras: {com.microsoft.pai.runtimeplugin: [{plugin: "
	                         "teamwise_storage}], storages: null}\n"));
	assert_true(r.job->storages_default);
	assert_int_equal(r.job->n_storages, 0);
	run_done(&r);
	r = run_good(V2("extras: {storages: []}\n"));
	assert_true(r.job->storages_default);
	run_done(&r);
	r = run_good(V2("extras: {storages: [{}]}\n")); /* none, which is not the same */
	assert_false(r.job->storages_default);
	assert_int_equal(r.job->n_storages, 0);
}

/* ---- errors ------------------------------------------------------------------------------- */

TEST(test_all_errors_are_reported_at_once)
{
	RUN_AUTO r = run_job(HEAD "prerequisites: [{name: i, type: dockerimage, uri: ' '}]\n"
	                          "taskRoles:\n"
	                          "  w:\n"
	                          "    intances: 1\n" /* schema */
	                          "    dockerImage: j\n"
	                          "    resourcePerInstance: {cpu: 1.5, memoryMB: 0, gpu: 0}\n"
	                          "    commands: ['<%']\n"
	                          "defaults: {virtualCluster: -}\n");
	const char *all = notes_lines(&r, &r.err.notes);
	assert_string_equal(r.err.code, "InvalidProtocolError");
	assert_within(all, "did you mean `instances`?");
	assert_within(all, "resourcePerInstance.cpu: ");
	assert_within(all, "prerequisites[0].uri: ");
	assert_within(all, "taskRoles.w.dockerImage: ");
	assert_within(all, "resourcePerInstance.memoryMB: ");
	assert_within(all, "taskRoles.w.commands[0]: ");
	assert_within(all, "defaults.virtualCluster: ");
	assert_int_equal(r.err.notes.n, 7);
}

/* The dialect also runs on documents of any shape. */
TEST(test_wrong_types_are_refused_everywhere)
{
	static const char *const VALUES[] = {
		"1", "x", "[]", "{}", "null", "[[1]]", "{a: {b: []}}"
	};
	static const char *const MEMBERS[] = { "prerequisites", "taskRoles", "deployments",
		                               "secrets",       "defaults",  "extras",
		                               "parameters",    "name" };
	for (size_t i = 0; i < ARRAY_SIZE(MEMBERS); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(VALUES); k++) {
			char *text =
			    xasprintf("protocolVersion: 2\n%s: %s\n", MEMBERS[i], VALUES[k]);
			AUTO(run_done) struct run r = run_job(text);
			assert_null(r.job);
			free(text);
		}
	}
}

/* ---- limits ------------------------------------------------------------------------------- */

TEST(test_jobs_with_too_many_tasks_are_refused)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, HEAD IMAGE "taskRoles:\n");
	for (int i = 0; i < 3; i++)
		str_printf(&text,
		           "  w%d: {instances: 9000, dockerImage: i, commands: [x], "
		           "resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}}\n",
		           i);
	assert_refused(str_c(&text), "taskRoles: at most 20000 tasks in all, here are 27000");
}

TEST(test_jobs_with_more_than_256_roles_are_refused)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, HEAD IMAGE "taskRoles:\n  w: &w {dockerImage: i, commands: [x], "
	                           "resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}}\n");
	for (int i = 1; i < 257; i++)
		str_printf(&text, "  w%d: *w\n", i);
	assert_refused(str_c(&text), "taskRoles: at most 256 task roles, here are 257");
}

/* A small file that renders to a large command. */
TEST(test_commands_that_render_too_large_are_refused)
{
	STR_AUTO text = STR_INIT(1 << 20);
	str_puts(&text, HEAD "parameters: {a: '");
	str_many(&text, "0123456789", 1000);
	str_puts(&text, "'}\n" IMAGE ROLE "    commands:\n");
	str_many(&text, "    - '<% $parameters.a %>'\n", 1000);
	assert_refused(str_c(&text), "taskRoles.w.commands: the command is longer than ");
}

TEST(test_limit_of_a_command_counts_doubled_dollars)
{
	struct settings s;
	translate_settings_default(&s);
	s.max_command = 10;
	RUN_AUTO r = run_settings(&s, HEAD IMAGE ROLE COMMANDS("'$$$$$'"));
	assert_non_null(r.job);
	run_done(&r);
	r = run_settings(&s, HEAD IMAGE ROLE COMMANDS("'$$$$$$'"));
	assert_null(r.job);
}

TEST(test_files_too_large_for_an_annotation_are_refused)
{
	struct settings s;
	translate_settings_default(&s);
	s.max_annotations = 100;
	RUN_AUTO r = run_settings(&s, V2(""));
	assert_null(r.job);
	assert_within(err_msg(&r.err), "cannot be stored as an annotation");
}

/* ---- warnings ----------------------------------------------------------------------------- */

TEST(test_v2_fields_without_effect_give_warnings)
{
	assert_quiet(V2(""));
	assert_warned(HEAD IMAGE ROLE COMMANDS("a, 'b <% $parameters.no %>'"),
	              "9:19: taskRoles.w.commands[1]: <% $parameters.no %> leads to nothing");
	assert_warned(HEAD IMAGE ROLE COMMANDS("'<% $secrets.no %>'"),
	              "<% $secrets.no %> leads to nothing");
	assert_warned(HEAD IMAGE ROLE COMMANDS("'echo {{FC_TASK_INDEX}}'"),
	              "taskRoles.w.commands: {{FC_...}} is replaced");
	assert_warned(V2_ROLE("    completion: {minSucceededInstances: 2}\n"),
	              "minSucceededInstances: is above the number of instances");
	assert_warned(V2_ROLE("    taskRetryCount: 1\n"), "taskRetryCount: has no effect");
	assert_warned(V2("deployments: [{name: d, taskRoles: {nope: {}}}]\n"),
	              "deployments[0].taskRoles.nope: there is no such task role");
	assert_warned(V2("extras: {storages: [{name: a, readOnly: true}]}\n"),
	              "extras.storages[0].readOnly: is ignored");
	assert_warned(V2("extras: {hivedScheduler: {taskRoles: {w: {}}}}\n"),
	              "extras.hivedScheduler: is ignored");
	assert_warned(V2("parameters: {u: 'https://me:hunter2@example.org/'}\n"),
	              "10:36: others can read the password in this URL");
}

/* ---- dialects
 * ------------------------------------------------------------------------------------ */

#define PORTS(p)                                                                                   \
	HEAD IMAGE "taskRoles: {w: {dockerImage: i, commands: [x], resourcePerInstance: {cpu: "    \
		   "1, memoryMB: 1, gpu: 0, ports: {" p "}}}}\n"
#define ONE_ROLE                                                                                   \
	": {dockerImage: i, commands: [x], resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}}\n"
#define SIXTEEN "aaaaaaaaaaaaaaaa"
#define AUTH(a)                                                                                    \
	HEAD "prerequisites: [{name: i, type: dockerimage, uri: ubuntu, auth: {" a                 \
	     "}}]\n" ROLE COMMANDS("x")

static const struct refusal REFUSED[] = {
	/* Env that tasks cannot have is refused. */
	{ V2("extras: {env: {PAI_X: 1}}"), "10:16: extras.env.PAI_X: is reserved" },
	{ V2("extras: {env: {FC_X: 1}}"), "10:16: extras.env.FC_X: is reserved" },
	{ V2("extras: {env: {KUBERNETES_X: 1}}"), "extras.env.KUBERNETES_X: is reserved" },
	{ V2("extras: {env: {NVIDIA_VISIBLE_DEVICES: all}}"), "is reserved" },
	{ V2("extras: {env: {a-b: 1}}"), "10:16: extras.env.a-b: " },
	{ V2("extras: {env: {1a: 1}}"), "10:16: extras.env[\"1a\"]: is not a name" },
	{ V2("extras: {env: {A: }}"), "extras.env.A: " },
	{ V2("extras: {env: {A: [1]}}"), "extras.env.A: " },
	{ V2("extras: {env: {A: .inf}}"), "extras.env.A: must be text, a number or" },
	{ V2("extras: {env: [A]}"), "extras.env: " },
	{ V2("extras: {env: {A: 1, A: 2}}"), "10:22: " },
	{ V2("extras: {env: {A: \"x\\0y\"}}"), "10:" },
	/* Code that cannot be mounted is refused. */
	{ CODE(", path: src"), "10:97: extras.code.path: src must be an absolute path" },
	{ CODE(", path: /a/../b"), "extras.code.path: /a/../b must not contain empty" },
	{ CODE(", path: /"), "extras.code.path: / is reserved" },
	{ CODE(", path: /usr"), "extras.code.path: /usr is reserved for the system" },
	{ CODE(", path: /usr/local"), "is reserved for the system" },
	{ CODE(", path: /usr/local/pai-code/0"), "is reserved for the system" },
	{ CODE(", path: /etc/code"), "is reserved for the system" },
	{ CODE(", path: /dev/shm"), "is reserved for the system" },
	{ CODE(", path: /bin/"), "extras.code.path: /bin has the programs of the image" },
	{ CODE(", path: /usr/bin"), "/usr/bin has the programs of the image" },
	{ CODE(", path: [a]"), "extras.code.path: " },
	{ CODE(", path: "), "extras.code.path: " },
	{ CODE(", commit: a/b"), "extras.code.commit: must have at most 64 letters" },
	{ CODE(", commit: " SHA "0"), "extras.code.commit: must have at most 64" },
	{ CODE(", commit: 12"), "extras.code.commit: " },
	{ CODE(", changed: 1"), "extras.code.changed: " },
	{ CODE(", files: 1"), "extras.code" },
	{ V2("extras: {code: {path: /a}}"), "extras.code" },
	{ V2("extras: {code: {sha256: ABC}}"), "extras.code.sha256: must be 64 hex digits" },
	{ V2("extras: {code: }"), "extras.code: " },
	{ V1("\"extras\":{\"code\":{\"sha256\":\"" SHA "\"}},", ""),
	  "extras.code: v1 jobs cannot have code: write the job as a v2 job, as "
	  "`rest-lit convert` does" },
	/* Numbers out of range are refused. */
	{ V2("jobRetryCount: 3000000000\n"),
	  "10:16: jobRetryCount: must be at most 2147483647, is 3000000000\n" },
	{ V2_ROLE("    instances: 10001\n"), "w.instances: must be at most 10000, is 10001" },
	{ V2_ROLE("    instances: 0\n"), "w.instances: must be at least 1, is 0" },
	{ V2_ROLE("    instances: 1e400\n"), "w.instances: is not a finite number" },
	{ V2_ROLE("    taskRetryCount: -3\n"), "w.taskRetryCount: must be at least -2" },
	{ V2_ROLE("    completion: {minFailedInstances: -2}\n"),
	  "completion.minFailedInstances: must be at least -1, is -2" },
	{ V2_ROLE("    extraContainerOptions: {shmMB: -1}\n"), "shmMB: must be at least 0" },
	{ HEAD IMAGE "taskRoles: {w: {dockerImage: i, commands: [x], resourcePerInstance: {cpu: "
	             "-1, memoryMB: 0, gpu: 1e20}}}\n",
	  "cpu: must be at least 0, is -1\n5:89: "
	  "taskRoles.w.resourcePerInstance.memoryMB: must be at least 1, is 0\n5:97: "
	  "taskRoles.w.resourcePerInstance.gpu: must be at most 2147483647, is "
	  "100000000000000000000\n" },
	/* Ports out of range are refused. */
	{ PORTS("http: 0"), "ports.http: must be at least 1, is 0" },
	{ PORTS("a: -1"), "ports.a: must be at least 0, is -1" },
	{ PORTS("a: 1000000000"), "ports.a: must be at most 25000" },
	{ PORTS("a: 20000, b: 5000"), "ports: at most 25000 ports per task, here are 25002" },
	{ PORTS("'a;id': 1"), "ports" },
	/* References to missing prerequisites are refused. */
	{ HEAD IMAGE "taskRoles: {w: {dockerImage: toString, commands: [x], "
	             "resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}}}\n",
	  "5:30: taskRoles.w.dockerImage: there is no dockerimage prerequisite \"toString\"" },
	{ V2_ROLE("    script: i\n    prerequisites: [i, nope]\n"),
	  "9:13: taskRoles.w.script: there is no script prerequisite \"i\"\n10:24: "
	  "taskRoles.w.prerequisites[1]: there is no prerequisite \"nope\"\n" },
	{ HEAD "prerequisites: [{name: i, type: dockerimage, uri: a}, {name: i, type: "
	       "dockerimage, uri: b}]\n" ROLE COMMANDS("x"),
	  "4:55: prerequisites[1]: repeats dockerimage i" },
	{ V2("deployments: [{name: d, taskRoles: {w: {}}}, {name: d, taskRoles: {w: {}}}]\n"),
	  "deployments[1]: repeats deployment d" },
	{ V2("deployments: [{name: e, taskRoles: {w: {}}}, {name: d, taskRoles: {w: {}}}, "
	     "{name: e, taskRoles: {w: {}}}]\n"),
	  "deployments[2]: repeats deployment e" },
	{ V2("defaults: {deployment: toString}\n"),
	  "defaults.deployment: there is no deployment \"toString\"" },
	{ V2("extras: {hivedScheduler: {taskRoles: {nope: {}}}}\n"),
	  "10:39: extras.hivedScheduler.taskRoles.nope: Taskrole nope does not "
	  "exist.\n" },
	/* Names that collide are refused. */
	{ HEAD IMAGE "taskRoles:\n  Worker" ONE_ROLE "  worker" ONE_ROLE,
	  "7:3: taskRoles.worker: roles Worker and worker both become worker" },
	{ HEAD IMAGE "taskRoles:\n  ___" ONE_ROLE, "the name \"___\" becomes empty" },
	{ HEAD IMAGE "taskRoles:\n  " SIXTEEN SIXTEEN SIXTEEN SIXTEEN ONE_ROLE,
	  "has 64 letters and digits; at most 63 are allowed" },
	{ V2("defaults: {virtualCluster: 'a b/c'}\n"),
	  "defaults.virtualCluster: \"a b/c\" is not a Kubernetes label value" },
	{ V2("defaults: {virtualCluster: " SIXTEEN SIXTEEN SIXTEEN SIXTEEN "}\n"),
	  "defaults.virtualCluster: must have at most 63 characters, has 64" },
	/* Invalid images and logins are refused. */
	{ HEAD "prerequisites: [{name: i, type: dockerimage, uri: ''}]\n" ROLE COMMANDS("x"),
	  "prerequisites[0].uri: is empty" },
	{ HEAD "prerequisites: [{name: i, type: dockerimage, uri: '$(id)'}]\n" ROLE COMMANDS("x"),
	  "prerequisites[0].uri: \"$(id)\" is not an image reference" },
	{ AUTH("password: '<% $secrets.no %>'"),
	  "auth.password: there is no $secrets.no to fill in" },
	{ AUTH("password: '<% $secrets'"), "auth.password: unclosed `<%`" },
	{ AUTH("password: '******'"), "auth.password: is masked; put the value in again" },
	{ AUTH("registryuri: 'https://u:p@h/'"), "auth.registryuri: is not the address" },
	{ AUTH("username: 'a:b'"), "auth.username: must not contain a colon" },
	{ AUTH("token: [1]"), "auth.token: must be text, is a list" },
	/* Storages with bad paths are refused. */
	{ V2("extras: {storages: [{name: pv, mountPath: data}]}\n"),
	  "10:43: extras.storages[0].mountPath: data must be an absolute path" },
	{ V2("extras: {storages: [{name: pv, mountPath: /}]}\n"), "mountPath: / is reserved" },
	{ V2("extras: {storages: [{name: a/../b}]}\n"),
	  "extras.storages[0].name: \"a/../b\" is not a Kubernetes name" },
	{ V2("extras: {storages: [{name: p, mountPath: /x}, {name: q, mountPath: /x/}]}\n"),
	  "extras.storages[1].mountPath: /x is already used" },
	{ V2("extras: {storages: [{name: p}, {name: p}]}\n"),
	  "extras.storages[1]: /mnt/p is already used" },
	{ V2("extras: {storages: [{name: p}, {name: q, mountPath: /mnt/p}]}\n"),
	  "extras.storages[1].mountPath: /mnt/p is already used" },
	/* Commands with unclosed tags are refused. */
	{ HEAD IMAGE ROLE "    commands:\n    - echo\n    - echo <% $parameters.a\n",
	  "11:7: taskRoles.w.commands[1]: unclosed `<%`, at character 6" },
	{ HEAD IMAGE ROLE COMMANDS("x") //
	  "deployments: [{name: d, taskRoles: {w: {postCommands: [a, '<%# x %>']}}}]\n"
	  "defaults: {deployment: d}\n",
	  "deployments[0].taskRoles.w.postCommands[1]: this section is not" },
	/* Unknown kinds are refused with the known ones. */
	{ "kind: MxJob\nprotocolVersion: 2\njobName: x\n",
	  "1:7: kind: no job is of kind \"MxJob\" and apiVersion \"\"; known are MxJob, "
	  "MXJob, " },
	{ "apiVersion: v1\nkind: Pod\n",
	  "2:7: kind: no job is of kind \"Pod\" and apiVersion \"v1\"; known are MxJob, MXJob, "
	  "of mxnet.mlkube.io/v1beta1 or mlkube.io/v1beta1 or kubeflow.org/v1alpha1; "
	  "Framework, of launcher.microsoft.com/v1 or frameworkcontroller.microsoft.com/v1; "
	  "and jobs of OpenPAI, which have no `kind`" },
	{ "name: x\n", "1:1: this is no job: it has neither `protocolVersion`" },
	{ "[]", "1:1: the document must be a mapping, is a list" },
	{ "protocolVersion: 2\njobName: x\n", "unknown key `jobName`" },
	{ NULL, NULL },
};

TEST(test_wrong_v2_jobs_are_refused_with_the_place)
{
	assert_all_refused(REFUSED);
}

TEST(test_v2_jobs_in_json_are_read)
{
	RUN_AUTO r = run_good("{\"protocolVersion\": 2, \"name\": \"j\", \"type\": \"job\", "
	                      "\"prerequisites\": [{\"name\": \"i\", \"type\": \"dockerimage\", "
	                      "\"uri\": \"u\"}], \"taskRoles\": {\"w\": {\"dockerImage\": \"i\", "
	                      "\"resourcePerInstance\": {\"cpu\": 1, \"memoryMB\": 1, \"gpu\": 0}, "
	                      "\"commands\": [\"\\ud83d\\ude00\"]}}}");
	assert_span(r.job->roles[0].command, "\xf0\x9f\x98\x80");
}
