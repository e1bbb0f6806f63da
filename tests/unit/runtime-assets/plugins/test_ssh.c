/* Keys, peers, environment and configuration of ssh. */
#include "runtime-assets/plugins/plugins_internal.h"

#include "tests/unit/base/cmocka.h"

TEST(test_ssh_key_valid_accepts_all_types_of_keys)
{
	static const char *const GOOD[] = {
		"ssh-rsa AAAAB3NzaC1yc2E= user@host",
		"ssh-ed25519 AAAA",
		"ecdsa-sha2-nistp256 AAAA+/== with a \"comment\" of its own",
		"sk-ssh-ed25519@openssh.com AAAA",
		"ssh-rsa \t AAAA\tx",
	};
	for (size_t i = 0; i < sizeof(GOOD) / sizeof(*GOOD); i++)
		assert_true(ssh_key_valid(span_of(GOOD[i])));
}

TEST(test_ssh_key_valid_refuses_options_and_lines)
{
	static const char *const BAD[] = {
		"",
		"ssh-rsa",
		"ssh-rsa ",
		"ssh-rsa AAAA\nssh-rsa BBBB",
		"ssh-rsa AAAA x\x7f",
		"ssh-rsa AAAA\rx",
		"command=\"x\" ssh-rsa AAAA",
		"restrict ssh-rsa AAAA",
		"ssh-rsax AAAA",
		" ssh-rsa AAAA",
		"ssh-dss AAAA",
		"ssh-rsa AA\"AA",
		"ssh-rsa,command=\"x\" AAAA",
		"-----BEGIN RSA PRIVATE KEY-----",
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++)
		assert_false(ssh_key_valid(span_of(BAD[i])));
}

TEST(test_ssh_key_valid_refuses_keys_beyond_the_maximum)
{
	STR_AUTO key = STR_INIT(100000);
	str_puts(&key, "ssh-rsa ");
	while (key.n < SSH_KEY_MAX)
		str_char(&key, 'A');
	assert_true(ssh_key_valid(str_view(&key)));
	str_char(&key, 'A');
	assert_false(ssh_key_valid(str_view(&key)));
}

TEST(test_ssh_file_name_refuses_paths_and_hidden_names)
{
	assert_true(ssh_file_name(SPAN("keys-1_a.pub")));
	assert_false(ssh_file_name(SPAN("")));
	assert_false(ssh_file_name(SPAN("..")));
	assert_false(ssh_file_name(SPAN(".x")));
	assert_false(ssh_file_name(SPAN("a/b")));
	assert_false(ssh_file_name(SPAN("a b")));
}

TEST(test_ssh_first_port_reads_the_first_of_a_list)
{
	int64_t port = 7;
	assert_int_equal(ssh_first_port("22,23", &port), 0);
	assert_int_equal(port, 22);
	assert_int_equal(ssh_first_port(NULL, &port), -1);
	assert_int_equal(ssh_first_port("", &port), -1);
	assert_int_equal(ssh_first_port("0", &port), -1);
	assert_int_equal(ssh_first_port("65536", &port), -1);
	assert_int_equal(ssh_first_port("22 23", &port), -1);
	assert_int_equal(port, 22);
}

/* The process has one thread.  NOLINTBEGIN(concurrency-mt-unsafe) */
TEST(test_ssh_peers_are_read_from_the_environment)
{
	struct ssh_peers p;
	setenv("PAI_TASK_ROLE_INSTANCES", "a:0,a:1,b_c:12,odd,:1,a:x,x y:1", 1);
	setenv("FC_TASKROLE_NAME", "a", 1);
	setenv("FC_TASK_INDEX", "1", 1);
	setenv("PAI_HOST_IP_a_0", "10.0.0.1", 1);
	setenv("PAI_a_0_ssh_PORT", "5000,5001", 1);
	setenv("PAI_HOST_IP_b_c_12", "fd00::1", 1);
	setenv("PAI_b_c_12_ssh_PORT", "6000", 1);
	ssh_peers(&p, NULL, &unit.a);
	assert_int_equal(p.n, 2);
	assert_string_equal(p.v[0].alias, "a-0");
	assert_string_equal(p.v[0].address, "10.0.0.1");
	assert_int_equal(p.v[0].port, 5000);
	assert_string_equal(p.v[1].alias, "b_c-12");
	/* The own task is not needed; the four malformed ones are unknown. */
	assert_int_equal(p.unknown, 4);
	setenv("PAI_HOST_IP_a_0", "10.0.0.1\n  ProxyCommand x", 1);
	ssh_peers(&p, NULL, &unit.a);
	assert_int_equal(p.n, 1);
}

TEST(test_ssh_peers_without_the_variable_are_none)
{
	struct ssh_peers p;
	unsetenv("PAI_TASK_ROLE_INSTANCES");
	ssh_peers(&p, NULL, &unit.a);
	assert_int_equal(p.n + p.unknown, 0);
}
/* NOLINTEND(concurrency-mt-unsafe) */

static void environment(const char *const *variables, const char *want, size_t want_left_out)
{
	STR_AUTO out = STR_INIT(1 << 20);
	char *list[20];
	size_t left_out;
	size_t n = 0;
	for (; variables[n]; n++)
		list[n] = xstrdup(variables[n]);
	list[n] = NULL;
	ssh_environment(&out, list, &left_out);
	assert_string_equal(str_c(&out), want);
	assert_int_equal(left_out, want_left_out);
	while (n > 0)
		free(list[--n]);
}

TEST(test_ssh_environment_leaves_out_secrets_and_other_variables)
{
	static const char *const ALL[] = {
		"PAI_HOST_IP_a_0=10.0.0.1",
		"PATH=/bin",
		"PATHS=x",
		"HOME=/root",
		"PAI_JOB_NAME=j",
		"PAI_TOKEN=s",
		"FC_pAsSwOrD=s",
		"CUDA_VERSION=12",
		"PAI_a_0_http_PORT=80",
		"PAI_CONTAINER_SSH_PORT=22",
		"PAI_PORT_LIST_keys_0_ssh=1",
		"AWS_SECRET_ACCESS_KEY=s",
		"PAI_TWO=a\nb",
		"=odd",
		"PAI-X=1",
		"LC_ALL=C",
		NULL,
	};
	environment(
	    ALL,
	    "PATH=/bin\nPAI_JOB_NAME=j\nCUDA_VERSION=12\nPAI_CONTAINER_SSH_PORT=22\nLC_ALL=C\n"
	    "PAI_HOST_IP_a_0=10.0.0.1\nPAI_a_0_http_PORT=80\nPAI_PORT_LIST_keys_0_ssh=1\n",
	    1);
}

TEST(test_ssh_environment_is_bounded)
{
	enum { N = 1500 };
	STR_AUTO out = STR_INIT(1 << 20);
	char *list[N + 2];
	size_t left_out;
	for (int i = 0; i < N; i++)
		list[i] = xasprintf("PAI_HOST_IP_w_%d=10.0.0.1", i);
	list[N] = xstrdup("PAI_JOB_NAME=last");
	list[N + 1] = NULL;
	ssh_environment(&out, list, &left_out);
	size_t lines = 0;
	for (const char *c = str_c(&out); *c; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 1000);
	assert_int_equal(left_out, N + 1 - 1000);
	assert_true(span_starts(str_view(&out), "PAI_JOB_NAME=last\n"));
	for (int i = 0; i <= N; i++)
		free(list[i]);
}

TEST(test_ssh_merge_config_replaces_its_own_block)
{
	STR_AUTO first = STR_INIT(10000);
	STR_AUTO second = STR_INIT(10000);
	ssh_merge_config(&first, SPAN("Port 7\n"), SPAN("Host a-0\n"));
	assert_string_equal(str_c(&first),
	                    "# begin of what pai-runtime writes at each start\nHost a-0\nHost *\n"
	                    "# end of what pai-runtime writes\nPort 7\n");
	ssh_merge_config(&second, str_view(&first), SPAN("Host b-0\n"));
	assert_string_equal(str_c(&second),
	                    "# begin of what pai-runtime writes at each start\nHost b-0\nHost *\n"
	                    "# end of what pai-runtime writes\nPort 7\n");
}

TEST(test_ssh_merge_config_keeps_text_without_an_end_mark)
{
	STR_AUTO out = STR_INIT(10000);
	ssh_merge_config(&out, SPAN("# begin of what pai-runtime writes at each start\nPort 7\n"),
	                 SPAN(""));
	assert_non_null(strstr(str_c(&out), "Port 7\n"));
}

/* The expected text is the first key of RFC 8032, written by ssh-keygen. */
TEST(test_ssh_key_pair_is_written_as_ssh_keygen_does)
{
	static const uint8_t SEED[SSH_SEED] = { 0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60,
		                                0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
		                                0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19,
		                                0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60 };
	static const uint8_t PUBLIC[SSH_SEED] = { 0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7,
		                                  0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
		                                  0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25,
		                                  0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a };
	STR_AUTO file = STR_INIT(2000);
	STR_AUTO line = STR_INIT(2000);
	ssh_key_pair(SEED, PUBLIC, &file, &line);
	assert_string_equal(
	    str_c(&line),
	    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea\n");
	assert_string_equal(
	    str_c(&file), "-----BEGIN OPENSSH PRIVATE KEY-----\n"
			  "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
			  "QyNTUxOQAAACDXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGgAAAIgAAAAAAAAA\n"
			  "AAAAAAtzc2gtZWQyNTUxOQAAACDXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg\n"
			  "AAAECdYbGd7/1aYLqESvSS7CzEREnFaXsyaRlwO6wDHK5/YNdamAGCsQq31Uv+08lkBzoO\n"
			  "4XLz2qYjJa8CGmj3B1EaAAAAAAECAwQF\n"
			  "-----END OPENSSH PRIVATE KEY-----\n");
}
