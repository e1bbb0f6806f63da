/* Dollars in environment values. */
/* clang-format off */
#include "tests/unit/base/cmocka.h"
/* clang-format on */

#include "translate/job/names.h"

TEST(test_escape_doubles_dollars_that_kubernetes_expands)
{
	static const struct {
		const char *text, *want;
	} CASES[] = {
		{ "", "" },
		{ "$HOME ${x} a$", "$HOME ${x} a$" },
		{ "$(id)", "$$(id)" },
		{ "a $(b) $(c)", "a $$(b) $$(c)" },
		{ "$$", "$$$$" },
		{ "$$$", "$$$$$$" },
		{ "$$(x) $$$(y)", "$$$$(x) $$$$$$(y)" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct span text = span_of(CASES[i].text);
		struct span got = kubernetes_escape(&unit.a, text);
		assert_true(span_is(got, CASES[i].want));
		assert_int_equal(kubernetes_escaped_size(text), got.n);
		if (got.n == text.n) /* nothing changes: no copy */
			assert_ptr_equal(got.p, text.p);
	}
}

/* Expands a value like the kubelet: `$$` becomes `$`, `$(NAME)` of an unknown name stays. */
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

TEST(test_escape_and_expansion_give_the_same_text)
{
	enum { LENGTH = 7, COUNT = 2187 }; /* 3^7 texts of `$`, `(` and `x` */
	for (int k = 0; k < COUNT; k++) {
		char text[LENGTH];
		for (int i = 0, rest = k; i < LENGTH; i++, rest /= 3)
			text[i] = "$(x"[rest % 3];
		STR_AUTO out = STR_INIT(1000);
		expand(&out, kubernetes_escape(&unit.a, (struct span){ text, LENGTH }));
		assert_int_equal(out.n, LENGTH);
		assert_memory_equal(out.p, text, LENGTH);
	}
}
