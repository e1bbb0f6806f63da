/* Placeholders. */
/* clang-format off */
#include <time.h>
#include "tests/unit/base/cmocka.h"
/* clang-format on */

#include "translate/reader/placeholders.h"

static const char PARAMETERS[] = "a: 1\n"
				 "t: <b> & c\n"
				 "e: ''\n"
				 "real: 0.1\n"
				 "big: 1e21\n"
				 "inf: .inf\n"
				 "yes: true\n"
				 "nothing: null\n"
				 "day: 2001-01-01\n"
				 "l: [1, [2, null], x]\n"
				 "m: {x: {y: [p, q]}}\n"
				 "u: \"a\\u00e9\\U0001F600z\"\n"
				 "self: <% $parameters.a %>\n"
				 "'': {k: v}\n"
				 "two: \"v\\nw\"\n";

struct fixture {
	struct arena arena;
	struct doc doc;
	struct root root;
	struct render render;
	struct str out;
};

static struct fixture fixture(void)
{
	struct fixture f = { .out = STR_INIT(1 << 20) };
	assert_int_equal(
	    doc_read(SPAN(PARAMETERS), &BUDGET_DEFAULT, &f.arena, &f.doc, NULL, no_err()), 0);
	return f;
}

static int run(struct fixture *f, const char *text)
{
	f->root = (struct root){ "$parameters", &f->doc.root };
	f->render = (struct render){ .roots = &f->root, .n_roots = 1 };
	return render_text(&f->render, span_of(text), &f->out);
}

static void done(struct fixture *f)
{
	str_done(&f->out);
	arena_done(&f->arena);
}

static void assert_renders(const char *text, const char *want)
{
	AUTO(done) struct fixture f = fixture();
	assert_int_equal(run(&f, text), 0);
	assert_string_equal(str_c(&f.out), want);
}

/* Expects the text unchanged, and a note. */
static void assert_kept(const char *text)
{
	AUTO(done) struct fixture f = fixture();
	assert_int_equal(run(&f, text), 0);
	assert_string_equal(str_c(&f.out), text);
	assert_int_equal(f.render.n_unresolved, 1);
	assert_memory_equal(f.render.unresolved[0].tag.p, text, strlen(text));
}

static void assert_problem(const char *text, const char *says, size_t at)
{
	AUTO(done) struct fixture f = fixture();
	assert_int_equal(run(&f, text), -1);
	assert_non_null(strstr(f.render.problem, says));
	assert_int_equal(f.render.problem_at, at);
}

TEST(test_unresolved_placeholders_are_kept)
{
	assert_kept("<% $parameters.nope[0] %>");
	assert_kept("<%$parameters.nothing%>");
	assert_kept("<% $parameters.constructor %>");
	assert_kept("<% . %>");
	assert_kept("<%%>");
	assert_kept("<% $parameters.l[9] %>");
	assert_kept("<% $parameters.l.00 %>");
	assert_kept("<% $parameters.l[99999999999999999999] %>");
	assert_kept("<% $parameters.a.b %>");
	assert_kept("<% $parameters. %>");
	assert_kept("<% $parameters.u[2] %>");
	assert_kept("<% $parameters.u[9] %>");
	assert_kept("<% $secrets.a[0] %>");
}

TEST(test_placeholders_give_the_expected_text)
{
	/* Text without tags is not changed. */
	assert_renders("echo {{ x }} % > < ${a}\n", "echo {{ x }} % > < ${a}\n");
	assert_renders("", "");
	/* Values are inserted as text. */
	assert_renders("<% $parameters.a %><%$parameters.t%>", "1<b> & c");
	assert_renders("<%\t$parameters.real\n%>", "0.1");
	assert_renders("<% $parameters.big %>", "1e+21");
	assert_renders("<% $parameters.inf %>", "Infinity");
	assert_renders("<% $parameters.yes %>", "true");
	assert_renders("<% $parameters.day %>", "2001-01-01");
	assert_renders("[<% $parameters.e %>]", "[]");
	/* Lists and maps are written like javascript. */
	assert_renders("<% $parameters.l %>", "1,2,,x");
	assert_renders("<% $parameters.m %>", "[object Object]");
	assert_renders("<% $parameters %>", "[object Object]");
	/* Paths lead through lists and maps. */
	assert_renders("<% $parameters.l[0] %>", "1");
	assert_renders("<% $parameters.l.1.0 %>", "2");
	assert_renders("<% $parameters.l[1][0] %>", "2");
	assert_renders("<% $parameters.m.x.y[1] %>", "q");
	assert_renders("<% $parameters..k %>", "v");
	/* Length counts utf16 units. */
	assert_renders("<% $parameters.l.length %>", "3");
	assert_renders("<% $parameters.t.length %>", "7");
	assert_renders("<% $parameters.u.length %>", "5"); /* the emoji counts twice */
	assert_renders("<% $parameters.t[0] %>", "<");
	assert_renders("<% $parameters.u.1 %>", "\xc3\xa9");
	assert_renders("<% $parameters.u[4] %>", "z");
	/* Inserted text is not rendered. */
	assert_renders("<% $parameters.self %>", "<% $parameters.a %>");
	/* Other tags are removed. */
	assert_renders("A<%! c %>B<%& $parameters.a %>C<%{ $parameters.a }%>D<%> p %>E", "ABCDE");
	assert_renders("A<%# x %>in <% $parameters.a %> <%^ y %>z<%/ y %><%/ x %>B", "AB");
	/* Lines with only a tag are removed. */
	assert_renders("a\n  <%! c %>  \nb", "a\nb");
	assert_renders("a\n<%# x %>\n inner\n<%/ x %>\nb", "a\nb");
	assert_renders("a\n<%& x %>\nb", "a\n\nb");
	assert_renders("a\n  <% $parameters.two %>\nb", "a\n  v\nw\nb");
}

TEST(test_problems_are_reported_with_their_place)
{
	assert_problem("echo <% $parameters.a", "unclosed", 5);
	assert_problem("a %> <%", "unclosed", 5);
	assert_problem("<%={{ }}=%> {{ x }}", "delimiters", 0);
	assert_problem("a<%# x %>b", "section", 1);
	assert_problem("a<%/ x %>b", "section", 1);
	assert_problem("<%# x %><%# y %><%/ x %><%/ y %>", "section", 16);
}

TEST(test_output_is_capped)
{
	AUTO(done) struct fixture f = fixture();
	f.out.max = 10;
	assert_int_equal(run(&f, "12345 <% $parameters.t %> <% $parameters.t %>"), 0);
	assert_true(f.out.full);
}

TEST(test_only_name_takes_a_single_placeholder)
{
	struct span name = render_only_name(SPAN(" <% $secrets.x %>\n"));
	assert_int_equal(name.n, strlen("$secrets.x"));
	assert_int_equal(render_only_name(SPAN("a<% $secrets.x %>")).n, 0);
	assert_int_equal(render_only_name(SPAN("<% $secrets.x %><% $secrets.x %>")).n, 0);
	assert_int_equal(render_only_name(SPAN("<%! $secrets.x %>")).n, 0);
	assert_int_equal(render_only_name(SPAN("<% $secrets.x")).n, 0);
}

/* CPU time of rendering n times the same piece. */
static double cost(const char *piece, size_t n)
{
	struct fixture f = fixture();
	STR_AUTO text = STR_INIT(64 << 20);
	f.out.max = 64 << 20;
	for (size_t i = 0; i < n; i++)
		str_puts(&text, piece);
	clock_t start = clock();
	(void)run(&f, str_c(&text)); /* refused or not */
	done(&f);
	return (double)(clock() - start) / CLOCKS_PER_SEC;
}

TEST(test_time_to_render_is_linear)
{
	static const char *const PIECES[] = {
		"<% $parameters.a %>", "<% ", "<%", "%>", "<%# x %>", "<%! c %>\n", ".a[0]", " \n"
	};
	for (size_t i = 0; i < ARRAY_SIZE(PIECES); i++)
		assert_true(cost(PIECES[i], 200000) < 2.0); /* quadratic would take minutes */
}

TEST(test_lookups_in_large_maps_are_bounded)
{
	struct node map = { .type = NODE_MAP, .n = 50000 };
	struct member *m = ARENA_NEW(&unit.a, struct member, map.n);
	for (uint32_t i = 0; i < map.n; i++) {
		m[i].key = "k";
		m[i].key_n = 1;
	}
	map.member = m;
	struct root root = { "$parameters", &map };
	struct render r = { .roots = &root, .n_roots = 1 };
	STR_AUTO text = STR_INIT(1 << 20);
	STR_AUTO out = STR_INIT(1 << 20);
	str_many(&text, "<% $parameters.x %>", 10000);
	assert_int_equal(render_text(&r, str_view(&text), &out), -1);
	assert_string_equal(r.problem, "too many placeholders in too large mappings");
}
