/* References in the parameters of plugins and in the user's command. */

#include "runtime-assets/init/init.h"
#include "tests/unit/base/cmocka.h"

static const char CONFIG[] = "parameters:\n"
			     "  text: it's\n"
			     "  int: 42\n"
			     "  real: 0.1\n"
			     "  tail: 1.50\n"
			     "  one: 1.0\n"
			     "  exp: 1e3\n"
			     "  big: 1e21\n"
			     "  hex: 0x1F\n"
			     "  yes: yes\n"
			     "  on: true\n"
			     "  none:\n"
			     "  day: 2001-12-14\n"
			     "  again: <% $parameters.text %>\n"
			     "  list: [a, [b, c], {k: v}]\n"
			     "  map: {x: y, '1': one, 'a b': blank}\n"
			     "prerequisites:\n"
			     "  - {type: data, name: set, uri: [u0, u1]}\n"
			     "  - {type: script, name: set, uri: s}\n"
			     "taskRoles:\n"
			     "  worker: {data: set, output: nowhere}\n"
			     "secrets: '******'\n";
static const char SECRETS[] = "token: a&b<c>\"d\npin: 0123\nquoted: '0123'\nlist: [x, 1.5, true]\n"
			      "map: {k: v}\nempty:\n";

struct world {
	struct arena a;
	struct init_job job;
	struct doc secrets;
	struct str out, sentence;
};

static void setup(struct world *w, const char *config, const char *secrets)
{
	STR_AUTO problem = STR_INIT(1000);
	*w = (struct world){ .out = STR_SECRET(1000), .sentence = STR_INIT(1000) };
	w->job.role_name = "worker";
	if (secrets) {
		assert_int_equal(
		    doc_read(span_of(secrets), &BUDGET_DEFAULT, &w->a, &w->secrets, NULL, no_err()),
		    0);
		w->job.secrets = &w->secrets.root;
	}
	job_parse_config(&w->job, span_of(config), &w->a, &problem);
	assert_string_equal(str_c(&problem), "");
}

static void done(struct world *w)
{
	str_done(&w->out);
	str_done(&w->sentence);
	arena_done(&w->a);
}

/* A new world, to the end of the block. */
#define WORLD(w, ...)                                                                              \
	AUTO(done) struct world w;                                                                 \
	setup(&w, __VA_ARGS__)

typedef int filler(const struct init_job *, struct span, struct str *, struct err *);

static const char *with(struct world *w, filler *f, const char *text)
{
	str_wipe(&w->out);
	w->out = STR_SECRET(1000);
	if (f(&w->job, span_of(text), &w->out, no_err())) {
		str_done(&w->sentence);
		w->sentence = STR_INIT(1000);
		str_puts(&w->sentence, err_msg(&unit.e));
		return str_c(&w->sentence);
	}
	return str_c(&w->out);
}

static void fills(filler *f, const char *text, const char *want)
{
	WORLD(w, CONFIG, SECRETS);
	assert_string_equal(with(&w, f, text), want);
}

TEST(test_job_fill_writes_scalars_as_ecmascript)
{
	static const char *const CASES[][2] = {
		{ "text", "it's" }, { "int", "42" },   { "real", "0.1" },  { "tail", "1.5" },
		{ "one", "1" },     { "exp", "1000" }, { "big", "1e+21" }, { "hex", "31" },
		{ "yes", "yes" },   { "on", "true" },  { "none", "" },     { "day", "2001-12-14" },
	};
	for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
		char text[64];
		snprintf(text, sizeof(text), "<<%% $parameters.%s %%>>", CASES[i][0]);
		char want[64];
		snprintf(want, sizeof(want), "<%s>", CASES[i][1]);
		fills(job_fill, text, want);
	}
}

TEST(test_job_fill_keeps_other_text)
{
	static const char *const SAME[] = {
		"",    "<%",       "%>",      "<% x %>",    "<% $parameters.int",
		"<<%", "<%& x %>", "$(x) %>", "<% %>  <%>", "{{x}}"
	};
	for (size_t i = 0; i < sizeof(SAME) / sizeof(*SAME); i++)
		fills(job_fill, SAME[i], SAME[i]);
}

TEST(test_job_fill_without_secrets_refuses_them)
{
	WORLD(w, CONFIG, NULL);
	assert_string_equal(with(&w, job_fill, "<% $secrets.token %>"),
	                    "reference `<% $secrets.token %>` leads nowhere");
}

TEST(test_job_fill_is_bounded)
{
	WORLD(w, CONFIG, SECRETS);
	STR_AUTO small = STR_INIT(5);
	assert_int_equal(job_fill(&w.job, SPAN("1234<% $parameters.int %>"), &small, no_err()), -1);
	assert_string_equal(err_msg(&unit.e), "a text has more than 5 bytes with its references");
}

TEST(test_job_fill_errors_do_not_quote_values)
{
	WORLD(w, CONFIG, SECRETS);
	const char *said = with(&w, job_fill, "<% $secrets.token %> <% $secrets.list %>");
	assert_null(strstr(said, "a&b"));
}

/* With one scan for each mark, this test would take minutes. */
TEST(test_job_fill_takes_linear_time_for_many_marks)
{
	enum { N = 200000, MOST = 4 * N };
	STR_AUTO text = STR_INIT(MOST);
	STR_AUTO out = STR_INIT(MOST);
	struct init_job none = { 0 };
	str_many(&text, "<%", N / 2);
	str_many(&text, " ", N);
	str_puts(&text, "%>");
	assert_int_equal(job_fill(&none, str_view(&text), &out, no_err()), 0);
	assert_true(span_eq(str_view(&text), str_view(&out)));
	text.n = out.n = 0;
	str_many(&text, "<% $a.b", N / 2);
	str_puts(&text, "%>");
	assert_int_equal(job_fill_secrets(&none, str_view(&text), &out, no_err()), 0);
	assert_true(span_eq(str_view(&text), str_view(&out)));
}

/* The references are not closed before the next one begins. */
TEST(test_job_fill_secrets_takes_linear_time_for_many_references)
{
	enum { N = 100000, MOST = 6 * N };
	STR_AUTO text = STR_INIT(MOST);
	STR_AUTO out = STR_INIT(MOST);
	struct init_job none = { 0 };
	str_many(&text, "<% $x", N);
	str_puts(&text, "%>");
	assert_int_equal(job_fill_secrets(&none, str_view(&text), &out, no_err()), 0);
	assert_true(span_eq(str_view(&text), str_view(&out)));
}

TEST(test_job_fill_tree_replaces_references_in_texts_only)
{
	WORLD(w, CONFIG, SECRETS);
	struct doc in = { 0 };
	struct node filled;
	const char *text =
	    "{<% $parameters.int %>: [<% $parameters.int %>, 7, true, ~, [x<% $data.name %>]]}";
	assert_int_equal(doc_read(span_of(text), &BUDGET_DEFAULT, &unit.a, &in, NULL, no_err()), 0);
	assert_int_equal(job_fill_tree(&w.job, &in.root, &unit.a, &filled, no_err()), 0);
	node_json(&w.out, &filled);
	assert_string_equal(str_c(&w.out),
	                    "{\"<% $parameters.int %>\":[\"42\",7,true,null,[\"xset\"]]}");
}

TEST(test_job_fill_tree_fails_as_a_whole)
{
	WORLD(w, "{a: [x, <% $parameters.gone %>]}", NULL);
	struct node filled = { .n = 17 };
	assert_int_equal(job_fill_tree(&w.job, &w.job.doc.root, &w.a, &filled, no_err()), -1);
	assert_int_equal(filled.n, 17);
}

TEST(test_job_fill_secrets_keeps_other_tags)
{
	static const char *const SAME[] = { "<%& $secrets.token %>",
		                            "<%# $secrets.list %>[<% . %>]<%/ $secrets.list %>",
		                            "<% $parameters.text %>",
		                            "<% $secrets %>",
		                            "<% $secrets. %>",
		                            "<% $secretsx.token %>",
		                            "<%! note %>",
		                            "<% $secrets.token" };
	for (size_t i = 0; i < sizeof(SAME) / sizeof(*SAME); i++)
		fills(job_fill_secrets, SAME[i], SAME[i]);
}

TEST(test_job_fill_gives_the_expected_text)
{
	/* Ignores blanks within the marks. */
	fills(job_fill, "<%$parameters.int%>", "42");
	fills(job_fill, "<%   $parameters.int\t%>", "42");
	/* Follows paths through lists and maps. */
	fills(job_fill, "<% $parameters.list[0] %>", "a");
	fills(job_fill, "<% $parameters.list.0 %>", "a");
	fills(job_fill, "<% $parameters.list[1][1] %>", "c");
	fills(job_fill, "<% $parameters.list.1[0] %>", "b");
	fills(job_fill, "<% $parameters.list[2].k %>", "v");
	fills(job_fill, "<% $parameters.map.x %>", "y");
	fills(job_fill, "<% $parameters.map[1] %>", "one");
	fills(job_fill, "<% $parameters.map.1 %>", "one");
	fills(job_fill, "<% $parameters.map.a b %>", "blank");
	/* Takes parameters secrets and prerequisites. */
	fills(job_fill, "<% $secrets.token %>", "a&b<c>\"d");
	fills(job_fill, "<% $data.uri[1] %> <% $data.name %>", "u1 set");
	fills(job_fill, "<% $script.uri %>", "reference `<% $script.uri %>` leads nowhere");
	fills(job_fill, "<% $output.uri %>", "reference `<% $output.uri %>` leads nowhere");
	fills(job_fill, "<% $nonsense.x %>", "reference `<% $nonsense.x %>` leads nowhere");
	/* Does not scan inserted text. */
	fills(job_fill, "<% $parameters.again %>", "<% $parameters.text %>");
	/* Keeps opening marks before a reference. */
	fills(job_fill, "<% <% <% $parameters.int %>", "<% <% 42");
	fills(job_fill, "<%<%$parameters.int%>%>", "<%42%>");
	/* Refuses references that lead nowhere. */
	fills(job_fill, "a <% $parameters.gone %>",
	      "reference `<% $parameters.gone %>` leads nowhere");
	fills(job_fill, "<% $parameters.list[3] %>",
	      "reference `<% $parameters.list[3] %>` leads nowhere");
	fills(job_fill, "<% $parameters.list[00] %>",
	      "reference `<% $parameters.list[00] %>` leads nowhere");
	fills(job_fill, "<% $parameters.text.x %>",
	      "reference `<% $parameters.text.x %>` leads nowhere");
	fills(job_fill, "<% $parameters.map %>",
	      "reference `<% $parameters.map %>` is a mapping or a list, not a text");
	fills(job_fill, "<% $parameters %>",
	      "reference `<% $parameters %>` is a mapping or a list, not a text");
	fills(job_fill, "<% $ %>", "reference `<% $ %>` is not written as $word.key[0]");
	fills(job_fill, "<% $a..b %>", "reference `<% $a..b %>` is not written as $word.key[0]");
	fills(job_fill, "<% $a[x] %>", "reference `<% $a[x] %>` is not written as $word.key[0]");
	fills(job_fill, "<% $a[0 %>", "reference `<% $a[0 %>` is not written as $word.key[0]");
	fills(job_fill, "<% $a. %>", "reference `<% $a. %>` is not written as $word.key[0]");
	fills(job_fill, "<% $a[0]b %>", "reference `<% $a[0]b %>` is not written as $word.key[0]");
	/* Secrets inserts values verbatim. */
	fills(job_fill_secrets, "x <% $secrets.token %>", "x a&b<c>\"d");
	fills(job_fill_secrets, "<% $secrets.list[1] %><% $secrets.list.2 %>", "1.5true");
	/* Secrets writes numbers as yaml reads them. */
	fills(job_fill_secrets, "<% $secrets.pin %> <% $secrets.quoted %>", "83 0123");
	/* Secrets writes absent ones as empty. */
	fills(job_fill_secrets, "<<% $secrets.gone %><% $secrets.empty %><% $secrets.token.x %>>",
	      "<>");
	/* Secrets refuses a map. */
	fills(job_fill_secrets, "<% $secrets.map %>",
	      "reference `<% $secrets.map %>` is a mapping or a list, not a text");
	/* Secrets replaces within another mark. */
	fills(job_fill_secrets, "<% $x <% $secrets.quoted %>", "<% $x 0123");
}
