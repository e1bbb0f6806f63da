/* Dollars in environment values. */
/* clang-format off */
#include "tests/unit/base/cmocka.h"
/* clang-format on */

#include "translate/names.h"

static void assert_escaped(const char *text, const char *want)
{
	ARENA_AUTO a = { 0 };
	struct span got = kubernetes_escape(&a, span_of(text));
	assert_int_equal(got.n, strlen(want));
	assert_memory_equal(got.p, want, got.n);
	assert_int_equal(kubernetes_escaped_size(span_of(text)), got.n);
}

TEST(test_escape_single_stays)
{
	assert_escaped("$HOME ${x} a$", "$HOME ${x} a$");
}

TEST(test_escape_nothing_to_do_gives_the_same_span)
{
	ARENA_AUTO a = { 0 };
	struct span t = SPAN("echo $HOME");
	assert_ptr_equal(kubernetes_escape(&a, t).p, t.p);
}

TEST(test_escape_parenthesis)
{
	assert_escaped("$(id)", "$$(id)");
	assert_escaped("a $(b) $(c)", "a $$(b) $$(c)");
}

TEST(test_escape_runs)
{
	assert_escaped("$$", "$$$$");
	assert_escaped("$$$", "$$$$$$");
	assert_escaped("$$(x) $$$(y)", "$$$$(x) $$$$$$(y)");
}

TEST(test_escape_empty)
{
	assert_escaped("", "");
}

/* What the kubelet makes of a value: `$$` is `$`, `$(NAME)` of an unknown name stays. */
static void expand(struct str *out, struct span t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (t.p[i] == '$' && i + 1 < t.n && t.p[i + 1] == '$')
			i++;
		else if (t.p[i] == '$' && i + 1 < t.n && t.p[i + 1] == '(')
			str_puts(out, "EXPANDED");
		str_char(out, t.p[i]);
	}
}

TEST(test_escape_comes_back)
{
	ARENA_AUTO a = { 0 };
	enum { LENGTH = 7, COUNT = 2187 }; /* 3^7 texts of `$`, `(` and `x` */
	for (int k = 0; k < COUNT; k++) {
		char text[LENGTH];
		for (int i = 0, rest = k; i < LENGTH; i++, rest /= 3)
			text[i] = "$(x"[rest % 3];
		STR_AUTO out = STR_INIT(1000);
		expand(&out, kubernetes_escape(&a, (struct span){ text, LENGTH }));
		assert_int_equal(out.n, LENGTH);
		assert_memory_equal(out.p, text, LENGTH);
	}
}
