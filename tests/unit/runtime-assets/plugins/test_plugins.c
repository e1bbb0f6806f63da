/* The choice and order of plugins, and the scripts of cmd. */
#include "tests/unit/runtime-assets/plugin_kit.h"

/* ---- cmd ---------------------------------------------------------------------------------- */

TEST(test_plugin_cmd_writes_its_commands)
{
	pre("{plugin: cmd, parameters: {preCommands: [echo a, 'echo <% $parameters.p %>']}}",
	    "set -o errexit\necho a\necho it's\n");
	pre("{plugin: cmd, parameters: {preCommands: [1, true, 'x']}}",
	    "set -o errexit\n1\ntrue\nx\n");
}

TEST(test_plugin_cmd_without_commands_has_no_script)
{
	struct world w =
	    run("    - {plugin: cmd, parameters: {preCommands: []}}\n    - {plugin: cmd}\n");
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.all.n_files, 2);
	assert_string_equal(calls(&w, "precommands.sh"), "");
	done(&w);
}

TEST(test_plugin_cmd_refuses_commands_of_wrong_types)
{
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

/* ---- which -------------------------------------------------------------------------------- */

TEST(test_plugins_make_refuses_an_unknown_plugin)
{
	pre("{plugin: 'no\nsuch'}", "plugin 0 (no such): there is no plugin of that name");
	pre("{parameters: {}}", "plugin 0 (): there is no plugin of that name");
	pre("cmd", "plugin 0 (): there is no plugin of that name");
}

TEST(test_plugins_make_numbers_only_plugins_of_the_role)
{
	struct world w =
	    run("    - {plugin: cmd, taskroles: [other], parameters: {preCommands: [a]}}\n"
	        "    - {plugin: cmd, taskroles: [x, worker], parameters: {preCommands: [b]}}\n"
	        "    - {plugin: cmd, taskroles: [], parameters: {preCommands: [c]}}\n");
	assert_string_equal(file(&w, "plugin_pre0.sh"), "set -o errexit\nb\n");
	assert_int_equal(w.all.n_plugins, 1);
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

TEST(test_plugins_make_puts_prerequisites_first)
{
	AUTO(done) struct world w;
	prerequisites(
	    "{prerequisites: [img, prep]}",
	    "{com.microsoft.pai.runtimeplugin: [{plugin: cmd, parameters: {preCommands: [x]}}]}",
	    &w);
	assert_string_equal(file(&w, "plugin_pre0.sh"),
	                    "set +o errexit\necho it's\nset -o errexit\n");
	assert_string_equal(file(&w, "plugin_post0.sh"),
	                    "set +o errexit\necho done\nset -o errexit\n");
	assert_string_equal(file(&w, "plugin_pre1.sh"), "set -o errexit\nx\n");
}

TEST(test_plugins_make_refuses_invalid_prerequisites)
{
	static const char *const CASES[][2] = {
		{ "{prerequisites: [gone]}", "prerequisite `gone` of the role is not defined" },
		{ "{prerequisites: [[a]]}", "`prerequisites` of the role must be a list of names" },
		{ "{prerequisites: prep}", "`prerequisites` of the role must be a list of names" },
		{ "{prerequisites: [odd]}", "plugin 0 (): there is no plugin of that name" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		AUTO(done) struct world w;
		prerequisites(CASES[i][0], "{}", &w);
		assert_string_equal(err_msg(&w.e), CASES[i][1]);
	}
}

TEST(test_plugins_make_without_plugins_writes_two_files)
{
	AUTO(done) struct world w;
	prerequisites("{}", "~", &w);
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.all.n_files, 2);
}

TEST(test_plugins_make_refuses_plugins_that_are_no_list)
{
	AUTO(done) struct world w;
	prerequisites("{}", "{com.microsoft.pai.runtimeplugin: {plugin: cmd}}", &w);
	assert_string_equal(err_msg(&w.e), "the plugins of a job must be a list");
}

TEST(test_plugin_teamwise_storage_says_that_it_does_nothing)
{
	struct world w =
	    run("    - {plugin: teamwise_storage, parameters: {storageConfigNames: [x]}}\n");
	assert_int_equal(w.failed, 0);
	assert_non_null(strstr(w.all.said.v[0].msg, "does nothing"));
	assert_int_equal(w.all.n_files, 2);
	done(&w);
}
