/* The YAML writer: its output means the same to all readers. */
#include "base/doc/yaml.h"

#include "tests/unit/base/read.h"

static void assert_writes(const char *text, const char *want)
{
	AUTO(run_done) struct run r = run_doc(text);
	STR_AUTO out = STR_INIT(1 << 20);
	if (r.failed)
		fail_msg("%s", run_result(&r));
	yaml_write(&out, &r.doc.root);
	assert_string_equal(str_c(&out), want);
	AUTO(run_done)
	struct run again = run_budget(str_view(&out), (struct budget){ 64, 100000, 1 << 20, 1024 });
	if (again.failed)
		fail_msg("%s", run_result(&again));
	assert_string_equal(run_result(&again), run_result(&r));
}

TEST(test_yaml_write_quotes_texts_that_readers_read_differently)
{
	static const char *const TEXTS[] = {
		"",     "yes",  "No",   "ON",         "off",  "y",    "N",     "~",    "null",
		"Null", "true", "1",    "017",        "0o17", "0x1F", "1_000", "1:30", "1e3",
		".5",   "-.5",  ".inf", ".nan",       "-",    "- a",  "a: b",  "a:",   "a #b",
		"#a",   "&a",   "*a",   "!a",         "|",    ">",    "%a",    "@a",   "`a",
		"{a",   "[a",   "a,b]", "?",          "? a",  "=",    "<<",    " a",   "a ",
		"\ta",  "---",  "...",  "ü",          "e5",   "E7",   "inf",   "NaN",  "none",
		"'a",   "\"",   "a\tb", "2001-01-01",
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++) {
		struct node n = { .type = NODE_TEXT,
			          .n = (uint32_t)strlen(TEXTS[i]),
			          .text = TEXTS[i] };
		STR_AUTO out = STR_INIT(100);
		yaml_write(&out, &n);
		if (str_c(&out)[0] != '"')
			fail_msg("%s: %s", TEXTS[i], str_c(&out));
		STR_AUTO json = STR_INIT(100);
		node_json(&json, &n);
		assert_reads(str_c(&out), str_c(&json));
	}
}

TEST(test_yaml_write_gives_the_expected_text)
{
	/* Indents lists and mappings. */
	assert_writes("{a: 1, b: {c: [x, {d: e, f: []}, [1, [2]], {}]}}", "a: 1\n"
	                                                                  "b:\n"
	                                                                  "  c:\n"
	                                                                  "    - x\n"
	                                                                  "    - d: e\n"
	                                                                  "      f: []\n"
	                                                                  "    - - 1\n"
	                                                                  "      - - 2\n"
	                                                                  "    - {}\n");
	assert_writes("[]", "[]\n");
	assert_writes("hello", "hello\n");
	/* Leaves clear texts unquoted. */
	assert_writes("['/mnt/data', 'ubuntu:18.04', 'http://a:80/b', 'python train.py --lr=0.1', "
	              "'$HOME', 'a(b)', 'x86_64', 'nothing', 'e5x']",
	              "- /mnt/data\n- ubuntu:18.04\n- http://a:80/b\n- python train.py --lr=0.1\n"
	              "- $HOME\n- a(b)\n- x86_64\n- nothing\n- e5x\n");
	/* Uses literal blocks for lines. */
	assert_writes("a: \"x\\n y\\n\\nz\\n\"\nb: \"x\\ny\"\nc: [\"x\\n\\n\"]\n",
	              "a: |\n  x\n   y\n\n  z\nb: |-\n  x\n  y\nc:\n  - |+\n    x\n\n");
	assert_writes("a: \"\\nx\"\nb: \" x\\ny\"\nc: \"x\\r\\ny\"\nd: \"\\n\"\n",
	              "a: \"\\nx\"\nb: \" x\\ny\"\nc: \"x\\r\\ny\"\nd: \"\\n\"\n");
	assert_writes("\"x\\ny\\n\"", "|\n  x\n  y\n");
	/* Escapes characters that do not print. */
	assert_writes("\"\\x1b\\x7f\\x85\\u2028\\ufeff\\\"\\\\ü😀\"",
	              "\"\\x1b\\x7f\\x85\\u2028\\ufeff\\\"\\\\ü😀\"\n");
	/* Keeps the values of numbers. */
	assert_writes("[0, -5, 0.5, 1e21, 1e-7, 1e20, 9007199254740992, .inf, -.inf, .nan]",
	              "- 0\n- -5\n- 0.5\n- 1.0e+21\n- 1.0e-07\n- 1.0e+20\n- 9007199254740992\n"
	              "- .inf\n- -.inf\n- .nan\n");
	/* Quotes ambiguous keys. */
	assert_writes("{'1': a, 'yes': b, \"c\\nd\": e, 'f g': h, '': i}",
	              "\"1\": a\n\"yes\": b\n\"c\\nd\": e\nf g: h\n\"\": i\n");
}

TEST(test_yaml_write_marks_keys_of_over_1000_characters)
{
	STR_AUTO text = STR_INIT(4096);
	str_puts(&text, "{\"a\": {\"");
	str_many(&text, "k", 1020);
	str_puts(&text, "\": {\"b\": 1}}}");
	AUTO(run_done) struct run r = run_doc(str_c(&text));
	STR_AUTO out = STR_INIT(4096);
	yaml_write(&out, &r.doc.root);
	assert_memory_equal(str_c(&out), "a:\n  ? kkk", 10);
	AUTO(run_done) struct run again = run_doc(str_c(&out));
	assert_string_equal(run_result(&again), run_result(&r));
}
