/* Regular expressions: the results of Go's package and of a backtracking search, and limits. */
#include "base/regex/regex.h"

#include "runtime-assets/net/http.h"
#include "tests/lib/backtrack.h"
#include "tests/unit/base/cmocka.h"

enum { LINE_MAX_BYTES = 1 << 16, SOON_MS = 60000 };

static enum regex_found search(struct regex *re, struct span text, struct match *m)
{
	struct text_span t;
	regex_text_of(&t, text);
	return regex_search(re, &t.text, clock_ms() + SOON_MS, m);
}

static enum regex_found search_narrow(struct regex *re, struct span text, struct match *m)
{
	struct narrow t = narrow_of(text);
	return regex_search(re, &t.text, clock_ms() + SOON_MS, m);
}

static bool literal_occurs(struct regex *re, struct span text, struct arena *a)
{
	struct text_span t;
	bool possible = false;
	regex_text_of(&t, text);
	const struct regex_set *set = regex_set_new(&re, 1, a);
	assert_int_equal(regex_set_scan(set, &t.text, clock_ms() + SOON_MS, &possible), REGEX_NONE);
	return possible;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* \xHH to bytes, in place. */
static struct span unescape(char *text)
{
	char *out = text;
	for (char *p = text; *p; p++) {
		if (p[0] == '\\') {
			char hex[3] = { p[2], p[3], '\0' };
			*out++ = (char)strtoul(hex, NULL, 16);
			p += 3;
		} else {
			*out++ = *p;
		}
	}
	return (struct span){ text, (size_t)(out - text) };
}

static void describe(char out[static 64], enum regex_found found, const struct match *m)
{
	if (found == REGEX_FOUND)
		(void)snprintf(out, 64, "%zu-%zu", m->start, m->end);
	else
		(void)snprintf(out, 64, "%s", found == REGEX_NONE ? "-" : "late");
}

static int mismatches;
static int refused_folds;

static void expect(const char *who, const char *line, const char *want, const char *got)
{
	if (strcmp(want, got) != 0 && mismatches++ < 10)
		print_error("%s: %s: got %s\n", who, line, got);
}

static void check_match(struct regex *re, struct span text, const char *want, const char *line)
{
	struct match m = { 0 };
	char got[64];
	describe(got, search(re, text, &m), &m);
	expect("whole", line, want, got);
	describe(got, search_narrow(re, text, &m), &m);
	expect("piece by piece", line, want, got);
	describe(got, back_search(re, text, &m), &m);
	expect("going back", line, want, got);
	if (want[0] != '-' && !literal_occurs(re, text, &unit.a))
		expect("literal", line, want, "not possible");
}

static void check_line(char *line)
{
	FREE_AUTO char *shown = xstrdup(line);
	char *text = strchr(line, '\t');
	*text++ = '\0';
	char *want = strchr(text, '\t');
	struct regex *re = regex_compile(unescape(line), &unit.a, no_err());
	if (strcmp(text, "!") == 0) {
		expect("pattern", shown, "refused", re ? "taken" : "refused");
		return;
	}
	*want++ = '\0';
	if (!re && strstr(err_msg(&unit.e), "under (?i)"))
		refused_folds++; /* Go folds them */
	else if (!re)
		expect("pattern", shown, "taken", err_msg(&unit.e));
	else
		check_match(re, unescape(text), want, shown);
}

TEST(test_search_gives_the_results_of_go)
{
	static char line[LINE_MAX_BYTES];
	size_t lines = 0;
	FILE *f = fopen("tests/data/runtime/regex.tsv", "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' && lines++ == 0)
			continue;
		check_line(line);
		lines++;
	}
	assert_int_equal(fclose(f), 0);
	assert_true(lines > 3000);
	assert_in_range(refused_folds, 1, 200);
	assert_int_equal(mismatches, 0);
}

/* ---- single facts ------------------------------------------------------------------------- */

static void check_refused(const char *pattern, const char *why)
{
	assert_null(regex_compile(span_of(pattern), &unit.a, no_err()));
	assert_string_equal(err_msg(&unit.e), why);
}

TEST(test_compile_says_where_the_error_is)
{
	check_refused("ab(c", "missing closing ) of the group at byte 3");
	check_refused("ab)c", "unexpected ) at byte 3");
	check_refused("a[b", "missing closing ] of the class at byte 2");
	check_refused("a**", "repetition of a repetition at byte 3");
	check_refused("|*", "missing argument to repetition at byte 2");
	check_refused("a{2,1}", "invalid count at byte 2");
	check_refused("(a{100}){100}", "nested counts multiply to more than 1000 at byte 9");
	check_refused("a(?=b)", "look-ahead is not supported, at byte 2");
	check_refused("(?<!b)", "look-behind is not supported, at byte 1");
	check_refused("(a)\\1", "back-references are not supported, at byte 4");
	check_refused("\\pL", "classes of Unicode (\\p) are not supported, at byte 1");
	check_refused("a\\", "trailing backslash at byte 2");
	check_refused("[z-a]", "range of characters from high to low at byte 2");
	check_refused("[[:foo:]]", "unknown class of characters at byte 2");
	check_refused("a\xff", "invalid UTF-8 at byte 2");
}

TEST(test_compile_refuses_patterns_beyond_the_limits)
{
	STR_AUTO deep = STR_INIT(REGEX_DEPTH_MAX + 1);
	str_many(&deep, "(", REGEX_DEPTH_MAX + 1);
	check_refused(str_c(&deep), "groups are nested too deeply at byte 251");
	STR_AUTO longer = STR_INIT(REGEX_PATTERN_MAX + 1);
	str_many(&longer, "a", REGEX_PATTERN_MAX + 1);
	check_refused(str_c(&longer), "the pattern is too long, it has to end at byte 8193");
	check_refused("(abcdefghijklmnop){1000}", "the pattern is too large");
	check_refused("(a{10}b{10}c{10}d{10}e{10}){100}x{1000}y{1000}z{1000}(pq){1000}(rs){1000}",
	              "the pattern is too large");
}

/* Counts copy their pieces: the copies are searched for one after another. */
TEST(test_compile_copies_repeated_pieces_in_order)
{
	static const struct {
		const char *atom, *text;
	} ATOMS[] = {
		{ "a", "a" },           { "(?i:ks)", "Ks" },
		{ "[^a-z]", "9" },      { "(a|bc|[d-f])", "bc" },
		{ "[^é]", "ë" },        { "(abcdefghijklmnopqrst)", "abcdefghijklmnopqrst" },
		{ "((a?b*)+)", "abb" }, { "\\W", "-" },
		{ "(^|$|\\b)", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(ATOMS); i++) {
		for (int n = 1; n <= 1000; n += 1 + n / 8) {
			struct match m;
			STR_AUTO text = STR_INIT(LINE_MAX_BYTES);
			const char *pattern = arena_printf(&unit.a, "%s{%d}x", ATOMS[i].atom, n);
			struct regex *re = regex_compile(span_of(pattern), &unit.a, no_err());
			if (!re) {
				assert_string_equal(err_msg(&unit.e), "the pattern is too large");
				continue;
			}
			for (int k = 0; k < n; k++)
				str_puts(&text, ATOMS[i].text);
			str_char(&text, 'x');
			assert_int_equal(search(re, str_view(&text), &m), REGEX_FOUND);
			assert_int_equal(m.start, 0);
			assert_int_equal(m.end, text.n);
		}
	}
}

/* An exit specification has a hundred patterns. */
TEST(test_compile_takes_little_memory_for_a_pattern)
{
	static const char PATTERN[] = "(?mi)^(?:[\\w.]*(?:error|exception): .*|unable to restore "
				      "this file, )perhaps your file "
				      "is in a different file format";
	assert_non_null(regex_compile(SPAN(PATTERN), &unit.a, no_err()));
	assert_in_range(unit.a.used, 1, 80 * sizeof(PATTERN));
}

TEST(test_search_finds_text_behind_a_nul_byte)
{
	struct match m;
	struct regex *re = regex_compile(SPAN("b\\x00c"), &unit.a, no_err());
	assert_int_equal(search(re, SPAN("a\0b\0c"), &m), REGEX_FOUND);
	assert_int_equal(m.start, 2);
	assert_int_equal(m.end, 5);
}

/* (?i) folds ASCII letters only: K is neither KELVIN SIGN, nor is s LATIN SMALL LETTER LONG S. */
TEST(test_search_folds_only_ascii_letters)
{
	static const struct {
		const char *pattern, *text;
		enum regex_found found;
	} CASES[] = {
		{ "(?i)^kelvin$", "KELVIN", REGEX_FOUND },
		{ "(?i)^kelvin$", "\u212Aelvin", REGEX_NONE },
		{ "(?i)^[r-s]$", "\u017F", REGEX_NONE },
		{ "(?i)^[^k]$", "\u212A", REGEX_FOUND },
		{ "(?i)^\\w$", "\u212A", REGEX_NONE },
		{ "(?i)^[[:alpha:]]$", "\u017F", REGEX_NONE },
		{ "(?i)^[Z-\\x{10FFFF}]$", "z", REGEX_FOUND },
		{ "(?i)^[^\\x00-\\x7F]b$", "äB", REGEX_FOUND },
		{ "(?i)^stra(?-i:ß)e$", "STRAßE", REGEX_FOUND },
		{ "^ошибка (?i)x$", "ошибка X", REGEX_FOUND },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct match m;
		struct regex *re = regex_compile(span_of(CASES[i].pattern), &unit.a, no_err());
		assert_non_null(re);
		assert_int_equal(search(re, span_of(CASES[i].text), &m), CASES[i].found);
	}
}

TEST(test_compile_refuses_to_fold_other_letters)
{
	check_refused("(?i)straße",
	              "found the character U+00DF under (?i), which allows ASCII only "
	              "(write (?-i:...) around others), at byte 9");
	check_refused("a(?i:b[c-é])", "found the character U+00E9 under (?i), which allows ASCII "
	                              "only (write (?-i:...) around others), at byte 8");
	check_refused("(?i)\\x{212A}", "found the character U+212A under (?i), which allows ASCII "
	                               "only (write (?-i:...) around others), at byte 5");
	check_refused("(?i)\\Qaé\\E", "found the character U+00E9 under (?i), which allows ASCII "
	                              "only (write (?-i:...) around others), at byte 8");
}

/* ---- time --------------------------------------------------------------------------------- */

enum { LONG_TEXT = 1 << 18 };

/* Patterns that take exponential or quadratic time where matching goes back. */
static const char *const HARD[] = {
	"(x+x+)+y",
	"(x|xx)+$z",
	"(?s).*.*.*y",
	"(x?){50}x{50}y",
	"(?s)(a|b|x)*a(a|b|x){12}c",
	"(((x*)*)*)*y",
	"(?msi)x.*tensorflow.*OOM.*y",
	"[ax]*[bx]*[cx]*y",
	"(a|b|x|ab|bx)*?c",
};

static void fill_hard(char *text, size_t n)
{
	uint32_t seed = 1;
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1103515245u + 12345u;
		text[i] = "xabxxxxx"[(seed >> 20) % 8];
	}
}

TEST(test_search_takes_linear_time)
{
	FREE_AUTO char *text = xmalloc(LONG_TEXT);
	fill_hard(text, LONG_TEXT);
	for (size_t i = 0; i < ARRAY_SIZE(HARD); i++) {
		struct match m;
		struct regex *re = regex_compile(span_of(HARD[i]), &unit.a, no_err());
		assert_int_equal(search(re, (struct span){ text, LONG_TEXT }, &m), REGEX_NONE);
	}
}

TEST(test_search_stops_at_the_deadline)
{
	FREE_AUTO char *text = xmalloc(LONG_TEXT);
	fill_hard(text, LONG_TEXT);
	for (size_t i = 0; i < ARRAY_SIZE(HARD); i++) {
		struct match m;
		struct regex *re = regex_compile(span_of(HARD[i]), &unit.a, no_err());
		struct text_span t;
		regex_text_of(&t, (struct span){ text, LONG_TEXT });
		assert_int_equal(regex_search(re, &t.text, clock_ms() - 1, &m), REGEX_LATE);
	}
}

/* A match as long as the text, whose threads all began at the same place. */
TEST(test_search_finds_a_match_among_many_threads)
{
	struct match m;
	struct regex *re =
	    regex_compile(SPAN("(?s)(a|b|x)*a(a|b|x){14}c(a|b|x)"), &unit.a, no_err());
	FREE_AUTO char *text = xmalloc(LONG_TEXT);
	fill_hard(text, LONG_TEXT);
	static const char END[20] = "axxxxxxxxxxxxxxcxbbb";
	memcpy(text + LONG_TEXT - sizeof(END), END, sizeof(END));
	assert_int_equal(search(re, (struct span){ text, LONG_TEXT }, &m), REGEX_FOUND);
	assert_int_equal(m.start, 0);
	assert_int_equal(m.end, LONG_TEXT - 3);
}

/* ---- many at once
 * ----------------------------------------------------------------------------------- */

TEST(test_set_scan_tells_which_patterns_are_possible)
{
	static const char *const PATTERNS[] = { "(?i)importerror: .*", "core dumped", "[a-z]+",
		                                "nowh(pe|t)x", "segmentation (fault|error)" };
	enum { N = ARRAY_SIZE(PATTERNS) };
	struct regex *re[N + 1] = { NULL };
	bool possible[N + 1] = { false };
	for (size_t i = 0; i < N; i++)
		re[i] = regex_compile(span_of(PATTERNS[i]), &unit.a, no_err());
	struct text_span t;
	regex_text_of(
	    &t, SPAN("xx ImportError: a\nSegmentation fault\nsegmentation xx core dum ped now"));
	const struct regex_set *set = regex_set_new(re, N + 1, &unit.a);
	assert_int_equal(regex_set_scan(set, &t.text, clock_ms() + SOON_MS, possible), REGEX_NONE);
	assert_true(possible[0]);
	assert_false(possible[1]);
	assert_true(possible[2]); /* demands no text */
	assert_false(possible[3]);
	assert_true(possible[4]);  /* its text is there, though it does not match */
	assert_false(possible[N]); /* none */
}
