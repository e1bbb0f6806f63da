/* Words for shells, compared with the results of real shells. */
#include "runtime-assets/common/cmdline.h"

#include "tests/unit/base/cmocka.h"

static void word_is(const char *text, const char *want)
{
	STR_AUTO out = STR_INIT(1000);
	shell_word(&out, span_of(text));
	assert_string_equal(str_c(&out), want);
}

TEST(test_shell_word_quotes_all_text)
{
	word_is("", "''");
	word_is("plain", "'plain'");
	word_is("a b\n$(c) `d` \\ \"e\"", "'a b\n$(c) `d` \\ \"e\"'");
	word_is("it's", "'it'\\''s'");
	word_is("''", "''\\'''\\'''");
}

TEST(test_shell_path_leaves_harmless_paths_unquoted)
{
	STR_AUTO out = STR_INIT(1000);
	shell_path(&out, "/usr/local/pai/runtime.d/plugin_pre0.sh");
	assert_string_equal(str_c(&out), "/usr/local/pai/runtime.d/plugin_pre0.sh");
}

TEST(test_shell_path_quotes_other_paths)
{
	STR_AUTO out = STR_INIT(1000);
	shell_path(&out, "/a b/$c");
	str_char(&out, ' ');
	shell_path(&out, "");
	assert_string_equal(str_c(&out), "'/a b/$c' ''");
}

/* Runs a script and keeps the output of the shell; false: this shell does not exist. */
static bool run(const char *shell, const char *script, char out[static 4096])
{
	STR_AUTO there = STR_INIT(1000);
	str_printf(&there, "%s -c : 2>/dev/null", shell);
	if (system(str_c(&there)) != 0) /* NOLINT(cert-env33-c,concurrency-mt-unsafe) */
		return false;
	char path[] = "/tmp/test_shell.XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	FILE *f = fdopen(fd, "w");
	assert_non_null(f);
	fputs(script, f);
	fclose(f);
	STR_AUTO command = STR_INIT(1000);
	str_printf(&command, "%s %s", shell, path);
	FILE *pipe =
	    popen(str_c(&command), "r"); /* NOLINT(cert-env33-c): the shell is what is tested */
	assert_non_null(pipe);
	size_t n = fread(out, 1, 4095, pipe);
	out[n] = '\0';
	pclose(pipe);
	remove(path);
	return true;
}

static const char *const SHELLS[] = { "bash", "bash --posix", "dash", "busybox sh" };
enum { N_SHELLS = sizeof(SHELLS) / sizeof(*SHELLS) };

TEST(test_shell_word_is_read_back_by_shells)
{
	/* All bytes but NUL, in an order that puts quotes next to each other. */
	char text[256 * 3 + 1];
	size_t n = 0;
	for (int i = 1; i < 256; i++) {
		text[n++] = (char)i;
		text[n++] = '\'';
		text[n++] = (char)(256 - i);
	}
	text[n] = '\0';
	STR_AUTO script = STR_INIT(8192);
	str_puts(&script, "printf %s ");
	shell_word(&script, (struct span){ text, n });
	for (size_t i = 0; i < N_SHELLS; i++) {
		char out[4096];
		if (run(SHELLS[i], str_c(&script), out))
			assert_string_equal(out, text);
	}
}

TEST(test_shell_header_starts_in_every_shell)
{
	STR_AUTO script = STR_INIT(8192);
	shell_header(&script);
	str_puts(&script, "echo alive; echo $-; false; echo dead\n");
	for (size_t i = 0; i < N_SHELLS; i++) {
		char out[4096];
		if (!run(SHELLS[i], str_c(&script), out))
			continue;
		assert_ptr_equal(strstr(out, "alive\n"), out);
		assert_non_null(strchr(out + 6, 'e'));
		assert_non_null(strchr(out + 6, 'u'));
		assert_null(strstr(out, "dead"));
	}
}

TEST(test_shell_header_sets_pipefail_where_it_is_known)
{
	STR_AUTO script = STR_INIT(8192);
	shell_header(&script);
	str_puts(&script, "if false | true; then echo lost; else echo seen; fi\n");
	char out[4096];
	if (run("bash", str_c(&script), out))
		assert_string_equal(out, "seen\n");
}
