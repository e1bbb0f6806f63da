/* libyaml's memory, with and without a parser of ours. */
#include <stdlib.h>

#include "base/yaml/yaml_input.h"
#include "tests/unit/base/cmocka.h"

/* Those of libyaml, or ours in front of them. */
void *yaml_malloc(size_t n);
void *yaml_realloc(void *p, size_t n);
void yaml_free(void *p);

static void test_yaml_heap_alone(void **state)
{
	(void)state;
	char *p = yaml_malloc(0);
	assert_non_null(p);
	p = yaml_realloc(p, 3);
	memcpy(p, "ab", 3);
	p = yaml_realloc(p, 100000);
	assert_string_equal(p, "ab");
	yaml_free(p);
	yaml_free(NULL);
	p = yaml_realloc(NULL, 5);
	assert_non_null(p);
	free(p); /* it is malloc's, whoever gives it back */
}

static void test_yaml_heap_within(void **state)
{
	(void)state;
	char *v[200];
	char *before = yaml_malloc(16);
	yaml_heap_open();
	yaml_heap_open();
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 200; i++) {
			v[i] = yaml_malloc(i);
			memset(v[i], (int)i, i);
		}
		for (size_t i = 0; i < 200; i++) {
			v[i] = yaml_realloc(v[i], 2 * i + 1);
			v[i][2 * i] = 1;
			for (size_t k = 0; k < i; k++)
				assert_int_equal((unsigned char)v[i][k], i);
		}
		for (size_t i = 0; i < 200; i++)
			yaml_free(v[i]);
	}
	yaml_free(NULL);
	yaml_free(before);      /* from before */
	yaml_free(malloc(100)); /* and from elsewhere */
	free(yaml_malloc(16));
	char *after = yaml_malloc(16);
	yaml_heap_close();
	yaml_heap_close();
	memcpy(after, "0123456789abcde", 16);
	assert_string_equal(after, "0123456789abcde");
	yaml_free(after);
}

/* Two texts of scalars that grow, one read while the other one is. */
static void test_yaml_heap_parsers(void **state)
{
	(void)state;
	yaml_parser_t one;
	yaml_parser_t two;
	yaml_event_t ev;
	STR_AUTO text = STR_INIT(4 << 20);
	for (int i = 0; i < 2000; i++)
		str_printf(&text, "- &a%d %0*d\n- 'x'\n- *a%d\n", i, i, i, i);
	assert_false(text.full);
	parser_open(&one, str_view(&text));
	parser_open(&two, str_view(&text));
	for (int i = 0; i < 1000; i++) {
		assert_true(yaml_parser_parse(&one, &ev));
		yaml_event_delete(&ev);
		assert_true(yaml_parser_parse(&two, &ev));
		yaml_event_delete(&ev);
	}
	parser_close(&one);
	bool more = true;
	size_t scalars = 0;
	while (more) {
		assert_true(yaml_parser_parse(&two, &ev));
		scalars += ev.type == YAML_SCALAR_EVENT;
		more = ev.type != YAML_STREAM_END_EVENT;
		yaml_event_delete(&ev);
	}
	parser_close(&two);
	assert_true(scalars > 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_yaml_heap_alone),
		cmocka_unit_test(test_yaml_heap_within),
		cmocka_unit_test(test_yaml_heap_parsers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
