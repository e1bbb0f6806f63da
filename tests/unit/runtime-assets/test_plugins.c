/* Which plugins, in which order, and what stands in their scripts. */
#include "runtime-assets/plugin.h"

#include "tests/unit/base/cmocka.h"

struct world {
	struct arena a;
	struct layout at;
	struct doc secrets, extension;
	struct job job;
	struct plugins all;
	struct err e;
	int failed;
};

static const struct node *doc(struct world *w, struct doc *d, const char *text)
{
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	assert_int_equal(doc_read(span_of(text), &BUDGET_DEFAULT, &w->a, d, &warnings, &e), 0);
	return &d->root;
}

/* Parameters and prerequisites for all; `config` is the rest of the job. */
static const char COMMON[] =
    "parameters: {p: \"it's\", port: 8081, on: true}\n"
    "prerequisites:\n"
    "  - {type: dockerimage, name: img, uri: x}\n"
    "  - type: script\n"
    "    name: prep\n"
    "    plugin: com.microsoft.pai.runtimeplugin.cmd\n"
    "    failurePolicy: Ignore\n"
    "    callbacks:\n"
    "      - {event: taskStarts, commands: [echo <% $parameters.p %>]}\n"
    "      - {event: taskSucceeds, commands: [echo done]}\n"
    "      - {event: other, commands: [echo never]}\n"
    "  - {type: script, name: odd, plugin: com.microsoft.pai.runtimeplugin}\n";

static void begin(struct world *w, const char *config)
{
	STR_AUTO text = STR_INIT(10000);
	STR_AUTO problem = STR_INIT(1000);
	*w = (struct world){ .failed = 0 };
	layout_init(&w->at, "", &w->a);
	str_puts(&text, COMMON);
	str_puts(&text, config);
	w->job.role_name = "worker";
	job_read(&w->job, str_view(&text), &w->a, &problem);
	assert_string_equal(str_c(&problem), "");
	w->job.secrets = doc(w, &w->secrets, "{token: S3CRET-VALUE, list: [S3CRET-VALUE]}");
	w->all = (struct plugins){ .a = &w->a, .at = &w->at, .job = &w->job, .first_task = true };
	w->all.entries =
	    node_get(node_get(&w->job.doc.root, "extras"), "com.microsoft.pai.runtimeplugin");
}

static void make(struct world *w)
{
	w->failed = plugins_make(&w->all, &w->e);
	for (size_t i = 0; i < w->all.said.n; i++)
		assert_null(strstr(w->all.said.v[i].msg, "S3CRET"));
	assert_null(strstr(err_msg(&w->e), "S3CRET"));
}

static struct world run(const char *plugins)
{
	struct world w;
	STR_AUTO config = STR_INIT(10000);
	str_puts(&config, "taskRoles: {worker: {instances: 1}}\n"
	                  "extras:\n  com.microsoft.pai.runtimeplugin:\n");
	str_puts(&config, plugins);
	begin(&w, str_c(&config));
	w.all.job = &w.job;
	make(&w);
	return w;
}

static void done(struct world *w)
{
	plugins_done(&w->all);
	err_done(&w->e);
	arena_done(&w->a);
}

/* The text of a file by the end of its path; "" if there is none. */
static const char *file(const struct world *w, const char *name)
{
	for (size_t i = 0; i < w->all.n_files; i++) {
		struct span path = span_of(w->all.file[i].path);
		size_t n = strlen(name);
		if (path.n > n && strcmp(path.p + path.n - n, name) == 0 &&
		    path.p[path.n - n - 1] == '/')
			return w->all.file[i].text.p;
	}
	return "";
}

/* The calls of a script, without its header. */
static const char *calls(const struct world *w, const char *name)
{
	const char *text = strstr(file(w, name), "; fi\n\n");
	assert_non_null(text);
	return text + strlen("; fi\n\n");
}

/* One plugin, as YAML in flow style; its script before, or why it fails. */
static void pre(const char *plugin, const char *want)
{
	STR_AUTO list = STR_INIT(10000);
	str_printf(&list, "    - %s\n", plugin);
	struct world w = run(str_c(&list));
	assert_string_equal(w.failed ? err_msg(&w.e) : file(&w, "plugin_pre0.sh"), want);
	done(&w);
}

/* The same for two worlds that share the arena by value would be wrong: set up by hand. */
static void set_extension(struct world *w, const char *extension)
{
	w->job.extension = doc(w, &w->extension, extension);
}

/* ---- cmd ----------------------------------------------------------------------------------------
 */

static void test_plugin_cmd(void **state)
{
	(void)state;
	pre("{plugin: cmd, parameters: {preCommands: [echo a, 'echo <% $parameters.p %>']}}",
	    "set -o errexit\necho a\necho it's\n");
	pre("{plugin: cmd, parameters: {preCommands: [1, true, 'x']}}",
	    "set -o errexit\n1\ntrue\nx\n");
}

static void test_plugin_cmd_keeps_lines_quotes_and_backslashes(void **state)
{
	(void)state;
	pre("{plugin: cmd, parameters: {preCommands: [\"a\\n  b 'c' \\\"d\\\" \\\\t\"]}}",
	    "set -o errexit\na\n  b 'c' \"d\" \\t\n");
}

static void test_plugin_cmd_that_ignores(void **state)
{
	(void)state;
	struct world w =
	    run("    - {plugin: cmd, failurePolicy: IGNORE, parameters: {preCommands: [a]}}\n");
	assert_string_equal(file(&w, "plugin_pre0.sh"), "set +o errexit\na\nset -o errexit\n");
	assert_string_equal(
	    calls(&w, "precommands.sh"),
	    "\"${PAI_SHELL:-/bin/bash}\" /usr/local/pai/runtime.d/plugin_pre0.sh || "
	    "printf 'plugin 0 failed with %d, ignored\\n' \"$?\" >&2\n");
	done(&w);
}

static void test_plugin_cmd_without_commands_has_no_script(void **state)
{
	(void)state;
	struct world w =
	    run("    - {plugin: cmd, parameters: {preCommands: []}}\n    - {plugin: cmd}\n");
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.all.n_files, 2);
	assert_string_equal(calls(&w, "precommands.sh"), "");
	done(&w);
}

static void test_plugin_cmd_refuses(void **state)
{
	(void)state;
	pre("{plugin: cmd, parameters: {preCommands: [a], callbacks: []}}",
	    "plugin 0 (cmd): `callbacks` cannot be together with `preCommands` or `postCommands`");
	pre("{plugin: cmd, parameters: {preCommands: a}}",
	    "plugin 0 (cmd): `preCommands` must be a list of commands");
	pre("{plugin: cmd, parameters: {preCommands: [a, [b]]}}",
	    "plugin 0 (cmd): `preCommands[1]` must be a text");
	pre("{plugin: cmd, parameters: {callbacks: [{commands: [a]}]}}",
	    "plugin 0 (cmd): each of `callbacks` must have an `event`");
	pre("{plugin: cmd, parameters: [a]}", "plugin 0 (cmd): `parameters` must be a mapping");
	pre("{plugin: cmd, parameters: {preCommands: ['<% $secrets.gone %>']}}",
	    "plugin 0 (cmd): reference `<% $secrets.gone %>` leads nowhere");
	pre("{plugin: cmd, parameters: {preCommands: ['<% $secrets.list %>']}}",
	    "plugin 0 (cmd): reference `<% $secrets.list %>` is a mapping or a list, not a text");
}

/* ---- which -------------------------------------------------------------------------------------
 */

static void test_plugins_make_unknown_plugin(void **state)
{
	(void)state;
	pre("{plugin: 'no\nsuch'}", "plugin 0 (no such): there is no plugin of that name");
	pre("{parameters: {}}", "plugin 0 (): there is no plugin of that name");
	pre("cmd", "plugin 0 (): there is no plugin of that name");
}

static void test_plugins_make_unknown_plugin_ignored(void **state)
{
	(void)state;
	struct world w = run("    - {plugin: x, failurePolicy: ignore}\n"
	                     "    - {plugin: cmd, parameters: {preCommands: [a]}}\n");
	assert_int_equal(w.failed, 0);
	assert_string_equal(w.all.said.v[0].msg,
	                    "plugin 0 (x) is left out, its failurePolicy is ignore: "
	                    "there is no plugin of that name");
	assert_string_equal(file(&w, "plugin_pre1.sh"), "set -o errexit\na\n");
	done(&w);
}

static void test_plugins_make_post_commands_in_reverse(void **state)
{
	(void)state;
	struct world w =
	    run("    - {plugin: cmd, parameters: {preCommands: [a], postCommands: [A]}}\n"
	        "    - {plugin: cmd, parameters: {postCommands: [B]}}\n"
	        "    - {plugin: cmd, parameters: {preCommands: [c], postCommands: [C]}}\n");
	assert_string_equal(
	    calls(&w, "precommands.sh"),
	    "\"${PAI_SHELL:-/bin/bash}\" /usr/local/pai/runtime.d/plugin_pre0.sh\n"
	    "\"${PAI_SHELL:-/bin/bash}\" /usr/local/pai/runtime.d/plugin_pre2.sh\n");
	assert_string_equal(
	    calls(&w, "postcommands.sh"),
	    "\"${PAI_SHELL:-/bin/bash}\" /usr/local/pai/runtime.d/plugin_post2.sh\n"
	    "\"${PAI_SHELL:-/bin/bash}\" /usr/local/pai/runtime.d/plugin_post1.sh\n"
	    "\"${PAI_SHELL:-/bin/bash}\" /usr/local/pai/runtime.d/plugin_post0.sh\n");
	done(&w);
}

static void test_plugins_make_role_filter_takes_no_number(void **state)
{
	(void)state;
	struct world w =
	    run("    - {plugin: cmd, taskroles: [other], parameters: {preCommands: [a]}}\n"
	        "    - {plugin: cmd, taskroles: [x, worker], parameters: {preCommands: [b]}}\n"
	        "    - {plugin: cmd, taskroles: [], parameters: {preCommands: [c]}}\n");
	assert_string_equal(file(&w, "plugin_pre0.sh"), "set -o errexit\nb\n");
	assert_int_equal(w.all.n_plugins, 1);
	done(&w);
}

static void test_plugins_make_modes(void **state)
{
	(void)state;
	struct world w = run("    - {plugin: cmd, parameters: {preCommands: [a]}}\n");
	for (size_t i = 0; i < w.all.n_files; i++)
		assert_int_equal(w.all.file[i].mode, 0755);
	done(&w);
}

static void prerequisites(const char *role, const char *extras, struct world *w)
{
	STR_AUTO config = STR_INIT(10000);
	str_printf(&config, "taskRoles: {worker: %s}\nextras: %s\n", role, extras);
	begin(w, str_c(&config));
	w->all.job = &w->job;
	make(w);
}

static void test_plugins_make_prerequisites_come_first(void **state)
{
	(void)state;
	struct world w;
	prerequisites(
	    "{prerequisites: [img, prep]}",
	    "{com.microsoft.pai.runtimeplugin: [{plugin: cmd, parameters: {preCommands: [x]}}]}",
	    &w);
	assert_string_equal(file(&w, "plugin_pre0.sh"),
	                    "set +o errexit\necho it's\nset -o errexit\n");
	assert_string_equal(file(&w, "plugin_post0.sh"),
	                    "set +o errexit\necho done\nset -o errexit\n");
	assert_string_equal(file(&w, "plugin_pre1.sh"), "set -o errexit\nx\n");
	done(&w);
}

static void test_plugins_make_prerequisites_that_are_none(void **state)
{
	(void)state;
	static const char *const CASES[][2] = {
		{ "{prerequisites: [gone]}", "prerequisite `gone` of the role is not defined" },
		{ "{prerequisites: [[a]]}", "`prerequisites` of the role must be a list of names" },
		{ "{prerequisites: prep}", "`prerequisites` of the role must be a list of names" },
		{ "{prerequisites: [odd]}", "plugin 0 (): there is no plugin of that name" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		struct world w;
		prerequisites(CASES[i][0], "{}", &w);
		assert_string_equal(err_msg(&w.e), CASES[i][1]);
		done(&w);
	}
}

static void test_plugins_make_nothing(void **state)
{
	(void)state;
	struct world w;
	prerequisites("{}", "~", &w);
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.all.n_files, 2);
	done(&w);
}

static void test_plugins_make_list_is_none(void **state)
{
	(void)state;
	struct world w;
	prerequisites("{}", "{com.microsoft.pai.runtimeplugin: {plugin: cmd}}", &w);
	assert_string_equal(err_msg(&w.e), "the plugins of a job must be a list");
	done(&w);
}

static void test_plugin_teamwise_storage_says_so(void **state)
{
	(void)state;
	struct world w =
	    run("    - {plugin: teamwise_storage, parameters: {storageConfigNames: [x]}}\n");
	assert_int_equal(w.failed, 0);
	assert_non_null(strstr(w.all.said.v[0].msg, "does nothing"));
	assert_int_equal(w.all.n_files, 2);
	done(&w);
}

/* ---- ssh ----------------------------------------------------------------------------------------
 */

static void ssh(const char *extension, const char *parameters, struct world *w)
{
	STR_AUTO extras = STR_INIT(10000);
	str_printf(&extras,
	           "taskRoles: {worker: {}}\nextras:\n  com.microsoft.pai.runtimeplugin:\n"
	           "    - {plugin: ssh, parameters: %s}\n",
	           parameters);
	begin(w, str_c(&extras));
	if (extension)
		set_extension(w, extension);
	make(w);
}

static void ssh_is(const char *extension, const char *parameters, const char *want)
{
	struct world w;
	ssh(extension, parameters, &w);
	const char *got = w.failed ? err_msg(&w.e) : file(&w, "plugin_pre0.sh");
	assert_string_equal(strncmp(got, "set -o errexit\n", 15) == 0 ? got + 15 : got, want);
	done(&w);
}

#define SSHD "/usr/local/pai/runtime sshd"

static void test_plugin_ssh(void **state)
{
	(void)state;
	ssh_is(NULL, "{jobssh: true}", SSHD " true\n");
	ssh_is(NULL, "{jobssh: '<% $parameters.on %>'}", SSHD " true\n");
	ssh_is(NULL, "{jobssh: true, sshbarrier: true}",
	       SSHD " true\n/usr/local/pai/runtime ssh-barrier 30\n");
	ssh_is(NULL, "{jobssh: true, sshbarrier: true, sshbarrierTimeout: 5}",
	       SSHD " true\n/usr/local/pai/runtime ssh-barrier 5\n");
	ssh_is(NULL, "{userssh: {type: custom, value: ssh-rsa AAAA me@host}}",
	       SSHD " false custom 'ssh-rsa AAAA me@host'\n");
	ssh_is(NULL, "{userssh: {value: ssh-rsa AAAA}}", SSHD " false custom 'ssh-rsa AAAA'\n");
	ssh_is(NULL, "{userssh: {type: system, value: keys.pub}}",
	       SSHD " false system 'keys.pub'\n");
}

static void test_plugin_ssh_nothing_to_do(void **state)
{
	(void)state;
	ssh_is(NULL, "{}", "");
	ssh_is(NULL, "~", "");
	ssh_is(NULL, "{jobssh: false, userssh: {type: custom, value: ''}}", "");
	ssh_is(NULL, "{sshbarrier: true}", "");
	ssh_is("{sshKeys: [{value: ssh-rsa EXT}]}", "{jobssh: false}", "");
	ssh_is(NULL, "{userssh: {type: none, value: ssh-rsa AAAA}}", "");
}

static void test_plugin_ssh_keys_of_the_user(void **state)
{
	(void)state;
	ssh_is("{sshKeys: [{value: ssh-rsa EXT}, {title: no value}]}",
	       "{userssh: {value: ssh-ed25519 AAAA it's}}",
	       SSHD " false custom 'ssh-rsa EXT\nssh-ed25519 AAAA it'\\''s'\n");
}

static void test_plugin_ssh_not_without_gang(void **state)
{
	(void)state;
	struct world w;
	begin(&w, "taskRoles: {worker: {}}\nextras:\n  com.microsoft.pai.runtimeplugin:\n"
	          "    - {plugin: ssh, parameters: {jobssh: true, sshbarrier: true}}\n");
	w.all.jobssh_off = true;
	make(&w);
	assert_string_equal(file(&w, "plugin_pre0.sh"), "");
	done(&w);
}

static void test_plugin_ssh_key_files(void **state)
{
	(void)state;
	struct world w;
	ssh("{jobSSH: {key: \" PRIVATE\\nKEY \\n\\n\", pubKey: ssh-rsa PUB}}", "{}", &w);
	assert_string_equal(w.all.file[0].path, "/usr/local/pai/ssh-secret/ssh-privatekey");
	assert_true(span_is(w.all.file[0].text, "PRIVATE\nKEY\n"));
	assert_int_equal(w.all.file[0].mode, 0600);
	assert_string_equal(w.all.file[1].path, "/usr/local/pai/ssh-secret/ssh-publickey");
	assert_true(span_is(w.all.file[1].text, "ssh-rsa PUB\n"));
	assert_int_equal(w.all.file[1].mode, 0644);
	done(&w);
}

static void test_plugin_ssh_refuses(void **state)
{
	(void)state;
	static const char BAD[] =
	    "plugin 0 (ssh): public key 2 does not begin with a known type, or is no key";
	ssh_is(NULL, "{userssh: {value: \"ssh-rsa AAAA\\ncommand=\\\"x\\\" ssh-rsa B\"}}", BAD);
	ssh_is("{sshKeys: [{value: ssh-rsa A}]}", "{userssh: {value: S3CRET-VALUE}}", BAD);
	ssh_is(NULL, "{userssh: {value: '<% $secrets.token %>'}}",
	       "plugin 0 (ssh): public key 1 does not begin with a known type, or is no key");
	ssh_is(NULL, "{userssh: {type: root, value: x}}",
	       "plugin 0 (ssh): `userssh.type` must be custom, system or none");
	ssh_is(NULL, "{userssh: {type: system, value: ../x}}",
	       "plugin 0 (ssh): `userssh.value` must be a plain file name");
	ssh_is(NULL, "{userssh: x}", "plugin 0 (ssh): `userssh` must be a mapping");
	ssh_is(NULL, "{jobssh: maybe}", "plugin 0 (ssh): `jobssh` must be true or false");
	ssh_is(NULL, "{sshbarrierTimeout: 0}",
	       "plugin 0 (ssh): `sshbarrierTimeout` must be a whole number from 1 to 1440");
}

static void test_plugin_ssh_that_fails_leaves_no_files(void **state)
{
	(void)state;
	struct world w;
	begin(&w, "taskRoles: {worker: {}}\nextras:\n  com.microsoft.pai.runtimeplugin:\n"
	          "    - {plugin: ssh, failurePolicy: ignore, parameters: {jobssh: maybe}}\n");
	set_extension(&w, "{jobSSH: {key: K}}");
	make(&w);
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.all.n_files, 2);
	done(&w);
}

/* ---- git ----------------------------------------------------------------------------------------
 */

#define GIT "set -o errexit\n/usr/local/pai/runtime git-move"

static void test_plugin_git(void **state)
{
	(void)state;
	pre("{plugin: git, parameters: {repo_uri: 'https://h/r'}}",
	    GIT " -- 'https://h/r' '/usr/local/pai/code'\n");
	pre("{plugin: git, parameters: {repo_uri: 'https://h/r', clone_dir: '/a b; rm'}}",
	    GIT " -- 'https://h/r' '/a b; rm'\n");
	pre("{plugin: git, parameters: {repo_uri: \"https://h/it's\"}}",
	    GIT " -- 'https://h/it'\\''s' '/usr/local/pai/code'\n");
}

static void test_plugin_git_options(void **state)
{
	(void)state;
	pre("{plugin: git, parameters: {repo_uri: u, options: [--depth 1, --branch=v1.0, "
	    "--recursive, --single-branch, -b, x]}}",
	    GIT " '--depth=1' '--branch=v1.0' '--recursive' '--single-branch' '--branch=x' -- 'u' "
	        "'/usr/local/pai/code'\n");
}

static void refuses_option(const char *option)
{
	STR_AUTO plugin = STR_INIT(1000);
	str_printf(&plugin, "{plugin: git, parameters: {repo_uri: u, options: [--depth=1, %s]}}",
	           option);
	pre(str_c(&plugin),
	    "plugin 0 (git): `options[1]` is not allowed, or its value is none; allowed: "
	    "--depth, --branch, --recursive, --single-branch");
}

static void test_plugin_git_refuses_other_options(void **state)
{
	(void)state;
	static const char *const BAD[] = {
		"'--upload-pack=sh -c x'",
		"-c core.sshCommand=x",
		"--config=x",
		"'--depth'",
		"--depth=x",
		"--depth=-1",
		"--branch=-x",
		"--branch --depth=1",
		"--recursive=x",
		"--template=/x",
		"'--branch='",
		"--dept=1",
		"'<% $secrets.token %>'",
		"--separate-git-dir=x",
		"\"--branch=a\\\\b\"",
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++)
		refuses_option(BAD[i]);
}

static void test_plugin_git_refuses(void **state)
{
	(void)state;
	pre("{plugin: git}", "plugin 0 (git): `repo_uri` is missing");
	pre("{plugin: git, parameters: {repo_uri: [a]}}",
	    "plugin 0 (git): `repo_uri` must be a text");
	pre("{plugin: git, parameters: {repo_uri: \"a\\nb\"}}",
	    "plugin 0 (git): `repo_uri` must be one line");
	pre("{plugin: git, parameters: {repo_uri: a, options: x}}",
	    "plugin 0 (git): `options` must be a list of texts");
}

/* ---- tensorboard -------------------------------------------------------------------------------
 */

static void contains(const char *plugin, const char *one, const char *two)
{
	STR_AUTO list = STR_INIT(10000);
	str_printf(&list, "    - %s\n", plugin);
	struct world w = run(str_c(&list));
	assert_int_equal(w.failed, 0);
	const char *script = file(&w, "plugin_pre0.sh");
	assert_non_null(strstr(script, one));
	assert_non_null(strstr(script, two));
	done(&w);
}

static void test_plugin_tensorboard(void **state)
{
	(void)state;
	contains("{plugin: tensorboard, parameters: {port: 8081, logdir: {only: /tmp/o}}}",
	         "1.*) exec tensorboard '--logdir=only:/tmp/o' '--port=8081' ;;\n",
	         "2.*) exec tensorboard '--logdir=/tmp/o' '--port=8081' --bind_all ;;\n");
	contains("{plugin: tensorboard, parameters: {logdir: {a: \"/it's\", b: '/$(x)'}}}",
	         "1.*) exec tensorboard '--logdir=a:/it'\\''s,b:/$(x)' '--port=6006' ;;\n",
	         "2.*) exec tensorboard '--logdir_spec=a:/it'\\''s,b:/$(x)' '--port=6006' "
	         "--bind_all ;;\n");
	contains(
	    "{plugin: tensorboard, parameters: {port: '<% $parameters.port %>', logdir: {a: /a}}}",
	    "'--port=8081'", "'--logdir=/a'");
	contains("{plugin: tensorboard, parameters: {port: , logdir: {a: /a}}}", "'--port=6006'",
	         "");
}

static void test_plugin_tensorboard_on_the_first_task_only(void **state)
{
	(void)state;
	struct world w;
	begin(&w, "taskRoles: {worker: {}}\nextras:\n  com.microsoft.pai.runtimeplugin:\n"
	          "    - {plugin: tensorboard, parameters: {logdir: {a: /a}}}\n");
	w.all.first_task = false;
	make(&w);
	assert_string_equal(file(&w, "plugin_pre0.sh"), "");
	done(&w);
}

static void test_plugin_tensorboard_refuses(void **state)
{
	(void)state;
	static const char PORT[] =
	    "plugin 0 (tensorboard): `port` must be a whole number from 1 to 65535";
	pre("{plugin: tensorboard, parameters: {port: 0, logdir: {a: /a}}}", PORT);
	pre("{plugin: tensorboard, parameters: {port: 1.5, logdir: {a: /a}}}", PORT);
	pre("{plugin: tensorboard, parameters: {port: '80; x', logdir: {a: /a}}}", PORT);
	pre("{plugin: tensorboard, parameters: {logdir: {}}}",
	    "plugin 0 (tensorboard): `logdir` must be a mapping of names to paths");
	pre("{plugin: tensorboard, parameters: {logdir: /a}}",
	    "plugin 0 (tensorboard): `logdir` must be a mapping of names to paths");
	pre("{plugin: tensorboard, parameters: {logdir: {a: [b]}}}",
	    "plugin 0 (tensorboard): the paths in `logdir` must be texts");
	pre("{plugin: tensorboard, parameters: {logdir: {'a:b': /a}}}",
	    "plugin 0 (tensorboard): names in `logdir` must be without `:` and `,`, paths without "
	    "`,`");
}

int main(void)
{
	static const struct CMUnitTest TESTS[] = {
		cmocka_unit_test(test_plugin_cmd),
		cmocka_unit_test(test_plugin_cmd_keeps_lines_quotes_and_backslashes),
		cmocka_unit_test(test_plugin_cmd_that_ignores),
		cmocka_unit_test(test_plugin_cmd_without_commands_has_no_script),
		cmocka_unit_test(test_plugin_cmd_refuses),
		cmocka_unit_test(test_plugins_make_unknown_plugin),
		cmocka_unit_test(test_plugins_make_unknown_plugin_ignored),
		cmocka_unit_test(test_plugins_make_post_commands_in_reverse),
		cmocka_unit_test(test_plugins_make_role_filter_takes_no_number),
		cmocka_unit_test(test_plugins_make_modes),
		cmocka_unit_test(test_plugins_make_prerequisites_come_first),
		cmocka_unit_test(test_plugins_make_prerequisites_that_are_none),
		cmocka_unit_test(test_plugins_make_nothing),
		cmocka_unit_test(test_plugins_make_list_is_none),
		cmocka_unit_test(test_plugin_teamwise_storage_says_so),
		cmocka_unit_test(test_plugin_ssh),
		cmocka_unit_test(test_plugin_ssh_nothing_to_do),
		cmocka_unit_test(test_plugin_ssh_keys_of_the_user),
		cmocka_unit_test(test_plugin_ssh_not_without_gang),
		cmocka_unit_test(test_plugin_ssh_key_files),
		cmocka_unit_test(test_plugin_ssh_refuses),
		cmocka_unit_test(test_plugin_ssh_that_fails_leaves_no_files),
		cmocka_unit_test(test_plugin_git),
		cmocka_unit_test(test_plugin_git_options),
		cmocka_unit_test(test_plugin_git_refuses_other_options),
		cmocka_unit_test(test_plugin_git_refuses),
		cmocka_unit_test(test_plugin_tensorboard),
		cmocka_unit_test(test_plugin_tensorboard_on_the_first_task_only),
		cmocka_unit_test(test_plugin_tensorboard_refuses),
	};
	return cmocka_run_group_tests(TESTS, NULL, NULL);
}
