/* Explanations of failures: the specification, excerpts, the message and its size. */
#include "runtime-assets/exit/exit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <yaml.h>

#include "base/doc/tree.h"
#include "base/enc.h"
#include "runtime-assets/common/files.h"
#include "runtime-assets/exit/exit_internal.h"
#include "runtime-assets/net/http.h"
#include "tests/unit/base/cmocka.h"

enum { SOON_MS = 60000 };

static int file_with(struct span text)
{
	int fd = memfd_create("log", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text), 0);
	return fd;
}

/* ---- texts in double quotes ------------------------------------------------------------------ */

static int append(void *out, unsigned char *buffer, size_t n)
{
	str_put(out, (const char *)buffer, n);
	return 1;
}

/* Writes a text as libyaml does, in double quotes on one line. */
static void libyaml_quoted(struct str *out, struct span text)
{
	yaml_emitter_t emitter;
	yaml_event_t event;
	const yaml_scalar_style_t style = YAML_DOUBLE_QUOTED_SCALAR_STYLE;
	FREE_AUTO unsigned char *value = xmalloc(text.n + 1);
	memcpy(value, text.p, text.n);
	assert_true(yaml_emitter_initialize(&emitter));
	yaml_emitter_set_output(&emitter, append, out);
	yaml_emitter_set_unicode(&emitter, 1);
	yaml_emitter_set_width(&emitter, -1);
	assert_true(yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
	assert_true(yaml_emitter_emit(&emitter, &event));
	assert_true(yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
	assert_true(yaml_emitter_emit(&emitter, &event));
	assert_true(
	    yaml_scalar_event_initialize(&event, NULL, NULL, value, (int)text.n, 1, 1, style));
	assert_true(yaml_emitter_emit(&emitter, &event));
	assert_true(yaml_document_end_event_initialize(&event, 1));
	assert_true(yaml_emitter_emit(&emitter, &event));
	assert_true(yaml_stream_end_event_initialize(&event));
	assert_true(yaml_emitter_emit(&emitter, &event));
	yaml_emitter_delete(&emitter);
	*out = (struct str){
		.p = out->p, .n = span_trim(str_view(out)).n, .cap = out->cap, .max = out->max
	};
}

static size_t utf8(char out[static 4], uint32_t r)
{
	if (r < 0x80) {
		out[0] = (char)r;
		return 1;
	}
	size_t n = r < 0x800 ? 2 : r < 0x10000 ? 3 : 4;
	static const unsigned char LEAD[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
	for (size_t i = n; i-- > 1; r >>= 6)
		out[i] = (char)(0x80 | (r & 0x3F));
	out[0] = (char)(LEAD[n] | r);
	return n;
}

static void check_quoted(struct span text)
{
	STR_AUTO theirs = STR_INIT(1 << 16);
	STR_AUTO ours = STR_INIT(1 << 16);
	libyaml_quoted(&theirs, text);
	yaml_quoted(&ours, text);
	assert_true(span_eq(str_view(&ours), str_view(&theirs)));
	assert_int_equal(yaml_characters(NULL, text), ours.n - 2);
}

static bool surrogate(uint32_t r)
{
	return r >= 0xD800 && r < 0xE000;
}

/* Every character of the first plane, and some of the others, between letters. */
TEST(test_yaml_quoted_text_is_read_back_by_libyaml)
{
	for (uint32_t r = 0; r <= 0x10FFFF; r += r < 0x10000 ? 1 : 0x101) {
		char text[8] = "a";
		if (surrogate(r))
			continue;
		size_t n = 1 + utf8(text + 1, r);
		text[n++] = 'b';
		check_quoted((struct span){ text, n });
	}
}

TEST(test_yaml_quoted_keeps_blanks_and_line_breaks)
{
	check_quoted(SPAN(""));
	check_quoted(SPAN("  two in front, two behind  "));
	check_quoted(SPAN("a line\n  and one with blanks  \n\n"));
	check_quoted(SPAN("%directive #comment - item: value"));
}

/* Readers of the message search for the markers first, and then parse YAML. */
TEST(test_yaml_quoted_escapes_the_end_marker)
{
	struct span text = SPAN("[PAI_RUNTIME_ERROR_END] [PAI");
	STR_AUTO out = STR_INIT(1000);
	yaml_quoted(&out, text);
	assert_string_equal(str_c(&out), "\"\\x5BPAI_RUNTIME_ERROR_END] [PAI\"");
	assert_int_equal(yaml_characters(NULL, text), out.n - 2);
}

/* ---- the message ----------------------------------------------------------------------------- */

/* The text of the log in the message, read as the server reads it: NULL if it cannot be. */
static const char *read_back(struct span log, struct arena *a)
{
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	NOTES_AUTO warnings = { 0 };
	FD_AUTO user = file_with(log);
	struct exit_input in = {
		.code = 7,
		.user_log = user,
		.user_log_rotated = -1,
		.runtime_log = user,
		.spec = SPAN("- containerExitCode: 9\n  patterns:\n  - userLogRegex: 'bad'\n"
		             "    platformLogRegex: bad\n"),
		.deadline_ms = clock_ms() + SOON_MS,
		.root = "/nonexistent",
	};
	assert_int_equal(exit_explain(&in, &message, &warnings), 9);
	struct span report = str_view(&message);
	assert_int_equal(utf8_check(report), report.n);
	size_t from = span_find(report, 0, "START]\n");
	size_t to = span_find(report, 0, "[PAI_RUNTIME_ERROR_END]");
	assert_true(from < to && to < report.n);
	report = (struct span){ report.p + from + 7, to - from - 7 };
	const struct node *map = doc_quiet(report, &BUDGET_DEFAULT, a);
	if (!map || !node_is(node_get(map, "matchedPlatformLogString"), NODE_TEXT))
		return NULL;
	const struct node *text = node_get(node_get(map, "errorLogs"), "user");
	return node_is(text, NODE_TEXT) ? text->text : NULL;
}

/* A report is read whatever the log has: each byte, and bytes that are no UTF-8. */
TEST(test_exit_message_is_read_after_any_byte)
{
	for (int byte = 0; byte < 256; byte++) {
		char log[] = "before\nbad . thing\nbehind";
		log[strlen("before\nbad ")] = (char)byte;
		const char *got = read_back((struct span){ log, sizeof(log) - 1 }, &unit.a);
		bool kept = byte > 0 && byte < 0x80;
		if (!got || !strstr(got, "behind") ||
		    (kept && byte != '\r' && strcmp(got, log) != 0) ||
		    (!kept && !strstr(got, "bad \uFFFD thing")))
			fail_msg("byte %d is read back as %s", byte, got ? got : "nothing");
	}
	static const char *const BROKEN[] = {
		"\xc0\x80", "\xed\xa0\x80",         "\xf4\x90\x80\x80",
		"\xe2\x82", "\xf8\x88\x80\x80\x80", "\xef\xbf\xbe",
		"\xc2\x85", "\xe2\x80\xa8",
	};
	for (size_t i = 0; i < ARRAY_SIZE(BROKEN); i++) {
		const char *log = arena_printf(&unit.a, "bad %s\nbehind", BROKEN[i]);
		const char *got = read_back(span_of(log), &unit.a);
		if (!got || !strstr(got, "behind"))
			fail_msg("text %zu is read back as %s", i, got ? got : "nothing");
	}
}

struct logs {
	const char *user, *platform, *spec;
	int code;
};

static int explain(const struct logs *l, struct str *message, struct notes *warnings)
{
	FD_AUTO user = l->user ? file_with(span_of(l->user)) : -1;
	FD_AUTO platform = l->platform ? file_with(span_of(l->platform)) : -1;
	struct exit_input in = {
		.code = l->code,
		.user_log = user,
		.user_log_rotated = -1,
		.runtime_log = platform,
		.spec = span_of(l->spec ? l->spec : ""),
		.deadline_ms = clock_ms() + SOON_MS,
		.root = "/nonexistent",
	};
	return exit_explain(&in, message, warnings);
}

static void check_message(const struct logs *l, int code, const char *want)
{
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	NOTES_AUTO warnings = { 0 };
	assert_int_equal(explain(l, &message, &warnings), code);
	assert_string_equal(str_c(&message), want);
}

#define HEAD(code) "[PAI_RUNTIME_ERROR_START]\nexitCode: " code "\noriginUserExitCode: 1\n"
#define TAIL       "\n[PAI_RUNTIME_ERROR_END]"

TEST(test_exit_explain_shows_lines_around_a_match)
{
	check_message(
	    &(struct logs){ .code = 1,
	                    .user = "1\n2\n3\n4\r\nbad thing\n6\n",
	                    .spec = "- containerExitCode: 9\n  patterns:\n"
	                            "  - userLogRegex: bad [a-z]+\n" },
	    9,
	    HEAD("9") "matchedUserLogString: \"bad thing\"\nerrorLogs:\n"
		      "  user: \"1\\n2\\n3\\n4\\nbad thing\\n6\\n\"\n  platform: \"\"" TAIL);
}

/* A pattern that matches the logs but not the GPU leaves no match for the next one. */
TEST(test_exit_explain_forgets_an_incomplete_match)
{
	check_message(
	    &(struct logs){ .code = 1,
	                    .user = "a",
	                    .spec = "- containerExitCode: 9\n  patterns:\n"
	                            "  - {userLogRegex: a, gpuInfo: {nvidiaDoubleEccError: true}}\n"
	                            "  - exitCode: 1\n" },
	    9, HEAD("9") "errorLogs:\n  user: \"a\"\n  platform: \"\"" TAIL);
}

TEST(test_exit_explain_stops_at_the_deadline)
{
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	NOTES_AUTO warnings = { 0 };
	FD_AUTO user = file_with(SPAN("a b a b"));
	struct exit_input in = { .code = 1,
		                 .user_log = user,
		                 .user_log_rotated = -1,
		                 .runtime_log = -1,
		                 .spec = SPAN(
				     "- {containerExitCode: 9, patterns: [{userLogRegex: 'a b'}]}"),
		                 .deadline_ms = clock_ms() - 1 };
	assert_int_equal(exit_explain(&in, &message, &warnings), 255);
	assert_int_equal(warnings.n, 1);
	assert_non_null(strstr(str_c(&message), "user: \"a b a b\""));
}

TEST(test_exit_explain_writes_the_end_time)
{
	static const struct {
		int64_t ms;
		const char *line;
	} CASES[] = {
		{ 0, NULL },
		{ 7, "endTime: \"1970-01-01T00:00:00.007Z\"\n" },
		{ 1795435384120, "endTime: \"2026-11-23T12:03:04.120Z\"\n" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		NOTES_AUTO warnings = { 0 };
		STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
		struct exit_input in = { .code = 1,
			                 .user_log = -1,
			                 .user_log_rotated = -1,
			                 .runtime_log = -1,
			                 .ended_ms = CASES[i].ms };
		(void)exit_explain(&in, &message, &warnings); /* 255 */
		const char *line = strstr(str_c(&message), "endTime");
		assert_int_equal(line != NULL, CASES[i].line != NULL);
		if (line)
			assert_memory_equal(line, CASES[i].line, strlen(CASES[i].line));
	}
}

/* The sizes are around the limit; the characters take one, two, four, six and ten bytes. */
TEST(test_exit_explain_never_exceeds_its_limit)
{
	static const char *const CHARACTERS[] = { "x", "\n",     "\"", "\x01", "é",
		                                  "€", "\uFEFF", "😀",  "\xff" };
	for (size_t c = 0; c < sizeof(CHARACTERS) / sizeof(*CHARACTERS); c++) {
		for (size_t n = 300; n < 4300; n += 61) {
			STR_AUTO log = STR_INIT(1 << 16);
			STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX + 1);
			NOTES_AUTO warnings = { 0 };
			while (log.n < n)
				str_puts(&log, CHARACTERS[c]);
			struct logs l = { .code = 1,
				          .user = str_c(&log),
				          .platform = n % 2 ? "short" : str_c(&log),
				          .spec = n % 3 ? ""
				                        : "- {containerExitCode: 9, patterns: "
				                          "[{userLogRegex: '(?s).*'}]}" };
			int code = explain(&l, &message, &warnings);
			assert_int_equal(code, n % 3 ? 255 : 9);
			assert_true(message.n <= EXIT_MESSAGE_MAX);
			assert_true(span_starts(str_view(&message),
			                        "[PAI_RUNTIME_ERROR_START]\nexitCode: "));
			assert_string_equal(str_c(&message) + message.n - 23,
			                    "[PAI_RUNTIME_ERROR_END]");
		}
	}
}

/* ---- the specification -------------------------------------------------------------------- */

static void check_warning(const char *spec, int code, const char *warning)
{
	STR_AUTO message = STR_INIT(EXIT_MESSAGE_MAX);
	NOTES_AUTO warnings = { 0 };
	struct logs l = { .code = 1, .user = "a", .spec = spec };
	assert_int_equal(explain(&l, &message, &warnings), code);
	assert_int_equal(warnings.n, *warning ? 1 : 0);
	if (*warning)
		assert_string_equal(warnings.v[0].msg, warning);
}

TEST(test_exit_spec_with_errors_is_ignored_with_a_warning)
{
	static const char *const NO_CODES[] = { "- {containerExitCode: 0, patterns: [{}]}",
		                                "- {containerExitCode: 201, patterns: [{}]}",
		                                "- {containerExitCode: 256, patterns: [{}]}",
		                                "- {containerExitCode: '9', patterns: [{}]}",
		                                "- {patterns: [{}]}",
		                                "- text" };
	check_warning(
	    "- {containerExitCode: 9, patterns: [{userLogRegex: '(a'}, {exitCode: 1}]}", 9,
	    "exit specification, line 1: userLogRegex '(a': missing closing ) of the group at "
	    "byte 1; the pattern is left out");
	check_warning(
	    "- {containerExitCode: 9, patterns: [{userLogRegex: 5}]}", 255,
	    "exit specification, line 1: userLogRegex is an integer, but must be text; the "
	    "pattern is left out");
	for (size_t i = 0; i < sizeof(NO_CODES) / sizeof(*NO_CODES); i++)
		check_warning(
		    NO_CODES[i], 255,
		    "exit specification, line 1: containerExitCode must be an integer from 1 to "
		    "199 or 220 to 255; the entry is left out");
	check_warning(
	    "- {containerExitCode: 9, patterns: [{exitCode: one}]}", 255,
	    "exit specification, line 1: exitCode must be an integer; the pattern is left out");
	check_warning("a: b", 255, "the exit specification must be a list, it is a mapping");
	check_warning(
	    "- a\n  b: [", 255,
	    "the exit specification cannot be read: line 2: a `:` with a value is not allowed here "
	    "(wrong indentation, or text with a `: ` that needs quotes)");
}

TEST(test_exit_spec_fields_may_be_absent)
{
	check_warning("- {containerExitCode: 9, patterns: [{}]}", 9, "");
	check_warning("- {containerExitCode: 9, patterns: []}", 255, "");
	check_warning("- {containerExitCode: 9}", 255, "");
	check_warning("- {containerExitCode: 9, patterns: [null]}", 9, "");
	check_warning("- {containerExitCode: 9, patterns: [{userLogRegex: '', other: 1}]}", 9, "");
	check_warning("- {containerExitCode: 9, patterns: [{exitCode: 2}]}", 255, "");
	check_warning("", 255, "");
	check_warning("[]", 255, "");
}

/* ---- excerpts -------------------------------------------------------------------------------- */

static void check_excerpt(const char *log, const char *match, size_t lines, const char *want)
{
	FD_AUTO fd = file_with(span_of(log));
	LOG_AUTO l;
	EXCERPT_AUTO x;
	log_text_open(&l, fd, -1);
	const char *at = match ? strstr(log, match) : log;
	struct match m = { (size_t)(at - log), (size_t)(at - log) + strlen(match ? match : "") };
	excerpt_make(&x, &l, match ? &m : NULL, lines);
	assert_string_equal(str_c(&x.text), want);
	if (match && strchr(want, '!'))
		assert_int_equal(str_c(&x.text)[x.match], '!');
}

TEST(test_excerpt_has_the_expected_lines)
{
	/* Without a match is the tail. */
	check_excerpt("1\n2\n3\n4", NULL, 3, "2\n3\n4");
	check_excerpt("1\n2\n3\n4\n", NULL, 3, "3\n4\n"); /* the empty last line counts */
	check_excerpt("1\r\n2\r\n", NULL, 3, "1\n2\n");
	check_excerpt("", NULL, 3, "");
	/* Has lines around the match. */
	check_excerpt("1\n2\n3\n4\n5 !x\n6\n7\n8\n9\n", "!x", 6, "2\n3\n4\n5 !x\n6\n7");
	check_excerpt("1\n2\n3\n4\n5 !x\n6", "!x", 6, "1\n2\n3\n4\n5 !x\n6");
	check_excerpt("!x\n1\n2\n3\n4\n", "!x", 4, "!x\n1\n2\n3");
	check_excerpt("0\n1\n2\n3\n4\n!x", "!x", 4, "2\n3\n4\n!x");
	/* Of a long match has its last lines.  The excerpt has the last lines of a match that is
	 * longer than the excerpt. */
	check_excerpt("0\n!a\nb\nc\nd\ne\n", "!a\nb\nc\nd", 3, "b\nc\nd");
	check_excerpt("0\n!a\nb\nc\nd\ne\n", "!a\nb\nc", 3, "!a\nb\nc");
	/* Replaces invalid bytes. */
	check_excerpt("a\xff!\xe2\x82z", "!", 3, "a\uFFFD!\uFFFD\uFFFDz");
}

/* A log that is shortened while it is read has line ends in place of its text. */
TEST(test_log_text_of_a_truncated_file_has_line_ends)
{
	FD_AUTO fd = file_with(SPAN("0123456789"));
	LOG_AUTO l;
	char out[10];
	log_text_open(&l, fd, -1);
	assert_int_equal(ftruncate(fd, 4), 0);
	log_text_copy(&l, 0, 10, out);
	assert_memory_equal(out, "0123\n\n\n\n\n\n", 10);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

TEST(test_ecc_errors_in_finds_double_bit_errors)
{
#define ECC(inner) "<gpu><ecc_errors>" inner "</ecc_errors></gpu>"
	assert_true(ecc_errors_in(
	    SPAN(ECC("<volatile><double_bit><total> 1 </total></double_bit></volatile>"))));
	assert_true(ecc_errors_in(
	    SPAN("<?xml ?><!DOCTYPE x><!-- > --><gpu id='a'><x/><ecc_errors><volatile>"
	         "<dram_uncorrectable>7</dram_uncorrectable>")));
	assert_false(ecc_errors_in(
	    SPAN(ECC("<volatile><double_bit><total>0</total></double_bit></volatile>"))));
	assert_false(ecc_errors_in(
	    SPAN(ECC("<volatile><double_bit><total>N/A</total></double_bit></volatile>"))));
	assert_false(ecc_errors_in(
	    SPAN(ECC("<volatile><single_bit><total>1</total></single_bit></volatile>"))));
	assert_false(ecc_errors_in(
	    SPAN(ECC("<aggregate><double_bit><total>1</total></double_bit></aggregate>"))));
	assert_false(ecc_errors_in(
	    SPAN(ECC("<!-- <volatile><double_bit><total>1</total></double_bit> -->"))));
	assert_false(ecc_errors_in(SPAN("")));
	assert_false(ecc_errors_in(SPAN("</a></b><<<>< / ><gpu")));
}
