/* Options of git, and its messages. */
#include "runtime-assets/plugins/plugins_internal.h"

#include "tests/unit/base/cmocka.h"

static void option(const char *one, const char *two, const char *want, size_t want_used)
{
	struct span words[2] = { span_of(one), span_of(two ? two : "") };
	STR_AUTO out = STR_INIT(GIT_WORD_MAX);
	size_t used = 0;
	int rc = git_option(words, two ? 2 : 1, &out, &used);
	assert_int_equal(rc, want ? 0 : -1);
	if (want) {
		assert_string_equal(str_c(&out), want);
		assert_int_equal(used, want_used);
	}
}

TEST(test_git_option_accepts_known_options)
{
	option("--depth", "1", "--depth=1", 2);
	option("--depth=10", "x", "--depth=10", 1);
	option("--branch", "v1.0/x+y", "--branch=v1.0/x+y", 2);
	option("-b", "main", "--branch=main", 2);
	option("--recursive", NULL, "--recursive", 1);
	option("--recurse-submodules", NULL, "--recursive", 1);
	option("--single-branch", "x", "--single-branch", 1);
}

TEST(test_git_option_refuses_other_options)
{
	static const char *const BAD[][2] = {
		{ "--depth", NULL },
		{ "--depth", "0" },
		{ "--depth=", NULL },
		{ "--depth=1x", NULL },
		{ "--depth=-1", NULL },
		{ "--branch", "-x" },
		{ "--branch=", NULL },
		{ "--branch=a b", NULL },
		{ "--branch=a;b", NULL },
		{ "--branch=$(x)", NULL },
		{ "--recursive=x", NULL },
		{ "--upload-pack", "x" },
		{ "--upload-pack=x", NULL },
		{ "-c", "a=b" },
		{ "--config=a=b", NULL },
		{ "--template=/x", NULL },
		{ "--separate-git-dir=x", NULL },
		{ "--branch=a\\b", NULL },
		{ "<% $secrets.token %>", NULL },
		{ "-u", "x" },
		{ "--dept=1", NULL },
		{ "-bmain", NULL },
		{ "", NULL },
		{ "--", NULL },
		{ "=", NULL },
	};
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++)
		option(BAD[i][0], BAD[i][1], NULL, 0);
}

TEST(test_git_transient_recognizes_transient_errors)
{
	assert_true(git_transient("The requested URL returned error: 429"));
	assert_true(git_transient("The requested URL returned error: 500"));
	assert_true(git_transient("error: RPC failed; HTTP 504 curl 22"));
	assert_true(
	    git_transient("fatal: unable to access 'https://h/': Could not resolve host: h"));
	assert_true(git_transient("error: RPC failed; HTTP 200 curl 18 transfer closed"));
	assert_true(git_transient("Connection reset by peer"));
	assert_true(git_transient("fatal: early EOF"));
	/* A warning is never the reason of a failure. */
	assert_true(
	    git_transient("warning: templates not found in /opt/share/git-core/templates\n"
	                  "fatal: unable to access 'https://h/': Could not resolve host: h"));
}

TEST(test_git_transient_excludes_permanent_errors)
{
	assert_false(git_transient("warning: templates not found in /opt/share/git-core/templates\n"
	                           "remote: Repository not found.\nfatal: connection closed"));
	assert_false(git_transient(""));
	assert_false(git_transient("fatal: destination path 'x' already exists and is not empty"));
	assert_false(git_transient("The requested URL returned error: 404"));
	assert_false(git_transient("error: RPC failed; HTTP 413 curl 22"));
	assert_false(git_transient("fatal: repository 'https://h/429' not found"));
	assert_false(
	    git_transient("Permission denied (publickey).\nthe remote end hung up unexpectedly"));
	assert_false(git_transient("server certificate verification failed"));
	assert_false(git_transient("fatal: transport 'file' not allowed"));
}

TEST(test_git_retry_after_is_read)
{
	assert_int_equal(git_number_behind("< retry-after: 17\r\n", "retry-after"), 17);
	assert_int_equal(git_number_behind("Retry-After: soon, Retry-After: 3", "retry-after"), 3);
	assert_int_equal(git_number_behind("nothing", "retry-after"), 0);
	assert_int_equal(git_number_behind("Retry-After: 99999999999999999999", "retry-after"), 0);
}

static void redacted(const char *text, const char *want)
{
	char buf[200];
	snprintf(buf, sizeof(buf), "%s", text);
	git_redact(buf);
	assert_string_equal(buf, want);
}

TEST(test_git_redact_masks_logins_in_urls)
{
	redacted("at 'https://u:pw@h/x' and ssh://a@b", "at 'https://****@h/x' and ssh://*@b");
	redacted("https://p@ss@h/", "https://****@h/");
	redacted("https://h/a@b ://", "https://h/a@b ://");
	redacted("user@host:path", "user@host:path");
}
