/* The plugins ssh, git and tensorboard: their scripts and errors. */
#include "tests/unit/runtime-assets/plugin_kit.h"

#include <unistd.h>

/* ---- ssh ---------------------------------------------------------------------------------- */

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
	AUTO(done) struct world w;
	ssh(extension, parameters, &w);
	const char *got = w.failed ? err_msg(&w.e) : file(&w, "plugin_pre0.sh");
	assert_string_equal(strncmp(got, "set -o errexit\n", 15) == 0 ? got + 15 : got, want);
}

#define SSHD "/usr/local/pai/runtime sshd"

TEST(test_plugin_ssh_writes_the_command_of_its_options)
{
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

TEST(test_plugin_ssh_without_options_writes_no_command)
{
	ssh_is(NULL, "{}", "");
	ssh_is(NULL, "~", "");
	ssh_is(NULL, "{jobssh: false, userssh: {type: custom, value: ''}}", "");
	ssh_is(NULL, "{sshbarrier: true}", "");
	ssh_is("{sshKeys: [{value: ssh-rsa EXT}]}", "{jobssh: false}", "");
	ssh_is(NULL, "{userssh: {type: none, value: ssh-rsa AAAA}}", "");
}

TEST(test_plugin_ssh_uses_the_keys_of_the_user)
{
	ssh_is("{sshKeys: [{value: ssh-rsa EXT}, {title: no value}]}",
	       "{userssh: {value: ssh-ed25519 AAAA it's}}",
	       SSHD " false custom 'ssh-rsa EXT\nssh-ed25519 AAAA it'\\''s'\n");
	/* An unusable key of the user is for other purposes and is ignored. */
	ssh_is("{sshKeys: [{value: ssh-dss OLD}, {value: ssh-rsa EXT}]}", "{userssh: {}}",
	       SSHD " false custom 'ssh-rsa EXT'\n");
}

TEST(test_plugin_ssh_is_off_without_gang_scheduling)
{
	AUTO(done) struct world w;
	begin(&w, "taskRoles: {worker: {}}\nextras:\n  com.microsoft.pai.runtimeplugin:\n"
	          "    - {plugin: ssh, parameters: {jobssh: true, sshbarrier: true}}\n");
	w.all.jobssh_off = true;
	make(&w);
	assert_string_equal(file(&w, "plugin_pre0.sh"), "");
}

TEST(test_plugin_ssh_writes_private_key_files)
{
	struct world w;
	ssh("{jobSSH: {key: \" PRIVATE\\nKEY \\n\\n\", pubKey: ssh-rsa PUB}}", "{}", &w);
	assert_string_equal(w.all.file[0].path, "/usr/local/pai/ssh-secret/ssh-privatekey");
	assert_true(span_is(w.all.file[0].text, "PRIVATE\nKEY\n"));
	assert_int_equal(w.all.file[0].mode, 0600);
	assert_string_equal(w.all.file[1].path, "/usr/local/pai/ssh-secret/ssh-publickey");
	assert_true(span_is(w.all.file[1].text, "ssh-rsa PUB\n"));
	assert_int_equal(w.all.file[1].mode, 0644);
	done(&w);
	/* Any user may start sshd, which reads it. */
	ssh("{jobSSH: {key: PRIVATE, pubKey: ssh-rsa PUB}}", "{jobssh: true}", &w);
	assert_int_equal(w.all.file[0].mode, geteuid() == 0 ? 0644 : 0600);
	done(&w);
}

TEST(test_plugin_ssh_refuses_invalid_keys)
{
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

TEST(test_plugin_ssh_that_fails_leaves_no_files)
{
	AUTO(done) struct world w;
	begin(&w, "taskRoles: {worker: {}}\nextras:\n  com.microsoft.pai.runtimeplugin:\n"
	          "    - {plugin: ssh, failurePolicy: ignore, parameters: {jobssh: maybe}}\n");
	set_extension(&w, "{jobSSH: {key: K}}");
	make(&w);
	assert_int_equal(w.failed, 0);
	assert_int_equal(w.all.n_files, 2);
}

/* ---- git ---------------------------------------------------------------------------------- */

#define GIT "set -o errexit\n/usr/local/pai/runtime git-move"

TEST(test_plugin_git_writes_the_command_of_its_options)
{
	pre("{plugin: git, parameters: {repo_uri: 'https://h/r'}}",
	    GIT " -- 'https://h/r' '/usr/local/pai/code'\n");
	pre("{plugin: git, parameters: {repo_uri: 'https://h/r', clone_dir: '/a b; rm'}}",
	    GIT " -- 'https://h/r' '/a b; rm'\n");
	pre("{plugin: git, parameters: {repo_uri: \"https://h/it's\"}}",
	    GIT " -- 'https://h/it'\\''s' '/usr/local/pai/code'\n");
}

TEST(test_plugin_git_passes_known_options_on)
{
	pre("{plugin: git, parameters: {repo_uri: u, options: [--depth 1, --branch=v1.0, "
	    "--recursive, --single-branch, -b, x]}}",
	    GIT " '--depth=1' '--branch=v1.0' '--recursive' '--single-branch' '--branch=x' -- 'u' "
	        "'/usr/local/pai/code'\n");
}

TEST(test_plugin_git_refuses_a_bad_address_or_directory)
{
	pre("{plugin: git}", "plugin 0 (git): `repo_uri` is missing");
	pre("{plugin: git, parameters: {repo_uri: [a]}}",
	    "plugin 0 (git): `repo_uri` must be a text");
	pre("{plugin: git, parameters: {repo_uri: \"a\\nb\"}}",
	    "plugin 0 (git): `repo_uri` must be one line");
	pre("{plugin: git, parameters: {repo_uri: a, options: x}}",
	    "plugin 0 (git): `options` must be a list of texts");
	pre("{plugin: git, parameters: {repo_uri: u, options: [--depth=1, --config=x]}}",
	    "plugin 0 (git): `options[1]` is not allowed, or its value is invalid; allowed: "
	    "--depth, --branch, --recursive, --single-branch");
}

/* ---- tensorboard -------------------------------------------------------------------------- */

static void contains(const char *plugin, const char *one, const char *two)
{
	STR_AUTO list = STR_INIT(10000);
	str_printf(&list, "    - %s\n", plugin);
	AUTO(done) struct world w = run(str_c(&list));
	assert_int_equal(w.failed, 0);
	const char *script = file(&w, "plugin_pre0.sh");
	assert_non_null(strstr(script, one));
	assert_non_null(strstr(script, two));
}

TEST(test_plugin_tensorboard_takes_its_port_from_parameters)
{
	contains(
	    "{plugin: tensorboard, parameters: {port: '<% $parameters.port %>', logdir: {a: /a}}}",
	    "'--port=8081'", "'--logdir=/a'");
	contains("{plugin: tensorboard, parameters: {port: , logdir: {a: /a}}}", "'--port=6006'",
	         "");
}

TEST(test_plugin_tensorboard_without_parameters_writes_no_command)
{
	AUTO(done) struct world w = run("    - plugin: tensorboard\n");
	assert_int_equal(w.failed, 0);
	assert_string_equal(file(&w, "plugin_pre0.sh"), "");
}

TEST(test_plugin_tensorboard_refuses_invalid_ports_and_directories)
{
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
