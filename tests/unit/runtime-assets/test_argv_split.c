/* Commands that need no shell. */
#include "runtime-assets/common/cmdline.h"

#include "tests/unit/base/cmocka.h"

#define HEADER                                                                                     \
	"#!/bin/bash\nset -o errexit\nset -o nounset\n"                                            \
	"if (set -o pipefail) 2>/dev/null; then set -o pipefail; fi\n\n"

/* The words joined by `|`, "" if there is nothing to do, NULL if it needs a shell. */
static const char *joined(struct arena *a, const char *script)
{
	char **argv = NULL;
	enum argv_kind kind = argv_split(span_of(script), a, &argv);
	if (kind != ARGV_SIMPLE)
		return kind == ARGV_NONE ? "" : NULL;
	const char *text = argv[0];
	for (size_t i = 1; argv[i]; i++)
		text = arena_printf(a, "%s|%s", text, argv[i]);
	return text;
}

TEST(test_argv_split_reads_words_and_quotes)
{
	static const struct {
		const char *script, *words;
	} CASES[] = {
		{ HEADER "python3 train.py --lr=0.1", "python3|train.py|--lr=0.1" },
		{ HEADER "/app/run\n", "/app/run" },
		{ HEADER "echo 'a  b' \"c d\"", "echo|a  b|c d" },
		{ HEADER "echo a'b'\"c\"d", "echo|abcd" },
		{ HEADER "echo '' \"\"", "echo||" },
		{ HEADER "echo '$x `y` \\ \"'", "echo|$x `y` \\ \"" },
		{ HEADER "echo \"it's\"", "echo|it's" },
		{ HEADER "run a \\\n  b\n", "run|a|b" },
		{ HEADER "run a\\\nb c\\\n d\\\n", "run|ab|c|d" },
		{ HEADER "# comment\n\nrun a # more\n# and more\n", "run|a" },
		{ HEADER "  run\ta  ", "run|a" },
		{ HEADER "echo 'two\nlines'", "echo|two\nlines" },
		{ "run a=b x=1", "run|a=b|x=1" },
		{ "echo \xc3\xa4", "echo|\xc3\xa4" },
		{ "/bin/cd x", "/bin/cd|x" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		const char *got = joined(&unit.a, CASES[i].script);
		assert_non_null(got);
		assert_string_equal(got, CASES[i].words);
	}
}

/* The text follows the header of init on the same line. */
TEST(test_argv_split_reads_words_behind_the_header)
{
	static const char *const CASES[][2] = {
		{ "", "" },
		{ "\n# comment\n", "" },
		{ "/app/run 'a b'\n", "/app/run|a b" },
		{ "# comment\n/app/run", "/app/run" },
		{ "/app/run; true", NULL },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		STR_AUTO script = STR_INIT(4096);
		shell_header(&script);
		str_puts(&script, CASES[i][0]);
		const char *got = joined(&unit.a, str_c(&script));
		assert_int_equal(got == NULL, CASES[i][1] == NULL);
		if (got)
			assert_string_equal(got, CASES[i][1]);
		assert_true(span_is(shell_body(str_view(&script)), CASES[i][0]));
	}
}

TEST(test_argv_split_of_no_command_is_empty)
{
	static const char *const CASES[] = { "", HEADER, HEADER "\n# comment\n  \n", "#!/bin/sh" };
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		const char *got = joined(&unit.a, CASES[i]);
		assert_non_null(got);
		assert_string_equal(got, "");
	}
}

TEST(test_argv_split_leaves_shell_syntax_to_the_shell)
{
	static const char *const CASES[] = {
		"echo $x",      "echo \"$x\"", "echo `x`",
		"echo \"`x`\"", "a; b",        "a && b",
		"a | b",        "a &",         "a > b",
		"a < b",        "(a)",         "echo *",
		"echo a?",      "echo [a]",    "echo {a,b}",
		"echo ~",       "echo ~/x",    "x=1 run",
		"x=1",          "cd /tmp",     "export A",
		"if true",      "! true",      "exec a",
		". a",          "source a",    "exit 3",
		"a\nb",         "a \\ b",      "a\\b",
		"echo 'open",   "echo \"open", "echo \"a\\\"\"",
		"echo a#b",     "\"\" a",      "set -o posix",
		"echo !x",      "'exit' 3",    "echo $'x'",
		"x='1 2' run",  "x=\"1\"",
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		const char *got = joined(&unit.a, arena_printf(&unit.a, HEADER "%s\n", CASES[i]));
		if (got)
			fail_msg("%s: read as %s", CASES[i], got);
	}
}

TEST(test_argv_split_leaves_nul_bytes_to_the_shell)
{
	char **argv = NULL;
	assert_int_equal(argv_split(SPAN("echo a\0b"), &unit.a, &argv), ARGV_SHELL);
	assert_int_equal(argv_split(SPAN("echo 'a\0b'"), &unit.a, &argv), ARGV_SHELL);
}
